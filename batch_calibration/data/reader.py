"""Reads each split of a task once, however many contexts ask for it."""

from batch_calibration.data import images, texts
from batch_calibration.data.image_refs import ImageRows
from batch_calibration.tasks.base import Rows, Task


class RowReader:
    """Rows of tasks, kept from the first time they are read; one reader serves one run."""

    def __init__(self) -> None:
        self._texts: dict[tuple[str, ...], Rows] = {}
        self._images: dict[tuple[str, ...], ImageRows] = {}

    def texts(self, task: Task, data: str, split: str, limit: int = 0) -> Rows:
        """The rows of a task of texts, the first `limit` where it is not 0: `texts.read`."""
        key = task.name, task.source, data, split
        if limit < 0 or key not in self._texts:
            # A wrong limit is refused where rows are read.
            self._texts[key] = texts.read(task, data, split, min(limit, 0))
        return self._texts[key].first(limit)

    def images(self, task: Task, data: str, split: str, limit: int = 0) -> ImageRows:
        """The rows of an image task, the first `limit` where it is not 0: `images.read_images`."""
        key = task.name, task.source, data, split, str(limit)
        if key not in self._images:
            self._images[key] = images.read_images(task, data, split, limit)
        return self._images[key]
