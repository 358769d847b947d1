"""Measures a judge's position bias between two answers, and win rates without this bias.

A judge decides which of two answers is better, the candidate's or a reference's. A preference for a
position is a bias of the labels "first" and "second". If a coin decides which answer is first, both
positions hold the better answer equally often, as BC assumes.
"""

import random
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import chain, permutations
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.special import expit, ndtri, stdtrit

from batch_calibration.errors import InputError, call, shown
from batch_calibration.files import Json
from batch_calibration.files.rows import json_rows
from batch_calibration.importers.cells import number_of, numbers_of, short_names
from batch_calibration.importers.text_files import read_rows
from batch_calibration.metrics import Estimate
from batch_calibration.metrics.confusion import LEAST_LABELED, solve_shares


class Judgments(NamedTuple):
    """Decisions of a judge, or of several judges, on n pairs of answers.

    Attributes:
        margins: [n], log-odds that the answer shown first is better, in nats; NaN if unknown.
        is_first: [n], whether the candidate's answer was shown first.
        candidate: [n], index in `names` of the candidate, or of a candidate and a judge.
        question: [n], index of the question.
        human: [n], 1 if people prefer the candidate, 0 if they prefer the reference, -1 if unknown.
        names: names of the candidates, with the judge if there are several.
        is_tie: [n], whether the judge calls the answers equally good; margins of 0 are ties, too.
        judge: [n], index of the judge in `judges`; each judge has its own preference.
        judges: names of the judges.
        notes: sentences about the columns that were read and those that were not.
    """

    margins: np.ndarray
    is_first: np.ndarray
    candidate: np.ndarray
    question: np.ndarray
    human: np.ndarray
    names: tuple[str, ...]
    is_tie: np.ndarray = np.zeros((), bool)
    judge: np.ndarray = np.zeros((), int)
    judges: tuple[str, ...] = ("",)
    notes: tuple[str, ...] = ()


class SwapPairs(NamedTuple):
    """Pairs that were judged in both orders.

    Attributes:
        log_odds: [p], (log-odds of the candidate shown first + shown second) / 2, in nats.
        is_flipped: [p], whether each order has another preferred answer.
        rows: [p, 2], the rows of each pair with the candidate first and second.
        is_tied: [p], whether one order has a tie and the other has a preferred answer.
    """

    log_odds: np.ndarray
    is_flipped: np.ndarray
    rows: np.ndarray
    is_tied: np.ndarray


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
        by_candidate: makes a group of each candidate's pairs, instead of a group of all pairs of
            the judge.
    """
    of_judge = np.zeros_like(judgments.candidate) + judgments.judge
    group = judgments.candidate if by_candidate else of_judge
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
    """Estimates one judge's preference for the first position in nats, and its standard error.

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
    return float(preference.nats[is_scored.argmax()]), error


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
        of_judge = f"all candidates {judgments.judges[0 if by_candidate else group]}".strip()
        name = judgments.names[group] if by_candidate else of_judge
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
    return Estimate(mean, max(mean - reach, 0.0), min(mean + reach, 1.0))


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
    verdicts = np.where(judgments.is_tie, 0.0, np.sign(judgments.margins))
    both = verdicts[rows]  # [p, 2]
    is_tied = (both == 0).sum(axis=1) == 1
    # The verdicts are on positions: equal verdicts prefer different answers.
    is_flipped = both.prod(axis=1) > 0
    return SwapPairs((shown_first + shown_second) / 2, is_flipped, rows, is_tied)


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

    theta = (p + q0 - 1) / (q0 + q1 - 1) (`metrics.confusion.solve_shares`). p is the judge's win
    rate on pairs without human labels. q1 and q0 are the shares of pairs on which the judge agrees
    with people, among the pairs with the candidate or the reference preferred by people. The
    interval comes from the delta method with pseudo-counts (arXiv:2511.21140).

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
    if min(map(len, of_people)) < LEAST_LABELED or not len(of_judge):
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
    theta = float(solve_shares(np.array([1 - p, p]), np.array([[q0, 1 - q0], [1 - q1, q1]]))[1])
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
"""Names of score columns: log-odds or probability that the first answer is better, probability that
the candidate's is better, or alpaca_eval's 1 to 2, 2 for the candidate."""
OTHERS = {"p_first": ("p_second", "p_tie"), "p_candidate": ("p_reference", "p_tie")}
"""Probability that an answer is better -> probabilities of the other answer and of a tie."""
TRUE = ("true", "1", "yes", "candidate", "first")
FALSE = ("false", "0", "no", "reference", "second")
TIES = ("tie", "ties", "tied")
PLACES = ("first", "second")
OPTIONS = (("a", "b"), ("1", "2"), PLACES, ("candidate", "reference"))
"""Names of the two answers in columns of log-probabilities."""
ORDERS = {"ab": "true", "12": "true", "ba": "false", "21": "false"}
"""Cells of a column of orders -> whether the candidate is first."""
JUDGES = ("judge", "judge_model", "annotator", "model")
"""Names of columns that divide the judgments by judge, even if no pair has two judges."""
WEIGHTS = ("weight", "weights", "sample_weight")
LEAST_SCORES = 10
"""The minimum number of log-odds, in each order, that are compared with other kinds of numbers."""
LEAST_PER_JUDGE = 4
"""The minimum mean number of rows of a candidate and a judge."""
ONE_SIGN = 0.99
"""The share of one sign, with the candidate first and second, that no log-odds are read with."""
ROUNDING = 0.02  # error of a sum of rounded probabilities
MAX_APART = 0.1  # difference between two columns' probabilities that rounding does not explain
KINDS = {"log_odds_first": "log-odds of both signs", "preference": "numbers from 1 to 2"}
REPLACE = (
    "replace it by p_first, the probability of the first answer: 1 / (1 + exp(-x)) of log-odds x, "
    "x of probabilities, x / 100 of percentages, exp(x) of log-probabilities; of grades, 1, 0 or "
    "0.5 if the first answer is better, worse or equal"
)


class _Table(dict[str, list[Json]]):
    """The columns of all files; knows where each row is, which columns were read, and notes."""

    def __init__(self, paths: Sequence[Path]):
        self.wheres, rows = list[str](), list[Mapping[str, Json]]()
        for path in paths:
            for number, row in enumerate(_read(path), 1):
                self.wheres.append(f"{path}, row {number}")
                rows.append(row)
        if not rows:
            remedy = "give a file with a row for each pair"
            raise InputError.at(paths[0], "judged pairs", "none", remedy)
        for name in dict.fromkeys(chain.from_iterable(rows)):
            self[name] = [row.get(name) for row in rows]
        self.read, self.notes = set[str](), list[str]()

    def take(self, *names: str) -> list[Json]:
        """Returns the first filled cell of each row in some columns, which are then read."""
        self.read.update(names)
        cells: list[Json] = [None] * len(self.wheres)
        for name in filter(self.__contains__, names):
            for row, cell in enumerate(self[name]):
                if cells[row] in (None, ""):
                    cells[row] = cell
        return [None if cell == "" else cell for cell in cells]

    def texts(self, default: Sequence[str], *names: str) -> list[str]:
        """Returns the first filled cell of each row in some columns, or the row's default."""
        pairs = zip(self.take(*names), default, strict=True)
        return [text if cell is None else str(cell) for cell, text in pairs]

    def unread(self) -> dict[str, list[Json]]:
        """Returns the columns that nothing has read so far."""
        return {name: cells for name, cells in self.items() if name not in self.read}

    def numbers(self, name: str, tie: float = 0.5) -> np.ndarray:
        """Returns the numbers of a column; NaN for an unreadable answer of the judge."""
        numbers = []
        for where, cell in zip(self.wheres, self.take(name), strict=True):
            number = tie if str(cell).strip().lower() in TIES else number_of(cell)
            if number is None or np.isinf(number):
                remedy = "leave the cell empty if it is not known"
                raise InputError.at(f"{where}: {name}", "a number", repr(cell), remedy)
            numbers.append(number)
        return np.array(numbers)


def read_judgments(paths: Sequence[Path]) -> Judgments:
    """Reads the judgments of all files together.

    A file has one of `SCORES`, or two columns of log-probabilities; the order in `candidate_first`
    or in a column of AB and BA, which a rule replaces in alpaca_eval's files; and optionally
    `candidate` (or `generator_2`), `question` (or `id`, `instruction`), `human` (whether people
    prefer the candidate, or the position that they prefer: "first" or "second"), and judges. A
    probability of 0 comes from a token that was not listed; it is raised to the smallest
    probability in the files, and 1 is lowered accordingly.

    Raises:
        InputError: a file that is not a table or lacks a column; a cell that is not a number;
            scores that are no log-odds or probabilities, or contradict each other; weights.
    """
    table, human = _Table(paths), list[int]()
    is_first = _candidate_first(table)
    margins, is_tie = _scores(table, is_first)
    for where, cell, shown_first in zip(table.wheres, table.take("human"), is_first, strict=True):
        text = str(cell).strip().lower()
        if cell is None or text in TIES:
            human.append(-1)
            continue
        preferred = _flag(cell, where, "human")
        # The order decides whether a position holds the candidate's or the reference's answer.
        human.append(int(preferred == shown_first if text in PLACES else preferred))
    for name in table.keys() & set(WEIGHTS):
        weights, _ = numbers_of(table.take(name))
        if len(set(weights[~np.isnan(weights)])) > 1:
            got, remedy = shown(table[name]), "remove the column: each pair then counts once"
            raise InputError.at(f"{table.wheres[0]}: {name}", "equal weights", got, remedy)
    rows = range(len(margins))
    names = table.texts(["candidate" for _ in rows], "candidate", "generator_2")
    questions = table.texts([f"row {row}" for row in rows], "question", "id", "instruction")
    judges = ["" for _ in rows]
    for column in _judge_columns(table, names, questions, is_first):
        table.notes.append(f"Each value of {column!r} is read as a judge with its own preference.")
        cells = zip(judges, table.take(column), strict=True)
        judges = [f"{judge} {column} {cell}".strip() for judge, cell in cells]
    pairs = zip(names, judges, strict=True)
    groups = [f"{name}, {judge}" if judge else name for name, judge in pairs]
    if unread := table.unread():
        table.notes.append(f"Columns that are not read: {shown([*unread], 200)}.")
    indexed = [np.unique(texts, return_inverse=True) for texts in (groups, questions, judges)]
    (known, candidate), (_, question), (labels, judge) = indexed
    read = is_tie, judge, tuple(map(str, labels)), tuple(table.notes)
    people = np.array(human)
    return Judgments(margins, is_first, candidate, question, people, tuple(map(str, known)), *read)


def _candidate_first(table: _Table) -> np.ndarray:
    """Checks for each row whether the candidate, alpaca_eval's second output, was shown first."""
    names = ["candidate_first", "is_switched_outputs"]
    for name, cells in table.items():
        texts = set(map(str, cells))
        if len(texts) == 2 and {*map(_order, texts)} == {"true", "false"}:
            names.append(name)
    is_first, has_rule = [], table.keys() >= {"instruction", "preference"}
    if not has_rule and table.keys().isdisjoint(names):
        expected = "the order of the answers, true or false in candidate_first"
        remedy = f"add this column; for ratings use {call('diagnose', 'scores', {'gold': 'human'})}"
        raise InputError.at(table.wheres[0], expected, shown([*table]), remedy)
    for row, (where, cell) in enumerate(zip(table.wheres, table.take(*names), strict=True)):
        if cell is None and has_rule:
            # In alpaca_eval's rule, the order depends only on the instruction.
            seed = f"is_switched_outputs{table['instruction'][row]}0"
            cell = random.Random(seed).choices([False, True], k=1)[0]
        is_first.append(_flag(_order(cell) or cell, where, "candidate_first"))
    return np.array(is_first)


def _scores(table: _Table, is_first: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the log-odds of the first answer [n], and whether the judge calls a tie [n]."""
    names = [name for name in SCORES if name in table] or _from_verdicts(table)
    if not names:
        return _from_log_probs(table, is_first)
    margins, is_tie = _margins(table, names[0], is_first)
    for name in names[1:]:
        numbers, bad_rows = numbers_of(table[name])
        if bad_rows or _are_outside(name, numbers):
            continue  # the column is not read
        found, tie = _margins(table, name, is_first)
        is_apart = np.abs(expit(found) - expit(margins)) > MAX_APART  # False if one is unknown
        if are_verdicts(found) or are_verdicts(margins):
            is_apart &= found * margins < 0  # verdicts have no strengths to compare
        for row in np.flatnonzero(is_apart)[:1]:
            where, got = f"{table.wheres[row]}: {name}", f"{found[row]:.2f}"
            expected = f"the log-odds of {names[0]}, {margins[row]:.2f} nats"
            raise InputError.at(where, expected, got, "remove the column that is wrong")
        margins, is_tie = np.where(np.isnan(margins), found, margins), is_tie | tie
    if np.isnan(margins).all():
        where, expected = table.wheres[0].rpartition(",")[0], f"scores in {' or '.join(names)}"
        raise InputError.at(where, expected, "none in any row", "give judged pairs")
    return margins, is_tie


def are_verdicts(margins: np.ndarray) -> bool:
    """Checks whether all margins except ties have the same size, as verdicts without strengths do.

    >>> are_verdicts(np.array([2.0, -2.0, 0.0, 2.0])), are_verdicts(np.array([2.0, 1.0, 3.0]))
    (True, False)
    """
    sizes = np.abs(margins[~np.isnan(margins) & (margins != 0)])
    return len(sizes) > 2 and bool(np.ptp(sizes) < 1e-6)


def _from_verdicts(table: _Table) -> list[str]:
    """Adds the probabilities 1, 0 and 0.5 of a column of verdicts in words, and returns its name.

    The cells of such a column are the two words of a pair in `OPTIONS`, and ties.
    """
    found = dict[str, tuple[str, str]]()
    for name, cells in table.unread().items():
        texts = Counter(str(cell).strip().lower() for cell in cells if cell not in (None, ""))
        for pair in OPTIONS:
            known = sum(texts[word] for word in {*pair, *TIES})
            if not (pair[0].isalpha() and set(pair) <= texts.keys() and name != "human"):
                continue
            if others := sorted(texts.keys() - {*pair, *TIES}):
                if 2 * known > texts.total():
                    where, words = f"{table.wheres[0]}: {name}", [*pair, *sorted(TIES)]
                    remedy = "write one of these, or leave the cell empty"
                    raise InputError.at(where, f"a verdict: {shown(words)}", shown(others), remedy)
            else:
                found[name] = pair
    if len(found) > 1:
        remedy = "leave the others out"
        raise InputError.at(table.wheres[0], "one column of verdicts", shown([*found]), remedy)
    for name, (winner, loser) in found.items():
        share = {winner: 1.0, loser: 0.0} | dict.fromkeys(TIES, 0.5)
        is_place = winner != "candidate"
        column = "p_first" if is_place else "p_candidate"
        table[column] = [share.get(str(cell).strip().lower()) for cell in table.take(name)]
        answer = "the answer shown first" if is_place else "the candidate's answer"
        table.notes.append(f"{name!r} is read as verdicts: {winner!r} prefers {answer}.")
        return [column]
    return []


def _from_log_probs(table: _Table, is_first: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the log-odds of the first answer [n] from two log-probabilities, and ties [n]."""
    negative = []
    for name, cells in table.unread().items():
        numbers, bad_rows = numbers_of(cells)
        if not bad_rows and (numbers <= 0).any() and not (numbers > 0).any():
            negative.append(name)
    for pair in permutations(negative, 2):
        options = tuple(name.lower() for name in short_names(pair))
        if options in OPTIONS:
            margins = np.subtract(*map(table.numbers, pair))
            is_place = options != ("candidate", "reference")
            answer = "the answer shown first" if is_place else "the candidate's answer"
            table.notes.append(f"{pair[0]!r} is read as the log-probability of {answer}.")
            return np.where(is_first | is_place, margins, -margins), margins == 0
    expected = f"one of {', '.join(SCORES)}, or log-probabilities in logprob_A and logprob_B"
    raise InputError.at(table.wheres[0], expected, shown([*table]), "rename a column")


def _margins(table: _Table, name: str, is_first: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the log-odds of the first answer [n] from a column of scores, and ties [n]."""
    low, where = int(name == "preference"), f"{table.wheres[0]}: {name}"
    numbers = table.numbers(name, 0.0 if name == "log_odds_first" else low + 0.5)
    _refuse_other_numbers(name, numbers, is_first, where)
    if name == "log_odds_first":
        return numbers, numbers == 0
    probs = numbers - low
    other, tie = map(table.numbers, OTHERS.get(name, ("", "")))
    tie = np.nan_to_num(tie)
    against = np.where(np.isnan(other), 1 - probs - tie, other)
    shares = np.array([probs, against, tie])
    total = probs + tie + np.nan_to_num(other)
    if (shares < -ROUNDING).any() or (total > 1 + ROUNDING).any():
        columns = " and ".join(OTHERS[name])
        expected = f"{name}, {columns} of at least 0 with a sum of at most 1"
        got = f"a sum of {np.nanmin(total):.2f} to {np.nanmax(total):.2f}"
        raise InputError.at(where, expected, got, f"divide them by their sum, or remove {columns}")
    inside = shares[:2][(shares[:2] > 0) & (shares[:2] < 1) & (shares[:2] != 0.5)]
    # If all judgments are 0, 1 or ties, the smallest probability is set to one in a million.
    smallest = min(inside.min(), (1 - inside).min()) if len(inside) else 1e-6
    log_odds = np.subtract(*np.log(np.clip(shares[:2], smallest, 1 - smallest)))
    is_tie = np.isclose(log_odds, 0) | (tie > np.maximum(probs, against))
    return np.where(is_first | (name == "p_first"), log_odds, -log_odds), is_tie


def _are_outside(name: str, numbers: np.ndarray) -> bool:
    """Checks whether numbers cannot be probabilities, or alpaca_eval's preferences."""
    low = int(name == "preference")
    return bool(((numbers < low) | (numbers > low + 1)).any())


def _refuse_other_numbers(name: str, numbers: np.ndarray, is_first: np.ndarray, where: str) -> None:
    """Raises an error if a column's numbers are not of the kind that its name says."""
    expected, is_other = KINDS.get(name, "probabilities from 0 to 1"), _are_outside(name, numbers)
    known, of_order = numbers[~np.isnan(numbers)], is_first[~np.isnan(numbers)]
    if name == "log_odds_first":
        are_grades = (known >= 0).all() and ((known % 1 == 0).all() or (known <= 1).all())
        sign_share = max((known >= 0).sum(), (known <= 0).sum()) / max(len(known), 1)
        least = min(of_order.sum(), (~of_order).sum())
        is_one_sign = least >= LEAST_SCORES and sign_share >= ONE_SIGN
        is_other = bool(is_one_sign or (are_grades and len(known) >= LEAST_SCORES))
    if is_other:
        raise InputError.at(where, expected, f"{known.min():g} to {known.max():g}", REPLACE)


def _judge_columns(
    table: _Table, candidates: Sequence[str], questions: Sequence[str], is_first: np.ndarray
) -> list[str]:
    """Returns the columns that divide the judgments by judge, or by a setting of the judge.

    They are named as in `JUDGES`, or pairs are repeated, once for each of a column's values.
    """
    found, keys, rows = list[str](), [candidates, questions, is_first.tolist()], len(is_first)

    def count(*columns: Sequence[object]) -> int:
        return len(set(zip(*columns, strict=True)))

    for name, cells in sorted(table.unread().items(), key=lambda item: item[0] not in JUDGES):
        texts = [*map(str, cells)]
        values = count(texts)
        if values < 2 or count(candidates, texts) * LEAST_PER_JUDGE > rows:
            continue
        is_candidate = values == count(candidates) == count(candidates, texts)
        # Few pairs lack a judge, and few are there twice.
        is_crossed = values * count(*keys[:2]) <= 1.5 * count(*keys[:2], texts)
        is_apart = count(*keys) < 0.9 * rows and count(*keys, texts) >= 0.99 * rows
        if (is_crossed and is_apart) or (name in JUDGES and not is_candidate):
            found.append(name)
            keys.append(texts)
    return found


def _order(cell: Json) -> str | None:
    """Returns whether the candidate is first by an order such as AB, "A/B" or "1, 2"."""
    return ORDERS.get(re.sub(r"[\s,;/|>_]|\b-\b", "", str(cell).lower()))


def _flag(cell: Json, where: str, name: str) -> bool:
    text = str(cell).strip().lower().removesuffix(".0")
    if text not in TRUE + FALSE:
        remedy = "write true, false, 1 or 0 in this column"
        raise InputError.at(f"{where}: {name}", "true or false", repr(cell), remedy)
    return text in TRUE


def _read(path: Path) -> list[dict[str, Json]]:
    """Reads the rows of a CSV, JSON Lines or JSON file."""
    if path.suffix in (".csv", ".tsv"):
        return read_rows(path)[1]
    return [row for _, row in json_rows(path)]
