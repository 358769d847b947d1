"""The catalogue of results: each table and figure named once, with what it reads and shows."""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from batch_calibration.artifacts import (
    curves,
    gains,
    learned,
    main_table,
    paper,
    probabilities,
    robustness,
)
from batch_calibration.artifacts.cells import Cells, notes, plain_csv
from batch_calibration.artifacts.grouping import SettingRecords, by_setting, title
from batch_calibration.methods import Group
from batch_calibration.records import Record
from batch_calibration.scores import ScoreTable

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ACROSS = "Across settings"
"""The section of what varies from one setting to the next."""


class Results(NamedTuple):
    """What tables and figures are made of.

    Attributes:
        records: all of them.
        groups: the same by setting, without those of robustness studies.
        load: the score table of a record, None where it is gone.
        boundary_tasks: how many tasks the figure of boundaries shows, at most.
    """

    records: list[Record]
    groups: list[SettingRecords]
    load: Callable[[Record], ScoreTable | None]
    boundary_tasks: int = 2

    @property
    def apart(self) -> list[SettingRecords]:
        """Settings with a section of their own: a point of a curve has none."""
        return curves.apart(self.groups)


class Table(NamedTuple):
    """One table.

    Attributes:
        section: the setting that it belongs to, or `ACROSS`.
        slug: the file's name without its ending.
        heading: what it shows.
        cells: header and rows.
        note: a sentence below it.
        last: rows at the end that sum up the others.
        csv: what its CSV file holds, None for no such file.
        shown: whether it is printed and in the report, or only written.
        unit: of its numbers.
    """

    section: str
    slug: str
    heading: str
    cells: Cells
    note: str = ""
    last: int = 1
    csv: str | None = None
    shown: bool = True
    unit: str = "accuracy in %"

    @property
    def title(self) -> str:
        """What it shows, and in what."""
        return ", ".join(filter(None, (self.heading, self.unit)))


class Drawing(NamedTuple):
    """One figure, drawn when it is asked for.

    Attributes:
        section: the setting that it belongs to, or `ACROSS`.
        slug: the file's name without its ending.
        heading: what it shows.
        draw: draws it.
        data: the numbers that are drawn, header and rows; None where there are none yet.
    """

    section: str
    slug: str
    heading: str
    draw: "Callable[[], Figure]"
    data: Callable[[], Cells] | None = None


class Entry(NamedTuple):
    """A kind of result: what it is called, and results -> its tables, its figures."""

    name: str
    tables: Callable[[Results], Iterable[Table]] = lambda results: ()
    figures: Callable[[Results], Iterable[Drawing]] = lambda results: ()


def gather(
    records: Iterable[Record],
    load: Callable[[Record], ScoreTable | None] = lambda record: None,
    boundary_tasks: int = 2,
) -> Results:
    """Results of some records; `load` finds their score tables for the figures that need them."""
    every = list(records)
    return Results(every, by_setting(every), load, boundary_tasks)


def tables(results: Results) -> list[Table]:
    """Every table: section by section, and in each in the order of the catalogue."""
    return _in_sections(results, [one for entry in CATALOGUE for one in entry.tables(results)])


def figures(results: Results) -> list[Drawing]:
    """Every figure: section by section, and in each in the order of the catalogue."""
    return _in_sections(results, [one for entry in CATALOGUE for one in entry.figures(results)])


Item = TypeVar("Item", Table, Drawing)


def _in_sections(results: Results, items: list[Item]) -> list[Item]:
    order = [*(str(group.setting) for group in results.groups), ACROSS]
    return sorted(items, key=lambda item: order.index(item.section))


def _by_methods(
    heading: str, slug: str, methods: Callable[[SettingRecords], list[str]]
) -> Callable[[Results], Iterator[Table]]:
    """Tables of tasks x methods for each setting: accuracy, and what is gained over ICL."""

    def make(results: Results) -> Iterator[Table]:
        for group in results.groups:
            chosen, place = methods(group), (str(group.setting), f"{group.setting.slug}-{slug}")
            shown = group in results.apart
            if chosen:
                cells = main_table.accuracy_cells(group, chosen)
                yield Table(
                    *place, heading, cells, note=_below(group, learned.note(group)), shown=shown
                )
            if against := gains.compared(group, chosen):
                yield Table(
                    place[0], f"{place[1]}-gains", f"{heading}: gain over icl",
                    gains.gain_cells(group, against), note=_below(group, gains.NOTE),
                    last=gains.SUMMARY, shown=shown, unit="points",
                )  # fmt: skip

    return make


def _beside(heading: str, slug: str, kind: Group) -> Callable[[Results], Iterator[Table]]:
    return _by_methods(heading, slug, main_table.beside(kind))


def _overview(results: Results) -> Iterator[Table]:
    """A row a method, whatever its group: accuracy and gain over all tasks."""
    for group in results.groups:
        if gains.compared(group, group.methods):
            yield Table(
                str(group.setting), f"{group.setting.slug}-overview", "Each method over the tasks",
                gains.overview_cells(group), note=_below(group, gains.NOTE),
                csv=gains.overview_csv(group), shown=group in results.apart,
                unit="accuracy in %, gain in points",
            )  # fmt: skip


def _probabilities(results: Results) -> Iterator[Table]:
    """A row a method, over the tasks; and task by task a table a metric, which is only written."""
    for group in results.groups:
        note = _below(group, probabilities.NOTE)
        for kind, heading, unit, cells in probabilities.tables(group):
            yield Table(
                str(group.setting), f"{group.setting.slug}-{kind}", heading, cells, note,
                csv=plain_csv(cells), unit=unit,
                shown=group in results.apart and kind not in probabilities.METRICS,
            )  # fmt: skip


def _below(group: SettingRecords, note: str) -> str:
    return " ".join(filter(None, (note, notes(group.every))))


def _beside_paper(results: Results) -> Iterator[Table]:
    for group in results.groups:
        if cells := paper.image_cells(group):
            heading = "Beside the paper's CLIP ViT-B/16"
            slug = f"{group.setting.slug}-paper"
            yield Table(str(group.setting), slug, heading, cells, note=paper.note(group))


def _robustness(results: Results) -> Iterator[Table]:
    for axis in robustness.axes(results.records):
        cells = robustness.accuracy_cells(axis)
        yield Table(
            ACROSS, axis.slug, f"{title(axis.task)} over {axis.name}: {axis.setting}", cells,
            last=robustness.SUMMARY, csv=plain_csv(cells), note=notes(axis.records),
        )  # fmt: skip


def _curve_tables(
    find: Callable[[list[SettingRecords]], list[curves.Curves]],
) -> Callable[[Results], Iterator[Table]]:
    def make(results: Results) -> Iterator[Table]:
        for one in find(results.groups):
            cells = curves.accuracy_cells(one)
            yield Table(ACROSS, one.slug, one.heading, cells, one.note, csv=plain_csv(cells))

    return make


def _curve_figures(
    find: Callable[[list[SettingRecords]], list[curves.Curves]],
) -> Callable[[Results], Iterator[Drawing]]:
    def make(results: Results) -> Iterator[Drawing]:
        from batch_calibration.artifacts.figures import lines

        for one in find(results.groups):
            yield Drawing(ACROSS, f"{one.slug}-curve", one.heading, partial(lines.draw, one))

    return make


def _bars(results: Results) -> Iterator[Drawing]:
    from batch_calibration.artifacts.figures import bars

    for group in results.apart:
        if group.compared:
            heading = f"Average over tasks: {group.setting}"
            yield _of_setting(group, "bars", heading, partial(bars.draw, group))


def _strength(results: Results) -> Iterator[Drawing]:
    from batch_calibration.artifacts.figures import strength

    for group in results.apart:
        if strength.can_draw(group):
            heading = f"Strength of BC: {group.setting}"
            yield _of_setting(group, "strength", heading, partial(strength.draw, group))


def _boundaries(results: Results) -> Iterator[Drawing]:
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


def _boxes(results: Results) -> Iterator[Drawing]:
    from batch_calibration.artifacts.figures import boxes

    for slug, axes in robustness.by_task(robustness.axes(results.records)).items():
        heading = f"One choice of the prompt at a time: {title(axes[0].task)}"
        yield Drawing(ACROSS, f"{slug}-robustness", heading, partial(boxes.draw, axes))


def _of_setting(
    group: SettingRecords, slug: str, heading: str, draw: "Callable[[], Figure]"
) -> Drawing:
    return Drawing(str(group.setting), f"{group.setting.slug}-{slug}", heading, draw)


CATALOGUE = (
    Entry("methods", _by_methods("Methods", "methods", main_table.compared), _bars),
    Entry("variants", _beside("Published variants", "variants", "variant")),
    Entry("unlabeled", _beside("Beyond the paper, without labels", "unlabeled", "unlabeled")),
    Entry("labeled", _beside("Beyond the paper, with labels", "labeled", "labeled")),
    Entry("overview", _overview),
    Entry("probabilities", _probabilities),
    Entry("paper", _beside_paper),
    Entry("boundaries", figures=_boundaries),
    Entry("strength", figures=_strength),
    Entry("robustness", _robustness, _boxes),
    Entry("shots", _curve_tables(curves.by_shots), _curve_figures(curves.by_shots)),
    Entry("probe sizes", _curve_tables(curves.by_probe_size), _curve_figures(curves.by_probe_size)),
    Entry("rows seen", _curve_tables(curves.by_rows_seen), _curve_figures(curves.by_rows_seen)),
)
"""Each table and figure, in the order in which they are shown."""
