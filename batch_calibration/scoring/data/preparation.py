"""Writes rows from files as folders that TensorFlow Datasets opens, by its names and versions."""

import contextlib
import hashlib
import io
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from batch_calibration.errors import InputError, answering, extra, spell
from batch_calibration.files import is_day_old, temporary_folder
from batch_calibration.scoring.data import files, tfds_folder
from batch_calibration.scoring.data.files import UNKNOWN, bind, schema_of
from batch_calibration.scoring.tasks import TASKS, Task

RENAMED = (
    "mnli/validation=validation_matched",
    "anli_r2/train=test",
    "anli_r3/train=test",
    "agnews/validation=test",
    "trec/validation=test",
)
"""Files whose rows have another official name: ANLI's pools are its test splits, and so on."""
ABSENT = {"idx": -1, "uid": "", "label-fine": UNKNOWN}
"""What stands in a feature that a data set has and many copies of its rows have not."""
FORMAT = "array_record"


class Prepared(NamedTuple):
    """A folder and the number of rows of each split; whether it was there already."""

    folder: Path
    rows: dict[str, int]
    was_there: bool


def renames(pairs: list[str]) -> dict[str, str]:
    """`task/file=split` pairs as a table.

    >>> renames(["trec/validation=test"])
    {'trec/validation': 'test'}
    """
    table = dict(pair.partition("=")[::2] for pair in pairs)  # without the "="
    for file, split in table.items():
        if not split or file.count("/") != 1:
            raise InputError.at(f"rename {file!r}", "task/file=split, as in trec/dev=test")
        # Rows that stand in for hidden ones must never pass for the official split.
        if "proxy" in file:
            raise InputError(f"rename {file!r}: a proxy keeps its own name, not an official one.")
    return table


def prepare_all(source: Path, data_dir: Path, renamed: Mapping[str, str]) -> Iterator[str]:
    """Write every task that the source has; a line on each.

    Raises:
      InputError: no such source, or none with files of any task; what `prepare` raises.
    """
    if not source.is_dir():
        raise InputError(f"{source}: no such folder; {spell('source')} is a folder of rows.")
    task_count = 0
    for task in TASKS.values():
        if task.is_image:  # rows of files are texts
            continue
        if not task.tfds:
            yield f"{task.name}: TFDS has no such data set; read it from {source} itself"
            continue
        prepared = prepare(task, source, data_dir, renamed)
        if prepared is None:
            yield f"{task.name}: no files of it in {source}"
            continue
        task_count += 1
        counts = ", ".join(f"{split} {rows:,}" for split, rows in prepared.rows.items())
        yield f"{task.name}: {prepared.folder}: {counts}{' (was there)' * prepared.was_there}"
    if not task_count:
        raise InputError(
            f"{source}: no files of any task; expected folders like cb/ with validation.jsonl."
        )


def prepare(
    task: Task, source: Path, data_dir: Path, renamed: Mapping[str, str]
) -> Prepared | None:
    """Write a task's files as a TFDS folder under `data_dir`; None where it has no such files.

    A file becomes the split of its own name, or the one that `renamed` gives. Every row is checked
    first; the folder appears whole or not at all.

    Raises:
      InputError: a row that is wrong, or a folder that is there and holds other rows.
    """
    paths = files.by_split(task, source)
    if not paths or not task.tfds:
        return None
    records_by_split, sizes, origins = {}, dict[str, int](), []
    for stem, path in paths.items():
        split = renamed.get(f"{task.name}/{stem}", stem)
        if split in records_by_split:
            raise InputError(
                f"{path}: its split {split} is that of another file too; give "
                f"{spell('rename')} another."
            )
        records_by_split[split] = list(files.records(task, path))
        for where, record in records_by_split[split]:
            bind(task, record, where)  # for its errors alone, so that a wrong row is found here
        sizes[split] = len(records_by_split[split])
        digest = hashlib.sha256(path.read_bytes()).hexdigest()[:16]
        # Kept in the description, which tells folders of other rows apart.
        origins.append(f"{split}: {sizes[split]} rows of {path.name}, sha256 {digest}.")
    # The first row tells which columns the files have.
    _, first_record = next(iter(records_by_split.values()))[0]
    name, version, features = _declared_dataset(task, tuple(first_record))
    examples = {}
    for split, records in records_by_split.items():
        examples[split] = [_example(task, where, record, features) for where, record in records]
    folder = data_dir / name / version
    description = (
        f"Rows of {task.title} as files held them; a split may be a sample of the official one. "
        + " ".join(origins)
    )
    was_there = folder.exists()
    if not was_there:
        _write(name, version, features, examples, description, data_dir)
    # The description holds a hash of every file, so it tells whether a folder is of these rows.
    elif tfds_folder.open_folder(folder).info.description != description:
        raise InputError(
            f"{folder}: it is there and was made from other files; remove it or give another "
            f"{spell('data_dir')}."
        )
    return Prepared(folder, sizes, was_there)


def _declared_dataset(task: Task, present: tuple[str, ...]) -> tuple[str, str, Any]:
    """Name, version and features of the task's data set, as the installed TFDS declares them."""
    mismatches = []
    for name in task.tfds:
        version, features = _declaration(name)
        # By the name of the type: TFDS is imported in one place only.
        texts = {n for n, f in features.items() if type(f).__name__ == "Text"} - set(ABSENT)
        if texts <= {*present, *_official(task, present, features)}:
            label = schema_of(task, tuple(features), name)["label"]
            # Label numbers mean what this order says.
            task.check_label_names(tuple(features[label].names), name)
            return name, version, features
        mismatches.append(f"{name} ({', '.join(sorted(texts))})")
    raise InputError(
        f"task {task.name}: its rows have {', '.join(present)}, which is not what "
        f"{' or '.join(mismatches)} declares; add what is missing."
    )


def _official(task: Task, present: tuple[str, ...], features: Mapping[str, Any]) -> dict[str, str]:
    """The feature of each column of the files that TFDS knows under another name."""
    ours = schema_of(task, present, task.name)
    try:
        theirs = schema_of(task, tuple(features), task.name)
    except InputError:
        return {}
    # Fields of one schema are not renamed into another's: the texts of the two differ.
    is_same_schema = all(ours[field] == theirs[field] for field in task.fields)
    return {theirs["label"]: ours["label"]} if is_same_schema else {}


def _declaration(name: str) -> tuple[str, Any]:
    """Version and features of a data set, from its builder or, for SuperGLUE, its config."""
    with answering(ImportError, "a TFDS folder", "TensorFlow Datasets", extra("data")):
        import numpy as np
        import tensorflow_datasets as tfds
        from tensorflow_datasets.text import glue, super_glue  # noqa: F401, registers the two
    dataset, _, config = name.partition("/")
    if dataset != "super_glue":
        # An empty folder: with data in it the builder would read its features from there.
        with temporary_folder() as empty:
            builder = tfds.builder(name, data_dir=str(empty))
        return str(builder.version), builder.info.features
    # Its builder asks TensorFlow for the type int32 and for nothing else; the declaration is plain.
    declared = tfds.builder_cls(dataset).builder_configs[config]
    numbers = [n for n in declared.features if n.startswith(("start", "end"))]
    features = {n: tfds.features.Text() for n in declared.features if n not in numbers}
    features |= {n: tfds.features.Scalar(np.int32) for n in (*numbers, "idx")}
    features["label"] = tfds.features.ClassLabel(names=declared.label_classes)
    return str(declared.version), tfds.features.FeaturesDict(features)


def _example(
    task: Task, where: str, record: Mapping[str, object], features: Mapping[str, Any]
) -> dict[str, object]:
    official = _official(task, tuple(record), features)
    if "label-fine" in features and "fine" in record:
        # TREC's files name a fine label with its coarse one before it, TFDS without.
        record = {**record, "label-fine": str(record["fine"]).rpartition(":")[2]}
    example = {name: record.get(official.get(name, name), ABSENT.get(name)) for name in features}
    missing = [name for name in example if example[name] is None]
    if missing:
        raise InputError(
            f"{where}: TFDS declares {', '.join(missing)} too, which the row lacks; add it."
        )
    return example


def _write(
    name: str,
    version: str,
    features: Any,
    examples: dict[str, list[Any]],
    description: str,
    data_dir: Path,
) -> None:
    import tensorflow_datasets as tfds

    dataset, _, config_name = name.partition("/")

    # Unregistered: the name is that of a data set which TFDS has already.
    class Folder(tfds.core.GeneratorBasedBuilder, skip_registration=True):  # type: ignore[call-arg, misc]
        """A data set of TFDS by name, made of rows that are here already."""

        VERSION = tfds.core.Version(version)
        BUILDER_CONFIGS = (
            [tfds.core.BuilderConfig(name=config_name, version=version)] if config_name else []
        )

        def _info(self) -> Any:
            return tfds.core.DatasetInfo(
                builder=self,
                features=features,
                description=description,
                disable_shuffling=True,  # ids are row numbers, and the order stays the files'
            )

        def _split_generators(self, dl_manager: Any) -> dict[str, Iterator[tuple[int, Any]]]:
            return {split: iter(enumerate(rows)) for split, rows in examples.items()}

        def _generate_examples(self) -> None:
            raise AssertionError("its splits are given as iterators")

    Folder.name = dataset  # it decides the folder's name
    tfds.disable_progress_bar()
    # TFDS announces a download on both streams, and there is none.
    with (
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()),
        temporary_folder() as downloads,
    ):
        kinds = (ValueError, TypeError, KeyError)
        with answering(kinds, data_dir / name, "rows that TFDS takes"):
            builder = Folder(config=config_name or None, data_dir=str(data_dir), file_format=FORMAT)
            # What TFDS was writing when it was killed; it does not say which process that was.
            for unfinished in Path(builder.data_dir).parent.glob("incomplete.*"):
                if is_day_old(unfinished):
                    shutil.rmtree(unfinished, ignore_errors=True)
            builder.download_and_prepare(download_dir=str(downloads))
