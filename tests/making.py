"""Makes records without scores, as tests of tables and figures need them."""

import numpy as np

from batch_calibration.metrics import with_intervals
from batch_calibration.studies import (
    ContextInfo,
    Curve,
    OverStream,
    ProbeSizes,
    Record,
    ScorerInfo,
    pack,
)

MODEL = {"model": "m", "scorer": ScorerInfo("causal_lm", "0" * 16), "split": "validation"}


def make_record(task, methods, *, labels=("yes", "no"), rows=277, context=None, **fields):
    """A record of one context; `methods` gives accuracies: of the rows the first are right."""
    info = ContextInfo(task=task, **{"shots": 0, "seed": 0} | MODEL | (context or {}))
    right = {name: np.arange(rows) < round(share * rows) for name, share in methods.items()}
    before = right.get("icl")
    return Record(
        id=f"{task}-{info.shots}-{info.seed}-{sorted(info.options.items())}",
        context=info,
        label_names=tuple(labels),
        rows={"test": rows},
        methods={
            name: with_intervals(
                {"accuracy": share}, right[name], before if name != "icl" else None
            )
            for name, share in methods.items()
        },
        classes=tuple(np.bincount(np.arange(rows) % len(labels)).tolist()),
        right={name: pack(hits) for name, hits in right.items()},
        **fields,
    )


def make_curve(values):
    """BCL's curve, the same on both sets of rows."""
    bounds = tuple(values)
    return Curve(bounds, bounds)


def make_stream(rows, **accuracy):
    """Accuracy by rows seen."""
    return OverStream(tuple(rows), {name: tuple(map(tuple, a)) for name, a in accuracy.items()})


def make_sizes(sizes, **accuracy):
    """Accuracy by probe size."""
    return ProbeSizes(tuple(sizes), {name: tuple(map(tuple, a)) for name, a in accuracy.items()})
