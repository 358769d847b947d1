"""Reads rows of image tasks: class folders, tables of paths, TFDS folders, the embedded suite.

Rows hold references to images, never pixels.
"""

import zlib
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from batch_calibration.errors import InputError, answering
from batch_calibration.scoring.data import files, tfds_folder
from batch_calibration.scoring.data.files import bind, label_of, labels_by_name, plain_name
from batch_calibration.scoring.data.tfds_folder import ImageRecord
from batch_calibration.scoring.embedded import MINI
from batch_calibration.scoring.embedded import images as embedded_images
from batch_calibration.scoring.inputs import ImageRef, ImageRows
from batch_calibration.scoring.tasks.base import IMAGE, Task

LISTED_ENDINGS = ".avif .bmp .gif .jp2 .jpeg .jpg .pbm .pgm .png .pnm .ppm .tif .tiff .webp"
ENDINGS = LISTED_ENDINGS.split()
SPLITS = {
    **dict.fromkeys(("train", "training"), "train"),
    **dict.fromkeys(("test", "testing"), "test"),
    **dict.fromkeys(("val", "valid", "validation"), "validation"),
}
"""Maps the possible names of a split's folder or table to the split."""
MAX_BYTES = 2**28  # 256 MiB for one image
WHOLE, TRAIN_ONE_IN = "all", 5
"""Images without splits form the split `all`. Of each class, one image in this many is `train` and
the rest `test`."""


class ImageFile(NamedTuple):
    """An image in its own file."""

    path: Path

    def __str__(self) -> str:
        """Returns the path."""
        return str(self.path)

    def read(self) -> bytes:
        """Reads the file's bytes."""
        with answering(OSError, self.path, "an image that can be read", "put it there"):
            size = self.path.stat().st_size
            # The size is checked before reading, because memory may not hold the file.
            if size > MAX_BYTES:
                got, remedy = f"{size / 2**20:,.0f} MiB", "scale it down or remove it"
                raise InputError.at(self.path, "an image of at most 256 MiB", got, remedy)
            return self.path.read_bytes()

    def signature(self) -> str:
        # A hash would read every image of a run before the first one is scored.
        """Returns the file's size in bytes."""
        return str(self.path.stat().st_size) if self.path.is_file() else ""


class Image(NamedTuple):
    """An image's reference, its name within its source, and its label (-1 if unknown)."""

    reference: ImageRef
    name: str
    label: int


ReadImages = Callable[[int], Sequence[Image]]
"""Maps `limit` to the first images of a split; 0 gives all."""


class ImageSource(NamedTuple):
    """A description of a task's source of images, its splits, its labels, and notes on it."""

    where: str
    splits: dict[str, ReadImages]
    present: tuple[int, ...]
    notes: tuple[str, ...] = ()


class EmbeddedImage(NamedTuple):
    """An image of the suite that ships with the package, drawn when it is read."""

    name: str

    def __str__(self) -> str:
        """Returns the image's name in the suite."""
        return self.name

    def read(self) -> bytes:
        """Returns the image as PNG.

        >>> EmbeddedImage("mini:svhn/test/0").read()[1:4]
        b'PNG'
        """
        return embedded_images.png(self.name)

    def signature(self) -> str:
        """Returns "", because the name determines the image."""
        return ""


def read_images(task: Task, data: str, split: str, limit: int = 0) -> ImageRows:
    """Reads the rows of an image task's split; folders and tables are sorted by hash.

    This order is independent of the classes, so the first rows are a sample of all. `data` is
    `"mini"` or a folder; docs/your-checkpoint.md lists the accepted layouts.

    Raises:
      InputError: there are no images, or the split is missing; a class is unknown; all images have
        one class.
    """
    source = find_images(task, data)
    if source is None:
        raise InputError(_nothing(task, data))
    served = files.served_split(task, split, source.splits, source.where)
    images = source.splits[served](limit)
    if not images:
        where, remedy = f"{source.where}, split {served}", f"train gets one of {TRAIN_ONE_IN}"
        raise InputError.at(where, "at least one image", "none", remedy)
    references, names, labels = zip(*images, strict=True)
    ids = tuple(f"{task.name}/{served}/{name}" for name in names)
    return ImageRows(references, labels, ids, source.where, served, source.present, source.notes)


def image_splits(task: Task, data: str) -> tuple[str, ...]:
    """Returns the names of the splits in `data` of an image task, empty without images."""
    source = find_images(task, data)
    return tuple(source.splits) if source else ()


def find_images(task: Task, data: str) -> ImageSource | None:
    """Finds the images of a task, or returns None."""
    if data == MINI and not task.folder and not task.files:
        return _embedded(task)
    if task.files:
        paths = {split: Path(task.files[split]) for split in task.files}
        return image_tables(task, paths, task.source)
    if task.folder:
        folders = [Path(task.folder)]
    elif not data:
        raise InputError.at("", "a folder of images or 'mini'", "nothing", "give one", "data")
    else:
        folders = [Path(data) / task.name, Path(data) / f"extra_{task.name}", Path(data)]
    if not folders[-1].is_dir():
        raise InputError.at(f"data {folders[-1]}", "a folder of images or 'mini'", "no folder")
    for folder in folders:
        # Tables directly in the data folder may belong to any task.
        paths = files.in_folders(folder) if folder != Path(data) else {}
        tables = {SPLITS[name]: paths[name] for name in paths if name in SPLITS}
        if tables:
            return image_tables(task, tables, str(folder))
        # Some archives put the classes into one folder `images`.
        source = class_folders(task, folder) or class_folders(task, folder / "images")
        if source:
            return source
        # A single table of any name holds all data, without splits.
        if len(paths) == 1:
            return image_tables(task, {WHOLE: next(iter(paths.values()))}, str(folder))
    prepared = tfds_folder.find_prepared(task, Path(data)) if data else None
    return _records(task, prepared) if prepared else None


def _nothing(task: Task, data: str) -> str:
    # Folder names cannot hold a slash.
    first, second = (name.replace("/", "") for name in task.label_names[:2])
    looked = [
        f"{task.name}/{first}/*.jpg and so on with a folder for each class",
        f"{task.name}/test/{second}/*.jpg and so on",
        f"{task.name}/test.csv with the columns path and label",
        *(f"{name}/<version>/" for name in task.tfds),
    ]
    return (
        f"{f'folder {task.folder}' if task.folder else f'data {data}'}: no images of task "
        f"{task.name}; looked for {'; '.join(looked)}."
    )


# --- TFDS folders and embedded images


def _records(task: Task, folder: Path) -> ImageSource:
    names = tfds_folder.record_splits(task, folder)

    def read(split: str, numbers: slice, limit: int) -> Sequence[Image]:
        labels = tfds_folder.labels(task, folder, split, numbers, limit)
        return [Image(ImageRecord(folder, split, i), str(i), label) for i, label in labels]

    # Records are read only with their split.
    readers: dict[str, ReadImages] = {name: partial(read, name, slice(None)) for name in names}
    notes: tuple[str, ...] = ()
    # This splits as for folders without splits. TFDS has shuffled, so a part is a sample.
    if names == ("train",):
        size = tfds_folder.size(folder, "train")
        cut = size // TRAIN_ONE_IN
        readers = {
            WHOLE: readers["train"],
            "train": partial(read, "train", slice(cut)),
            "test": partial(read, "train", slice(cut, None)),
        }
        notes = (
            f"{task.name}: {folder} has only the split 'train': the first {cut:,} of its images, "
            f"which TFDS has shuffled, are used as train and the other {size - cut:,} as test",
        )
    return ImageSource(f"TFDS folder {folder}", readers, tuple(range(len(task.label_names))), notes)


def _embedded(task: Task) -> ImageSource | None:
    if task.name not in embedded_images.TASKS:
        return None

    def read(split: str, limit: int) -> Sequence[Image]:
        images = []
        for reference, name in embedded_images.image_rows(task.name, split, limit):
            number = reference.rpartition("/")[2]
            images.append(Image(EmbeddedImage(reference), number, label_of(task, name, reference)))
        return images

    names = embedded_images.TASKS[task.name].classes
    # The suite draws only 12 of DTD's 47 classes.
    present = tuple(sorted(label_of(task, name, "the mini suite") for name in names))
    readers: dict[str, ReadImages] = {name: partial(read, name) for name in embedded_images.SIZES}
    return ImageSource(f"the mini suite's drawn {task.name}", readers, present)


# --- a folder per class


def class_folders(task: Task, root: Path) -> ImageSource | None:
    """Finds class folders in `root`, or in its split folders; returns None without classes."""
    split_folders = {}
    for folder in _subfolders(root):
        split = SPLITS.get(folder.name.lower())
        if split and _has_classes(task, folder):
            split_folders[split] = folder
    # Without classes here, the caller looks elsewhere.
    if not split_folders and not _has_classes(task, root):
        return None
    notes: list[str] = []
    images = {}
    for split, folder in (split_folders or {WHOLE: root}).items():
        images[split] = _images(task, folder, notes)
    return _source(task, f"folder {root}", images, notes)


def _subfolders(root: Path) -> list[Path]:
    if not root.is_dir():
        return []
    return sorted(f for f in root.iterdir() if f.is_dir() and not f.name.startswith("."))


def _has_classes(task: Task, root: Path) -> bool:
    labels = labels_by_name(task)
    return any(plain_name(folder.name) in labels for folder in _subfolders(root))


def _images(task: Task, root: Path, notes: list[str]) -> list[Image]:
    images, left_out = [], []
    for folder in _subfolders(root):
        label = label_of(task, folder.name, str(folder))
        for path in sorted(p for p in folder.rglob("*") if p.is_file()):
            if path.suffix.lower() in ENDINGS:
                images.append(Image(ImageFile(path), path.relative_to(root).as_posix(), label))
            # Hidden files such as .DS_Store are not rows.
            elif not path.name.startswith("."):
                left_out.append(path.name)
    if left_out:
        notes.append(
            f"{task.name}: {len(left_out)} files in {root} are left out, because their endings are "
            f"not of images ({left_out[0]})"
        )
    return sorted(images, key=_hash)


# --- tables of paths and labels


def image_tables(task: Task, paths: dict[str, Path], where: str) -> ImageSource:
    """Reads images from tables of paths and labels, one table for each split."""
    images = {}
    for split, table in paths.items():
        listed = []
        for place, record in files.records(task, table):
            row, label = bind(task, record, place)
            # Paths are relative to the table, not to the working directory.
            path = table.parent / row[IMAGE]
            if not path.is_file():
                expected = f"an image {path}, relative to the table's folder"
                raise InputError.at(place, expected, "none", "correct the path or put it there")
            listed.append(Image(ImageFile(path), row[IMAGE], label))
        images[split] = sorted(listed, key=_hash)
    return _source(task, f"files in {where}" if Path(where).is_dir() else where, images, [])


# --- shared by folders and tables


def _hash(image: Image) -> tuple[int, str]:
    """Returns the sort key of an image; its order mixes the classes."""
    return zlib.crc32(image.name.encode()), image.name


def _source(
    task: Task, where: str, images: dict[str, list[Image]], notes: list[str]
) -> ImageSource:
    """Checks the classes, splits images without splits into train and test, and adds notes."""
    counts = Counter(image.label for image in chain(*images.values()) if image.label >= 0)
    # A single class usually means a folder too deep, and accuracy would be 100 %.
    if len(counts) == 1:
        (label,) = counts
        got = f"{counts[label]} images of class {task.label_names[label]!r}"
        raise InputError.at(where, f"two classes of {task.name} or more", got, "add the others")
    # Without splits, some images are kept for the labeled set, apart from the test rows.
    if set(images) == {WHOLE}:
        train, test = _split_by_class(images[WHOLE])
        images = {**images, "train": train, "test": test}
        note = (
            f"{task.name}: {where} has no splits: one image in {TRAIN_ONE_IN} of each class is "
            f"kept for train ({len(train):,}), the others are test ({len(test):,})"
        )
        notes = [*notes, note]
    readers: dict[str, ReadImages] = {split: partial(_first, images[split]) for split in images}
    return ImageSource(where, readers, tuple(sorted(counts)), tuple(notes))


def _split_by_class(images: Sequence[Image]) -> tuple[list[Image], list[Image]]:
    """Splits images by hash: the first fifth of each class is train, the rest test."""
    sizes, seen = Counter(image.label for image in images), Counter[int]()
    train, test = list[Image](), list[Image]()
    for image in images:
        is_train = seen[image.label] < sizes[image.label] // TRAIN_ONE_IN
        (train if is_train else test).append(image)
        seen[image.label] += 1
    return train, test


def _first(images: Sequence[Image], limit: int) -> Sequence[Image]:
    return images[: limit or None]
