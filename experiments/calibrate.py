"""Calibrate stored scores with every method; no model is needed.

python -m experiments.calibrate --workdir=W --method_options=bc_running.batch_size=8
python -m experiments.calibrate --workdir=W --config=configs/mini_probe_size.py --tasks=sst2,mnli
"""

from absl import flags

from batch_calibration.cli import studies
from experiments import cli

WORKDIR = cli.folder_flag("folder with scores")
# `cli.configured_settings` reads it.
CONFIG = cli.config_flag("study whose keys of `calibration` are taken", required=False)
FLOOR = flags.DEFINE_float("floor", None, "raise scores below it, -inf too, to this many nats")
TASKS = flags.DEFINE_list("tasks", [], "calibrate scores of these tasks alone")
SHOTS = flags.DEFINE_integer("shots", None, "calibrate scores of so many shots alone")
# These go before the config's keys.
cli.key_flags("calibration")
cli.machine_flags()


def main() -> None:
    """Write one record per stored table that is asked for."""
    cli.set_up_machine()
    settings = cli.configured_settings().calibration
    studies.calibrate(
        WORKDIR.value, settings, floor=FLOOR.value, tasks=TASKS.value, shots=SHOTS.value
    )


if __name__ == "__main__":
    cli.enter(main, loads=("jax",))
