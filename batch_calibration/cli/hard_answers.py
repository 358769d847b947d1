"""Reports shares of answers without scores, corrected by labeled rows, and changes with order."""

import json
from argparse import Namespace
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from batch_calibration.cli import inputs, options, output, summaries
from batch_calibration.cli.prior import read_columns
from batch_calibration.errors import InputError, refuse_unknown
from batch_calibration.importers import Reading
from batch_calibration.importers.cells import MAX_LISTED, Column, texts_of
from batch_calibration.importers.compressed import plain_copy
from batch_calibration.importers.gold import read_gold
from batch_calibration.importers.nested import match_answers
from batch_calibration.metrics import OF_GAIN, Estimate, accuracy_of, over_rows
from batch_calibration.metrics.confusion import LEAST_LABELED, corrected_shares
from batch_calibration.reporting.cells import Cells, show_cells

USED = ("answers", "gold", "gold-names", "labels", "tokens", "ids", "json", "quiet", "seed")
NO_ROWS = (
    "Without scores no row can be corrected: ask for log-probabilities or 10 samples a row "
    "(--counts) to correct rows."
)
CORRECTED = (
    "Corrected by the share of each answer among the labeled rows of each right label, however "
    "these rows were chosen. If they are a random sample of all rows, the last column is closer."
)
TOO_FEW = (
    f"A correction of the shares needs {LEAST_LABELED} rows with each right label (--gold): "
    "without them, the answers' bias and the true shares cannot be separated."
)
Shares = dict[str, Mapping[str, Estimate]]
"""Column of the table -> label -> its share."""


def report_answers(args: Namespace) -> None:
    """Prints the shares of one column of answers, or of two orders of the same rows."""
    for flag in (*options.READING, *options.LEARNING, *options.WRITING):
        is_other = flag.name not in USED and args.command in (flag.of or args.command).split()
        if is_other and getattr(args, flag.name.replace("-", "_")) != flag.default:
            got, remedy = f"--{flag.name}", f"leave --{flag.name} out"
            raise InputError.at("--answers", "answers without scores", got, remedy)
    labels, gold, orders = _read(args, inputs.reading_of(args))
    found = {title: _measure(answers, gold, labels, args.seed) for title, answers in orders.items()}
    facts: dict[str, object] = {**found}
    if len(found) == 2:
        pair = np.stack([*orders.values()])
        pair = pair[:, (pair >= 0).all(axis=0)]
        changes = dict[str, Estimate]()
        for j, name in enumerate(labels):
            first, second = (pair == j).astype(float)
            changes[name] = over_rows([first - second], OF_GAIN)
        facts |= {"changed": accuracy_of(pair[0] != pair[1]), "difference": changes}
    if args.json:
        print(json.dumps(output.plain(facts), ensure_ascii=False))
        return
    for title, shares in found.items():
        cells: Cells = [["label", *shares]]
        for name in labels:
            cells.append([name, *(str(column[name]) for column in shares.values())])
        n, note = int((orders[title] >= 0).sum()), CORRECTED if len(shares) > 1 else TOO_FEW
        show_cells(f"Shares of {n:,} answers in {title!r} in % [95 % interval]", cells, note)
    if len(found) == 2:
        cells = [["label", "points"], *([name, change.points] for name, change in changes.items())]
        note = f"{facts['changed']} % of the rows change their answer with the order."
        show_cells("First less second share of answers [95 % interval]", cells, note)
    summaries.print_filled(NO_ROWS)


def _read(
    args: Namespace, reading: Reading
) -> tuple[tuple[str, ...], np.ndarray, dict[str, np.ndarray]]:
    """Returns the labels, right labels [n], and answers [n] of each order; -1 if unknown."""
    files, names = inputs.paths(args), options.split_names(args.answers)
    if (len(files), len(names)) not in ((1, 1), (1, 2), (2, 1)):
        got = f"{len(files)} files and {len(names)} columns"
        remedy = "give one file with two columns, or two files with one column, for two orders"
        raise InputError.at("--answers", "one column of answers", got, remedy)
    orders, tables, first = dict[str, list[str]](), [*map(_columns, files)], list[str]()
    ids = reading.ids or "id" * all("id" in table for table in tables)
    if len(files) > 1 and not ids:
        summaries.say_notes(["The rows of both files are matched by their order, without --ids."])
    for path, columns in zip(files, tables, strict=True):
        of_first = reading.gold if path == files[0] else ""
        for name in filter(None, (*names, reading.ids, of_first)):
            refuse_unknown("column", name, columns, where=path)
        keys = [*map(str, range(len(columns[names[0]])))]
        if len(files) > 1 and ids:
            keys = texts_of(columns[ids])
        first, row_of = first or keys, dict(zip(keys, range(len(keys)), strict=True))
        if row_of.keys() != set(first) or len(row_of) < len(keys):
            remedy = "name a column of row ids that both files have with --ids"
            raise InputError.at(path, "each row of both files once", "other ids", remedy)
        for name in names:
            own, title = texts_of(columns[name]), name if len(files) == 1 else str(path)
            orders[title] = [own[row_of[key]] for key in first]
    given = texts_of(tables[0][reading.gold]) if reading.gold else next(iter(orders.values()))
    texts = tuple(sorted(set(given) - {"", "-1"}))
    # More texts are not all labels, unless they are right labels.
    labels = reading.labels or texts * (bool(reading.gold) or len(texts) <= MAX_LISTED)
    gold = np.full(len(first), -1)
    if reading.gold:
        at = f"{files[0]}, column {reading.gold!r}"
        gold, _, notes = read_gold(at, tables[0][reading.gold], labels, reading.gold_names)
        summaries.say_notes(notes)
    return labels, gold, {title: _index(title, orders[title], labels, reading) for title in orders}


def _columns(path: Path) -> Mapping[str, Column]:
    with plain_copy(path) as file:
        return read_columns(file)


def _index(
    title: str, texts: Sequence[str], labels: tuple[str, ...], reading: Reading
) -> np.ndarray:
    """Returns the label's index for each answer, -1 for answers that name no label."""
    label_of, notes = match_answers(Counter(filter(None, texts)), labels, reading.tokens, title)
    summaries.say_notes(notes)
    return np.array([label_of.get(text, -1) for text in texts])


def _measure(answers: np.ndarray, gold: np.ndarray, names: Sequence[str], seed: int) -> Shares:
    """Estimates the shares of answers [n] and of right labels, as far as labeled rows allow."""
    k, gold, answers = len(names), gold[answers >= 0], answers[answers >= 0]
    found: Shares = {"answered": {name: accuracy_of(answers == j) for j, name in enumerate(names)}}
    pairs = (k * gold + answers)[gold >= 0]
    labeled = np.bincount(pairs, minlength=k * k).reshape(k, k)
    if labeled.sum(axis=1).min() >= LEAST_LABELED:
        others = np.bincount(answers[gold < 0], minlength=k)
        by_label, by_answer = corrected_shares(labeled, others, seed=seed)
        found["corrected"] = dict(zip(names, by_label, strict=True))
        found["of a sample"] = dict(zip(names, by_answer, strict=True))
    return found
