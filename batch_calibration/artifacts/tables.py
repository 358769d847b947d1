"""Makes the tables of the catalogue from results, kind by kind."""

from collections.abc import Callable, Iterator

from batch_calibration.artifacts import (
    controls,
    curves,
    demonstration_labels,
    gains,
    main_table,
    probabilities,
    robustness,
    two_way,
)
from batch_calibration.artifacts.cells import notes, plain_csv
from batch_calibration.artifacts.grouping import SettingRecords, title
from batch_calibration.artifacts.items import ACROSS, Results, Table
from batch_calibration.methods import Group


def by_methods(
    heading: str, slug: str, methods: Callable[[SettingRecords], list[str]]
) -> Callable[[Results], Iterator[Table]]:
    """Tables of tasks x methods for each setting: accuracy, and what is gained over ICL."""

    def make(results: Results) -> Iterator[Table]:
        for group in results.groups:
            chosen, place = methods(group), (str(group.setting), f"{group.setting.slug}-{slug}")
            shown = group in results.apart
            if chosen:
                cells = main_table.accuracy_cells(group, chosen)
                said = _below(group, main_table.note(group, chosen))
                last = main_table.summary_rows(group, chosen)
                yield Table(*place, heading, cells, said, last, shown=shown)
            if against := gains.compared(group, chosen):
                yield Table(
                    place[0], f"{place[1]}-gains", f"{heading}: gain over icl",
                    gains.gain_cells(group, against), note=_below(group, gains.note(group)),
                    last=gains.SUMMARY, shown=shown, unit="points",
                )  # fmt: skip

    return make


def beside(heading: str, slug: str, kind: Group) -> Callable[[Results], Iterator[Table]]:
    """As `by_methods`, of another group of methods, with icl and bc beside them."""
    return by_methods(heading, slug, main_table.beside(kind))


def overview(results: Results) -> Iterator[Table]:
    """A row a method, whatever its group: accuracy and gain over all tasks."""
    for group in results.groups:
        if gains.compared(group, group.methods):
            yield Table(
                str(group.setting), f"{group.setting.slug}-overview", "Each method over the tasks",
                gains.overview_cells(group), note=_below(group, gains.note(group)),
                last=0, csv=gains.overview_csv(group), shown=group in results.apart,
                unit="accuracy in %, gain in points",
            )  # fmt: skip


def of_probabilities(results: Results) -> Iterator[Table]:
    """A row a method, over the tasks; and task by task a table a metric, which is only written."""
    for group in results.groups:
        note = _below(group, probabilities.NOTE)
        for kind, heading, unit, cells in probabilities.tables(group):
            yield Table(
                str(group.setting), f"{group.setting.slug}-{kind}", heading, cells, note,
                last=int(kind in probabilities.METRICS), csv=plain_csv(cells), unit=unit,
                shown=group in results.apart and kind not in probabilities.METRICS,
            )  # fmt: skip


def _below(group: SettingRecords, note: str) -> str:
    return " ".join(filter(None, (note, notes(group.every))))


def of_prompts(results: Results) -> Iterator[Table]:
    """A row a robustness study and task: how far icl moves, how far bc, and how sure that is."""
    axes = [one for one in robustness.axes(results.records) if one.compared]
    if axes:
        cells = robustness.study_cells(axes)
        yield Table(
            ACROSS, "prompts", "How much the choice of the prompt matters", cells,
            robustness.NOTE, last=0, csv=plain_csv(cells),
            unit="accuracy in %, changes in points",
        )  # fmt: skip


def of_demonstration_labels(results: Results) -> Iterator[Table]:
    """A column a condition: accuracies by either truth, and differences."""
    for control in controls.controls(results.records):
        said = f"{demonstration_labels.verdict(control)} {demonstration_labels.NOTE}".lstrip()
        yield _of_control(control, "", "", said)
        cells = demonstration_labels.difference_cells(control)
        yield Table(
            ACROSS, f"{control.slug}-differences", f"{control.heading}; differences", cells,
            demonstration_labels.DIFFERENCES, last=0, csv=plain_csv(cells),
        )  # fmt: skip
    known = controls.likelier(results.load)
    for control in controls.controls(results.records, known):
        said = f"{demonstration_labels.LIKELIER}{demonstration_labels.NOTE}"
        yield _of_control(control, "-likelier", "; the likelier label is right", said)


def _of_control(control: controls.Control, slug: str, truth: str, note: str) -> Table:
    return Table(
        ACROSS, f"{control.slug}{slug}", f"{control.heading}{truth}",
        demonstration_labels.accuracy_cells(control), note, last=0,
        csv=plain_csv(demonstration_labels.estimate_cells(control)),
    )  # fmt: skip


def of_robustness(results: Results) -> Iterator[Table]:
    """A row for each choice of the prompt, of each axis and task."""
    for axis in robustness.axes(results.records):
        cells = robustness.accuracy_cells(axis)
        yield Table(
            ACROSS, axis.slug, f"{title(axis.task)} over {axis.name}: {axis.setting}", cells,
            last=robustness.SUMMARY, csv=plain_csv(cells), note=notes(axis.records),
        )  # fmt: skip


def of_curves(
    find: Callable[[list[SettingRecords]], list[curves.Curves]], *, apart: bool = False
) -> Callable[[Results], Iterator[Table]]:
    """A row for each task and number of the curves that `find` finds; `apart` as in `drawings`."""

    def make(results: Results) -> Iterator[Table]:
        for one in find(results.apart if apart else results.groups):
            cells = curves.accuracy_cells(one)
            yield Table(
                ACROSS, one.slug, one.heading, cells, one.note, last=0, csv=plain_csv(cells)
            )

    return make


def of_models(results: Results) -> Iterator[Table]:
    """Models x tasks, where a setting has several models."""
    for found in two_way.models(results.groups):
        cells = two_way.model_cells(found)
        yield Table(
            ACROSS, f"{found.held.slug}-models", f"Models on {found.held}", cells,
            two_way.OF_MODELS, last=0, csv=plain_csv(cells),
        )  # fmt: skip


def of_grids(results: Results) -> Iterator[Table]:
    """Shots x templates, or another two choices of the prompt that were varied together."""
    for grid in two_way.grids(results.records):
        cells = two_way.grid_cells(grid)
        records = (record for some in grid.records.values() for record in some)
        yield Table(
            ACROSS, grid.slug, grid.heading, cells, notes(records), last=0, csv=plain_csv(cells)
        )
