"""Runs the commands on files of scores."""

import sys
import warnings
from argparse import Namespace
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TextIO

import numpy as np

from batch_calibration.cli import inputs, options, output, prior, summaries, thresholds
from batch_calibration.cli.asking import ask_server
from batch_calibration.cli.judging import judge
from batch_calibration.cli.prior import Stated
from batch_calibration.cli.progress import Waiting
from batch_calibration.cli.summaries import MAX_LISTED, MAX_SHOWN_SINGLY, CorrectedContext
from batch_calibration.diagnosis import LEAVE, Advice, save_advice
from batch_calibration.diagnosis.advice import (
    EQUAL,
    STATED,
    choose_advice,
    read_advice,
    refuse_beside_advice,
)
from batch_calibration.diagnosis.comparison import Comparison, compare_tables
from batch_calibration.diagnosis.diagnose import DISTANCES, diagnose_table
from batch_calibration.diagnosis.known_shares import BY_DESIGN
from batch_calibration.diagnosis.recommend import (
    FEWEST_LABELED_TO_MEASURE,
    advise_by_labels,
    move_by_counts,
    recommend_tables,
)
from batch_calibration.diagnosis.verdicts import Verdict, doubt, follow, judge_context, name_of
from batch_calibration.errors import InputError, call, shown
from batch_calibration.files import csv_text, write_whole
from batch_calibration.methods import ALL, ask_about_order, get_method, on_shelf, read_options
from batch_calibration.methods.run import holds_cosines, run_methods, task_of
from batch_calibration.methods.validation import check_scores, warn_of_few_rows
from batch_calibration.metrics import OF_GAIN, over_rows
from batch_calibration.scores import BALANCED, NO_PLACE_BIAS, ScoreTable, make_block
from batch_calibration.scores import check as check_table
from batch_calibration.studies import Record, Records
from batch_calibration.studies.calibration import check_labeled, run_calibration


def calibrate_files(args: Namespace) -> None:
    """Writes corrected scores to a file or standard output, and a summary to the terminal."""
    output.check_output(args.output)
    output.check_plot(args.plot)
    # Mistakes in the flags are reported before any file is read.
    _check_method(args)
    if output.is_streamed(args, paths := inputs.paths(args)):
        output.calibrate_stream(args, paths)
        return
    files, tables = _contexts(args)
    corrected = _corrected(args, tables)
    # If standard output is a pipe, it gets the scores even without --output.
    to_output = args.output == "-" or (not args.output and not sys.stdout.isatty())
    # A program that reads standard output must get only scores.
    stream_out = sys.stderr if to_output else sys.stdout
    summaries.show_contexts(corrected, args.changed, stream_out)
    _range(args, stream_out)
    scored = []
    for context, file in zip(corrected, files, strict=True):
        scored.append(output.Scored(context.table, context.scores, file, context.answers))
    if to_output:
        output.write(scored, "-")
    elif args.output:
        output.write(scored, args.output)
        print(f"corrected scores: {args.output}", file=stream_out)
    else:
        print("Use --output=FILE to write the corrected scores.", file=stream_out)
    if args.results:
        for path in output.write_harness_results(files, corrected, args.method):
            print(f"results of the harness: {path}", file=stream_out)
    output.write_plot(args.plot, corrected, stream_out)


def diagnose_files(args: Namespace) -> None:
    """Reports the label that each prompt prefers, and whether a correction helps."""
    output.check_plot(args.plot)
    output.check_output(args.output)
    if args.output and not args.output.endswith(".csv"):
        raise InputError.at(f"--output={args.output}", "a file that ends in .csv")
    _check_method(args)
    corrected = _corrected(args, _contexts(args)[1])
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
        raise InputError(
            "--probe: its methods are evaluated on labeled rows; use --labeled=FILE too, or leave "
            "--probe out."
        )
    _, tables = _contexts(args)
    stated = prior.state(args.prior, tables)
    advised = _advise(tables, stated, by_labels=True, ordinal=args.ordinal)
    if args.output and not args.output.endswith(".csv"):
        save_advice(args.output, dict(zip(_distinct_titles(tables), advised, strict=True)))
        has_other = any(advice.by_labels for advice in advised)
        which = ", without the right labels (--labeled=FILE uses them)" if has_other else ""
        print(f"advice: {args.output}{which}", file=sys.stderr)
    if args.json:
        for table, advice in zip(tables, advised, strict=True):
            output.print_line(table, advice)
        if not args.output.endswith(".csv"):
            return
    with Waiting("correcting"):
        followed = [*map(_followed, tables, advised)]
    if not args.json:
        summaries.show_advice(followed, sys.stdout, inputs.typed_source(args))
    _write_lines(args, followed)


def _write_lines(args: Namespace, contexts: Sequence[CorrectedContext]) -> None:
    """Writes a line for each context to --output if it is CSV; for many, shows how to get them."""
    if args.output.endswith(".csv"):
        text = csv_text(summaries.make_lines(contexts))
        write_whole(Path(args.output), text.encode(errors="backslashreplace"))
        print(f"a line for each context: {args.output}", file=sys.stderr)
    elif len(contexts) > MAX_LISTED and not (args.json or args.output):
        command = call(args.command, "contexts", {"output": "contexts.csv"})
        summaries.print_filled(f"A line for each context: {command}")


def _distinct_titles(tables: Sequence[ScoreTable]) -> list[str]:
    """Returns the titles of contexts, with their ids if a title repeats."""
    titles = [summaries.title(table) for table in tables]
    if len(set(titles)) < len(titles):
        titles = [f"{title} ({table.id})" for table, title in zip(tables, titles, strict=True)]
    return titles


def _followed(table: ScoreTable, advice: Advice) -> CorrectedContext:
    """Returns a context corrected as advised."""
    corrected = follow(table, advice)
    diagnosis = diagnose_table(table, corrected, name_of(advice))
    return CorrectedContext(table, corrected, diagnosis, advice, corrected.argmax(axis=-1))


def _advise(
    tables: Sequence[ScoreTable], stated: Sequence[Stated], *, by_labels: bool = False,
    ordinal: bool | None = None,
) -> list[Advice]:  # fmt: skip
    """Returns the advice for each context.

    Args:
        tables: the contexts; those of a task are pooled.
        stated: the shares that the user stated for each context.
        by_labels: True uses labeled rows, too: of --labeled, or else of the contexts themselves for
            a second answer.
        ordinal: True if labels are grades in order.
    """
    known = []
    for table, of_context in zip(tables, stated, strict=True):
        is_by_design = of_context.known is None and table.context.get(BALANCED) is True
        known.append(BY_DESIGN if is_by_design else of_context.known)
    finished = list[Advice]()
    with Waiting("choosing a correction", len(tables)) as waiting:
        advised = recommend_tables(tables, [*map(task_of, tables)], known, ordinal=ordinal or None)
        for table, advice, one in zip(tables, advised, stated, strict=True):
            finished.append(_advise_one(table, advice, one.counts, by_labels=by_labels))
            waiting.move(len(finished))
    return finished


def _advise_one(
    table: ScoreTable, advice: Advice, counts: Sequence[int] | None, *, by_labels: bool
) -> Advice:
    """Returns a context's advice with counted labels and labeled rows, and what contradicts it."""
    rows, gold, *_ = table.blocks["test"]
    labeled, probe = table.blocks.get("labeled"), table.blocks.get("cc")
    if counts is not None:
        advice = move_by_counts(advice, rows, np.asarray(counts, np.float64))
    if by_labels and NO_PLACE_BIAS not in table.context:
        of_rows = partial(advise_by_labels, advice, rows, cosines=holds_cosines(table))
        if labeled is not None:
            cc = None if probe is None else probe.log_probs
            advice = of_rows(labeled.log_probs, labeled.labels, probe=cc)
        elif (gold >= 0).sum() >= FEWEST_LABELED_TO_MEASURE and not ask_about_order(rows, gold):
            advice = advice._replace(by_labels=of_rows(rows, gold))
    return doubt(table, advice)


def choose_cut_offs(args: Namespace) -> None:
    """Prints the cut-off on a label's probability for a goal, and the command that applies it."""
    output.check_plot(args.plot)
    if args.output and not args.output.endswith(".csv"):
        raise InputError.at(f"--output={args.output}", "a file that ends in .csv")
    thresholds.check_goal(args)
    command = thresholds.command_of(args)
    _check_method(args)
    thresholds.show(args, _corrected(args, _contexts(args)[1]), command)


def compare_files(args: Namespace) -> None:
    """Compares methods: prints one table, or lines of JSON."""
    _, tables = _contexts(args)
    for table in tables:
        check_labeled(table)
    comparisons, chosen = list[Comparison](), read_options(args.option)
    names = on_shelf(options.split_names(args.methods) or [ALL])
    common = [of_context.options for of_context in prior.state(args.prior, tables)]
    compared = compare_tables(tables, names, options=chosen, seed=args.seed, common=common)
    with Waiting("comparing methods", len(tables)) as waiting:
        for comparison in compared:
            comparisons.append(comparison)
            waiting.move(len(comparisons))
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
    output.check_output(args.output, (".safetensors",))
    files, tables = _contexts(args)
    # A workdir holds many contexts, a .safetensors file only one; other formats hold rows of all.
    if args.workdir:
        store = Store(args.workdir, create=True)
        for table in tables:
            store.put(table)
        print(f"{len(tables)} score tables: {Path(args.workdir) / 'scores'}")
        print(f"next: batch-calibration report {args.workdir}")
    elif Path(args.output).suffix == ".safetensors":
        if len(tables) > 1:
            raise InputError(
                f"{args.output}: one file holds one context, but there are {len(tables)}; use "
                "--workdir=DIR, which holds many."
            )
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

    files, tables = _contexts(args)
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
    for table, advice in zip(tables, _advise(tables, stated), strict=True):
        records.append(record_of.get(table.id) or Record.without_methods(table))
        by_bc = gains_of_rows(records[-1])
        verdicts[table.id] = judge_context("", "", advice, table, by_bc)
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


def ensemble_files(args: Namespace) -> None:
    """Combines contexts of the same rows into one answer for each row; prints the gain."""
    output.check_output(args.output)
    files, tables = _contexts(args)
    tables = [_in_order_of(tables[0], table) for table in tables]
    found = run_methods(tables, ["ensemble"], groups=["one"] * len(tables))
    if reason := found.skipped[0].get("ensemble"):
        raise InputError.at("ensemble", "two contexts or more of the same rows", reason)
    scores = np.asarray(next(found.results)["ensemble"].scores)
    gold = tables[0].blocks["test"].labels
    stream_out, is_labeled = sys.stderr if args.output == "-" else sys.stdout, gold >= 0
    sentence = f"One answer for each of {len(gold):,} rows, from {len(tables)} contexts."
    if is_labeled.any():
        answers = [table.blocks["test"].log_probs.argmax(axis=-1) for table in tables]
        right = (np.stack(answers) == gold)[:, is_labeled]  # [c, rows]
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
        output.write([output.Scored(tables[0], scores, files[0])], args.output)


def _in_order_of(first: ScoreTable, table: ScoreTable) -> ScoreTable:
    """Reorders rows and labels to match the first context."""
    block, ids = table.blocks["test"], first.blocks["test"].row_ids
    where, title = f"context {summaries.title(table)}", summaries.title(first)
    places = {row_id: place for place, row_id in enumerate(block.row_ids)}
    pairs = ((first.label_names, table.label_names, "labels"), (ids, places, "row ids"))
    for ours, theirs, what in pairs:
        if set(ours) != set(theirs):
            odd = sorted(set(ours) ^ set(theirs))[0]
            expected, got = f"the {what} of {title}", f"{odd!r} in only one of the two"
            raise InputError.at(where, expected, got, "use contexts of the same questions")
    order = [places[row_id] for row_id in ids]
    columns = [table.label_names.index(name) for name in first.label_names]
    # Index of each label in the first context's order; the appended -1 maps unknown to unknown.
    new_place = np.append(np.argsort(columns), -1)
    labels = new_place[block.labels[order]]
    if (labels != first.blocks["test"].labels).any():
        row = ids[int((labels != first.blocks["test"].labels).argmax())]
        expected, got = f"the right labels of {title}", f"a different one for row {row!r}"
        remedy = "use contexts of the same questions, with row ids that identify the questions"
        raise InputError.at(where, expected, got, remedy)
    rows = make_block(block.log_probs[order][:, columns], labels, row_ids=ids)
    context, blocks = {**table.context, "rows": "same"}, {"test": rows}
    return table._replace(context=context, label_names=first.label_names, blocks=blocks)


def _contexts(args: Namespace) -> tuple[list[Path], list[ScoreTable]]:
    """Returns each context's file and scores; prints the notes that reading them produced."""
    files, tables = inputs.contexts(args)
    sentences = [
        *inputs.note_of_files(args, inputs.paths(args), tables),
        *summaries.group_notes(tables),
    ]
    # For a few contexts these commands print the doubts together with each context.
    is_said = args.command in ("calibrate", "diagnose") and len(tables) <= MAX_SHOWN_SINGLY
    summaries.say_notes(sentences if is_said else [*sentences, *summaries.doubts(tables)])
    return files, tables


def _check_method(args: Namespace) -> None:
    """Raises an error if the method does not exist or its probes are not given."""
    if args.advice:
        replaced = ("method", "option", "strength", "prior")
        given = {name: getattr(args, name) not in ("", [], None) for name in replaced}
        refuse_beside_advice(**given)
        args.method = "advice"  # in the names of metrics
        return
    args.method = args.method or "bc"
    probe = get_method(args.method).probe
    for block in probe.blocks:
        option = "--labeled" if block == "labeled" else "--probe"
        if block != "test" and not (args.labeled if block == "labeled" else args.probe):
            raise InputError(
                f"{args.method} learns its bias from {probe.description}, but their scores are "
                f"missing: use {option}=FILE, or --method=bc, which learns from the rows "
                "themselves."
            )


def _corrected(args: Namespace, tables: Sequence[ScoreTable]) -> list[CorrectedContext]:
    """Returns each context with its corrected scores."""
    stated = prior.state(args.prior, tables)
    # A method may warn once for each context; each warning is printed once.
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        followed = _follow_file(args.advice, tables) if args.advice else []
        with Waiting("correcting"):
            all_scores = [scores for _, scores in followed] or _correct(args, tables, stated)
    summaries.say_notes(str(warning.message) for warning in caught)
    strength, corrected = 1.0 if args.strength is None else args.strength, []
    advised = [advice for advice, _ in followed] or _advise(tables, stated, ordinal=args.ordinal)
    method, is_ordinal = args.method, args.ordinal or None
    with Waiting("diagnosing", len(tables)) as waiting:
        each = zip(tables, all_scores, advised, stated, strict=True)
        for table, scores, advice, of_context in each:
            known = of_context.known and of_context.known.all_shares(len(table.label_names))
            if followed:
                method, shares = name_of(advice), advice.shares
                is_stated = advice.source in (EQUAL, STATED)
                known = tuple(shares.values()) if shares and is_stated else None
            cut = getattr(args, "threshold", "")
            decided = thresholds.decide_table(cut, table, scores)
            name = f"{method} at {cut}" if cut else method
            diagnosis = diagnose_table(
                table, decided, name, strength, args.dtype, known, ordinal=is_ordinal
            )
            answers = decided.argmax(axis=-1)
            corrected.append(CorrectedContext(table, scores, diagnosis, advice, answers))
            waiting.move(len(corrected))
    return corrected


def _follow_file(file: str, tables: Sequence[ScoreTable]) -> list[tuple[Advice, np.ndarray]]:
    """Returns a file's advice for each context and the scores corrected by it."""
    saved, followed, left = read_advice(file), list[tuple[Advice, np.ndarray]](), 0
    for table, title in zip(tables, _distinct_titles(tables), strict=True):
        check_table(table, title)
        rows = check_scores(table.blocks["test"].log_probs, title)
        advice = doubt(table, choose_advice(saved, file, table.label_names, context=title))
        warn_of_few_rows(advice.method, get_method(advice.method).probe.blocks, len(rows), title)
        followed.append((advice, follow(table, advice)))
        left += advice.method == LEAVE
    if left:
        note = f"{file} advises to leave the scores of {left:,} of {len(tables):,} contexts as they"
        summaries.say_notes([f"{note} are: these stay unchanged."])
    return followed


def _correct(
    args: Namespace, tables: Sequence[ScoreTable], stated: Sequence[Stated]
) -> list[np.ndarray]:
    """Returns the tables' test rows as the method corrects them; raises if it cannot."""
    method, seed = args.method, args.seed
    for text in args.option:
        if "=" not in text:
            remedy = "write it as in --option=strength=0.5"
            raise InputError.at("--option", "NAME=VALUE", shown(text), remedy)
    chosen = read_options(f"{method}.{text}" for text in args.option)
    if args.strength is not None:
        chosen.setdefault(method, {})["strength"] = args.strength
    names = [str(table.context.get("task") or f"table {table.id}") for table in tables]
    for table, where in zip(tables, names, strict=True):
        check_table(table, where)
    groups, common = [*map(task_of, tables)], [of_context.options for of_context in stated]
    found = run_methods(tables, [method], options=chosen, seed=seed, groups=groups, common=common)
    for table, where, skipped in zip(tables, names, found.skipped, strict=True):
        if reason := skipped.get(method):
            raise InputError(
                f"{where}: {method} cannot correct it: {reason}; choose another --method."
            )
        for name, block in table.blocks.items():
            check_scores(block.log_probs, f"{where}, block {name}")
        rows = len(table.blocks["test"].row_ids)
        warn_of_few_rows(method, get_method(method).probe.blocks, rows, where)
    return [np.asarray(corrected[method].scores) for corrected in found.results]


def _range(args: Namespace, output_stream: TextIO) -> None:
    """Prints the range of predictions for missing scores at several distances below their bound."""
    if args.missing != "bound":
        return
    # The files are read again for each distance, in nats.
    by_distance = []
    for nats in DISTANCES:
        _, tables = inputs.contexts(args, below=nats)
        by_distance.append(_corrected(args, tables))
    summaries.show_range(by_distance, output_stream)


RUN = {
    "ask": ask_server,
    "calibrate": calibrate_files,
    "diagnose": diagnose_files,
    "compare": compare_files,
    "convert": convert_files,
    "ensemble": ensemble_files,
    "judge": judge,
    "recommend": recommend_files,
    "report": report_files,
    "threshold": choose_cut_offs,
}
