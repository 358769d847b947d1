"""Reads rows of image tasks: folders of classes, tables of paths, TFDS folders, the embedded suite.

Rows hold references, never pixels.
"""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from batch_calibration.errors import InputError
from batch_calibration.scoring.data import files, image_records, tfds_folder
from batch_calibration.scoring.data.binding import label_of
from batch_calibration.scoring.data.image_folders import (
    SPLITS,
    TRAIN_ONE_IN,
    WHOLE,
    Image,
    ImageSource,
    ReadImages,
    class_folders,
    image_tables,
)
from batch_calibration.scoring.data.image_records import ImageRecord
from batch_calibration.scoring.embedded import MINI
from batch_calibration.scoring.embedded import images as embedded_images
from batch_calibration.scoring.inputs import ImageRows
from batch_calibration.scoring.tasks.base import Task


class EmbeddedImage(NamedTuple):
    """An image of the embedded suite, drawn when it is read."""

    name: str

    def __str__(self) -> str:
        """Its name in the suite."""
        return self.name

    def read(self) -> bytes:
        """The image as PNG.

        >>> EmbeddedImage("mini:svhn/test/0").read()[1:4]
        b'PNG'
        """
        return embedded_images.png(self.name)

    def signature(self) -> str:
        """Nothing: the name decides the image."""
        return ""


def read_images(task: Task, data: str, split: str, limit: int = 0) -> ImageRows:
    """The rows of an image task's split; those of folders and tables in an order by hash.

    The order has nothing to do with classes, so the first rows are a sample of all. `data` is
    `"mini"` or a folder; what is looked for there is in docs/your-checkpoint.md.

    Raises:
      InputError: no such images or split, a class that is none of the task's, one class alone.
    """
    source = find(task, data)
    if source is None:
        raise InputError(_nothing(task, data))
    served = files.served_split(task, split, source.splits, source.where)
    images = source.splits[served](limit)
    if not images:
        raise InputError(
            f"{source.where}: split {served} is empty, expected at least one image; of "
            f"{TRAIN_ONE_IN} images of a class in no splits, one is for train."
        )
    return ImageRows(
        tuple(image.reference for image in images),
        tuple(image.label for image in images),
        tuple(f"{task.name}/{served}/{image.name}" for image in images),
        source.where,
        served,
        source.present,
        source.notes,
    )


def image_splits(task: Task, data: str) -> tuple[str, ...]:
    """Names of the splits that `data` has of an image task; none where it has no images."""
    source = find(task, data)
    return tuple(source.splits) if source else ()


def find(task: Task, data: str) -> ImageSource | None:
    """The images of a task, None where there are none."""
    if data == MINI and not task.folder and not task.files:
        return _embedded(task)
    if task.files:
        paths = {split: Path(task.files[split]) for split in task.files}
        return image_tables(task, paths, task.source)
    if task.folder:
        folders = [Path(task.folder)]
    elif not data:
        raise InputError(
            where="data", expected="a folder of images or 'mini'", got="nothing", remedy="give one"
        )
    else:
        folders = [Path(data) / task.name, Path(data) / f"extra_{task.name}", Path(data)]
    if not folders[-1].is_dir():
        raise InputError(f"data {folders[-1]}: no such folder; give one of images, or 'mini'.")
    for folder in folders:
        # Tables that lie in the data folder itself are of any task.
        paths = files.in_folders(folder) if folder != Path(data) else {}
        tables = {SPLITS[name]: paths[name] for name in paths if name in SPLITS}
        if tables:
            return image_tables(task, tables, str(folder))
        # Some archives hold one folder `images` around the classes.
        source = class_folders(task, folder) or class_folders(task, folder / "images")
        if source:
            return source
        # One table of any name is the whole of the data, without splits.
        if len(paths) == 1:
            return image_tables(task, {WHOLE: next(iter(paths.values()))}, str(folder))
    prepared = tfds_folder.find(task, Path(data)) if data else None
    return _records(task, prepared) if prepared else None


def _nothing(task: Task, data: str) -> str:
    # Names of folders cannot hold a slash.
    first, second = (name.replace("/", "") for name in task.label_names[:2])
    looked = [
        f"{task.name}/{first}/*.jpg and so on with a folder for each class",
        f"{task.name}/test/{second}/*.jpg and so on",
        f"{task.name}/test.csv with the columns path and label",
        *(f"{name}/<version>/" for name in task.tfds),
    ]
    return (
        f"{f'folder {task.folder}' if task.folder else f'data {data}'}: no images of task "
        f"{task.name} there; looked for {'; '.join(looked)}."
    )


# --- TFDS folders and embedded images


def _records(task: Task, folder: Path) -> ImageSource:
    names = image_records.splits(task, folder)

    def read(split: str, numbers: slice, limit: int) -> Sequence[Image]:
        labels = image_records.labels(task, folder, split, numbers, limit)
        return [Image(ImageRecord(folder, split, i), str(i), label) for i, label in labels]

    # Records are read when a split is, not here.
    readers: dict[str, ReadImages] = {name: partial(read, name, slice(None)) for name in names}
    notes: tuple[str, ...] = ()
    # As for folders without splits; TFDS has shuffled, so a part is a sample.
    if names == ("train",):
        size = image_records.size(folder, "train")
        cut = size // TRAIN_ONE_IN
        readers = {
            WHOLE: readers["train"],
            "train": partial(read, "train", slice(cut)),
            "test": partial(read, "train", slice(cut, None)),
        }
        notes = (
            f"{task.name}: {folder} has the one split 'train': the first {cut:,} of its images, "
            f"which TFDS has shuffled, are train here and the other {size - cut:,} are test",
        )
    return ImageSource(f"TFDS folder {folder}", readers, tuple(range(len(task.label_names))), notes)


def _embedded(task: Task) -> ImageSource | None:
    if task.name not in embedded_images.TASKS:
        return None

    def read(split: str, limit: int) -> Sequence[Image]:
        images = []
        for reference, name in embedded_images.rows(task.name, split, limit):
            number = reference.rpartition("/")[2]
            images.append(Image(EmbeddedImage(reference), number, label_of(task, name, reference)))
        return images

    names = embedded_images.TASKS[task.name].classes
    # Of DTD's 47 classes twelve are drawn.
    present = tuple(sorted(label_of(task, name, "the mini suite") for name in names))
    readers: dict[str, ReadImages] = {name: partial(read, name) for name in embedded_images.SIZES}
    return ImageSource(f"the mini suite's drawn {task.name}", readers, present)
