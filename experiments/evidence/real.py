"""The study "real": compares every method with plain ICL on every context of real models."""

from collections.abc import Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure

from batch_calibration.methods import METHODS, get_method
from batch_calibration.metrics import Estimate
from batch_calibration.reporting.cells import Cells, markdown
from batch_calibration.reporting.figures.intervals import draw_forest
from batch_calibration.reporting.frame import REFERENCES
from experiments.evidence import charts
from experiments.evidence.comparing import BASELINE, Compared, Counts, compare, count
from experiments.evidence.judging import KNOWN, answers
from experiments.evidence.page import Written, csv_link
from experiments.evidence.sets import ScoreSet, read_sets, set_apart
from experiments.evidence.statistics import number_cells

GROUPS = {
    "paper": "the paper",
    "variant": "published variant",
    "unlabeled": "without labels",
    "labeled": "with labels",
}
TOLD = "true shares given"
IN_THE_FILE_ALONE = (
    "pc_raw", "bc_running", "bc_mean_prob", "bc_prob_shift", "bc_loo", "bc_shrunk",
    "bc_shrunk + true shares", "prior_counted", "matrix",
)  # fmt: skip
"""Methods that only the CSV file lists, because they are variants of methods on the page."""


class Judged(NamedTuple):
    """A set, the comparison of its methods with the baseline, and their durations.

    Attributes:
        set: the contexts.
        plain: results of the baseline.
        methods: method -> comparison with the baseline.
        skipped: method -> reason, for methods that fit no context.
        seconds: method -> duration in parallel with other methods.
    """

    set: ScoreSet
    plain: Counts
    methods: dict[str, Compared]
    skipped: dict[str, str]
    seconds: dict[str, float]


def kind(name: str) -> str:
    """Returns the name of a method's group."""
    return TOLD if name.endswith(KNOWN) else GROUPS[METHODS[name].group]


def reads_labels(name: str) -> bool:
    """Returns True if a method gets labels or label shares."""
    return name.endswith(KNOWN) or METHODS[name].probe.labels


def method_names(judged: Sequence[Judged]) -> list[str]:
    """Lists the methods with results on any of the sets, in order."""
    return list(dict.fromkeys(chain.from_iterable(judged_set.methods for judged_set in judged)))


class Tally(NamedTuple):
    """One method's results over several sets.

    Attributes:
        method: name of the method.
        sets: number of sets with the method.
        gains: number of sets with the verdict "gain".
        losses: number of sets with the verdict "loss".
        mean: mean difference of accuracy over sets, in points.
        worst: lowest difference of accuracy, in points.
        where: title of the set with the lowest difference.
    """

    method: str
    sets: int
    gains: int
    losses: int
    mean: float
    worst: float
    where: str

    @property
    def sentence(self) -> str:
        """The worst difference and the mean, for a finding."""
        return (
            f"{self.worst:+.1f} points on {self.where}, {self.mean:+.1f} on "
            f"average over {self.sets} sets"
        )


def tallies(judged: Sequence[Judged]) -> list[Tally]:
    """Summarizes each method that more than half of the sets have."""
    tallied = []
    for name in method_names(judged):
        with_method = [judged_set for judged_set in judged if name in judged_set.methods]
        # A method on few sets is not comparable, because the others have more rows.
        if 2 * len(with_method) <= len(judged):
            continue
        differences = [judged_set.methods[name].accuracy for judged_set in with_method]
        verdicts = [difference.verdict for difference in differences]
        gains = [difference.value for difference in differences]
        worst, mean = int(np.argmin(gains)), float(np.mean(gains))
        counts = len(gains), verdicts.count("gain"), verdicts.count("loss")
        tallied.append(Tally(name, *counts, mean, gains[worst], with_method[worst].set.title))
    return tallied


def tally(judged: Sequence[Judged]) -> Cells:
    """Formats a line for each method of `tallies`: gains, losses, mean and worst difference."""
    cells = [["method", "gains", "not certain", "losses", "mean, points", "worst"]]
    for line in tallies(judged):
        # The second number counts sets with neither gain nor loss.
        counts = line.gains, line.sets - line.gains - line.losses, line.losses
        points = number_cells((line.mean, line.worst), "+.1f")
        cells.append([line.method, *map(str, counts), *points])
    return cells


def on_the_page(tallied: Cells) -> Cells:
    """Selects the lines for the page; variants of its methods are only in the CSV file."""
    return [tallied[0], *(line for line in tallied[1:] if line[0] not in IN_THE_FILE_ALONE)]


def by_set(judged: Sequence[Judged], method: str) -> Cells:
    """Formats a line for each set: its title, accuracy before, and one method's difference."""
    cells = [["set", "contexts", BASELINE, f"{method} - {BASELINE}", "won / lost"]]
    for judged_set in judged:
        plain = f"{judged_set.plain.accuracy.mean():.1f}"
        row = [judged_set.set.title, str(judged_set.plain.accuracy.size), plain]
        if compared := judged_set.methods.get(method):  # a set without it keeps empty cells
            row += [str(compared.accuracy), f"{compared.won.sum()} / {compared.lost.sum()}"]
        cells.append(row + [""] * (len(cells[0]) - len(row)))
    return cells


def _tallies(compared: Compared) -> list[np.ndarray]:
    """Finds the contexts [models, tasks] that are won, lost, won and lost beyond noise."""
    won, lost, sure = compared.won, compared.lost, compared.sure
    return [won, lost, won & sure, lost & sure]


def summary(judged: Sequence[Judged]) -> Cells:
    """Formats all results of each set and method, for a spreadsheet."""
    cells = [[
        "set", "method", "kind", "contexts", "accuracy", "difference", "low", "high", "p_holm",
        "verdict", "balanced_accuracy", "balanced_difference", "balanced_low", "balanced_high",
        "balanced_p_holm", "balanced_verdict", "won", "lost", "won_beyond_noise",
        "lost_beyond_noise", "models_won", "models_lost", "seconds",
    ]]  # fmt: skip
    for judged_set in judged:
        for name, compared in judged_set.methods.items():
            counts, accuracy, balanced = compared
            # [models], rows gained minus rows lost over all tasks
            gained = counts.gained.sum(axis=1) - counts.lost.sum(axis=1)
            tallies = [*_tallies(compared), gained > 0, gained < 0]  # contexts, then models
            cells.append([
                judged_set.set.name, name, kind(name), str(compared.won.size),
                *number_cells([counts.accuracy.mean(), *accuracy], ".6g"), accuracy.verdict,
                *number_cells([counts.balanced.mean(), *balanced], ".6g"), balanced.verdict,
                *(str(tally.sum()) for tally in tallies), f"{judged_set.seconds[name]:.2f}",
            ])  # fmt: skip
    return cells


SHOWN = REFERENCES[1]
"""The method in the table by set: BC."""


class Options(NamedTuple):
    """Settings of the study.

    Attributes:
        sets: names from `sets.SETS`.
        drawn: names of the sets in the page's figure and in its table of methods.
        methods: names from `METHODS`; by default all.
        knowing: names of methods that also run with the true label shares.
        labeled: number of rows of each context set aside with their labels, at most a quarter.
        seed: seed of the rows set aside, of methods with a random start and of the draws.
        draws: number of draws of the bootstrap and the test.
    """

    sets: Sequence[str]
    drawn: Sequence[str] = ()
    methods: Sequence[str] = ()
    knowing: Sequence[str] = ()
    labeled: int = 32
    seed: int = 0
    draws: int = 10_000


def run(folder: Path, options: Options) -> Written:
    """Runs the study: judges every method on every set."""
    for name in options.methods:  # refuses a wrong name before anything is read
        get_method(name)
    judged = []
    for score_set in read_sets(folder, options.sets):
        judged.append(judge(score_set, options))
        counted = f"{len(judged[-1].methods)} more on {len(score_set.tables)} contexts"
        print(f"{score_set.name}: {BASELINE} and {counted}", flush=True)
    drawn = [score_set for score_set in judged if score_set.set.name in options.drawn] or judged
    cells = {"evidence_real": summary(judged), "evidence_methods": tally(drawn)}
    figures = {"evidence_real": partial(draw, drawn)}
    return Written(findings(drawn), section(judged, drawn, options), cells, figures)


def judge(score_set: ScoreSet, options: Options) -> Judged:
    """Evaluates all methods on all contexts of a set, on the same test rows."""
    chosen = options.methods or METHODS
    names = [BASELINE, *(name for name in METHODS if name in chosen and name != BASELINE)]
    split_tables = []
    for i, table in enumerate(score_set.tables):
        # Tables are ordered by model, then task. The task's index is part of the seed, so that all
        # models have the same rows set aside.
        seed = options.seed, i % score_set.shape[1]
        split_tables.append(set_apart(table, options.labeled, seed))
    gold = [table.blocks["test"].labels for table in split_tables]
    by_method, skipped, seconds = answers(
        split_tables, names, knowing=options.knowing, seed=options.seed
    )
    methods = compare(by_method, gold, score_set.models, seed=options.seed, draws=options.draws)
    plain = by_method[BASELINE]
    counts = count(plain, plain, gold, score_set.models)  # compared with itself: only accuracies
    return Judged(score_set, counts, methods, skipped, seconds)


def draw(judged: Sequence[Judged]) -> Figure:
    """Draws a panel for each set, with a row for each method."""
    panels: dict[str, dict[str, tuple[Estimate, int]]] = {}
    for judged_set in judged:
        panel = panels[judged_set.set.title] = {}
        for name, (_, gain, _) in judged_set.methods.items():
            panel[name] = charts.forest_row(*gain[:3], gain.sign)
    label, heading = f"accuracy - {BASELINE} (points)", "Each method against the scores as they are"
    return draw_forest(panels, method_names(judged), label, heading, ("set", "method")).figure


def findings(judged: Sequence[Judged]) -> list[str]:
    """Writes the findings: the methods with the least loss on their worst set."""
    sentences = []
    by_method = {line.method: line for line in tallies(judged)}
    for has_labels, kind in ((False, "without labels"), (True, "with labeled rows")):
        same_kind = []
        for name, tally in by_method.items():
            # Excludes methods that change no prediction, which cannot lose.
            is_compared = not name.endswith(KNOWN) and (tally.mean, tally.worst) != (0, 0)
            if is_compared and reads_labels(name) == has_labels:
                same_kind.append(tally)
        if same_kind and SHOWN in by_method:
            best = max(same_kind, key=lambda tally: tally.worst)
            sentences.append(
                f"**Smallest loss on the worst set {kind}**: `{best.method}`, {best.sentence}."
            )
    return sentences


def section(judged: Sequence[Judged], drawn: Sequence[Judged], options: Options) -> str:
    """Writes the section in Markdown."""
    # Methods that fit no set are not in the tables, so the text names them.
    never = list(judged[0].skipped)
    for judged_set in judged:
        never = [name for name in never if name in judged_set.skipped]
    paragraphs = [
        f"{options.labeled} rows of each context, at most a quarter, are set aside with their "
        "labels for methods that read labels. All methods are judged on the other rows."
        if options.labeled
        else "All rows are test rows; methods that read labels are left out.",
        f"These scores lack the probes of {', '.join(f'`{name}`' for name in never)}."
        if never
        else "",
        "![Difference to ICL](figures/evidence_real.png)",
        "### Every method over these sets",
        markdown(on_the_page(tally(drawn))),
        f"[All methods]({csv_link('evidence_methods')}).",
        f"### {SHOWN} on each set",
        markdown(by_set(drawn, SHOWN)),
        f"[Every method on every set]({csv_link('evidence_real')}), with intervals, p-values and "
        "balanced accuracy.",
    ]
    return "\n\n".join(filter(None, paragraphs))
