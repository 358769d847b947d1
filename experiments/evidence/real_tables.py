"""Tables of the study "real": by set, by method, by model, by context."""

from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np

from batch_calibration.methods import METHODS
from batch_calibration.metrics import gain_interval
from batch_calibration.reporting.cells import Cells
from experiments.evidence import statistics
from experiments.evidence.comparing import BASELINE, Compared, Counts
from experiments.evidence.judging import KNOWN
from experiments.evidence.sets import ScoreSet
from experiments.evidence.statistics import number_cells

GROUPS = {
    "paper": "the paper",
    "variant": "published variant",
    "unlabeled": "without labels",
    "labeled": "with labels",
}
TOLD = "true shares given"
IN_THE_FILE_ALONE = (
    "pc_raw", "bc_running", "bc_mean_prob", "bc_loo", "bc_shrunk", "bc_shrunk + true shares",
    "prior_counted", "temperature", "matrix",
)  # fmt: skip
"""Methods that the page's table leaves out: variants of those that it has."""


class Judged(NamedTuple):
    """A set, its methods compared with the baseline, and how long they took.

    Attributes:
        set: the contexts.
        plain: the baseline's answers.
        methods: method -> its comparison with the baseline.
        skipped: method -> why no context can have it.
        seconds: method -> seconds it took while the others ran.
        wall: seconds of all.
    """

    set: ScoreSet
    plain: Counts
    methods: dict[str, Compared]
    skipped: dict[str, str]
    seconds: dict[str, float]
    wall: float


def kind(name: str) -> str:
    """The group of a method in words."""
    return TOLD if name.endswith(KNOWN) else GROUPS[METHODS[name].group]


def reads_labels(name: str) -> bool:
    """True if a method is given labels, or the shares of them."""
    return name.endswith(KNOWN) or METHODS[name].probe.labels


def method_names(judged: Sequence[Judged]) -> list[str]:
    """The methods that any set can have, each once, in order."""
    return list(dict.fromkeys(chain.from_iterable(judged_set.methods for judged_set in judged)))


class Tally(NamedTuple):
    """One method over several sets.

    Attributes:
        method: its name.
        sets: how many sets can have it.
        gains: on how many its difference is a gain.
        losses: on how many it is a loss.
        mean: of the differences of accuracy, in points, a set as much as another.
        worst: the least difference of accuracy.
        where: the set of that.
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
        """The worst set and the mean in words."""
        return (
            f"{self.worst:+.1f} points where it does worst ({self.where}), {self.mean:+.1f} in the "
            f"mean of {self.sets} sets"
        )


def tallies(judged: Sequence[Judged]) -> list[Tally]:
    """Each method that most sets can have, over these."""
    tallied = []
    for name in method_names(judged):
        with_method = [judged_set for judged_set in judged if name in judged_set.methods]
        # A method that few sets can have would be ranked on other rows than the others.
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
    """A line a method that most sets can have: on how many it gains, loses, and its worst."""
    cells = [["method", "gains", "not certain", "losses", "mean, points", "worst"]]
    for line in tallies(judged):
        # The second: neither gain nor loss.
        counts = line.gains, line.sets - line.gains - line.losses, line.losses
        points = number_cells((line.mean, line.worst), "+.1f")
        cells.append([line.method, *map(str, counts), *points])
    return cells


def on_the_page(tallied: Cells) -> Cells:
    """The lines of methods that a reader may choose from; variants of them are in the file."""
    return [tallied[0], *(line for line in tallied[1:] if line[0] not in IN_THE_FILE_ALONE)]


def by_set(judged: Sequence[Judged], method: str) -> Cells:
    """A line a set: what it is, accuracy before, and what one method makes of it."""
    cells = [["set", "contexts", BASELINE, f"{method} - {BASELINE}", "won / lost"]]
    for judged_set in judged:
        plain = f"{judged_set.plain.accuracy.mean():.1f}"
        row = [judged_set.set.title, str(judged_set.plain.accuracy.size), plain]
        if compared := judged_set.methods.get(method):  # a set without it keeps empty cells
            won_and_lost = f"{compared.won.sum()} / {compared.lost.sum()}"
            row += [str(compared.accuracy), won_and_lost]
        cells.append(row + [""] * (len(cells[0]) - len(row)))
    return cells


def of_model(compared: Compared, model_index: int) -> tuple[float, float, float]:
    """One model's difference in points, and its 95 % interval: of tasks drawn, or rows if one."""
    counts = compared.counts
    # [tasks], points
    gain_by_task = 100 * (counts.gained - counts.lost)[model_index] / counts.rows[model_index]
    if len(gain_by_task) > 1:
        # One row, so that tasks alone are drawn: the interval is this model's.
        low, high = statistics.crossed_interval(gain_by_task[None])
        return float(gain_by_task.mean()), low, high
    # With a single task the chance left is in its rows.
    rows = np.stack([counts.gained, counts.lost, counts.rows])[:, model_index, 0].astype(int)
    ends = gain_interval(*rows.tolist())
    return float(gain_by_task.mean()), 100 * float(ends[0]), 100 * float(ends[1])


def _tallies(compared: Compared) -> list[np.ndarray]:
    """Which contexts [models, tasks] are won and lost, and which of both beyond noise."""
    won, lost, sure = compared.won, compared.lost, compared.sure
    return [won, lost, won & sure, lost & sure]


def summary(judged: Sequence[Judged]) -> Cells:
    """Everything measured of each set and method, for a spreadsheet."""
    cells = [[
        "set", "method", "kind", "contexts", "accuracy", "difference", "low", "high", "p_holm",
        "verdict", "balanced_accuracy", "balanced_difference", "balanced_low", "balanced_high",
        "balanced_p_holm", "balanced_verdict", "won", "lost", "won_beyond_noise",
        "lost_beyond_noise", "models_won", "models_lost", "seconds",
    ]]  # fmt: skip
    for judged_set in judged:
        for name, compared in judged_set.methods.items():
            counts, accuracy, balanced = compared
            # [models], rows gained less lost over all tasks
            gained = counts.gained.sum(axis=1) - counts.lost.sum(axis=1)
            tallies = [*_tallies(compared), gained > 0, gained < 0]  # contexts, then models
            cells.append([
                judged_set.set.name, name, kind(name), str(compared.won.size),
                *number_cells([counts.accuracy.mean(), *accuracy], ".6g"), accuracy.verdict,
                *number_cells([counts.balanced.mean(), *balanced], ".6g"), balanced.verdict,
                *(str(tally.sum()) for tally in tallies), f"{judged_set.seconds[name]:.2f}",
            ])  # fmt: skip
    return cells


def each_model(judged: Sequence[Judged]) -> Cells:
    """Each set, method and model, for a spreadsheet."""
    head = ["set", "method", "model", "accuracy", "difference", "low", "high", "won", "lost"]
    cells = [[*head, "won_beyond_noise", "lost_beyond_noise"]]
    for judged_set in judged:
        models = dict.fromkeys(str(table.context["model"]) for table in judged_set.set.tables)
        for name, compared in judged_set.methods.items():
            for index, model in enumerate(models):
                accuracy = compared.counts.accuracy[index].mean()
                numbers = number_cells([accuracy, *of_model(compared, index)], ".6g")
                tallies = [str(tally[index].sum()) for tally in _tallies(compared)]
                cells.append([judged_set.set.name, name, model, *numbers, *tallies])
    return cells


def each_context(judged: Sequence[Judged]) -> Cells:
    """Each set, method and context, for a spreadsheet."""
    cells = [["set", "method", "model", "task", "rows", "accuracy", "balanced_accuracy",
              "rows_gained", "rows_lost", "p_mcnemar"]]  # fmt: skip
    for judged_set in judged:
        tasks, tables = judged_set.set.shape[1], judged_set.set.tables
        by_method = {name: compared.counts for name, compared in judged_set.methods.items()}
        for name, counts in {BASELINE: judged_set.plain, **by_method}.items():
            p = statistics.mcnemar(counts.gained, counts.lost)  # 1 for the baseline itself
            numbers = np.stack([*counts[:4], p])  # [5, models, tasks]
            for (a, b), rows in np.ndenumerate(counts.rows):
                # A method may lack some of the set's tasks.
                context = tables[a * tasks + int(counts.tasks[b])].context
                facts = judged_set.set.name, name, str(context["model"]), str(context["task"])
                cells.append([*facts, f"{rows:.0f}", *number_cells(numbers[:, a, b], ".6g")])
    return cells
