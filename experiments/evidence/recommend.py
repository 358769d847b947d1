"""The study "recommend": judges recommendations on sources that did not set their constants."""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
from batch_calibration.diagnosis.recommendation import Range, find_range
from matplotlib.figure import Figure

from batch_calibration.calibration.pooled_shares import CHANCE, LEAST_TOLD
from batch_calibration.diagnosis.recommend import (
    CORRECT,
    LIKELY,
    POOLED,
    TO_SHARES,
    WITH_LABELS,
)
from batch_calibration.metrics import Estimate
from batch_calibration.reporting.cells import Cells, markdown
from batch_calibration.reporting.figures.intervals import draw_forest
from experiments.evidence import charts, statistics, trials
from experiments.evidence.page import Written, csv_link
from experiments.evidence.sets import task_of
from experiments.evidence.sources import BALANCED, KINDS, Source, read_sources
from experiments.evidence.statistics import interval_cell, number_cells
from experiments.evidence.trials import (
    BASELINE,
    CHANCES,
    COUNTED,
    FOR_ALL,
    FOR_EACH,
    GATES,
    MATCHED,
    MOST,
    SCORED,
    SETTINGS,
    SHARES,
    Rules,
    counted,
    few,
)

RULES = (CORRECT, LIKELY, POOLED, SHARES)
UNEVEN, ALL = "both uneven kinds", "all"
EDGES = (0.3, 1.0, 3.0, 6.0, np.inf)
"""Upper edges of the ranges of promised gain, in points."""
LEAST_PART, MOST_HARMED_BALANCED = 85.0, 3.0
"""Goals with balanced labels: minimum percentage of BC's gain, maximum percentage harmed."""
LEAST_MEAN, LEAST_WORST, MOST_HARMED = 3.0, -1.0, 4.0
"""Goals on other sources: minimum mean and worst gain in points, maximum percentage harmed."""


class Options(NamedTuple):
    """Settings of the study.

    Attributes:
        embedded: workdirs with scores of the embedded suite, one for each model.
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
        tried: rule -> outcomes; `POOLED` has the setting that is best on sources of other rows.
        setting: gate of `POOLED` in nats, and the part of the chance agreement that it subtracts.
    """

    source: Source
    accuracy: float
    tried: Rules
    setting: tuple[float, float]


def run(folder: Path, options: Options) -> Written:
    """Runs the study: judges every rule on every source."""
    sources = read_sources(folder, [*map(Path, options.embedded)], options.seed)
    if options.sources:
        sources = [source for source in sources if source.set.name in options.sources]
    tried = [trials.try_source(source.set.tables, options.seed) for source in sources]
    judged = list[Judged]()
    for source, rules in zip(sources, tried, strict=True):
        unlike = [k for k, other in enumerate(sources) if other.rows != source.rows]
        setting = choose_setting([tried[k] for k in unlike])
        accuracies = []
        for table in source.set.tables:
            test = table.blocks["test"]
            accuracies.append(100 * (test.log_probs.argmax(axis=1) == test.labels).mean())
        pooled = {**rules, POOLED: rules[trials.pooled(*setting)]}
        judged.append(Judged(source, float(np.mean(accuracies)), pooled, setting))
    several = [one for one in judged if FOR_ALL in one.tried]
    experience = {LIKELY: ranges(judged, LIKELY), TO_SHARES: ranges(judged, TO_SHARES)}
    tables = {
        "evidence_recommend": cells(judged, options),
        "evidence_labels": labels_cells(several, options),
        "evidence_stated": stated_cells(judged),
        "evidence_experience": experience_cells(experience),
    }
    figures = {"evidence_recommend": partial(draw, judged, options)}
    return Written(findings(judged, options), section(judged, tables), tables, figures)


def choose_setting(tried: Sequence[Rules]) -> tuple[float, float]:
    """Finds the gate and chance part with the highest mean gain of pooled shares over sources."""
    if not tried:
        return LEAST_TOLD, CHANCE

    def mean(setting: tuple[float, float]) -> float:
        return float(np.mean([rules[trials.pooled(*setting)].gain.mean() for rules in tried]))

    return max(SETTINGS, key=mean)


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
    """Computes a rule's mean gain on the worst source, in points."""
    return min(float(one.tried[rule].gain.mean()) for one in judged)


def harmed(judged: Sequence[Judged], rule: str) -> float:
    """Computes the percentage of all contexts that a rule harms."""
    return 100 * float(np.concatenate([one.tried[rule].harmed for one in judged]).mean())


def kinds_of(judged: Iterable[Judged]) -> dict[str, list[Judged]]:
    """Groups the sources by kind, and adds the groups `UNEVEN` and `ALL`; omits empty groups."""
    by_kind = dict[str, list[Judged]]()
    for kind in KINDS:
        by_kind[kind] = [one for one in judged if one.source.kind == kind]
    by_kind[UNEVEN] = [one for one in judged if one.source.kind != BALANCED]
    by_kind[ALL] = [*judged]
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
        lowest = number_cells([worst(members, rule) for rule in RULES], "+.1f")
        table.append([f"{kind}: worst source", "", "", *lowest])
        shares = [f"{harmed(members, rule):.1f} %" for rule in RULES]
        table.append([f"{kind}: contexts harmed", "", "", *shares])
    return table


def findings(judged: Sequence[Judged], options: Options) -> list[str]:
    """Writes a finding for each kind of sources, and one for labeled rows."""
    sentences = []
    for kind, members in kinds_of(judged).items():
        if kind not in KINDS:
            continue
        phrases = []
        for rule in RULES[:-1]:
            mean, low, high = mean_gain(members, rule, options)
            phrases.append(
                f"{rule} {mean:+.1f} [{low:+.1f}, {high:+.1f}], "
                f"{harmed(members, rule):.1f} % harmed"
            )
        sentences.append(
            f"**Labels {kind}** ({len(members)} sources), gain in points and share of contexts "
            f"harmed: {'; '.join(phrases)}."
        )
    if several := [one for one in judged if FOR_ALL in one.tried]:
        sentences.append(labels_finding(several))
    return sentences


def section(judged: Sequence[Judged], tables: Mapping[str, Cells]) -> str:
    """Writes the section in Markdown."""
    return "\n\n".join([
        "Gains in accuracy over ICL: means over the contexts of a source, then over sources, in "
        f"points. `{LIKELY}` is recommended for one context, `{POOLED}` for several of one task, "
        "if labels may be uneven; `true shares` matches each context to the true shares, an upper "
        "bound. Contexts with less information than a limit are not pooled, and a part of the "
        "agreement expected by chance is subtracted from the agreement of the contexts. Limit (of "
        f"{', '.join(map(str, GATES))} nats) and part (of {', '.join(map(str, CHANCES))}) have the "
        "highest gain on the sources of all other rows: "
        f"{' or '.join(sorted({'{:g} nats with {:g}'.format(*one.setting) for one in judged}))}. "
        "A context is harmed if it loses rows beyond noise (McNemar's exact test, 5 %). Intervals "
        "(95 %) draw models and tasks.",
        markdown(tables["evidence_recommend"]),
        against_goals(kinds_of(judged)),
        "![Gain of recommendations on each source](figures/evidence_recommend.png)",
        f"[Labels of a task]({csv_link('evidence_labels')}), on the sources with three contexts of "
        f"a task or more (limit {LEAST_TOLD:g} nats, one draw of each, at most {MOST:,} rows "
        f"of a context). Counted: labels of other rows, without scores; `{MATCHED}` matches each "
        "context to the counts plus one for each label. Scored: labeled rows with the contexts' "
        "scores, one set for all contexts of a task or a set for each; the other rows are judged.",
        f"[Stated gains]({csv_link('evidence_stated')}): for one context the stated gain is the "
        f"mean gain of `{LIKELY}` on contexts with the same promised gain. The file compares the "
        "stated gain, learned on the sources of all other rows, with the measured gain. "
        f"[Gains by promised gain, on all sources]({csv_link('evidence_experience')}).",
    ])  # fmt: skip


def against_goals(by_kind: Mapping[str, Sequence[Judged]]) -> str:
    """Compares the results of pooled shares with the goals."""
    reached = dict[str, bool]()
    if balanced := by_kind.get(BALANCED):
        part = 100 * average(balanced, POOLED) / average(balanced, CORRECT)
        share = harmed(balanced, POOLED)
        reached[f"balanced labels {part:.0f} % of BC's gain"] = part >= LEAST_PART
        reached[f"with {share:.1f} % harmed"] = share <= MOST_HARMED_BALANCED
    if uneven := by_kind.get(UNEVEN):
        mean = average(uneven, POOLED)
        lowest, share = worst(uneven, POOLED), harmed(uneven, POOLED)
        reached[f"elsewhere a mean of {mean:+.1f}"] = mean >= LEAST_MEAN
        reached[f"the worst source {lowest:+.1f}"] = lowest >= LEAST_WORST
        reached[f"{share:.1f} % harmed"] = share <= MOST_HARMED
    verdicts = [f"{text} ({'reached' if met else 'missed'})" for text, met in reached.items()]
    return (
        f"Goals set beforehand for `{POOLED}`: with balanced labels {LEAST_PART:.0f} % of BC's "
        f"gain and at most {MOST_HARMED_BALANCED:.0f} % harmed, elsewhere a mean of "
        f"{LEAST_MEAN:+.1f}, no source below {LEAST_WORST:+.1f}, at most {MOST_HARMED:.0f} % "
        f"harmed. Results: {', '.join(verdicts)}."
    )


def ranges(judged: Sequence[Judged], method: str) -> tuple[Range, ...]:
    """Summarizes a method's measured gain in each range of predicted gains."""
    kept, weights = [], []
    for one in judged:
        outcomes = one.tried[SHARES if method == TO_SHARES else method]
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
    chosen: dict[str, tuple[float | None, tuple[str, ...]]] = {ALL: (None, KINDS)}
    chosen |= {f"promised up to {edge:g}": (edge, KINDS) for edge in EDGES}
    chosen |= {kind: (None, (kind,)) for kind in KINDS}
    for title, (edge, kinds) in chosen.items():
        kept = [line for line in lines if line[0] == (edge or line[0]) and line[1] in kinds]
        if kept:
            weight, *numbers = np.array([line[2:] for line in kept], np.float64).T
            stated, gain, holds = (np.average(of_all, weights=weight) for of_all in numbers)
            counted = [title, f"{len(kept):,}", *number_cells((stated, gain), "+.1f")]
            table.append([*counted, f"{100 * holds:.0f} %"])
    return table


def experience_cells(experience: Mapping[str, Sequence[Range]]) -> Cells:
    """Formats a line for each range of promised gains."""
    table = [["method", "promised up to", "contexts", "gain", "2.5 %", "97.5 %", "fell"]]
    for method, ranges_of_method in experience.items():
        for up_to, contexts, *gains, fell in ranges_of_method:
            row = [method, f"{up_to:g}", f"{contexts}", *number_cells(gains, "+.1f")]
            table.append([*row, f"{100 * fell:.0f} %"])
    return table


def labels_cells(judged: Sequence[Judged], options: Options) -> Cells:
    """Formats a line for each rule: mean gains by kind, worst source and contexts harmed."""
    kinds = kinds_of(judged)
    kept = {kind: kinds[kind] for kind in (BALANCED, UNEVEN, ALL) if kind in kinds}
    table = [["labels", "rule", *kept, "worst source", "contexts harmed"]]
    for title, rule in rules_with_labels().items():
        means = [interval_cell(*mean_gain(members, rule, options)) for members in kept.values()]
        ends = [f"{worst(judged, rule):+.1f}", f"{harmed(judged, rule):.1f} %"]
        table.append([*title, *means, *ends])
    return table


def rules_with_labels() -> dict[tuple[str, str], str]:
    """Maps the given labels and the method to the name of the rule."""
    rules = {("none", rule): few(rule) for rule in (CORRECT, POOLED)}
    for rule in (MATCHED, POOLED):
        rules |= {(f"{n} counted", rule): counted(rule, n) for n in COUNTED}
    return rules | {(f"{SCORED} scored {of}", WITH_LABELS): of for of in (FOR_ALL, FOR_EACH)}


def enough(judged: Sequence[Judged], rule: str) -> int | None:
    """Finds the number of counted labels from which on a rule beats BC and unlabeled pooled shares.

    The rule needs at least their mean gain, on balanced and on uneven sources, and must harm no
    more contexts than pooled shares. If no number is enough, the result is None.
    """
    kinds, least = kinds_of(judged), None
    for labels in sorted(COUNTED, reverse=True):
        given = counted(rule, labels)
        for members in (kinds[kind] for kind in (BALANCED, UNEVEN) if kind in kinds):
            without = max(average(members, few(CORRECT)), average(members, few(POOLED)))
            if average(members, given) < without:
                return least
        if harmed(judged, given) > harmed(judged, few(POOLED)):
            return least
        least = labels
    return least


def labels_finding(judged: Sequence[Judged]) -> str:
    """Writes the finding on counted labels and on labeled rows with scores."""
    phrases = []
    for rule in (POOLED, MATCHED):
        least = enough(judged, rule)
        phrases.append(f"{rule} {'from no number tried' if least is None else f'from {least}'} on")
    of_task, of_each = average(judged, FOR_ALL), average(judged, FOR_EACH)
    return (
        "**Counted labels without scores** beat bc and unlabeled pooled shares on balanced and on "
        f"uneven sources, and harm no more contexts: {'; '.join(phrases)}. **{SCORED} labeled "
        f"rows with scores** gain {of_task:+.1f} points if all contexts of a task share "
        f"them, and {of_each:+.1f} if each context has different ones."
    )


def draw(judged: Sequence[Judged], options: Options) -> Figure:
    """Draws the gain of each rule, with a row for each source."""
    panels: dict[str, dict[str, tuple[Estimate, int]]] = {}
    for rule in RULES[:-1]:
        panels[rule] = {}
        for one in judged:
            mean, low, high = mean_gain([one], rule, options)
            row = charts.forest_row(mean, low, high, int(low > 0) - int(high < 0))
            panels[rule][one.source.set.title] = row
    names, heading = [*panels[LIKELY]], "Recommendations without labels: the gain on each source"
    label = f"change from {BASELINE} (points)"
    return draw_forest(panels, names, label, heading, ("rule", "source")).figure
