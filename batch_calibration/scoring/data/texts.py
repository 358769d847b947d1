"""Reads rows of text from the embedded suite, from files, from TFDS folders or from a task file."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import NamedTuple

from batch_calibration.errors import InputError, spell
from batch_calibration.scoring.data import files, images, tfds_folder
from batch_calibration.scoring.data.files import bind
from batch_calibration.scoring.embedded import MINI, suite
from batch_calibration.scoring.inputs import ImageRows
from batch_calibration.scoring.tasks.base import Rows, Task
from batch_calibration.settings import LimitRows

ReadRecords = Callable[[], Iterator[tuple[str, Mapping[str, object]]]]
"""Yields each record of a split with a description of its place."""


class TextSource(NamedTuple):
    """A description of a task's source, and the records of each split."""

    where: str
    splits: dict[str, ReadRecords]


def read(
    task: Task, data: str, split: str, limit: int = 0, limit_rows: LimitRows = "sample"
) -> Rows:
    """Reads the rows of a task's split; with a `limit` other than 0, a sample or the first rows.

    `data` is `"mini"` for the embedded suite, or a folder. In the folder, `<task>/<split>.jsonl`
    (or `extra_<task>/`; `.jsonl.gz`, `.csv`, `.parquet`) holds the task's fields and a `label`, an
    index of `task.label_names` or -1 if unknown. Alternatively, `<TFDS name>/<version>/` is a
    folder that TensorFlow Datasets prepared, such as `super_glue/cb/1.0.2/`. Files take precedence
    over TFDS folders. A task from a task file has its own files, and `data` is ignored.

    A missing split is replaced by the task's stand-in for it; `Rows.split` is the split that was
    read.

    Raises:
      InputError: there are no rows, or a row is invalid; the message names file and row.
    """
    # A negative limit would count from the end.
    if limit < 0:
        raise InputError(where="limit", expected="0 (all rows) or a positive number", got=limit)
    if data == MINI and not task.files:
        return suite.read_rows(task.name, split, limit)._replace(split=split)
    source = _find(task, data)
    if source is None:
        looked = [f"{task.name}/<split>.jsonl", *(f"{name}/<version>/" for name in task.tfds)]
        build = f"`tfds build {task.tfds[0]} --data_dir={data}`" if task.tfds else ""
        remedy = f"; with TensorFlow and a network, {build} prepares it" if build else ""
        raise InputError(
            f"data {data}: no rows of task {task.name}; looked for {', '.join(looked)}"
            f"{remedy}; for your own task, {spell('tasks', 'FILE.toml')} names its files."
        )
    served = files.served_split(task, split, source.splits, source.where)
    rows, labels = [], []
    for where, record in source.splits[served]():
        row, label = bind(task, record, where)
        rows.append(row)
        labels.append(label)
    if not rows:
        raise InputError(f"{source.where}: split {served} is empty, expected at least one row.")
    ids = tuple(f"{task.name}/{served}/{number}" for number in range(len(rows)))
    return Rows(tuple(rows), tuple(labels), ids, source.where, served).limited(limit, limit_rows)


def _find(task: Task, data: str) -> TextSource | None:
    """Finds a task's rows: its own files, else files in the folder `data`, else a TFDS folder."""
    if task.files:
        return _files(task, f"the files of {task.source}", task.files)
    if not data:
        raise InputError.at("", "a folder of rows or 'mini'", "nothing", "give one", "data")
    if not Path(data).is_dir():
        raise InputError.at(f"data {data}", "a folder of rows or 'mini'", "no folder")
    # Files take precedence over a TFDS folder, because a user put them there on purpose.
    paths = files.in_folders(Path(data) / task.name, Path(data) / f"extra_{task.name}")
    if paths:
        return _files(task, f"files in {next(iter(paths.values())).parent}", paths)
    prepared = tfds_folder.find_prepared(task, Path(data))
    if prepared is None:
        return None
    # This imports TensorFlow Datasets, so it comes last.
    builder = tfds_folder.open_folder(prepared)
    readers: dict[str, ReadRecords] = {}
    for split in builder.info.splits:
        readers[split] = partial(tfds_folder.prepared_records, task, builder, prepared, split)
    return TextSource(f"TFDS folder {prepared}", readers)


def _files(task: Task, where: str, paths: Mapping[str, Path | str]) -> TextSource:
    readers: dict[str, ReadRecords] = {}
    for split, path in paths.items():
        readers[split] = partial(files.records, task, Path(path))
    return TextSource(where, readers)


class RowReader:
    """A cache that reads each split of a task once per run, for any number of contexts."""

    def __init__(self) -> None:
        self._texts: dict[tuple[str, ...], Rows] = {}
        self._images: dict[tuple[str, ...], ImageRows] = {}

    def texts(
        self, task: Task, data: str, split: str, limit: int = 0, limit_rows: LimitRows = "sample"
    ) -> Rows:
        """Returns the rows of a task of texts, as `read` does."""
        if data == MINI and not task.files:  # The suite caches its rows.
            return read(task, data, split, limit)
        # `source` separates task files with the same name.
        key = task.name, task.source, data, split
        if limit < 0 or key not in self._texts:
            # All rows are cached. `read` refuses a negative limit.
            self._texts[key] = read(task, data, split, min(limit, 0))
        return self._texts[key].limited(limit, limit_rows)

    def training_texts(self, task: Task, data: str, split: str, *, is_needed: bool) -> Rows:
        """Returns the training rows; none if data lack the split and nothing is learned from it."""
        try:
            return self.texts(task, data, split)
        except InputError as error:
            if error.key != f"split of {task.name}":
                raise
            if not is_needed:
                return Rows((), (), (), f"split {split} of {task.name}", split)
            expected = f"the split {split!r}, for demonstrations and labeled rows"
            remedy = f"add it, or give {spell('shots', 0)} and {spell('labeled_per_class', 0)}"
            raise InputError.at(f"task {task.name}", expected, "none", remedy) from error

    def images(self, task: Task, data: str, split: str, limit: int = 0) -> ImageRows:
        """Returns the rows of an image task, as `images.read_images` does."""
        key = task.name, task.source, data, split, str(limit)
        if key not in self._images:
            self._images[key] = images.read_images(task, data, split, limit)
        return self._images[key]
