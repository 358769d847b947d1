"""Every method side by side on labeled rows: accuracy, gain over ICL, and whether it is noise."""

from collections.abc import Mapping, Sequence

import jax
import numpy as np
from numpy.typing import ArrayLike

from batch_calibration.arrays import column_numbers, in_row_order, names_of
from batch_calibration.diagnosis.method_results import Comparison, judge_answers
from batch_calibration.errors import InputError
from batch_calibration.methods import (
    METHODS,
    Evidence,
    Options,
    check_chosen,
    check_labels,
    check_scores,
    find_unusable,
    get_method,
    no_log_probs,
)
from batch_calibration.methods import compare as correct_by_methods
from batch_calibration.methods.compiling import jit_methods


def compare(
    scores: ArrayLike,
    gold: ArrayLike,
    *,
    methods: Sequence[str] | None = None,
    probe: ArrayLike | None = None,
    labeled: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    options: Mapping[str, Options] | None = None,
    from_probs: bool | None = None,
    seed: int = 0,
) -> Comparison:
    """Every method that the scores allow, judged on rows whose right labels are known.

    Args:
        scores: [n, k], log-probabilities in nats of the rows to correct.
        gold: [n], their right labels as indices or names of columns; -1 where unknown.
        methods: names from `METHODS`; all that can be used by default.
        probe: [m, k], scores of content-free prompts, for the methods that learn from them.
        labeled: [m, k], scores of other, labeled rows, for the methods that learn from labels.
        labels: [m], the labels of these.
        options: method -> what its `make` takes, such as `{"bc": {"strength": 0.5}}`.
        from_probs: whether scores, probe and labeled are probabilities, as in `calibrate`.
        seed: of methods that start at random.

    Raises:
        InputError: as `calibrate`; no right label; labeled without labels or the reverse; an
            unknown method, or none that can be used.

    >>> comparison = compare(20 * [[-1.0, -3.0], [-2.0, -2.5]], 20 * [0, 1], methods=["icl", "bc"])
    >>> [(result.method, result.accuracy.value, result.verdict) for result in comparison.results]
    [('icl', 0.5, ''), ('bc', 1.0, 'a gain')]
    """
    rows, names = check_scores(scores, from_probs=from_probs), names_of(scores)
    right = check_labels(column_numbers(in_row_order(gold, "gold", scores), names), rows)
    if (labeled is None) != (labels is None):
        raise InputError(
            where="labeled", expected="labeled and labels together", got="one of them",
            remedy="give the scores of the labeled rows and their labels",
        )  # fmt: skip
    blocks = {"test": Evidence(rows[None], right[None])}
    if probe is not None:
        blocks["cc"] = Evidence(check_scores(probe, from_probs=from_probs)[None])
    if labeled is not None and labels is not None:
        labeled_rows = check_scores(labeled, from_probs=from_probs)
        label_numbers = column_numbers(in_row_order(labels, "labels", labeled), names)
        blocks["labeled"] = Evidence(
            labeled_rows[None], check_labels(label_numbers, labeled_rows)[None]
        )
    chosen = [get_method(name) and name for name in (METHODS if methods is None else methods)]
    skipped = find_unusable(
        chosen, rows.shape[-1], {name: block.log_probs.shape[1] for name, block in blocks.items()},
        no_level=no_log_probs(rows), options=options,
    )  # fmt: skip
    usable = [name for name in METHODS if name in chosen and name not in skipped]
    if not usable:
        raise InputError(
            where="methods", expected="one that the scores allow",
            got="; ".join(f"{name}: {why}" for name, why in skipped.items()) or "none",
        )  # fmt: skip
    checked = check_chosen(options, usable, [rows.shape[-1]])
    picks = predict_by_methods(blocks, usable, checked, seed=seed)
    return judge_answers({name: pick[0] for name, pick in picks.items()}, right, skipped)


def predict_by_methods(
    blocks: Mapping[str, Evidence],
    methods: Sequence[str],
    options: Mapping[str, Options],
    *,
    seed: int = 0,
) -> dict[str, np.ndarray]:
    """What each method predicts for the test rows of c contexts: name -> label indices [c n]."""
    picks = dict[str, jax.Array]()
    for is_looped in (True, False):
        names = [name for name in methods if METHODS[name].looped == is_looped]
        if names:
            predict = jit_methods(_predict, looped=is_looped)
            picks |= predict(dict(blocks), jax.random.key(seed), methods=names, options=options)
    # A compiled program returns a dict in the order of the alphabet.
    return {name: np.asarray(picks[name]) for name in methods}


def _predict(
    blocks: dict[str, Evidence], key: jax.Array, *, methods: Sequence[str],
    options: Mapping[str, Options],
) -> dict[str, jax.Array]:  # fmt: skip
    corrected = correct_by_methods(blocks, methods=methods, key=key, options=options)
    return {name: method.scores.argmax(axis=-1) for name, method in corrected.items()}
