"""Scores the labels of each context with a model, and stores the scores.

python -m experiments.score --config=configs/mini.py --workdir=W
"""

from absl import app, flags
from ml_collections import config_flags

from batch_calibration.cli import studies
from experiments.guard import config_study, guarded, machine_flags, parse_flags, set_up_machine

CONFIG = config_flags.DEFINE_config_file("config", None, "the study to score", lock_config=True)
WORKDIR = flags.DEFINE_string("workdir", None, "folder for the scores", required=True)
flags.mark_flag_as_required("config")
machine_flags()


def main() -> None:
    """Scores every context of the sweep that the workdir does not hold yet."""
    set_up_machine()
    studies.score(config_study(), WORKDIR.value)


if __name__ == "__main__":
    app.run(guarded(main), flags_parser=parse_flags)
