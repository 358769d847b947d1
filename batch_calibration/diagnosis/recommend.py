"""Which correction to use, why, and its expected gain: of one context, or several together."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike
from scipy.special import stdtrit

from batch_calibration.arrays.alignment import column_numbers, in_label_order, in_row_order
from batch_calibration.arrays.frames import is_frame, names_of
from batch_calibration.arrays.numbers import check_key, usual_jax
from batch_calibration.calibration import pooled_shares
from batch_calibration.calibration.base import label_normalized
from batch_calibration.calibration.empirical_bayes import LEAST_INFORMATION, information
from batch_calibration.calibration.shift import Shift
from batch_calibration.diagnosis import share_ranges
from batch_calibration.diagnosis.diagnose import check_names, pair_error
from batch_calibration.diagnosis.recommendation import (
    LEAVE,
    UNCHANGED,
    UNKNOWN,
    Options,
    Recommendation,
    Signals,
    expect,
    expect_from_rows,
)
from batch_calibration.errors import InputError, call, shown
from batch_calibration.methods import METHODS, Evidence, ask_about_order, fit, run, validation
from batch_calibration.metrics import Estimate, accuracy_of, gain_of
from batch_calibration.scores import NO_PLACE_BIAS, ScoreTable, make_block
from batch_calibration.typing import Bias, Scalar

FOLDS = 8
PAIRS = np.column_stack(np.triu_indices(FOLDS))
"""[36, 2], the folds that are held out together; a fold alone is paired with itself."""
FEWEST_LABELED_TO_MEASURE = 16
"""Labeled rows below which nothing is measured."""
CANDIDATES = (
    "icl", "cc", "bc", "bcl", "bc_empirical_bayes", "bcl_empirical_bayes", "prior_counted",
    "rbcorr", "vector",
)  # fmt: skip
"""Few, of unlike kinds: the more are compared on few rows, the more often luck decides."""
CLEAR = 2.0
"""Standard errors by which another method must be ahead of the default."""


class Choice(NamedTuple):
    """A method that labeled rows choose.

    Attributes:
        method: its name.
        hits: method -> [m], whether it is right on each labeled row, learned without its fold.
        held_out: [m], whether the choice is right: of each fold the method that the rows of the
            other folds choose, without a fit that saw it. No row judges what it helped to choose.
        lead: the method's accuracy less the default's.
        error: the standard error of that, paired by row.
    """

    method: str
    hits: dict[str, np.ndarray]
    held_out: np.ndarray
    lead: float
    error: float


NO_GAIN = (
    "The labeled rows show no gain: label more rows, or leave the scores as they are until then."
)


def choose_by_labels(blocks: Mapping[str, Evidence], default: str, options: Options) -> Choice:
    """The default, or a method that is ahead of it by more than two standard errors.

    Rows are held out in `FOLDS` parts, drawn at random, and in pairs of parts.

    Args:
        blocks: "test" and "labeled", whose labels are all known, and others that are there.
        default: a method.
        options: of `default`.
    """
    rows = np.asarray(blocks["test"].log_probs)
    names = [name for name in CANDIDATES if _is_measurable(name, blocks, rows)]
    gold = np.asarray(blocks["labeled"].labels)
    # At random: folds of equal shares of labels would tell of the rows held out what is learned.
    fold_of_row = np.random.default_rng(0).permutation(len(gold)) % FOLDS
    by_pair = {}
    for name in dict.fromkeys([*names, default]):
        by_pair[name] = _hits(name, blocks, options if name == default else {}, fold_of_row)
    # Each row by the fit that held out its fold alone.
    own = fold_of_row, fold_of_row, np.arange(len(gold))
    hits = {name: grid[own] for name, grid in by_pair.items()}
    held_out = np.empty(len(gold), bool)
    for fold in range(FOLDS):
        is_out = fold_of_row == fold
        # Hits on the rows of other folds, by fits that saw neither these nor this fold.
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
        # None stands for any number of labels
        and rows.shape[-1] <= (method.most_labels or rows.shape[-1])
        and not (method.needs_log_probs and validation.no_log_probs(rows))
    )


def _hits(
    name: str, blocks: Mapping[str, Evidence], options: Options, folds: np.ndarray
) -> np.ndarray:
    """[folds, folds, m]: whether each row is right by a fit that saw neither fold."""
    gold = np.asarray(blocks["labeled"].labels)
    method, labeled = METHODS[name], blocks["labeled"]
    right = list[np.ndarray]()
    for pair in PAIRS:
        if not right or "labeled" in method.probe.blocks:  # else all fits are one
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
    """The method that is ahead of `default` most clearly, beyond two standard errors, or `default`.

    Returns:
        Its name, its lead in accuracy, and the standard error of that, paired by row.

    >>> ahead({"a": np.arange(9) < 2, "b": np.arange(9) < 8}, "a")[0]
    'b'
    >>> ahead({"a": np.arange(9) < 5, "b": np.arange(9) < 7}, "a")[0]
    'a'
    """
    # By how much a lead exceeds its standard errors; the default's own is 0.
    best, lead, error, most = default, 0.0, 0.0, 0.0
    for name, hit in hits.items():
        gains = hit.astype(float) - hits[default]
        mean, noise = float(gains.mean()), float(gains.std(ddof=1) / np.sqrt(len(gains)))
        if mean - CLEAR * noise > most:
            best, lead, error, most = name, mean, noise, mean - CLEAR * noise
    return best, lead, error


CORRECT, TO_SHARES = "bc", "prior_matching"
TO_SHARES_OF_COSINES = "otter"
"""Of methods that take shares the one whose predictions a constant that scales scores leaves."""
LIKELY, POOLED, WITH_LABELS = "bc_empirical_bayes", "bc_pooled_shares", "bcl_empirical_bayes"
LEAST_ROWS = 20
"""Unlabeled rows below which nothing is recommended: fewer were not tried."""
MORE = (
    f"{FEWEST_LABELED_TO_MEASURE} labeled rows would make the choice surer, and so would "
    f"{pooled_shares.FEWEST_CONTEXTS} or more prompts of the same task together."
)
SAME_ROWS = (
    f"Contexts of the same rows show how often each label is right: on real models {POOLED} "
    f"gained nearly as much as {CORRECT} for equally frequent labels, and more for others."
)


@usual_jax
def signals(scores: ArrayLike) -> Signals:
    """Measures of unlabeled scores [n, k], in nats.

    >>> shown = signals(10 * [[-1.0, -3.0], [-2.0, -2.5]])
    >>> round(shown.preference, 2), round(shown.information, 3)
    (1.25, 0.066)
    """
    rows = np.asarray(scores, np.float64)
    mean = rows.mean(axis=0)
    return Signals(
        len(rows),
        float(np.ptp(mean)),
        pair_error(rows, int(mean.argmax()), int(mean.argmin())),
        float(run.jit_quickly(_information)(run.pad_rows(Evidence(rows)))),
    )


def _information(block: Evidence) -> Scalar:
    return information(label_normalized(block.log_probs), block.weight)


@usual_jax
def recommend(
    scores: ArrayLike,
    *,
    probe: ArrayLike | None = None,
    labeled: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    target_prior: Sequence[float] | Mapping[Hashable, float] | None = None,
    share: share_ranges.Share | None = None,
    columns: Sequence[Hashable] | None = None,
    label_names: Sequence[str] = (),
    from_probs: bool | None = None,
    cosines: bool | None = None,
) -> Recommendation:
    """Which method to use on these scores, or to leave them as they are, why, and what it gains.

    1. With 16 labeled rows or more: `bcl_empirical_bayes`, or another of nine methods whose
       accuracy on them, each judged by what the others teach, is ahead of it by more than two
       standard errors.
    2. Without, the shares of the labels given: match them (BC where they are equal).
    3. Shares known roughly: of "balanced" labels BC; of a range, of two labels, what the law of
       gain expects most of on average over it; of ranges of more labels prior_matching with
       shares within them, or BC where all end within 12 points of equal shares.
    4. Else `bc_empirical_bayes`; or to leave the scores, where there are fewer than 20 rows or
       their corrected scores tell less than 0.05 nats of a label.

    The gain to expect without labels is that of real models whose scores looked alike, with the
    range that held 95 % of them; with labels it is measured on rows that did not choose. How the
    rule fares on sources that tuned none of its constants: docs/evidence.md, by the study
    configs/evidence_recommend.py. Logits do as log-probabilities
    do. Cosines have no nats: without labels they are left, or of shares that are stated `otter` is
    recommended; with 16 labeled rows what is ahead of leaving them.

    Args:
        scores: [n, k], log-probabilities in nats of unlabeled rows of one prompt.
        probe: [m, k], scores of content-free prompts, for cc to be measured too.
        labeled: [m, k], scores of labeled rows of the same prompt; 16 or more are measured.
        labels: [m], their labels as indices or names of columns; -1 means unknown.
        target_prior: [k], the share of each label that you expect, in order or by name; equal
            shares say that BC's supposition holds.
        share: "balanced" where all shares are within about 12 points of 1/k; between which shares
            the first of two labels is right, such as (0.3, 0.7); or such a range for every label,
            [k, 2] or by name.
        columns: of a frame that holds more than scores, the names of the labels' columns;
            those of labeled and probe have the same names.
        label_names: k names for the sentences; by default a frame's columns.
        from_probs: whether scores, probe and labeled are probabilities, as in `calibrate`.
        cosines: whether scores are cosines, scaled or not, as in `diagnose`.

    Raises:
        InputError: as `calibrate`; labeled without labels or the reverse; a probe without them;
            ranges that hold no shares which sum to 1; share together with target_prior.

    >>> advice = recommend(30 * [[-1.0, -4.0], [-2.0, -2.5]], label_names=("no", "yes"))
    >>> advice.method, advice.if_balanced
    ('bc_empirical_bayes', 'bc')
    """
    from_probs = False if cosines else from_probs
    rows = validation.check_scores(scores, from_probs=from_probs, columns=columns)
    # Logits may be above 0 in all of few rows.
    are_logits = bool((rows > 0).any())
    read = partial(validation.check_scores, from_probs=from_probs, beside_others=are_logits)
    k = rows.shape[-1]
    if rows.ndim != 2:
        expected = "the rows of one prompt at a time, [n, k]"
        raise InputError.at("scores", expected, f"shape {rows.shape}")
    if (labeled is None) != (labels is None) or (labeled is None and probe is not None):
        raise InputError.at(
            "recommend",
            "labeled=[m, k] and labels=[m] together, and probe= only with them, "
            "because the labeled rows measure it",
            remedy="give the missing argument, or leave all of them out",
        )
    if share is not None and target_prior is not None:
        raise InputError.at("recommend", "share= or target_prior=", "both", "leave one out")
    columns = names_of(scores, columns)
    names = check_names(label_names, columns, k)
    shares: tuple[float, ...] | None = None
    if target_prior is not None:
        in_order = in_label_order(target_prior, columns, "target_prior", k)
        validation.check_options(CORRECT, METHODS[CORRECT].make, {"target_prior": in_order}, k)
        shares = tuple(map(float, in_order))
    ranges = None if share is None else share_ranges.read_ranges(share, k, columns or label_names)
    cosines = validation.look_like_cosines(rows) if cosines is None else cosines
    advice = recommend_by_bias(rows, None, names, shares, ranges, cosines=cosines)
    if labeled is None:
        return advice

    def read_by_name(source: ArrayLike, where: str) -> np.ndarray:
        return read(source, where, labels=k, columns=columns if is_frame(source) else None)

    labeled_rows = read_by_name(labeled, "labeled")
    gold = in_row_order(labels, "labels", labeled, "labeled")
    gold = validation.check_labels(column_numbers(gold, columns or names_of(labeled)), labeled_rows)
    is_known = gold >= 0
    if (count := int(is_known.sum())) < (least := FEWEST_LABELED_TO_MEASURE):
        few = f"{count} labeled rows are too few to measure (fewer than {least})."
        return advice._replace(reason=(*advice.reason, few))
    # Rows without a label are left out: `choose` takes all labels of a block for known.
    blocks = {"test": Evidence(rows), "labeled": Evidence(labeled_rows[is_known], gold[is_known])}
    if probe is not None:
        blocks["cc"] = Evidence(read_by_name(probe, "probe"))
    is_stated = shares is not None or share is not None
    # A default that labels do not beat must be safe without them.
    return _from_labels(advice, blocks, default=advice.method if is_stated or cosines else "")


@usual_jax
def likely_bias(rows: np.ndarray) -> np.ndarray:
    """The bias [k], in nats, that `bc_empirical_bayes` finds in the scores [n, k] of a prompt."""
    return np.asarray(run.jit_quickly(_likely_bias)(run.pad_rows(Evidence(rows))))


def _likely_bias(block: Evidence) -> Bias:
    state: Shift = fit(METHODS[LIKELY], {"test": block})
    return state.bias


def recommend_by_bias(
    rows: np.ndarray, bias: np.ndarray | None, names: Sequence[str],
    shares: tuple[float, ...] | None = None, share: str | np.ndarray | None = None, *,
    pooled: bool = False, same_rows: bool = False, cosines: bool = False,
) -> Recommendation:  # fmt: skip
    """`recommend` for unlabeled scores [n, k] whose bias is known, or shares were stated.

    Args:
        rows: in nats.
        bias: [k], that `bc_empirical_bayes` finds in them, or `bc_pooled_shares`; None learns it.
        names: of the k labels.
        shares: [k], stated.
        share: "balanced", or ranges [k, 2].
        pooled: whether the bias is of `bc_pooled_shares`, with contexts to pool.
        same_rows: whether these contexts are known to have the same rows.
        cosines: whether scores are cosines, scaled or not.
    """
    seen = signals(rows)
    if cosines:
        return _of_cosines(seen, shares, share)
    mean = rows.mean(axis=0, dtype=np.float64)  # [k], nats
    favors = (
        f"the scores favor {names[int(mean.argmax())]!r} by {seen.preference:.2f} ± "
        f"{seen.error:.2f} nats"
    )
    if share is not None:
        method, options, expected, why = share_ranges.advise_over_shares(rows, share, names)
        return Recommendation(method, options, why, seen, expected, None, {})
    if shares is not None:
        method, options = TO_SHARES, Options(target_prior=shares)
        sentence = (
            f"Use {method} with the given shares, which separate bias from the right answers."
        )
        if np.ptp(shares) < 1e-6:  # equal but for rounding
            method, options = CORRECT, Options()
            sentence = f"Use {CORRECT}: you stated equal label frequencies."
        corrected = run.correct_context(METHODS[method], {"test": Evidence(rows)}, options=options)
        expected = expect(rows, np.asarray(corrected.scores), TO_SHARES)
        reason = _sentences(sentence, expected.sentence())
        return Recommendation(method, options, reason, seen, expected, None, {})
    method, expected, unsure = POOLED if pooled else LIKELY, UNCHANGED, ""
    if len(rows) < LEAST_ROWS:
        unsure = f"{len(rows):,} rows (fewer than {LEAST_ROWS}) do not show if a correction is safe"
    elif seen.information < (least := pooled_shares.LEAST_TOLD if pooled else LEAST_INFORMATION):
        unsure = (
            f"their information on a row's label ({seen.information:.3f} nats, less than "
            f"{least:g}) is near guessing, so a correction only moves guesses; clearer "
            "label words, more demonstrations or a stronger model would help"
        )
    if unsure:
        method, otherwise = LEAVE, f"leave the scores as they are: {unsure}"
    else:
        bias = likely_bias(rows) if bias is None else bias
        expected = expect(rows, rows - bias, method)
        otherwise = f"{method}, as {favors}"
    if pooled and same_rows and not unsure:
        averaged = (
            f"For one answer per row, {call('ensemble', 'contexts', {})} averages them; it gained "
            "1 to 16 points over the contexts' mean accuracy, most across different models."
        )
        reason = _sentences(f"Use {otherwise}.", expected.sentence(method), SAME_ROWS, averaged)
        return Recommendation(method, {}, reason, seen, expected, None, {})
    near = 100 * share_ranges.NEAR_EQUAL
    advice = f"If labels are about equally frequent (within {near:.0f} points), use {CORRECT}; "
    advice += f"if you do not know, {otherwise}."
    reason = _sentences(advice, expected.sentence(method), "" if pooled else MORE)
    return Recommendation(method, {}, reason, seen, expected, None, {}, CORRECT)


def _of_cosines(
    seen: Signals, shares: tuple[float, ...] | None, share: str | np.ndarray | None
) -> Recommendation:
    """The advice for cosines: of stated shares OTTER, else to leave them."""
    if shares is None and not isinstance(share, str):
        reason = (
            "Leave the scores as they are: cosines have no nats, and on contexts of two dual "
            f"encoders {CORRECT} lost up to 9.8 points and {LIKELY} 7.4.",
            f"{FEWEST_LABELED_TO_MEASURE} labeled rows would decide; if label shares are known, "
            "state them (a prior).",
        )
        return Recommendation(LEAVE, {}, reason, seen, UNCHANGED, None, {})
    method, options = TO_SHARES_OF_COSINES, Options()
    if shares is not None and np.ptp(shares) >= 1e-6:
        options = Options(target_prior=shares)
    why = (
        f"Use {method} with the stated shares, because the scale of cosines does not matter "
        "to it: on 18 contexts of two dual encoders it gained 8.7 points with equal shares and "
        "lost at most 0.4."
    )
    return Recommendation(method, options, (why,), seen, UNKNOWN, None, {})


def _sentences(*sentences: str) -> tuple[str, ...]:
    """Those that say something."""
    return tuple(filter(None, sentences))


def _from_labels(
    advice: Recommendation, blocks: Mapping[str, Evidence], *, default: str
) -> Recommendation:
    """The advice by labeled rows; a default of the advice, such as by stated shares, is kept."""
    options = advice.options if default else {}
    default = default or WITH_LABELS
    choice = choose_by_labels(blocks, default, options)
    labeled = blocks["labeled"]
    measured = {name: accuracy_of(hits) for name, hits in choice.hits.items()}
    gain = gain_of(choice.hits[LEAVE], choice.held_out)
    expected = expect_from_rows(gain, choice.hits[LEAVE], choice.held_out)
    count = len(choice.held_out)
    accuracy = accuracy_of(choice.held_out)
    on_rows = (
        f"In nested cross-validation of this choice, {accuracy} % of the {count:,} labeled rows "
        f"are right; uncorrected {measured[LEAVE]} %."
    )
    is_left = choice.method == LEAVE
    advised = "Leave the scores as they are" if is_left else f"Use {choice.method}"
    if choice.method == default:
        why = (
            f"{advised}: on {count:,} labeled rows no other method is ahead of it by more than "
            f"{CLEAR:g} standard errors."
        )
    else:
        options = {}
        why = (
            f"{advised}: on {count:,} labeled rows it is {100 * choice.lead:.1f} ± "
            f"{100 * choice.error:.1f} points ahead of {default}."
        )
    if choice.method == LEAVE:
        expected = UNCHANGED
    doubt = ask_about_order(np.asarray(labeled.log_probs), np.asarray(labeled.labels))
    no_gain = "" if expected.gain is None or expected.gain.value >= 0 else NO_GAIN
    reason = _sentences(why, on_rows, expected.sentence(), no_gain, doubt)
    return Recommendation(
        choice.method, options, reason, advice.signals, expected, accuracy, measured
    )


class Together(NamedTuple):
    """Recommendations for contexts of one task.

    Attributes:
        contexts: a recommendation for each context.
        shares: label -> the share that contexts are matched to, with its 95 % interval; empty
            where fewer than three contexts tell enough.
    """

    contexts: tuple[Recommendation, ...]
    shares: dict[str, Estimate]

    def __repr__(self) -> str:
        names = shown([*self.shares])
        return f"Together({len(self.contexts)} contexts, shares of {names}: print it)"

    def __str__(self) -> str:
        lines = [*dict.fromkeys(map(str, self.contexts))]
        if self.shares:
            listed = ", ".join(f"{name} {share} %" for name, share in self.shares.items())
            lines.append(f"Label shares, estimated from all contexts together: {listed}.")
        return "\n".join(lines)


@usual_jax
def recommend_tables(
    tables: Sequence[ScoreTable], groups: Sequence[Hashable]
) -> list[tuple[Recommendation, np.ndarray]]:
    """`recommend` for each table where nothing is stated, with the bias [k] that it found.

    Args:
        tables: with a block "test"; those of a group are pooled.
        groups: for each table a value that those of one task share.
    """
    for table in tables:
        validation.check_scores(table.blocks["test"].log_probs, from_probs=False)
    of_group = dict[Hashable, list[ScoreTable]]()
    for table, group in zip(tables, groups, strict=True):
        of_group.setdefault(group, []).append(table)
    methods = [LIKELY]
    # Smaller groups have nothing to pool: a program less is compiled.
    if max(map(len, of_group.values()), default=0) >= pooled_shares.FEWEST_CONTEXTS:
        methods.append(POOLED)
    same_rows = {name: len(of) > 1 and run.have_same_rows(of) for name, of in of_group.items()}
    recommended = []
    for table, group, corrected in zip(
        tables, groups, run.run_methods(tables, methods, groups=groups).results, strict=True
    ):
        alone, bias = (np.asarray(corrected[name].state.bias) for name in (LIKELY, methods[-1]))
        is_pooled, cosines = not np.array_equal(alone, bias), run.holds_cosines(table)
        scores, names = table.blocks["test"].log_probs, table.label_names
        if why := table.context.get(NO_PLACE_BIAS):
            reason = (f"Leave the scores as they are: {why}.",)
            leave = Recommendation(LEAVE, {}, reason, signals(scores), UNCHANGED, None, {})
            recommended.append((leave, np.zeros_like(bias)))
            continue
        advice = recommend_by_bias(
            scores, bias, names, pooled=is_pooled, same_rows=same_rows[group], cosines=cosines
        )
        recommended.append((advice, bias))
    return recommended


@usual_jax
def recommend_together(
    contexts: Iterable[ArrayLike],
    *,
    same_rows: bool = False,
    columns: Sequence[Hashable] | None = None,
    label_names: Sequence[str] = (),
    from_probs: bool | None = None,
    draws: int = 200,
    seed: int = 0,
) -> Together:
    """`recommend` for several contexts of one task: prompts, draws of demonstrations, models.

    All have the same label shares, while their biases differ: three contexts or more tell both
    apart, and `bc_pooled_shares` is recommended.

    Args:
        contexts: scores [n, k] in nats of each context, or an array [c, n, k].
        same_rows: whether row i is the same question in every context (frames of pandas are
            aligned by index); answers that agree then decide how far the shares are trusted.
        columns: of a frame that holds more than scores, the names of the labels' columns.
        label_names: k names for the sentences; by default the columns of the first frame.
        from_probs: whether scores are probabilities, as in `calibrate`.
        draws: of contexts and rows, for the interval of the shares. It says how far the shares
            depend on these contexts and rows; what biases have in common does not show. Of 60
            simulated tasks of five contexts and 100 rows it held in 97 % with equal shares and in
            92 % with .7 and .3, where the estimate leans to equal ones.
        seed: of these draws.

    Raises:
        InputError: no context; contexts of other labels or rows; fewer than two draws; what
            `calibrate` refuses.

    >>> random = np.random.default_rng(0)
    >>> told = 2.0 * np.eye(2)[random.choice(2, 60, p=[0.7, 0.3])] + random.normal(size=(5, 60, 2))
    >>> found = recommend_together(told + random.normal(size=(5, 1, 2)) - 9, label_names=("a", "b"))
    >>> [advice.method for advice in found.contexts][:2], [*found.shares]
    (['bc_pooled_shares', 'bc_pooled_shares'], ['a', 'b'])
    """
    sources = list(contexts)
    if not sources:
        raise InputError.at("contexts", "the scores of at least one context", "none")
    if draws < 2:
        raise InputError.at("draws", "2 or more", draws)
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
            raise InputError.at(
                where,
                f"scores [n, {len(names)}] of one context" + same_rows * f" and n = {first[0]}",
                f"shape {rows.shape}",
                "give the rows of one context at a time, all of one task",
            )
        digest = "same" if same_rows else str(place)
        tables.append(ScoreTable({"rows": digest}, names, {"test": make_block(rows)}))
    advice = [one for one, _ in recommend_tables(tables, ["one task"] * len(tables))]
    shares = dict[str, Estimate]()
    if any(one.method == POOLED for one in advice):
        scores, weight = map(jnp.asarray, run.stack_contexts(tables))
        pooled = run.jit_quickly(pooled_shares.pool_shares)(scores, weight, same_rows)
        key = check_key(seed, "seed")
        drawn = pooled_shares.resampled_shares(scores, weight, same_rows, key, draws=draws)
        # Draws of few contexts with replacement vary less than these, and their variance is known
        # from few.
        count = float(pooled.used.sum())
        wider = float(stdtrit(count - 1, 0.975)) * np.sqrt(count / (count - 1))
        reach = wider * np.std(np.asarray(drawn, np.float64), axis=0, ddof=1)
        # Where the contexts' agreement speaks against the estimate the interval holds both.
        center, estimate = (np.asarray(of, np.float64) for of in (pooled.shares, pooled.estimate))
        lowest, highest = np.minimum(center, estimate), np.maximum(center, estimate)
        ends = np.clip([lowest - reach, highest + reach], 0, 1)
        for name, *numbers in zip(names, center, *ends, strict=True):
            shares[name] = Estimate(*map(float, numbers))
    return Together(tuple(advice), shares)
