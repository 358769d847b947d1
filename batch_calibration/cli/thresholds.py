"""The command `threshold`: chooses the cut-off on a label's probability for a goal."""

import shlex
import sys
from argparse import Namespace

from batch_calibration.cli import inputs, options, output, summaries
from batch_calibration.cli.correcting import check_method, correct_contexts, read_contexts
from batch_calibration.cli.summaries import CorrectedContext, temper, title
from batch_calibration.diagnosis.threshold import Threshold, choose_threshold, read_goal
from batch_calibration.errors import InputError, call, refuse_unknown
from batch_calibration.reporting.cells import show_cells

APPLIED = [flag for flag in options.LEARNING if flag.of in ("", options.CORRECTING)]
"""Flags that change corrected scores."""
NOTE = (
    "On held-out rows [95 % interval for the goal]. A cut-off with * does not reach the goal on "
    "the labeled rows, and is the best. calibrate --threshold applies one cut-off to all contexts."
)


def choose_cut_offs(args: Namespace) -> None:
    """Prints the cut-off of each context, and the command that applies it."""
    output.check_output(args.plot, output.FIGURES)
    output.check_output(args.output, [".csv"])
    args.goal, args.dtype, args.ordinal = vars(args)["for"], "", None
    read_goal(args.goal, "--for")
    # Before `check_method` sets defaults.
    source = inputs.typed_source(args, [*options.READING, *APPLIED])
    check_method(args)
    contexts = correct_contexts(args, read_contexts(args)[1])
    cut_offs = [_choose(args, context) for context in contexts]
    curves, cells = list[list[object]]([["context", *cut_offs[0].curve]]), list[list[str]]()
    for context, cut_off in zip(contexts, cut_offs, strict=True):
        name, cut = title(context.table), f"{cut_off.label}={cut_off.probability}"
        star = " *" * (not cut_off.is_reached)
        cells.append([name, f"{cut_off.rows}", cut + star, *cut_off.shown().values()])
        curves += [[name, *numbers] for numbers in zip(*cut_off.curve.values(), strict=True)]
    if args.json:
        for context, cut_off in zip(contexts, cut_offs, strict=True):
            output.print_line(context.table, cut_off._replace(curve={}))
    elif len(cut_offs) > 1:
        header = ["context", "rows", "cut-off", *cut_offs[0].shown()]
        show_cells(f"Cut-offs for {args.goal}", [header, *cells], NOTE)
    else:
        for sentence in cut_offs[0].sentences():
            summaries.print_filled(sentence)
        keys = {"threshold": shlex.quote(cut), "output": "corrected.csv"}
        print(f"\n{call('calibrate', source, keys)}")
    if args.output:
        output.write_lines(args.output, curves, "every cut-off")
    output.write_plot(args.plot, contexts, sys.stderr, cut_offs)


def _choose(args: Namespace, context: CorrectedContext) -> Threshold:
    """Chooses the cut-off of one context on its right labels."""
    names = context.table.label_names
    scores, gold = context.labeled or (context.scores, context.table.blocks["test"].labels)
    if not args.positive:
        raise InputError.at("--positive", f"one of the labels {', '.join(names)}", "none", "add it")
    refuse_unknown("label", args.positive, names, where="--positive")
    if not (gold >= 0).any():
        remedy = "use --gold=COLUMN, or --labeled=FILE"
        raise InputError.at(title(context.table), "right labels of some rows", "none", remedy)
    scores, column = temper(scores, context.temperature), names.index(args.positive)
    chosen = choose_threshold(scores, gold, column, args.goal, from_probs=False)
    return chosen._replace(label=args.positive)
