"""Writes results for TensorBoard: a run for each setting and method, a scalar for each context."""

from itertools import groupby
from pathlib import Path

from batch_calibration.artifacts.grouping import axis, with_settings
from batch_calibration.artifacts.robustness import value
from batch_calibration.errors import InputError
from batch_calibration.files import file_name
from batch_calibration.store import Record, Records


def write_events(records: Records, folder: Path) -> int:
    """Write `folder/SETTING/METHOD`, with tags `METRIC/TASK` and the seed as step.

    What an earlier call wrote there is replaced. The files hold the time of writing: unlike
    tables, they are not the same bytes twice.

    Returns:
        How many scalars were written.

    Raises:
        InputError: tensorboardX is not installed.
    """
    try:
        from tensorboardX import SummaryWriter
    except ImportError as error:
        raise InputError(
            "TensorBoard's files need tensorboardX: pip install tensorboardX, or leave "
            "--tensorboard out."
        ) from error
    for path in folder.rglob("events.out.tfevents.*"):
        path.unlink()
    runs = {record.id: _run(setting.slug, record) for setting, record in with_settings(records)}

    def place(row: dict[str, object]) -> tuple[str, str]:
        return runs[str(row["id"])], file_name(str(row["method"]))

    rows = sorted(records.rows(), key=place)
    for (run, method), some in groupby(rows, place):
        with SummaryWriter(str(folder / run / method)) as writer:
            for row in some:
                tag = f"{row['metric']}/{row['task'] or 'scores'}"
                writer.add_scalar(tag, row["value"], row["seed"] or 0)
    return len(rows)


def _run(slug: str, record: Record) -> str:
    """The setting, and of a robustness study which prompt."""
    name = axis(record)
    return file_name(f"{slug}-{name}-{value(record)}" if name else slug)
