"""Figures of a study: average bars, decision boundaries, strength curves, as PNG and PDF.

python -m experiments.figures --workdir=W
"""

from pathlib import Path

from absl import flags

from batch_calibration.artifacts import boundaries, figures
from batch_calibration.artifacts.study import Study, studies
from batch_calibration.artifacts.style import save
from batch_calibration.store import Store
from experiments.door import enter

WORKDIR = flags.DEFINE_string("workdir", None, "folder with scores and records", required=True)
TASKS_DRAWN = flags.DEFINE_integer("boundary_tasks", 2, "tasks in the figure of boundaries")


def draw(study: Study, store: Store, out: Path) -> list[Path]:
    """Draw one setting."""
    written = save(figures.bars(study), out / f"{study.setting.slug}-bars")
    first = [records[0] for records in study.records.values()][: TASKS_DRAWN.value]
    tables = [table for record in first if (table := store.get(record["context"]))]
    if tables and all({"cc", "dc"} <= set(table.blocks) for table in tables):
        written += save(boundaries.figure(tables), out / f"{study.setting.slug}-boundaries")
    if all("curve" in record for records in study.records.values() for record in records):
        written += save(figures.strength_curves(study), out / f"{study.setting.slug}-strength")
    return written


def main() -> None:
    """Draw every setting in the workdir."""
    store = Store(WORKDIR.value)
    for study in studies(store.records()):
        for path in draw(study, store, store.workdir / "figures"):
            print(path)


if __name__ == "__main__":
    enter(main)
