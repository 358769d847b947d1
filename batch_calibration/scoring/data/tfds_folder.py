"""Folders that TensorFlow Datasets has prepared, read without TensorFlow.

Images are read one record at a time, from array_record alone, which can be read in any order; their
pixels are not decoded.
"""

import re
import struct
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
    """The task's folder of the newest version under a TFDS data directory, None where none is."""
    for name in task.tfds:
        folder = data / name
        if not folder.is_dir():
            continue
        versions = [p for p in folder.iterdir() if re.fullmatch(r"\d+\.\d+\.\d+", p.name)]
        # A folder whose preparation was broken off has no version yet.
        if not versions:
            raise InputError(
                f"{folder}: not a TFDS folder, expected one named like 1.0.0 inside; has its "
                "preparation ended?"
            )
        # By number: 1.10.0 is newer than 1.9.0.
        return max(versions, key=lambda p: tuple(map(int, p.name.split("."))))
    return None


def open_folder(folder: Path) -> "DatasetBuilder":
    """TFDS's builder of a prepared folder."""
    expected = "TensorFlow Datasets, not TensorFlow, for a TFDS folder"
    with answering(ImportError, folder, expected, extra("data")):
        import tensorflow_datasets as tfds
    if not (folder / INFO).is_file():
        raise InputError(f"{folder}: not a TFDS folder, it has no {INFO}; prepare it again.")
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
    """Each record of a split, its texts decoded, and its place in words."""
    features = builder.info.features
    label = schema_of(task, tuple(features), str(folder))["label"]
    names = getattr(features[label], "names", None)
    if names is None:
        raise InputError(f"{folder}: {label} is no class label there, but {features[label]}.")
    # A data set with another order of labels would be scored wrongly in silence.
    task.check_label_names(tuple(names), str(folder))
    serialized = _serialized(builder, folder, split)
    for number, raw in enumerate(serialized):
        where = f"{folder}, split {split}, row {number}"
        # protobuf's own errors, or what TFDS raises on a missing feature.
        with answering(Exception, where, "a record of these features, its texts in UTF-8"):
            example = features.deserialize_example_np(raw)
            record = {name: _as_python(example[name]) for name in example}
        yield where, record


def _as_python(feature: object) -> object:
    """Bytes as text, numpy's integers of any width as `int`, as labels are; lists as they are."""
    if isinstance(feature, bytes):
        return feature.decode()
    is_scalar = hasattr(feature, "item") and getattr(feature, "ndim", 1) == 0
    return feature.item() if is_scalar else feature  # type: ignore[attr-defined]


def _serialized(builder: "DatasetBuilder", folder: Path, split: str) -> list[bytes]:
    # An enum, compared by its text, so that TFDS is imported in one place only.
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
    # A missing shard would else go unnoticed.
    if len(serialized) != split_info.num_examples:
        raise InputError(
            f"{folder}: split {split} should hold {split_info.num_examples} rows, its files hold "
            f"{len(serialized)}; prepare it again."
        )
    return serialized


def masked(crc: int) -> int:
    """A checksum as TFRecord stores it: rotated by 15 bits and shifted by a constant."""
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def read_tfrecord(path: Path) -> list[bytes]:
    """The records of one TFRecord file, in order, their CRC-32C checksums checked.

    A record is its length (8 bytes, little endian), the length's checksum (4), the data, the data's
    checksum (4). Source: TensorFlow, `lib/io/record_writer.h`.
    """
    expected = "google-crc32c, which checks TFRecord files"
    with answering(ModuleNotFoundError, path, expected, extra("data")):
        from google_crc32c import value as crc32c
    if not path.is_file():
        raise InputError(f"{path}: no such file, but the data set's info lists it.")
    raw = path.read_bytes()
    payloads: list[bytes] = []
    start = 0
    while start < len(raw):
        where = f"{path}, record {len(payloads)}"
        # Made before it is needed: two checks below raise it.
        ends_early = InputError(f"{where}: the file ends inside it; copy or prepare it again.")
        if start + HEAD > len(raw):
            raise ends_early
        length, stored = struct.unpack_from("<QI", raw, start)
        if masked(crc32c(raw[start : start + 8])) != stored:
            raise InputError(
                f"{where}: the length's checksum differs; the file is damaged or no TFRecord "
                "file; copy or prepare it again."
            )
        start += HEAD
        if start + length + TAIL > len(raw):
            raise ends_early
        payload = raw[start : start + length]
        (stored,) = struct.unpack_from("<I", raw, start + length)
        if masked(crc32c(payload)) != stored:
            raise InputError(
                f"{where}: its checksum differs; the file is damaged; copy or prepare it again."
            )
        payloads.append(payload)
        start += length + TAIL
    return payloads


CHUNK = 256  # records read at once
OBJECTS = "objects"  # the feature whose length is CLEVR's label


class ImageRecord(NamedTuple):
    """An image in a record of a TFDS folder."""

    folder: Path
    split: str
    number: int

    def __str__(self) -> str:
        """Folder, split and number."""
        return f"{self.folder}#{self.split}[{self.number}]"

    def read(self) -> bytes:
        """The record's image, still encoded; `InputError` where it is gone or damaged."""
        folder, split, number = self
        if not 0 <= number < size(folder, split):
            raise InputError(
                f"{self}: the split has {size(folder, split):,} records; was it prepared again?"
            )
        (example,) = _examples(folder, split, range(number, number + 1))
        image: bytes = example[IMAGE]
        return image

    def signature(self) -> str:
        """Nothing: a prepared folder is not edited record by record."""
        return ""


def record_splits(task: Task, folder: Path) -> tuple[str, ...]:
    """Names of the folder's splits whose images have labels."""
    builder = _builder(folder)
    features = builder.info.features
    if IMAGE not in features:
        raise InputError(
            f"{folder}: it has no feature {IMAGE!r} but {', '.join(features)}; task {task.name} "
            "needs images: give a folder a class."
        )
    # CLEVR's test scenes were never published: TFDS gives them no objects.
    return tuple(n for n in builder.info.splits if "label" in features or n != "test")


def size(folder: Path, split: str) -> int:
    """Number of records in a split."""
    return len(_source(folder, split))


def labels(
    task: Task, folder: Path, split: str, part_of_split: slice, limit: int
) -> Iterator[tuple[int, int]]:
    """Number and label of each record in a part of a split, the first `limit` where it is not 0."""
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
                # CLEVR's label is how many objects it has, of which any feature is as long.
                count = len(next(iter(example[OBJECTS].values()), ()))
                yield number, label_of(task, str(count), f"{folder}#{split}[{number}]")


@lru_cache(maxsize=16)  # folders that are open at once
def _builder(folder: Path) -> Any:
    builder = open_folder(folder)
    form = builder.info.file_format.value
    if form != "array_record":
        raise InputError(
            f"{folder}: its files are {form}, whose records cannot be read one by one; prepare it "
            "as array_record (`tfds build --file_format=array_record`), or give a folder a class."
        )
    return builder


@lru_cache(maxsize=32)  # their splits
def _source(folder: Path, split: str) -> Any:
    builder = _builder(folder)
    if split not in builder.info.splits:
        raise InputError(f"{folder}: no split {split!r}; was it prepared again?")
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
    with answering(Exception, where, WHOLE, AGAIN):  # protobuf's own, or what the reader raises
        return list(map(read, _source(folder, split).__getitems__(numbers)))
