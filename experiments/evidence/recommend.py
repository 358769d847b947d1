"""The study "recommend": rules on sources that chose none of their constants."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import chain, pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure

from batch_calibration.diagnosis.experience import Range, find_range
from batch_calibration.diagnosis.recommend import LIKELY, TO_SHARES, WITH_LABELS
from batch_calibration.metrics import Estimate
from batch_calibration.reporting.cells import Cells, markdown
from batch_calibration.reporting.figures.intervals import draw_forest
from experiments.evidence import charts, statistics, trials
from experiments.evidence.page import Written, csv_link
from experiments.evidence.sets import task_of
from experiments.evidence.sources import Source, read_sources
from experiments.evidence.statistics import number_cells
from experiments.evidence.trials import (
    BASELINE,
    GRID,
    LAW,
    OLD,
    RULES,
    WEAKER,
    LabeledTrial,
    Outcome,
    Trial,
)

EDGES = (0.3, 1.0, 3.0, 6.0, np.inf)
"""Points of promised gain up to which contexts are taken together."""


class Judged(NamedTuple):
    """A source's trials, and its outcomes with constants that the other rows chose."""

    source: Source
    trials: list[Trial]
    elsewhere: list[Outcome]
    labeled: list[LabeledTrial]


def ranges(judged: Sequence[Judged], method: str) -> tuple[Range, ...]:
    """A method's gain in contexts whose corrected scores promise alike."""
    rule = RULES[-1] if method == TO_SHARES else method
    rows = []
    for judgment in judged:
        for trial in judgment.trials:
            # Where nothing is changed there is nothing to learn.
            if trial.promised[method] > 0:
                gain = trial.outcomes[rule].gain
                rows.append((trial.promised[method], gain, 1 / len(judgment.trials)))
    promised, gains, weights = np.array(rows).T
    learned = []
    for above, up_to in pairwise((-np.inf, *EDGES)):
        inside = (promised > above) & (promised <= up_to)
        if inside.any():
            low, high = np.quantile(gains[inside], (0.025, 0.975))
            mean = round(float(np.average(gains[inside], weights=weights[inside])), 1)
            ends = round(float(low), 1), round(float(high), 1)
            fell = round(float((gains[inside] < 0).mean()), 2)
            learned.append(Range(float(up_to), int(inside.sum()), mean, *ends, fell))
    return tuple(learned)


def held(judged: Sequence[Judged], method: str) -> float:
    """Percentage of contexts whose gain lies in the range of other rows, each source alike."""
    rule = RULES[-1] if method == TO_SHARES else method
    shares = []
    for judgment in judged:
        own_rows = judgment.source.rows
        unlike = [candidate for candidate in judged if candidate.source.rows != own_rows]
        if not unlike:
            continue
        learned = ranges(unlike, method)
        holds = []
        for trial in judgment.trials:
            promised, gain = trial.promised[method], trial.outcomes[rule].gain
            range_ = find_range(learned, promised)
            holds.append(promised == 0 or range_.low <= gain <= range_.high)
        shares.append(np.mean(holds))
    return 100 * float(np.mean(shares)) if shares else float("nan")


def experience_cells(experience: Mapping[str, Sequence[Range]]) -> Cells:
    """A line a range of promised gains."""
    table = [["method", "promised up to", "contexts", "gain", "2.5 %", "97.5 %", "fell"]]
    for method, ranges_of_method in experience.items():
        for up_to, contexts, *gains, fell in ranges_of_method:
            row = [method, f"{up_to:g}", f"{contexts}", *number_cells(gains, "+.1f")]
            table.append([*row, f"{100 * fell:.0f} %"])
    return table


ELSEWHERE = "chosen elsewhere"
GOAL_MEAN, GOAL_WORST, GOAL_HARMED = 3.5, -1.0, 8.0
"""Without labels: points on average over sources, points on the worst, percent of contexts."""
WITH = ("bc", LAW, "bcl", WITH_LABELS, "recommended")


class Options(NamedTuple):
    """Settings of the study.

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
    """Reads a rule's outcomes from a source."""
    if rule == ELSEWHERE:
        return lambda judged: judged.elsewhere
    return lambda judged: [trial.outcomes[rule] for trial in judged.trials]


def mean_gain(outcomes: Outcomes, judgment: Judged) -> float:
    """The mean gain over a source's contexts, in points."""
    return float(np.mean(trials.gains(outcomes(judgment))))


def mean_harmed(outcomes: Outcomes, judgment: Judged) -> float:
    """The share of a source's contexts that are harmed, in percent."""
    return 100 * float(np.mean([outcome.is_harmed for outcome in outcomes(judgment)]))


def gain_over_models(judged: Judged, rule: str, options: Options) -> Estimate:
    """A rule's mean gain on a source in points, its interval over models and tasks, or tasks."""
    gains = np.array(trials.gains(outcomes_of(rule)(judged)))
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
    for judgment in judged:
        accuracy = np.mean([trial.accuracy for trial in judgment.trials])
        interval = gain_over_models(judgment, LIKELY, options)
        gains = number_cells([mean_gain(outcomes_of(rule), judgment) for rule in rules], "+.1f")
        table.append([
            judgment.source.set.title, f"{len(judgment.trials)}", f"{accuracy:.1f}", *gains,
            f"[{interval.low:+.1f}, {interval.high:+.1f}]",
        ])  # fmt: skip
    means, worst, harmed = summary_cells(judged, map(outcomes_of, rules))
    table.append(["mean gain", "", "", *means, ""])
    table.append(["worst source", "", "", *worst, ""])
    table.append(["contexts harmed", "", "", *harmed, ""])
    return table


def summary(judged: Sequence[Judged], outcomes: Outcomes) -> tuple[float, float, float]:
    """Mean gain and worst gain over sources, and the mean share of contexts harmed."""
    gains = [mean_gain(outcomes, judgment) for judgment in judged]
    harmed = [mean_harmed(outcomes, judgment) for judgment in judged]
    return float(np.mean(gains)), min(gains), float(np.mean(harmed))


def summary_cells(judged: Sequence[Judged], rules: Iterable[Outcomes]) -> Cells:
    """The three numbers of `summary`, a line each, a cell a rule."""
    summaries = [summary(judged, outcomes) for outcomes in rules]
    means, worst, harmed = zip(*summaries, strict=True)
    return [number_cells(means, "+.1f"), number_cells(worst, "+.1f"),
            [f"{share:.1f} %" for share in harmed]]  # fmt: skip


def _labeled_outcomes(method: str) -> Outcomes:
    return lambda judged: [trial.outcomes[method] for trial in judged.labeled]


def with_labels(judged: Sequence[Judged]) -> tuple[list[Judged], list[trials.LabeledTrial]]:
    """The sources whose contexts are large enough to label some rows, and these contexts."""
    having = [judgment for judgment in judged if judgment.labeled]
    return having, list(chain.from_iterable(judgment.labeled for judgment in having))


def labeled_cells(judged: Sequence[Judged]) -> Cells:
    """A line a source whose contexts are large enough: what is gained with labels, and stated."""
    having, labeled_trials = with_labels(judged)
    table = [["source", "contexts", *WITH, "another method", "stated - true", "interval holds"]]
    rules = [*map(_labeled_outcomes, WITH)]

    def stated(labeled: Sequence[trials.LabeledTrial]) -> list[str]:
        _, _, errors, holds = zip(*labeled, strict=True)
        return [f"{np.mean(errors):+.1f}", f"{100 * np.mean(holds):.0f} %"]

    for judgment in having:
        other_share = np.mean([trial.method != WITH_LABELS for trial in judgment.labeled])
        gains = number_cells([mean_gain(outcomes, judgment) for outcomes in rules], "+.1f")
        table.append([
            judgment.source.set.title, f"{len(judgment.labeled)}", *gains,
            f"{100 * other_share:.0f} %", *stated(judgment.labeled),
        ])  # fmt: skip
    means, worst, harmed = summary_cells(having, rules)
    table.append(["mean gain", f"{len(labeled_trials)}", *means, "", *stated(labeled_trials)])
    table.append(["worst source", "", *worst, "", "", ""])
    table.append(["contexts harmed", "", *harmed, "", "", ""])
    return table


def findings(judged: Sequence[Judged], options: Options) -> list[str]:
    """The whole rows of both tables, and never half of one."""

    def sentence(outcomes: Outcomes, having: Sequence[Judged]) -> str:
        mean, worst, harmed = summary(having, outcomes)
        return f"{mean:+.1f} points on average, {worst:+.1f} on the worst source, {harmed:.1f} %"

    by_rule = {rule: sentence(outcomes_of(rule), judged) for rule in (LIKELY, ELSEWHERE, OLD, "bc")}
    contexts = sum(len(judgment.trials) for judgment in judged)
    text = (
        f"**What is recommended without labels** ({LIKELY}) gains, over {len(judged)} sources and "
        f"{contexts:,} contexts, {by_rule[LIKELY]} of contexts harmed; with constants chosen on "
        f"other rows {by_rule[ELSEWHERE]}; the rule before it {by_rule[OLD]}; bc always "
        f"{by_rule['bc']}."
    )
    having, labeled_trials = with_labels(judged)
    if not having:
        return [text]
    recommended = sentence(_labeled_outcomes("recommended"), having)
    errors = [trial.stated for trial in labeled_trials]
    return [
        text,
        f"**With {options.labeled} labeled rows** what is recommended gains {recommended} of "
        f"contexts harmed; the accuracy it states is {np.mean(errors):+.1f} points off on average.",
    ]


def section(judged: Sequence[Judged], tables: Mapping[str, Cells], options: Options) -> str:
    """The section in Markdown."""
    constants = {}
    for judgment in judged:
        numbers = ", ".join(number_cells(GRID[number_of(judgment)], "g"))
        constants[judgment.source.rows] = f"({numbers}) without {judgment.source.rows}"
    return "\n\n".join([
        "Gains of `recommend` on every source: means over contexts of the gain in accuracy, in "
        f"points. `{LIKELY}` is the rule without labels; `{ELSEWHERE}` the same with constants "
        "(power of the confidence, weight of the shares, scale of the bias) that gain most on the "
        f"sources of other rows, of {len(GRID)} choices: {', '.join(constants.values())}. The old "
        "rule had four thresholds. `prior_matching` gets the true shares: what is possible, no "
        "method. A context is harmed if it loses rows beyond noise (McNemar's exact test, 5 %). "
        "The last column is the 95 % interval of the rule's gain over models and tasks.",
        markdown(tables["evidence_recommend"]),
        against_goals(judged),
        "![What recommend gains on each source](figures/evidence_recommend.png)",
        f"With {options.labeled} labeled rows, of contexts of {trials.LEAST_ROWS} rows or more "
        f"({options.contexts} of each source at most), judged on all other rows. `{LAW}`: the "
        "strength with the largest gain by [the law](when-it-helps.md), with numbers and shares "
        "of the labeled rows. `another method`: how often the labeled rows are clearly "
        f"for another than `{WITH_LABELS}`. `stated - true`: the accuracy that the recommendation "
        "states less that of the other rows. `interval holds`: how often the stated 95 % interval "
        "of the gain holds the true gain.",
        markdown(last_lines(tables["evidence_recommend_labels"])),
        f"[On each source]({csv_link('evidence_recommend_labels')}).",
        "The corrected scores promise the gain that they would have as true probabilities. A range "
        "of measured gains on other rows "
        f"holds the gain in {held(judged, LIKELY):.0f} % of the contexts of a source, of "
        f"`{LIKELY}`, and in {held(judged, TO_SHARES):.0f} %, of `{TO_SHARES}`.",
        f"[By what is promised]({csv_link('evidence_experience')}).",
    ])  # fmt: skip


def against_goals(judged: Sequence[Judged]) -> str:
    """Verdicts of the rule against its goals, by its own and by elsewhere chosen constants."""
    verdicts = []
    for rule in (LIKELY, ELSEWHERE):
        mean, worst, harmed = summary(judged, outcomes_of(rule))
        reached = {
            f"mean {mean:+.1f}": round(mean, 1) >= GOAL_MEAN,
            f"worst {worst:+.1f}": round(worst, 1) >= GOAL_WORST,
            f"harmed {harmed:.1f} %": round(harmed, 1) <= GOAL_HARMED,
        }
        texts = []
        for goal, is_met in reached.items():
            verdict = "reached" if is_met else "missed"
            texts.append(f"{goal} ({verdict})")
        verdicts.append(f"`{rule}`: {', '.join(texts)}")
    gains = []  # a source's title, the gain by the own constants and by those chosen elsewhere
    for judgment in judged:
        own = mean_gain(outcomes_of(LIKELY), judgment)
        elsewhere = mean_gain(outcomes_of(ELSEWHERE), judgment)
        gains.append((judgment.source.set.title, own, elsewhere))
    gains.sort(key=lambda gain: gain[2] - gain[1])  # the largest drop first
    drops = [f"{title} {own:+.1f} to {elsewhere:+.1f}" for title, own, elsewhere in gains[:3]]
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
    chosen = np.array(trials.gains(judged.elsewhere))[:, None]
    gains = np.array([trials.gains(trial.grid) for trial in judged.trials])  # [contexts, 27]
    return int(np.flatnonzero((gains == chosen).all(axis=0))[0])


def draw(judged: Sequence[Judged], options: Options) -> Figure:
    """The gain of the rule before and of this one, a row a source."""
    panels: dict[str, dict[str, tuple[Estimate, int]]] = {}
    for title, rule in (("always bc", "bc"), ("the old rule", OLD), (LIKELY, LIKELY)):
        panels[title] = {}
        for judgment in judged:
            gain = gain_over_models(judgment, rule, options)
            row = charts.forest_row(gain.value, gain.low, gain.high, gain.beyond_noise)
            panels[title][judgment.source.set.title] = row
    names = list(panels[LIKELY])
    heading = "Recommendations without labels: the gain on each source"
    return draw_forest(
        panels, names, f"change from {BASELINE} (points)", heading, ("rule", "source")
    ).figure


def run(folder: Path, options: Options) -> Written:
    """Judge every rule on every source."""
    embedded = [Path(path) for path in options.embedded]
    sources = read_sources(folder, embedded, options.seed)
    if options.sources:
        sources = [source for source in sources if source.set.name in options.sources]
    by_source = [[*map(trials.try_rules, source.set.tables)] for source in sources]
    random = np.random.default_rng(options.seed)
    judged = []
    for source, tried in zip(sources, by_source, strict=True):
        line = choose_elsewhere(sources, by_source, source.rows)
        large = trials.spread_evenly(source.set.tables, options.contexts)
        labeled = [trials.try_labeled(table, options.labeled, random) for table in large]
        judged.append(Judged(source, tried, [trial.grid[line] for trial in tried], labeled))
    experience = {method: ranges(judged, method) for method in (LIKELY, TO_SHARES)}
    tables = {
        "evidence_recommend": cells(judged, options),
        "evidence_recommend_labels": labeled_cells(judged),
        "evidence_experience": experience_cells(experience),
    }
    figures = {"evidence_recommend": partial(draw, judged, options)}
    text = section(judged, tables, options)
    return Written(findings(judged, options), text, tables, figures)


def choose_elsewhere(
    sources: Sequence[Source], by_source: Sequence[Sequence[Trial]], rows: str
) -> int:
    """The line of `GRID` whose mean gain over the sources of other rows is the largest."""
    means = []
    for source, tried in zip(sources, by_source, strict=True):
        if source.rows != rows:
            means.append(np.mean([trials.gains(trial.grid) for trial in tried], axis=0))
    return int(np.mean(means, axis=0).argmax()) if means else trials.DEFAULT
