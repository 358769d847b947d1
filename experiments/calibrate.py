"""Calibrates stored scores with every method. No model is needed.

python -m experiments.calibrate --workdir=W --method_options=bc_running.batch_size=8
python -m experiments.calibrate --workdir=W --config=configs/probe_size.py:mini --tasks=sst2,mnli
"""

from absl import app, flags
from ml_collections import config_flags

from batch_calibration.cli import studies
from experiments import guard

CONFIG = config_flags.DEFINE_config_file(
    "config", None, "the study that gives the keys of `calibration`", lock_config=True
)
WORKDIR = flags.DEFINE_string("workdir", None, "folder with scores", required=True)
FLOOR = flags.DEFINE_float("floor", None, "raise scores below this many nats, -inf too, to it")
TASKS = flags.DEFINE_list("tasks", [], "calibrate only the scores of these tasks")
SHOTS = flags.DEFINE_integer("shots", None, "calibrate only the scores with this number of shots")
guard.calibration_flags()
guard.machine_flags()


def main() -> None:
    """Writes one record for each stored table that the flags select."""
    guard.set_up_machine()
    workdir, settings, shots = WORKDIR.value, guard.calibration_settings(), SHOTS.value
    studies.calibrate(workdir, settings, floor=FLOOR.value, tasks=TASKS.value, shots=shots)


if __name__ == "__main__":
    app.run(guard.guarded(main), flags_parser=guard.parse_flags)
