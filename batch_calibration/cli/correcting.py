"""Reads contexts, corrects them as the flags say, and gives advice on each."""

import warnings
from argparse import Namespace
from collections.abc import Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.special import expit, logit

from batch_calibration.arrays.numbers import check_key
from batch_calibration.calibration import temperature as temperatures
from batch_calibration.cli import inputs, prior, summaries
from batch_calibration.cli.prior import Stated
from batch_calibration.cli.progress import Waiting, show_progress
from batch_calibration.cli.summaries import MAX_SHOWN_SINGLY, CorrectedContext, temper
from batch_calibration.diagnosis import Advice
from batch_calibration.diagnosis import advice as advices
from batch_calibration.diagnosis.diagnose import diagnose_table
from batch_calibration.diagnosis.known_shares import BY_DESIGN
from batch_calibration.diagnosis.recommend import (
    FEWEST_LABELED_TO_MEASURE,
    advise_by_labels,
    move_by_counts,
    recommend_tables,
)
from batch_calibration.diagnosis.threshold import answer
from batch_calibration.diagnosis.verdicts import doubt, follow, name_of
from batch_calibration.errors import InputError, answering, extra, refuse_unknown, shown
from batch_calibration.methods import Corrected, Evidence, Options, ask_about_order, get_method
from batch_calibration.methods import options as chosen_options
from batch_calibration.methods.run import correct_labeled, holds_cosines, run_methods, task_of
from batch_calibration.methods.validation import check_scores, warn_of_few_rows
from batch_calibration.metrics import measure_reliability
from batch_calibration.scores import BALANCED, NO_PLACE_BIAS, ScoreTable
from batch_calibration.scores import check as check_table


def read_contexts(args: Namespace) -> tuple[list[Path], list[ScoreTable]]:
    """Returns each context's file and scores; prints the notes that reading them produced."""
    files, tables = inputs.contexts(args)
    sentences = inputs.note_of_files(args, inputs.paths(args), tables)
    sentences += summaries.group_notes(tables)
    # For a few contexts these commands print the doubts together with each context.
    if args.command not in ("calibrate", "diagnose") or len(tables) > MAX_SHOWN_SINGLY:
        sentences += summaries.doubts(tables)
    summaries.say_notes(sentences)
    return files, tables


def check_method(args: Namespace) -> None:
    """Raises an error if the method or the temperature is wrong, or its needs are not met."""
    if args.plot and find_spec("matplotlib") is None:
        raise InputError.at("--plot", "matplotlib, which draws it", "none", extra("plots"))
    if args.temperature not in (None, temperatures.AUTO):
        with answering(ValueError, f"--temperature={args.temperature}", "auto, or a number"):
            args.temperature = float(args.temperature)
        temperatures.check_temperature(args.temperature)
    if args.advice:
        replaced = ("method", "option", "strength", "prior")
        given = {name: getattr(args, name) not in ("", [], None) for name in replaced}
        advices.refuse_beside_advice(**given)
        args.method = "advice"  # in the names of metrics
        return
    args.method = args.method or "bc"
    probe = get_method(args.method).probe
    for block in probe.blocks:
        name = "labeled" if block == "labeled" else "probe"
        if block != "test" and not getattr(args, name):
            learns = f"{args.method} learns its bias from {probe.description}"
            remedy = f"use --{name}=FILE, or --method=bc, which learns from the rows themselves."
            raise InputError(f"{learns}, but their scores are missing: {remedy}")


class Correction(NamedTuple):
    """A correction of a context, and how it was made."""

    method: str
    options: Options
    corrected: Corrected

    def labeled_rows(self, table: ScoreTable, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """Returns the corrected scores of the labeled rows with known labels, and the labels."""
        blocks = {name: Evidence(*block[:2]) for name, block in table.blocks.items()}
        gold, method = table.blocks["labeled"].labels, get_method(self.method)
        learn = partial(correct_labeled, method, options=self.options, key=check_key(seed))
        return learn(blocks, self.corrected)[gold >= 0], gold[gold >= 0]


def correct_contexts(args: Namespace, tables: Sequence[ScoreTable]) -> list[CorrectedContext]:
    """Returns each context with its corrected scores."""
    stated = prior.state(args.prior, tables)
    # A method may warn once for each context; each warning is printed once.
    with warnings.catch_warnings(record=True) as caught, Waiting("correcting"):
        warnings.simplefilter("always")
        if args.advice:
            found, advised = _follow_file(args.advice, tables)
        else:
            found, advised = _correct(args, tables, stated), list[Advice]()
    summaries.say_notes(str(warning.message) for warning in caught)
    advised = advised or advise_contexts(tables, stated, ordinal=args.ordinal)
    finish = map(partial(_finish, args), tables, found, advised, stated)
    return [*show_progress("diagnosing", finish, len(tables))]


def _finish(
    args: Namespace, table: ScoreTable, found: Correction, advice: Advice, stated: Stated
) -> CorrectedContext:
    """Returns a context with its temperature, its answers and its diagnosis."""
    name, known = args.method, stated.known and stated.known.all_shares(len(table.label_names))
    if args.advice:
        name, is_stated = name_of(advice), advice.source in (advices.EQUAL, advices.STATED)
        known = tuple((advice.shares or {}).values()) * is_stated or None
    scores, labeled, answers = np.asarray(found.corrected.scores), None, None
    is_fitted = args.temperature == temperatures.AUTO or args.command == "threshold"
    if "labeled" in table.blocks and is_fitted:
        labeled = found.labeled_rows(table, args.seed)
    temperature = judged = args.temperature
    if temperature == temperatures.AUTO:
        temperature, judged = _fit_temperature(table, scores, labeled)
    if cut := getattr(args, "threshold", ""):
        answers = _answer(cut, table, temper(scores, temperature))
        name += f" at {cut}"
    strength = 1.0 if args.strength is None else args.strength
    diagnose = partial(diagnose_table, temperature=judged, answers=answers, ordinal=args.ordinal)
    diagnosis = diagnose(table, scores, name, strength, args.dtype, known)
    if labeled and judged is not None and not diagnosis.labeled:
        divisors = temperatures.cross_fit_temperature(*labeled)[:, None]
        tempered = measure_reliability(labeled[0] / divisors, labeled[1])
        diagnosis = diagnosis._replace(tempered=tempered)
    return CorrectedContext(table, scores, diagnosis, advice, temperature, labeled, answers)


def _fit_temperature(
    table: ScoreTable, scores: np.ndarray, labeled: tuple[np.ndarray, np.ndarray] | None
) -> tuple[float, float | np.ndarray]:
    """Returns the temperature of a context, and the cross-fitted one that its labels judge."""
    rows, gold = labeled or (scores, table.blocks["test"].labels)
    if (count := (gold >= 0).sum()) < FEWEST_LABELED_TO_MEASURE:
        expected = f"at least {FEWEST_LABELED_TO_MEASURE} labeled rows, as labels fit a temperature"
        remedy = "use --labeled=FILE, --gold=COLUMN, or a number"
        raise InputError.at("--temperature=auto", expected, count, remedy)
    temperature = float(temperatures.find_temperature(rows, gold))
    return temperature, temperature if labeled else temperatures.cross_fit_temperature(rows, gold)


def _answer(text: str, table: ScoreTable, scores: np.ndarray) -> np.ndarray:
    """Answers rows [n, k] of a table by the cut-off LABEL=PROBABILITY."""
    where, (label, _, number) = f"--threshold={text}", text.rpartition("=")
    expected, remedy = "LABEL=PROBABILITY, above 0 and below 1", "the command threshold gives one"
    with answering(ValueError, where, expected, remedy):
        share = float(number)
    refuse_unknown("label", label, table.label_names, where=where)
    if not 0 < share < 1:
        remedy = f"log-odds L are 1 / (1 + exp(-L)): --threshold={label}={expit(share):.6g}"
        raise InputError.at(where, expected, number, remedy)
    return answer(scores, table.label_names.index(label), float(logit(share)))


def _follow_file(file: str, tables: Sequence[ScoreTable]) -> tuple[list[Correction], list[Advice]]:
    """Returns the correction of each context by a file's advice, and the advice."""
    saved, found, advised = advices.read_advice(file), list[Correction](), list[Advice]()
    for table, title in zip(tables, distinct_titles(tables), strict=True):
        check_table(table, title)
        rows = check_scores(table.blocks["test"].log_probs, title)
        advice = doubt(table, advices.choose_advice(saved, file, table.label_names, context=title))
        warn_of_few_rows(advice.method, get_method(advice.method).probe.blocks, len(rows), title)
        advised.append(advice)
        found.append(Correction(advice.method, dict(advice.options), follow(table, advice)))
    if left := sum(advice.method == advices.LEAVE for advice in advised):
        note = f"{file} advises to leave the scores of {left:,} of {len(tables):,} contexts as they"
        summaries.say_notes([f"{note} are: these stay unchanged."])
    return found, advised


def _correct(
    args: Namespace, tables: Sequence[ScoreTable], stated: Sequence[Stated]
) -> list[Correction]:
    """Returns the correction of each table by the method; raises if it cannot."""
    method, seed = args.method, args.seed
    for text in args.option:
        if "=" not in text:
            raise InputError.at(
                "--option", "NAME=VALUE", shown(text), "write --option=strength=0.5"
            )
    chosen = chosen_options.read_options(f"{method}.{text}" for text in args.option)
    if args.strength is not None:
        chosen.setdefault(method, {})["strength"] = args.strength
    names = [str(table.context.get("task") or f"table {table.id}") for table in tables]
    for table, where in zip(tables, names, strict=True):
        check_table(table, where)
    groups, common = [*map(task_of, tables)], [of_context.options for of_context in stated]
    found = run_methods(tables, [method], options=chosen, seed=seed, groups=groups, common=common)
    for table, where, skipped in zip(tables, names, found.skipped, strict=True):
        if reason := skipped.get(method):
            sentence = f"{where}: {method} cannot correct it: {reason}; choose another --method."
            raise InputError(sentence)
        for name, block in table.blocks.items():
            check_scores(block.log_probs, f"{where}, block {name}")
        rows = len(table.blocks["test"].row_ids)
        warn_of_few_rows(method, get_method(method).probe.blocks, rows, where)
    corrections, own = [], partial(chosen_options.with_common, found.options, [method])
    for corrected, of_context in zip(found.results, common, strict=True):
        corrections.append(Correction(method, own(of_context).get(method, {}), corrected[method]))
    return corrections


def advise_contexts(
    tables: Sequence[ScoreTable], stated: Sequence[Stated], *, by_labels: bool = False,
    ordinal: bool | Sequence[str] | None = None,
) -> list[Advice]:  # fmt: skip
    """Returns the advice for each context.

    Args:
        tables: the contexts; those of a task are pooled.
        stated: the shares that the user stated for each context.
        by_labels: True uses labeled rows, too: of --labeled, or else of the contexts themselves for
            a second answer.
        ordinal: see `recommend`.
    """
    known = []
    for table, of_context in zip(tables, stated, strict=True):
        by_design = BY_DESIGN if table.context.get(BALANCED) is True else None
        known.append(of_context.known or by_design)
    counts, advise = [one.counts for one in stated], partial(_advise_one, by_labels=by_labels)
    with Waiting("choosing a correction"):
        advised = recommend_tables(tables, [*map(task_of, tables)], known, ordinal=ordinal)
        return [*map(advise, tables, advised, counts)]


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


def follow_advice(table: ScoreTable, advice: Advice) -> CorrectedContext:
    """Returns a context corrected as advised."""
    corrected = np.asarray(follow(table, advice).scores)
    diagnosis = diagnose_table(table, corrected, name_of(advice))
    return CorrectedContext(table, corrected, diagnosis, advice)


def distinct_titles(tables: Sequence[ScoreTable]) -> list[str]:
    """Returns the titles of contexts, with their ids if a title repeats."""
    titles = [summaries.title(table) for table in tables]
    if len(set(titles)) < len(titles):
        titles = [f"{title} ({table.id})" for table, title in zip(tables, titles, strict=True)]
    return titles
