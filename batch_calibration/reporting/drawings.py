"""Makes the figures from results; each is drawn on demand."""

from collections.abc import Iterator
from functools import partial
from itertools import chain, islice

from batch_calibration.reporting import curves, frame, items, two_labels
from batch_calibration.reporting.figures import intervals, scores, studies
from batch_calibration.reporting.figures.style import Drawn
from batch_calibration.reporting.frame import Frame, task_accuracy
from batch_calibration.reporting.items import Drawing, Results, compared_by_size
from batch_calibration.reporting.tables import shown_methods
from batch_calibration.reporting.two_labels import Shifted, shift_scores

BOUNDARY_TASKS = ("sst2", "qnli")
"""Tasks with boundaries that come first (the paper's Fig. 2)."""
STRENGTH_TASKS = ("qqp", "cb")
"""Tasks with a separate figure of their strength (the paper's Fig. 5)."""
IMAGE_TASKS = ("svhn", "eurosat", "clevr")
"""Tasks of images that are drawn with intervals (the paper's Fig. 7)."""
# The paper's task; if it is missing, the first task with two labels is drawn.
SCORES_TASK = "qnli"  # its scores' distributions are drawn
METHOD_TASK = "sst2"  # it illustrates BC
MAX_TASKS = 200  # with more tasks a page shows only the gain of bc, to stay small
MAX_PLANES = 13  # planes on a page, as the paper has tasks
LEAST_LEVELS = 3  # levels of a factor that a box shows


def of_study(results: Results, section: str, group: Frame) -> Iterator[Drawing]:
    """Yields the figures of a study: gains, robustness, curves, boundaries, strengths."""
    board, is_main = group.board, results.main is not None and section == _section_of(results)
    methods = [name for name in shown_methods(board) if name in board.compared]
    if methods and len(group) > 1:
        # A page with many tasks shows bc only.
        of_page = methods if len(board.tasks) <= MAX_TASKS else [frame.CORRECTED]
        draw, on_page = (partial(intervals.draw_gains, board, m) for m in (methods, of_page))
        yield Drawing(section, f"{section}-gains", draw, draw_for_page=lambda texts: on_page())
    names = [name for name in group.varying if name not in ("task", "model")]
    names = [name for name in names if len(group.levels(name)) >= LEAST_LEVELS]
    if names and group.has_references:
        draw = partial(studies.draw_robustness, group, names)
        yield Drawing(section, f"{section}-robustness", draw, "Figure 8")
    shots = curves.by_shots(section, group)
    for curve in [*([shots] if shots else []), *curves.find_curves(section, group)]:
        draw = partial(studies.draw_curves, curve)
        yield Drawing(section, curve.slug, draw, curve.number)
    yield from _boundaries(results, section, board, is_main=is_main)
    if all(record.searched for record in board.records):
        draw, number = partial(studies.draw_strength, board), "Figure 11" * is_main
        yield Drawing(section, f"{section}-strength", draw, number)
    tasks = list(filter(board.tasks.__contains__, IMAGE_TASKS if board.has_references else ()))
    if tasks:
        panels = {}
        for task in tasks:
            estimates = {m: task_accuracy(board.tasks[task], m) for m in frame.REFERENCES}
            panels[frame.task_title(task)] = estimates
        draw = partial(intervals.draw_estimates, panels, f"Zero-shot images: {board.heading}")
        yield Drawing(section, f"{section}-image-gains", draw, "Figure 7", is_on_page=False)


def _section_of(results: Results) -> str:
    """Returns the study with the contexts of the main model."""
    first = results.main.records[0] if results.main else None
    return next(key for key, group in results.studies.items() if first in group.records)


def of_paper(results: Results) -> Iterator[Drawing]:
    """Yields the paper's figures of one model and of several sizes."""
    group = results.main
    if group is None:
        return
    section, panels = _section_of(results), {}
    for one in results.sizes:
        methods = one.among(compared_by_size())
        # All but icl itself have a gain over it.
        if len(set(methods) & set(one.compared)) == len(methods) - 1:
            means = {method: one.accuracy(method) for method in methods}
            panels[f"{one.levels('model')[0]}, {len(one.tasks)} tasks"] = means
    if panels:
        draw = partial(intervals.draw_estimates, panels, "Average over the tasks, 1-shot")
        yield Drawing(section, "paper-averages", draw, "Figure 1", is_on_page=False)
    if contexts := _shifted_contexts(results, group, SCORES_TASK):
        draw = partial(scores.draw_distributions, contexts[0], group.heading)
        yield Drawing(section, f"{section}-distributions", draw, "Figure 3")
    if contexts := _shifted_contexts(results, group, METHOD_TASK):
        # The two draws of demonstrations with the most different biases.
        order = sorted(contexts, key=lambda context: context.preference)
        ends = order[:1] if len(order) == 1 else [order[0], order[-1]]
        draw = partial(scores.draw_correction, ends, group.heading)
        yield Drawing(section, f"{section}-correction", draw, "Figure 4")
    tasks = list(filter(group.tasks.__contains__, STRENGTH_TASKS))
    if tasks and all(record.searched for record in group.records):
        examples = Frame(list(chain.from_iterable(group.tasks[task].records for task in tasks)))
        draw = partial(studies.draw_strength, examples)
        yield Drawing(section, f"{section}-strength-examples", draw, "Figure 5", is_on_page=False)


def _shifted_contexts(results: Results, group: Frame, preferred: str) -> list[Shifted]:
    """Returns the contexts of the preferred task, or of the first one with two labels."""
    for task in dict.fromkeys((preferred, *group.tasks)):
        contexts = []
        for record in group.tasks[task].records if task in group.tasks else ():
            table = results.load(record)
            shifted = shift_scores(record, table) if table else None
            contexts += [shifted] if shifted else []
        if contexts:
            return contexts
    return []


def _boundaries(
    results: Results, section: str, group: Frame, *, is_main: bool
) -> Iterator[Drawing]:
    """Yields the figure of decision boundaries, and of the main study one of all tasks."""
    firsts = [task.records[0] for task in group.tasks.values()] if results.boundary_tasks else []
    firsts.sort(key=lambda record: record.context.task not in BOUNDARY_TASKS)
    # A score table is read only when it is needed.
    drawable = filter(two_labels.can_draw, filter(None, map(results.load, firsts)))
    examples = list(islice(drawable, results.boundary_tasks))
    if not examples:
        return
    draw, number = partial(scores.draw_boundaries, examples, group.heading), "Figure 2" * is_main
    draw_for_page = partial(_draw_planes, results, group)
    yield Drawing(section, f"{section}-boundaries", draw, number, draw_for_page)
    if is_main and results.all_boundaries:
        of_two = [table for table in (*examples, *drawable) if len(table.label_names) == 2]
        if len(of_two) > len(examples):
            draw, slug = partial(scores.draw_boundaries, of_two, group.heading), "boundaries-all"
            yield Drawing(section, f"{section}-{slug}", draw, "Figure 10", is_on_page=False)


def _draw_planes(results: Results, group: Frame, texts: items.TextsOf) -> Drawn:
    """Draws the planes of the first tasks that can be drawn."""
    firsts = [task.records[0] for task in group.tasks.values()]
    drawable = filter(two_labels.can_draw, filter(None, map(results.load, firsts)))
    pairs = [(table, texts(table)) for table in islice(drawable, MAX_PLANES)]
    return scores.draw_planes(pairs, group.heading)


def make_figures(results: Results) -> list[Drawing]:
    """Makes every figure: study by study, then the paper's."""
    drawings: list[Drawing] = []
    for section, group in results.studies.items():
        drawings += of_study(results, section, group)
    return [*drawings, *of_paper(results)]
