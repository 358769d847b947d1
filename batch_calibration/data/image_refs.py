"""References to images: a file, a record of a TFDS folder, an image of the embedded suite."""

from pathlib import Path
from typing import NamedTuple, Protocol

from batch_calibration.data import image_records
from batch_calibration.embedded import images as embedded_images
from batch_calibration.errors import InputError

MAX_BYTES = 2**28  # 256 MiB


class ImageRow(Protocol):
    """A reference to an image, as rows hold it; its text says where it lies."""

    def read(self) -> bytes:
        """The encoded image."""

    def signature(self) -> str:
        """What tells cheaply that the image was replaced under the same name; "" where nothing."""


class ImageFile(NamedTuple):
    """An image in a file of its own."""

    path: Path

    def __str__(self) -> str:
        """The path."""
        return str(self.path)

    def read(self) -> bytes:
        """The file's bytes.

        Raises:
          InputError: there is no such file, it cannot be read, or it is larger than 256 MiB.
        """
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
        return image_records.encoded(self.folder, self.split, self.number)

    def signature(self) -> str:
        """Nothing: a prepared folder is not edited record by record."""
        return ""


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


class ImageRows(NamedTuple):
    """Rows of one split of an image task: references, labels (-1 unknown), ids that lead back.

    `where` and `split` are as of text rows; `present` are the labels that the source has any
    images of, `notes` say in sentences what a reader of the numbers must know.
    """

    images: tuple[ImageRow, ...]
    labels: tuple[int, ...]
    ids: tuple[str, ...]
    where: str
    split: str = ""
    present: tuple[int, ...] = ()
    notes: tuple[str, ...] = ()
