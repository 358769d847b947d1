"""What the labels of demonstrations do to a model's answers, before and after each correction.

python -m experiments.label_biases --config=configs/demo_labels.py --config.limit=250 --workdir=W

Any model, by `--config.model=` and `--config.data=`; docs/label-words-study.md reads the tables.
"""

from pathlib import Path

from experiments import cli, machine

CONFIG = cli.config_flag("the study whose tasks, model, seeds and limit are taken")
WORKDIR = cli.folder_flag("folder for the scores and the tables; give it to no other study")


def main() -> None:
    """Score what the workdir does not hold yet, and print the tables."""
    from batch_calibration.artifacts.cells import markdown, plain_csv
    from batch_calibration.files import write_whole
    from experiments import label_sequence_tables as tables
    from experiments.label_sequences import ask
    from experiments.progress import ProgressBar

    machine.set_up()
    workdir = Path(WORKDIR.value)
    with ProgressBar("scoring", "examples") as bar:
        asked = ask(
            cli.configured_settings(),
            workdir,
            lambda now: bar.update(now.done, now.total, now.context),
            print,
        )
    found = tables.measure_all(asked)
    biases, changes = tables.bias_cells(found), tables.change_cells(found)
    text = markdown(biases, tables.NOTE) + "\n" + markdown(changes, tables.CHANGE)
    write_whole(workdir / "label_biases.md", text.encode())
    for name, cells in (("label_biases", biases), ("label_biases_changes", changes)):
        write_whole(workdir / f"{name}.csv", plain_csv(cells).encode())
    print(text)


if __name__ == "__main__":
    cli.enter(main, loads=("jax",))
