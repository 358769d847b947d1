"""Finds images in a folder for each class, or in tables of paths and labels."""

import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from batch_calibration.data import files
from batch_calibration.data.binding import bind
from batch_calibration.data.image_refs import ImageFile, ImageRow
from batch_calibration.data.label_names import label_of, labels_by_name, plain
from batch_calibration.errors import InputError
from batch_calibration.tasks.base import IMAGE, Task

ENDINGS = (
    ".avif", ".bmp", ".gif", ".jp2", ".jpeg", ".jpg", ".pbm", ".pgm", ".png", ".pnm", ".ppm",
    ".tif", ".tiff", ".webp",
)  # fmt: skip
SPLITS = {
    "train": "train", "training": "train", "test": "test", "testing": "test",
    "val": "validation", "valid": "validation", "validation": "validation",
}  # fmt: skip
"""What a folder or table of one split may be called."""
WHOLE, HELD = "all", 5
"""Images in no splits are `all`; of each class one in `HELD` is `train` and the rest `test`."""


class Image(NamedTuple):
    """One image: where it lies, its name within its source, its label (-1 unknown)."""

    reference: ImageRow
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
    inside = _subfolders(root)
    parts = {
        SPLITS[f.name.lower()]: f
        for f in inside
        if f.name.lower() in SPLITS and _has_classes(task, f)
    }
    if not parts and not _has_classes(task, root):
        return None
    notes: list[str] = []
    found = {
        split: _images(task, folder, notes) for split, folder in (parts or {WHOLE: root}).items()
    }
    return _source(task, f"folder {root}", found, notes)


def _subfolders(root: Path) -> list[Path]:
    if not root.is_dir():
        return []
    return sorted(f for f in root.iterdir() if f.is_dir() and not f.name.startswith("."))


def _has_classes(task: Task, root: Path) -> bool:
    known = labels_by_name(task)
    return any(plain(folder.name) in known for folder in _subfolders(root))


def _images(task: Task, root: Path, notes: list[str]) -> list[Image]:
    found, others = [], []
    for folder in _subfolders(root):
        label = label_of(task, folder.name, str(folder))
        for path in sorted(p for p in folder.rglob("*") if p.is_file()):
            if path.suffix.lower() in ENDINGS:
                found.append(Image(ImageFile(path), path.relative_to(root).as_posix(), label))
            elif not path.name.startswith("."):
                others.append(path)
    if others:
        notes.append(
            f"{task.name}: {len(others)} files in {root} are left out, for they end like no "
            f"image ({others[0].name})"
        )
    return sorted(found, key=_hash)


# --- tables of paths and labels


def image_tables(task: Task, paths: dict[str, Path], where: str) -> ImageSource:
    """Images that tables of one split each name, by path and label."""
    found = {split: _listed(task, path) for split, path in paths.items()}
    return _source(task, f"files in {where}" if Path(where).is_dir() else where, found, [])


def _listed(task: Task, table: Path) -> list[Image]:
    found = []
    for where, record in files.records(task, table):
        row, label = bind(task, record, where)
        path = table.parent / row[IMAGE]
        if not path.is_file():
            raise InputError(
                f"{where}: no image {path}; paths are read from the table's own folder: correct "
                "it or put the image there."
            )
        found.append(Image(ImageFile(path), row[IMAGE], label))
    return sorted(found, key=_hash)


# --- what folders and tables share


def _hash(image: Image) -> tuple[int, str]:
    return zlib.crc32(image.name.encode()), image.name


def _source(task: Task, where: str, found: dict[str, list[Image]], notes: list[str]) -> ImageSource:
    """Check the classes, split what has no splits into train and test, and write the notes."""
    counts = Counter(p.label for images in found.values() for p in images if p.label >= 0)
    if len(counts) == 1:
        (only,) = counts
        raise InputError(
            f"{where}: all {counts[only]} images of task {task.name} are of class "
            f"{task.label_names[only]!r}, expected two classes or more; add the others."
        )
    if set(found) == {WHOLE}:
        train, test = _split_by_class(found[WHOLE])
        found = {**found, "train": train, "test": test}
        notes = [*notes, (
            f"{task.name}: {where} has no splits: one image in {HELD} of each class is kept for "
            f"train ({len(train):,}), the others are test ({len(test):,})"
        )]  # fmt: skip
    present = tuple(sorted(counts))
    readers: dict[str, ReadImages] = {s: partial(_first, images) for s, images in found.items()}
    return ImageSource(where, readers, present, tuple(notes))


def _split_by_class(images: Iterable[Image]) -> tuple[list[Image], list[Image]]:
    """Train and test: the first fifth of each class by hash, so that both hold every class."""
    by_label: dict[int, list[Image]] = {}
    for image in images:
        by_label.setdefault(image.label, []).append(image)
    train = [p for same in by_label.values() for p in same[: len(same) // HELD]]
    test = [p for same in by_label.values() for p in same[len(same) // HELD :]]
    return sorted(train, key=_hash), sorted(test, key=_hash)


def _first(images: Sequence[Image], limit: int) -> Sequence[Image]:
    return images[: limit or None]
