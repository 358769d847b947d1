"""Describes the tables of the catalogue: what each is of, its cells, its note, its form."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import TypeVar

from batch_calibration.artifacts import (
    controls,
    curves,
    demonstration_labels,
    gains,
    method_tables,
    paper_tables,
    robustness,
    two_way,
)
from batch_calibration.artifacts.cells import Cells, notes
from batch_calibration.artifacts.grouping import SettingRecords, task_title
from batch_calibration.artifacts.items import ACROSS, Results, Table, setting_slug
from batch_calibration.methods import Group

Maker = Callable[[Results], Iterable[Table]]
# Each has a slug, a heading and a note.
Study = TypeVar("Study", robustness.Axis, curves.Curves, two_way.Models, two_way.Grid)


def of_settings(
    slug: str,
    heading: str,
    cells: Callable[[SettingRecords], Cells],
    note: Callable[[SettingRecords], str] = lambda group: "",
    find: Callable[[Results], Iterable[SettingRecords]] = lambda study: study.groups,
    csv: Callable[[SettingRecords], Cells] | None = None,
    *,
    is_shown: bool = True,
    unit: str = "accuracy in %",
    number: str = "",
) -> Maker:
    """A table for each setting that has cells for it.

    Args:
        slug: behind the setting's in the file's name.
        heading: what it shows; `{}` is the setting.
        cells: header and rows; empty where the setting has no such table.
        note: the sentences below it, before what a reader of the records must know.
        find: the settings, all by default.
        csv: rows of its CSV file, which it has none of by default.
        is_shown: whether it is shown where the setting has a section, or only written.
        unit: of its numbers.
        number: its number in the paper behind its kind.
    """

    def make(study: Results) -> Iterator[Table]:
        for group in find(study):
            if rows := cells(group):
                yield Table(
                    *setting_slug(group, slug), heading.format(group.setting), rows,
                    notes(group.all_records, note(group)), csv and csv(group),
                    is_shown and group in study.sections, unit, number,
                )  # fmt: skip

    return make


def of_studies(
    find: Callable[[Results], Iterable[Study]], cells: Callable[[Study], Cells]
) -> Maker:
    """A table, also as CSV, for each study that `find` finds."""

    def make(study: Results) -> Iterator[Table]:
        for varied in find(study):
            rows = cells(varied)
            yield Table(ACROSS, varied.slug, varied.heading, rows, varied.note, rows)

    return make


def by_methods(heading: str, slug: str, kind: Group) -> tuple[Maker, Maker]:
    """Tables of tasks x methods for each setting: accuracy, and what is gained over ICL."""

    def methods(group: SettingRecords) -> list[str]:
        return method_tables.table_methods(group, kind)

    return of_settings(
        slug, heading, lambda group: method_tables.accuracy_cells(group, methods(group)),
        lambda group: method_tables.accuracy_note(group, methods(group)),
    ), of_settings(
        f"{slug}-gains", f"{heading}: gain over icl",
        lambda group: gains.gain_cells(group, methods(group)), gains.note, unit="points",
    )  # fmt: skip


# A row a method, whatever its group: accuracy and gain over all tasks.
OVERVIEW = of_settings(
    "overview", "Each method over the tasks", gains.overview_cells, gains.note,
    csv=gains.overview_csv, unit="accuracy in %, gain in points",
)  # fmt: skip


def _of_probabilities(metric: str, name: str, unit: str) -> Maker:
    def cells(group: SettingRecords) -> Cells:
        return method_tables.probability_cells(group, metric)

    return of_settings(
        metric, name, cells, lambda group: method_tables.PROBABILITIES_NOTE, csv=cells,
        is_shown=False, unit=unit,
    )  # fmt: skip


# A row a method, over the tasks; and task by task a table a metric, which is only written.
PROBABILITIES = (
    of_settings(
        "probabilities", "Probabilities over the tasks", method_tables.probability_averages,
        lambda group: method_tables.PROBABILITIES_NOTE, csv=method_tables.probability_averages,
        unit="",
    ),
    *(_of_probabilities(metric, *shown) for metric, shown in method_tables.PROBABILITIES.items()),
)  # fmt: skip


def _main(study: Results) -> list[SettingRecords]:
    return [study.main] if study.main else []


# BC beside BCL, one context a task.
TABLE_3 = of_settings(
    "bcl", "A strength learned from labels: {}", method_tables.bcl_cells,
    lambda group: method_tables.BCL_NOTE, _main, number="Table 3",
)  # fmt: skip
# What each task asks, and how many rows it has.
TABLE_4 = of_settings(
    "data", "Data: {}", paper_tables.data_cells, paper_tables.data_note, _main, unit="",
    number="Table 4",
)  # fmt: skip
# Zero-shot images, with the paper's numbers where the setting is the same.
TABLE_6 = of_settings(
    "images", "Zero-shot images", paper_tables.image_cells, paper_tables.image_note,
    number="Table 6",
)  # fmt: skip
# Models x tasks, where a setting has several models.
MODELS = of_studies(lambda study: two_way.find_models(study.groups), two_way.model_cells)
# Shots x templates, or another two choices of the prompt that were varied together.
GRIDS = of_studies(lambda study: two_way.find_grids(study.records), two_way.grid_cells)
# A row for each choice of the prompt, of each axis and task.
ROBUSTNESS = of_studies(lambda study: study.axes, robustness.accuracy_cells)
# A row for each task and number of the curves.
CURVES = (
    of_studies(lambda study: curves.by_shots(study.groups), curves.accuracy_cells),
    of_studies(lambda study: curves.by_probe_size(study.sections), curves.accuracy_cells),
    of_studies(lambda study: curves.by_rows_seen(study.sections), curves.accuracy_cells),
)


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
    by_likelier_label = controls.right_by_likelier_label(study.load)
    for control in controls.find_controls(study.records, by_likelier_label):
        truth = "; the likelier label is right"
        note = f"{demonstration_labels.LIKELIER_NOTE}{demonstration_labels.NOTE}"
        yield _control_table(control, "-likelier", truth, note)


def _control_table(control: controls.Control, slug: str, truth: str, *sentences: str) -> Table:
    return Table(
        ACROSS, f"{control.slug}{slug}", f"{control.heading}{truth}",
        demonstration_labels.accuracy_cells(control), " ".join(filter(None, sentences)),
        csv=demonstration_labels.estimate_cells(control),
    )  # fmt: skip


def table_1(study: Results) -> Iterator[Table]:
    """The methods' cost, form and boundary, and what they gain here."""
    if study.main:
        cells = paper_tables.method_cells(study.main)
        yield Table(
            ACROSS, "paper-methods", f"What each method does: {study.main.setting}", cells,
            paper_tables.METHODS_NOTE, csv=cells, unit="gains in points", number="Table 1",
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
        columns.append((name, group.first_seeds()))
    if columns:
        yield _size_table("paper-zero-shot", "Zero-shot and the middle size", columns, "Table 5")


def _size_table(
    slug: str, heading: str, columns: Sequence[tuple[str, SettingRecords]], number: str
) -> Table:
    records = chain.from_iterable(group.all_records for _, group in columns)
    cells, note = two_way.size_cells(columns), notes(records, two_way.SIZES_NOTE)
    return Table(ACROSS, slug, heading, cells, note, csv=cells, number=number)


def table_7(study: Results) -> Iterator[Table]:
    """ICL and BC for each template and verbalizer by its number."""
    for slug, axes in robustness.by_task(study.axes).items():
        if cells := paper_tables.choice_cells(axes):
            heading = f"Templates and verbalizers by number: {task_title(axes[0].task)}"
            note = notes(chain.from_iterable(axis.records for axis in axes))
            yield Table(
                ACROSS, f"{slug}-numbered", heading, cells, note, csv=cells, number="Table 7"
            )
