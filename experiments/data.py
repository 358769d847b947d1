'''Show where a task's rows come from, what they are, and whether the paper has as many.

python -m experiments.data --task=cb --data_dir=DIR
python -m experiments.data --all --data_dir=DIR
python -m experiments.data --task=tickets.toml

DIR holds a folder per task with one file per split (`cb/validation.jsonl`; .jsonl.gz, .csv and
.parquet too), or folders that TensorFlow Datasets has prepared. A task of one's own is a card:

    name = "tickets"
    fields = ["subject", "body"]                  # columns of the files
    label_names = ["billing", "bug"]
    labels_are = "names"                          # or "numbers": places in label_names, from 0
    template = """
    Ticket: {subject}
    Kind: {label}"""
    verbalizer = {billing = "billing", bug = "bug"}
    files = {train = "train.csv", validation = "validation.csv"}

Pictures lie in a folder for each class (`dtd/banded/*.jpg`, `svhn/test/7/*.png`), in tables of
paths and labels (`svhn/test.csv`), or in TFDS folders; docs/vision.md says it all. A card of one's
own pictures:

    kind = "image"
    name = "leaves"
    label_names = ["oak", "elm"]
    statements = ["a photo of a {label} leaf."]
    folder = "leaves"
'''

from absl import flags

from batch_calibration.data import census
from batch_calibration.data.sources import read, splits
from batch_calibration.data.task_file import load_task
from batch_calibration.errors import InputError
from batch_calibration.prompts import template
from batch_calibration.tasks import TASKS, Rows, Task
from batch_calibration.tasks.base import IMAGE
from experiments.cli import enter

TASK = flags.DEFINE_string("task", "", "a task's name, or the path of a task card")
ALL = flags.DEFINE_bool("all", False, "every task of the shelf")
DATA_DIR = flags.DEFINE_string("data_dir", "", "folder of rows, or 'mini'")
WIDTH = 100


def show(task: Task, data: str) -> Rows:
    """Print what `data` holds of a task; its test rows, for the sum."""
    found = {split: read(task, data, split) for split in splits(task, data)}
    tested = census.test_split(task)
    test = found.get(tested) or read(task, data, tested)
    print(f"{task.name}: {test.where}")
    for note in test.notes:
        print(f"  {note}")
    print(f"  labels in order: {', '.join(task.label_names)}")
    for rows in found.values():
        split, total, labels, content = census.count(task, rows)
        named = [f"{name} {n:,}" for name, n in zip(task.label_names, labels, strict=False)
                 if n or not task.is_image]  # fmt: skip
        unknown = [f"unknown {labels[-1]:,}"] if labels[-1] else []
        print(f"  {split}: {total:,} rows ({', '.join(named + unknown)}), content {content}")
    print(f"  {census.verdict(task, test)}")
    first = next((i for i, label in enumerate(test.labels) if label >= 0), None)
    if first is not None and task.is_image:
        name = task.label_names[test.labels[first]]
        print(f"  example, {test.ids[first]}:")
        print(f"    | {test.rows[first][IMAGE]}")
        print(f"    | {task.statement.replace('{label}', task.statement_words[name])}")
    elif first is not None:
        form = task.template(1)
        words = task.words[test.labels[first]]
        print(f"  example, {test.ids[first]}:")
        for line in template.demonstration(form, test.rows[first], words).split("\n"):
            print(f"    | {line[:WIDTH] + ' ...' if ALL.value and len(line) > WIDTH else line}")
    return test


def main() -> None:
    """Show one task, or all of them and a sum."""
    if ALL.value == bool(TASK.value):
        raise InputError("give --task=NAME or --all, and not both.")
    if not ALL.value:
        show(load_task(TASK.value), DATA_DIR.value)
        return
    equal: list[str] = []
    other: list[str] = []
    for task in TASKS.values():
        if not splits(task, DATA_DIR.value):
            print(f"{task.name}: no rows of it in {DATA_DIR.value}")
            continue
        test = show(task, DATA_DIR.value)
        if task.test_rows is None:
            continue
        (equal if census.agrees(task, test) else other).append(
            f"{task.name}: {census.verdict(task, test)}"
        )
    print(f"{len(equal)} tasks have as many test rows as the paper's, {len(other)} have not:")
    for line in other:
        print(f"  {line}")


if __name__ == "__main__":
    enter(main)
