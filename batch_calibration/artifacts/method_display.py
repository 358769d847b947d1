"""How tables and figures show each method; rules here show a new one without an entry."""

from typing import Literal, NamedTuple

from batch_calibration.methods import METHODS

Axes = Literal["log_probs", "probs"]


class Formulas(NamedTuple):
    """What a method does to log-probabilities s, or probabilities p, of labels 0, 1, ..."""

    cost: str  # of learning, beside asking the model
    scores: str  # after correction
    learned: str  # what is learned from the probe
    boundary: str  # between two labels


# The rows of the table of methods (Table 1 of the paper).
FORMULAS = {
    "cc": Formulas("add", "W p, W = diag(q)^-1", "log q = mean of s over the probe", "p0 = c p1"),
    "dc": Formulas("add", "s - b", "b = mean of s over the probe", "s0 = s1 + c"),
    "pc": Formulas(
        "EM of a Gaussian mixture", "log N(s; μ, Σ) of each label", "μ, Σ of each label",
        "N(s; μ0, Σ0) = N(s; μ1, Σ1)",
    ),
    "bc": Formulas("add", "s - b", "b = mean of s over the test rows", "s0 = s1 + c"),
    "bcl": Formulas(
        "a grid of strengths γ", "s - γ b", "b as BC, γ by accuracy on the labeled set",
        "s0 = s1 + γ c",
    ),
}  # fmt: skip

# CC's boundary is a rotation in probabilities; raw PC is the paper's Fig. 2, though a variant.
BOUNDARY_AXES: dict[str, Axes] = {"cc": "probs", "pc_raw": "log_probs"}


def boundary_axes(name: str) -> Axes | None:
    """The axes in which a method's decision boundary is drawn, None where it has no panel."""
    # A figure shows one boundary for all rows, learned without their labels.
    is_drawn = is_over_shots(name) and not METHODS[name].probe.labels
    return BOUNDARY_AXES.get(name, "log_probs" if is_drawn else None)


def is_over_shots(name: str) -> bool:
    """Whether curves of shots show a method: those of the paper's comparison of whole batches."""
    method = METHODS[name]
    return method.group == "paper" and not method.own_rows
