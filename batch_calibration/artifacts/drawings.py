"""Makes the figures of the catalogue from results, kind by kind; each is drawn when asked for."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice

from batch_calibration.artifacts import (
    curves,
    demonstration_labels,
    gains,
    paper_tables,
    robustness,
    two_labels,
    two_way,
)
from batch_calibration.artifacts.grouping import SettingRecords, task_title
from batch_calibration.artifacts.items import ACROSS, Drawing, Results, setting_slug
from batch_calibration.artifacts.two_labels import Shifted, shift_scores, shifted_cells
from batch_calibration.scores import ScoreTable

BOUNDARY_TASKS = ("sst2", "qnli")
"""Tasks whose boundaries come first: the paper's Fig. 2."""
STRENGTH_TASKS = ("qqp", "cb")
"""Tasks whose strength is drawn by itself: the paper's Fig. 5."""
# The task whose distributions of scores are drawn: the paper's; else the first of two labels.
SCORES_TASK = "qnli"
METHOD_TASK = "sst2"  # the task that illustrates BC; likewise


def of_curves(
    find: Callable[[Sequence[SettingRecords]], list[curves.Curves]],
    number: str = "",
    *,
    sections: bool = False,
) -> Callable[[Results], Iterator[Drawing]]:
    """A panel a task, of the curves that `find` finds; `sections` as in `tables`.

    Those of the main setting's model have a number in the paper.
    """

    def make(study: Results) -> Iterator[Drawing]:
        from batch_calibration.artifacts.figures import lines

        model = f"{study.main.setting.model}-".replace(" ", "-") if study.main else ""
        for curve in find(study.sections if sections else study.groups):
            is_main = curve.slug.startswith(model)
            yield Drawing(
                ACROSS, f"{curve.slug}-curve", curve.heading, partial(lines.draw_curves, curve),
                partial(curves.accuracy_cells, curve), number if is_main else "",
            )  # fmt: skip

    return make


def of_grids(study: Results) -> Iterator[Drawing]:
    """Accuracy over two choices of the prompt that were varied together."""
    from batch_calibration.artifacts.figures import heat_maps

    for grid in two_way.find_grids(study.records):
        yield Drawing(
            ACROSS, f"{grid.slug}-grid", grid.heading, partial(heat_maps.draw_grid, grid),
            partial(two_way.grid_cells, grid),
        )  # fmt: skip


def of_methods(study: Results) -> Iterator[Drawing]:
    """What each method gains over ICL task by task, setting by setting."""
    from batch_calibration.artifacts.figures import intervals

    for group in study.sections:
        if methods := gains.compared(group, group.paper_methods):
            yield Drawing(
                *setting_slug(group, "differences"),
                f"Gain over icl, task by task: {group.setting}",
                partial(intervals.draw_gains, group, methods),
                partial(gains.gain_cells, group, methods),
            )


def of_strength(study: Results) -> Iterator[Drawing]:
    """Accuracy against the strength, setting by setting; of the main one two tasks apart."""
    from batch_calibration.artifacts.figures import lines

    for group in study.sections:
        if not lines.has_strength(group):
            continue
        is_main = group == study.main
        tasks = list(filter(group.records.__contains__, STRENGTH_TASKS))
        if is_main and tasks:
            examples = replace(group, records={task: group.records[task] for task in tasks})
            yield _strength_drawing(examples, "strength-examples", "Figure 5")
        yield _strength_drawing(group, "strength", "Figure 11" if is_main else "")


def _strength_drawing(group: SettingRecords, slug: str, number: str) -> Drawing:
    from batch_calibration.artifacts.figures import lines

    return Drawing(
        *setting_slug(group, slug), f"Strength of BC: {group.setting}",
        partial(lines.draw_strength, group), partial(lines.strength_cells, group), number,
    )  # fmt: skip


def of_boundaries(study: Results) -> Iterator[Drawing]:
    """Where each method decides between two labels, setting by setting; all of the main one."""
    for group in study.sections if study.boundary_tasks else ():
        firsts = [records[0] for records in group.records.values()]
        firsts.sort(key=lambda record: record.context.task not in BOUNDARY_TASKS)
        # Lazily: a score table is read when it is needed, most never.
        loaded = filter(None, map(study.load, firsts))
        drawable = filter(two_labels.can_draw, loaded)
        examples = list(islice(drawable, study.boundary_tasks))
        if not examples:
            continue
        is_main = group == study.main
        yield _boundary_drawing(group, examples, "boundaries", "Figure 2" if is_main else "")
        if is_main and study.all_boundaries:
            of_two = [table for table in (*examples, *drawable) if len(table.label_names) == 2]
            if len(of_two) > len(examples):
                yield _boundary_drawing(group, of_two, "boundaries-all", "Figure 10")


def _boundary_drawing(
    group: SettingRecords, tables: list[ScoreTable], slug: str, number: str
) -> Drawing:
    from batch_calibration.artifacts.figures import scores

    setting = str(group.setting)
    return Drawing(
        *setting_slug(group, slug), f"Decision boundaries: {setting}",
        partial(scores.draw_boundaries, tables, setting), partial(two_labels.row_cells, tables),
        number,
    )  # fmt: skip


def of_robustness(study: Results) -> Iterator[Drawing]:
    """Accuracy as one choice of the prompt varies, task by task."""
    from batch_calibration.artifacts.figures import studies

    for slug, axes in robustness.by_task(study.axes).items():
        heading = f"One choice of the prompt at a time: {task_title(axes[0].task)}"
        yield Drawing(
            ACROSS, f"{slug}-robustness", heading, partial(studies.draw_boxes, axes),
            partial(studies.box_cells, axes), "Figure 8",
        )  # fmt: skip


def of_prompts(study: Results) -> Iterator[Drawing]:
    """Each prompt of a study with icl and with bc, a panel a task."""
    from batch_calibration.artifacts.figures import studies

    for slug, axes in robustness.by_study(study.axes).items():
        heading = f"{robustness.describe_study(axes)}: {axes[0].setting}"
        yield Drawing(
            ACROSS, f"{slug}-prompts", heading, partial(studies.draw_prompts, axes),
            partial(robustness.prompt_cells, axes),
        )  # fmt: skip


def of_demonstration_labels(study: Results) -> Iterator[Drawing]:
    """Accuracy against shots under each condition of the demonstrations, a panel a task."""
    from batch_calibration.artifacts.figures import studies

    for control in study.controls:
        yield Drawing(
            ACROSS, control.slug, control.heading, partial(studies.draw_control, control),
            partial(demonstration_labels.estimate_cells, control),
        )  # fmt: skip


def figure_1(study: Results) -> Iterator[Drawing]:
    """Average over the tasks of each method, a panel a model."""
    from batch_calibration.artifacts.figures import intervals

    panels = {}
    for group in study.sizes:
        methods = group.among(two_way.compared_by_size())
        # All but icl itself have a gain over it.
        if len(gains.compared(group, methods)) < len(methods) - 1:
            continue
        means = {method: gains.mean_accuracy(group, method) for method in methods}
        panels[f"{group.setting.model}, {len(group.records)} tasks"] = means
    if panels:
        heading = "Average over the tasks, 1-shot"
        if len(panels) == 1:
            heading = f"Average over the tasks: {study.sizes[0].setting.describe('1-shot')}"
        yield Drawing(
            ACROSS, "paper-averages", heading, partial(intervals.draw_estimates, panels, heading),
            partial(intervals.estimate_cells, panels), "Figure 1",
        )  # fmt: skip


def figures_3_and_4(study: Results) -> Iterator[Drawing]:
    """How scores are distributed before and after each bias is taken away, and BC at work."""
    from batch_calibration.artifacts.figures import scores

    group = study.main
    if group is None:
        return
    setting = str(group.setting)
    if contexts := _shifted_contexts(study, group, SCORES_TASK):
        yield Drawing(
            *setting_slug(group, "distributions"), f"Score distributions: {setting}",
            partial(scores.draw_distributions, contexts[0], setting),
            partial(shifted_cells, contexts[:1]), "Figure 3",
        )  # fmt: skip
    if contexts := _shifted_contexts(study, group, METHOD_TASK):
        # The two draws of demonstrations whose biases are farthest from one another.
        order = sorted(contexts, key=lambda context: context.preference)
        ends = order[:1] if len(order) == 1 else [order[0], order[-1]]
        yield Drawing(
            *setting_slug(group, "correction"), f"Batch calibration at work: {setting}",
            partial(scores.draw_correction, ends, setting), partial(shifted_cells, ends),
            "Figure 4",
        )  # fmt: skip


def _shifted_contexts(study: Results, group: SettingRecords, preferred: str) -> list[Shifted]:
    """The contexts of the preferred task, else of the first that has two labels."""
    for task in dict.fromkeys((preferred, *group.records)):
        contexts = []
        for record in group.records.get(task, ()):
            table = study.load(record)
            shifted = shift_scores(record, table) if table else None
            contexts += [shifted] if shifted else []
        if contexts:
            return contexts
    return []


def figure_7(study: Results) -> Iterator[Drawing]:
    """Zero-shot images before and after BC, a panel a task."""
    from batch_calibration.artifacts.figures import intervals

    for group in study.groups:
        if panels := paper_tables.image_estimates(group):
            heading = f"Zero-shot images: {group.setting}"
            yield Drawing(
                *setting_slug(group, "image-gains"), heading,
                partial(intervals.draw_estimates, panels, heading),
                partial(intervals.estimate_cells, panels), "Figure 7",
            )  # fmt: skip
