"""Makes the figures of the catalogue from results, kind by kind; each is drawn when asked for."""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

from batch_calibration.artifacts import curves, gains, robustness
from batch_calibration.artifacts.cells import Cells
from batch_calibration.artifacts.grouping import SettingRecords, title
from batch_calibration.artifacts.items import ACROSS, Drawing, Results

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def of_curves(
    find: Callable[[list[SettingRecords]], list[curves.Curves]],
) -> Callable[[Results], Iterator[Drawing]]:
    """A panel a task, of the curves that `find` finds."""

    def make(results: Results) -> Iterator[Drawing]:
        from batch_calibration.artifacts.figures import lines

        for one in find(results.groups):
            yield Drawing(ACROSS, f"{one.slug}-curve", one.heading, partial(lines.draw, one))

    return make


def of_methods(results: Results) -> Iterator[Drawing]:
    """What each method gains over ICL task by task, setting by setting."""
    from batch_calibration.artifacts.figures import differences

    for group in results.apart:
        if methods := gains.compared(group, group.compared):
            heading = f"Gain over icl, task by task: {group.setting}"
            draw = partial(differences.draw, group, methods)
            data = partial(gains.gain_cells, group, methods)
            yield _of_setting(group, "differences", heading, draw, data)


def of_strength(results: Results) -> Iterator[Drawing]:
    """Accuracy against the strength, setting by setting."""
    from batch_calibration.artifacts.figures import strength

    for group in results.apart:
        if strength.can_draw(group):
            heading = f"Strength of BC: {group.setting}"
            yield _of_setting(group, "strength", heading, partial(strength.draw, group))


def of_boundaries(results: Results) -> Iterator[Drawing]:
    """Where each method decides between two labels, setting by setting."""
    from batch_calibration.artifacts.figures import boundaries

    for group in results.apart:
        firsts = (records[0] for records in group.records.values())
        found = (table for record in firsts if (table := results.load(record)))
        some = list(islice(filter(boundaries.can_draw, found), results.boundary_tasks))
        if some:
            setting = str(group.setting)
            yield _of_setting(
                group, "boundaries", f"Decision boundaries: {setting}",
                partial(boundaries.draw, some, setting),
            )  # fmt: skip


def of_robustness(results: Results) -> Iterator[Drawing]:
    """Accuracy as one choice of the prompt varies, task by task."""
    from batch_calibration.artifacts.figures import boxes

    for slug, axes in robustness.by_task(robustness.axes(results.records)).items():
        heading = f"One choice of the prompt at a time: {title(axes[0].task)}"
        yield Drawing(ACROSS, f"{slug}-robustness", heading, partial(boxes.draw, axes))


def of_prompts(results: Results) -> Iterator[Drawing]:
    """Each prompt of a study with icl and with bc, a panel a task."""
    from batch_calibration.artifacts.figures import prompts

    for slug, axes in robustness.by_study(robustness.axes(results.records)).items():
        yield Drawing(
            ACROSS, f"{slug}-prompts", f"{robustness.varied(axes)}: {axes[0].setting}",
            partial(prompts.draw, axes), partial(robustness.prompt_cells, axes),
        )  # fmt: skip


def _of_setting(
    group: SettingRecords,
    slug: str,
    heading: str,
    draw: "Callable[[], Figure]",
    data: Callable[[], Cells] | None = None,
) -> Drawing:
    return Drawing(str(group.setting), f"{group.setting.slug}-{slug}", heading, draw, data)
