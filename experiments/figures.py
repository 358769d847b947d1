"""Figures of a study: average bars, decision boundaries, strength curves, as PNG and PDF.

python -m experiments.figures --workdir=W
"""

from pathlib import Path

from absl import flags

from batch_calibration.artifacts import boundaries, curves, figures, robustness
from batch_calibration.artifacts.study import MAIN, Study, studies
from batch_calibration.artifacts.style import save
from batch_calibration.store import Store
from experiments.cli import enter

WORKDIR = flags.DEFINE_string("workdir", None, "folder with scores and records", required=True)
TASKS_DRAWN = flags.DEFINE_integer("boundary_tasks", 2, "tasks in the figure of boundaries")


def draw(study: Study, store: Store, out: Path) -> list[Path]:
    """Draw one setting."""
    written = []
    if study.among(MAIN):
        written += save(figures.bars(study), out / f"{study.setting.slug}-bars")
    first = [records[0] for records in study.records.values()]
    tables = [table for record in first if (table := store.get(record["context"]))]
    tables = [table for table in tables if boundaries.can_draw(table)][: TASKS_DRAWN.value]
    if tables:
        drawn = boundaries.figure(tables, str(study.setting))
        written += save(drawn, out / f"{study.setting.slug}-boundaries")
    if all("curve" in record for records in study.records.values() for record in records):
        written += save(figures.strength_curves(study), out / f"{study.setting.slug}-strength")
    return written


def main() -> None:
    """Draw every setting in the workdir, the curves over settings, and the robustness study."""
    store = Store(WORKDIR.value)
    out, records = store.workdir / "figures", store.records()
    every = studies(records)
    written = [path for study in curves.apart(every) for path in draw(study, store, out)]
    for curve in [*curves.by_shots(every), *curves.by_probe_size(every)]:
        written += save(curves.figure(curve), out / f"{curve.slug}-curve")
    for name, axes in robust(robustness.axes(records)).items():
        written += save(robustness.figure(axes), out / f"{name}-robustness")
    for path in written:
        print(path)


def robust(axes: list[robustness.Axis]) -> dict[str, list[robustness.Axis]]:
    """The axes of one figure: one task and model, whatever the number of shots."""
    groups: dict[str, list[robustness.Axis]] = {}
    for axis in axes:
        name = f"{axis.setting._replace(shots=1).slug}-{axis.task}"
        groups.setdefault(name, []).append(axis)
    return groups


if __name__ == "__main__":
    enter(main)
