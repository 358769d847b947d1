"""Makes records without scores, as tests of tables and figures need them."""

import numpy as np

from batch_calibration.metrics import with_intervals
from batch_calibration.reporting.frame import Frame, sort_records
from batch_calibration.reporting.words import Card
from batch_calibration.studies import Record
from batch_calibration.studies.records import ByRows, ContextInfo, Curve, Result, ScorerInfo, pack

MODEL = {"model": "m", "scorer": ScorerInfo("causal_lm", "0" * 16), "split": "validation"}


def make_record(
    task,
    methods,
    *,
    labels=("yes", "no"),
    rows=277,
    context=None,
    curve=None,
    strength=None,
    **fields,
):
    """A record of one context; `methods` gives accuracies, or for each row whether it is right.

    Of an accuracy the first rows are right.

    Fields of results, such as `bias`, are by method; the last method searched the strength.
    """
    info = ContextInfo(task=task, **{"shots": 0, "seed": 0} | MODEL | (context or {}))
    right = {}
    for name, share in methods.items():
        right[name] = share if np.ndim(share) else np.arange(rows) < round(share * rows)
    kinds = ("bias", "options", "probe_size", "over_stream")
    results_of = {kind: fields.pop(kind, None) or {} for kind in kinds}
    names = {*methods, *(name for of_methods in results_of.values() for name in of_methods)}
    results = {}
    for name in sorted(names, key=[*methods, *sorted(names)].index):
        metrics = {"accuracy": 0.5}
        if name in methods:
            before = right.get("icl") if name != "icl" else None
            accuracy = float(np.mean(methods[name]))
            metrics = with_intervals({"accuracy": accuracy}, right[name], before)
        own = {
            kind: of_methods[name] for kind, of_methods in results_of.items() if name in of_methods
        }
        if name == [*methods][-1]:
            own |= {"curve": curve, "strength": strength}
        results[name] = Result(metrics, pack(right[name]) if name in right else "", **own)
    return Record(
        id=f"{task}-{info.shots}-{info.seed}-{sorted(info.options.items())}",
        context=info,
        label_names=tuple(labels),
        rows={"test": rows},
        methods=results,
        classes=tuple(np.bincount(np.arange(rows) % len(labels)).tolist()),
        **fields,
    )


def by_method(record, field):
    """Method -> a field of its result, of those that have one."""
    values = {name: getattr(result, field) for name, result in record.methods.items()}
    return {name: value for name, value in values.items() if value}


def make_curve(values):
    """BCL's curve, the same on both sets of rows."""
    bounds = tuple(values)
    return Curve(bounds, bounds)


def make_by_rows(rows, **accuracy):
    """Accuracy by rows learned from, or seen."""
    rows = tuple(rows)
    return {name: ByRows(rows, tuple(map(tuple, draws))) for name, draws in accuracy.items()}


def make_card(*verdicts, heading="here"):
    """A card of contexts without results; each has a seed of its own."""
    records, own = [], []
    for seed, verdict in enumerate(verdicts):
        found = verdict.diagnosis
        context = ContextInfo(task=verdict.task, seed=seed)
        records.append(Record(f"{seed}", context, found.label_names, {"test": found.rows}, {}))
        own.append(verdict._replace(record=f"{seed}"))
    return Card(heading, Frame(sort_records(records)), own)
