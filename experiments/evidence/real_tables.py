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
IN_THE_FILE_ALONE = (
    "pc_raw", "bc_running", "bc_mean_prob", "bc_loo", "bc_shrunk", "bc_shrunk + true shares",
    "prior_counted", "temperature", "matrix",
)  # fmt: skip
"""Methods that the page's table leaves out: variants of those that it has."""


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


def ratio(flags: np.ndarray, other_flags: np.ndarray) -> str:
    """How many contexts are won and lost."""
    return f"{int(flags.sum())} / {int(other_flags.sum())}"


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
    def told(self) -> str:
        """The worst set and the mean in words."""
        return (
            f"{self.worst:+.1f} points where it does worst ({self.where}), {self.mean:+.1f} in the "
            f"mean of {self.sets} sets"
        )


def tallies(judged: Sequence[Judged]) -> list[Tally]:
    """Each method that most sets can have, over these."""
    names = dict.fromkeys(name for judged_set in judged for name in judged_set.methods)
    lines = []
    for name in names:
        sets_with_method = [judged_set for judged_set in judged if name in judged_set.methods]
        differences = [judged_set.methods[name].accuracy for judged_set in sets_with_method]
        # A method that few sets can have would be ranked on other rows than the others.
        if 2 * len(sets_with_method) > len(judged):
            worst_index = min(
                range(len(sets_with_method)), key=lambda set_index: differences[set_index].value
            )
            verdicts = [difference.verdict for difference in differences]
            gains = [difference.value for difference in differences]
            lines.append(Tally(
                name, len(sets_with_method), verdicts.count("gain"), verdicts.count("loss"),
                float(np.mean(gains)),
                gains[worst_index], sets_with_method[worst_index].set.title,
            ))  # fmt: skip
    return lines


def tally(judged: Sequence[Judged]) -> Cells:
    """A line a method that most sets can have: on how many it gains, loses, and its worst."""
    cells = [["method", "gains", "not certain", "losses", "mean, points", "worst"]]
    for line in tallies(judged):
        # The second: neither gain nor loss.
        counts = line.gains, line.sets - line.gains - line.losses, line.losses
        points = (f"{number:+.1f}" for number in (line.mean, line.worst))
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
            row += [str(compared.accuracy), ratio(compared.won, compared.lost)]
        cells.append(row + [""] * (len(cells[0]) - len(row)))
    return cells


def models(score_set: ScoreSet) -> list[str]:
    """The names of a set's models."""
    return list(dict.fromkeys(str(table.context["model"]) for table in score_set.tables))


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
    gained, lost, rows = (
        int(tally[model_index, 0]) for tally in (counts.gained, counts.lost, counts.rows)
    )
    ends = gain_interval(gained, lost, rows)
    return float(gain_by_task.mean()), 100 * float(ends[0]), 100 * float(ends[1])


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
            # [models], rows gained less lost over all tasks
            means = compared.counts.gained.sum(axis=1) - compared.counts.lost.sum(axis=1)
            numbers = [compared.counts.accuracy.mean(), *compared.accuracy]
            balanced = [compared.counts.balanced.mean(), *compared.balanced]
            tallies = [
                compared.won,
                compared.lost,
                compared.won & compared.sure,
                compared.lost & compared.sure,
            ]
            cells.append([
                judged_set.set.name, name, kind(name), str(compared.won.size),
                *(f"{number:.6g}" for number in numbers), compared.accuracy.verdict,
                *(f"{number:.6g}" for number in balanced), compared.balanced.verdict,
                # Contexts, then models.
                *(str(int(number.sum())) for number in [*tallies, means > 0, means < 0]),
                f"{judged_set.seconds[name]:.2f}",
            ])  # fmt: skip
    return cells


def each_model(judged: Sequence[Judged]) -> Cells:
    """Each set, method and model, for a spreadsheet."""
    head = ["set", "method", "model", "accuracy", "difference", "low", "high", "won", "lost"]
    cells = [[*head, "won_beyond_noise", "lost_beyond_noise"]]
    for judged_set in judged:
        for name, compared in judged_set.methods.items():
            for model_index, model in enumerate(models(judged_set.set)):
                numbers = [
                    compared.counts.accuracy[model_index].mean(),
                    *of_model(compared, model_index),
                ]
                flags = [
                    compared.won,
                    compared.lost,
                    compared.won & compared.sure,
                    compared.lost & compared.sure,
                ]
                tallies = [str(int(number[model_index].sum())) for number in flags]
                cells.append(
                    [
                        judged_set.set.name,
                        name,
                        model,
                        *(f"{number:.6g}" for number in numbers),
                        *tallies,
                    ]
                )
    return cells


def each_context(judged: Sequence[Judged]) -> Cells:
    """Each set, method and context, for a spreadsheet."""
    cells = [["set", "method", "model", "task", "rows", "accuracy", "balanced_accuracy",
              "rows_gained", "rows_lost", "p_mcnemar"]]  # fmt: skip
    for judged_set in judged:
        tasks, tables = judged_set.set.shape[1], judged_set.set.tables
        for name, counts in [(BASELINE, judged_set.plain)] + [
            (n, f.counts) for n, f in judged_set.methods.items()
        ]:
            p = statistics.mcnemar(counts.gained, counts.lost)  # 1 for the baseline itself
            for (a, b), rows in np.ndenumerate(counts.rows):
                # A method may lack some of the set's tasks.
                context = tables[a * tasks + int(counts.tasks[b])].context
                measured = counts.accuracy[a, b], counts.balanced[a, b], counts.gained[a, b]
                cells.append([
                    judged_set.set.name, name, str(context["model"]), str(context["task"]),
                    f"{rows:.0f}",
                    *(f"{number:.6g}" for number in (*measured, counts.lost[a, b], p[a, b])),
                ])  # fmt: skip
    return cells
