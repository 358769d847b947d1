"""Readers of what users give: numbers, frames, missing scores, names of labels."""

from batch_calibration.arrays.alignment import column_numbers, in_label_order, in_row_order
from batch_calibration.arrays.frames import GOLD, column_names, in_kind_of, is_frame, names_of
from batch_calibration.arrays.missing_scores import (
    BELOW,
    BOUND,
    LARGEST,
    Missing,
    check_missing,
    fill_every_row,
    fill_scores,
    find_impossible,
    find_missing,
    refuse_unusable,
)
from batch_calibration.arrays.numbers import (
    check_key,
    plain,
    read_floats,
    read_labeled,
    read_numbers,
    read_rows,
    read_scores,
    read_whole_numbers,
    reads_rows,
    refuse_unordered,
    refuse_without_column,
    takes_predictions,
)
from batch_calibration.arrays.score_scale import (
    MAX_LOG_PROB,
    find_scale,
    keep_differences,
    note_moved,
    to_nats,
)

__all__ = [
    "BELOW", "BOUND", "GOLD", "LARGEST", "MAX_LOG_PROB",
    "Missing", "check_key", "check_missing", "column_names", "column_numbers",
    "fill_every_row", "fill_scores", "find_impossible", "find_missing", "find_scale", "in_kind_of",
    "in_label_order", "in_row_order", "is_frame", "keep_differences", "names_of", "note_moved",
    "plain", "read_floats", "read_labeled",
    "read_numbers", "read_rows", "read_scores", "read_whole_numbers", "reads_rows",
    "refuse_unordered", "refuse_unusable", "refuse_without_column", "takes_predictions", "to_nats",
]  # fmt: skip
