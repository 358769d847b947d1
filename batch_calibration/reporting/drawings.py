"""Makes the figures from results; each is drawn on demand."""

from collections.abc import Iterator
from functools import partial
from itertools import chain, islice

from batch_calibration.reporting import curves, frame, items, two_labels
from batch_calibration.reporting.figures import intervals, scores, studies
from batch_calibration.reporting.figures.style import Drawn
from batch_calibration.reporting.frame import Frame
from batch_calibration.reporting.items import Drawing, Results
from batch_calibration.reporting.tables import shown_methods

MAX_TASKS = 60  # with more tasks the figure of gains shows only bc, without names
MAX_PLANES = 13  # planes on a page, as the paper has tasks
LEAST_LEVELS = 3  # levels of a factor that a box shows


def of_study(results: Results, section: str, group: Frame) -> Iterator[Drawing]:
    """Yields the figures of a study: gains, robustness, curves, boundaries, strengths."""
    board = group.board
    methods = [name for name in shown_methods(board) if name in board.compared]
    if methods and len(group) > 1:
        draw = partial(intervals.draw_gains, board, methods)
        if len(board.tasks) > MAX_TASKS and frame.CORRECTED in methods:
            gains = board.gains(frame.CORRECTED)
            titled = {frame.task_title(task): gain for task, gain in gains.items()}
            draw = partial(intervals.draw_contexts, titled, f"Gain of bc by task: {board.heading}")
        yield Drawing(section, f"{section}-gains", draw)
    names = [name for name in group.varying if name not in ("task", "model")]
    names = [name for name in names if len(group.levels(name)) >= LEAST_LEVELS]
    if names and group.has_references:
        draw, number = partial(studies.draw_robustness, group, names), "Figure 8"
        number *= any(name in items.PROMPT and name not in frame.LABELS for name in names)
        yield Drawing(section, f"{section}-robustness", draw, number)
    shots = curves.by_shots(section, group)
    for curve in [*([shots] if shots else []), *curves.find_curves(section, group)]:
        draw = partial(studies.draw_curves, curve)
        yield Drawing(section, curve.slug, draw, curve.number)
    yield from _planes(results, section, board)


def _planes(results: Results, section: str, group: Frame) -> Iterator[Drawing]:
    """Yields the figure of decision boundaries, in a plane for each task."""
    firsts = [task.records[0] for task in group.tasks.values()]

    def draw(most: int) -> Drawn:
        # A score table is read only when it is needed.
        drawable = filter(two_labels.can_draw, filter(None, map(results.load, firsts)))
        return scores.draw_planes([*islice(drawable, most)], group.heading)

    loaded = filter(None, map(results.load, firsts))
    if results.boundary_tasks and any(map(two_labels.can_draw, loaded)):
        of_files = partial(draw, results.boundary_tasks)
        of_page = partial(draw, MAX_PLANES)
        yield Drawing(section, f"{section}-boundaries", of_files, draw_for_page=of_page)


def make_figures(results: Results) -> list[Drawing]:
    """Makes every figure, study by study."""
    studies_of = results.studies.items()
    return list(chain.from_iterable(of_study(results, *named) for named in studies_of))
