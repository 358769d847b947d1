"""Counts of right answers on many batches at once, by label."""

from collections.abc import Mapping, Sequence
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from batch_calibration.errors import InputError
from batch_calibration.methods import METHODS, Method, make_calibrator, over_contexts
from batch_calibration.metrics import predict
from batch_calibration.reporting.frame import REFERENCES


def without_labels(*, looped: bool = False, other_rows: bool = False) -> list[str]:
    """Methods that learn from unlabeled test rows alone, the baseline first.

    Args:
        looped: those too that work on one batch after the other.
        other_rows: only those that may correct other rows than they learned from.
    """

    def fits(method: Method) -> bool:
        probe = method.probe
        learns = probe.blocks == ("test",) and not probe.labels
        own = other_rows and method.own_rows
        # False < True: a method that works batch by batch is in only if that was asked for.
        return learns and looped >= method.looped and not own

    return [REFERENCES[0], *(name for name, method in METHODS.items() if fits(method))]


def chosen(methods: Sequence[str], *, other_rows: bool = False) -> list[str]:
    """The methods named, all that are fast where none is; baseline and the paper's are first.

    Args:
        methods: names from `METHODS`.
        other_rows: they correct other rows than they learned from.

    Raises:
        InputError: one that learns from something else than unlabeled test rows.

    >>> chosen(["bc_mean_prob"])
    ['icl', 'bc', 'bc_mean_prob']
    """
    able = without_labels(looped=True, other_rows=other_rows)
    for name in methods:
        if name not in able:
            raise InputError.unknown("method that learns from unlabeled test rows", name, able)
    named = methods or without_labels(other_rows=other_rows)
    return list(dict.fromkeys((*REFERENCES, *named)))


# One program for a method and shape; strengths of the bias run through it as numbers.
@partial(jax.jit, static_argnames="name")
def right_by_label(
    learned: jax.Array, corrected: jax.Array, gold: jax.Array, bias: jax.Array, key: jax.Array,
    *, name: str,
) -> jax.Array:  # fmt: skip
    """Counts of right answers by label, [u k].

    Args:
        learned: [u c m k], u units of c batches; each batch is what its bias is learned from.
        corrected: [u c n k], the rows that are corrected and judged.
        gold: [u c n], their right labels.
        bias: [k], added to all rows first, in nats.
        key: for methods that start at random.
        name: of the method.
    """
    method = METHODS[name]
    calibrator = make_calibrator(method)

    def batch(rows: Mapping[str, jax.Array]) -> jax.Array:
        state = calibrator.fit(rows["learned"] + bias, None, None, key=key)
        # [m], the rows of one batch
        return predict(calibrator.apply(state, rows["corrected"] + bias))

    # Each batch is a context of its own: [u * c, m, k].
    flat = {
        "learned": learned.reshape(-1, *learned.shape[2:]),
        "corrected": corrected.reshape(-1, *corrected.shape[2:]),
    }
    answers = over_contexts(method, batch, flat)
    # Counts stay exact in float32 up to 2^24 rows.
    hits = (answers.reshape(gold.shape) == gold).astype(jnp.float32)
    labels = jax.nn.one_hot(gold, learned.shape[-1], dtype=jnp.float32)
    return jnp.einsum("ucn,ucnk->uk", hits, labels)


def in_percent(right: np.ndarray, occurs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Accuracy and balanced accuracy [...] in percent, of rows right and there by label [... k].

    >>> in_percent(np.array([3.0, 0.0]), np.array([3.0, 1.0]))
    (np.float64(75.0), np.float64(50.0))
    """
    # 0 where a label has no row, and not counted below.
    recall = np.where(occurs > 0, right / np.maximum(occurs, 1), 0.0)
    # Of the labels that occur.
    balanced = recall.sum(axis=-1) / np.maximum((occurs > 0).sum(axis=-1), 1)
    return 100 * right.sum(axis=-1) / occurs.sum(axis=-1), 100 * balanced
