"""Images of folders that TensorFlow Datasets has prepared, one record at a time.

Only array_record can be read in any order; TensorFlow is not needed, and pixels are not decoded.
"""

from collections.abc import Iterator
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple

from batch_calibration.errors import InputError
from batch_calibration.scoring.data import tfds_folder
from batch_calibration.scoring.data.binding import label_of
from batch_calibration.scoring.tasks.base import IMAGE, Task

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
        return encoded(self.folder, self.split, self.number)

    def signature(self) -> str:
        """Nothing: a prepared folder is not edited record by record."""
        return ""


def splits(task: Task, folder: Path) -> tuple[str, ...]:
    """Names of the folder's splits whose images have labels."""
    builder = _builder(folder)
    features = builder.info.features
    if IMAGE not in features:
        raise InputError(
            f"{folder}: it has no feature {IMAGE!r} but {', '.join(features)}; task {task.name} "
            "needs images: give a folder a class."
        )
    names = tfds_folder.splits(builder, folder)
    # CLEVR's test scenes were never published: TFDS gives them no objects.
    return tuple(n for n in names if "label" in features or n != "test")


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


def encoded(folder: Path, split: str, number: int) -> bytes:
    """The image of one record, still encoded."""
    if not 0 <= number < size(folder, split):
        raise InputError(
            f"{folder}#{split}[{number}]: the split has {size(folder, split):,} records; was it "
            "prepared again?"
        )
    (example,) = _examples(folder, split, range(number, number + 1))
    image: bytes = example[IMAGE]
    return image


@lru_cache(maxsize=16)  # folders that are open at once
def _builder(folder: Path) -> Any:
    builder = tfds_folder.open_folder(folder)
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
    try:
        source = builder.as_data_source(split).data_source
        size, expected_size = len(source), builder.info.splits[split].num_examples
    except (RuntimeError, OSError) as error:
        raise _damaged(folder, split, error) from error
    if size != expected_size:
        raise _damaged(folder, split, f"it should hold {expected_size} records and holds {size}")
    return source


def _examples(folder: Path, split: str, numbers: range) -> list[dict[str, Any]]:
    import tensorflow_datasets as tfds

    features = _builder(folder).info.features
    read = partial(features.deserialize_example_np, decoders={IMAGE: tfds.decode.SkipDecoding()})
    try:
        return list(map(read, _source(folder, split).__getitems__(numbers)))
    # A sentence of our own, from `_source`, is not wrapped again.
    except InputError:
        raise
    except Exception as error:  # protobuf's own, or what the reader raises
        raise _damaged(folder, f"{split}[{numbers[0]}:{numbers[-1] + 1}]", error) from error


def _damaged(folder: Path, records: str, why: object) -> InputError:
    return InputError(f"{folder}#{records}: damaged or missing ({why}); prepare it again.")
