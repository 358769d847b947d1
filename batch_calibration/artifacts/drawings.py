"""Makes the figures of the catalogue from results, kind by kind; each is drawn when asked for."""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

from batch_calibration.artifacts import (
    controls,
    curves,
    demonstration_labels,
    gains,
    robustness,
    two_way,
)
from batch_calibration.artifacts.cells import Cells
from batch_calibration.artifacts.grouping import SettingRecords, title
from batch_calibration.artifacts.items import ACROSS, Drawing, Results
from batch_calibration.scores import ScoreTable

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BOUNDARY_TASKS = ("sst2", "qnli")
"""Tasks whose boundaries come first: the paper's Fig. 2."""
STRENGTH_TASKS = ("qqp", "cb")
"""Tasks whose strength is drawn by itself: the paper's Fig. 5."""


def of_curves(
    find: Callable[[list[SettingRecords]], list[curves.Curves]],
    *,
    number: str = "",
    apart: bool = False,
) -> Callable[[Results], Iterator[Drawing]]:
    """A panel a task, of the curves that `find` finds; `apart`: in settings with a section.

    Those of the main setting's model have a number in the paper.
    """

    def make(results: Results) -> Iterator[Drawing]:
        from batch_calibration.artifacts.figures import lines

        model = f"{results.main.setting.model}-" if results.main else ""
        for one in find(results.apart if apart else results.groups):
            yield Drawing(
                ACROSS, f"{one.slug}-curve", one.heading, partial(lines.draw, one),
                partial(curves.accuracy_cells, one),
                number if one.slug.startswith(model.replace(" ", "-")) else "",
            )  # fmt: skip

    return make


def of_grids(results: Results) -> Iterator[Drawing]:
    """Accuracy over two choices of the prompt that were varied together."""
    from batch_calibration.artifacts.figures import grid

    for one in two_way.grids(results.records):
        yield Drawing(
            ACROSS, f"{one.slug}-grid", one.heading, partial(grid.draw, one),
            partial(two_way.grid_cells, one),
        )  # fmt: skip


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
    """Accuracy against the strength, setting by setting; of the main one two tasks apart."""
    from batch_calibration.artifacts.figures import strength

    for group in results.apart:
        if not strength.can_draw(group):
            continue
        main = group == results.main
        two = {task: group.records[task] for task in STRENGTH_TASKS if task in group.records}
        if main and two:
            yield _of_strength(group._replace(records=two), "strength-examples", "Figure 5")
        yield _of_strength(group, "strength", "Figure 11" if main else "")


def _of_strength(group: SettingRecords, slug: str, number: str) -> Drawing:
    from batch_calibration.artifacts.figures import strength

    heading = f"Strength of BC: {group.setting}"
    return _of_setting(
        group, slug, heading, partial(strength.draw, group), partial(strength.data, group), number
    )


def of_boundaries(results: Results) -> Iterator[Drawing]:
    """Where each method decides between two labels, setting by setting; all of the main one."""
    from batch_calibration.artifacts.figures import boundaries

    for group in results.apart if results.boundary_tasks else ():
        firsts = [records[0] for records in group.records.values()]
        firsts.sort(key=lambda record: record.context.task not in BOUNDARY_TASKS)
        found = (table for record in firsts if (table := results.load(record)))
        can = filter(boundaries.can_draw, found)
        some = list(islice(can, results.boundary_tasks))
        if some:
            main = group == results.main
            yield _of_boundaries(group, some, "boundaries", "Figure 2" if main else "")
            two = [table for table in (*some, *can) if len(table.label_names) == 2]
            if main and results.whole and len(two) > len(some):
                yield _of_boundaries(group, two, "boundaries-all", "Figure 10")


def _of_boundaries(
    group: SettingRecords, tables: list[ScoreTable], slug: str, number: str
) -> Drawing:
    from batch_calibration.artifacts.figures import boundaries

    setting = str(group.setting)
    return _of_setting(
        group, slug, f"Decision boundaries: {setting}", partial(boundaries.draw, tables, setting),
        partial(boundaries.data, tables), number,
    )  # fmt: skip


def of_robustness(results: Results) -> Iterator[Drawing]:
    """Accuracy as one choice of the prompt varies, task by task."""
    from batch_calibration.artifacts.figures import boxes

    for slug, axes in robustness.by_task(robustness.axes(results.records)).items():
        heading = f"One choice of the prompt at a time: {title(axes[0].task)}"
        yield Drawing(
            ACROSS, f"{slug}-robustness", heading, partial(boxes.draw, axes),
            partial(boxes.data, axes), "Figure 8",
        )  # fmt: skip


def of_prompts(results: Results) -> Iterator[Drawing]:
    """Each prompt of a study with icl and with bc, a panel a task."""
    from batch_calibration.artifacts.figures import prompts

    for slug, axes in robustness.by_study(robustness.axes(results.records)).items():
        yield Drawing(
            ACROSS, f"{slug}-prompts", f"{robustness.varied(axes)}: {axes[0].setting}",
            partial(prompts.draw, axes), partial(robustness.prompt_cells, axes),
        )  # fmt: skip


def of_demonstration_labels(results: Results) -> Iterator[Drawing]:
    """Accuracy against shots under each condition of the demonstrations, a panel a task."""
    from batch_calibration.artifacts.figures import demonstration_labels as figure

    for control in controls.controls(results.records):
        yield Drawing(
            ACROSS, control.slug, control.heading, partial(figure.draw, control),
            partial(demonstration_labels.estimate_cells, control),
        )  # fmt: skip


def _of_setting(
    group: SettingRecords,
    slug: str,
    heading: str,
    draw: "Callable[[], Figure]",
    data: Callable[[], Cells] | None = None,
    number: str = "",
) -> Drawing:
    name = f"{group.setting.slug}-{slug}"
    return Drawing(str(group.setting), name, heading, draw, data, number)
