"""The catalogue of results: each table and figure named once, with what it reads and shows."""

from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import TypeVar

from batch_calibration.artifacts import curves
from batch_calibration.artifacts import drawings as draw
from batch_calibration.artifacts import tables as make
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
    all_boundaries: bool = False,
) -> Results:
    """Results of some records; `load` finds their score tables for the figures that need them."""
    kept = list(records)
    return Results(kept, by_setting(kept), load, boundary_tasks, tuple(models), all_boundaries)


def tables(study: Results) -> list[Table]:
    """Every table: section by section, and in each in the order of the catalogue."""
    return _in_sections(study, chain.from_iterable(kind.tables(study) for kind in CATALOGUE))


def figures(study: Results) -> list[Drawing]:
    """Every figure: section by section, and in each in the order of the catalogue."""
    drawings = chain.from_iterable(kind.figures(study) for kind in CATALOGUE)
    return _in_sections(study, drawings)


Artifact = TypeVar("Artifact", Table, Drawing)


def _in_sections(study: Results, artifacts: Iterable[Artifact]) -> list[Artifact]:
    order = [*(str(group.setting) for group in study.groups), ACROSS]
    return sorted(artifacts, key=lambda artifact: order.index(artifact.section))


# Each table and figure, in the order in which they are shown.
CATALOGUE = (
    Entry("methods", make.by_methods("Methods", "methods", "paper"), draw.of_methods),
    Entry("variants", make.by_methods("Published variants", "variants", "variant")),
    Entry(
        "unlabeled",
        make.by_methods("Beyond the paper, without labels", "unlabeled", "unlabeled"),
    ),
    Entry("labeled", make.by_methods("Beyond the paper, with labels", "labeled", "labeled")),
    Entry("overview", make.overview),
    Entry("probabilities", make.of_probabilities),
    Entry("prompts", make.of_prompts, draw.of_prompts),
    Entry("forms of methods", make.table_1),
    Entry("sizes of models", make.tables_2_and_5, draw.figure_1),
    Entry("learned strength", make.table_3),
    Entry("data", make.table_4),
    Entry("images", make.table_6, draw.figure_7),
    Entry("shifts", figures=draw.figures_3_and_4),
    Entry("boundaries", figures=draw.of_boundaries),
    Entry("strength", figures=draw.of_strength),
    Entry("models", make.of_models),
    Entry("grids", make.of_grids, draw.of_grids),
    Entry("numbered choices", make.table_7),
    Entry("demonstration labels", make.of_demonstration_labels, draw.of_demonstration_labels),
    Entry("robustness", make.of_robustness, draw.of_robustness),
    Entry("shots", make.of_curves(curves.by_shots), draw.of_curves(curves.by_shots, "Figure 6")),
    Entry(
        "probe sizes",
        make.of_curves(curves.by_probe_size, sections=True),
        draw.of_curves(curves.by_probe_size, "Figure 9", sections=True),
    ),
    Entry(
        "rows seen",
        make.of_curves(curves.by_rows_seen, sections=True),
        draw.of_curves(curves.by_rows_seen, sections=True),
    ),
)
