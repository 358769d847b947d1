"""Reports shares of answers without scores, corrected by labeled rows, and flips of two orders."""

import json
from argparse import Namespace
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from batch_calibration.cli import inputs, options, output, summaries
from batch_calibration.cli.prior import read_columns
from batch_calibration.errors import InputError, refuse_unknown, shown
from batch_calibration.importers import Reading
from batch_calibration.importers.cells import Column, texts_of
from batch_calibration.importers.compressed import plain_copy
from batch_calibration.importers.gold import read_gold
from batch_calibration.metrics import OF_GAIN, Estimate, accuracy_of, over_rows
from batch_calibration.metrics.confusion import LEAST_LABELED, corrected_shares
from batch_calibration.reporting.cells import Cells, show_cells
from batch_calibration.responses.top_k import match_tokens

USED = ("answers", "gold", "gold-names", "labels", "tokens", "ids", "json", "quiet", "seed")
NO_ROWS = (
    "Without scores no row can be corrected: ask for log-probabilities or 10 samples a row "
    "(--counts) to correct rows."
)


class Shares(NamedTuple):
    """Shares of answers in one order, and of right labels.

    Attributes:
        answers: the column or file of the answers.
        rows: the number of rows with an answer that names a label.
        answered: label -> the share of rows with this answer.
        corrected: label -> the estimated share of rows with this right label; None without enough
            labeled rows.
        labeled: label -> the number of rows with this right label.
        accuracy: the share of labeled rows with a right answer; None without labeled rows.
    """

    answers: str
    rows: int
    answered: Mapping[str, Estimate]
    corrected: Mapping[str, Estimate] | None
    labeled: Mapping[str, int]
    accuracy: Estimate | None


def report_answers(args: Namespace) -> None:
    """Prints the shares of one column of answers, or of two orders of the same rows."""
    for flag in (*options.READING, *options.LEARNING, *options.WRITING):
        is_own = flag.name not in USED and args.command in (flag.of or args.command).split()
        if is_own and getattr(args, flag.name.replace("-", "_")) != flag.default:
            remedy = f"leave --{flag.name} out"
            raise InputError.at("--answers", "answers without scores", f"--{flag.name}", remedy)
    reading, files = inputs.reading_of(args), inputs.paths(args)
    names, gold, orders = _read(files, options.split_names(args.answers), reading)
    found = [_measure(title, answers, gold, names, args.seed) for title, answers in orders.items()]
    flipped, differences = None, dict[str, Estimate]()
    if len(found) == 2:
        pair = np.stack([*orders.values()])
        pair = pair[:, (pair >= 0).all(axis=0)]
        flipped = accuracy_of(pair[0] != pair[1])
        for j, name in enumerate(names):
            first, second = (pair == j).astype(float)
            differences[name] = over_rows([first - second], OF_GAIN)
    if args.json:
        facts = {"orders": list(map(output.plain, found)), "flipped": output.plain(flipped)}
        print(json.dumps(facts | {"differences": output.plain(differences)}, ensure_ascii=False))
        return
    for shares in found:
        _show(shares)
    if flipped:
        cells: Cells = [["label", "first less second, points"]]
        cells += [[name, estimate.points] for name, estimate in differences.items()]
        note = f"{flipped} % of the rows change their answer with the order."
        show_cells("Difference of the shares answered [95 % interval]", cells, note)
    summaries.print_filled(NO_ROWS)


def _read(
    files: Sequence[Path], names: Sequence[str], reading: Reading
) -> tuple[tuple[str, ...], np.ndarray, dict[str, np.ndarray]]:
    """Returns the labels, right labels [n], and answers [n] of each order; -1 if unknown."""
    if (len(files), len(names)) not in ((1, 1), (1, 2), (2, 1)):
        got = f"{len(files)} files and {len(names)} columns"
        remedy = "give one file with two columns, or two files with one column, for two orders"
        raise InputError.at("--answers", "one column of answers", got, remedy)
    orders, first, keys = dict[str, list[str]](), dict[str, Column](), list[str]()
    for path in files:
        with plain_copy(path) as file:
            columns = read_columns(file)
        for name in filter(None, (*names, reading.ids, reading.gold if path == files[0] else "")):
            refuse_unknown("column", name, columns, where=path)
        ids = reading.ids or "id" * ("id" in columns)
        own = texts_of(columns[ids]) if ids else list(map(str, range(len(columns[names[0]]))))
        keys, first = keys or own, first or dict(columns)
        if sorted(own) != sorted(keys) or len(set(own)) < len(own):
            remedy = "name a column of row ids that both files have with --ids"
            raise InputError.at(path, "each row once, with the ids of both files", "others", remedy)
        row_of = {key: row for row, key in enumerate(own)}
        for name in names:
            texts = texts_of(columns[name])
            title = name if len(files) == 1 else str(path)
            orders[title] = [texts[row_of[key]] for key in keys]
    given = texts_of(first[reading.gold]) if reading.gold else orders[next(iter(orders))]
    labels = reading.labels or tuple(sorted(set(given) - {"", "-1"}))
    where = str(files[0])
    gold = np.full(len(keys), -1)
    if reading.gold:
        at = f"{where}, column {reading.gold!r}"
        gold, _, notes = read_gold(at, first[reading.gold], labels, reading.gold_names)
        summaries.say_notes(notes)
    indexed = {title: _index(title, orders[title], labels, reading, where) for title in orders}
    return labels, gold, indexed


def _index(
    title: str, texts: Sequence[str], labels: Sequence[str], reading: Reading, where: str
) -> np.ndarray:
    """Returns the label's index for each answer, -1 for answers that name no label."""
    counts = Counter(filter(None, texts))
    label_of = match_tokens(counts, labels, reading.tokens, where)[0]
    if len(labels) < 2 or not label_of:
        remedy = "name the labels with --labels (and --tokens, if answers are other texts)"
        got = f"{shown(list(counts)[:3])} with the labels {', '.join(labels) or 'none'}"
        raise InputError.at(f"{where}: {title}", "answers that name labels", got, remedy)
    indices = np.array([label_of.get(text, -1) for text in texts])
    if lost := int((indices < 0).sum()):
        text = next((text for text in counts if text not in label_of), "")
        note = f"{lost:,} of {len(texts):,} answers in {title!r} name no label, such as {text!r}"
        summaries.say_notes([f"{note}, and are left out."])
    return indices


def _measure(
    title: str, answers: np.ndarray, gold: np.ndarray, names: Sequence[str], seed: int
) -> Shares:
    """Estimates the shares of answers [n] and of right labels [n], as far as these are known."""
    k, known = len(names), answers >= 0
    answers, gold = answers[known], gold[known]
    is_labeled = gold >= 0
    pairs = k * gold[is_labeled] + answers[is_labeled]
    labeled = np.bincount(pairs, minlength=k * k).reshape(k, k)
    others = np.bincount(answers[~is_labeled], minlength=k)
    counts, corrected = labeled.sum(axis=1), None
    if counts.min() >= LEAST_LABELED:
        estimates = corrected_shares(labeled, others, seed=seed)
        corrected = dict(zip(names, estimates, strict=True))
    answered = {name: accuracy_of(answers == j) for j, name in enumerate(names)}
    right = answers[is_labeled] == gold[is_labeled]
    accuracy = accuracy_of(right) if len(right) else None
    by_label = dict(zip(names, counts.tolist(), strict=True))
    return Shares(title, len(answers), answered, corrected, by_label, accuracy)


def _show(shares: Shares) -> None:
    """Prints a table of shares, and the accuracy or the lack of labeled rows."""
    cells: Cells = [["label", "answered", "corrected", "labeled rows"]]
    for name, answered in shares.answered.items():
        corrected = str(shares.corrected[name]) if shares.corrected else "–"
        cells.append([name, str(answered), corrected, str(shares.labeled[name])])
    note = (
        f"A correction of the shares needs {LEAST_LABELED} rows with each right label (--gold): "
        "without them, the answers' bias and the true shares cannot be separated."
    )
    if shares.corrected:
        note = "Corrected by the answers to the labeled rows; the interval is over all rows."
    if shares.accuracy:
        note = f"{shares.accuracy} % of the labeled rows have the right answer. {note}"
    heading = f"Shares of {shares.rows:,} answers in {shares.answers!r} in % [95 % interval]"
    show_cells(heading, cells, note)
