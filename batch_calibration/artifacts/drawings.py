"""Makes the figures of the catalogue from results; each is described when it is asked for."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice

from batch_calibration.artifacts import (
    curves,
    gains,
    paper_tables,
    robustness,
    two_labels,
    two_way,
)
from batch_calibration.artifacts.figures import curves as curve_figures
from batch_calibration.artifacts.figures import heat_maps, intervals, scores, studies
from batch_calibration.artifacts.figures.chart import Chart
from batch_calibration.artifacts.grouping import CORRECTED, SettingRecords
from batch_calibration.artifacts.items import ACROSS, Drawing, Results, Texts, setting_slug
from batch_calibration.artifacts.two_labels import Shifted, shift_scores

BOUNDARY_TASKS = ("sst2", "qnli")
"""Tasks whose boundaries come first: the paper's Fig. 2."""
STRENGTH_TASKS = ("qqp", "cb")
"""Tasks whose strength is drawn by itself: the paper's Fig. 5."""
# The task whose distributions of scores are drawn: the paper's; else the first of two labels.
SCORES_TASK = "qnli"
METHOD_TASK = "sst2"  # the task that illustrates BC; likewise
MAX_TASKS = 200  # of more tasks a page shows the gain of one method alone, for its size
MAX_PLANES = 13  # tasks whose planes a page shows: the paper's


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
        model = f"{study.main.setting.model}-".replace(" ", "-") if study.main else ""
        for curve in find(study.sections if sections else study.groups):
            is_main = curve.slug.startswith(model)
            chart = partial(curve_figures.curve_chart, curve)
            yield Drawing(ACROSS, f"{curve.slug}-curve", chart, number if is_main else "")

    return make


def of_grids(study: Results) -> Iterator[Drawing]:
    """Accuracy over two choices of the prompt that were varied together."""
    for grid in two_way.find_grids(study.records):
        yield Drawing(ACROSS, f"{grid.slug}-grid", partial(heat_maps.grid_chart, grid))


def of_methods(study: Results) -> Iterator[Drawing]:
    """What each method gains over ICL task by task, setting by setting."""
    for group in study.sections:
        methods = gains.compared(group, group.paper_methods)
        # A page lets readers choose among all methods.
        every = gains.compared(group, group.methods)
        if len(group.records) > MAX_TASKS:
            every = _bc_first(methods)[:1]
        if methods:
            yield Drawing(
                *setting_slug(group, "differences"), partial(intervals.gain_chart, group, methods),
                page_chart=_without_texts(partial(intervals.gain_chart, group, _bc_first(every))),
            )  # fmt: skip


def _bc_first(methods: Sequence[str]) -> list[str]:
    return sorted(methods, key=lambda method: method != CORRECTED)


def _without_texts(chart: Callable[[], Chart]) -> Callable[[Texts], Chart]:
    return lambda texts: chart()


def of_strength(study: Results) -> Iterator[Drawing]:
    """Accuracy against the strength, setting by setting; of the main one two tasks apart."""
    for group in study.sections:
        if not curve_figures.has_strength(group):
            continue
        is_main = group == study.main
        tasks = list(filter(group.records.__contains__, STRENGTH_TASKS))
        if is_main and tasks:
            examples = replace(group, records={task: group.records[task] for task in tasks})
            yield Drawing(
                *setting_slug(group, "strength-examples"),
                partial(curve_figures.strength_chart, examples), "Figure 5", is_on_page=False,
            )  # fmt: skip
        yield Drawing(
            *setting_slug(group, "strength"), partial(curve_figures.strength_chart, group),
            "Figure 11" if is_main else "",
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
        is_main, setting = group == study.main, str(group.setting)
        yield Drawing(
            *setting_slug(group, "boundaries"), partial(scores.boundary_chart, examples, setting),
            "Figure 2" if is_main else "", partial(_plane_chart, study, group),
        )  # fmt: skip
        if is_main and study.all_boundaries:
            of_two = [table for table in (*examples, *drawable) if len(table.label_names) == 2]
            if len(of_two) > len(examples):
                yield Drawing(
                    *setting_slug(group, "boundaries-all"),
                    partial(scores.boundary_chart, of_two, setting), "Figure 10",
                    is_on_page=False,
                )  # fmt: skip


def _plane_chart(study: Results, group: SettingRecords, texts: Texts) -> Chart:
    """The planes of the first tasks that can be drawn."""
    loaded = (study.load(records[0]) for records in group.records.values())
    drawable = filter(two_labels.can_draw, filter(None, loaded))
    pairs = [(table, texts(table)) for table in islice(drawable, MAX_PLANES)]
    return scores.plane_chart(pairs, str(group.setting))


def of_robustness(study: Results) -> Iterator[Drawing]:
    """Accuracy as one choice of the prompt varies, task by task."""
    for slug, axes in robustness.by_task(study.axes).items():
        chart = partial(studies.box_chart, axes)
        yield Drawing(ACROSS, f"{slug}-robustness", chart, "Figure 8")


def of_prompts(study: Results) -> Iterator[Drawing]:
    """Each prompt of a study with icl and with bc, a panel a task."""
    for slug, axes in robustness.by_study(study.axes).items():
        yield Drawing(ACROSS, f"{slug}-prompts", partial(studies.prompt_chart, axes))


def of_demonstration_labels(study: Results) -> Iterator[Drawing]:
    """Accuracy against shots under each condition of the demonstrations, a panel a task."""
    for control in study.controls:
        yield Drawing(ACROSS, control.slug, partial(studies.control_chart, control))


def figure_1(study: Results) -> Iterator[Drawing]:
    """Average over the tasks of each method, a panel a model."""
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
        chart = partial(intervals.estimate_chart, panels, heading)
        yield Drawing(ACROSS, "paper-averages", chart, "Figure 1")


def figures_3_and_4(study: Results) -> Iterator[Drawing]:
    """How scores are distributed before and after each bias is taken away, and BC at work."""
    group = study.main
    if group is None:
        return
    setting = str(group.setting)
    if contexts := _shifted_contexts(study, group, SCORES_TASK):
        chart = partial(scores.distribution_chart, contexts[0], setting)
        yield Drawing(*setting_slug(group, "distributions"), chart, "Figure 3")
    if contexts := _shifted_contexts(study, group, METHOD_TASK):
        # The two draws of demonstrations whose biases are farthest from one another.
        order = sorted(contexts, key=lambda context: context.preference)
        ends = order[:1] if len(order) == 1 else [order[0], order[-1]]
        chart = partial(scores.correction_chart, ends, setting)
        yield Drawing(*setting_slug(group, "correction"), chart, "Figure 4")


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
    for group in study.groups:
        if panels := paper_tables.image_estimates(group):
            heading = f"Zero-shot images: {group.setting}"
            chart = partial(intervals.estimate_chart, panels, heading)
            yield Drawing(*setting_slug(group, "image-gains"), chart, "Figure 7")
