"""Describes the tables: what each is of, its cells, its note, its form."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import TypeVar

from batch_calibration.methods import Group
from batch_calibration.reporting import (
    curves,
    demonstration_labels,
    gains,
    method_tables,
    paper_tables,
    robustness,
    two_way,
)
from batch_calibration.reporting.cells import Cells, notes
from batch_calibration.reporting.controls import Control, find_controls, right_by_likelier_label
from batch_calibration.reporting.grouping import (
    REFERENCES,
    SettingRecords,
    methods_of_group,
    task_title,
)
from batch_calibration.reporting.items import ACROSS, Results, Table, setting_slug

Sized = list[tuple[str, SettingRecords]]  # what stands over a model's columns, and its records
# Each has a slug, a heading and a note.
Study = TypeVar("Study", robustness.Axis, curves.Curves, two_way.Models, two_way.Grid)


@dataclass(frozen=True)
class SettingTable:
    """A kind of table that each setting has for which there are cells."""

    slug: str  # behind the setting's in the file's name
    heading: str  # what it shows; `{}` is the setting
    cells: Callable[[SettingRecords], Cells]  # header and rows; empty where there is no such table
    # The sentences below it, before what a reader of the records must know.
    note: Callable[[SettingRecords], str] = lambda group: ""
    csv: Callable[[SettingRecords], Cells] | None = None  # rows of its CSV file, if it has one
    unit: str = "accuracy in %"  # of its numbers
    number: str = ""  # its number in the paper behind its kind
    is_of_main: bool = False  # whether the main setting alone has it
    is_shown: bool = True  # whether it is shown where the setting has a section, or only written

    def __call__(self, study: Results) -> Iterator[Table]:
        """The tables of a study."""
        for group in study.groups:
            if self.is_of_main and group is not study.main:
                continue
            if rows := self.cells(group):
                yield Table(
                    *setting_slug(group, self.slug), self.heading.format(group.setting), rows,
                    notes(group.all_records, self.note(group)), self.csv and self.csv(group),
                    self.is_shown and group in study.sections, self.unit, self.number,
                )  # fmt: skip


def by_methods(heading: str, slug: str, kind: Group) -> tuple[SettingTable, SettingTable]:
    """Tables of tasks x methods for each setting: accuracy, and what is gained over ICL."""

    def methods_of(group: SettingRecords) -> list[str]:
        methods = group.among(methods_of_group(kind))
        # All but the paper's stand beside icl and bc.
        return group.among([*REFERENCES, *methods]) if methods and kind != "paper" else methods

    return SettingTable(
        slug, heading, lambda group: method_tables.accuracy_cells(group, methods_of(group)),
        lambda group: method_tables.accuracy_note(group, methods_of(group)),
    ), SettingTable(
        f"{slug}-gains", f"{heading}: gain over icl",
        lambda group: method_tables.gain_cells(group, methods_of(group)), gains.note, unit="points",
    )  # fmt: skip


def _of_probabilities(metric: str, name: str, unit: str) -> SettingTable:
    def cells(group: SettingRecords) -> Cells:
        return method_tables.probability_cells(group, metric)

    note = method_tables.PROBABILITIES_NOTE
    return SettingTable(metric, name, cells, lambda group: note, cells, unit, is_shown=False)


# A row a method, over the tasks; and task by task a table a metric, which is only written.
PROBABILITIES = (
    SettingTable(
        "probabilities", "Probabilities over the tasks", method_tables.probability_averages,
        lambda group: method_tables.PROBABILITIES_NOTE, method_tables.probability_averages, "",
    ),
    *(_of_probabilities(metric, *shown) for metric, shown in method_tables.PROBABILITIES.items()),
)  # fmt: skip


def of_studies(study: Results) -> Iterator[Table]:
    """Models x tasks; two choices of the prompt; numbered choices; demonstrations; curves."""
    yield from _in_csv(two_way.find_models(study.groups), two_way.model_cells)
    yield from _in_csv(study.grids, two_way.grid_cells)
    for slug, axes in robustness.by_task(study.axes).items():
        if cells := paper_tables.choice_cells(axes):
            heading = f"Templates and verbalizers by number: {task_title(axes[0].task)}"
            note = notes(chain.from_iterable(axis.records for axis in axes))
            yield Table(ACROSS, f"{slug}-numbered", heading, cells, note, cells, number="Table 7")
    yield from of_demonstration_labels(study)
    yield from _in_csv(study.axes, robustness.accuracy_cells)
    yield from _in_csv(study.curves, curves.accuracy_cells)


def _in_csv(studies: Iterable[Study], make_cells: Callable[[Study], Cells]) -> Iterator[Table]:
    for study in studies:
        cells = make_cells(study)
        yield Table(ACROSS, study.slug, study.heading, cells, study.note, cells)


def of_prompts(study: Results) -> Iterator[Table]:
    """A row a robustness study and task: how far icl moves, how far bc, and how sure that is."""
    axes = [axis for axis in study.axes if axis.is_compared]
    if axes:
        cells, heading = robustness.study_cells(axes), "How much the choice of the prompt matters"
        unit = "accuracy in %, changes in points"
        yield Table(ACROSS, "prompts", heading, cells, robustness.NOTE, cells, unit=unit)


def of_demonstration_labels(study: Results) -> Iterator[Table]:
    """A column a condition: accuracies by either truth, and differences."""
    note = demonstration_labels.NOTE
    for control in study.controls:
        verdict = demonstration_labels.verdict(control)
        yield _control_table(control, "", "", f"{verdict} {note}" if verdict else note)
        cells = demonstration_labels.difference_cells(control)
        yield Table(
            ACROSS, f"{control.slug}-differences", f"{control.heading}; differences", cells,
            demonstration_labels.DIFFERENCES_NOTE, cells,
        )  # fmt: skip
    for control in find_controls(study.records, right_by_likelier_label(study.load)):
        note_on_truth = f"{demonstration_labels.LIKELIER_NOTE}{note}"
        yield _control_table(control, "-likelier", "; the likelier label is right", note_on_truth)


def _control_table(control: Control, slug: str, truth: str, note: str) -> Table:
    return Table(
        ACROSS, f"{control.slug}{slug}", f"{control.heading}{truth}",
        demonstration_labels.accuracy_cells(control), note,
        demonstration_labels.estimate_cells(control),
    )  # fmt: skip


def table_1(study: Results) -> Iterator[Table]:
    """The methods' cost, form and boundary, and what they gain here."""
    if study.main:
        cells = paper_tables.method_cells(study.main)
        yield Table(
            ACROSS, "paper-methods", f"What each method does: {study.main.setting}", cells,
            paper_tables.METHODS_NOTE, cells, unit="gains in points", number="Table 1",
        )  # fmt: skip


def tables_2_and_5(study: Results) -> Iterator[Table]:
    """Models of several sizes side by side; zero-shot, and the size in the middle."""
    ends: Sized = []
    if len(study.sizes) > 1:
        ends = [(group.setting.model, group) for group in (study.sizes[0], study.sizes[-1])]
    zero_shot = [family[0] for family in two_way.sizes(study.groups, 0, study.models)[:1]]
    zero_shot_columns: Sized = []
    for group in (*zero_shot, *study.middle):
        zero_shot_columns.append(
            (f"{group.setting.model} {group.setting.shots}-shot", group.first_seeds())
        )
    for slug, heading, columns, number in (
        ("paper-sizes", "Models of two sizes, 1 shot", ends, "Table 2"),
        ("paper-zero-shot", "Zero-shot and the middle size", zero_shot_columns, "Table 5"),
    ):
        if columns:
            records = chain.from_iterable(group.all_records for _, group in columns)
            cells, note = two_way.size_cells(columns), notes(records, two_way.SIZES_NOTE)
            yield Table(ACROSS, slug, heading, cells, note, cells, number=number)


# What makes each table of a study, in the order in which they are shown.
TABLES: tuple[Callable[[Results], Iterable[Table]], ...] = (
    *by_methods("Methods", "methods", "paper"),
    *by_methods("Published variants", "variants", "variant"),
    *by_methods("Beyond the paper, without labels", "unlabeled", "unlabeled"),
    *by_methods("Beyond the paper, with labels", "labeled", "labeled"),
    # A row a method, whatever its group: accuracy and gain over all tasks.
    SettingTable(
        "overview", "Each method over the tasks", method_tables.overview_cells, gains.note,
        method_tables.overview_csv, "accuracy in %, gain in points",
    ),
    *PROBABILITIES,
    of_prompts,
    table_1,
    tables_2_and_5,
    SettingTable(
        "bcl", "A strength learned from labels: {}", method_tables.bcl_cells,
        lambda group: method_tables.BCL_NOTE, number="Table 3", is_of_main=True,
    ),
    SettingTable(
        "data", "Data: {}", paper_tables.data_cells, paper_tables.data_note, unit="",
        number="Table 4", is_of_main=True,
    ),
    # With the paper's numbers where the setting is the same.
    SettingTable(
        "images", "Zero-shot images", paper_tables.image_cells, paper_tables.image_note,
        number="Table 6",
    ),
    of_studies,
)  # fmt: skip
