"""Turn files of rows into folders that TensorFlow Datasets opens, without TensorFlow.

python -m experiments.prepare_data --source=DIR --data_dir=OUT

DIR holds a folder per task with one file per split, as in `cb/validation.jsonl`; OUT gets
`super_glue/cb/1.0.2/` and so on, named and versioned as the installed TFDS declares them. A file
becomes the split of its name, but for those that --rename lists; no proxy gets an official name.
"""

from pathlib import Path

from absl import flags

from batch_calibration.data import prepare
from batch_calibration.errors import InputError
from batch_calibration.tasks import TASKS
from experiments.cli import enter

SOURCE = flags.DEFINE_string("source", None, "folder of rows", required=True)
DATA_DIR = flags.DEFINE_string("data_dir", None, "folder for the TFDS folders", required=True)
RENAME = flags.DEFINE_list(
    "rename", list(prepare.RENAMED), "task/file=split for rows with another official name"
)


def main() -> None:
    """Write every task that the source has."""
    source, out = Path(SOURCE.value), Path(DATA_DIR.value)
    if not source.is_dir():
        raise InputError(f"{source}: no such folder; --source is a folder of rows.")
    renamed, done = prepare.renames(RENAME.value), 0
    for task in TASKS.values():
        if task.is_image:
            continue
        if not task.tfds:
            print(f"{task.name}: TFDS has no such data set; read it from {source} itself")
            continue
        made = prepare.prepare(task, source, out, renamed)
        if made is None:
            print(f"{task.name}: no files of it in {source}")
            continue
        done += 1
        counts = ", ".join(f"{split} {rows:,}" for split, rows in made.rows.items())
        print(f"{task.name}: {made.folder}: {counts}{' (was there)' if made.kept else ''}")
    if not done:
        raise InputError(
            f"{source}: no files of any task; expected folders like cb/ with validation.jsonl."
        )


if __name__ == "__main__":
    enter(main)
