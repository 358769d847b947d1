"""Rows of a task: from the embedded suite, files, TFDS folders, image folders, task files."""

from batch_calibration.scoring.data.images import image_splits, read_images
from batch_calibration.scoring.data.task_file import load_task
from batch_calibration.scoring.data.texts import RowReader, read, splits

__all__ = ["RowReader", "image_splits", "load_task", "read", "read_images", "splits"]
