"""What the console program says of a recommendation."""

from collections import Counter
from collections.abc import Sequence

from batch_calibration.artifacts.cells import Cells
from batch_calibration.diagnosis import LEAVE, Recommendation


def sentence(one: Recommendation) -> str:
    """The recommendation in one sentence."""
    first = one.reason[0]
    return f"Recommended: {first[0].lower()}{first[1:]}"


def call(one: Recommendation) -> str:
    """The words after the file's name that make the console program follow it, "" to leave it."""
    if one.method == LEAVE:
        return ""
    prior = one.options.get("target_prior")
    given = "" if prior is None else f" --prior={','.join(f'{share:.3g}' for share in prior)}"
    return f"--method={one.method}{given}"


def short(one: Recommendation) -> str:
    """Its name in a table: "leave it", the method, or the method and "prior"."""
    if one.method == LEAVE:
        return "leave it"
    return f"{one.method} with prior" if one.options else one.method


def over_all(every: Sequence[Recommendation]) -> str:
    """How often each is recommended over contexts."""
    counts = Counter(short(one) for one in every).most_common()
    listed = "; ".join(f"{name} in {count:,}" for name, count in counts)
    return f"Recommended, of {len(every):,} contexts: {listed}."


def measured_cells(one: Recommendation) -> Cells:
    """A row a method: its accuracy on the labeled rows, best first."""
    ranked = sorted(one.measured.items(), key=lambda pair: -pair[1].value)
    return [["method", "right"], *([name, str(share)] for name, share in ranked)]
