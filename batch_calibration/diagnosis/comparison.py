"""Every method side by side on labeled rows: accuracy, gain over ICL, and whether it is noise."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike

from batch_calibration.arrays.alignment import column_numbers, in_row_order
from batch_calibration.arrays.frames import names_of
from batch_calibration.diagnosis.method_results import Comparison, judge_answers
from batch_calibration.errors import InputError
from batch_calibration.methods import (
    METHODS,
    Options,
    check_labels,
    check_scores,
    find_skipped,
    get_method,
    run_methods,
)
from batch_calibration.scores import ScoreTable, make_block


def compare(
    scores: ArrayLike,
    gold: ArrayLike,
    *,
    methods: Sequence[str] | None = None,
    probe: ArrayLike | None = None,
    labeled: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    options: Mapping[str, Options] | None = None,
    from_probs: bool | None = None,
    seed: int = 0,
) -> Comparison:
    """Every method that the scores allow, judged on rows whose right labels are known.

    Args:
        scores: [n, k], log-probabilities in nats of the rows to correct.
        gold: [n], their right labels as indices or names of columns; -1 where unknown.
        methods: names from `METHODS`; all that can be used by default.
        probe: [m, k], scores of content-free prompts, for the methods that learn from them.
        labeled: [m, k], scores of other, labeled rows, for the methods that learn from labels.
        labels: [m], the labels of these.
        options: method -> what its `make` takes, such as `{"bc": {"strength": 0.5}}`.
        from_probs: whether scores, probe and labeled are probabilities, as in `calibrate`.
        seed: of methods that start at random.

    Raises:
        InputError: as `calibrate`; no right label; labeled without labels or the reverse; an
            unknown method, or none that can be used.

    >>> comparison = compare(20 * [[-1.0, -3.0], [-2.0, -2.5]], 20 * [0, 1], methods=["icl", "bc"])
    >>> [(result.method, result.accuracy.value, result.verdict) for result in comparison.results]
    [('icl', 0.5, ''), ('bc', 1.0, 'a gain')]
    """
    rows, names = check_scores(scores, from_probs=from_probs), names_of(scores)
    right = check_labels(column_numbers(in_row_order(gold, "gold", scores), names), rows)
    if (labeled is None) != (labels is None):
        raise InputError(
            where="labeled", expected="labeled and labels together", got="one of them",
            remedy="give the scores of the labeled rows and their labels",
        )  # fmt: skip
    blocks = {"test": make_block(rows, right)}
    if probe is not None:
        blocks["cc"] = make_block(check_scores(probe, from_probs=from_probs))
    if labeled is not None and labels is not None:
        labeled_rows = check_scores(labeled, from_probs=from_probs)
        label_numbers = column_numbers(in_row_order(labels, "labels", labeled), names)
        blocks["labeled"] = make_block(labeled_rows, check_labels(label_numbers, labeled_rows))
    table = ScoreTable({}, tuple(map(str, range(rows.shape[-1]))), blocks)
    chosen = [get_method(name) and name for name in (METHODS if methods is None else methods)]
    skipped = find_skipped(table, chosen, options)
    usable = [name for name in METHODS if name in chosen and name not in skipped]
    if not usable:
        raise InputError(
            where="methods", expected="one that the scores allow",
            got="; ".join(f"{name}: {why}" for name, why in skipped.items()) or "none",
        )  # fmt: skip
    comparison = next(compare_tables([table], usable, options=options, seed=seed))
    return comparison._replace(skipped=skipped)


def compare_tables(
    tables: Sequence[ScoreTable],
    methods: Sequence[str] | None = None,
    *,
    options: Mapping[str, Options] | None = None,
    seed: int = 0,
) -> Iterator[Comparison]:
    """For each table the methods that it allows, judged on its labeled rows; arguments as above."""
    found = run_methods(tables, methods, options=options, seed=seed)
    for table, corrected, skipped in zip(tables, found.results, found.skipped, strict=True):
        picks = {name: np.argmax(scores, axis=-1) for name, (_, scores) in corrected.items()}
        yield judge_answers(picks, table.blocks["test"].labels, skipped)
