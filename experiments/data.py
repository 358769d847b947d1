r"""Show where a task's rows come from, what they are, and whether the paper has as many.

python -m experiments.data --task=cb --data_dir=DIR
python -m experiments.data --all --data_dir=DIR
python -m experiments.data --task=tickets.toml

DIR holds a folder per task with a file per split (`cb/validation.jsonl`), TFDS folders, or images
(docs/your-checkpoint.md). A task of one's own is a task file:
    name = "tickets"
    fields = ["subject", "body"]                  # columns of the files
    label_names = ["billing", "bug"]
    labels_are = "names"                          # or "numbers": places in label_names, from 0
    template = "Ticket: {subject}\nKind: {label}"
    verbalizer = {billing = "billing", bug = "bug"}
    files = {train = "train.csv", validation = "validation.csv"}
"""

from absl import flags

from experiments import cli

TASK = flags.DEFINE_string("task", "", "a task's name, or the path of a task file")
ALL = flags.DEFINE_bool("all", False, "every task that the package has")
DATA_DIR = flags.DEFINE_string("data_dir", "", "folder of rows, or 'mini'")


def main() -> None:
    """Show one task, or all of them and a sum."""
    from batch_calibration.errors import InputError
    from experiments import data_census

    if ALL.value == bool(TASK.value):  # both, or neither
        raise InputError("give --task=NAME or --all, and not both.")
    for line in data_census.report(TASK.value, DATA_DIR.value):
        print(line)


if __name__ == "__main__":
    cli.enter(main)
