"""What was found as lines of JSON, for programs."""

import json
import math
from typing import cast

import numpy as np

from batch_calibration.cli.summaries import title
from batch_calibration.scores import ScoreTable


def print_line(table: ScoreTable, finding: tuple[object, ...]) -> None:
    """Print what was found of a context, a named tuple, as one line of JSON."""
    facts = {"context": title(table), "task": table.context.get("task"),
             "model": table.context.get("model")}  # fmt: skip
    print(json.dumps(facts | cast("dict[str, object]", plain(finding)), ensure_ascii=False))


def plain(fact: object) -> object:
    """A value without NumPy's types and named tuples; numbers that are none become None.

    >>> from batch_calibration.metrics import Estimate
    >>> plain({"gain": Estimate(0.5, float("nan"), 1.0), "rows": np.arange(2)})
    {'gain': {'value': 0.5, 'low': None, 'high': 1.0}, 'rows': [0, 1]}
    """
    if isinstance(fact, np.ndarray | np.generic):
        return plain(fact.tolist())
    if isinstance(fact, dict):
        return {str(name): plain(member) for name, member in fact.items()}
    if isinstance(fact, tuple) and hasattr(fact, "_asdict"):
        return plain(fact._asdict())
    if isinstance(fact, list | tuple):
        return [plain(member) for member in fact]
    if isinstance(fact, float) and not math.isfinite(fact):
        return None
    return fact
