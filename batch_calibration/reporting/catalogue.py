"""The catalogue of results: each table and figure once, section by section."""

from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import TypeVar

from batch_calibration.reporting.frame import by_setting
from batch_calibration.reporting.items import ACROSS, Drawing, Results, Table
from batch_calibration.reporting.tables import TABLES
from batch_calibration.scores import ScoreTable
from batch_calibration.studies import Record

Artifact = TypeVar("Artifact", Table, Drawing)


def collect(
    records: Iterable[Record],
    load: Callable[[Record], ScoreTable | None] = lambda record: None,
    boundary_tasks: int = 2,
    models: Sequence[str] = (),
    *,
    all_boundaries: bool = False,
) -> Results:
    """Results of some records; `load` finds their score tables for the figures that need them."""
    all_records = list(records)
    return Results(
        all_records, by_setting(all_records), load, boundary_tasks, tuple(models), all_boundaries
    )


def tables(study: Results) -> list[Table]:
    """Every table: section by section, and in each in the order of `TABLES`."""
    return _in_sections(study, chain.from_iterable(make(study) for make in TABLES))


def figures(study: Results) -> list[Drawing]:
    """Every figure: section by section, and in each in the order of `drawings.FIGURES`.

    Raises:
        ImportError: matplotlib is not installed.
    """
    from batch_calibration.reporting.drawings import FIGURES

    return _in_sections(study, chain.from_iterable(find(study) for find in FIGURES))


def _in_sections(study: Results, artifacts: Iterable[Artifact]) -> list[Artifact]:
    order = [*(str(group.setting) for group in study.groups), ACROSS]
    return sorted(artifacts, key=lambda artifact: order.index(artifact.section))
