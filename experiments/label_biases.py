"""What the labels of demonstrations do to a model's answers, before and after each correction.

python -m experiments.label_biases --config=configs/demo_labels.py --config.limit=250 --workdir=W

Any model, by `--config.model=` and `--config.data=`; docs/results.md reads the tables.
"""

from pathlib import Path

from experiments import cli

# `cli.configured_settings` reads it; labels of demonstrations are this program's own.
CONFIG = cli.config_flag("the study whose tasks, model, seeds and limit are taken")
WORKDIR = cli.folder_flag("folder for the scores and the tables; give it to no other study")
cli.machine_flags()


def main() -> None:
    """Score what the workdir does not hold yet, and print the tables."""
    from batch_calibration.cli.progress import ProgressBar
    from experiments import label_sequence_tables as tables
    from experiments.label_sequences import ask

    cli.set_up_machine()
    # The scores lie in the workdir: a second run asks for nothing and only measures.
    workdir = Path(WORKDIR.value)
    with ProgressBar("scoring", "examples") as bar:
        asked_by_key = ask(
            cli.configured_settings(),
            workdir,
            lambda status: bar.update(status.done, status.total, status.context),
            print,
        )
    print(tables.write(tables.measure_all(asked_by_key), workdir))


if __name__ == "__main__":
    cli.enter(main, loads=("jax",))
