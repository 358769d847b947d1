"""Turn files of rows into folders that TensorFlow Datasets opens, without TensorFlow.

python -m experiments.prepare_data --source=DIR --data_dir=OUT

DIR holds a folder per task with one file per split, as in `cb/validation.jsonl`; OUT gets
`super_glue/cb/1.0.2/` and so on, named and versioned as the installed TFDS declares them. A file
becomes the split of its name, but for those that --rename lists; no proxy gets an official name.
"""

from pathlib import Path

from absl import flags

from experiments import cli

SOURCE = cli.folder_flag("folder of rows", "source")
DATA_DIR = cli.folder_flag("folder for the TFDS folders", "data_dir")
RENAME = flags.DEFINE_list(
    "rename", None, "task/file=split for rows with another official name; ANLI's pools, MNLI's "
    "matched split, AG News and TREC have theirs"
)  # fmt: skip


def main() -> None:
    """Write every task that the source has."""
    from experiments import data_preparation

    # An empty --rename, unlike none, renames nothing.
    pairs = list(data_preparation.RENAMED) if RENAME.value is None else RENAME.value
    renamed = data_preparation.renames(pairs)
    for line in data_preparation.prepare_all(Path(SOURCE.value), Path(DATA_DIR.value), renamed):
        print(line)


if __name__ == "__main__":
    cli.enter(main)
