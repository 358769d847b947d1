"""The study "recommend": rules on sources that chose none of their constants."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np

from batch_calibration.diagnosis.recommend import LIKELY, TO_SHARES
from experiments.evidence import recommend_tables, trials
from experiments.evidence.experience import Judged, experience_cells, ranges
from experiments.evidence.page import Written
from experiments.evidence.recommend_tables import Options
from experiments.evidence.sources import Source, read_sources
from experiments.evidence.trials import Trial


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
        "evidence_recommend": recommend_tables.cells(judged, options),
        "evidence_recommend_labels": recommend_tables.labeled_cells(judged),
        "evidence_experience": experience_cells(experience),
    }
    findings = recommend_tables.findings(judged, options)
    section = recommend_tables.section(judged, tables, options)
    figures = {"evidence_recommend": partial(recommend_tables.draw, judged, options)}
    return Written(findings, section, tables, figures)


def choose_elsewhere(
    sources: Sequence[Source], by_source: Sequence[Sequence[Trial]], rows: str
) -> int:
    """The line of `GRID` whose mean gain over the sources of other rows is the largest."""
    means = []
    for source, tried in zip(sources, by_source, strict=True):
        if source.rows != rows:
            means.append(np.mean([trials.gains(trial.grid) for trial in tried], axis=0))
    return int(np.mean(means, axis=0).argmax()) if means else trials.DEFAULT
