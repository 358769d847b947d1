"""Train the mini language model from scratch and write it as a Hugging Face directory.

python -m experiments.train_mini --config=configs/train_mini.py --out=DIR --workdir=W
"""

from itertools import pairwise
from pathlib import Path

from absl import flags
from ml_collections import config_flags

from batch_calibration.artifacts.style import save
from batch_calibration.errors import InputError
from batch_calibration.tasks import TASKS
from experiments.cli import enter
from experiments.pretrain import prose
from experiments.pretrain.fitting import fit
from experiments.pretrain.loss_curve import curve as draw_curve
from experiments.pretrain.progress import read_curve

CONFIG = config_flags.DEFINE_config_file("config", None, "the training run", lock_config=True)
OUT = flags.DEFINE_string("out", None, "directory for the finished checkpoint", required=True)
WORKDIR = flags.DEFINE_string("workdir", None, "directory for state and loss curve", required=True)
flags.mark_flag_as_required("config")


def main() -> None:
    """Train, draw the loss curve, and say how long each phase took."""
    config = CONFIG.value
    if "phases" not in config or "width" not in config:
        raise InputError(
            "--config: expected a training run with phases, found none; give "
            "--config=configs/train_mini.py."
        )
    out, workdir = Path(OUT.value), Path(WORKDIR.value)
    ends = fit(config, out, workdir)
    rows = read_curve(workdir / "curve.jsonl")
    tasks = [name for name in (*TASKS, *prose.KINDS) if any(name in row for row in rows)]
    save(draw_curve(rows, ends, tasks=tasks), workdir / "curve")
    for number, (start, stop) in enumerate(pairwise([0, *ends]), 1):
        spent = sum(row["seconds"] for row in rows if start < row["step"] <= stop)
        print(f"phase {number}: {stop - start} steps, {spent / 60:.1f} minutes")
    print(f"the checkpoint is in {out}, the curve in {workdir}")


if __name__ == "__main__":
    enter(main)
