"""The study "judge": a pairwise judge with a position bias, corrected from one order of answers.

Each instruction is shown in one order; about half of them show the candidate's answer first. There
are no right labels. The study measures whether a candidate's win rate depends on its position.
"""

from collections.abc import Mapping
from functools import partial
from itertools import product
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np
from matplotlib.figure import Figure
from scipy.special import expit, logit
from scipy.stats import spearmanr

from batch_calibration.methods import METHODS
from batch_calibration.reporting.cells import Cells, markdown
from batch_calibration.reporting.figures import style
from experiments.evidence import sets, statistics
from experiments.evidence.page import Written

COMPARED = ("icl", "bc", "bc_mean_prob", "prior_matching")
"""Methods that learn from unlabeled rows; the softmax of their scores is a preference."""
OTHER_HALF = "bc, learned from the other half"
HALVES = 2


class Options(NamedTuple):
    """Settings of the study.

    Attributes:
        seed: seed of the halves of instructions and of the bootstrap.
        draws: number of bootstrap draws of models.
    """

    seed: int = 0
    draws: int = 10_000


class Judgments(NamedTuple):
    """The judge's preferences.

    Attributes:
        margins: [models, instructions], log-odds of the answer shown first; NaN if unknown.
        is_first: [instructions], True if the candidate's answer was shown first.
        models: names of the candidates.
    """

    margins: np.ndarray
    is_first: np.ndarray
    models: tuple[str, ...]


def run(folder: Path, options: Options) -> Written:
    """Runs the study: measures win rates by position before and after correction."""
    judgments = read_judgments(folder)
    margins = {name: correct(judgments.margins, name) for name in COMPARED}
    margins[OTHER_HALF] = correct_from_other_half(judgments.margins, options.seed)
    rates = {name: win_rates(corrected, judgments.is_first) for name, corrected in margins.items()}
    biases = np.nanmean(judgments.margins, axis=1)
    table = cells(rates, options)
    heads = map("_".join, product(rates, ("first", "second")))
    by_model: Cells = [["model", "bias_nats", *heads]]
    numbers = np.column_stack([biases, *rates.values()])  # [models, 1 + 2 x methods]
    for model, row in zip(judgments.models, numbers, strict=True):
        by_model.append([model, *statistics.number_cells(row, ".4f")])
    return Written(
        findings(biases, options), section(judgments, table),
        {"evidence_judge": table, "evidence_judge_models": by_model},
        {"evidence_judge": partial(draw, rates)},
    )  # fmt: skip


def read_judgments(folder: Path) -> Judgments:
    """Reads the judge's log-odds of the answer shown first.

    A probability of 0 means that the list of the most probable tokens lacks the answer. It is
    replaced by the lowest positive probability.
    """
    archive = sets.arrays(folder, "judge")
    preferred = archive["p_candidate"].astype(np.float64)
    smallest = preferred[preferred > 0].min()
    candidate = logit(np.clip(preferred, smallest, 1 - smallest))
    is_first = archive["candidate_first"].astype(bool)
    models = tuple(map(str, archive["models"]))
    return Judgments(np.where(is_first, candidate, -candidate), is_first, models)


def correct(margins: np.ndarray, name: str) -> np.ndarray:
    """Corrects the margins [models, instructions] with a method, separately for each model."""
    fit, apply = METHODS[name].make()
    # Log-probabilities of both answers. An unknown margin has weight 0 and stays NaN.
    is_known = ~np.isnan(margins)
    filled = np.where(is_known, margins, 0.0)
    rows = np.stack([-np.logaddexp(0.0, -filled), -np.logaddexp(0.0, filled)], axis=-1)
    corrected = np.full(margins.shape, np.nan)
    for model, (model_rows, weight) in enumerate(zip(rows, is_known, strict=True)):
        state = fit(model_rows, None, weight.astype(np.float32), key=jax.random.key(0))
        scores = np.asarray(apply(state, model_rows), np.float64)
        corrected[model, weight] = (scores[:, 0] - scores[:, 1])[weight]
    return corrected


def correct_from_other_half(margins: np.ndarray, seed: int) -> np.ndarray:
    """Corrects each half of the instructions with the BC bias of the other half."""
    half = np.random.default_rng(seed).permutation(margins.shape[1]) % HALVES
    corrected = np.empty(margins.shape)
    for judged in range(HALVES):
        bias = np.nanmean(margins[:, half != judged], axis=1, keepdims=True)
        corrected[:, half == judged] = margins[:, half == judged] - bias
    return corrected


def win_rates(margins: np.ndarray, is_first: np.ndarray) -> np.ndarray:
    """Computes win rates of candidates shown first and shown second, [models, 2] in percent."""
    preferred = expit(np.where(is_first, margins, -margins))
    shown_first = np.nanmean(preferred[:, is_first], axis=1)
    shown_second = np.nanmean(preferred[:, ~is_first], axis=1)
    return 100 * np.stack([shown_first, shown_second], axis=1)


def findings(biases: np.ndarray, options: Options) -> list[str]:
    """Writes the finding: the judge's position bias."""
    bias = statistics.mean_interval(-biases, options.seed, draws=options.draws)
    return [
        f"**A judge of pairs is corrected from one order of the answers**: gpt-4-1106-preview "
        f"prefers the second answer by {bias[0]:.1f} nats [{bias[1]:.1f}, {bias[2]:.1f}] (95 % "
        f"interval over {len(biases)} candidates; {int((biases < 0).sum())} have this sign). The "
        "second order is not needed: bc closes most of the gap between the win rates."
    ]


def section(judgments: Judgments, table: Cells) -> str:
    """Writes the section in Markdown."""
    models, instructions = judgments.margins.shape
    first = 100 * judgments.is_first.mean()
    return "\n\n".join([
        f"The judge compares {models} candidates with one reference on {instructions} "
        f"instructions, each in one order, with the candidate first in {first:.1f} % of them. A "
        "smaller gap is better; `prior_matching` closes it by construction. Same order: Spearman's "
        "rank correlation of the candidates' win rates by position.",
        "![Win rates by place before and after the correction](figures/evidence_judge.png)",
        markdown(table),
    ])  # fmt: skip


def cells(rates: Mapping[str, np.ndarray], options: Options) -> Cells:
    """Formats a line for each method: win rates by position, their gap and rank correlation."""
    lines = [["method", "wins, first", "wins, second", "second - first", "mean |gap|",
              "same order"]]  # fmt: skip
    for name, by_place in rates.items():
        gaps = by_place[:, 1] - by_place[:, 0]
        gap = statistics.mean_interval(gaps, options.seed, draws=options.draws)
        first, second = by_place.mean(axis=0)
        lines.append([
            name, f"{first:.1f} %", f"{second:.1f} %", statistics.interval_cell(*gap),
            f"{np.abs(gaps).mean():.1f}", f"{spearmanr(*by_place.T).statistic:.3f}",
        ])  # fmt: skip
    return lines


@style.styled
def draw(rates: Mapping[str, np.ndarray]) -> Figure:
    """Draws each candidate's win rates by position, before and after BC; no bias is on the line."""
    most = float(np.max(list(rates.values())))
    figure, grid = style.panels(2, (3.0, 2.4))
    for axes, name in zip(grid, ("icl", "bc"), strict=True):
        axes.plot([0, most], [0, most], color=style.FAINT, lw=1.5)
        style.dots(axes, rates[name][:, 0], rates[name][:, 1], alpha=0.7)
        style.label(axes, name, "wins shown first (%)", "wins shown second (%)")
        axes.set_aspect("equal")
    heading = "A judge's win rates by the place of the candidate"
    return style.finish(figure, heading, "A dot is a candidate.", []).figure
