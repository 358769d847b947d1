"""Folders that TensorFlow Datasets prepared, read without TensorFlow.

Images are read one record at a time, without decoding their pixels. Only array_record files support
this, because they can be read in any order.
"""

import re
from collections.abc import Iterator
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from batch_calibration.errors import InputError, answering, extra
from batch_calibration.scoring.data.files import label_of, schema_of
from batch_calibration.scoring.tasks.base import IMAGE, Task

if TYPE_CHECKING:
    from tensorflow_datasets.core import DatasetBuilder

INFO = "dataset_info.json"
WHOLE, AGAIN = "whole records", "prepare it again"
HEAD, TAIL = 12, 4  # bytes before and after a record of TFRecord


def find_prepared(task: Task, data: Path) -> Path | None:
    """Finds the task's newest version in a TFDS data directory; returns None without one."""
    for name in task.tfds:
        folder = data / name
        if not folder.is_dir():
            continue
        versions = [p for p in folder.iterdir() if re.fullmatch(r"\d+\.\d+\.\d+", p.name)]
        # After an interrupted preparation, a folder has no version yet.
        if not versions:
            raise InputError.at(folder, "a TFDS folder with a version such as 1.0.0", "none", AGAIN)
        # Versions are compared as numbers: 1.10.0 is newer than 1.9.0.
        return max(versions, key=lambda p: tuple(map(int, p.name.split("."))))
    return None


def open_folder(folder: Path) -> "DatasetBuilder":
    """Opens a prepared folder with TFDS's builder."""
    expected = "TensorFlow Datasets, not TensorFlow, for a TFDS folder"
    with answering(ImportError, folder, expected, extra("data")):
        import tensorflow_datasets as tfds
    if not (folder / INFO).is_file():
        raise InputError(f"{folder}: not a TFDS folder; it has no {INFO}: prepare it again.")
    # A damaged JSON file makes TFDS raise errors of many kinds.
    with answering(Exception, folder, "a folder that TFDS opens", "prepare it again"):
        builder = tfds.builder_from_directory(str(folder))
    if builder.info.features is None:
        raise InputError(f"{folder}: it has no features.json; prepare it again.")
    if not builder.info.splits:
        raise InputError(f"{folder}: a TFDS folder without splits; prepare it again.")
    return builder


def prepared_records(
    task: Task, builder: "DatasetBuilder", folder: Path, split: str
) -> Iterator[tuple[str, dict[str, object]]]:
    """Yields each record of a split, with texts decoded, and a description of its place."""
    features = builder.info.features
    label = schema_of(task, tuple(features), str(folder))["label"]
    names = getattr(features[label], "names", None)
    if names is None:
        raise InputError(f"{folder}: {label} is not a class label, but {features[label]}.")
    # Without this check, another order of labels would give wrong scores silently.
    task.check_label_names(tuple(names), str(folder))
    serialized = _serialized(builder, folder, split)
    for number, raw in enumerate(serialized):
        where = f"{folder}, split {split}, row {number}"
        # protobuf has its own errors, and TFDS raises others for a missing feature.
        with answering(Exception, where, "a record of these features, its texts in UTF-8"):
            example = features.deserialize_example_np(raw)
            record = {name: _as_python(example[name]) for name in example}
        yield where, record


def _as_python(feature: object) -> object:
    """Converts bytes to text and numpy integers to `int`, as labels need; other values stay."""
    if isinstance(feature, bytes):
        return feature.decode()
    is_scalar = hasattr(feature, "item") and getattr(feature, "ndim", 1) == 0
    return feature.item() if is_scalar else feature  # type: ignore[attr-defined]


def _serialized(builder: "DatasetBuilder", folder: Path, split: str) -> list[bytes]:
    # The enum's text is compared, so that only one function imports TFDS.
    form = builder.info.file_format.value
    split_info = builder.info.splits[split]
    serialized: list[bytes] = []
    if form == "tfrecord":
        for path in split_info.filepaths:
            serialized += read_tfrecord(Path(path))
    elif form == "array_record":
        at, kinds = f"{folder}, split {split}", (RuntimeError, OSError)
        with answering(kinds, at, WHOLE, AGAIN):
            source = builder.as_data_source(split).data_source
            serialized += source.__getitems__(range(len(source)))
    else:
        raise InputError(f"{folder}: its files are {form}; prepare it as array_record or tfrecord.")
    # This check detects missing shards.
    if len(serialized) != split_info.num_examples:
        expected = f"split {split} with {split_info.num_examples} rows"
        raise InputError.at(folder, expected, len(serialized), AGAIN)
    return serialized


def masked(crc: int) -> int:
    """Masks a checksum as TFRecord does: rotates it by 15 bits and adds a constant."""
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def read_tfrecord(path: Path) -> list[bytes]:
    """Reads the records of one TFRecord file in order and checks their CRC-32C checksums.

    A record is its length (8 bytes, little endian), the length's checksum (4), the data, the data's
    checksum (4). Source: TensorFlow, `lib/io/record_writer.h`.
    """
    expected = "google-crc32c, which checks TFRecord files"
    with answering(ModuleNotFoundError, path, expected, extra("data")):
        from google_crc32c import value as crc32c
    if not path.is_file():
        raise InputError(f"{path}: file not found, but the data set's info lists it.")
    rest = memoryview(path.read_bytes())
    payloads: list[bytes] = []
    while rest:
        head, rest = rest[:HEAD], rest[HEAD:]
        length = int.from_bytes(head[:8], "little")
        payload, tail, rest = rest[:length], rest[length:][:TAIL], rest[length:][TAIL:]
        for part, stored in ((head[:8], head[8:]), (payload, tail)):
            if masked(crc32c(bytes(part))).to_bytes(4, "little") != stored:
                where, got = f"{path}, record {len(payloads)}", "a damaged one, or its beginning"
                raise InputError.at(where, "a TFRecord with its checksums", got, AGAIN)
        payloads.append(bytes(payload))
    return payloads


CHUNK = 256  # records read at once
OBJECTS = "objects"  # the feature with CLEVR's label as its length


class ImageRecord(NamedTuple):
    """An image in a record of a TFDS folder."""

    folder: Path
    split: str
    number: int

    def __str__(self) -> str:
        """Returns folder, split and record number."""
        return f"{self.folder}#{self.split}[{self.number}]"

    def read(self) -> bytes:
        """Reads the record's encoded image.

        Raises:
            InputError: the record is missing or damaged.
        """
        folder, split, number = self
        if not 0 <= number < size(folder, split):
            raise InputError.at(self, "a record", f"{size(folder, split):,} in the split", AGAIN)
        (example,) = _examples(folder, split, range(number, number + 1))
        image: bytes = example[IMAGE]
        return image

    def signature(self) -> str:
        """Returns "", because a prepared folder is not edited record by record."""
        return ""


def record_splits(task: Task, folder: Path) -> tuple[str, ...]:
    """Returns the names of the folder's splits with labeled images."""
    builder = _builder(folder)
    features = builder.info.features
    if IMAGE not in features:
        expected, remedy = f"the images of task {task.name}", "give a folder for each class"
        raise InputError.at(folder, expected, f"only {', '.join(features)}", remedy)
    # CLEVR's test scenes were never published, so TFDS has no objects for them.
    return tuple(n for n in builder.info.splits if "label" in features or n != "test")


def size(folder: Path, split: str) -> int:
    """Returns the number of records in a split."""
    return len(_source(folder, split))


def labels(
    task: Task, folder: Path, split: str, part_of_split: slice, limit: int
) -> Iterator[tuple[int, int]]:
    """Yields number and label of each record in a part of a split, up to `limit` unless it is 0."""
    features = _builder(folder).info.features
    names = getattr(features["label"], "names", None) if "label" in features else None
    if names:
        bound = [label_of(task, name, str(folder)) for name in names]
    numbers = range(size(folder, split))[part_of_split][: limit or None]
    for start in range(0, len(numbers), CHUNK):
        chunk = numbers[start : start + CHUNK]
        for number, example in zip(chunk, _examples(folder, split, chunk), strict=True):
            if names:
                yield number, bound[int(example["label"])]
            else:
                # CLEVR's label is its number of objects, the length of any object feature.
                count = len(next(iter(example[OBJECTS].values()), ()))
                yield number, label_of(task, str(count), f"{folder}#{split}[{number}]")


@lru_cache(maxsize=16)  # open folders
def _builder(folder: Path) -> Any:
    builder = open_folder(folder)
    form = builder.info.file_format.value
    if form != "array_record":
        remedy = "`tfds build --file_format=array_record`, or give a folder for each class"
        raise InputError.at(folder, "array_record files, to read single records", form, remedy)
    return builder


@lru_cache(maxsize=32)  # splits of open folders
def _source(folder: Path, split: str) -> Any:
    builder = _builder(folder)
    if split not in builder.info.splits:
        raise InputError(f"{folder}: no split {split!r}; prepare it again.")
    where = f"{folder}#{split}"
    with answering((RuntimeError, OSError), where, WHOLE, AGAIN):
        source = builder.as_data_source(split).data_source
        size, expected_size = len(source), builder.info.splits[split].num_examples
    if size != expected_size:
        raise InputError.at(where, f"{expected_size} records", size, AGAIN)
    return source


def _examples(folder: Path, split: str, numbers: range) -> list[dict[str, Any]]:
    import tensorflow_datasets as tfds

    features = _builder(folder).info.features
    read = partial(features.deserialize_example_np, decoders={IMAGE: tfds.decode.SkipDecoding()})
    where = f"{folder}#{split}[{numbers[0]}:{numbers[-1] + 1}]"
    with answering(Exception, where, WHOLE, AGAIN):  # protobuf's or the reader's errors
        return list(map(read, _source(folder, split).__getitems__(numbers)))
