"""The table of methods, the probes they learn from, their options, and what fits them."""

from batch_calibration.methods.fitting import (
    Blocks,
    Corrected,
    Evidence,
    compare,
    correct,
    fit,
    gather,
    make_calibrator,
    over_contexts,
)
from batch_calibration.methods.label_order import ask_about_order, warn_about_order
from batch_calibration.methods.options import check_chosen, read_options
from batch_calibration.methods.run import correct_context, find_skipped, run_methods
from batch_calibration.methods.table import METHODS, Group, Method, Options, get_method
from batch_calibration.methods.validation import (
    check_labels,
    check_options,
    check_scores,
    look_like_cosines,
    no_log_probs,
    warn_of_few_rows,
)

__all__ = [
    "METHODS", "Blocks", "Corrected", "Evidence", "Group", "Method", "Options",
    "ask_about_order", "check_chosen", "check_labels", "check_options", "check_scores", "compare",
    "correct", "correct_context", "find_skipped", "fit", "gather", "get_method",
    "look_like_cosines", "make_calibrator", "no_log_probs", "over_contexts", "read_options",
    "run_methods", "warn_about_order", "warn_of_few_rows",
]  # fmt: skip
