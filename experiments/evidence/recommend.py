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
    """Judge every rule on every source.

    Args:
        folder: the folder of label scores.
        options: what is judged.
    """
    sources = [
        source
        for source in read_sources(folder, [Path(path) for path in options.embedded], options.seed)
        if not options.sources or source.set.name in options.sources
    ]
    by_source = [[trials.try_rules(table) for table in source.set.tables] for source in sources]
    random = np.random.default_rng(options.seed)
    judged = []
    for number, (source, tried) in enumerate(zip(sources, by_source, strict=True)):
        line = choose_elsewhere(sources, by_source, sources[number].rows)
        labeled = [
            trials.try_labeled(table, options.labeled, random)
            for table in trials.spread_evenly(source.set.tables, options.contexts)
        ]
        judged.append(Judged(source, tried, [trial.grid[line] for trial in tried], labeled))
    unlabeled, with_labels = (
        recommend_tables.cells(judged, options),
        recommend_tables.labeled_cells(judged),
    )
    experience = {method: ranges(judged, method) for method in (LIKELY, TO_SHARES)}
    tables = {
        "evidence_recommend": unlabeled,
        "evidence_recommend_labels": with_labels,
        "evidence_experience": experience_cells(experience),
    }
    return Written(
        recommend_tables.findings(judged, options),
        recommend_tables.section(judged, tables, options), tables,
        {"evidence_recommend": partial(recommend_tables.draw, judged, options)},
    )  # fmt: skip


def choose_elsewhere(
    sources: Sequence[Source], by_source: Sequence[Sequence[Trial]], rows: str
) -> int:
    """The line of `GRID` whose mean gain over the sources of other rows is the largest."""
    means = [
        np.mean([[outcome.gain for outcome in trial.grid] for trial in tried], axis=0)
        for source, tried in zip(sources, by_source, strict=True)
        if source.rows != rows
    ]
    return int(np.mean(means, axis=0).argmax()) if means else trials.DEFAULT
