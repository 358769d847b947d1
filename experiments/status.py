"""How far the runs on a workdir are: what is done, running (by whom), failed (why) and left.

python -m experiments.status --workdir=W
python -m experiments.status --workdir=W --config=configs/mini.py
"""

from absl import flags

from experiments import cli

WORKDIR = cli.folder_flag("folder of the runs")
CONFIG = cli.config_flag("the one study to speak of; all by default", required=False)


def main() -> None:
    """Print the status, a line for each context that is running or failed."""
    from batch_calibration.store import Store
    from batch_calibration.store.status import read_status
    from batch_calibration.study.scoring import plan_name

    given = flags.FLAGS["config"].value is not None
    plan = plan_name(*cli.configured_study()) if given else None
    for line in read_status(Store(WORKDIR.value), plan).lines():
        print(line)


if __name__ == "__main__":
    cli.enter(main)
