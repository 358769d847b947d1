"""Tables of the study "real": by set, by method, by model, by context."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from batch_calibration.artifacts.cells import Cells
from batch_calibration.methods import METHODS
from batch_calibration.metrics import gain_interval
from experiments.evidence import statistics
from experiments.evidence.comparing import BASELINE, Compared, Counts
from experiments.evidence.judging import KNOWN
from experiments.evidence.sets import ScoreSet

GROUPS = {
    "paper": "the paper",
    "variant": "published variant",
    "unlabeled": "without labels",
    "labeled": "with labels",
}
TOLD = "true shares given"


class Judged(NamedTuple):
    """A set, its methods beside the baseline, and how long they took.

    Attributes:
        set: the contexts.
        plain: the baseline's answers.
        methods: method -> it beside the baseline.
        skipped: method -> why no context can have it.
        seconds: method -> how long it took beside the others.
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
    """Whether a method is given labels, or the shares of them."""
    return name.endswith(KNOWN) or METHODS[name].probe.labels


def ratio(flags: np.ndarray, others: np.ndarray) -> str:
    """How many contexts are won and lost."""
    return f"{int(flags.sum())} / {int(others.sum())}"


class Tally(NamedTuple):
    """One method over several sets.

    Attributes:
        method: its name.
        sets: how many sets can have it.
        gains: on how many its difference is a gain.
        losses: on how many it is a loss.
        mean: of the differences of accuracy, in points, a set as much as another.
        balanced: of those of balanced accuracy.
        worst: the least difference of accuracy.
        where: the set of that.
    """

    method: str
    sets: int
    gains: int
    losses: int
    mean: float
    balanced: float
    worst: float
    where: str

    @property
    def told(self) -> str:
        """The worst set and the mean in words."""
        return (
            f"{self.worst:+.1f} points where it does worst ({self.where}), {self.mean:+.1f} in the "
            f"mean of {self.sets} sets"
        )


def tallies(judged: Sequence[Judged]) -> list[Tally]:
    """Each method that most sets can have, over these."""
    names = dict.fromkeys(name for one in judged for name in one.methods)
    found = []
    for name in names:
        has = [one for one in judged if name in one.methods]
        every = [one.methods[name].accuracy for one in has]
        if 2 * len(has) > len(judged):
            least = min(range(len(has)), key=lambda place: every[place].value)
            found.append(Tally(
                name, len(has), sum(d.verdict == "gain" for d in every),
                sum(d.verdict == "loss" for d in every), float(np.mean([d.value for d in every])),
                float(np.mean([one.methods[name].balanced.value for one in has])),
                every[least].value, has[least].set.title,
            ))  # fmt: skip
    return found


def tally(judged: Sequence[Judged]) -> Cells:
    """A line a method that most sets can have: on how many it gains, loses, and its worst."""
    head = ["method", "kind", "sets", "gains", "inside the noise", "losses", "mean, points"]
    cells = [[*head, "mean, balanced", "worst", "where"]]
    for one in tallies(judged):
        counts = one.sets, one.gains, one.sets - one.gains - one.losses, one.losses
        numbers = (f"{x:+.1f}" for x in (one.mean, one.balanced, one.worst))
        cells.append([one.method, kind(one.method), *map(str, counts), *numbers, one.where])
    return cells


def by_set(judged: Sequence[Judged], method: str) -> Cells:
    """A line a set: what it is, accuracy before, and what one method makes of it."""
    head = ["set", "contexts", BASELINE, f"{method} - {BASELINE}", "balanced accuracy"]
    cells = [[*head, "won / lost", "beyond noise"]]
    for one in judged:
        plain = f"{one.plain.accuracy.mean():.1f}"
        row = [one.set.title, str(one.plain.accuracy.size), plain]
        if found := one.methods.get(method):
            row += [str(found.accuracy), str(found.balanced), ratio(found.won, found.lost)]
            row += [ratio(found.won & found.sure, found.lost & found.sure)]
        cells.append(row + [""] * (len(cells[0]) - len(row)))
    return cells


def by_method(judged: Sequence[Judged], metric: str) -> Cells:
    """A line a method, a column a set: the difference in points."""
    names = list(dict.fromkeys(name for one in judged for name in one.methods))
    cells = [["method", "kind", *(one.set.title for one in judged)]]
    for name in names:
        found = [one.methods.get(name) for one in judged]
        cells.append([name, kind(name), *(str(getattr(f, metric)) if f else "–" for f in found)])
    return cells


def by_model(one: Judged, methods: Sequence[str]) -> Cells:
    """A line a model: accuracy before, and for each method the difference and contexts won."""
    cells = [["model", BASELINE]]
    for name in methods:
        cells[0] += [f"{name} - {BASELINE}", "won / lost", "beyond noise"]
    for place, model in enumerate(models(one.set)):
        row = [model, f"{one.plain.accuracy[place].mean():.1f}"]
        for name in methods:
            found = one.methods[name]
            value, low, high = of_model(found, place)
            mark = " *" if low > 0 or high < 0 else ""
            won, lost, sure = found.won[place], found.lost[place], found.sure[place]
            row += [f"{value:+.1f} [{low:+.1f}, {high:+.1f}]{mark}", ratio(won, lost)]
            row += [ratio(won & sure, lost & sure)]
        cells.append(row)
    return cells


def models(one: ScoreSet) -> list[str]:
    """The names of a set's models."""
    return list(dict.fromkeys(str(table.context["model"]) for table in one.tables))


def of_model(found: Compared, place: int) -> tuple[float, float, float]:
    """One model's difference in points, and its 95 % interval: of tasks drawn, or rows if one."""
    counts = found.counts
    apart = 100 * (counts.gained - counts.lost)[place] / counts.rows[place]
    if len(apart) > 1:
        low, high = statistics.crossed_interval(apart[None])
        return float(apart.mean()), low, high
    gained, lost, rows = (int(x[place, 0]) for x in (counts.gained, counts.lost, counts.rows))
    ends = gain_interval(gained, lost, rows)
    return float(apart.mean()), 100 * float(ends[0]), 100 * float(ends[1])


def summary(judged: Sequence[Judged]) -> Cells:
    """Everything measured of each set and method, for a spreadsheet."""
    cells = [[
        "set", "method", "kind", "contexts", "accuracy", "difference", "low", "high", "p_holm",
        "verdict", "balanced_accuracy", "balanced_difference", "balanced_low", "balanced_high",
        "balanced_p_holm", "balanced_verdict", "won", "lost", "won_beyond_noise",
        "lost_beyond_noise", "models_won", "models_lost", "seconds",
    ]]  # fmt: skip
    for one in judged:
        for name, found in one.methods.items():
            means = found.counts.gained.sum(axis=1) - found.counts.lost.sum(axis=1)
            numbers = [found.counts.accuracy.mean(), *found.accuracy]
            balanced = [found.counts.balanced.mean(), *found.balanced]
            tallies = [found.won, found.lost, found.won & found.sure, found.lost & found.sure]
            cells.append([
                one.set.name, name, kind(name), str(found.won.size),
                *(f"{x:.6g}" for x in numbers), found.accuracy.verdict,
                *(f"{x:.6g}" for x in balanced), found.balanced.verdict,
                *(str(int(x.sum())) for x in [*tallies, means > 0, means < 0]),
                f"{one.seconds[name]:.2f}",
            ])  # fmt: skip
    return cells


def each_model(judged: Sequence[Judged]) -> Cells:
    """Each set, method and model, for a spreadsheet."""
    head = ["set", "method", "model", "accuracy", "difference", "low", "high", "won", "lost"]
    cells = [[*head, "won_beyond_noise", "lost_beyond_noise"]]
    for one in judged:
        for name, found in one.methods.items():
            for place, model in enumerate(models(one.set)):
                numbers = [found.counts.accuracy[place].mean(), *of_model(found, place)]
                flags = [found.won, found.lost, found.won & found.sure, found.lost & found.sure]
                tallies = [str(int(x[place].sum())) for x in flags]
                cells.append([one.set.name, name, model, *(f"{x:.6g}" for x in numbers), *tallies])
    return cells


def each_context(judged: Sequence[Judged]) -> Cells:
    """Each set, method and context, for a spreadsheet."""
    cells = [["set", "method", "model", "task", "rows", "accuracy", "balanced_accuracy",
              "rows_gained", "rows_lost", "p_mcnemar"]]  # fmt: skip
    for one in judged:
        tasks, every = one.set.shape[1], one.set.tables
        for name, counts in [(BASELINE, one.plain)] + [
            (n, f.counts) for n, f in one.methods.items()
        ]:
            p = statistics.mcnemar(counts.gained, counts.lost)
            for (a, b), rows in np.ndenumerate(counts.rows):
                context = every[a * tasks + int(counts.tasks[b])].context
                measured = counts.accuracy[a, b], counts.balanced[a, b], counts.gained[a, b]
                cells.append([
                    one.set.name, name, str(context["model"]), str(context["task"]), f"{rows:.0f}",
                    *(f"{x:.6g}" for x in (*measured, counts.lost[a, b], p[a, b])),
                ])  # fmt: skip
    return cells
