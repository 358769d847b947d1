"""Detects the scale of scores: log-probabilities, probabilities, losses or others."""

import re
from collections.abc import Hashable, Iterable
from typing import Literal, NamedTuple

import numpy as np

from batch_calibration.arrays import missing_scores
from batch_calibration.arrays.missing_scores import LARGEST, find_missing
from batch_calibration.errors import InputError, spell
from batch_calibration.typing import FromProbs as FromProbs

Kind = (
    Literal["log-probabilities", "probabilities", "small probabilities", "percentages", "losses"]
    | Literal["counts", "hard answers", "both", "above 0", "unclear", "others"]
)
"""Kinds of scores. "small probabilities": rows sum to less than 1; "counts": whole numbers of at
least 0; "hard answers": a 1 in each row and 0 elsewhere; "both": some rows are probabilities,
others log-probabilities; "above 0": named log-probabilities, but one is above 0; "others": other
scores where the highest is the best, such as logits."""

ROUNDING = 2.0**-7  # rounding error of bfloat16 in a probability or a sum of probabilities
DUST = 1e-6  # error of arithmetic such as 1 - q, by which a probability may fall below 0
MAX_LOG_PROB = 0.1
"""The rounding error of a sum of log-probabilities in half precision, in nats above 0."""
MOST_ROWS = 0.9  # share of rows that decides for all rows, even if a few are odd
MANY = (20, 0.4)
"""A number of rows, and the share that decides for all of them: in so many rows, logits do not sum
to 1 by chance."""
MAX_ROWS_OF_BASE = 1000  # rows that are searched for another base of logarithms
FAR_OUT = 2.0**14  # nats; beyond it, neighboring float32 numbers are 0.002 apart or more

OTHER_BASE = re.compile(r"log[\W_]*(2|10)(?!\d)|(?<![a-z])bits?(?![a-z])", re.IGNORECASE)
"""The pattern of names for logarithms to another base: "log2_prob", "yes_log10", "bits"."""
_NAMES: dict[Kind, str] = {
    "losses": "loss losses nll ppl perplexity perplexities neglog neglogprob",
    "others": "logit logits cosine cosines similarity similarities",
    "log-probabilities": "logp logprob logprobs loglik loglikelihood loglikelihoods ll",
    "probabilities": "p prob probs proba probability probabilities softmax",
}
"""Kind -> words that begin or end a column name; the first kind that fits counts ("log_prob")."""

_REMEDIES: dict[Kind, str] = {
    "probabilities": "pass {yes}, or {no} if they are scores of another kind",
    "small probabilities": "pass {yes}, or {no} if they are scores of another kind",
    "percentages": "divide them by 100 and pass {yes}",
    "counts": "pass {counts} if they count the sampled answers of each row, {no} if they are "
    "ratings, logits or other scores where the highest is the best, or divide percentages by 100 "
    "and pass {yes}",
    "hard answers": "ask for log-probabilities, or 10 samples a row ({counts}), because a single "
    "answer cannot be corrected (the command diagnose corrects the shares of a column of answers: "
    "{answers}); pass {yes} or {no} if they are probabilities or other scores",
    "losses": "give their negatives, or pass {no} if the highest is the best",
    "both": "give numbers of one kind, such as np.log of the probabilities",
    "above 0": "the logarithm of a probability is at most 0: score that row again, or pass {no} if "
    "they are scores of another kind",
    "unclear": "pass {no} if they are logits, cosines or other scores where the highest is the "
    "best, pass {yes} if they are probabilities, or give their negatives if they are losses",
}
"""Kind of scores other than log-probabilities -> remedy."""


class Scale(NamedTuple):
    """The kind of scores, and the evidence in words."""

    kind: Kind
    evidence: str = ""


def find_scale(scores: np.ndarray, names: Iterable[Hashable] = ()) -> Scale:
    """Detects the kind of scores [..., n, k]; all rows decide together.

    The first rule that holds decides:

    1. No score is above 0: log-probabilities.
    2. Each row holds probabilities or log-probabilities, and both occur: refused.
    3. All scores are whole numbers, and no name shows another kind: hard answers if each row has
       a single 1 and 0 elsewhere; counts, unless rows sum to about 100 by rounding.
    4. Nine of ten rows (four of ten if there are 20 rows or more) lie between 0 and 1 and sum to 1:
       probabilities. If they lie between 0 and 100 and sum to 100: percentages. The sums may differ
       by the rounding error of k numbers with their decimals, or by 2^-7, the error of bfloat16.
    5. All column names begin or end with a word for one kind: "p", "prob", "loss", "logits" ...
    6. Some scores are below 0: scores of another kind, such as logits, which are used unchanged.
    7. Scores lie between 0 and 1 and sum to at most 1: probabilities of a part of the vocabulary.
    8. exp(-s) sums to 1: losses. For any other numbers above 0 the user must choose the kind.

    Missing scores are ignored. `names` are the names of the score columns, or the name of the only
    column if it holds all scores of a row.

    >>> find_scale(np.array([[0.9, 0.1]])).kind, find_scale(np.array([[0.1, 2.3]])).kind
    ('probabilities', 'losses')
    """
    if not (scores > 0).any():
        return Scale("log-probabilities")
    k = scores.shape[-1]
    rows = np.asarray(scores, np.float64).reshape(-1, k)
    is_gap = find_missing(rows) | (rows > LARGEST)  # `refuse_unusable` refuses these
    has_scores = ~is_gap.all(axis=-1)
    row_numbers = np.flatnonzero(has_scores)
    rows, is_gap = rows[has_scores], is_gap[has_scores]
    rows_low = np.where(is_gap, np.inf, rows).min(axis=-1, initial=np.inf)
    rows_high = np.where(is_gap, -np.inf, rows).max(axis=-1, initial=-np.inf)
    low, high = rows_low.min(initial=np.inf), rows_high.max(initial=-np.inf)
    # Rounding may put the logarithm of 1 slightly above 0.
    if high <= DUST and (low < -DUST or high <= 0):
        return Scale("log-probabilities")
    sums = np.where(is_gap, 0.0, rows).sum(axis=-1)
    error = _sum_error(rows[~is_gap], k)
    # Clipped, because exp(1) is above 1 already and exp(800) would overflow.
    masses = np.where(is_gap, 0.0, np.exp(np.minimum(rows, 1.0))).sum(axis=-1)
    is_logs = (rows_high <= 0) & (masses <= 1 + ROUNDING)
    is_probs = (rows_low >= -DUST) & (rows_high > ROUNDING) & (sums <= 1 + max(error, ROUNDING))
    if (is_logs | is_probs).all() and is_logs.any() and is_probs.any():
        pair = [_row_of(scores, row_numbers[which]) for which in (is_probs, is_logs)]
        return Scale("both", f"probabilities in {pair[0]} and log-probabilities in {pair[1]}")
    named = _named_kind(names)
    if named in (None, "probabilities") and low >= 0 and (rows[~is_gap] % 1 == 0).all():
        if (sums == 1).all():
            return Scale("hard answers", "a 1 in each row and 0 elsewhere, which are hard answers")
        if (sums == 100).all() or not _speaks_for_all(np.abs(sums - 100) <= k / 2):
            ends = sorted({f"{sums.min():g}", f"{sums.max():g}"}, key=float)
            return Scale("counts", f"whole numbers with rows that sum to {' to '.join(ends)}")
    for kind, total in (("probabilities", 1), ("percentages", 100)):
        is_inside = (rows_low >= -DUST) & (rows_high <= total * (1 + ROUNDING))
        is_of_kind = is_inside & (np.abs(sums - total) <= max(error, total * ROUNDING))
        if _speaks_for_all(is_of_kind):
            odd = "" if is_of_kind.all() else f" (not {_row_of(scores, row_numbers[~is_of_kind])})"
            shown = f"numbers from 0 to {total} with rows that sum to about {total}{odd}"
            return Scale(kind, f"{shown}, which are {kind}")  # type: ignore[arg-type]
    listed = ", ".join(map(repr, list(names)[:3]))
    if named == "losses":
        return Scale("losses", f"{low:g} to {high:g} under {listed}, which are losses")
    if named == "log-probabilities" and high > MAX_LOG_PROB:
        at = _row_of(scores, row_numbers[rows_high.argmax() :][:1])
        at_low = _row_of(scores, row_numbers[rows_low.argmin() :][:1])
        return Scale("above 0", f"{high:+g} in {at} and {low:+g} in {at_low} under {listed}")
    if low < -DUST or named == "others":
        return Scale("others")
    if high <= 1 + ROUNDING and named == "probabilities":
        return Scale("probabilities", f"numbers from 0 to 1 under {listed}, which are {named}")
    if high <= 1 + ROUNDING and (sums <= 1 + ROUNDING).all():
        shown = "numbers from 0 to 1 with rows that sum to at most 1, which are probabilities"
        return Scale("small probabilities", shown)
    if are_losses(rows):
        return Scale("losses", f"{low:g} to {high:g}, which are losses, as exp(-s) sums to 1")
    return Scale("unclear", f"numbers from {low:g} to {high:g}, none below 0, unlike most logits")


def are_losses(rows: np.ndarray) -> bool:
    """Checks whether exp(-s) sums to 1 in each row of numbers [m, k], as it does for losses."""
    masses = np.exp(-np.clip(rows, 0, 50)).sum(axis=-1)  # NaN where a score is missing
    error = max(_sum_error(rows[np.isfinite(rows)], rows.shape[-1]), ROUNDING)
    return bool((rows >= 0).any()) and _speaks_for_all(np.abs(masses - 1) <= error)


def to_nats(
    scores: np.ndarray,
    where: str,
    from_probs: FromProbs = None,
    *,
    names: Iterable[Hashable] = (),
    beside_others: bool = False,
) -> np.ndarray:
    """Converts scores [..., n, k] to nats; the probability 0 becomes minus infinity.

    Args:
        scores: log-probabilities in nats, probabilities, or counts of sampled answers.
        where: the name of the scores in messages.
        from_probs: True for probabilities; "counts" for counts (`_of_counts`); False leaves the
            numbers unchanged; None detects the scale (`find_scale`) and refuses probabilities,
            percentages, counts, losses and unclear numbers.
        names: the names of the columns.
        beside_others: True if other scores of the same labels are logits or the like. Numbers above
            0 are then accepted, except probabilities and percentages.

    Raises:
        InputError: numbers on another scale.

    >>> to_nats(np.array([[1.0, 0.0]]), "scores", from_probs=True).tolist()
    [[0.0, -inf]]
    """
    if from_probs:
        return (_of_counts if from_probs == "counts" else _logarithms)(scores, where)
    if from_probs is None:
        if (columns := list(map(str, names))) and all(map(OTHER_BASE.search, columns)):
            got = f"logarithms to another base, named {', '.join(map(repr, columns[:3]))}"
            no = spell("from_probs", False)
            remedy = f"multiply by the base's natural logarithm, or pass {no}"
            raise InputError.at(where, "log-probabilities in nats", got, remedy)
        kind, evidence = find_scale(scores, names)
        if kind == "log-probabilities":
            _refuse_other_base(scores, where)
        of_others = ("small probabilities", "counts", "losses", "unclear")
        is_expected = beside_others and kind in of_others
        if kind in _REMEDIES and not is_expected:
            yes, no = spell("from_probs", True), spell("from_probs", False)
            more = {"counts": spell("from_probs", "counts"), "answers": spell("answers", "COLUMN")}
            remedy = _REMEDIES[kind].format(yes=yes, no=no, **more)
            raise InputError.at(where, "log-probabilities in nats", evidence, remedy)
    return scores


def _refuse_other_base(scores: np.ndarray, where: str) -> None:
    """Raises InputError for logarithms [..., n, k] to base 2 or 10, by the sums of their powers."""
    rows = scores.reshape(-1, scores.shape[-1])[:MAX_ROWS_OF_BASE]
    rows = np.minimum(rows, 0.0, dtype=np.float64)
    is_far = np.abs(np.nansum(np.exp(rows), axis=-1) - 1) > 0.02
    for base in (2.0, 10.0):
        is_one = np.abs(np.nansum(base**rows, axis=-1) - 1) < 1e-3
        if len(rows) >= MANY[0] and is_one.mean() >= MOST_ROWS and is_far.mean() > 0.5:
            got = f"logarithms to base {base:g}, as their powers sum to 1 in each row"
            remedy = f"multiply by {np.log(base):.6f}, or pass {spell('from_probs', False)}"
            raise InputError.at(where, "log-probabilities in nats", got, remedy)


def _of_counts(counts: np.ndarray, where: str) -> np.ndarray:
    """Returns log((c + 1/2) / (n + k/2)) of counts c [..., n, k] with n answers in a row.

    The ratio is the mean of the posterior under Jeffreys' prior, a Dirichlet distribution with 1/2
    for each label (Krichevsky and Trofimov 1981, IEEE Transactions on Information Theory 27(2)).
    NaN counts as 0, and a row without answers has no scores (NaN).
    """
    known = np.nan_to_num(np.asarray(counts, np.float64), nan=0.0, posinf=0.5)
    totals = known.sum(axis=-1, keepdims=True)
    expected = "counts of the sampled answers of each row"
    if (known < 0).any() or (known % 1 > 0).any():
        got = f"{np.nanmin(counts):g} to {np.nanmax(counts):g}, not all of them whole numbers"
        remedy = f"leave {spell('from_probs', 'counts')} out if they are other scores"
        raise InputError.at(where, expected, got, remedy)
    if totals.max(initial=0) < 2:
        remedy = (
            "ask for 10 samples a row, because a single answer cannot be corrected (the command "
        )
        remedy += (
            f"diagnose corrects the shares of a column of answers: {spell('answers', 'COLUMN')})"
        )
        raise InputError.at(where, expected, "at most one answer a row", remedy)
    scores = np.log((known + 0.5) / (totals + known.shape[-1] / 2))
    return np.where(totals > 0, scores, np.nan)


def note_counts(counts: np.ndarray) -> tuple[str, ...]:
    """Returns a note on the coarse steps of scores from counts [n, k].

    >>> note_counts(np.array([[9, 1], [10, 0], [5, 5]]))[0][:60]
    'Scores are log((count + 1/2) / (n + 2/2)) of n = 10 answers '
    """
    ordered = np.sort(np.nan_to_num(counts), axis=1)
    ordered = ordered[ordered[:, -1] > 0]
    totals, empty = ordered.sum(axis=1), len(counts) - len(ordered)
    ends = dict.fromkeys(f"{size:g}" for size in (totals.min(), totals.max()))
    agreeing, ties = (ordered[:, -1:] == np.stack([totals, ordered[:, -2]], axis=1)).sum(axis=0)
    note = (
        f"Scores are log((count + 1/2) / (n + {counts.shape[1]}/2)) of n = {' to '.join(ends)} "
        f"answers a row, in steps of one answer. Rows whose answers all agree ({agreeing:,} of "
        f"{len(totals):,}) keep their label unless its bias exceeds another label's by "
        f"log(2n + 1) = {np.log(2 * totals.max() + 1):.1f} nats."
    )
    note += bool(ties) * (
        f" Rows with a tie ({ties:,}) get the first of the tied labels, so without a correction "
        "the accuracy, and with it the gain, depends on the order of the labels."
    )
    return (note + f" Rows without an answer ({empty:,}) are left out." * bool(empty),)


def _logarithms(probs: np.ndarray, where: str) -> np.ndarray:
    """Returns the logarithms of probabilities, which rounding may put slightly outside 0 to 1."""
    is_inside = np.isnan(probs) | ((probs >= -DUST) & (probs <= 1 + ROUNDING))  # NaN: refused later
    rows = np.asarray(probs, np.float64).reshape(-1, probs.shape[-1])
    # Losses of two labels may lie between 0 and 1 too; they sum to 2 log 2 = 1.39 or more.
    is_loss = len(rows) > 1 and np.median(np.nansum(rows, axis=-1)) > 1.3 and are_losses(rows)
    if is_inside.all() and not is_loss:
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(np.clip(probs, 0, 1)))
    remedies: dict[Kind, str] = {
        "percentages": "divide them by 100",
        "counts": f"divide percentages by 100, or pass {spell('from_probs', 'counts')} for counts",
        "losses": f"they are losses: give their negatives, without {spell('from_probs', True)}",
        "both": _REMEDIES["both"],
    }
    remedy = f"leave {spell('from_probs', True)} out if they are log-probabilities"
    expected = "probabilities from 0 to 1"
    if np.isinf(probs).any() and is_inside[np.isfinite(probs)].all():
        got = f"infinity in {_row_of(probs, np.flatnonzero(np.isinf(rows).any(axis=-1)))}"
        remedy = f"correct the row, or pass {spell('missing', 'drop')}"
        raise InputError.at(where, expected, got, remedy)
    got = f"{np.nanmin(probs):g} to {np.nanmax(probs):g}"
    raise InputError.at(where, expected, got, remedies.get(find_scale(probs).kind, remedy))


def keep_differences(scores: np.ndarray) -> np.ndarray:
    """Shifts rows of scores [..., n, k] so that float32 keeps the differences within a row.

    At -9e5 nats, float32 numbers are 0.06 apart. If the highest score of a row is more than
    `FAR_OUT` from 0, the row is shifted until this score is 1. (It is above 0, so that no method
    takes the row for log-probabilities.) Other rows, and scores of 32 bits or fewer, are unchanged.

    >>> keep_differences(np.array([[-900000.01, -900000.0], [-1.0, -2.0]])).round(6).tolist()
    [[0.99, 1.0], [-1.0, -2.0]]
    """
    if scores.dtype.itemsize < 8:
        return scores
    highest = scores.max(axis=-1, keepdims=True)
    is_far = (np.abs(highest) > FAR_OUT) & (np.abs(highest) <= LARGEST)  # sentinels are unchanged
    return scores - np.where(is_far, highest - 1, 0.0) if is_far.any() else scores


def note_moved(scores: np.ndarray, moved: np.ndarray) -> tuple[str, ...]:
    """Returns a note if `keep_differences` moved rows of scores [n, k], else an empty tuple."""
    count = int((scores != moved).any(axis=-1).sum())
    if not count:
        return ()
    return (
        f"{count:,} of {len(scores):,} rows lie so far from 0 that their scores are replaced by "
        "differences from their highest score.",
    )


def note_fillers(scores: np.ndarray) -> tuple[str, ...]:
    """Returns notes on scores [..., n, k] where 0 or a filler may mean a missing label.

    >>> note_fillers(np.array([[-0.5, -1.0]] * 20 + [[-100.0, -0.1]] * 3))[0][:42]
    'Scores of -100, far below all others, may '
    """
    if scores.min() > missing_scores.HIGHEST_FILLER and scores.max() < 0:  # the usual case
        return ()
    lowest, is_zero = missing_scores.find_lowest(scores), False
    if lowest.highest == 0:
        rows = scores[~find_missing(scores, lowest.filler).any(axis=-1)]
        is_over = (rows == 0).any(axis=-1) & (np.exp(rows).sum(axis=-1) > 1.05)
        is_zero = bool(len(rows)) and 0 < is_over.mean() < 1 - MOST_ROWS
    least, notes = spell("missing", "least"), []
    if lowest.filler > -np.inf:
        filler, remedy = f"{lowest.filler:g}, far below all others,", f"pass {least}"
        notes.append(f"Scores of {filler} may mean labels that were not returned: {remedy}.")
    if is_zero:
        filler, remedy = "0 next to likely labels", f"leave their cells empty and pass {least}"
        notes.append(f"Scores of {filler} may mean labels that were not returned: {remedy}.")
    return tuple(notes)


def _speaks_for_all(is_of_kind: np.ndarray) -> bool:
    """Checks whether enough rows are of a kind to decide for all (`MOST_ROWS`, `MANY`)."""
    many, share_of_many = MANY
    rows = len(is_of_kind)
    share = is_of_kind.mean() if rows else 0.0
    return bool(share >= MOST_ROWS or (rows >= many and share >= share_of_many))


def _sum_error(numbers: np.ndarray, k: int) -> float:
    """Returns the largest rounding error of a sum of k numbers with few decimals, else 0."""
    for decimals in range(0 if numbers.max(initial=0) > 2 else 1, 5):  # 0: percentages
        if (np.abs(numbers - numbers.round(decimals)) < 1e-7).all():
            return k * 0.5 * 10.0**-decimals + 1e-6
    return 0.0


def _named_kind(names: Iterable[Hashable]) -> Kind | None:
    """Returns the kind that all names agree on, or None."""
    kinds: set[Kind | None] = set()
    for name in names:
        ends = set[str]()
        for pattern in ("(?i:[a-z]+)", "[A-Z]+(?![a-z])|[A-Z]?[a-z]+"):  # "logit_a", "logitA"
            parts = [part.lower() for part in re.findall(pattern, str(name))] or [""]
            ends |= {parts[0], parts[-1], "".join(parts[:2]), "".join(parts[-2:])}
        fitting = (kind for kind, words in _NAMES.items() if ends & set(words.split()))
        kinds.add(next(fitting, None))
    return kinds.pop() if len(kinds) == 1 else None


def plain_names(names: Iterable[str]) -> list[str]:
    """Removes words for a kind of scores, such as "logit", from the beginnings of column names.

    >>> plain_names(["logit_A", "logitB", "log_prob C", "positive"])
    ['A', 'B', 'C', 'positive']
    """
    words = "|".join(" ".join(_NAMES.values()).split())
    beginning = re.compile(rf"(?i:(?:log[\W_])?(?:{words}))(?:[\W_]+|(?=[A-Z]))(?=.)")
    return [name[match.end() :] if (match := beginning.match(name)) else name for name in names]


def _row_of(scores: np.ndarray, numbers: np.ndarray) -> str:
    """Describes the first of some rows, which are numbered consecutively over all contexts."""
    *context, row = map(int, np.unravel_index(numbers[0], scores.shape[:-1]))
    return f"row {row} of context {tuple(context)}" if context else f"row {row}"
