"""One method's corrected scores of many contexts, in few compiled programs."""

from collections.abc import Sequence
from functools import partial

import jax
import numpy as np

from batch_calibration import scores
from batch_calibration.arrays import check_key
from batch_calibration.errors import InputError
from batch_calibration.methods import (
    Evidence,
    check_options,
    check_scores,
    correct,
    get_method,
    over_contexts,
    warn_of_few_rows,
)
from batch_calibration.scores import ScoreTable
from batch_calibration.study.groups import find_skipped, make_groups


def corrected_scores(
    tables: Sequence[ScoreTable], method: str = "bc", *, seed: int = 0, **options: object
) -> list[np.ndarray]:
    """The test rows of each table without the bias that `method` finds there.

    Args:
        tables: score tables with a block "test"; right labels are not needed.
        method: a name from `METHODS`.
        seed: of methods that start at random.
        **options: what `METHODS[method].make` takes.

    Returns:
        float32 [n, k] of each table, in nats for the shift methods.

    Raises:
        InputError: a table that the method cannot correct; wrong scores or options.

    >>> from batch_calibration.scores import make_block
    >>> rows = make_block(10 * [[-1.0, -3.0], [-2.0, -2.5]])
    >>> corrected_scores([ScoreTable({}, ("no", "yes"), {"test": rows})])[0][:2].tolist()
    [[0.5, -0.25], [-0.5, 0.25]]
    """
    chosen = get_method(method)
    for table in tables:
        where = str(table.context.get("task") or f"table {table.id}")
        scores.check(table, where)
        if reason := find_skipped(table, [method], {method: options}).get(method):
            raise InputError(
                f"{where}: {method} cannot correct it: {reason}; name another --method."
            )
        for name, block in table.blocks.items():
            check_scores(block.log_probs, f"{where}, block {name}")
        warn_of_few_rows(method, chosen.probe.blocks, len(table.blocks["test"].row_ids), where)
        options = check_options(method, chosen.make, options, len(table.label_names))

    def context(parts: dict[str, Evidence]) -> jax.Array:
        rows = parts["test"].log_probs
        return correct(chosen, parts, rows, key=check_key(seed), **options).scores  # type: ignore

    # One program for all groups of a shape.
    every = jax.jit(partial(over_contexts, chosen, context))
    by_position: dict[int, np.ndarray] = {}
    for group in make_groups(tables, [{}] * len(tables), [method], None):
        padded = np.asarray(every(group.blocks))
        for (position, table), scores_of_one in zip(group.tables, padded, strict=True):
            # Rows of padding stand behind those of the context.
            by_position[position] = scores_of_one[: len(table.blocks["test"].row_ids)]
    return [by_position[position] for position in range(len(tables))]
