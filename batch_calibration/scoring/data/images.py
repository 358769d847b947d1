"""Reads rows of image tasks: folders of classes, tables of paths, TFDS folders, the embedded suite.

Rows hold references, never pixels.
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
"""Names that a folder or table of one split may have."""
MAX_BYTES = 2**28  # 256 MiB, of one image
WHOLE, TRAIN_ONE_IN = "all", 5
"""Images in no splits are `all`; of each class one in so many is `train`, and the rest `test`."""


class ImageFile(NamedTuple):
    """An image in a file of its own."""

    path: Path

    def __str__(self) -> str:
        """The path."""
        return str(self.path)

    def read(self) -> bytes:
        """The file's bytes."""
        with answering(OSError, self.path, "an image that can be read", "put it there"):
            size = self.path.stat().st_size
            # Refused before it is read: memory may not hold it.
            if size > MAX_BYTES:
                raise InputError(
                    f"{self.path}: an image of {size / 2**20:,.0f} MiB; 256 MiB is the most that "
                    "is read: scale it down or take it out."
                )
            return self.path.read_bytes()

    def signature(self) -> str:
        # Not a hash: it would read every image of a run before the first is scored.
        """Its size in bytes."""
        return str(self.path.stat().st_size) if self.path.is_file() else ""


class Image(NamedTuple):
    """One image: where it lies, its name within its source, its label (-1 unknown)."""

    reference: ImageRef
    name: str
    label: int


ReadImages = Callable[[int], Sequence[Image]]
"""`limit` -> the first images of a split, all where it is 0."""


class ImageSource(NamedTuple):
    """A task's images in one place: in words, by split, and what must be known of them."""

    where: str
    splits: dict[str, ReadImages]
    present: tuple[int, ...]
    notes: tuple[str, ...] = ()


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
    """The rows of an image task's split; from folders and tables in an order by hash.

    The order has nothing to do with classes, so the first rows are a sample of all. `data` is
    `"mini"` or a folder; what is looked for there is in docs/your-checkpoint.md.

    Raises:
      InputError: no images or no split of that name, a class that the task lacks, one class alone.
    """
    source = find_images(task, data)
    if source is None:
        raise InputError(_nothing(task, data))
    served = files.served_split(task, split, source.splits, source.where)
    images = source.splits[served](limit)
    if not images:
        raise InputError(
            f"{source.where}: split {served} is empty, expected at least one image; of "
            f"{TRAIN_ONE_IN} images of a class in no splits, one is for train."
        )
    references, names, labels = zip(*images, strict=True)
    ids = tuple(f"{task.name}/{served}/{name}" for name in names)
    return ImageRows(references, labels, ids, source.where, served, source.present, source.notes)


def image_splits(task: Task, data: str) -> tuple[str, ...]:
    """Names of the splits that `data` has of an image task; none where it has no images."""
    source = find_images(task, data)
    return tuple(source.splits) if source else ()


def find_images(task: Task, data: str) -> ImageSource | None:
    """The images of a task, None where there are none."""
    if data == MINI and not task.folder and not task.files:
        return _embedded(task)
    if task.files:
        paths = {split: Path(task.files[split]) for split in task.files}
        return image_tables(task, paths, task.source)
    if task.folder:
        folders = [Path(task.folder)]
    elif not data:
        raise InputError.at("data", "a folder of images or 'mini'", "nothing", "give one")
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
    prepared = tfds_folder.find_prepared(task, Path(data)) if data else None
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
    names = tfds_folder.record_splits(task, folder)

    def read(split: str, numbers: slice, limit: int) -> Sequence[Image]:
        labels = tfds_folder.labels(task, folder, split, numbers, limit)
        return [Image(ImageRecord(folder, split, i), str(i), label) for i, label in labels]

    # Records are read when a split is, not here.
    readers: dict[str, ReadImages] = {name: partial(read, name, slice(None)) for name in names}
    notes: tuple[str, ...] = ()
    # As for folders without splits; TFDS has shuffled, so a part is a sample.
    if names == ("train",):
        size = tfds_folder.size(folder, "train")
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
        for reference, name in embedded_images.image_rows(task.name, split, limit):
            number = reference.rpartition("/")[2]
            images.append(Image(EmbeddedImage(reference), number, label_of(task, name, reference)))
        return images

    names = embedded_images.TASKS[task.name].classes
    # Of DTD's 47 classes twelve are drawn.
    present = tuple(sorted(label_of(task, name, "the mini suite") for name in names))
    readers: dict[str, ReadImages] = {name: partial(read, name) for name in embedded_images.SIZES}
    return ImageSource(f"the mini suite's drawn {task.name}", readers, present)


# --- a folder per class


def class_folders(task: Task, root: Path) -> ImageSource | None:
    """Class folders in `root`, or in a folder a split there; None where no folder is a class."""
    split_folders = {}
    for folder in _subfolders(root):
        split = SPLITS.get(folder.name.lower())
        if split and _has_classes(task, folder):
            split_folders[split] = folder
    # No classes here: the caller looks elsewhere.
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
            # Files like .DS_Store are nobody's rows.
            elif not path.name.startswith("."):
                left_out.append(path.name)
    if left_out:
        notes.append(
            f"{task.name}: {len(left_out)} files in {root} are left out, for they end like no "
            f"image ({left_out[0]})"
        )
    return sorted(images, key=_hash)


# --- tables of paths and labels


def image_tables(task: Task, paths: dict[str, Path], where: str) -> ImageSource:
    """Images that tables of one split each name, by path and label."""
    images = {}
    for split, table in paths.items():
        listed = []
        for place, record in files.records(task, table):
            row, label = bind(task, record, place)
            # Paths are relative to the table, wherever the program runs.
            path = table.parent / row[IMAGE]
            if not path.is_file():
                raise InputError(
                    f"{place}: no image {path}; paths are read from the table's own folder: "
                    "correct it or put the image there."
                )
            listed.append(Image(ImageFile(path), row[IMAGE], label))
        images[split] = sorted(listed, key=_hash)
    return _source(task, f"files in {where}" if Path(where).is_dir() else where, images, [])


# --- what folders and tables share


def _hash(image: Image) -> tuple[int, str]:
    """The sort key of images, by which the first ones are of all classes."""
    return zlib.crc32(image.name.encode()), image.name


def _source(
    task: Task, where: str, images: dict[str, list[Image]], notes: list[str]
) -> ImageSource:
    """Check the classes, split what has no splits into train and test, and write the notes."""
    counts = Counter(image.label for image in chain(*images.values()) if image.label >= 0)
    # One class alone is most likely a folder too deep, and accuracy would be 100 %.
    if len(counts) == 1:
        (label,) = counts
        raise InputError(
            f"{where}: all {counts[label]} images of task {task.name} are of class "
            f"{task.label_names[label]!r}, expected two classes or more; add the others."
        )
    # Without splits a labeled set of its own is kept apart from the test rows.
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
    """Train and test: the first fifth of each class by hash, so that both hold every class."""
    sizes, seen = Counter(image.label for image in images), Counter[int]()
    train, test = list[Image](), list[Image]()
    for image in images:
        is_train = seen[image.label] < sizes[image.label] // TRAIN_ONE_IN
        (train if is_train else test).append(image)
        seen[image.label] += 1
    return train, test


def _first(images: Sequence[Image], limit: int) -> Sequence[Image]:
    return images[: limit or None]
