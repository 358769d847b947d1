"""What the study "recommend" says of its rules: tables, sentences, the page, the figure."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from batch_calibration.artifacts.cells import Cells, markdown
from batch_calibration.artifacts.figures.chart import Chart
from batch_calibration.artifacts.figures.intervals import forest
from batch_calibration.diagnosis.recommend import LIKELY, TO_SHARES, WITH_LABELS
from batch_calibration.metrics import Estimate
from experiments.evidence import statistics, trials
from experiments.evidence.experience import Judged, held
from experiments.evidence.page import csv_link
from experiments.evidence.sets import task_of
from experiments.evidence.trials import BASELINE, GRID, LAW, OLD, RULES, WEAKER

ELSEWHERE = "chosen elsewhere"
GOAL_MEAN, GOAL_WORST, GOAL_HARMED = 3.5, -1.0, 8.0
"""Without labels: points on average over sources, points on the worst, percent of contexts."""
WITH = ("bc", LAW, "bcl", WITH_LABELS, "recommended")


class Options(NamedTuple):
    """What is judged.

    Attributes:
        embedded: workdirs of scores of the embedded suite, one a model.
        sources: names of sources; all where none is named.
        labeled: labeled rows of a context.
        contexts: the most contexts of a source that are tried with labels.
        seed: of the draws.
        draws: of the bootstrap.
    """

    embedded: Sequence[str] = ()
    sources: Sequence[str] = ()
    labeled: int = 32
    contexts: int = 40
    seed: int = 0
    draws: int = 10_000


Outcomes = Callable[[Judged], list[trials.Outcome]]


def outcomes_of(rule: str) -> Outcomes:
    """What reads a rule's outcomes from a source."""
    if rule == ELSEWHERE:
        return lambda judged: judged.elsewhere
    return lambda judged: [trial.outcomes[rule] for trial in judged.trials]


def mean_gain(outcomes: Sequence[trials.Outcome]) -> float:
    """The mean gain over contexts, in points."""
    return float(np.mean([outcome.gain for outcome in outcomes]))


def harmed(outcomes: Sequence[trials.Outcome]) -> float:
    """The share of contexts that are harmed, in percent."""
    return 100 * float(np.mean([outcome.is_harmed for outcome in outcomes]))


def gain_over_models(judged: Judged, rule: str, options: Options) -> Estimate:
    """A rule's mean gain on a source in points, its interval over models and tasks, or tasks."""
    gains = np.array([outcome.gain for outcome in outcomes_of(rule)(judged)])
    grid = gains.reshape(judged.source.set.shape)
    if len(grid) == 1:
        # Prompts and draws of demonstrations of one task are asked of the same rows.
        tasks = [task_of(table) for table in judged.source.set.tables]
        _, number = np.unique(tasks, return_inverse=True)
        grid = (np.bincount(number, gains) / np.bincount(number))[None]
    low, high = statistics.crossed_interval(grid, options.seed, draws=options.draws)
    return Estimate(float(gains.mean()), low, high)


def cells(judged: Sequence[Judged], options: Options) -> Cells:
    """A line a source: accuracy as it is, and what each rule gains; then mean, worst, harmed."""
    rules = (*(rule for rule in RULES[:-1] if rule != WEAKER), ELSEWHERE, RULES[-1])
    table = [["source", "contexts", BASELINE, *rules, f"{LIKELY}, interval"]]
    for each in judged:
        accuracy = np.mean([trial.accuracy for trial in each.trials])
        interval = gain_over_models(each, LIKELY, options)
        gains = [mean_gain(outcomes_of(rule)(each)) for rule in rules]
        table.append([
            each.source.set.title, f"{len(each.trials)}", f"{accuracy:.1f}",
            *(f"{gain:+.1f}" for gain in gains), f"[{interval.low:+.1f}, {interval.high:+.1f}]",
        ])  # fmt: skip
    summaries = [summary(judged, outcomes_of(rule)) for rule in rules]
    table.append(["mean gain", "", "", *(f"{mean:+.1f}" for mean, _, _ in summaries), ""])
    table.append(["worst source", "", "", *(f"{worst:+.1f}" for _, worst, _ in summaries), ""])
    table.append(["contexts harmed", "", "", *(f"{part:.1f} %" for _, _, part in summaries), ""])
    return table


def summary(judged: Sequence[Judged], outcomes: Outcomes) -> tuple[float, float, float]:
    """Mean gain and worst gain over sources, and the mean share of contexts harmed."""
    gains = [mean_gain(outcomes(each)) for each in judged]
    return float(np.mean(gains)), min(gains), float(np.mean([harmed(outcomes(j)) for j in judged]))


def _labeled_outcomes(method: str) -> Outcomes:
    return lambda judged: [trial.outcomes[method] for trial in judged.labeled]


def labeled_cells(judged: Sequence[Judged]) -> Cells:
    """A line a source whose contexts are large enough: what is gained with labels, and stated."""
    having = [each for each in judged if each.labeled]
    table = [["source", "contexts", *WITH, "another method", "stated - true", "interval holds"]]
    for each in having:
        others = np.mean([trial.method != WITH_LABELS for trial in each.labeled])
        table.append([
            each.source.set.title, f"{len(each.labeled)}",
            *(f"{mean_gain(_labeled_outcomes(method)(each)):+.1f}" for method in WITH),
            f"{100 * others:.0f} %", f"{np.mean([trial.stated for trial in each.labeled]):+.1f}",
            f"{100 * np.mean([trial.holds for trial in each.labeled]):.0f} %",
        ])  # fmt: skip
    summaries = [summary(having, _labeled_outcomes(method)) for method in WITH]
    every = [trial for each in having for trial in each.labeled]
    table.append([
        "mean gain", f"{len(every)}", *(f"{mean:+.1f}" for mean, _, _ in summaries), "",
        f"{np.mean([trial.stated for trial in every]):+.1f}",
        f"{100 * np.mean([trial.holds for trial in every]):.0f} %",
    ])  # fmt: skip
    table.append(["worst source", "", *(f"{worst:+.1f}" for _, worst, _ in summaries), "", "", ""])
    table.append(["contexts harmed", "", *(f"{part:.1f} %" for *_, part in summaries), "", "", ""])
    return table


def findings(judged: Sequence[Judged], options: Options) -> list[str]:
    """The whole rows of both tables, and never half of one."""

    def told(outcomes: Outcomes, having: Sequence[Judged]) -> str:
        mean, worst, part = summary(having, outcomes)
        return f"{mean:+.1f} points on average, {worst:+.1f} on the worst source, {part:.1f} %"

    by_rule = {rule: told(outcomes_of(rule), judged) for rule in (LIKELY, ELSEWHERE, OLD, "bc")}
    contexts = sum(len(each.trials) for each in judged)
    text = (
        f"**What is recommended without labels** ({LIKELY}) gains, over {len(judged)} sources and "
        f"{contexts:,} contexts, {by_rule[LIKELY]} of contexts harmed; with constants chosen on "
        f"other rows {by_rule[ELSEWHERE]}; the rule before it {by_rule[OLD]}; bc always "
        f"{by_rule['bc']}."
    )
    having = [each for each in judged if each.labeled]
    if not having:
        return [text]
    recommended = told(_labeled_outcomes("recommended"), having)
    errors = [trial.stated for each in having for trial in each.labeled]
    return [
        text,
        f"**With {options.labeled} labeled rows** what is recommended gains {recommended} of "
        f"contexts harmed; the accuracy it states is {np.mean(errors):+.1f} points off on average.",
    ]


def section(judged: Sequence[Judged], tables: Mapping[str, Cells], options: Options) -> str:
    """The section in Markdown."""
    constants = {}
    for each in judged:
        numbers = ", ".join(f"{number:g}" for number in GRID[number_of(each)])
        constants[each.source.rows] = f"({numbers}) without {each.source.rows}"
    return "\n\n".join([
        "What `recommend` does, on every source: means over contexts of the gain in accuracy, in "
        f"points. `{LIKELY}` is the rule without labels; `{ELSEWHERE}` the same with constants "
        "(power of the confidence, weight of the shares, scale of the bias) that gain most on the "
        f"sources of other rows, of {len(GRID)} choices: {', '.join(constants.values())}. The old "
        "rule had four thresholds. True shares are told to `prior_matching`: what is possible, no "
        "method. A context is harmed if it loses rows beyond noise (McNemar's exact test, 5 %). "
        "The last column is the 95 % interval of the rule's gain over models and tasks.",
        markdown(tables["evidence_recommend"]),
        against_goals(judged),
        "![What recommend gains on each source](figures/evidence_recommend.png)",
        f"With {options.labeled} labeled rows, of contexts of {trials.LEAST_ROWS} rows or more "
        f"({options.contexts} of each source at most), judged on all other rows. `{LAW}`: the "
        "strength with the largest gain by [the law](when-it-helps.md), whose numbers and shares "
        "are those of the labeled rows. `another method`: how often the labeled rows are clearly "
        f"for another than `{WITH_LABELS}`. `stated - true`: the accuracy that the recommendation "
        "states less that of the other rows. `interval holds`: how often the stated 95 % interval "
        "of the gain holds the true gain.",
        markdown(last_lines(tables["evidence_recommend_labels"])),
        f"[On each source]({csv_link('evidence_recommend_labels')}).",
        "What the corrected scores promise is the gain if they were true probabilities. A range "
        "of what came of it on other rows "
        f"holds the gain in {held(judged, LIKELY):.0f} % of the contexts of a source, of "
        f"`{LIKELY}`, and in {held(judged, TO_SHARES):.0f} %, of `{TO_SHARES}`.",
        f"[By what is promised]({csv_link('evidence_experience')}).",
    ])  # fmt: skip


def against_goals(judged: Sequence[Judged]) -> str:
    """Whether the rule reaches its goals, by its own constants and by those chosen elsewhere."""
    verdicts = []
    for rule in (LIKELY, ELSEWHERE):
        mean, worst, part = summary(judged, outcomes_of(rule))
        reached = {
            f"mean {mean:+.1f}": round(mean, 1) >= GOAL_MEAN,
            f"worst {worst:+.1f}": round(worst, 1) >= GOAL_WORST,
            f"harmed {part:.1f} %": round(part, 1) <= GOAL_HARMED,
        }
        parts = [f"{text} ({'reached' if is_met else 'missed'})" for text, is_met in
                 reached.items()]  # fmt: skip
        verdicts.append(f"`{rule}`: {', '.join(parts)}")
    by_drop = sorted(
        judged,
        key=lambda each: (
            mean_gain(outcomes_of(ELSEWHERE)(each)) - mean_gain(outcomes_of(LIKELY)(each))
        ),
    )
    drops = []
    for each in by_drop[:3]:
        own, other = (mean_gain(outcomes_of(rule)(each)) for rule in (LIKELY, ELSEWHERE))
        drops.append(f"{each.source.set.title} {own:+.1f} to {other:+.1f}")
    return (
        f"The goals set beforehand were a mean of {GOAL_MEAN:+.1f} or more, no source below "
        f"{GOAL_WORST:+.1f}, and at most {GOAL_HARMED:.0f} % of contexts harmed. "
        f"{'; '.join(verdicts)}. The method's own constants (2, 1, 1) were known from these "
        f"sources, so that `{ELSEWHERE}` is the honest column. It loses most of the difference on "
        f"{'; '.join(drops)}. Sources of uneven shares, or of a label that is never right, are "
        "much alike: without them a lower power is chosen, which expects shares nearer to equal. "
        "Both rules harm some contexts of almost every source: without labels nothing tells a bias "
        "from shares of labels for sure."
    )


def last_lines(labeled: Cells) -> Cells:
    """The mean, the worst source and the contexts harmed, below the head."""
    return [labeled[0], *labeled[-3:]]


def number_of(judged: Judged) -> int:
    """The line of `GRID` that other rows chose for a source."""
    first = [outcome.gain for outcome in judged.elsewhere]
    gains = np.array([[outcome.gain for outcome in trial.grid] for trial in judged.trials])
    return int(np.flatnonzero((gains == np.array(first)[:, None]).all(axis=0))[0])


def draw(judged: Sequence[Judged], options: Options) -> Chart:
    """The gain of the rule before and of this one, a row a source."""
    panels: dict[str, dict[str, tuple[Estimate, int]]] = {}
    for title, rule in (("always bc", "bc"), ("the old rule", OLD), (LIKELY, LIKELY)):
        panels[title] = {}
        for each in judged:
            gain = gain_over_models(each, rule, options)
            sign = int(np.sign(gain.low)) if gain.low * gain.high > 0 else 0
            fractions = Estimate(*(number / 100 for number in gain))
            panels[title][each.source.set.title] = (fractions, sign)
    names = [each.source.set.title for each in judged]
    heading = "Recommendations without labels: the gain on each source"
    return forest(panels, names, f"change from {BASELINE} (points)", heading, ("rule", "source"))
