"""Where pictures are: a folder per class, a table of paths, a TFDS folder, the drawn ones.

Rows hold references, never pixels: a path, `FOLDER#SPLIT[NUMBER]` for a record of a TFDS folder,
or `mini:TASK/SPLIT/NUMBER` for a picture that is drawn when it is opened.
"""

import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from batch_calibration.data import files, tfds_folder
from batch_calibration.data import image_records as picture_records
from batch_calibration.data.binding import bind
from batch_calibration.data.label_names import label_of, labels_by_name, plain
from batch_calibration.embedded import images as drawn
from batch_calibration.errors import InputError
from batch_calibration.tasks.base import IMAGE, Rows, Task

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
"""Pictures in no splits are `all`; of each class one in `HELD` is `train` and the rest `test`."""
MOST_BYTES = 2**28
RECORD = re.compile(r"(?P<folder>.+)#(?P<split>[^#\[\]]+)\[(?P<number>\d+)\]")


class Picture(NamedTuple):
    """One picture: how it is opened, its name within its source, its label (-1 unknown)."""

    reference: str
    name: str
    label: int


Reader = Callable[[int], Sequence[Picture]]
"""`limit` -> the first pictures of a split, all where it is 0."""


class Gallery(NamedTuple):
    """A task's pictures in one place: in words, by split, and what must be known of them."""

    where: str
    splits: dict[str, Reader]
    present: tuple[int, ...]
    notes: tuple[str, ...] = ()


def open_picture(reference: str) -> bytes:
    """The encoded picture (JPEG, PNG, ...) that a row refers to; a drawn one comes as PNG.

    Raises:
      InputError: nothing is there, it cannot be read, or it is larger than 256 MiB.

    >>> open_picture("mini:svhn/test/0")[1:4]
    b'PNG'
    """
    if reference.startswith(drawn.PREFIX):
        return drawn.png(reference)
    path, record = Path(reference), RECORD.fullmatch(reference)
    if record and not path.exists():
        return picture_records.encoded(
            Path(record["folder"]), record["split"], int(record["number"])
        )
    try:
        if path.stat().st_size > MOST_BYTES:
            raise InputError(
                f"{path}: a picture of {path.stat().st_size / 2**20:,.0f} MiB; 256 MiB is the most "
                "that is read: scale it down or take it out."
            )
        return path.read_bytes()
    except OSError as error:
        raise InputError(
            f"{path}: cannot be read ({error.strerror}); put the picture there."
        ) from error


def signature(reference: str) -> str:
    """What tells that a picture was replaced under the same name, cheaply: its size in bytes."""
    path = Path(reference)
    return str(path.stat().st_size) if path.is_file() else ""


def read(task: Task, data: str, split: str, limit: int = 0) -> Rows:
    """The rows of an image task's split; those of folders and tables in an order by hash.

    The order has nothing to do with classes, so the first rows are a sample of all. `data` is
    `"mini"` or a folder; what is looked for there is in docs/vision.md.

    Raises:
      InputError: no such pictures or split, a class that is none of the task's, one class alone.
    """
    gallery = find(task, data)
    if gallery is None:
        raise InputError(_nothing(task, data))
    served = split if split in gallery.splits else task.stand_ins.get(split, split)
    if served not in gallery.splits:
        raise InputError(
            f"{gallery.where}: task {task.name} has no split {split!r} there; there are: "
            f"{', '.join(gallery.splits)}."
        )
    found = gallery.splits[served](limit)
    if not found:
        raise InputError(
            f"{gallery.where}: split {served} is empty, expected at least one picture; of {HELD} "
            "pictures of a class in no splits, one is for train."
        )
    return Rows(
        tuple({IMAGE: picture.reference} for picture in found),
        tuple(picture.label for picture in found),
        tuple(f"{task.name}/{served}/{picture.name}" for picture in found),
        gallery.where,
        served,
        gallery.present,
        gallery.notes,
    )


def splits(task: Task, data: str) -> tuple[str, ...]:
    """Names of the splits that `data` has of an image task; none where it has no pictures."""
    gallery = find(task, data)
    return tuple(gallery.splits) if gallery else ()


def find(task: Task, data: str) -> Gallery | None:
    """The pictures of a task, None where there are none."""
    own = task.folder or bool(task.files)
    if data == drawn.MINI and not own:
        return _drawn(task)
    if task.files:
        return _tables(task, {s: Path(f) for s, f in task.files.items()}, task.source)
    if task.folder:
        places = [Path(task.folder)]
    elif not data:
        raise InputError("data: expected a folder of pictures or 'mini', got nothing; give one.")
    else:
        places = [Path(data) / task.name, Path(data) / f"extra_{task.name}", Path(data)]
    if not places[-1].is_dir():
        raise InputError(f"data {places[-1]}: no such folder; give one of pictures, or 'mini'.")
    for place in places:
        tables = files.in_folders(place) if place != Path(data) else {}
        named = {SPLITS[s]: path for s, path in tables.items() if s in SPLITS}
        if named:
            return _tables(task, named, str(place))
        gallery = _folders(task, place) or _folders(task, place / "images")
        if gallery:
            return gallery
        if len(tables) == 1:
            return _tables(task, {WHOLE: next(iter(tables.values()))}, str(place))
    prepared = tfds_folder.find(task, Path(data)) if data else None
    return _records(task, prepared) if prepared else None


def _nothing(task: Task, data: str) -> str:
    first, second = task.label_names[0].replace("/", ""), task.label_names[1].replace("/", "")
    looked = [
        f"{task.name}/{first}/*.jpg and so on with a folder for each class",
        f"{task.name}/test/{second}/*.jpg and so on",
        f"{task.name}/test.csv with the columns path and label",
        *(f"{name}/<version>/" for name in task.tfds),
    ]
    return (
        f"{f'folder {task.folder}' if task.folder else f'data {data}'}: no pictures of task "
        f"{task.name} there; looked for {'; '.join(looked)}."
    )


# --- a folder per class


def _folders(task: Task, root: Path) -> Gallery | None:
    """Class folders in `root`, or in a folder a split there; None where no folder is a class."""
    inside = _subfolders(root)
    parts = {
        SPLITS[f.name.lower()]: f
        for f in inside
        if f.name.lower() in SPLITS and _is_gallery(task, f)
    }
    if not parts and not _is_gallery(task, root):
        return None
    notes: list[str] = []
    found = {
        split: _pictures(task, folder, notes) for split, folder in (parts or {WHOLE: root}).items()
    }
    return _gallery(task, f"folder {root}", found, notes)


def _subfolders(root: Path) -> list[Path]:
    if not root.is_dir():
        return []
    return sorted(f for f in root.iterdir() if f.is_dir() and not f.name.startswith("."))


def _is_gallery(task: Task, root: Path) -> bool:
    known = labels_by_name(task)
    return any(plain(folder.name) in known for folder in _subfolders(root))


def _pictures(task: Task, root: Path, notes: list[str]) -> list[Picture]:
    found, others = [], []
    for folder in _subfolders(root):
        label = label_of(task, folder.name, str(folder))
        for path in sorted(p for p in folder.rglob("*") if p.is_file()):
            if path.suffix.lower() in ENDINGS:
                found.append(Picture(str(path), path.relative_to(root).as_posix(), label))
            elif not path.name.startswith("."):
                others.append(path)
    if others:
        notes.append(
            f"{task.name}: {len(others)} files in {root} are left out, for they end like no "
            f"picture ({others[0].name})"
        )
    return sorted(found, key=_hash)


# --- tables of paths and labels


def _tables(task: Task, tables: dict[str, Path], where: str) -> Gallery:
    found = {split: _listed(task, path) for split, path in tables.items()}
    return _gallery(task, f"files in {where}" if Path(where).is_dir() else where, found, [])


def _listed(task: Task, table: Path) -> list[Picture]:
    found = []
    for where, record in files.records(task, table):
        row, label = bind(task, record, where)
        path = table.parent / row[IMAGE]
        if not path.is_file():
            raise InputError(
                f"{where}: no picture {path}; paths are read from the table's own folder: correct "
                "it or put the picture there."
            )
        found.append(Picture(str(path), row[IMAGE], label))
    return sorted(found, key=_hash)


# --- what folders and tables share


def _hash(picture: Picture) -> tuple[int, str]:
    return zlib.crc32(picture.name.encode()), picture.name


def _gallery(task: Task, where: str, found: dict[str, list[Picture]], notes: list[str]) -> Gallery:
    """Check the classes, deal pictures without splits to train and test, and write the notes."""
    counts = Counter(p.label for pictures in found.values() for p in pictures if p.label >= 0)
    if len(counts) == 1:
        (only,) = counts
        raise InputError(
            f"{where}: all {counts[only]} pictures of task {task.name} are of class "
            f"{task.label_names[only]!r}, expected two classes or more; add the others."
        )
    if set(found) == {WHOLE}:
        train, test = _deal(found[WHOLE])
        found = {**found, "train": train, "test": test}
        notes = [*notes, (
            f"{task.name}: {where} has no splits: one picture in {HELD} of each class is kept for "
            f"train ({len(train):,}), the others are test ({len(test):,})"
        )]  # fmt: skip
    present = tuple(sorted(counts))
    readers: dict[str, Reader] = {s: partial(_first, pictures) for s, pictures in found.items()}
    return Gallery(where, readers, present, tuple(notes))


def _deal(pictures: Iterable[Picture]) -> tuple[list[Picture], list[Picture]]:
    """Train and test: the first fifth of each class by hash, so that both hold every class."""
    by_label: dict[int, list[Picture]] = {}
    for picture in pictures:
        by_label.setdefault(picture.label, []).append(picture)
    train = [p for same in by_label.values() for p in same[: len(same) // HELD]]
    test = [p for same in by_label.values() for p in same[len(same) // HELD :]]
    return sorted(train, key=_hash), sorted(test, key=_hash)


def _first(pictures: Sequence[Picture], limit: int) -> Sequence[Picture]:
    return pictures[: limit or None]


# --- TFDS folders and drawn pictures


def _records(task: Task, folder: Path) -> Gallery:
    names = picture_records.splits(task, folder)

    def reader(split: str, part: slice, limit: int) -> Sequence[Picture]:
        labels = picture_records.labels(task, folder, split, part, limit)
        return [Picture(f"{folder}#{split}[{i}]", str(i), label) for i, label in labels]

    readers: dict[str, Reader] = {n: partial(reader, n, slice(None)) for n in names}
    notes: tuple[str, ...] = ()
    if names == ("train",):
        (only,) = names
        size = picture_records.size(folder, only)
        cut = size // HELD
        readers = {
            WHOLE: readers[only],
            "train": partial(reader, only, slice(cut)),
            "test": partial(reader, only, slice(cut, None)),
        }
        notes = (
            f"{task.name}: {folder} has the one split {only!r}: the first {cut:,} of its pictures, "
            f"which TFDS has shuffled, are train here and the other {size - cut:,} are test",
        )
    return Gallery(f"TFDS folder {folder}", readers, tuple(range(len(task.label_names))), notes)


def _drawn(task: Task) -> Gallery | None:
    if task.name not in drawn.TASKS:
        return None

    def reader(split: str, limit: int) -> Sequence[Picture]:
        return [
            Picture(reference, reference.rpartition("/")[2], label_of(task, name, reference))
            for reference, name in drawn.rows(task.name, split, limit)
        ]

    names = drawn.class_names(task.name)
    present = tuple(sorted(label_of(task, name, "the mini suite") for name in names))
    readers: dict[str, Reader] = {split: partial(reader, split) for split in drawn.SIZES}
    return Gallery(f"the mini suite's drawn {task.name}", readers, present)
