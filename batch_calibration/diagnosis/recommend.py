"""Recommends label shares to match, for one context or for several contexts together.

Rows without labels cannot separate bias from label shares, so advice is a prior on both. Its shares
are known (balanced, stated), estimated from one or several contexts, or learned from labeled rows.
`matching.prior_matching` then matches each context to the shares.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike
from scipy.special import softmax

from batch_calibration.arrays.alignment import column_numbers, in_label_order, in_row_order
from batch_calibration.arrays.frames import is_frame, names_of
from batch_calibration.arrays.numbers import usual_jax
from batch_calibration.calibration import pooled_shares
from batch_calibration.calibration import shares as estimates
from batch_calibration.calibration.base import label_normalized
from batch_calibration.calibration.empirical_bayes import LEAST_INFORMATION, information
from batch_calibration.calibration.shift import Shift
from batch_calibration.diagnosis import advice as advising
from batch_calibration.diagnosis import labeling
from batch_calibration.diagnosis.advice import LEAVE, MATCH, UNCHANGED, UNKNOWN, Advice, Options
from batch_calibration.diagnosis.diagnose import are_grades, check_names, pair_error
from batch_calibration.diagnosis.known_shares import Known, Share, know_roughly, know_shares
from batch_calibration.errors import InputError, call, shown
from batch_calibration.methods import METHODS, Evidence, ask_about_order, run, validation
from batch_calibration.metrics import accuracy_of, gain_of
from batch_calibration.metrics.grades import grade_values
from batch_calibration.scores import NO_PLACE_BIAS, ScoreTable, make_block
from batch_calibration.typing import FromProbs, Ordinal, Scalar

FOLDS = 8
PAIRS = np.column_stack(np.triu_indices(FOLDS))
"""[36, 2], pairs of folds that are held out together; (i, i) holds out only fold i."""
FEWEST_LABELED_TO_MEASURE = 16
"""The fewest labeled rows on which methods are measured."""
CANDIDATES = (
    "icl", "cc", "bc", "bcl", "bc_empirical_bayes", "bcl_empirical_bayes", "prior_moved",
    "rbcorr", "vector",
)  # fmt: skip
"""The measured methods: few and of different kinds, because the best of many methods on few rows is
often the best by chance."""
CLEAR = 2.0
"""The least lead of another method over the default, in standard errors."""


class Choice(NamedTuple):
    """The method that labeled rows choose.

    Attributes:
        method: the name of the method.
        hits: method -> [m], True for labeled rows that it predicts correctly, fitted without their
            fold.
        held_out: [m], True for rows that the choice predicts correctly. The method for a fold is
            chosen by the rows of the other folds, with fits that did not see the fold.
        lead: the method's accuracy minus the default's accuracy.
        error: the standard error of the lead, paired by row.
    """

    method: str
    hits: dict[str, np.ndarray]
    held_out: np.ndarray
    lead: float
    error: float


def choose_by_labels(blocks: Mapping[str, Evidence], default: str, options: Options) -> Choice:
    """Chooses the default, or a method that is ahead of it by more than two standard errors.

    Nested cross-validation holds out `FOLDS` random folds, each separately and in pairs.

    Args:
        blocks: "test", "labeled" with known labels only, and the blocks of other probes.
        default: the name of the default method.
        options: the options of the default method.
    """
    rows = np.asarray(blocks["test"].log_probs)
    names = [name for name in CANDIDATES if _is_measurable(name, blocks, rows)]
    gold = np.asarray(blocks["labeled"].labels)
    # Stratified folds would leak the held-out labels.
    fold_of_row = np.random.default_rng(0).permutation(len(gold)) % FOLDS
    by_pair = {}
    for name in dict.fromkeys([*names, default]):
        by_pair[name] = _hits(name, blocks, options if name == default else {}, fold_of_row)
    # For each row, the hit of the fit that held out only its fold.
    own = fold_of_row, fold_of_row, np.arange(len(gold))
    hits = {name: grid[own] for name, grid in by_pair.items()}
    held_out = np.empty(len(gold), bool)
    for fold in range(FOLDS):
        is_out = fold_of_row == fold
        # Hits on rows of the other folds, by fits that saw neither their fold nor this one.
        by_other_fits = {}
        for name, grid in by_pair.items():
            by_other_fits[name] = grid[fold, fold_of_row[~is_out], ~is_out]
        best, _, _ = ahead(by_other_fits, default)
        held_out[is_out] = hits[best][is_out]
    method, lead, error = ahead(hits, default)
    return Choice(method, hits, held_out, lead, error)


def _is_measurable(name: str, blocks: Mapping[str, Evidence], rows: np.ndarray) -> bool:
    method = METHODS[name]
    return (
        set(method.probe.blocks) <= set(blocks)
        # None means any number of labels.
        and rows.shape[-1] <= (method.most_labels or rows.shape[-1])
        and not (method.needs_log_probs and validation.no_log_probs(rows))
    )


def _hits(
    name: str, blocks: Mapping[str, Evidence], options: Options, folds: np.ndarray
) -> np.ndarray:
    """Returns [folds, folds, m], True for rows predicted correctly by a fit without both folds."""
    gold = np.asarray(blocks["labeled"].labels)
    method, labeled = METHODS[name], blocks["labeled"]
    right = list[np.ndarray]()
    for pair in PAIRS:
        if not right or "labeled" in method.probe.blocks:  # else all fits are equal
            weight = np.all(folds != pair[:, None], axis=0).astype(np.float32)
            learned = {**blocks, "labeled": labeled._replace(weight=weight)}
            rows = np.asarray(labeled.log_probs)
            corrected = run.correct_context(method, learned, rows, options=options)
            is_right = np.argmax(corrected.scores, axis=-1) == gold
        right.append(is_right)
    grid = np.empty((FOLDS, FOLDS, len(gold)), bool)
    for (first, second), of_pair in zip(PAIRS, right, strict=True):
        grid[first, second] = grid[second, first] = of_pair
    return grid


def ahead(hits: Mapping[str, np.ndarray], default: str) -> tuple[str, float, float]:
    """Finds the method with the largest lead over `default` in excess of two standard errors.

    Returns:
        The name of the method, or `default` if no lead is that large; its lead in accuracy; and
        the standard error of the lead, paired by row.

    >>> ahead({"a": np.arange(9) < 2, "b": np.arange(9) < 8}, "a")[0]
    'b'
    >>> ahead({"a": np.arange(9) < 5, "b": np.arange(9) < 7}, "a")[0]
    'a'
    """
    # `most` is the largest excess so far; the default has 0.
    best, lead, error, most = default, 0.0, 0.0, 0.0
    for name, hit in hits.items():
        gains = hit.astype(float) - hits[default]
        mean, noise = float(gains.mean()), float(gains.std(ddof=1) / np.sqrt(len(gains)))
        if mean - CLEAR * noise > most:
            best, lead, error, most = name, mean, noise, mean - CLEAR * noise
    return best, lead, error


LIKELY, TOGETHER = "bc_empirical_bayes", "bc_pooled_shares"
"""Methods that estimate shares from one context, and from several contexts."""
WITH_LABELS, MOVED = "bcl_empirical_bayes", "prior_moved"
"""Methods that learn from labeled rows."""
OF_COSINES = "otter"
"""The method for cosines of unknown scale; it matches shares at any scale."""
LEAST_ROWS = 20
"""The fewest unlabeled rows for a correction without known shares."""
TO_LABEL = 32
"""The number of labeled rows that a sentence asks for."""
GRADES_ERROR = 0.05
"""The least error of the shares of grades. Without it, the few rows of a capable rater without a
bias are matched too closely (measured in docs/evidence.md)."""
FARTHER = 0.02
"""The tolerated increase of the total variation between predictions and known shares."""
MORE = (
    f"{FEWEST_LABELED_TO_MEASURE} labeled rows would make the choice surer, and so would "
    f"{pooled_shares.FEWEST_CONTEXTS} or more prompts of the same task together."
)


@usual_jax
def signals(scores: ArrayLike) -> advising.Signals:
    """Measures unlabeled scores [n, k], in nats.

    >>> shown = signals(10 * [[-1.0, -3.0], [-2.0, -2.5]])
    >>> round(shown.preference, 2), round(shown.information, 3)
    (1.25, 0.066)
    """
    rows = np.asarray(scores, np.float64)
    mean = rows.mean(axis=0)
    error = pair_error(rows, int(mean.argmax()), int(mean.argmin()))
    known = float(run.jit_quickly(_information)(run.pad_rows(Evidence(rows))))
    label_error = labeling.label_error(labeling.corrected_probs(rows))
    return advising.Signals(len(rows), float(np.ptp(mean)), error, known, label_error)


def _information(block: Evidence) -> Scalar:
    return information(label_normalized(block.log_probs), block.weight)


def implied_shares(rows: np.ndarray, bias: np.ndarray) -> tuple[float, ...]:
    """Computes the mean prediction [k] of scores [n, k] after a bias [k] is subtracted.

    Matching the scores to these shares removes the same bias, up to a constant.

    >>> [round(share, 3) for share in implied_shares(np.zeros((2, 2)), np.array([0.0, 1.0]))]
    [0.731, 0.269]
    """
    probs = softmax(np.asarray(rows, np.float64) - bias, axis=-1).mean(axis=0)
    return tuple(probs.tolist())


@usual_jax
def recommend(
    scores: ArrayLike,
    *,
    probe: ArrayLike | None = None,
    labeled: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    target_prior: Sequence[float] | Mapping[Hashable, float] | None = None,
    share: Share | None = None,
    counts: Sequence[float] | Mapping[Hashable, float] | None = None,
    columns: Sequence[Hashable] | None = None,
    label_names: Sequence[str] = (),
    from_probs: FromProbs = None,
    cosines: bool | None = None,
    ordinal: Ordinal | None = None,
) -> Advice:
    """Recommends label shares to match, or no correction, with reasons and the expected gain.

    1. With known shares, match them. For equal shares, ranges and `share="balanced:12"`, the match
       is not exact: it allows for the error of the shares and for the sampling error of few rows.
    2. Without known shares, match the shares that `bc_empirical_bayes` estimates from the scores;
       for grades, shares near equal shares. Leave the scores as they are if there are fewer than 20
       rows, if they have less than 0.05 nats of information on a row's label, or if they are
       cosines: scores of images do not show how frequent labels are.
    3. With counted labels, move these shares as far as the counts contradict them.
    4. With 16 labeled rows or more, match the shares that `bcl_empirical_bayes` learns (for images
       and with stated shares, `prior_moved`). Use another of nine methods if its cross-validated
       accuracy is ahead by more than two standard errors.

    Without labels, the expected gain is the mean gain of real models with similar scores, with the
    interval that contains 95 % of their gains. With labels, it is measured on held-out rows. The
    study configs/evidence_recommend.py tests these rules on data sources that were not used to tune
    them.

    Args:
        scores: [n, k], log-probabilities in nats of unlabeled rows of one prompt, logits, or
            cosines times their scale.
        probe: [p, k], scores of content-free prompts, so that cc is measured, too.
        labeled: [m, k], scores of labeled rows of the same prompt, such as the rows that
            `rows_to_label` chooses; fewer than 16 are ignored.
        labels: [m], the labels of these rows as indices or names of columns; -1 means unknown.
        target_prior: [k], the share of each label, in order or by name.
        share: "balanced" for about equal shares, "balanced:12" for shares within about 12 points of
            equal; the range of the first of two labels, such as (0.3, 0.7); or a range for every
            label, [k, 2] or by name.
        counts: [k], counts of labels of other rows of the task, in order or by name.
        columns: the names of the label columns, if a frame has other columns, too. Frames of
            labeled and probe must have columns with the same names.
        label_names: k names for the sentences; by default a frame's columns.
        from_probs: True if scores, probe and labeled are probabilities, see `calibrate`.
        cosines: True if scores are cosines, scaled or not, see `diagnose`.
        ordinal: True if labels are grades, or their names from lowest to highest. None: True if the
            names are numbers and the scores of most rows fall from the largest score to both ends,
            see `are_grades`.

    Raises:
        InputError: `calibrate` would refuse the scores; only one of labeled and labels is given; a
            probe is given without labeled rows; ordinal names other labels; no shares within the
            ranges sum to 1; or more than one of target_prior, share and counts is given.

    >>> advice = recommend(30 * [[-1.0, -4.0], [-2.0, -2.5]], label_names=("no", "yes"))
    >>> advice.short, advice.balanced.short
    ('estimated shares', 'equal shares')
    """
    from_probs = False if cosines else from_probs
    rows = validation.check_scores(scores, from_probs=from_probs, columns=columns)
    # A few rows of logits may all be above 0 and look like losses; `beside_others` accepts them.
    are_logits = bool((rows > 0).any())
    read = partial(validation.check_scores, from_probs=from_probs, beside_others=are_logits)
    k = rows.shape[-1]
    if rows.ndim != 2:
        expected = "the rows of one prompt at a time, [n, k]"
        raise InputError.at("scores", expected, f"shape {rows.shape}")
    if (labeled is None) != (labels is None) or (labeled is None and probe is not None):
        expected = "labeled=[m, k] and labels=[m] together, and probe= only with them, "
        expected += "because the labeled rows measure it"
        remedy = "give the missing argument, or leave all of them out"
        raise InputError.at("recommend", expected, remedy=remedy)
    given = {"target_prior": target_prior, "share": share, "counts": counts}
    if len(named := [name for name, one in given.items() if one is not None]) > 1:
        expected = "one of target_prior=, share= and counts="
        raise InputError.at("recommend", expected, " and ".join(named), "leave the others out")
    columns = names_of(scores, columns)
    names = check_names(label_names, columns, k)
    known: Known | None = None
    if target_prior is not None:
        in_order = in_label_order(target_prior, columns, "target_prior", k)
        validation.check_options(MATCH, METHODS[MATCH].make, {"target_prior": in_order}, k)
        known = know_shares(in_order)
    elif share is not None:
        known = know_roughly(share, k, columns or label_names)
    advice = advise(rows, names, known, cosines=cosines, ordinal=ordinal)
    if counts is not None:
        in_order = in_label_order(counts, columns, "counts", k)
        advice = move_by_counts(advice, rows, np.asarray(in_order, np.float64))
    if labeled is None:
        return advice

    def read_by_name(source: ArrayLike, where: str) -> np.ndarray:
        return read(source, where, labels=k, columns=columns if is_frame(source) else None)

    labeled_rows = read_by_name(labeled, "labeled")
    gold = in_row_order(labels, "labels", labeled, "labeled")
    gold = validation.check_labels(column_numbers(gold, columns or names_of(labeled)), labeled_rows)
    probe_rows = None if probe is None else read_by_name(probe, "probe")
    return advise_by_labels(advice, rows, labeled_rows, gold, probe=probe_rows, cosines=cosines)


def advise(
    rows: np.ndarray, names: Sequence[str], known: Known | None = None, *, contexts: int = 1,
    shares: tuple[float, ...] | None = None, same_rows: bool = False, is_labeled: bool = False,
    cosines: bool | None = None, ordinal: Ordinal | None = None,
) -> Advice:  # fmt: skip
    """Recommends shares for unlabeled scores [n, k].

    Args:
        rows: scores in nats, or cosines.
        names: the names of the k labels.
        known: known shares, if any.
        shares: [k], shares that are already estimated, such as from several contexts; None
            estimates them here.
        contexts: the number of contexts with which the shares were estimated.
        same_rows: True if these contexts are known to have the same rows.
        cosines: True if scores are cosines, scaled or not; None: see `diagnose`.
        ordinal: see `recommend`.
        is_labeled: True if enough right labels are known, so that no sentence asks for labels.
    """
    seen, is_unscaled = signals(rows), validation.look_like_cosines(rows)
    cosines = is_unscaled if cosines is None else cosines
    is_graded = are_grades(rows, names) if ordinal is None else ordinal is not False
    if not isinstance(ordinal, bool | None):
        grade_values(names, ordinal)  # refuses other labels
    equal = (OF_COSINES, Options()) if is_unscaled else (MATCH, Options(share_error=0.0))
    if is_graded:
        equal = MATCH, Options(share_error=GRADES_ERROR)
    leave = partial(
        Advice, LEAVE, {}, "", signals=seen, expected=UNCHANGED, label_names=tuple(names)
    )
    if known is not None:
        if is_graded and known.error is not None:
            known = known._replace(error=max(known.error, GRADES_ERROR))
        if cosines and known.error:  # The effect of an error depends on nats.
            known = known._replace(error=0.0)
        return _match_known(leave, rows, known, shares, equal[0], is_nats=not cosines)
    if cosines:
        why = "If labels are about equally frequent, match equal shares"
        why += "" if is_labeled else f"; if you do not know, label {TO_LABEL} rows"
        why += ": the scores of images do not show how frequent labels are."
        return leave((why,), if_balanced=equal)
    near = "If labels are about equally frequent, match equal shares; if you do not know, "
    least = pooled_shares.LEAST_TOLD if contexts > 1 else LEAST_INFORMATION
    narrowed = labeling.narrowing(seen.label_error, len(rows))
    more, unsure = "" if contexts > 1 or is_labeled else f"{MORE} {narrowed}".strip(), ""
    if len(rows) < LEAST_ROWS:
        unsure = f"{len(rows):,} rows (fewer than {LEAST_ROWS}) do not show if a correction is safe"
    elif seen.information < least:
        unsure = (
            f"their information on a row's label ({seen.information:.3f} nats, less than "
            f"{least:g}) is near guessing, so a correction only moves guesses; clearer "
            "label words, more demonstrations or a stronger model would help"
        )
    if unsure:
        why = f"{near}leave the scores as they are: {unsure}."
        return leave(_sentences(why, more), if_balanced=equal)
    make = partial(leave(())._replace, method=MATCH, if_balanced=equal)
    if is_graded:
        error = round(float(np.sqrt((len(names) - 1) / len(names) ** 3)), 3)
        why = (
            f"{near}match shares within about {100 * error:.0f} points of equal: mean scores of "
            "grades differ without any bias, because a middle grade is never far from right."
        )
        options = Options(share_error=error)
        return make(
            options=options, source=advising.EQUAL, reason=_sentences(why, more), expected=UNKNOWN
        )
    if shares is None:
        shares = implied_shares(rows, likely_bias(rows))
    is_pooled = contexts > 1
    source, where = advising.ESTIMATED, "these scores"
    if is_pooled:
        source, where = advising.POOLED, f"{contexts} contexts"
    options = Options(target_prior=shares)
    expected = advising.expect(rows, follow_rows(rows, MATCH, options), source)
    high, listed = int(rows.mean(axis=0).argmax()), _list(names, shares)
    favors = f"{'these scores' if is_pooled else 'they'} favor {names[high]!r} by "
    favors += f"{seen.preference:.2f} ± {seen.error:.2f} nats"
    match = f"match the shares estimated from {where}, {listed}"
    make = partial(make, options=options, source=source, expected=expected)
    if is_pooled and same_rows:
        why = f"{match[0].upper()}{match[1:]}: {favors}."
        averaged = (
            f"For one answer per row, {call('ensemble', 'contexts', {})} averages them; it gained "
            "1 to 16 points over the contexts' mean accuracy, most across different models."
        )
        return make(reason=_sentences(why, expected.sentence(), averaged), if_balanced=None)
    return make(reason=_sentences(f"{near}{match}: {favors}.", expected.sentence(), more))


def _match_known(
    leave: Callable[..., Advice], rows: np.ndarray, known: Known,
    shares: tuple[float, ...] | None, method: str, *, is_nats: bool,
) -> Advice:  # fmt: skip
    """Recommends known shares, or shares near them that several contexts have estimated."""
    advice, source = leave(()), advising.EQUAL if known.shares is None else advising.STATED
    names, options = advice.label_names, Options(known.options)
    if method == OF_COSINES:
        options.pop("share_error", None)
    named = "equal shares" if known.shares is None else f"the shares {_list(names, known.shares)}"
    if known.error:
        named = f"shares within about {100 * known.error:.0f} points of {named}"
    if shares is not None:
        source, options = advising.POOLED, Options(target_prior=shares)
        named = f"shares near {named}, {_list(names, shares)}"
    corrected = follow_rows(rows, method, options)
    expected = advising.expect(rows, corrected, source) if is_nats else UNKNOWN
    wanted = known.shares or np.full(len(names), 1 / len(names))
    away, before = (_distance(scores, wanted) for scores in (corrected, rows))
    if away > before + FARTHER:
        why = (
            f"Leave the scores as they are: {known.why}, but to match {named} would move the "
            "predictions away from them."
        )
        return leave((why,))
    reason = _sentences(f"Match {named}, because {known.why}.", expected.sentence())
    return advice._replace(
        method=method, options=options, source=source, reason=reason, expected=expected
    )


def _distance(scores: np.ndarray, shares: Sequence[float] | np.ndarray) -> float:
    """Computes the total variation between shares [k] and predictions from scores [n, k]."""
    predicted = np.bincount(scores.argmax(axis=-1), minlength=scores.shape[-1]) / len(scores)
    return float(np.abs(predicted - shares).sum() / 2)


def _list(names: Sequence[str], shares: Sequence[float]) -> str:
    return advising.list_shares(dict(zip(names, shares, strict=True)))


@usual_jax
def likely_bias(rows: np.ndarray) -> np.ndarray:
    """Returns the bias [k], in nats, that `bc_empirical_bayes` learns from scores [n, k]."""
    return np.asarray(rows[0] - follow_rows(rows, LIKELY, {})[0])


@usual_jax
def follow_rows(rows: np.ndarray, method: str, options: Options) -> np.ndarray:
    """Corrects scores [n, k] by a method that learns from the same rows."""
    found = run.correct_context(METHODS[method], {"test": Evidence(rows)}, options=options)
    return np.asarray(found.scores)


def move_by_counts(advice: Advice, rows: np.ndarray, counts: np.ndarray) -> Advice:
    """Moves the shares of advice as far as counts [k] of labels contradict them.

    Raises:
        InputError: a count is below 0 or NaN, or all counts are 0.
    """
    names = advice.label_names
    if not (counts >= 0).all() or not counts.sum():
        wanted = f"{len(counts)} numbers from 0 on, one per label, and a label at least"
        remedy = "give the count of each label"
        raise InputError.at("counts", wanted, shown(counts.tolist()), remedy)
    start = advice.shares or dict.fromkeys(names, 1 / len(names))
    found = estimates.shares_of_counted(jnp.asarray(counts, jnp.float32))
    moved = estimates.move_shares(jnp.array([*start.values()]), found, float(counts.sum()))
    shares = tuple(map(float, np.asarray(moved)))
    options = Options(target_prior=shares)
    why = f"Match the shares {_list(names, shares)}, by {counts.sum():,.0f} counted labels."
    expected = advising.expect(rows, follow_rows(rows, MATCH, options), advising.STATED)
    return advice._replace(
        method=MATCH, options=options, source=advising.LABELED, expected=expected, if_balanced=None,
        reason=_sentences(why, expected.sentence()),
    )  # fmt: skip


def _sentences(*sentences: str) -> tuple[str, ...]:
    """Returns the sentences that are not empty."""
    return tuple(filter(None, sentences))


@usual_jax
def advise_by_labels(
    advice: Advice, rows: np.ndarray, labeled: np.ndarray, gold: np.ndarray, *,
    probe: np.ndarray | None = None, cosines: bool | None = None,
) -> Advice:  # fmt: skip
    """Recommends shares with labeled rows; with too few, adds a sentence to `advice`.

    Args:
        advice: the advice without labels. Its known or pooled shares are the start of the default
            method.
        rows: [n, k], the rows to correct.
        labeled: [m, k], scores of labeled rows.
        gold: [m], the right labels, -1 if unknown.
        probe: [p, k], scores of content-free prompts.
        cosines: True if scores are cosines.
    """
    is_known = gold >= 0
    if (count := int(is_known.sum())) < (least := FEWEST_LABELED_TO_MEASURE):
        few = f"{count} labeled rows are too few to measure (fewer than {least})."
        return advice._replace(reason=(*advice.reason, few))
    # `choose_by_labels` expects only known labels.
    blocks = {"test": Evidence(rows), "labeled": Evidence(labeled[is_known], gold[is_known])}
    if probe is not None:
        blocks["cc"] = Evidence(probe)
    cosines = validation.look_like_cosines(rows) if cosines is None else cosines
    default, options = WITH_LABELS, Options()
    if validation.look_like_cosines(rows):
        default, options = advice.method, advice.options
    elif cosines or advice.source == advising.EQUAL:
        default, options = MOVED, advice.balanced.options
    elif advice.source in (advising.STATED, advising.POOLED):
        default, options = MOVED, advice.options
    choice = choose_by_labels(blocks, default, options)
    measured = {name: accuracy_of(hits) for name, hits in choice.hits.items()}
    gain = gain_of(choice.hits[LEAVE], choice.held_out)
    expected = advising.expect_from_rows(gain, choice.hits[LEAVE], choice.held_out)
    accuracy = accuracy_of(choice.held_out)
    on_rows = (
        f"In nested cross-validation of this choice, {accuracy} % of the {count:,} labeled rows "
        f"are right; uncorrected {measured[LEAVE]} %."
    )
    used = options if choice.method == default else Options()
    method, options, source, advised = choice.method, Options(), "", f"Use {choice.method}"
    is_loss = method != LEAVE and gain.value < 0
    if method == LEAVE or is_loss:
        method, advised, expected = LEAVE, "Leave the scores as they are", UNCHANGED
    else:
        corrected = run.correct_context(METHODS[choice.method], blocks, options=used)
        if isinstance(corrected.state, Shift):
            bias = (rows - np.asarray(corrected.scores))[0]
            shares = implied_shares(rows, bias)
            method, options, source = MATCH, Options(target_prior=shares), advising.LABELED
            listed = _list(advice.label_names, shares)
            advised = f"Match the shares {listed}, learned by {choice.method}"
    if is_loss:
        lead = f"{choice.method} shows no gain; label more rows to be surer"
    elif choice.method == default:
        lead = f"no other method is ahead of it by more than {CLEAR:g} standard errors"
    else:
        lead = f"it is {100 * choice.lead:.1f} ± {100 * choice.error:.1f} points ahead of {default}"
    why = f"{advised}: on {count:,} labeled rows {lead}."
    doubt = ask_about_order(labeled, gold)
    return advice._replace(
        method=method, options=options, source=source, expected=expected, accuracy=accuracy,
        measured=measured, if_balanced=None,
        reason=_sentences(why, on_rows, expected.sentence(), doubt),
    )  # fmt: skip


class Together(NamedTuple):
    """Advice for contexts of one task.

    Attributes:
        contexts: the advice for each context.
        shares: label -> its pooled share, to which contexts are matched; empty if fewer than three
            contexts have enough information. There is no interval, because a bias that all contexts
            share looks like a difference in label shares.
    """

    contexts: tuple[Advice, ...]
    shares: dict[str, float]

    def __repr__(self) -> str:
        names = shown([*self.shares])
        return f"Together({len(self.contexts)} contexts, shares of {names}: print it)"

    def __str__(self) -> str:
        lines = [*dict.fromkeys(map(str, self.contexts))]
        if self.shares:
            listed = advising.list_shares(self.shares)
            lines.append(f"Label shares, estimated from all contexts together: {listed}.")
        return "\n".join(lines)


@usual_jax
def recommend_tables(
    tables: Sequence[ScoreTable],
    groups: Sequence[Hashable],
    known: Sequence[Known | None] | None = None,
    *,
    ordinal: Ordinal | None = None,
) -> list[Advice]:
    """Recommends shares for each table.

    Args:
        tables: score tables with a block "test". Tables of a group are pooled if their shares are
            unknown, or if labels are about equally frequent and the tables have the same rows.
        groups: for each table, a value that is equal for tables of one task.
        known: for each table, its known shares, if any.
        ordinal: see `recommend`.
    """
    for table in tables:
        validation.check_scores(table.blocks["test"].log_probs, from_probs=False)
    stated = known or [None] * len(tables)
    members = dict[tuple[Hashable, Known | None], list[int]]()
    for place, pair in enumerate(zip(groups, stated, strict=True)):
        members.setdefault(pair, []).append(place)
    found = dict[int, Advice]()
    for (_, of_group), places in members.items():
        advice = _advise_group([tables[k] for k in places], of_group, ordinal)
        found |= dict(zip(places, advice, strict=True))
    return [found[place] for place in range(len(tables))]


def _advise_group(
    tables: Sequence[ScoreTable], known: Known | None, ordinal: Ordinal | None
) -> list[Advice]:
    """Recommends shares for the tables of one task."""
    same_rows, cosines = run.have_same_rows(tables), run.holds_cosines(tables[0])
    if ordinal is None:
        ordinal = are_grades(tables[0].blocks["test"].log_probs, tables[0].label_names)
    # Contexts with different rows differ in their sampling errors, too.
    is_equal = known is not None and known.shares is None and same_rows
    is_unknown = known is None and not cosines and not ordinal
    is_pooled = np.zeros(len(tables), bool)
    if len(tables) >= pooled_shares.FEWEST_CONTEXTS and (is_equal or is_unknown):
        scores, weight = map(jnp.asarray, run.stack_contexts(tables))
        error = None if known is None else known.error or 0.0
        pool = run.jit_quickly(pooled_shares.pool_shares)
        found = pool(scores, weight, same_rows, share_error=error)
        is_pooled = np.asarray(found.used[: len(tables)]) > 0
        pooled = tuple(map(float, np.asarray(found.shares)))
    advice = []
    for table, is_used in zip(tables, is_pooled, strict=True):
        rows, gold = table.blocks["test"].log_probs, table.blocks["test"].labels
        count = int((gold >= 0).sum())
        one = advise(
            rows, table.label_names, known, shares=pooled if is_used else None,
            contexts=int(is_pooled.sum()) if is_used else 1, same_rows=same_rows,
            cosines=cosines, ordinal=ordinal, is_labeled=count >= FEWEST_LABELED_TO_MEASURE,
        )  # fmt: skip
        if why := table.context.get(NO_PLACE_BIAS):
            reason = (f"Leave the scores as they are: {why}.",)
            one = Advice(LEAVE, {}, "", reason, one.signals, UNCHANGED, table.label_names)
        advice.append(one)
    return advice


@usual_jax
def recommend_together(
    contexts: Iterable[ArrayLike],
    *,
    same_rows: bool = False,
    columns: Sequence[Hashable] | None = None,
    label_names: Sequence[str] = (),
    from_probs: FromProbs = None,
    share: str | None = None,
) -> Together:
    """Recommends shares for several contexts of one task: prompts, demonstrations, models.

    All contexts have the same label shares and different biases. With three contexts or more,
    `bc_pooled_shares` estimates the shares from all of them together.

    Args:
        contexts: scores [n, k] in nats of each context, or an array [c, n, k].
        same_rows: True if row i is the same question in every context (pandas frames are aligned by
            index). The agreement of the contexts then sets the interpolation weight of the
            estimated shares.
        columns: the names of the label columns, if a frame has other columns, too.
        label_names: k names for the sentences; by default the columns of the first frame.
        from_probs: True if scores are probabilities, see `calibrate`.
        share: "balanced" or "balanced:12", see `recommend`.

    Raises:
        InputError: there is no context; contexts differ in labels, or in rows despite same_rows;
            or `calibrate` would refuse the scores.

    >>> random = np.random.default_rng(0)
    >>> rows = 2.0 * np.eye(2)[random.choice(2, 60, p=[0.7, 0.3])] + random.normal(size=(5, 60, 2))
    >>> found = recommend_together(rows + random.normal(size=(5, 1, 2)) - 9, label_names=("a", "b"))
    >>> [advice.short for advice in found.contexts][:2], [*found.shares]
    (['pooled shares', 'pooled shares'], ['a', 'b'])
    """
    sources = list(contexts)
    if not sources:
        raise InputError.at("contexts", "the scores of at least one context", "none")
    columns, tables = names_of(sources[0], columns), list[ScoreTable]()
    names: tuple[str, ...] = ()
    for place, source in enumerate(sources):
        where = f"contexts[{place}]"
        aligned = in_row_order(source, where, sources[0], "contexts[0]") if same_rows else source
        of_frame = columns if is_frame(source) else None
        rows = validation.check_scores(aligned, where, from_probs=from_probs, columns=of_frame)
        names = names or check_names(label_names, columns, rows.shape[-1])
        first = tables[0].blocks["test"].log_probs.shape if tables else rows.shape
        if rows.ndim != 2 or rows.shape[-1] != len(names) or (same_rows and rows.shape != first):
            expected = f"scores [n, {len(names)}] of one context"
            expected += same_rows * f" and n = {first[0]}"
            remedy = "give the rows of one context at a time, all of one task"
            raise InputError.at(where, expected, f"shape {rows.shape}", remedy)
        digest = "same" if same_rows else str(place)
        tables.append(ScoreTable({"rows": digest}, names, {"test": make_block(rows)}))
    known = None if share is None else know_roughly(share, len(names), names)
    count = len(tables)
    advice = recommend_tables(tables, ["one task"] * count, [known] * count)
    pooled = [one.shares or {} for one in advice if one.source == advising.POOLED]
    return Together(tuple(advice), pooled[0] if pooled else {})
