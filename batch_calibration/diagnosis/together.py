"""Recommendations for several contexts of one task, whose label shares are told together."""

from collections.abc import Hashable, Iterable, Sequence
from typing import NamedTuple

import jax
import numpy as np
from numpy.typing import ArrayLike

from batch_calibration.calibration.pooled_shares import pool_shares, resampled_shares
from batch_calibration.diagnosis.diagnose import check_names
from batch_calibration.diagnosis.recommend import LIKELY, POOLED, recommend_by_bias
from batch_calibration.diagnosis.recommendation import Recommendation
from batch_calibration.errors import InputError
from batch_calibration.methods import check_scores, run_methods
from batch_calibration.methods.run import stack_contexts
from batch_calibration.metrics import Estimate
from batch_calibration.scores import ScoreTable, make_block


class Together(NamedTuple):
    """Recommendations for contexts of one task.

    Attributes:
        contexts: a recommendation for each context.
        shares: label -> the share that the contexts tell together, with its 95 % interval; empty
            where fewer than three contexts tell enough.
    """

    contexts: tuple[Recommendation, ...]
    shares: dict[str, Estimate]

    def __str__(self) -> str:
        lines = [*dict.fromkeys(map(str, self.contexts))]
        if self.shares:
            listed = ", ".join(f"{name} {share} %" for name, share in self.shares.items())
            lines.append(f"Label shares by all contexts together: {listed}.")
        return "\n".join(lines)


def recommend_tables(
    tables: Sequence[ScoreTable], groups: Sequence[Hashable]
) -> list[Recommendation]:
    """`recommend` for each table where nothing is stated; tables of a group are pooled.

    Args:
        tables: with a block "test".
        groups: for each table a value that those of one task share.
    """
    for table in tables:
        check_scores(table.blocks["test"].log_probs, from_probs=False)
    found = run_methods(tables, [LIKELY, POOLED], groups=groups)
    advice = []
    for table, corrected in zip(tables, found.results, strict=True):
        alone, pooled = (np.asarray(corrected[name].state.bias) for name in (LIKELY, POOLED))
        advice.append(recommend_by_bias(
            table.blocks["test"].log_probs, pooled, table.label_names,
            pooled=not np.array_equal(alone, pooled),
        ))  # fmt: skip
    return advice


def recommend_together(
    contexts: Iterable[ArrayLike],
    *,
    same_rows: bool = False,
    label_names: Sequence[str] = (),
    from_probs: bool | None = None,
    draws: int = 200,
    seed: int = 0,
) -> Together:
    """`recommend` for several contexts of one task: prompts, draws of demonstrations, models.

    All have the same label shares, while their biases differ: three contexts or more tell both
    apart, and `bc_pooled_shares` is recommended.

    Args:
        contexts: scores [n, k] in nats of each context, or an array [c, n, k].
        same_rows: whether row i is the same question in every context; answers that agree then
            decide how far the shares are trusted.
        label_names: k names for the sentences; by default the columns of the first frame.
        from_probs: whether scores are probabilities, as in `calibrate`.
        draws: of contexts and rows, for the interval of the shares. It says how far the shares
            depend on these contexts and rows; what biases have in common does not show, and an
            estimate that leans to equal shares is held less often (93 % of simulated tasks with
            equal shares, 87 % with shares of .7 and .3, five contexts of 100 rows).
        seed: of these draws.

    Raises:
        InputError: no context; contexts of other labels; what `calibrate` refuses.

    >>> random = np.random.default_rng(0)
    >>> told = 2.0 * np.eye(2)[random.choice(2, 60, p=[0.7, 0.3])] + random.normal(size=(5, 60, 2))
    >>> found = recommend_together(told + random.normal(size=(5, 1, 2)) - 9, label_names=("a", "b"))
    >>> [advice.method for advice in found.contexts][:2], [*found.shares]
    (['bc_pooled_shares', 'bc_pooled_shares'], ['a', 'b'])
    """
    sources = list(contexts)
    if not sources:
        raise InputError.at("contexts", "the scores of one context or more", "none")
    tables = list[ScoreTable]()
    names: tuple[str, ...] = ()
    for place, source in enumerate(sources):
        where = f"contexts[{place}]"
        rows = np.asarray(check_scores(source, where, from_probs=from_probs))
        if rows.ndim != 2:
            raise InputError.at(
                where, "[n, k], the rows of one context", f"shape {rows.shape}",
                "give one context's rows at a time",
            )  # fmt: skip
        names = names or check_names(label_names, source, rows.shape[-1])
        if rows.shape[-1] != len(names):
            raise InputError.at(
                where, f"scores of {len(names)} labels, as in contexts[0]",
                f"{rows.shape[-1]}", "give contexts of one task, their labels in one order",
            )  # fmt: skip
        digest = "same" if same_rows else str(place)
        tables.append(ScoreTable({"rows": digest}, names, {"test": make_block(rows)}))
    advice = recommend_tables(tables, ["one task"] * len(tables))
    shares = dict[str, Estimate]()
    if any(one.method == POOLED for one in advice):
        scores, weight = stack_contexts(tables)
        pooled = jax.jit(pool_shares)(scores, weight, same_rows)
        drawn = resampled_shares(scores, weight, same_rows, jax.random.key(seed), draws=draws)
        # The estimates as far from equal shares as the one that is used.
        drawn = 1 / len(names) + pooled.trust * (np.asarray(drawn) - 1 / len(names))
        ends = np.quantile(drawn, [0.025, 0.975], axis=0)
        for name, share, low, high in zip(names, pooled.shares, *ends, strict=True):
            shares[name] = Estimate(float(share), float(low), float(high))
    return Together(tuple(advice), shares)
