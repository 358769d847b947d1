"""Which cluster stands for which label: the assignment that fits best in all."""

from itertools import permutations

import jax
import jax.numpy as jnp
import numpy as np

from batch_calibration.errors import answering, extra

# 8! = 40,320 permutations are still a small table.
MOST_PERMUTED = 8


def assign(affinity: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The one-to-one assignment of largest sum: argmax_order sum_j affinity[order_j, j].

    Args:
        affinity: [cluster k, label k], what a cluster gains by standing for a label.

    Raises:
        InputError: more than 8 labels where optax is not installed.

    Returns:
        order[label], the cluster of each label, and the sum; of equal sums, the first in
        dictionary order for k <= 8.

    >>> order, total = assign(jnp.array([[0.0, 5.0], [1.0, 0.0]]))
    >>> order.tolist(), total.item()
    ([1, 0], 6.0)
    """
    labels = jnp.arange(affinity.shape[-1], dtype=jnp.int32)
    if affinity.shape[-1] <= MOST_PERMUTED:
        orders = jnp.asarray(np.array(list(permutations(range(len(labels)))), np.int32))
        totals = jnp.sum(affinity[orders, labels], axis=-1)
        return orders[jnp.argmax(totals)], jnp.max(totals)

    # Imported here because optax loads absl, which `import batch_calibration` must not.
    where = f"pc with more than {MOST_PERMUTED} labels"
    with answering(ImportError, where, "optax", extra("models")):
        from optax.assignment import hungarian_algorithm

    cluster, label = hungarian_algorithm(-affinity)
    order = jnp.zeros_like(labels).at[label].set(cluster.astype(jnp.int32))
    return order, jnp.sum(affinity[order, labels])
