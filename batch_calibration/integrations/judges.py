"""A judge of pairs: which place it prefers, and win rates with that preference removed.

A judge is asked which of two answers is better, the candidate's or a reference's. What it prefers
for the place alone is a bias of the labels "first" and "second". Where a coin decides which answer
stands first, both places are equally often the better one, which is what BC supposes.
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
"""Human labels of each kind below which a win rate is not corrected by them."""


class Judgments(NamedTuple):
    """The answers of a judge to n pairs.

    Attributes:
        margins: [n], log-odds that the answer shown first is better, in nats; NaN where unknown.
        is_first: [n], whether the candidate's answer was shown first.
        candidate: [n], whose answer it is, as an index of `names`.
        question: [n], equal for the pairs of one question.
        human: [n], 1 where people prefer the candidate, 0 the reference, -1 where unknown.
        names: of the candidates.
    """

    margins: np.ndarray
    is_first: np.ndarray
    candidate: np.ndarray
    question: np.ndarray
    human: np.ndarray
    names: tuple[str, ...]


class SwapPairs(NamedTuple):
    """Pairs that were asked in both orders.

    Attributes:
        log_odds: [p], (log-odds of the candidate shown first + shown second) / 2, in nats.
        is_flipped: [p], whether the answer that is preferred depends on the order.
        rows: [p, 2], the rows of both orders, the candidate first and second.
    """

    log_odds: np.ndarray
    is_flipped: np.ndarray
    rows: np.ndarray


class Preference(NamedTuple):
    """What a judge prefers for the place alone, in each group of pairs.

    Attributes:
        nats: [n], the preference for the first place in the group of each pair.
        influence: [n], what each pair adds to the error of its group's preference, in nats.
        group: [n], an index from 0.
    """

    nats: np.ndarray
    influence: np.ndarray
    group: np.ndarray


def place_preference(judgments: Judgments, *, by_candidate: bool = False) -> Preference:
    """The mean of two means: of the margins of pairs with the candidate first, and second.

    The candidate's worth raises one as far as it lowers the other, however many pairs each has. Of
    a group that has one place alone it is the mean of all, from which worth cannot be told.

    Args:
        judgments: of one order each, drawn by a coin (a fair one or not), or of both.
        by_candidate: whether each candidate's pairs are a group; else all are.
    """
    group = judgments.candidate if by_candidate else np.zeros_like(judgments.candidate)
    is_scored = ~np.isnan(judgments.margins)
    margins = np.where(is_scored, judgments.margins, 0.0)
    place = 2 * group + judgments.is_first
    counts = np.bincount(place, is_scored, 2 * (int(group.max()) + 1))
    means = np.bincount(place, margins, len(counts)) / np.maximum(counts, 1)
    places = np.maximum((counts > 0).reshape(-1, 2).sum(axis=1), 1)  # of each group, 1 or 2
    nats = (means.reshape(-1, 2).sum(axis=1) / places)[group]
    weight = is_scored / (np.maximum(counts, 1)[place] * places[group])
    return Preference(nats, weight * (margins - means[place]), group)


def standard_error(influence: np.ndarray, question: np.ndarray) -> float:
    """The standard error of a mean from what each pair adds to it; pairs of a question are one.

    Both orders of a pair, and all candidates' answers to one question, depend on one another.

    >>> round(standard_error(np.array([-0.5, 0.5]) / 2, np.arange(2)), 3)
    0.5
    """
    present = np.bincount(question) > 0
    sums = np.bincount(question, influence)[present]
    n = len(sums)
    return float(np.sqrt(n / (n - 1) * (sums**2).sum())) if n > 1 else float("nan")


def position_preference(judgments: Judgments) -> tuple[float, float]:
    """By how much the first place is preferred, in nats, and the standard error over questions.

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
    """The margins [n] after BC: less `place_preference`, of each candidate's pairs or of all.

    Args:
        judgments: of one order each, drawn by a coin.
        by_candidate: whether each candidate's own mean is taken, for the preference may depend on
            how far apart the answers are.

    Raises:
        InputError: a candidate that stood first in less than a quarter of its pairs, or in more
            than three: its mean margin is what it is worth, and no preference for a place.
    """
    preference = place_preference(judgments, by_candidate=by_candidate)
    counts = np.bincount(preference.group)
    shares = np.bincount(preference.group, judgments.is_first) / np.maximum(counts, 1)
    for group in np.flatnonzero((counts > 0) & ~((shares >= 0.25) & (shares <= 0.75))):
        name = judgments.names[group] if by_candidate else "all candidates"
        expected = "the candidate first in about half of them"
        got = f"first in {100 * shares[group]:.0f} %"
        remedy = "judge both orders, or draw the order by a coin: as it is the place cannot "
        remedy += "be told from the answer's worth"
        raise InputError.at(f"the order of {name}", expected, got, remedy)
    corrected: np.ndarray = judgments.margins - preference.nats
    return corrected


def candidate_log_odds(margins: np.ndarray, is_first: np.ndarray) -> np.ndarray:
    """Log-odds that the candidate's answer is better, from the log-odds of the first answer."""
    return np.where(is_first, margins, -margins)


def win_rate(
    log_odds: np.ndarray,
    question: np.ndarray | None = None,
    inside: np.ndarray | None = None,
    removed: tuple[Preference, np.ndarray] | None = None,
) -> Estimate:
    """The mean probability that the candidate wins, with a 95 % interval over questions.

    Args:
        log_odds: [n], of the candidate; NaN where unknown.
        question: [n], equal for the pairs of one question; each its own by default.
        inside: [n], whether a pair counts; all do by default.
        removed: the preference that was taken off, and whether the candidate was shown first [n]:
            that it was estimated from these pairs is a part of the error.

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
    """The pairs that were asked in both orders; the mean of both has no preference for a place."""
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
    """Calls of one order, corrected, that have the standard error of one pair of both orders.

    A swapped pair costs two calls: below two, single orders with the correction are cheaper.
    """
    corrected = candidate_log_odds(remove_preference(judgments), judgments.is_first)
    single = expit(corrected[pairs.rows.ravel()]).var(ddof=1)
    return float(single / expit(pairs.log_odds).var(ddof=1))


def corrected_rate(
    wins: np.ndarray, human: np.ndarray, question: np.ndarray | None = None, *, level: float = 0.95
) -> Estimate | None:
    """The rate at which people would prefer the candidate, from some of their labels.

    theta = (p + q0 - 1) / (q0 + q1 - 1) (Rogan and Gladen 1978), p the judge's win rate on pairs
    without labels, q1 and q0 how often it agrees with people where they prefer the candidate and
    where they do not; the interval is by the delta method with added counts (arXiv:2511.21140).

    Args:
        wins: [n], whether the judge prefers the candidate.
        human: [n], 1, 0, or -1 where unknown.
        question: [n], equal for the pairs of one question, which count as fewer pairs the more
            they agree; each its own by default.
        level: how often the interval shall hold the rate.

    Returns:
        None where fewer than 10 labels of either kind are there, or the judge tells nothing.
    """
    questions = np.arange(len(wins)) if question is None else question
    is_of_judge = human < 0
    of_judge, of_people = wins[is_of_judge], (wins[human == 1], ~wins[human == 0])
    if min(map(len, of_people)) < LEAST_HUMAN or not len(of_judge):
        return None
    z = float(ndtri(0.5 + level / 2))

    def rate(hits: np.ndarray, rows: np.ndarray, added: float) -> tuple[float, float]:
        """A share and of how many pairs it is, half of those added right and half wrong."""
        count = _independent(hits, questions[rows])
        return float(hits.mean() * count + added / 2) / (count + added), count + added

    # z^2 pairs are added to the judge's, one of each kind to people's.
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
    """How many independent pairs have the standard error that these have, n of them at most."""
    mean = hits.mean()
    error = standard_error((hits - mean) / len(hits), question)
    alone = mean * (1 - mean)
    return min(float(alone / error**2), len(hits)) if alone and error > 0 else float(len(hits))


# Files of judgments: tables of margins or probabilities, and alpaca_eval's annotations

SCORES = ("log_odds_first", "p_first", "p_candidate", "preference")
"""Columns of which a file has one: log-odds or probability that the first answer is better, the
probability that the candidate's is, or alpaca_eval's 1 to 2, 2 for the candidate."""
TRUE = ("true", "1", "yes", "candidate", "first")
FALSE = ("false", "0", "no", "reference", "second")
PLACES = ("first", "second")
Row = Mapping[str, Json]


def read_judgments(paths: Sequence[Path]) -> Judgments:
    """The judgments of all files together.

    Columns or keys: one of `SCORES`; `candidate_first`, which alpaca_eval's files leave to a rule;
    and, where there are any, `candidate` (or `generator_2`), `question` (or `id`, `instruction`)
    and `human` (whether people prefer the candidate, or which place: "first" or "second"). A
    probability of 0 or 1 is of a token that was not listed: it gets the least probability in the
    files.

    Raises:
        InputError: a file that is no table, or that lacks a column; a number that is none.
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
        raise InputError.at(first_where, f"one of {', '.join(SCORES)}", got, "rename one")
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
        # A place is the candidate's or the reference's, by the order.
        is_place = str(row["human"]).strip().lower() in PLACES
        human.append(int(preferred == shown_first if is_place else preferred))
    names, candidate = np.unique(candidates, return_inverse=True)
    _, question = np.unique(questions, return_inverse=True)
    margins = _margins(numbers, is_first, name, first_where)
    known = tuple(map(str, names))
    return Judgments(margins, is_first, candidate, question, np.array(human), known)


def _margins(numbers: np.ndarray, is_first: np.ndarray, name: str, where: str) -> np.ndarray:
    """Log-odds of the first answer."""
    if name == "log_odds_first":
        known = numbers[~np.isnan(numbers)]
        if len(known) >= LEAST_HUMAN and ((known >= 0) & (known <= 1)).all():
            got = f"{known.min():g} to {known.max():g}, as probabilities are"
            raise InputError.at(f"{where}: {name}", "log-odds", got, "name probabilities p_first")
        return numbers
    probs = numbers - 1 if name == "preference" else numbers
    scored = probs[~np.isnan(probs)]
    if ((scored < 0) | (scored > 1)).any():
        expected = "numbers from 1 to 2" if name == "preference" else "probabilities from 0 to 1"
        got = f"{numbers[~np.isnan(probs)].min():g} to {numbers.max():g}"
        raise InputError.at(f"{where}: {name}", expected, got, "name log-odds log_odds_first")
    inside = scored[(scored > 0) & (scored < 1) & (scored != 0.5)]
    # Of judgments that are all 0, 1 or a tie the odds are set to those of one in a thousand.
    smallest = min(inside.min(), (1 - inside).min()) if len(inside) else 1e-3
    log_odds: np.ndarray = logit(np.clip(probs, smallest, 1 - smallest))
    return log_odds if name == "p_first" else np.where(is_first, log_odds, -log_odds)


def _candidate_first(row: Row, where: str) -> bool:
    """True if the candidate, alpaca_eval's second output, was shown first."""
    for name in ("candidate_first", "is_switched_outputs"):
        if row.get(name) not in (None, ""):
            return _flag(row[name], where, name)
    if "instruction" in row and "preference" in row:
        # alpaca_eval's rule, by which the order depends on the instruction alone.
        seed = f"is_switched_outputs{row['instruction']}0"
        return random.Random(seed).choices([False, True], k=1)[0]
    expected = "the column candidate_first"
    raise InputError.at(where, expected, shown([*row]), "say if the candidate was shown first")


def _flag(cell: Json, where: str, name: str) -> bool:
    text = str(cell).strip().lower().removesuffix(".0")
    if text not in TRUE + FALSE:
        remedy = "write true, false, 1 or 0"
        raise InputError.at(f"{where}: {name}", "true or false", repr(cell), remedy)
    return text in TRUE


def _number(cell: Json, where: str, name: str) -> float:
    """A cell as a number; NaN where the judge's answer could not be read."""
    number = number_of(cell)
    if number is None or np.isinf(number):
        remedy = "leave it empty where it is not known"
        raise InputError.at(f"{where}: {name}", "a number", repr(cell), remedy)
    return number


def _read(path: Path) -> list[dict[str, Json]]:
    """The rows of a CSV, JSON Lines or JSON file."""
    if path.suffix in (".csv", ".tsv"):
        names, rows = read_cells(path)
        return [dict[str, Json](zip(names, cells, strict=True)) for cells in rows]
    return [row for _, row in json_rows(path)]
