"""Recommendations for several contexts of one task, whose label shares are told together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike
from scipy.special import stdtrit

from batch_calibration.arrays.alignment import in_row_order
from batch_calibration.arrays.frames import is_frame, names_of
from batch_calibration.arrays.numbers import usual_jax
from batch_calibration.calibration.pooled_shares import (
    FEWEST_CONTEXTS,
    pool_shares,
    resampled_shares,
)
from batch_calibration.diagnosis.diagnose import check_names
from batch_calibration.diagnosis.recommend import LIKELY, POOLED, recommend_by_bias
from batch_calibration.diagnosis.recommendation import Recommendation
from batch_calibration.errors import InputError, shown
from batch_calibration.methods import check_scores, run_methods
from batch_calibration.methods.run import holds_cosines, jit_quickly, stack_contexts
from batch_calibration.metrics import Estimate
from batch_calibration.scores import ScoreTable, make_block


class Together(NamedTuple):
    """Recommendations for contexts of one task.

    Attributes:
        contexts: a recommendation for each context.
        shares: label -> the share that contexts are matched to, with its 95 % interval; empty
            where fewer than three contexts tell enough.
    """

    contexts: tuple[Recommendation, ...]
    shares: dict[str, Estimate]

    def __repr__(self) -> str:
        names = shown([*self.shares])
        return f"Together({len(self.contexts)} contexts, shares of {names}: print it)"

    def __str__(self) -> str:
        lines = [*dict.fromkeys(map(str, self.contexts))]
        if self.shares:
            listed = ", ".join(f"{name} {share} %" for name, share in self.shares.items())
            lines.append(f"Label shares by all contexts together: {listed}.")
        return "\n".join(lines)


@usual_jax
def recommend_tables(
    tables: Sequence[ScoreTable], groups: Sequence[Hashable]
) -> list[tuple[Recommendation, np.ndarray]]:
    """`recommend` for each table where nothing is stated, with the bias [k] that it found.

    Args:
        tables: with a block "test"; those of a group are pooled.
        groups: for each table a value that those of one task share.
    """
    for table in tables:
        check_scores(table.blocks["test"].log_probs)
    methods = [LIKELY]
    # Smaller groups have nothing to pool: a program less is compiled.
    if max(Counter(groups).values(), default=0) >= FEWEST_CONTEXTS:
        methods.append(POOLED)
    recommended = []
    for table, corrected in zip(
        tables, run_methods(tables, methods, groups=groups).results, strict=True
    ):
        alone, bias = (np.asarray(corrected[name].state.bias) for name in (LIKELY, methods[-1]))
        is_pooled = not np.array_equal(alone, bias)
        scores = table.blocks["test"].log_probs
        advice = recommend_by_bias(
            scores, bias, table.label_names, pooled=is_pooled, cosines=holds_cosines(table)
        )
        recommended.append((advice, bias))
    return recommended


@usual_jax
def recommend_together(
    contexts: Iterable[ArrayLike],
    *,
    same_rows: bool = False,
    columns: Sequence[Hashable] | None = None,
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
        same_rows: whether row i is the same question in every context (frames of pandas are
            aligned by index); answers that agree then decide how far the shares are trusted.
        columns: of a frame that holds more than scores, the names of the labels' columns.
        label_names: k names for the sentences; by default the columns of the first frame.
        from_probs: whether scores are probabilities, as in `calibrate`.
        draws: of contexts and rows, for the interval of the shares. It says how far the shares
            depend on these contexts and rows; what biases have in common does not show. Of 60
            simulated tasks of five contexts and 100 rows it held in 97 % with equal shares and in
            92 % with .7 and .3, where the estimate leans to equal ones.
        seed: of these draws.

    Raises:
        InputError: no context; contexts of other labels or rows; fewer than two draws; what
            `calibrate` refuses.

    >>> random = np.random.default_rng(0)
    >>> told = 2.0 * np.eye(2)[random.choice(2, 60, p=[0.7, 0.3])] + random.normal(size=(5, 60, 2))
    >>> found = recommend_together(told + random.normal(size=(5, 1, 2)) - 9, label_names=("a", "b"))
    >>> [advice.method for advice in found.contexts][:2], [*found.shares]
    (['bc_pooled_shares', 'bc_pooled_shares'], ['a', 'b'])
    """
    sources = list(contexts)
    if not sources:
        raise InputError.at("contexts", "the scores of one context or more", "none")
    if draws < 2:
        raise InputError.at("draws", "2 or more", draws)
    columns, tables = names_of(sources[0], columns), list[ScoreTable]()
    names: tuple[str, ...] = ()
    for place, source in enumerate(sources):
        where = f"contexts[{place}]"
        aligned = in_row_order(source, where, sources[0], "contexts[0]") if same_rows else source
        of_frame = columns if is_frame(source) else None
        rows = np.asarray(check_scores(aligned, where, from_probs=from_probs, columns=of_frame))
        names = names or check_names(label_names, columns, rows.shape[-1])
        first = tables[0].blocks["test"].log_probs.shape if tables else rows.shape
        if rows.ndim != 2 or rows.shape[-1] != len(names) or (same_rows and rows.shape != first):
            raise InputError.at(
                where,
                f"scores [n, {len(names)}] of one context" + same_rows * f" and n = {first[0]}",
                f"shape {rows.shape}",
                "give the rows of one context at a time, all of one task",
            )
        digest = "same" if same_rows else str(place)
        tables.append(ScoreTable({"rows": digest}, names, {"test": make_block(rows)}))
    advice = [one for one, _ in recommend_tables(tables, ["one task"] * len(tables))]
    shares = dict[str, Estimate]()
    if any(one.method == POOLED for one in advice):
        scores, weight = map(jnp.asarray, stack_contexts(tables))
        pooled = jit_quickly(pool_shares)(scores, weight, same_rows)
        drawn = resampled_shares(scores, weight, same_rows, jax.random.key(seed), draws=draws)
        # Draws of few contexts with replacement vary less than these, and their variance is known
        # from few.
        count = float(pooled.used.sum())
        wider = float(stdtrit(count - 1, 0.975)) * np.sqrt(count / (count - 1))
        reach = wider * np.std(np.asarray(drawn, np.float64), axis=0, ddof=1)
        # Where the contexts' agreement speaks against the estimate the interval holds both.
        center, estimate = (np.asarray(of, np.float64) for of in (pooled.shares, pooled.estimate))
        lowest, highest = np.minimum(center, estimate), np.maximum(center, estimate)
        ends = np.clip([lowest - reach, highest + reach], 0, 1)
        for name, *numbers in zip(names, center, *ends, strict=True):
            shares[name] = Estimate(*map(float, numbers))
    return Together(tuple(advice), shares)
