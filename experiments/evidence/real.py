"""The study "real": every method on every context of real models, compared with plain ICL."""

import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from matplotlib.figure import Figure

from batch_calibration.methods import METHODS, get_method
from batch_calibration.metrics import Estimate
from batch_calibration.reporting.cells import markdown
from batch_calibration.reporting.figures.intervals import draw_forest
from batch_calibration.reporting.frame import REFERENCES
from experiments.evidence import real_tables as tables
from experiments.evidence.comparing import BASELINE, compare, count
from experiments.evidence.judging import KNOWN, answers
from experiments.evidence.page import Written, csv_link
from experiments.evidence.real_tables import Judged
from experiments.evidence.sets import ScoreSet, read_sets, set_apart
from experiments.evidence.statistics import interval_cell

SHOWN = REFERENCES[1]
"""The method whose results the sentences give: the paper's."""


class Options(NamedTuple):
    """Settings of the study.

    Attributes:
        sets: names from `sets.SETS`.
        drawn: the sets in the page's figure and in its tables of methods.
        methods: names from `METHODS`, all where none is named.
        knowing: methods that are also told the true shares of labels.
        labeled: so many rows of each context are set apart with their labels, a quarter at most.
        seed: of the rows set apart, of methods that start at random and of the draws.
        draws: of bootstrap and test.
    """

    sets: Sequence[str]
    drawn: Sequence[str] = ()
    methods: Sequence[str] = ()
    knowing: Sequence[str] = ()
    labeled: int = 32
    seed: int = 0
    draws: int = 10_000


def run(folder: Path, options: Options) -> Written:
    """Judge every set, and say what was found."""
    for name in options.methods:  # a wrong name is refused before anything is read
        get_method(name)
    judged = []
    for score_set in read_sets(folder, options.sets):
        judged.append(judge(score_set, options))
        counted = f"{len(judged[-1].methods)} more on {len(score_set.tables)} contexts"
        took = f"{judged[-1].wall:.1f} s, compilation included"
        print(f"{score_set.name}: {BASELINE} and {counted} in {took}", flush=True)
    drawn = [score_set for score_set in judged if score_set.set.name in options.drawn] or judged
    cells = {
        "evidence_real": tables.summary(judged),
        "evidence_methods": tables.tally(drawn),
        "evidence_real_models": tables.each_model(judged),
        "evidence_real_contexts": tables.each_context(judged),
    }
    figures = {"evidence_real": partial(draw, drawn)}
    return Written(findings(drawn), section(judged, drawn, options), cells, figures)


def judge(score_set: ScoreSet, options: Options) -> Judged:
    """All methods on all contexts of a set, each on the same test rows."""
    start = time.perf_counter()
    chosen = options.methods or METHODS
    names = [BASELINE, *(name for name in METHODS if name in chosen and name != BASELINE)]
    split_tables = []
    for i, table in enumerate(score_set.tables):
        # Models x tasks: the number of a task is the seed, so that the same rows are set apart for
        # every model.
        seed = options.seed, i % score_set.shape[1]
        split_tables.append(set_apart(table, options.labeled, seed))
    gold = [table.blocks["test"].labels for table in split_tables]
    by_method, skipped, seconds = answers(
        split_tables, names, knowing=options.knowing, seed=options.seed
    )
    methods = compare(by_method, gold, score_set.models, seed=options.seed, draws=options.draws)
    plain = by_method[BASELINE]
    counts = count(plain, plain, gold, score_set.models)  # beside itself: accuracies without gains
    wall = time.perf_counter() - start
    return Judged(score_set, counts, methods, skipped, seconds, wall)


# The sign of a verdict; of the others it is 0.
SIGNS = {"gain": 1, "loss": -1}


def draw(judged: Sequence[Judged]) -> Figure:
    """A panel a set, a row a method."""
    panels: dict[str, dict[str, tuple[Estimate, int]]] = {}
    for judged_set in judged:
        panel = panels[judged_set.set.title] = {}
        for name, compared in judged_set.methods.items():
            value, low, high, _ = compared.accuracy
            sign = SIGNS.get(compared.accuracy.verdict, 0)
            panel[name] = Estimate(value / 100, low / 100, high / 100), sign
    label, heading = f"accuracy - {BASELINE} (points)", "Each method against the scores as they are"
    return draw_forest(
        panels, tables.method_names(judged), label, heading, ("set", "method")
    ).figure


def findings(judged: Sequence[Judged]) -> list[str]:
    """Where the paper's method gains and loses, and what the others do where they do worst."""
    sets_by_verdict: dict[str, list[str]] = {}
    for judged_set in judged:
        if SHOWN in judged_set.methods:
            gain = judged_set.methods[SHOWN].accuracy
            text = f"{judged_set.set.title} {interval_cell(gain.value, gain.low, gain.high)}"
            sets_by_verdict.setdefault(gain.verdict, []).append(text)
    sentence_starts = {
        "gain": f"**{SHOWN} gains** (points of accuracy over {BASELINE}, 95 % interval)",
        "loss": f"**Do not use {SHOWN} on rows like these, where it loses**",
        "gain, not certain": f"**{SHOWN} gains, not certainly**: the interval leaves out 0, the "
        "test over models is not passed after Holm's correction over all methods of the set",
        "loss, not certain": f"**{SHOWN} loses, not certainly**, by the same measure",
        "inside the noise": f"**The interval of {SHOWN} holds 0**",
    }
    sentences = []
    for verdict, text in sentence_starts.items():
        if verdict in sets_by_verdict:
            sentences.append(f"{text}: {'; '.join(sets_by_verdict[verdict])}.")
    tallies = {tally.method: tally for tally in tables.tallies(judged)}
    for has_labels, kind in ((False, "without labels"), (True, "with labeled rows")):
        same_kind = []
        for name, tally in tallies.items():
            # One that changes no prediction has nothing to lose.
            is_compared = not name.endswith(KNOWN) and (tally.mean, tally.worst) != (0, 0)
            if is_compared and tables.reads_labels(name) == has_labels:
                same_kind.append(tally)
        if same_kind and SHOWN in tallies:
            best = max(same_kind, key=lambda tally: tally.worst)  # whose worst set is the least bad
            sentences.append(
                f"**Least to lose {kind}**: `{best.method}`, {best.sentence}; "
                f"`{SHOWN}`, {tallies[SHOWN].sentence}."
            )
    return sentences


def section(judged: Sequence[Judged], drawn: Sequence[Judged], options: Options) -> str:
    """The section in Markdown."""
    # A method that at least one set can have is in the tables; the others are named here.
    never = list(judged[0].skipped)
    for judged_set in judged:
        never = [name for name in never if name in judged_set.skipped]
    paragraphs = [
        f"Of each context {options.labeled} rows, a quarter of its rows at most, are drawn and set "
        "apart with their labels, for methods that read labels; all methods are judged on the "
        "rows that are left, and methods without labels see these alone."
        if options.labeled
        else "All rows are test rows; methods that read labels are left out.",
        "Left out everywhere, for want of the rows that they learn from or of log-probabilities "
        f"over a vocabulary: {', '.join(f'`{name}`' for name in never)}."
        if never
        else "",
        "![Difference to ICL](figures/evidence_real.png)",
        "### Every method over these sets",
        markdown(tables.on_the_page(tables.tally(drawn))),
        f"[All methods]({csv_link('evidence_methods')}).",
        f"### {SHOWN} on each set",
        markdown(tables.by_set(judged, SHOWN)),
        f"[Every method on every set]({csv_link('evidence_real')}), with intervals, p-values and "
        "balanced accuracy; the command also writes each model and each context.",
    ]
    return "\n\n".join(filter(None, paragraphs))
