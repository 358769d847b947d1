"""The catalogue of results: each table and figure named once, with what it reads and shows."""

from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import TypeVar

from batch_calibration.artifacts import curves
from batch_calibration.artifacts import drawings as draw
from batch_calibration.artifacts import tables as make
from batch_calibration.artifacts.grouping import by_setting
from batch_calibration.artifacts.items import ACROSS, Drawing, Results, Table
from batch_calibration.scores import ScoreTable
from batch_calibration.store import Record

__all__ = ["ACROSS", "FIGURES", "TABLES", "Drawing", "Results", "Table", "figures", "gather",
           "tables"]  # fmt: skip


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
    return _in_sections(study, chain.from_iterable(find(study) for find in TABLES))


def figures(study: Results) -> list[Drawing]:
    """Every figure: section by section, and in each in the order of the catalogue."""
    return _in_sections(study, chain.from_iterable(find(study) for find in FIGURES))


Artifact = TypeVar("Artifact", Table, Drawing)


def _in_sections(study: Results, artifacts: Iterable[Artifact]) -> list[Artifact]:
    order = [*(str(group.setting) for group in study.groups), ACROSS]
    return sorted(artifacts, key=lambda artifact: order.index(artifact.section))


# What makes each table and figure of some results, in the order in which they are shown.
TABLES: tuple[make.Maker, ...] = (
    *make.by_methods("Methods", "methods", "paper"),
    *make.by_methods("Published variants", "variants", "variant"),
    *make.by_methods("Beyond the paper, without labels", "unlabeled", "unlabeled"),
    *make.by_methods("Beyond the paper, with labels", "labeled", "labeled"),
    make.OVERVIEW,
    *make.PROBABILITIES,
    make.of_prompts,
    make.table_1,
    make.tables_2_and_5,
    make.TABLE_3,
    make.TABLE_4,
    make.TABLE_6,
    make.MODELS,
    make.GRIDS,
    make.table_7,
    make.of_demonstration_labels,
    make.ROBUSTNESS,
    *make.CURVES,
)
FIGURES: tuple[Callable[[Results], Iterable[Drawing]], ...] = (
    draw.of_methods,
    draw.of_prompts,
    draw.figure_1,
    draw.figure_7,
    draw.figures_3_and_4,
    draw.of_boundaries,
    draw.of_strength,
    draw.of_grids,
    draw.of_demonstration_labels,
    draw.of_robustness,
    draw.of_curves(curves.by_shots, "Figure 6"),
    draw.of_curves(curves.by_probe_size, "Figure 9", sections=True),
    draw.of_curves(curves.by_rows_seen, sections=True),
)
