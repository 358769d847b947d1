"""Runs the commands on files of scores."""

import shlex
import sys
from argparse import Namespace
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TextIO

import numpy as np

from batch_calibration.cli import correcting, inputs, labeling, options, output, prior, summaries
from batch_calibration.cli.asking import ask_server
from batch_calibration.cli.classifying import classify
from batch_calibration.cli.correcting import advise_contexts, correct_contexts, read_contexts
from batch_calibration.cli.hard_answers import report_answers
from batch_calibration.cli.judging import judge
from batch_calibration.cli.progress import Waiting, show_progress
from batch_calibration.cli.requesting import bring_answers
from batch_calibration.cli.summaries import MAX_LISTED, CorrectedContext, temper
from batch_calibration.cli.thresholds import choose_cut_offs
from batch_calibration.diagnosis import save_advice
from batch_calibration.diagnosis.comparison import compare_tables
from batch_calibration.diagnosis.diagnose import DISTANCES
from batch_calibration.diagnosis.verdicts import Verdict, judge_context
from batch_calibration.errors import InputError, call
from batch_calibration.methods import ALL, on_shelf, read_options, run_methods
from batch_calibration.metrics import OF_GAIN, over_rows
from batch_calibration.scores import ScoreTable, make_block
from batch_calibration.studies import Record, Records
from batch_calibration.studies.calibration import check_labeled, run_calibration


def calibrate_files(args: Namespace) -> None:
    """Writes corrected scores to a file or standard output, and a summary to the terminal."""
    output.check_output(args.output)
    output.check_output(args.plot, output.FIGURES)
    # Mistakes in the flags are reported before any file is read.
    correcting.check_method(args)
    if output.is_streamed(args, paths := inputs.paths(args)):
        output.calibrate_stream(args, paths)
        return
    files, tables = read_contexts(args)
    corrected = correct_contexts(args, tables)
    # If standard output is a pipe, it gets the scores even without --output.
    target = args.output or "-" * (not sys.stdout.isatty())
    # A program that reads standard output must get only scores.
    stream_out = sys.stderr if target == "-" else sys.stdout
    summaries.show_contexts(corrected, args.changed, stream_out)
    _range(args, stream_out)
    has_probs = summaries.have_probabilities(corrected)
    scored = []
    for context, file in zip(corrected, files, strict=True):
        scores, grades = temper(context.scores, context.temperature), context.diagnosis.grades
        facts = scores, file, has_probs, grades, context.answers
        scored.append(output.Scored(context.table, *facts))
    summaries.print_filled(summaries.describe_probabilities(corrected), stream_out)
    if target:
        output.write(scored, target)
    if target != "-":
        written = (
            f"corrected scores: {target}" if target else "Use --output=FILE to write the scores."
        )
        print(written, file=stream_out)
    if args.results:
        for path in output.write_harness_results(files, corrected, args.method):
            print(f"results of the harness: {path}", file=stream_out)
    output.write_plot(args.plot, corrected, stream_out)


def diagnose_files(args: Namespace) -> None:
    """Reports the label that each prompt prefers, and whether a correction helps."""
    output.check_output(args.plot, output.FIGURES)
    output.check_output(args.output, [".csv"])
    if args.answers:
        return report_answers(args)
    correcting.check_method(args)
    corrected = correct_contexts(args, read_contexts(args)[1])
    if args.json:
        for context in corrected:
            output.print_line(context.table, context.diagnosis)
    else:
        summaries.show_contexts(corrected, args.changed, sys.stdout)
        _range(args, sys.stdout)
    _write_lines(args, corrected)
    output.write_plot(args.plot, corrected, sys.stdout)


def recommend_files(args: Namespace) -> None:
    """Recommends a method, or no correction, for each context, and gives the reasons."""
    if args.probe and not args.labeled:
        expected, remedy = "labeled rows for its methods", "use --labeled=FILE too, or leave it out"
        raise InputError.at("--probe", expected, "none", remedy)
    _, tables = read_contexts(args)
    stated = prior.state(args.prior, tables)
    advised = advise_contexts(tables, stated, by_labels=True, ordinal=args.ordinal)
    if args.output and not args.output.endswith(".csv"):
        titles = correcting.distinct_titles(tables)
        save_advice(args.output, dict(zip(titles, advised, strict=True)))
        which = ", without the right labels (--labeled=FILE uses them)"
        which *= any(advice.by_labels for advice in advised)
        print(f"advice: {args.output}{which}", file=sys.stderr)
    if args.json:
        for table, advice in zip(tables, advised, strict=True):
            output.print_line(table, advice)
        if not args.output.endswith(".csv"):
            return
    with Waiting("correcting"):
        followed = [*map(correcting.follow_advice, tables, advised)]
    if not args.json:
        summaries.show_advice(followed, sys.stdout, inputs.typed_source(args))
    _write_lines(args, followed)


def _write_lines(args: Namespace, contexts: Sequence[CorrectedContext]) -> None:
    """Writes a line for each context to --output if it is CSV; for many, shows how to get them."""
    if args.output.endswith(".csv"):
        output.write_lines(args.output, summaries.make_lines(contexts), "a line for each context")
    elif len(contexts) > MAX_LISTED and not (args.json or args.output):
        command = call(args.command, "contexts", {"output": "contexts.csv"})
        summaries.print_filled(f"A line for each context: {command}")


def compare_files(args: Namespace) -> None:
    """Compares methods: prints one table, or lines of JSON."""
    _, tables = read_contexts(args)
    for table in tables:
        check_labeled(table)
    chosen = read_options(args.option)
    names = on_shelf(options.split_names(args.methods) or [ALL])
    common = [of_context.options for of_context in prior.state(args.prior, tables)]
    compared = compare_tables(tables, names, options=chosen, seed=args.seed, common=common)
    comparisons = [*show_progress("comparing methods", compared, len(tables))]
    if args.json:
        for table, of_context in zip(tables, comparisons, strict=True):
            output.print_line(table, of_context)
    else:
        summaries.show_comparison(tables, comparisons, is_all=args.all, is_quiet=args.quiet)


def convert_files(args: Namespace) -> None:
    """Writes score tables to a workdir or a file."""
    from batch_calibration.studies import Store

    if bool(args.output) == bool(args.workdir):
        expected = "--output=FILE or --workdir=DIR, and not both"
        raise InputError.at("convert", expected, remedy="use one of them")
    output.check_output(args.output, [*output.ENDINGS, ".safetensors"])
    files, tables = read_contexts(args)
    # A workdir holds many contexts, a .safetensors file only one; other formats hold rows of all.
    if args.workdir:
        store = Store(args.workdir, create=True)
        for table in tables:
            store.put(table)
        print(f"{len(tables)} score tables: {Path(args.workdir) / 'scores'}")
        print(f"next: batch-calibration report {args.workdir}")
    elif Path(args.output).suffix == ".safetensors":
        if len(tables) > 1:
            remedy = "use --workdir=DIR, which holds many"
            raise InputError.at(args.output, "one context", len(tables), remedy)
        tables[0].save(args.output)
        print(f"score table: {args.output}")
    else:
        scores = [table.blocks["test"].log_probs for table in tables]
        output.write([*map(output.Scored, tables, scores, files)], args.output)


def report_files(args: Namespace) -> None:
    """Writes a page with each prompt's preference and all tables and figures."""
    from batch_calibration.reporting import writing
    from batch_calibration.reporting.frame import gains_of_rows
    from batch_calibration.reporting.items import Results

    files, tables = read_contexts(args)
    stated = prior.state(args.prior, tables)
    # Metrics need right labels; a prompt's preference does not.
    labeled = [table for table in tables if (table.blocks["test"].labels >= 0).any()]
    calibrated, chosen = Records(), read_options(args.option)
    names = on_shelf(options.split_names(args.methods), chosen)
    if labeled:
        options_of = {table.id: one.options for table, one in zip(tables, stated, strict=True)}
        common = [options_of[table.id] for table in labeled]
        run = partial(run_calibration, seed=args.seed, options=chosen, common=common)
        with Waiting("comparing methods", len(labeled)) as waiting:
            calibrated = run(labeled, names, progress=waiting.move)
    record_of = {record.id: record for record in calibrated}
    records, verdicts = list[Record](), dict[str, Verdict]()
    for table, advice in zip(tables, advise_contexts(tables, stated), strict=True):
        records.append(record_of.get(table.id) or Record.without_methods(table))
        verdicts[table.id] = judge_context("", "", advice, table, gains_of_rows(records[-1]))
    by_id = {table.id: table for table in tables}
    results = Results(records, lambda record: by_id[record.id])
    # The page shows the date of the newest file.
    changed = [path.stat().st_mtime for path in files if path.is_file()]
    date = datetime.fromtimestamp(max(changed), UTC).strftime("%Y-%m-%d") if changed else ""
    notes = summaries.group_notes(tables)  # `_contexts` has printed these
    page, source = Path(args.output), inputs.typed_source(args)
    with Waiting("writing the page"):
        write = partial(writing.write_report, date=date, source=source)
        cards, missing = write(results, page, notes, verdicts)
    for sentence in missing[len(notes) :]:
        summaries.print_filled(sentence)
    summaries.show_gains(cards, source)
    print(f"report: {args.output}")


def label_files(args: Namespace) -> None:
    """Writes rows to label, and prints the command that learns from their labels."""
    output.check_output(args.output or "--output=", [".csv"])
    labeling.check_output(Path(args.output))
    summaries.print_filled(labeling.write_rows(args, *read_contexts(args), inputs.reading_of(args)))
    print(call("recommend", inputs.typed_source(args), {"labeled": shlex.quote(args.output)}))


def ensemble_files(args: Namespace) -> None:
    """Combines contexts of the same rows into one answer for each row; prints the gain."""
    output.check_output(args.output)
    files, tables = read_contexts(args)
    tables = [_in_order_of(tables[0], table) for table in tables]
    found = run_methods(tables, ["ensemble"], groups=["one"] * len(tables))
    if reason := found.skipped[0].get("ensemble"):
        raise InputError.at("ensemble", "two contexts or more of the same rows", reason)
    scores = np.asarray(next(found.results)["ensemble"].scores)
    gold = tables[0].blocks["test"].labels
    stream_out, is_labeled = sys.stderr if args.output == "-" else sys.stdout, gold >= 0
    sentence = f"One answer for each of {len(gold):,} rows, from {len(tables)} contexts."
    if is_labeled.any():
        rows = np.stack([table.blocks["test"].log_probs for table in tables])  # [c, n, k]
        right = (rows.argmax(axis=-1) == gold)[:, is_labeled]
        is_right = (scores.argmax(axis=-1) == gold)[is_labeled]
        gain = over_rows(is_right.astype(float) - right, OF_GAIN)
        sentence += (
            f" {100 * is_right.mean():.1f} % of the {len(is_right):,} labeled rows are right. The "
            f"uncorrected contexts have {100 * right.mean():.1f} % on average, "
            f"{100 * right.mean(axis=1).max():.1f} % at best. Gain over their mean in points, "
            f"with its 95 % interval over contexts and rows: {gain.points}."
        )
    summaries.print_filled(sentence, stream_out)
    if args.output:
        output.write([output.Scored(tables[0], scores, files[0], has_probs=True)], args.output)


def _in_order_of(first: ScoreTable, table: ScoreTable) -> ScoreTable:
    """Reorders rows and labels to match the first context."""
    block, ids = table.blocks["test"], first.blocks["test"].row_ids
    where, title = f"context {summaries.title(table)}", summaries.title(first)
    places = {row_id: place for place, row_id in enumerate(block.row_ids)}
    pairs = ((first.label_names, table.label_names, "labels"), (ids, places, "row ids"))
    for ours, theirs, what in pairs:
        if odd := sorted(set(ours).symmetric_difference(theirs)):
            expected, got = f"the {what} of {title}", f"{odd[0]!r} in only one of the two"
            raise InputError.at(where, expected, got, "use contexts of the same questions")
    order = [places[row_id] for row_id in ids]
    columns = [table.label_names.index(name) for name in first.label_names]
    # Index of each label in the first context's order; the appended -1 maps unknown to unknown.
    new_place = np.append(np.argsort(columns), -1)
    labels = new_place[block.labels[order]]
    if (differs := labels != first.blocks["test"].labels).any():
        got = f"a different one for row {ids[int(differs.argmax())]!r}"
        remedy = "use contexts of the same questions, with row ids that identify the questions"
        raise InputError.at(where, f"the right labels of {title}", got, remedy)
    rows = make_block(block.log_probs[order][:, columns], labels, row_ids=ids)
    context, blocks = {**table.context, "rows": "same"}, {"test": rows}
    return table._replace(context=context, label_names=first.label_names, blocks=blocks)


def _range(args: Namespace, output_stream: TextIO) -> None:
    """Prints the range of predictions for missing scores at several distances below their bound."""
    if args.missing != "bound":
        return
    # The files are read again for each distance, in nats.
    read = (inputs.contexts(args, below=nats)[1] for nats in DISTANCES)
    by_distance = [correct_contexts(args, tables) for tables in read]
    summaries.show_range(by_distance, output_stream)


RUN = {
    "answers": bring_answers,
    "ask": ask_server,
    "calibrate": calibrate_files,
    "classify": classify,
    "diagnose": diagnose_files,
    "compare": compare_files,
    "convert": convert_files,
    "ensemble": ensemble_files,
    "judge": judge,
    "label": label_files,
    "recommend": recommend_files,
    "report": report_files,
    "threshold": choose_cut_offs,
}
