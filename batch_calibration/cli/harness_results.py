"""Copies of the harness's results_*.json that have the corrected accuracies, too."""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from batch_calibration.cli.summaries import Corrected
from batch_calibration.errors import InputError
from batch_calibration.files import write_whole
from batch_calibration.importers import is_remote
from batch_calibration.importers.lm_eval_results import results_of
from batch_calibration.importers.text_files import fields
from batch_calibration.metrics import accuracy, balanced_accuracy


def write(files: Sequence[Path], corrected: Sequence[Corrected], method: str) -> list[Path]:
    """Write `results_*_corrected.json` beside each file of results.

    A task gets what `integrations.lm_eval.CorrectedTask` adds to the harness's table:
    `acc_METHOD`, `balanced_acc`, `balanced_acc_METHOD` and `preference_nats`.

    Returns:
        The files that were written.

    Raises:
        InputError: a log without results beside it, or with several contexts.
    """
    documents: dict[Path, Any] = {}  # several logs share a file of results
    for file, context in zip(files, corrected, strict=True):
        if is_remote(file) or list(files).count(file) > 1:
            got = "one elsewhere" if is_remote(file) else "several contexts of one log"
            raise InputError(
                where=file, expected="a log of one context in a folder of this machine", got=got,
                remedy="leave --results out",
            )  # fmt: skip
        log = file.with_name(re.sub(r"\.(gz|zst)$", "", file.name))
        name, averages, task = results_of(log)
        if task not in fields(averages.get("results")):
            raise InputError(
                where=file, expected=f"the task {task!r} in {name} beside the log", got="none",
                remedy="leave --results out, or copy the harness's results there",
            )  # fmt: skip
        path = file.with_name(f"{Path(name).stem}_corrected.json")
        document = documents.setdefault(path, dict(averages))
        document["results"] = {**document["results"]}
        document["results"][task] = {**document["results"][task], **_metrics(context, method)}
    for path, document in documents.items():
        write_whole(path, (json.dumps(document, indent=2, ensure_ascii=False) + "\n").encode())
    return list(documents)


def _metrics(context: Corrected, method: str) -> dict[str, float]:
    """The metrics of one task, by the names that the harness gives them in a file of results."""
    block = context.table.blocks["test"]
    scores = np.asarray(block.log_probs)
    is_known = block.labels >= 0
    metrics = {"preference_nats": float(np.ptp(scores.astype(np.float64).mean(axis=0)))}
    if is_known.any():
        labels, after = block.labels[is_known], context.scores[is_known]
        metrics[f"acc_{method}"] = float(accuracy(after, labels))
        metrics["balanced_acc"] = float(balanced_accuracy(scores[is_known], labels))
        metrics[f"balanced_acc_{method}"] = float(balanced_accuracy(after, labels))
    return {f"{name},none": number for name, number in metrics.items()}
