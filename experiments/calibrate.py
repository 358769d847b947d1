"""Calibrate stored scores with every method; no model is needed.

python -m experiments.calibrate --workdir=W --method_options=bc_running.batch_size=8
python -m experiments.calibrate --workdir=W --config=configs/probe_size.py:mini --tasks=sst2,mnli
"""

from absl import app, flags
from ml_collections import config_flags

from batch_calibration.cli import studies
from batch_calibration.studies import calibrate_study
from experiments import guard

CONFIG = config_flags.DEFINE_config_file(
    "config", None, "the study whose keys of `calibration` are taken", lock_config=True
)
WORKDIR = flags.DEFINE_string("workdir", None, "folder with scores", required=True)
FLOOR = flags.DEFINE_float("floor", None, "raise scores below it, -inf too, to this many nats")
TASKS = flags.DEFINE_list("tasks", [], "calibrate scores of these tasks alone")
SHOTS = flags.DEFINE_integer("shots", None, "calibrate scores of so many shots alone")
guard.calibration_flags()
guard.machine_flags()


def main() -> None:
    """Write one record for each stored table that is asked for."""
    guard.set_up_machine()
    workdir, settings, shots = WORKDIR.value, guard.calibration_settings(), SHOTS.value
    report = calibrate_study(workdir, settings, floor=FLOOR.value, tasks=TASKS.value, shots=shots)
    studies.show_calibration(report, workdir)


if __name__ == "__main__":
    app.run(guard.guarded(main), flags_parser=guard.parse_flags)
