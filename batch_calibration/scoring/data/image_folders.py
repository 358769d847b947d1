"""Finds images in a folder for each class, or in tables of paths and labels."""

import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from batch_calibration.errors import InputError
from batch_calibration.scoring.data import files
from batch_calibration.scoring.data.binding import bind, label_of, labels_by_name, plain
from batch_calibration.scoring.inputs import ImageRef
from batch_calibration.scoring.tasks.base import IMAGE, Task

ENDINGS = (
    ".avif", ".bmp", ".gif", ".jp2", ".jpeg", ".jpg", ".pbm", ".pgm", ".png", ".pnm", ".ppm",
    ".tif", ".tiff", ".webp",
)  # fmt: skip
SPLITS = {
    "train": "train", "training": "train", "test": "test", "testing": "test",
    "val": "validation", "valid": "validation", "validation": "validation",
}  # fmt: skip
"""What a folder or table of one split may be called."""
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
        try:
            size = self.path.stat().st_size
            # Refused before it is read: memory may not hold it.
            if size > MAX_BYTES:
                raise InputError(
                    f"{self.path}: an image of {size / 2**20:,.0f} MiB; 256 MiB is the most that "
                    "is read: scale it down or take it out."
                )
            return self.path.read_bytes()
        except OSError as error:
            raise InputError(
                f"{self.path}: cannot be read ({error.strerror}); put the image there."
            ) from error

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
    return any(plain(folder.name) in labels for folder in _subfolders(root))


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
    images = {split: _listed_images(task, paths[split]) for split in paths}
    return _source(task, f"files in {where}" if Path(where).is_dir() else where, images, [])


def _listed_images(task: Task, table: Path) -> list[Image]:
    images = []
    for where, record in files.records(task, table):
        row, label = bind(task, record, where)
        # Paths are relative to the table, wherever the program runs.
        path = table.parent / row[IMAGE]
        if not path.is_file():
            raise InputError(
                f"{where}: no image {path}; paths are read from the table's own folder: correct "
                "it or put the image there."
            )
        images.append(Image(ImageFile(path), row[IMAGE], label))
    return sorted(images, key=_hash)


# --- what folders and tables share


def _hash(image: Image) -> tuple[int, str]:
    """What images are sorted by, so that the first of them are of all classes."""
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
        notes = [*notes, (
            f"{task.name}: {where} has no splits: one image in {TRAIN_ONE_IN} of each class is "
            f"kept for train ({len(train):,}), the others are test ({len(test):,})"
        )]  # fmt: skip
    readers: dict[str, ReadImages] = {split: partial(_first, images[split]) for split in images}
    return ImageSource(where, readers, tuple(sorted(counts)), tuple(notes))


def _split_by_class(images: Iterable[Image]) -> tuple[list[Image], list[Image]]:
    """Train and test: the first fifth of each class by hash, so that both hold every class."""
    by_label: dict[int, list[Image]] = {}
    for image in images:
        by_label.setdefault(image.label, []).append(image)
    train, test = [], []
    for of_class in by_label.values():
        cut = len(of_class) // TRAIN_ONE_IN
        train += of_class[:cut]
        test += of_class[cut:]
    return sorted(train, key=_hash), sorted(test, key=_hash)


def _first(images: Sequence[Image], limit: int) -> Sequence[Image]:
    return images[: limit or None]
