"""Counts right answers by label, on many batches at once."""

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
    """Lists the baseline and the methods that learn only from unlabeled test rows.

    Args:
        looped: include methods that process batches sequentially.
        other_rows: include only methods that can correct rows they did not learn from.
    """

    def fits(method: Method) -> bool:
        probe = method.probe
        learns = probe.blocks == ("test",) and not probe.labels
        own = other_rows and method.own_rows
        # `looped >= method.looped` is False only for a sequential method that is not wanted.
        return learns and looped >= method.looped and not own

    return [REFERENCES[0], *(name for name, method in METHODS.items() if fits(method))]


def chosen(methods: Sequence[str], *, other_rows: bool = False) -> list[str]:
    """Returns the baseline, BC and the named methods (by default all that are not sequential).

    Args:
        methods: names from `METHODS`.
        other_rows: allow only methods that can correct rows they did not learn from.

    Raises:
        InputError: a method does not learn only from unlabeled test rows.

    >>> chosen(["bc_mean_prob"])
    ['icl', 'bc', 'bc_mean_prob']
    """
    able = without_labels(looped=True, other_rows=other_rows)
    for name in methods:
        if name not in able:
            raise InputError.unknown("method that learns from unlabeled test rows", name, able)
    named = methods or without_labels(other_rows=other_rows)
    return list(dict.fromkeys((*REFERENCES, *named)))


# Compiled once for each method and shape; the added bias is an argument, not a constant.
@partial(jax.jit, static_argnames="name")
def right_by_label(
    learned: jax.Array, corrected: jax.Array, gold: jax.Array, bias: jax.Array, key: jax.Array,
    *, name: str,
) -> jax.Array:  # fmt: skip
    """Counts right answers by label, [u k].

    Args:
        learned: [u c m k], rows to learn from: u units with c batches of m rows.
        corrected: [u c n k], the rows to correct and judge.
        gold: [u c n], right labels of the corrected rows.
        bias: [k], in nats, added to all rows before anything else.
        key: random key for methods with a random start.
        name: name of the method.
    """
    method = METHODS[name]
    calibrator = make_calibrator(method)

    def batch(rows: Mapping[str, jax.Array]) -> jax.Array:
        state = calibrator.fit(rows["learned"] + bias, None, None, key=key)
        # [m], the rows of one batch
        return predict(calibrator.apply(state, rows["corrected"] + bias))

    # Each batch is a separate context: [u * c, m, k].
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
    """Computes accuracy and balanced accuracy [...] in percent.

    `right` and `occurs` are the numbers of right rows and of all rows by label, [... k].

    >>> in_percent(np.array([3.0, 0.0]), np.array([3.0, 1.0]))
    (np.float64(75.0), np.float64(50.0))
    """
    # The recall of a label without rows is 0 here, and is not counted below.
    recall = np.where(occurs > 0, right / np.maximum(occurs, 1), 0.0)
    # The mean recall over the labels that occur.
    balanced = recall.sum(axis=-1) / np.maximum((occurs > 0).sum(axis=-1), 1)
    return 100 * right.sum(axis=-1) / occurs.sum(axis=-1), 100 * balanced
