"""The command `threshold`: chooses the cut-off on a label's probability for a goal."""

import shlex
import sys
from argparse import Namespace
from pathlib import Path

from batch_calibration.cli import inputs, output, summaries
from batch_calibration.cli.correcting import check_method, correct_contexts, read_contexts
from batch_calibration.cli.guard import flag
from batch_calibration.cli.summaries import CorrectedContext, temper, title
from batch_calibration.diagnosis.threshold import Threshold, choose_threshold, read_goal
from batch_calibration.errors import InputError, answering, extra, refuse_unknown
from batch_calibration.files import csv_text, write_whole
from batch_calibration.reporting.cells import show_cells

APPLIED = "method option strength advice temperature prior probe labeled seed"
"""Flags that change corrected scores."""
NOTE = (
    "On held-out rows [95 % interval for the goal]. A cut-off with * does not reach the goal on "
    "the labeled rows, and is the best. calibrate --threshold applies one cut-off to all contexts."
)


def choose_cut_offs(args: Namespace) -> None:
    """Prints the cut-off of each context, and the command that applies it."""
    output.check_plot(args.plot)
    if args.output and not args.output.endswith(".csv"):
        raise InputError.at(f"--output={args.output}", "a file that ends in .csv")
    args.goal, args.dtype, args.ordinal = vars(args)["for"], "", None
    read_goal(args.goal, "--for")
    command = _command(args)  # before `check_method` sets defaults
    check_method(args)
    contexts = correct_contexts(args, read_contexts(args)[1])
    found = [_choose(args, context) for context in contexts]
    titles = [title(context.table) for context in contexts]
    curves, cells = list[list[str]](), list[list[str]]()
    for name, one in zip(titles, found, strict=True):
        cut = f"{one.label}={one.probability}{'' if one.is_reached else ' *'}"
        cells.append([name, f"{one.rows}", cut, *one.shown().values()])
        for numbers in zip(*one.curve.values(), strict=True):
            curves.append([name, *(f"{number:.10g}" for number in numbers)])
    if args.json:
        for context, one in zip(contexts, found, strict=True):
            output.print_line(context.table, one._replace(curve={}))
    elif len(found) > 1:
        header = ["context", "rows", "cut-off", *found[0].shown()]
        show_cells(f"Cut-offs for {args.goal}", [header, *cells], NOTE)
    else:
        for sentence in found[0].sentences():
            summaries.print_filled(sentence)
        cut = flag("threshold", f"{found[0].label}={found[0].probability}")
        print(f"\n{command} {shlex.quote(cut)} --output=corrected.csv")
    if args.output:
        text = csv_text([["context", *found[0].curve], *curves])
        write_whole(Path(args.output), text.encode(errors="backslashreplace"))
        print(f"every cut-off: {args.output}", file=sys.stderr)
    if args.plot:
        with answering(ImportError, "--plot", "matplotlib, which draws it", extra("plots")):
            from batch_calibration.reporting.figures.style import to_file
            from batch_calibration.reporting.figures.thresholds import draw_thresholds
        figure = draw_thresholds(found, titles).figure
        write_whole(Path(args.plot), to_file(figure, Path(args.plot).suffix[1:]))
        print(f"figure: {args.plot}", file=sys.stderr)


def _command(args: Namespace) -> str:
    """Returns the command that corrects the same files by the same flags."""
    words = [f"batch-calibration calibrate {inputs.typed_source(args)}"]
    for name in APPLIED.split():
        given = getattr(args, name)
        values = given if isinstance(given, list) else [given] * (given not in ("", None, 0))
        words += [shlex.quote(flag(name, value)) for value in values]
    return " ".join(words)


def _choose(args: Namespace, context: CorrectedContext) -> Threshold:
    """Chooses the cut-off of one context on its right labels."""
    names, scores = context.table.label_names, context.tempered
    gold = context.table.blocks["test"].labels
    if not args.positive:
        raise InputError.at("--positive", f"one of the labels {', '.join(names)}", "none", "add it")
    refuse_unknown("label", args.positive, names, where="--positive")
    if context.labeled:
        scores, gold = temper(context.labeled[0], context.temperature), context.labeled[1]
    if not (gold >= 0).any():
        remedy = "use --gold=COLUMN, or --labeled=FILE"
        raise InputError.at(title(context.table), "right labels of some rows", "none", remedy)
    found = choose_threshold(scores, gold, names.index(args.positive), args.goal, from_probs=False)
    return found._replace(label=args.positive)
