"""What the console program says of a recommendation."""

from collections import Counter
from collections.abc import Mapping, Sequence

from batch_calibration.diagnosis import LEAVE, Recommendation
from batch_calibration.methods import METHODS, ask_about_order
from batch_calibration.reporting.cells import Cells
from batch_calibration.scores import ScoreTable

MAX_DOUBTS = 3
"""Contexts of which a question on their right labels is printed."""


def sentence(recommendation: Recommendation) -> str:
    """The recommendation in one sentence."""
    first = recommendation.reason[0]
    # A sentence of its own begins with a capital.
    return f"Recommended: {first[0].lower()}{first[1:]}"


def call(recommendation: Recommendation) -> str:
    """The words after the file's name that make the console program follow it, "" to leave it."""
    if recommendation.method == LEAVE:
        return ""
    flags = [f"--method={recommendation.method}"]
    prior, strength = map(recommendation.options.get, ("target_prior", "strength"))
    if isinstance(prior, tuple):
        flags.append(f"--prior={','.join(f'{share:.3g}' for share in prior)}")
    if strength is not None:
        flags.append(f"--strength={strength:g}")
    if METHODS[recommendation.method].probe.labels:
        flags.append("--labeled=LABELED")
    return " ".join(flags)


def over_all(recommendations: Sequence[Recommendation]) -> str:
    """How often each is recommended over contexts."""
    counts = Counter(recommendation.short for recommendation in recommendations).most_common()
    listed = "; ".join(f"{name} in {count:,}" for name, count in counts)
    return f"Recommended, of {len(recommendations):,} contexts: {listed}."


def measured_cells(recommendation: Recommendation) -> Cells:
    """A row a method: its accuracy on the labeled rows, best first."""
    # Value: accuracy on the labeled rows.
    ranked = sorted(recommendation.measured.items(), key=lambda pair: -pair[1].value)
    return [["method", "right"], *([name, str(share)] for name, share in ranked)]


def doubts(tables: Mapping[str, ScoreTable]) -> list[str]:
    """Title -> context, in questions on those whose right labels speak against their scores."""
    questions = []
    for title, table in tables.items():
        test = table.blocks["test"]
        if question := ask_about_order(test.log_probs, test.labels):
            questions.append(f"{title}: {question}")
    more = len(questions) - MAX_DOUBTS
    return questions[:MAX_DOUBTS] + [f"The same holds of {more:,} more contexts."] * (more > 0)
