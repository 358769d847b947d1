"""The study "recommend": judges advice on sources that did not set its constants."""

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import partial
from itertools import pairwise, product
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure

from batch_calibration.calibration.pooled_shares import CHANCE, FEWEST_CONTEXTS, LEAST_TOLD
from batch_calibration.diagnosis import advice
from batch_calibration.diagnosis.advice import Range, find_range
from batch_calibration.metrics import Estimate
from batch_calibration.reporting.cells import Cells, markdown
from batch_calibration.reporting.figures.intervals import draw_forest
from batch_calibration.scores import ScoreTable
from experiments.evidence import charts, statistics, trials
from experiments.evidence.page import Written, csv_link
from experiments.evidence.sets import task_of
from experiments.evidence.sources import (
    BALANCED,
    GRADES,
    IMAGES,
    KINDS,
    LANGUAGE,
    Source,
    read_sources,
)
from experiments.evidence.statistics import interval_cell, number_cells
from experiments.evidence.trials import (
    BASELINE,
    CORRECT,
    COUNTED,
    EQUAL,
    ERRORS,
    FROM_EQUAL,
    LABELS,
    LIKELY,
    MOVED_COUNTED,
    MOVED_SCORED,
    NONE,
    OF_ONE,
    OF_TASK,
    ONE,
    POOLED,
    SETTINGS,
    SHARES,
    TOGETHER,
    WITH_LABELS,
    Rules,
    labeled,
)

RULES = (CORRECT, EQUAL, ONE, TOGETHER, LIKELY, POOLED, SHARES)
NEAR_RULES = (CORRECT, EQUAL, *ERRORS, LIKELY)
"""The rules that are compared by distance from equal shares."""
DRAWN = (CORRECT, TOGETHER, LIKELY, POOLED)
"""The rules of the figure and, with `SHARES`, of the page's table."""
UNEVEN, ALL = "both uneven kinds", "all language"
SEVERAL, SINGLE = "several contexts of a task", "one context"
"""Groups of contexts with labels."""
CHOSEN = "the better of both, chosen on other sources"
"""With scored labels of several contexts, `MOVED_SCORED` or `WITH_LABELS`."""
EXPERIENCE = {advice.EQUAL: ONE, advice.ESTIMATED: LIKELY, advice.STATED: SHARES}
"""Source of the shares -> the rule that measures the gain; of equal ones on balanced sources."""
EDGES = (0.3, 1.0, 3.0, 6.0, np.inf)
"""Upper edges of the ranges of promised gain, in points."""
DISTANCES = (0, 4, 8, 12, 20)
"""Edges of the ranges of the largest distance of a share from 1/k, in points."""


class Options(NamedTuple):
    """Settings of the study.

    Attributes:
        embedded: workdirs with scores of the embedded suite and of its images.
        sources: names of sources; by default all.
        seed: seed of the draws.
        draws: number of bootstrap draws.
    """

    embedded: Sequence[str] = ()
    sources: Sequence[str] = ()
    seed: int = 0
    draws: int = 10_000


class Judged(NamedTuple):
    """A source's outcomes.

    Attributes:
        source: the source.
        accuracy: mean ICL accuracy over contexts, in percent.
        tried: rule -> outcomes; `POOLED` has the setting and `CHOSEN` the rule that are best on
            sources of other rows.
        setting: gate of `POOLED` in nats, and the part of the chance agreement that it subtracts.
        chosen: the rule of `CHOSEN`.
    """

    source: Source
    accuracy: float
    tried: Rules
    setting: tuple[float, float] = LEAST_TOLD, CHANCE
    chosen: str = MOVED_SCORED

    @property
    def has_several(self) -> bool:
        """Whether a task of the source has enough contexts to pool."""
        tasks = Counter(map(task_of, self.source.set.tables))
        return max(tasks.values(), default=0) >= FEWEST_CONTEXTS


def run(folder: Path, options: Options) -> Written:
    """Runs the study: judges every rule on every source."""
    sources = read_sources(folder, [*map(Path, options.embedded)], options.seed)
    if options.sources:
        sources = [source for source in sources if source.set.name in options.sources]
    judged = list[Judged]()
    for source in sources:
        tried = trials.try_source(source.set.tables, options.seed)
        judged.append(Judged(source, accuracy_of(source.set.tables), tried))
    judged = [choose(one, judged) for one in judged]
    tables = {
        "evidence_recommend": cells(judged, options),
        "evidence_labels": labels_cells(judged, options),
        "evidence_distances": distance_cells(judged),
        "evidence_grades": grades_cells(judged),
        "evidence_stated": stated_cells(judged),
        "evidence_experience": experience_cells(judged),
    }
    figures = {"evidence_recommend": partial(draw, judged, options)}
    return Written(findings(judged), section(judged, options), tables, figures)


def accuracy_of(tables: Sequence[ScoreTable]) -> float:
    """Computes the mean ICL accuracy over contexts, in percent."""
    tests = [table.blocks["test"] for table in tables]
    return float(np.mean([100 * (of.log_probs.argmax(axis=1) == of.labels).mean() for of in tests]))


def choose(one: Judged, judged: Sequence[Judged]) -> Judged:
    """Sets the setting of `POOLED` and the rule of `CHOSEN` by the other sources."""
    unlike = [other for other in of_language(judged) if other.source.rows != one.source.rows]
    setting = choose_setting([other.tried for other in unlike])
    chosen = choose_rule([other.tried for other in unlike if other.has_several])
    tried = {**one.tried, POOLED: one.tried[trials.pooled(*setting)]}
    tried |= {labeled(CHOSEN, labels): tried[labeled(chosen, labels)] for labels in LABELS}
    return one._replace(tried=tried, setting=setting, chosen=chosen)


def choose_setting(tried: Sequence[Rules]) -> tuple[float, float]:
    """Finds the gate and chance part with the highest mean gain of pooled shares over sources."""
    if not tried:
        return LEAST_TOLD, CHANCE

    def mean(setting: tuple[float, float]) -> float:
        return float(np.mean([rules[trials.pooled(*setting)].gain.mean() for rules in tried]))

    return max(SETTINGS, key=mean)


def choose_rule(tried: Sequence[Rules]) -> str:
    """Finds the rule for scored labels with the highest mean gain over sources and label counts."""

    def total(rule: str) -> float:
        pairs = product(tried, LABELS)
        return sum(float(rules[labeled(rule, m)].gain.mean()) for rules, m in pairs)

    return max((MOVED_SCORED, WITH_LABELS), key=total)


def bootstrap(judged: Judged, rule: str, options: Options) -> np.ndarray:
    """Computes bootstrap means [draws] of a rule's gain, over models and tasks of a source."""
    gains = judged.tried[rule].gain
    grid = gains.reshape(judged.source.set.shape)
    if len(grid) == 1:
        # All prompts of a task have the same rows, so the task is the unit.
        tasks = [task_of(table) for table in judged.source.set.tables]
        _, number = np.unique(tasks, return_inverse=True)
        grid = (np.bincount(number, gains) / np.bincount(number))[None]
    return statistics.crossed_means(grid, options.seed, draws=options.draws)


def average(judged: Sequence[Judged], rule: str) -> float:
    """Computes a rule's mean gain over sources, in points."""
    return float(np.mean([one.tried[rule].gain.mean() for one in judged]))


def mean_gain(judged: Sequence[Judged], rule: str, options: Options) -> tuple[float, float, float]:
    """Computes a rule's mean gain over sources in points, and its bootstrap interval."""
    drawn = np.mean([bootstrap(one, rule, options) for one in judged], axis=0)
    return average(judged, rule), *statistics.ends_of(drawn)


def worst(judged: Sequence[Judged], rule: str) -> float:
    """Computes a rule's mean gain on the worst source in points."""
    return min(average([one], rule) for one in judged)


def harmed(judged: Sequence[Judged], rule: str) -> float:
    """Computes the percentage of all contexts that a rule harms."""
    return 100 * float(np.concatenate([one.tried[rule].harmed for one in judged]).mean())


def of_language(judged: Iterable[Judged]) -> list[Judged]:
    """Selects the sources of language."""
    return [one for one in judged if one.source.kind in LANGUAGE]


def kinds_of(judged: Iterable[Judged]) -> dict[str, list[Judged]]:
    """Groups the sources by kind, and adds the groups `UNEVEN` and `ALL`; omits empty groups."""
    judged, by_kind = [*judged], dict[str, list[Judged]]()
    for kind in LANGUAGE:
        by_kind[kind] = [one for one in judged if one.source.kind == kind]
    by_kind[UNEVEN] = [one for one in of_language(judged) if one.source.kind != BALANCED]
    by_kind[ALL] = of_language(judged)
    for kind in KINDS[len(LANGUAGE) :]:
        by_kind[kind] = [one for one in judged if one.source.kind == kind]
    return {kind: members for kind, members in by_kind.items() if members}


def cells(judged: Sequence[Judged], options: Options) -> Cells:
    """Formats each rule's gain for each source, and mean, worst and harmed for each kind."""
    table = [["source", "contexts", BASELINE, *RULES]]
    for kind, members in kinds_of(judged).items():
        for one in members if kind in KINDS else ():
            gains = number_cells([one.tried[rule].gain.mean() for rule in RULES], "+.1f")
            count = f"{len(one.source.set.tables)}"
            table.append([one.source.set.title, count, f"{one.accuracy:.1f}", *gains])
        contexts = sum(len(one.source.set.tables) for one in members)
        means = [interval_cell(*mean_gain(members, rule, options)) for rule in RULES]
        table.append([f"{kind}: mean", f"{contexts:,}", "", *means])
        if len(members) > 1:
            lowest = number_cells([worst(members, rule) for rule in RULES], "+.1f")
            table.append([f"{kind}: worst source", "", "", *lowest])
        shares = [f"{harmed(members, rule):.1f} %" for rule in RULES]
        table.append([f"{kind}: contexts harmed", "", "", *shares])
    return table


def kind_cells(judged: Sequence[Judged], options: Options) -> Cells:
    """Formats each rule's mean gain and percentage of contexts harmed, for each kind."""
    rules = (*DRAWN, SHARES)
    table = [["labels", "contexts", *rules]]
    for kind, members in kinds_of(judged).items():
        if kind in (*LANGUAGE[1:], ALL):  # only the CSV file has these
            continue
        line = [kind, f"{sum(len(one.source.set.tables) for one in members):,}"]
        for rule in rules:
            gain = interval_cell(*mean_gain(members, rule, options))
            line.append(f"{gain}, {harmed(members, rule):.1f} %")
        table.append(line)
    return table


def section(judged: Sequence[Judged], options: Options) -> str:
    """Writes the section in Markdown."""
    return "\n\n".join([
        "Mean gain in accuracy over ICL in points, over the contexts of a source, then over "
        "sources, with its 95 % interval over models and tasks, and the contexts harmed beyond "
        f"noise (McNemar's exact test, 5 %). `{TOGETHER}` is `bc_pooled_shares` with "
        f"`share_error=0.0`, or `prior_matching` with it if a task has fewer than "
        f"{FEWEST_CONTEXTS} contexts. `{SHARES}` is an upper bound. Two constants of `{POOLED}` "
        "are chosen on the sources of all other rows. Grades are simulated: their scores are "
        "-a (j - h)² with noise, where h is a noisy reading of the true grade.",
        markdown(kind_cells(judged, options)),
        "![Gain of the advice on each source](figures/evidence_recommend.png)",
        f"CSV files: [each source]({csv_link('evidence_recommend')}), [with "
        f"labels]({csv_link('evidence_labels')}) (the rows without a label are judged), [by "
        f"distance from equal shares]({csv_link('evidence_distances')}), [grades by sureness "
        f"a]({csv_link('evidence_grades')}), [stated gains, learned on the sources of all other "
        f"rows, and measured ones]({csv_link('evidence_stated')}), [gains by promised "
        f"gain]({csv_link('evidence_experience')}).",
    ])  # fmt: skip


def gains_by_sureness(one: Judged) -> dict[str, dict[str, float]]:
    """Computes each rule's mean gain over the seeds of a simulated rater's sureness."""
    names = np.array([task_of(table).split(",")[0] for table in one.source.set.tables])
    gains = dict[str, dict[str, float]]()
    for name in dict.fromkeys(names):
        kept = names == name
        gains[str(name)] = {rule: float(one.tried[rule].gain[kept].mean()) for rule in RULES}
    return gains


def grades_cells(judged: Sequence[Judged]) -> Cells:
    """Formats each rule's gain for each simulated rater."""
    table = [["raters", "sureness", *RULES]]
    for one in kinds_of(judged).get(GRADES, ()):
        for name, gains in gains_by_sureness(one).items():
            table.append([one.source.set.title, name, *number_cells(gains.values(), "+.1f")])
    return table


def distance_of(table: ScoreTable) -> float:
    """Computes the largest distance of a label's true share from 1/k, in points."""
    labels, k = table.blocks["test"].labels, len(table.label_names)
    shares = np.bincount(labels, minlength=k) / len(labels)
    return 100 * float(np.abs(shares - 1 / k).max())


def by_distance(judged: Sequence[Judged]) -> dict[tuple[int, int], list[Judged]]:
    """Splits the contexts of language by their distance from equal shares."""
    by_range = dict[tuple[int, int], list[Judged]]()
    for low, high in pairwise(DISTANCES):
        for one in of_language(judged):
            far = np.array([*map(distance_of, one.source.set.tables)])
            kept = (far >= low) & (far < high)
            if kept.any():
                tried = {}
                for rule in NEAR_RULES:
                    tried[rule] = trials.Outcomes(*(of[kept] for of in one.tried[rule]))
                by_range.setdefault((low, high), []).append(one._replace(tried=tried))
    return by_range


def distance_cells(judged: Sequence[Judged]) -> Cells:
    """Formats gain and percentage harmed by distance from equal shares."""
    table = [["points from 1/k", "sources", "contexts", *NEAR_RULES]]
    table[0] += [f"{rule}: harmed" for rule in NEAR_RULES]
    groups = {f"{low} to {high}": of for (low, high), of in by_distance(judged).items()}
    if images := kinds_of(judged).get(IMAGES):
        groups["images, equal shares"] = images
    for title, members in groups.items():
        contexts = sum(len(one.tried[CORRECT].gain) for one in members)
        gains = number_cells([average(members, rule) for rule in NEAR_RULES], "+.1f")
        shares = [f"{harmed(members, rule):.1f} %" for rule in NEAR_RULES]
        table.append([title, f"{len(members)}", f"{contexts:,}", *gains, *shares])
    return table


def ranges(judged: Sequence[Judged], rule: str) -> tuple[Range, ...]:
    """Summarizes a rule's measured gain in each range of predicted gains."""
    kept, weights = [], []
    for one in judged:
        outcomes = one.tried[rule]
        # Contexts without changed predictions are left out.
        changed = outcomes.promised > 0
        kept.append(np.stack([outcomes.promised[changed], outcomes.gain[changed]]))
        weights.append(np.full(changed.sum(), 1 / len(changed)))
    (promised, gains), weight = np.concatenate(kept, axis=1), np.concatenate(weights)
    learned = []
    for above, up_to in pairwise((-np.inf, *EDGES)):
        inside = (promised > above) & (promised <= up_to)
        if inside.any():
            low, high = np.quantile(gains[inside], (0.025, 0.975))
            mean = round(float(np.average(gains[inside], weights=weight[inside])), 1)
            ends = round(float(low), 1), round(float(high), 1)
            fell = round(float((gains[inside] < 0).mean()), 2)
            learned.append(Range(float(up_to), int(inside.sum()), mean, *ends, fell))
    return tuple(learned)


def stated_cells(judged: Sequence[Judged]) -> Cells:
    """Formats stated and measured gains: overall, by range of promised gain, and by kind."""
    lines = []  # edge of the range, kind, weight, stated gain, gain, whether the interval holds it
    judged = of_language(judged)
    for one in judged:
        outcomes = one.tried[LIKELY]
        unlike = [other for other in judged if other.source.rows != one.source.rows]
        learned = ranges(unlike, LIKELY) if unlike else ()
        for promised, gain in zip(outcomes.promised, outcomes.gain, strict=True):
            if promised > 0 and learned:
                _, _, mean, low, high, _ = found = find_range(learned, promised)
                weight, is_held = 1 / len(outcomes.gain), low <= gain <= high
                lines.append((found.most, one.source.kind, weight, mean, gain, is_held))
    table = [["contexts", "how many", "stated", "happened", "interval holds"]]
    chosen: dict[str, tuple[float | None, tuple[str, ...]]] = {ALL: (None, LANGUAGE)}
    chosen |= {f"promised up to {edge:g}": (edge, LANGUAGE) for edge in EDGES}
    chosen |= {kind: (None, (kind,)) for kind in LANGUAGE}
    for title, (edge, kinds) in chosen.items():
        kept = [line for line in lines if line[0] == (edge or line[0]) and line[1] in kinds]
        if kept:
            weight, *numbers = np.array([line[2:] for line in kept], np.float64).T
            stated, gain, holds = (np.average(of_all, weights=weight) for of_all in numbers)
            counted = [title, f"{len(kept):,}", *number_cells((stated, gain), "+.1f")]
            table.append([*counted, f"{100 * holds:.0f} %"])
    return table


def experience_cells(judged: Sequence[Judged]) -> Cells:
    """Formats a line for each range of promised gains, of the sources of language."""
    table = [["shares", "promised up to", "contexts", "gain", "2.5 %", "97.5 %", "fell"]]
    for shares, rule in EXPERIENCE.items():
        is_limited = rule == ONE
        kept = [one for one in of_language(judged) if one.source.kind == BALANCED or not is_limited]
        for up_to, contexts, *gains, fell in ranges(kept, rule) if kept else ():
            row = [shares, f"{up_to:g}", f"{contexts}", *number_cells(gains, "+.1f")]
            table.append([*row, f"{100 * fell:.0f} %"])
    return table


def groups_with_labels(
    judged: Sequence[Judged],
) -> Iterable[tuple[str, list[Judged], Sequence[str]]]:
    """Yields groups of contexts with their sources and rules; the first rule uses no label."""
    language = of_language(judged)
    yield SEVERAL, [one for one in language if one.has_several], (*OF_TASK, CHOSEN)
    of_one = (*OF_ONE[:-1], WITH_LABELS)
    yield SINGLE, language, of_one
    for kind in KINDS[len(LANGUAGE) :]:
        yield kind, kinds_of(judged).get(kind, []), (*of_one, COUNTED, FROM_EQUAL)


def labels_cells(judged: Sequence[Judged], options: Options) -> Cells:
    """Formats a line for each rule: mean gains by kind, worst source and contexts harmed."""
    head = "contexts,labels,rule,balanced,uneven,mean,worst source"
    table = [f"{head},balanced: harmed,uneven: harmed,harmed".split(",")]
    for group, members, rules in groups_with_labels(judged):
        parts = (
            [one for one in members if one.source.kind not in LANGUAGE[1:]],
            [one for one in members if one.source.kind in LANGUAGE[1:]],
        )
        for labels in LABELS if members else ():
            for rule in rules:
                given = labeled(rule, labels)
                means, shares = [], []
                for of in (*parts, members):
                    means.append(interval_cell(*mean_gain(of, given, options)) if of else "")
                    shares.append(f"{harmed(of, given):.1f} %" if of else "")
                line = [group, f"{labels}", rule, *means, f"{worst(members, given):+.1f}"]
                table.append([*line, *shares])
    return table


def findings(judged: Sequence[Judged]) -> list[str]:
    """Writes the finding: gain and harm of several contexts by the number of labels."""
    several = [one for one in of_language(judged) if one.has_several]
    phrases = []
    for rule in (NONE, MOVED_COUNTED, MOVED_SCORED) if several else ():
        names = [labeled(rule, labels) for labels in LABELS]
        gains = " / ".join(f"{average(several, name):+.1f}" for name in names)
        shares = " / ".join(f"{harmed(several, name):.1f}" for name in names)
        phrases.append(f"{rule} {gains}, {shares} % harmed")
    return [
        f"**{' / '.join(map(str, LABELS))} labels, {SEVERAL}** ({len(several)} sources), gain in "
        f"points: {'; '.join(phrases)}."
    ]


def draw(judged: Sequence[Judged], options: Options) -> Figure:
    """Draws the gain of some rules, with a row for each source."""
    panels: dict[str, dict[str, tuple[Estimate, int]]] = {}
    for rule in DRAWN:
        panels[rule] = {}
        for one in judged:
            mean, low, high = mean_gain([one], rule, options)
            row = charts.forest_row(mean, low, high, int(low > 0) - int(high < 0))
            panels[rule][one.source.set.title] = row
    names, heading = [*panels[LIKELY]], "Advice without labels: the gain on each source"
    label = f"change from {BASELINE} (points)"
    return draw_forest(panels, names, label, heading, ("rule", "source")).figure
