"""Measures a judge's position bias between two answers, and win rates without this bias.

A judge decides which of two answers is better, the candidate's or a reference's. A preference for a
position is a bias of the labels "first" and "second". If a coin decides which answer is first, both
positions hold the better answer equally often, as BC assumes.
"""

import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.special import expit, logit, ndtri, stdtrit

from batch_calibration.errors import InputError, shown
from batch_calibration.files import Json
from batch_calibration.files.rows import json_rows
from batch_calibration.importers.cells import number_of
from batch_calibration.importers.text_files import read_cells
from batch_calibration.metrics import Estimate

LEAST_HUMAN = 10
"""The minimum number of human labels of each kind that a correction of a win rate needs."""


class Judgments(NamedTuple):
    """A judge's decisions on n pairs of answers.

    Attributes:
        margins: [n], log-odds that the answer shown first is better, in nats; NaN if unknown.
        is_first: [n], whether the candidate's answer was shown first.
        candidate: [n], index of the candidate in `names`.
        question: [n], index of the question.
        human: [n], 1 if people prefer the candidate, 0 if they prefer the reference, -1 if unknown.
        names: names of the candidates.
    """

    margins: np.ndarray
    is_first: np.ndarray
    candidate: np.ndarray
    question: np.ndarray
    human: np.ndarray
    names: tuple[str, ...]


class SwapPairs(NamedTuple):
    """Pairs that were judged in both orders.

    Attributes:
        log_odds: [p], (log-odds of the candidate shown first + shown second) / 2, in nats.
        is_flipped: [p], whether the preferred answer depends on the order.
        rows: [p, 2], the rows of each pair with the candidate first and second.
    """

    log_odds: np.ndarray
    is_flipped: np.ndarray
    rows: np.ndarray


class Preference(NamedTuple):
    """A judge's preference for the first position, in each group of pairs.

    Attributes:
        nats: [n], the preference for the first position in the group of each pair.
        influence: [n], contribution of each pair to the error of its group's preference, in nats.
        group: [n], index of the group.
    """

    nats: np.ndarray
    influence: np.ndarray
    group: np.ndarray


def place_preference(judgments: Judgments, *, by_candidate: bool = False) -> Preference:
    """Estimates the preference for the first position in each group of pairs.

    The preference is the mean of two means: the mean margin with the candidate first, and the mean
    margin with the candidate second. The candidate's quality raises one mean and lowers the other
    by the same amount, even if their numbers of pairs differ. If a group has only one order, the
    preference is its mean margin and includes the candidate's quality.

    Args:
        judgments: pairs in one order, drawn by a coin (fair or not), or in both orders.
        by_candidate: makes a group of each candidate's pairs, instead of one group of all pairs.
    """
    group = judgments.candidate if by_candidate else np.zeros_like(judgments.candidate)
    is_scored = ~np.isnan(judgments.margins)
    margins = np.where(is_scored, judgments.margins, 0.0)
    place = 2 * group + judgments.is_first
    counts = np.bincount(place, is_scored, 2 * (int(group.max()) + 1))
    means = np.bincount(place, margins, len(counts)) / np.maximum(counts, 1)
    places = np.maximum((counts > 0).reshape(-1, 2).sum(axis=1), 1)  # orders per group, 1 or 2
    nats = (means.reshape(-1, 2).sum(axis=1) / places)[group]
    weight = is_scored / (np.maximum(counts, 1)[place] * places[group])
    return Preference(nats, weight * (margins - means[place]), group)


def standard_error(influence: np.ndarray, question: np.ndarray) -> float:
    """Computes the standard error of a mean from each pair's influence, clustered by question.

    Both orders of a pair, and all candidates' answers to one question, depend on one another.

    >>> round(standard_error(np.array([-0.5, 0.5]) / 2, np.arange(2)), 3)
    0.5
    """
    present = np.bincount(question) > 0
    sums = np.bincount(question, influence)[present]
    n = len(sums)
    return float(np.sqrt(n / (n - 1) * (sums**2).sum())) if n > 1 else float("nan")


def position_preference(judgments: Judgments) -> tuple[float, float]:
    """Estimates the preference for the first position in nats, and its standard error.

    >>> ones = np.ones(4, int)
    >>> judged = Judgments(np.array([-3.0, -2.5, 0.0, 0.5]), np.array([True, True, False, False]),
    ...                    0 * ones, np.arange(4), -ones, ("a",))
    >>> preference, error = position_preference(judged)
    >>> round(preference, 2), round(error, 2)
    (-1.25, 0.14)
    """
    preference = place_preference(judgments)
    is_scored = ~np.isnan(judgments.margins)
    error = standard_error(preference.influence[is_scored], judgments.question[is_scored])
    return float(preference.nats[0]), error


def remove_preference(judgments: Judgments, *, by_candidate: bool = True) -> np.ndarray:
    """Subtracts the preference for the first position from the margins [n], as BC does.

    Args:
        judgments: pairs in one order each, drawn by a coin.
        by_candidate: estimates the preference from each candidate's pairs instead of all pairs,
            because it may depend on the difference between the answers.

    Raises:
        InputError: a candidate that was first in less than a quarter or more than three quarters of
            its pairs; its mean margin then measures its quality rather than a preference.
    """
    preference = place_preference(judgments, by_candidate=by_candidate)
    counts = np.bincount(preference.group)
    shares = np.bincount(preference.group, judgments.is_first) / np.maximum(counts, 1)
    for group in np.flatnonzero((counts > 0) & ~((shares >= 0.25) & (shares <= 0.75))):
        name = judgments.names[group] if by_candidate else "all candidates"
        expected = "the candidate first in about half of the pairs"
        got = f"first in {100 * shares[group]:.0f} %"
        remedy = "judge both orders, or draw the order by a coin: otherwise a preference for a "
        remedy += "position cannot be separated from the answer's quality"
        raise InputError.at(f"the order of {name}", expected, got, remedy)
    corrected: np.ndarray = judgments.margins - preference.nats
    return corrected


def candidate_log_odds(margins: np.ndarray, is_first: np.ndarray) -> np.ndarray:
    """Converts log-odds of the first answer to log-odds of the candidate's answer."""
    return np.where(is_first, margins, -margins)


def win_rate(
    log_odds: np.ndarray,
    question: np.ndarray | None = None,
    inside: np.ndarray | None = None,
    removed: tuple[Preference, np.ndarray] | None = None,
) -> Estimate:
    """Estimates the mean probability that the candidate wins, with a 95 % interval over questions.

    Args:
        log_odds: [n], log-odds of the candidate; NaN if unknown.
        question: [n], index of the question; by default, each pair has its own question.
        inside: [n], whether a pair counts; by default, all pairs count.
        removed: the preference that was subtracted, and whether the candidate was shown first [n].
            The interval then includes the error of the preference.

    >>> print(win_rate(np.zeros(4)))
    50.0 [50.0, 50.0]
    """
    is_scored = ~np.isnan(log_odds)
    counted = is_scored if inside is None else is_scored & inside
    probs = expit(np.where(is_scored, log_odds, 0.0))
    weight = counted / max(counted.sum(), 1)
    mean = float(weight @ probs)
    influence = weight * (probs - mean)
    if removed is not None:
        preference, is_first = removed
        slope = weight * probs * (1 - probs) * np.where(is_first, 1.0, -1.0)
        influence -= np.bincount(preference.group, slope)[preference.group] * preference.influence
    questions = np.arange(len(log_odds)) if question is None else question
    is_used = counted if removed is None else is_scored
    independent = len(np.unique(questions[counted]))
    error = standard_error(influence[is_used], questions[is_used])
    reach = float(stdtrit(max(independent - 1, 1), 0.975)) * error
    return Estimate(mean, mean - reach, mean + reach)


def swap_pairs(judgments: Judgments) -> SwapPairs:
    """Finds the pairs judged in both orders; the mean of both orders has no position bias."""
    first_row: dict[tuple[int, int], int] = {}
    second_row: dict[tuple[int, int], int] = {}
    for row, key in enumerate(zip(judgments.candidate, judgments.question, strict=True)):
        if not np.isnan(judgments.margins[row]):
            (first_row if judgments.is_first[row] else second_row)[key] = row
    pair_keys = [key for key in first_row if key in second_row]
    rows = np.array([(first_row[key], second_row[key]) for key in pair_keys], int).reshape(-1, 2)
    shown_first, shown_second = judgments.margins[rows[:, 0]], -judgments.margins[rows[:, 1]]
    is_flipped = np.sign(shown_first) != np.sign(shown_second)
    return SwapPairs((shown_first + shown_second) / 2, is_flipped, rows)


def calls_per_swap(judgments: Judgments, pairs: SwapPairs) -> float:
    """Computes how many corrected calls have the standard error of one pair in both orders.

    A pair in both orders costs two calls. If the result is below two, corrected single orders are
    cheaper.
    """
    corrected = candidate_log_odds(remove_preference(judgments), judgments.is_first)
    single = expit(corrected[pairs.rows.ravel()]).var(ddof=1)
    return float(single / expit(pairs.log_odds).var(ddof=1))


def corrected_rate(
    wins: np.ndarray, human: np.ndarray, question: np.ndarray | None = None, *, level: float = 0.95
) -> Estimate | None:
    """Estimates how often people prefer the candidate, from the judge and some human labels.

    theta = (p + q0 - 1) / (q0 + q1 - 1) (Rogan and Gladen 1978). p is the judge's win rate on pairs
    without human labels. q1 and q0 are the shares of pairs on which the judge agrees with people,
    among the pairs with the candidate or the reference preferred by people. The interval comes from
    the delta method with pseudo-counts (arXiv:2511.21140).

    Args:
        wins: [n], whether the judge prefers the candidate.
        human: [n], 1 (people prefer the candidate), 0 (the reference), or -1 (unknown).
        question: [n], index of the question; correlated pairs of a question count as fewer pairs.
            By default, each pair has its own question.
        level: confidence level of the interval.

    Returns:
        None with fewer than 10 human labels of either kind, without pairs that lack a human label,
        or with a judge that is no better than chance.
    """
    questions = np.arange(len(wins)) if question is None else question
    is_of_judge = human < 0
    of_judge, of_people = wins[is_of_judge], (wins[human == 1], ~wins[human == 0])
    if min(map(len, of_people)) < LEAST_HUMAN or not len(of_judge):
        return None
    z = float(ndtri(0.5 + level / 2))

    def rate(hits: np.ndarray, rows: np.ndarray, added: float) -> tuple[float, float]:
        """Returns a share with `added` pseudo-pairs, half of them hits, and its number of pairs."""
        count = _independent(hits, questions[rows])
        return float(hits.mean() * count + added / 2) / (count + added), count + added

    # The judge's share gets z^2 pseudo-pairs, and each human share gets 2.
    p, n = rate(of_judge, is_of_judge, z**2)
    (q1, m1), (q0, m0) = (rate(of_people[i], human == 1 - i, 2) for i in (0, 1))
    power = q0 + q1 - 1
    if power <= 0:
        return None
    theta = float(np.clip((p + q0 - 1) / power, 0.0, 1.0))
    variance = p * (1 - p) / n + (1 - theta) ** 2 * q0 * (1 - q0) / m0
    variance += theta**2 * q1 * (1 - q1) / m1
    reach = z * float(np.sqrt(variance)) / power
    return Estimate(theta, max(theta - reach, 0.0), min(theta + reach, 1.0))


def _independent(hits: np.ndarray, question: np.ndarray) -> float:
    """Returns the number of independent pairs with the same standard error, at most n."""
    mean = hits.mean()
    error = standard_error((hits - mean) / len(hits), question)
    alone = mean * (1 - mean)
    return min(float(alone / error**2), len(hits)) if alone and error > 0 else float(len(hits))


# Files of judgments: tables of margins or probabilities, and alpaca_eval's annotations

SCORES = ("log_odds_first", "p_first", "p_candidate", "preference")
"""Names of score columns; a file has one of them: log-odds or probability that the first answer is
better, probability that the candidate's is better, or alpaca_eval's 1 to 2, 2 for the candidate."""
TRUE = ("true", "1", "yes", "candidate", "first")
FALSE = ("false", "0", "no", "reference", "second")
PLACES = ("first", "second")
Row = Mapping[str, Json]


def read_judgments(paths: Sequence[Path]) -> Judgments:
    """Reads the judgments of all files together.

    A file has columns or keys: one of `SCORES`; `candidate_first`, which a rule replaces in
    alpaca_eval's files; and optionally `candidate` (or `generator_2`), `question` (or `id`,
    `instruction`) and `human` (whether people prefer the candidate, or the position that they
    prefer: "first" or "second"). A probability of 0 comes from a token that was not listed; it is
    raised to the smallest probability in the files, and 1 is lowered accordingly.

    Raises:
        InputError: a file that is not a table or lacks a column; a cell that is not a number.
    """
    rows: list[tuple[str, Row]] = []
    for path in paths:
        rows += [(f"{path}, row {number}", row) for number, row in enumerate(_read(path), 1)]
    if not rows:
        remedy = "give a file with a row for each pair"
        raise InputError.at(paths[0], "judged pairs", "none", remedy)
    first_where, first = rows[0]
    name = next((name for name in SCORES if name in first), None)
    if name is None:
        got = shown([*first])
        raise InputError.at(first_where, f"one of {', '.join(SCORES)}", got, "rename a column")
    numbers = np.array([_number(row.get(name), where, name) for where, row in rows])
    if np.isnan(numbers).all():
        raise InputError.at(paths[0], f"scores in {name}", "none in any row", "give judged pairs")
    is_first = np.array([_candidate_first(row, where) for where, row in rows])
    candidates, questions, human = [], [], []
    for number, ((where, row), shown_first) in enumerate(zip(rows, is_first, strict=True)):
        candidates.append(str(row.get("candidate", row.get("generator_2", "candidate"))))
        questions.append(str(row.get("question", row.get("id", row.get("instruction", number)))))
        if row.get("human") in (None, ""):
            human.append(-1)
            continue
        preferred = _flag(row["human"], where, "human")
        # The order decides whether a position holds the candidate's or the reference's answer.
        is_place = str(row["human"]).strip().lower() in PLACES
        human.append(int(preferred == shown_first if is_place else preferred))
    names, candidate = np.unique(candidates, return_inverse=True)
    _, question = np.unique(questions, return_inverse=True)
    margins = _margins(numbers, is_first, name, first_where)
    known = tuple(map(str, names))
    return Judgments(margins, is_first, candidate, question, np.array(human), known)


def _margins(numbers: np.ndarray, is_first: np.ndarray, name: str, where: str) -> np.ndarray:
    """Converts the numbers of a score column to log-odds of the first answer."""
    if name == "log_odds_first":
        known = numbers[~np.isnan(numbers)]
        if len(known) >= LEAST_HUMAN and ((known >= 0) & (known <= 1)).all():
            got = f"{known.min():g} to {known.max():g}, the range of probabilities"
            raise InputError.at(f"{where}: {name}", "log-odds", got, "rename the column p_first")
        return numbers
    probs = numbers - 1 if name == "preference" else numbers
    scored = probs[~np.isnan(probs)]
    if ((scored < 0) | (scored > 1)).any():
        expected = "numbers from 1 to 2" if name == "preference" else "probabilities from 0 to 1"
        got = f"{numbers[~np.isnan(probs)].min():g} to {numbers.max():g}"
        raise InputError.at(f"{where}: {name}", expected, got, "rename log-odds log_odds_first")
    inside = scored[(scored > 0) & (scored < 1) & (scored != 0.5)]
    # If all judgments are 0, 1 or ties, the smallest probability is set to one in a thousand.
    smallest = min(inside.min(), (1 - inside).min()) if len(inside) else 1e-3
    log_odds: np.ndarray = logit(np.clip(probs, smallest, 1 - smallest))
    return log_odds if name == "p_first" else np.where(is_first, log_odds, -log_odds)


def _candidate_first(row: Row, where: str) -> bool:
    """Checks whether the candidate, alpaca_eval's second output, was shown first."""
    for name in ("candidate_first", "is_switched_outputs"):
        if row.get(name) not in (None, ""):
            return _flag(row[name], where, name)
    if "instruction" in row and "preference" in row:
        # In alpaca_eval's rule, the order depends only on the instruction.
        seed = f"is_switched_outputs{row['instruction']}0"
        return random.Random(seed).choices([False, True], k=1)[0]
    expected = "the column candidate_first"
    raise InputError.at(where, expected, shown([*row]), "add it with true or false in each row")


def _flag(cell: Json, where: str, name: str) -> bool:
    text = str(cell).strip().lower().removesuffix(".0")
    if text not in TRUE + FALSE:
        remedy = "write true, false, 1 or 0"
        raise InputError.at(f"{where}: {name}", "true or false", repr(cell), remedy)
    return text in TRUE


def _number(cell: Json, where: str, name: str) -> float:
    """Converts a cell to a number; NaN for an unreadable answer of the judge."""
    number = number_of(cell)
    if number is None or np.isinf(number):
        remedy = "leave the cell empty if it is not known"
        raise InputError.at(f"{where}: {name}", "a number", repr(cell), remedy)
    return number


def _read(path: Path) -> list[dict[str, Json]]:
    """Reads the rows of a CSV, JSON Lines or JSON file."""
    if path.suffix in (".csv", ".tsv"):
        names, rows = read_cells(path)
        return [dict[str, Json](zip(names, cells, strict=True)) for cells in rows]
    return [row for _, row in json_rows(path)]
