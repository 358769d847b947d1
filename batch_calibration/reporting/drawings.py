"""Makes the figures from results; each is drawn when it is asked for."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, islice

from batch_calibration.reporting import frame, items, prompts, two_labels
from batch_calibration.reporting.figures import intervals, scores, studies
from batch_calibration.reporting.figures.style import Drawn
from batch_calibration.reporting.frame import Frame, task_accuracy
from batch_calibration.reporting.items import ACROSS, Drawing, Results, setting_slug
from batch_calibration.reporting.two_labels import Shifted, shift_scores

BOUNDARY_TASKS = ("sst2", "qnli")
"""Tasks whose boundaries come first: the paper's Fig. 2."""
STRENGTH_TASKS = ("qqp", "cb")
"""Tasks whose strength is drawn by itself: the paper's Fig. 5."""
IMAGE_TASKS = ("svhn", "eurosat", "clevr")
"""Tasks of images that are drawn with intervals: the paper's Fig. 7."""
# The task whose distributions of scores are drawn: the paper's; else the first of two labels.
SCORES_TASK = "qnli"
METHOD_TASK = "sst2"  # the task that illustrates BC; likewise
MAX_TASKS = 200  # of more tasks a page shows the gain of one method alone, for its size
MAX_PLANES = 13  # tasks whose planes a page shows: the paper's


def of_methods(study: Results) -> Iterator[Drawing]:
    """Gain of each method over ICL, task by task, setting by setting."""
    for group in study.sections:
        methods = list(filter(group.compared.__contains__, group.paper_methods))
        # A page shows all methods, the paper's and ours.
        page_methods = group.compared
        if len(group.tasks) > MAX_TASKS:
            page_methods = _bc_first(methods)[:1]
        if methods:
            draw = partial(intervals.draw_gains, group, methods)
            draw_for_page = partial(_draw_page_gains, group, _bc_first(page_methods))
            yield Drawing(*setting_slug(group, "differences"), draw, draw_for_page=draw_for_page)


def _bc_first(methods: Sequence[str]) -> list[str]:
    return sorted(methods, key=lambda method: method != frame.CORRECTED)


def _draw_page_gains(group: Frame, methods: Sequence[str], texts: items.TextsOf) -> Drawn:
    return intervals.draw_gains(group, methods)


def figure_1(study: Results) -> Iterator[Drawing]:
    """Average over the tasks of each method, a panel a model."""
    panels = {}
    for group in study.sizes:
        methods = group.among(items.compared_by_size())
        # All but icl itself have a gain over it.
        if len(set(methods) & set(group.compared)) == len(methods) - 1:
            means = {method: group.accuracy(method) for method in methods}
            panels[f"{group.setting.model}, {len(group.tasks)} tasks"] = means
    if panels:
        heading = "Average over the tasks, 1-shot"
        if len(panels) == 1:
            heading = f"Average over the tasks: {study.sizes[0].setting}"
        draw = partial(intervals.draw_estimates, panels, heading)
        yield Drawing(ACROSS, "paper-averages", draw, "Figure 1")


def figure_7(study: Results) -> Iterator[Drawing]:
    """Zero-shot images before and after BC, a panel a task."""
    for group in study.groups:
        panels = {}
        for task in filter(group.tasks.__contains__, IMAGE_TASKS if group.has_references else ()):
            estimates = {m: task_accuracy(group.tasks[task], m) for m in frame.REFERENCES}
            panels[frame.task_title(task)] = estimates
        if panels:
            heading = f"Zero-shot images: {group.setting}"
            draw = partial(intervals.draw_estimates, panels, heading)
            yield Drawing(*setting_slug(group, "image-gains"), draw, "Figure 7")


def figures_3_and_4(study: Results) -> Iterator[Drawing]:
    """Distributions of scores before and after each bias is removed, and BC at work."""
    group = study.main
    if group is None:
        return
    setting = str(group.setting)
    if contexts := _shifted_contexts(study, group, SCORES_TASK):
        draw = partial(scores.draw_distributions, contexts[0], setting)
        yield Drawing(*setting_slug(group, "distributions"), draw, "Figure 3")
    if contexts := _shifted_contexts(study, group, METHOD_TASK):
        # The two draws of demonstrations whose biases are farthest from one another.
        order = sorted(contexts, key=lambda context: context.preference)
        ends = order[:1] if len(order) == 1 else [order[0], order[-1]]
        draw = partial(scores.draw_correction, ends, setting)
        yield Drawing(*setting_slug(group, "correction"), draw, "Figure 4")


def _shifted_contexts(study: Results, group: Frame, preferred: str) -> list[Shifted]:
    """The contexts of the preferred task, else of the first that has two labels."""
    for task in dict.fromkeys((preferred, *group.tasks)):
        contexts = []
        for record in group.tasks[task].records if task in group.tasks else ():
            table = study.load(record)
            shifted = shift_scores(record, table) if table else None
            contexts += [shifted] if shifted else []
        if contexts:
            return contexts
    return []


def of_boundaries(study: Results) -> Iterator[Drawing]:
    """Where each method decides between two labels, setting by setting; all of the main one."""
    for group in study.sections if study.boundary_tasks else ():
        firsts = group.first_seeds().records
        firsts.sort(key=lambda record: record.context.task not in BOUNDARY_TASKS)
        # Lazily: a score table is read when it is needed, most never.
        loaded = filter(None, map(study.load, firsts))
        drawable = filter(two_labels.can_draw, loaded)
        examples = list(islice(drawable, study.boundary_tasks))
        if not examples:
            continue
        is_main, setting = group == study.main, str(group.setting)
        draw, number = partial(scores.draw_boundaries, examples, setting), "Figure 2" * is_main
        draw_for_page = partial(_draw_planes, study, group)
        yield Drawing(*setting_slug(group, "boundaries"), draw, number, draw_for_page)
        if is_main and study.all_boundaries:
            of_two = [table for table in (*examples, *drawable) if len(table.label_names) == 2]
            if len(of_two) > len(examples):
                section, slug = setting_slug(group, "boundaries-all")
                draw = partial(scores.draw_boundaries, of_two, setting)
                yield Drawing(section, slug, draw, "Figure 10", is_on_page=False)


def _draw_planes(study: Results, group: Frame, texts: items.TextsOf) -> Drawn:
    """The planes of the first tasks that can be drawn."""
    loaded = map(study.load, group.first_seeds().records)
    drawable = filter(two_labels.can_draw, filter(None, loaded))
    pairs = [(table, texts(table)) for table in islice(drawable, MAX_PLANES)]
    return scores.draw_planes(pairs, str(group.setting))


def of_strength(study: Results) -> Iterator[Drawing]:
    """Accuracy against the strength, setting by setting; of the main one two tasks apart."""
    for group in study.sections:
        if not all(record.searched for record in group.records):
            continue
        is_main = group == study.main
        tasks = list(filter(group.tasks.__contains__, STRENGTH_TASKS))
        if is_main and tasks:
            records = [group.tasks[task].records for task in tasks]
            examples = Frame(group.setting, list(chain.from_iterable(records)))
            section, slug = setting_slug(group, "strength-examples")
            draw = partial(studies.draw_strength, examples)
            yield Drawing(section, slug, draw, "Figure 5", is_on_page=False)
        draw, number = partial(studies.draw_strength, group), "Figure 11" if is_main else ""
        yield Drawing(*setting_slug(group, "strength"), draw, number)


def of_prompts(study: Results) -> Iterator[Drawing]:
    """Each prompt of a study with icl and with bc, a panel a task."""
    for slug, axes in prompts.by_study(study.axes).items():
        yield Drawing(ACROSS, f"{slug}-prompts", partial(studies.draw_prompts, axes))


def of_studies(study: Results) -> Iterator[Drawing]:
    """Two choices of the prompt, one choice at a time, curves."""
    for grid in study.grids:
        yield Drawing(ACROSS, f"{grid.slug}-grid", partial(studies.draw_grid, grid))
    for slug, axes in prompts.by_task(study.axes).items():
        yield Drawing(ACROSS, f"{slug}-robustness", partial(studies.draw_boxes, axes), "Figure 8")
    # Curves of the main setting's model have a number in the paper.
    model = f"{study.main.setting.model}-".replace(" ", "-") if study.main else ""
    for curve in study.curves:
        draw, number = partial(studies.draw_curves, curve), curve.number
        is_main = curve.slug.startswith(model)
        yield Drawing(ACROSS, f"{curve.slug}-curve", draw, number if is_main else "")


OF_PAPER = figure_1, figure_7, figures_3_and_4, of_boundaries, of_strength
# What makes each figure of a study, in the order in which they are shown.
FIGURES: tuple[Callable[[Results], Iterable[Drawing]], ...] = (
    of_methods, of_prompts, *OF_PAPER, of_studies
)  # fmt: skip
