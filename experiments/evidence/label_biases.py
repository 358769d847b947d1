r"""Measures how labels of demonstrations change answers, before and after each correction.

python -m experiments.evidence.label_biases --config=configs/demo_labels.py \
    --config.limit=250 --workdir=W

`--config.model=` and `--config.data=` select another model. docs/results.md explains the tables.
"""

from pathlib import Path

from absl import app, flags
from ml_collections import config_flags

from batch_calibration.settings import Settings
from experiments.guard import guarded, machine_flags, parse_flags, set_up_machine

CONFIG = config_flags.DEFINE_config_file(
    "config", None, "the study that gives tasks, model, seeds and limit", lock_config=True
)
WORKDIR = flags.DEFINE_string(
    "workdir",
    None,
    "folder for the scores and the tables; do not use it for another study",
    required=True,
)
flags.mark_flag_as_required("config")
machine_flags()


def main() -> None:
    """Scores every context that the workdir does not hold yet, and prints the tables."""
    from experiments.evidence import label_sequences

    set_up_machine()
    print(label_sequences.run(Settings.of(**CONFIG.value.to_dict()), Path(WORKDIR.value)))


if __name__ == "__main__":
    app.run(guarded(main), flags_parser=parse_flags)
