"""Makes records without scores, as tests of tables and figures need them."""

from batch_calibration.accuracies import Curve, OverStream, ProbeSizes
from batch_calibration.records import ContextInfo, Record, ScorerInfo

MODEL = {"model": "m", "scorer": ScorerInfo("causal_lm", "0" * 16), "split": "validation"}


def make_record(task, methods, *, labels=("yes", "no"), rows=277, context=None, **others):
    """A record of one context; `methods` gives accuracies."""
    about = ContextInfo(task=task, **{"shots": 0, "seed": 0} | MODEL | (context or {}))
    return Record(
        id=f"{task}-{about.shots}-{about.seed}-{sorted(about.options.items())}",
        context=about,
        label_names=tuple(labels),
        rows={"test": rows},
        methods={name: {"accuracy": value} for name, value in methods.items()},
        **others,
    )


def make_curve(values):
    """BCL's curve, the same on both sets of rows."""
    both = tuple(values)
    return Curve(both, both)


def make_stream(rows, **accuracy):
    """Accuracy by rows seen."""
    return OverStream(tuple(rows), {name: tuple(map(tuple, a)) for name, a in accuracy.items()})


def make_sizes(sizes, **accuracy):
    """Accuracy by probe size."""
    return ProbeSizes(tuple(sizes), {name: tuple(map(tuple, a)) for name, a in accuracy.items()})
