"""The catalogue of results: each table and figure named once, with what it reads and shows."""

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from batch_calibration.artifacts import curves, drawings, main_table, of_paper
from batch_calibration.artifacts import tables as made
from batch_calibration.artifacts.grouping import by_setting
from batch_calibration.artifacts.items import ACROSS, Drawing, Entry, Results, Table
from batch_calibration.scores import ScoreTable
from batch_calibration.store import Record

__all__ = [
    "ACROSS",
    "CATALOGUE",
    "Drawing",
    "Entry",
    "Results",
    "Table",
    "figures",
    "gather",
    "tables",
]


def gather(
    records: Iterable[Record],
    load: Callable[[Record], ScoreTable | None] = lambda record: None,
    boundary_tasks: int = 2,
    models: Sequence[str] = (),
    *,
    whole: bool = False,
) -> Results:
    """Results of some records; `load` finds their score tables for the figures that need them."""
    every = list(records)
    return Results(every, by_setting(every), load, boundary_tasks, tuple(models), whole)


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


CATALOGUE = (
    Entry(
        "methods", made.by_methods("Methods", "methods", main_table.compared), drawings.of_methods
    ),
    Entry("variants", made.beside("Published variants", "variants", "variant")),
    Entry("unlabeled", made.beside("Beyond the paper, without labels", "unlabeled", "unlabeled")),
    Entry("labeled", made.beside("Beyond the paper, with labels", "labeled", "labeled")),
    Entry("overview", made.overview),
    Entry("probabilities", made.of_probabilities),
    Entry("prompts", made.of_prompts, drawings.of_prompts),
    Entry("forms of methods", of_paper.table_1),
    Entry("sizes of models", of_paper.tables_2_and_5, of_paper.figure_1),
    Entry("learned strength", of_paper.table_3),
    Entry("data", of_paper.table_4),
    Entry("images", of_paper.table_6, of_paper.figure_7),
    Entry("shifts", figures=of_paper.figures_3_and_4),
    Entry("boundaries", figures=drawings.of_boundaries),
    Entry("strength", figures=drawings.of_strength),
    Entry("models", made.of_models),
    Entry("grids", made.of_grids, drawings.of_grids),
    Entry("numbered choices", of_paper.table_7),
    Entry("demonstration labels", made.of_demonstration_labels, drawings.of_demonstration_labels),
    Entry("robustness", made.of_robustness, drawings.of_robustness),
    Entry(
        "shots",
        made.of_curves(curves.by_shots),
        drawings.of_curves(curves.by_shots, number="Figure 6"),
    ),
    Entry(
        "probe sizes",
        made.of_curves(curves.by_probe_size, apart=True),
        drawings.of_curves(curves.by_probe_size, number="Figure 9", apart=True),
    ),
    Entry(
        "rows seen",
        made.of_curves(curves.by_rows_seen, apart=True),
        drawings.of_curves(curves.by_rows_seen, apart=True),
    ),
)
"""Each table and figure, in the order in which they are shown."""
