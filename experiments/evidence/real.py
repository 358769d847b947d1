"""The study "real": every method on every context of real models, beside plain ICL."""

import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from batch_calibration.artifacts.cells import markdown
from batch_calibration.artifacts.grouping import REFERENCES
from batch_calibration.methods import METHODS, get_method
from experiments.evidence import real_tables as tables
from experiments.evidence.comparing import BASELINE, compare, count
from experiments.evidence.judging import KNOWN, answers
from experiments.evidence.page import Written
from experiments.evidence.real_tables import Judged
from experiments.evidence.sets import ScoreSet, read_sets, set_apart

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHOWN = REFERENCES[1]
"""The method whose results are told in words: the paper's."""


class Options(NamedTuple):
    """What is judged.

    Attributes:
        sets: names from `sets.SETS`.
        drawn: those of them in the page's figure and in its tables of methods.
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
    """Judge every set, and say what was found.

    Args:
        folder: the folder of label scores.
        options: what is judged.
    """
    for name in options.methods:
        get_method(name)
    judged = []
    for one in read_sets(folder, options.sets):
        judged.append(judge(one, options))
        print(f"{one.name}: {BASELINE} and {len(judged[-1].methods)} more on {len(one.tables)} "
              f"contexts in {judged[-1].wall:.1f} s, compilation included", flush=True)  # fmt: skip
    drawn = [one for one in judged if one.set.name in options.drawn]
    return Written(
        findings(drawn or judged), section(judged, drawn, options),
        {
            "evidence_real": tables.summary(judged),
            "evidence_real_models": tables.each_model(judged),
            "evidence_real_contexts": tables.each_context(judged),
        },
        {"evidence_real": partial(draw, drawn or judged)},
    )  # fmt: skip


def judge(one: ScoreSet, options: Options) -> Judged:
    """All methods on all contexts of a set, each on the same test rows."""
    start = time.perf_counter()
    chosen = [name for name in METHODS if not options.methods or name in options.methods]
    names = [BASELINE, *(name for name in chosen if name != BASELINE)]
    # The number of a task is the seed: the same rows are set apart for every model.
    numbers = range(len(one.tables))
    apart = [
        set_apart(one.tables[i], options.labeled, (options.seed, i % one.shape[1])) for i in numbers
    ]
    found = answers(apart, names, knowing=options.knowing, seed=options.seed)
    gold = [table.blocks["test"].labels for table in apart]
    plain = found.by_method[BASELINE]
    methods = compare(found.by_method, gold, one.models, seed=options.seed, draws=options.draws)
    counts = count(plain, plain, gold, one.models)
    wall = time.perf_counter() - start
    return Judged(one, counts, methods, found.skipped, found.seconds, wall)


def draw(judged: Sequence[Judged]) -> "Figure":
    """A panel a set, a row a method."""
    from batch_calibration.artifacts.figures import forest

    names = list(dict.fromkeys(name for one in judged for name in one.methods))
    panels = {
        one.set.title: {
            name: (d.value, d.low, d.high, d.verdict)
            for name, found in one.methods.items()
            if (d := found.accuracy)
        }
        for one in judged
    }
    return forest.draw(panels, names, f"accuracy - {BASELINE} (points)")


def findings(judged: Sequence[Judged]) -> list[str]:
    """Where the paper's method gains and loses, and what the others do where they do worst."""

    def where(verdict: str) -> str:
        found = [(one, one.methods[SHOWN].accuracy) for one in judged if SHOWN in one.methods]
        return "; ".join(
            f"{one.set.title} {d.value:+.1f} [{d.low:+.1f}, {d.high:+.1f}]"
            for one, d in found
            if d.verdict == verdict
        )

    words = {
        "gain": f"**{SHOWN} gains** (points of accuracy over {BASELINE}, 95 % interval)",
        "loss": f"**Do not use {SHOWN} on rows like these, where it loses**",
        "inside the noise": f"**{SHOWN} makes no difference beyond the noise, after Holm**",
    }
    said = [f"{text}: {where(verdict)}." for verdict, text in words.items() if where(verdict)]
    lines = tables.tallies(judged)
    mine = next((line for line in lines if line.method == SHOWN), None)
    for labels, kind in ((False, "without labels"), (True, "with labeled rows")):
        some = [line for line in lines if tables.reads_labels(line.method) == labels]
        # One that changes no prediction has nothing to lose.
        some = [x for x in some if not x.method.endswith(KNOWN) and (x.mean, x.worst) != (0, 0)]
        if some and mine:
            best = max(some, key=lambda line: line.worst)
            said.append(
                f"**Least to lose {kind}**: `{best.method}`, {best.told}; `{SHOWN}`, {mine.told}."
            )
    return said


def section(judged: Sequence[Judged], drawn: Sequence[Judged], options: Options) -> str:
    """The section in Markdown."""
    wide = drawn or judged
    left: dict[str, list[str]] = {}
    for one in judged:
        for name, why in one.skipped.items():
            left[name] = list(dict.fromkeys([*left.get(name, []), why]))
    never = [name for name in left if all(name in one.skipped for one in judged)]
    reasons = (f"`{name}` ({', or '.join(left[name])})" for name in never)
    parts = [
        "The sets: " + "; ".join(f"{one.set.title}: {one.set.about}" for one in judged) + ".",
        f"Of each context {options.labeled} rows, a quarter of its rows at most, are drawn and set "
        "apart with their labels, for methods that read labels; all methods are judged on the "
        "rows that are left, and methods without labels see these alone."
        if options.labeled
        else "All rows are test rows; methods that read labels are left out.",
        "Left out everywhere: " + "; ".join(reasons) + "." if never else "",
        "![Difference to ICL](figures/evidence_real.png)",
        "### Every method over these sets",
        markdown(tables.tally(wide)),
        f"### {SHOWN} on each set",
        markdown(tables.by_set(judged, SHOWN)),
        "### Every method: difference to ICL in accuracy, points",
        *(markdown(tables.by_method(wide[i : i + 4], "accuracy")) for i in range(0, len(wide), 4)),
        "### Every method: difference to ICL in balanced accuracy, points",
        *(markdown(tables.by_method(wide[i : i + 4], "balanced")) for i in range(0, len(wide), 4)),
    ]
    for one in wide:
        if min(one.set.shape) > 1 and SHOWN in one.methods:
            parts += [f"### {one.set.title}, by model", markdown(tables.by_model(one, [SHOWN]))]
    return "\n\n".join(filter(None, parts))
