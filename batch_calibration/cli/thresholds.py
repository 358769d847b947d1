"""The command `threshold`: chooses cut-offs; and --threshold, which applies one."""

import shlex
import sys
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from scipy.special import expit, logit

from batch_calibration.cli import inputs, output, summaries
from batch_calibration.cli.guard import flag
from batch_calibration.cli.summaries import MAX_SHOWN_SINGLY, CorrectedContext, temper, title
from batch_calibration.diagnosis.threshold import Threshold, answer, choose_threshold, read_goal
from batch_calibration.errors import InputError, answering, extra, refuse_unknown
from batch_calibration.files import csv_text, write_whole
from batch_calibration.reporting.cells import Cells, show_cells
from batch_calibration.scores import ScoreTable

APPLIED = "method option strength advice temperature prior probe labeled seed ordinal".split()
"""Flags that change corrected scores."""


def answer_table(text: str, table: ScoreTable, scores: np.ndarray) -> np.ndarray:
    """Answers rows [n, k] of a table by LABEL=PROBABILITY.

    Raises:
        InputError: an unknown label, or no number between 0 and 1.
    """
    where, (label, _, number) = f"--threshold={text}", text.rpartition("=")
    refuse_unknown("label", label, table.label_names, where=where)
    expected = "LABEL=PROBABILITY, with a probability above 0 and below 1"
    with answering(ValueError, where, expected, "use one of the command threshold"):
        probability = float(number)
    if not 0 < probability < 1:
        given = f"--threshold={label}={expit(probability):.6g}"
        remedy = f"log-odds of {probability:g} are the probability 1 / (1 + exp(-{probability:g}))"
        raise InputError.at(where, expected, number, f"{remedy}: use {given}")
    return answer(scores, table.label_names.index(label), float(logit(probability)))


def check_goal(args: Namespace) -> None:
    """Raises an error if --for has no goal."""
    read_goal(vars(args)["for"], "--for")


def command_of(args: Namespace) -> str:
    """Returns the command that corrects the same files by the same flags."""
    words = [f"batch-calibration calibrate {inputs.typed_source(args)}"]
    for name in APPLIED:
        given = getattr(args, name)
        values = given if isinstance(given, list) else [given] * (given not in ("", None, 0))
        words += [shlex.quote(flag(name, value)) for value in values]
    return " ".join(words)


def show(args: Namespace, contexts: Sequence[CorrectedContext], command: str) -> None:
    """Prints the cut-off of each context; writes the curves and the figure."""
    found, titles = list[Threshold](), [title(context.table) for context in contexts]
    for context in contexts:
        found.append(_choose(args, context))
    if args.json:
        for context, threshold in zip(contexts, found, strict=True):
            output.print_line(context.table, threshold._replace(curve={}))
    elif len(found) > MAX_SHOWN_SINGLY:
        show_cells(f"Cut-offs for {found[0].goal}", _cells(titles, found), NOTE)
    else:
        for name, threshold in zip(titles, found, strict=True):
            print(f"\n{name}")
            for sentence in threshold.sentences():
                summaries.print_filled(sentence)
            cut = flag("threshold", f"{threshold.label}={threshold.probability}")
            print(f"\n{command} {shlex.quote(cut)} --output=corrected.csv")
    if args.output:
        write_whole(Path(args.output), csv_text(_curves(titles, found)).encode())
        print(f"curve: {args.output}", file=sys.stderr)
    if args.plot:
        with answering(ImportError, "--plot", "matplotlib, which draws it", extra("plots")):
            from batch_calibration.reporting.figures.style import to_file
            from batch_calibration.reporting.figures.thresholds import draw_thresholds
        figure = draw_thresholds(found, titles).figure
        write_whole(Path(args.plot), to_file(figure, Path(args.plot).suffix[1:]))
        print(f"figure: {args.plot}", file=sys.stderr)


def _choose(args: Namespace, context: CorrectedContext) -> Threshold:
    """Chooses the cut-off of one context on its right labels."""
    table, scores, gold = context.table, context.tempered, context.table.blocks["test"].labels
    names, goal = table.label_names, vars(args)["for"]
    if not args.positive:
        raise InputError.at("--positive", f"one of the labels {', '.join(names)}", "none", "add it")
    refuse_unknown("label", args.positive, names, where="--positive")
    if context.labeled:
        scores, gold = temper(context.labeled[0], context.temperature), context.labeled[1]
    if not (gold >= 0).any():
        remedy = "use --gold=COLUMN, or --labeled=FILE"
        raise InputError.at(title(table), "right labels of some rows", "none", remedy)
    return choose_threshold(scores, gold, args.positive, goal, label_names=names, from_probs=False)


NOTE = (
    "On held-out rows, in % [95 % interval]; a cut-off with * does not reach the goal on the "
    "labeled rows, and is the best. Apply one by calibrate --threshold=LABEL=PROBABILITY."
)


def _cells(titles: Sequence[str], found: Sequence[Threshold]) -> Cells:
    rows: Cells = [["context", "rows", "probability", "precision", "recall", "F1", "answered"]]
    for name, one in zip(titles, found, strict=True):
        shares = [f"{one.precision}", f"{one.recall}", f"{one.f1}", f"{100 * one.share.value:.1f}"]
        cut = f"{one.probability}{'' if one.is_reached else ' *'}"
        rows.append([name, f"{one.rows}", cut, *shares])
    return rows


def _curves(titles: Sequence[str], found: Sequence[Threshold]) -> Cells:
    rows: Cells = [["context", *found[0].curve]]
    for name, threshold in zip(titles, found, strict=True):
        for numbers in zip(*threshold.curve.values(), strict=True):
            rows.append([name, *(f"{number:.10g}" for number in numbers)])
    return rows
