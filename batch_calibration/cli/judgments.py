"""Files of a judge of pairs: tables of margins or probabilities, and alpaca_eval's annotations."""

import csv
import io
import json
import random
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from scipy.special import logit

from batch_calibration.errors import InputError, shown
from batch_calibration.files import Json
from batch_calibration.integrations.judges import Judgments

SCORES = ("log_odds_first", "p_first", "p_candidate", "preference")
"""Columns of which a file has one: log-odds or probability that the first answer is better, the
probability that the candidate's is, or alpaca_eval's 1 to 2, 2 for the candidate."""
TRUE, FALSE = (
    ("true", "1", "yes", "candidate", "first"),
    ("false", "0", "no", "reference", "second"),
)
Row = Mapping[str, Json]


def read_judgments(paths: Sequence[Path]) -> Judgments:
    """The judgments of all files together.

    Columns or keys: one of `SCORES`; `candidate_first`, which alpaca_eval's files leave to a rule;
    and, where there are any, `candidate` (or `generator_2`), `question` (or `id`, `instruction`)
    and `human` (whether people prefer the candidate). A probability of 0 or 1 is of a token that
    the list of the likeliest did not show: it gets the least one that the files show.

    Raises:
        InputError: a file that is no table, or that lacks a column; a number that is none.
    """
    rows: list[tuple[str, Row]] = []
    for path in paths:
        rows += [(f"{path}, row {number}", row) for number, row in enumerate(_read(path), 1)]
    if not rows:
        raise InputError(where=str(paths[0]), expected="judged pairs", got="none",
                         remedy="give a file with a row for each pair")  # fmt: skip
    name = next((name for name in SCORES if name in rows[0][1]), None)
    if name is None:
        raise InputError(
            where=rows[0][0], expected=f"one of the columns {', '.join(SCORES)}",
            got=shown([*rows[0][1]]), remedy="rename the column that holds the judge's score",
        )  # fmt: skip
    numbers = np.array([_number(row.get(name), where, name) for where, row in rows])
    is_first = np.array([_candidate_first(row, where) for where, row in rows])
    candidates, questions, human = [], [], []
    for number, (where, row) in enumerate(rows):
        candidates.append(str(row.get("candidate", row.get("generator_2", "candidate"))))
        questions.append(str(row.get("question", row.get("id", row.get("instruction", number)))))
        is_unknown = row.get("human") in (None, "")
        human.append(-1 if is_unknown else int(_flag(row["human"], where, "human")))
    names, candidate = np.unique(candidates, return_inverse=True)
    _, question = np.unique(questions, return_inverse=True)
    margins = _margins(numbers, is_first, name, rows[0][0])
    return Judgments(
        margins, is_first, candidate, question, np.array(human), tuple(map(str, names))
    )


def _margins(numbers: np.ndarray, is_first: np.ndarray, name: str, where: str) -> np.ndarray:
    """Log-odds of the first answer."""
    if name == "log_odds_first":
        return numbers
    probs = numbers - 1 if name == "preference" else numbers
    scored = probs[~np.isnan(probs)]
    if ((scored < 0) | (scored > 1)).any():
        expected = "numbers from 1 to 2" if name == "preference" else "probabilities from 0 to 1"
        raise InputError(where=f"{where}: {name}", expected=expected,
                         got=f"{numbers[~np.isnan(probs)].min():g} to {numbers.max():g}",
                         remedy="name log-odds log_odds_first")  # fmt: skip
    inside = scored[(scored > 0) & (scored < 1)]
    # Of judgments that are all 0 or 1 the odds are set to those of one in a thousand.
    smallest = min(inside.min(), (1 - inside).min()) if len(inside) else 1e-3
    log_odds: np.ndarray = logit(np.clip(probs, smallest, 1 - smallest))
    return log_odds if name == "p_first" else np.where(is_first, log_odds, -log_odds)


def _candidate_first(row: Row, where: str) -> bool:
    """Whether the candidate, alpaca_eval's second output, was shown first."""
    for name in ("candidate_first", "is_switched_outputs"):
        if row.get(name) not in (None, ""):
            return _flag(row[name], where, name)
    if "instruction" in row and "preference" in row:
        # alpaca_eval's rule, by which the order depends on the instruction alone.
        seed = f"is_switched_outputs{row['instruction']}0"
        return random.Random(seed).choices([False, True], k=1)[0]
    raise InputError(where=where, expected="the column candidate_first", got=shown([*row]),
                     remedy="say whether the candidate's answer was shown first")  # fmt: skip


def _flag(cell: Json, where: str, name: str) -> bool:
    text = str(cell).strip().lower()
    text = text.removesuffix(".0")
    if text in TRUE or text in FALSE:
        return text in TRUE
    raise InputError(where=f"{where}: {name}", expected="true or false", got=repr(cell),
                     remedy="write true, false, 1 or 0")  # fmt: skip


def _number(cell: Json, where: str, name: str) -> float:
    if cell in (None, ""):
        return float("nan")  # the judge's answer could not be read
    try:
        return float(str(cell))
    except ValueError as error:
        raise InputError(where=f"{where}: {name}", expected="a number", got=repr(cell),
                         remedy="leave it empty where it is not known") from error  # fmt: skip


def _read(path: Path) -> list[Row]:
    """The rows of a CSV, JSON Lines or JSON file."""
    if not path.is_file():
        raise InputError(where=str(path), expected="a file", got="none", remedy="name one")
    text = path.read_text(encoding="utf-8-sig")
    if path.suffix in (".csv", ".tsv"):
        # A file, not its lines: an answer that is quoted may hold line ends.
        delimiter = "\t" if path.suffix == ".tsv" else ","
        return list(csv.DictReader(io.StringIO(text, newline=""), delimiter=delimiter))
    try:
        if text.lstrip().startswith("["):
            rows: list[Row] = json.loads(text)
        else:
            # Only "\n" ends a line: a text may hold U+2028, which splitlines takes for an end.
            rows = [*map(json.loads, filter(str.strip, text.split("\n")))]
    except ValueError as error:
        raise InputError(where=str(path), expected="JSON, JSON Lines or CSV", got=str(error),
                         remedy="give the judge's file as it was written") from error  # fmt: skip
    if not all(isinstance(row, dict) for row in rows):
        raise InputError(where=str(path), expected="an object for each pair", got="other values",
                         remedy="give one object a line")  # fmt: skip
    return rows
