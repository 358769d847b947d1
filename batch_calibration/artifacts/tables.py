"""Makes the tables of the catalogue from results, kind by kind."""

from collections.abc import Callable, Iterator, Sequence
from itertools import chain

from batch_calibration.artifacts import (
    curves,
    demonstration_labels,
    gains,
    method_tables,
    paper_tables,
    robustness,
    two_way,
)
from batch_calibration.artifacts.cells import notes
from batch_calibration.artifacts.controls import Control, find_controls, right_by_likelier_label
from batch_calibration.artifacts.grouping import SettingRecords, task_title
from batch_calibration.artifacts.items import ACROSS, Results, Table, setting_slug
from batch_calibration.methods import Group


def by_methods(heading: str, slug: str, kind: Group) -> Callable[[Results], Iterator[Table]]:
    """Tables of tasks x methods for each setting: accuracy, and what is gained over ICL."""

    def make(study: Results) -> Iterator[Table]:
        for group in study.groups:
            methods, is_shown = method_tables.table_methods(group, kind), group in study.sections
            if methods:
                yield Table(
                    *setting_slug(group, slug), heading,
                    method_tables.accuracy_cells(group, methods),
                    notes(group.all_records, method_tables.accuracy_note(group, methods)),
                    method_tables.summary_rows(group, methods), shown=is_shown,
                )  # fmt: skip
            if compared := gains.compared(group, methods):
                yield Table(
                    *setting_slug(group, f"{slug}-gains"), f"{heading}: gain over icl",
                    gains.gain_cells(group, compared), notes(group.all_records, gains.note(group)),
                    gains.SUMMARY_ROWS, shown=is_shown, unit="points",
                )  # fmt: skip

    return make


def overview(study: Results) -> Iterator[Table]:
    """A row a method, whatever its group: accuracy and gain over all tasks."""
    for group in study.groups:
        if gains.compared(group, group.methods):
            yield Table(
                *setting_slug(group, "overview"), "Each method over the tasks",
                gains.overview_cells(group), notes(group.all_records, gains.note(group)),
                csv=gains.overview_csv(group), shown=group in study.sections,
                unit="accuracy in %, gain in points",
            )  # fmt: skip


def of_probabilities(study: Results) -> Iterator[Table]:
    """A row a method, over the tasks; and task by task a table a metric, which is only written."""
    for group in study.groups:
        note = notes(group.all_records, method_tables.PROBABILITIES_NOTE)
        for slug, heading, unit, cells in method_tables.probability_tables(group):
            is_by_task = slug in method_tables.PROBABILITIES
            yield Table(
                *setting_slug(group, slug), heading, cells, note,
                summary_rows=int(is_by_task), csv=cells,
                shown=group in study.sections and not is_by_task, unit=unit,
            )  # fmt: skip


def of_prompts(study: Results) -> Iterator[Table]:
    """A row a robustness study and task: how far icl moves, how far bc, and how sure that is."""
    axes = [axis for axis in study.axes if axis.is_compared]
    if axes:
        cells = robustness.study_cells(axes)
        yield Table(
            ACROSS, "prompts", "How much the choice of the prompt matters", cells,
            robustness.NOTE, csv=cells, unit="accuracy in %, changes in points",
        )  # fmt: skip


def of_demonstration_labels(study: Results) -> Iterator[Table]:
    """A column a condition: accuracies by either truth, and differences."""
    for control in study.controls:
        verdict = demonstration_labels.verdict(control)
        yield _control_table(control, "", "", verdict, demonstration_labels.NOTE)
        cells = demonstration_labels.difference_cells(control)
        yield Table(
            ACROSS, f"{control.slug}-differences", f"{control.heading}; differences", cells,
            demonstration_labels.DIFFERENCES_NOTE, csv=cells,
        )  # fmt: skip
    for control in find_controls(study.records, right_by_likelier_label(study.load)):
        truth = "; the likelier label is right"
        note = f"{demonstration_labels.LIKELIER_NOTE}{demonstration_labels.NOTE}"
        yield _control_table(control, "-likelier", truth, note)


def _control_table(control: Control, slug: str, truth: str, *sentences: str) -> Table:
    return Table(
        ACROSS, f"{control.slug}{slug}", f"{control.heading}{truth}",
        demonstration_labels.accuracy_cells(control), " ".join(filter(None, sentences)),
        csv=demonstration_labels.estimate_cells(control),
    )  # fmt: skip


def of_robustness(study: Results) -> Iterator[Table]:
    """A row for each choice of the prompt, of each axis and task."""
    for axis in study.axes:
        cells = robustness.accuracy_cells(axis)
        heading = f"{task_title(axis.task)} over {axis.name}: {axis.setting}"
        yield Table(
            ACROSS, axis.slug, heading, cells, notes(axis.records),
            summary_rows=robustness.SUMMARY_ROWS, csv=cells,
        )  # fmt: skip


def of_curves(
    find: Callable[[Sequence[SettingRecords]], list[curves.Curves]], *, sections: bool = False
) -> Callable[[Results], Iterator[Table]]:
    """A row for each task and number of the curves that `find` finds.

    With `sections` these are of settings that have a section of their own.
    """

    def make(study: Results) -> Iterator[Table]:
        for curve in find(study.sections if sections else study.groups):
            cells = curves.accuracy_cells(curve)
            yield Table(ACROSS, curve.slug, curve.heading, cells, curve.note, csv=cells)

    return make


def of_models(study: Results) -> Iterator[Table]:
    """Models x tasks, where a setting has several models."""
    for models in two_way.find_models(study.groups):
        cells = two_way.model_cells(models)
        yield Table(
            ACROSS, f"{models.held.slug}-models", f"Models on {models.held}", cells,
            two_way.MODELS_NOTE, csv=cells,
        )  # fmt: skip


def of_grids(study: Results) -> Iterator[Table]:
    """Shots x templates, or another two choices of the prompt that were varied together."""
    for grid in two_way.find_grids(study.records):
        cells = two_way.grid_cells(grid)
        note = notes(chain.from_iterable(grid.records.values()))
        yield Table(ACROSS, grid.slug, grid.heading, cells, note, csv=cells)


def table_1(study: Results) -> Iterator[Table]:
    """The methods' cost, form and boundary, and what they gain here."""
    if study.main:
        cells = paper_tables.method_cells(study.main)
        yield Table(
            ACROSS, "paper-methods", f"What each method does: {study.main.setting}", cells,
            paper_tables.METHODS_NOTE, csv=cells, unit="gains in points",
            number="Table 1",
        )  # fmt: skip


def tables_2_and_5(study: Results) -> Iterator[Table]:
    """Models of several sizes side by side; zero-shot, and the size in the middle."""
    if len(study.sizes) > 1:
        ends = [(group.setting.model, group) for group in (study.sizes[0], study.sizes[-1])]
        yield _size_table("paper-sizes", "Models of two sizes, 1 shot", ends, "Table 2")
    zero_shot = [family[0] for family in two_way.sizes(study.groups, 0, study.models)[:1]]
    columns = []
    for group in (*zero_shot, *study.middle):
        name = f"{group.setting.model} {group.setting.shots}-shot"
        columns += [(name, two_way.first_seeds(group))]
    if columns:
        yield _size_table("paper-zero-shot", "Zero-shot and the middle size", columns, "Table 5")


def _size_table(
    slug: str, heading: str, columns: Sequence[tuple[str, SettingRecords]], number: str
) -> Table:
    records = chain.from_iterable(group.all_records for _, group in columns)
    cells, note = two_way.size_cells(columns), notes(records, two_way.SIZES_NOTE)
    return Table(ACROSS, slug, heading, cells, note, summary_rows=1, csv=cells, number=number)


def table_3(study: Results) -> Iterator[Table]:
    """BC beside BCL, one context a task."""
    if study.main and (cells := paper_tables.bcl_cells(study.main)):
        heading = f"A strength learned from labels: {study.main.setting}"
        section_slug = setting_slug(study.main, "bcl")
        yield Table(
            *section_slug, heading, cells, paper_tables.BCL_NOTE, summary_rows=1, number="Table 3"
        )


def table_4(study: Results) -> Iterator[Table]:
    """What each task asks, and how many rows it has."""
    if study.main and (cells := paper_tables.data_cells(study.main)):
        heading, note = f"Data: {study.main.setting}", paper_tables.data_note(study.main)
        section_slug = setting_slug(study.main, "data")
        yield Table(*section_slug, heading, cells, note, unit="", number="Table 4")


def table_6(study: Results) -> Iterator[Table]:
    """Zero-shot images, with the paper's numbers where the setting is the same."""
    for group in study.groups:
        if cells := paper_tables.image_cells(group):
            note, section_slug = paper_tables.image_note(group), setting_slug(group, "images")
            yield Table(
                *section_slug, "Zero-shot images", cells, note, summary_rows=1, number="Table 6"
            )


def table_7(study: Results) -> Iterator[Table]:
    """ICL and BC for each template and verbalizer by its number."""
    for slug, axes in robustness.by_task(study.axes).items():
        if cells := paper_tables.choice_cells(axes):
            heading = f"Templates and verbalizers by number: {task_title(axes[0].task)}"
            note = notes(chain.from_iterable(axis.records for axis in axes))
            yield Table(
                ACROSS, f"{slug}-numbered", heading, cells, note, csv=cells, number="Table 7"
            )
