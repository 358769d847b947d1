"""Times calibration: all shift methods in one call, and PC against scikit-learn's mixture.

    python -m benchmarks.calibration

Needs scikit-learn. Results are printed; copy relevant numbers to benchmarks/RESULTS.md with a date.
"""

import time
import warnings
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture

from batch_calibration.calibration.prototypes import COVARIANCE_RIDGE, prototypes
from batch_calibration.methods import METHODS, compare

STARTS = 100


def scores(random: np.random.Generator, *shape: int) -> np.ndarray:
    """Draws log-probabilities with overlapping labels, a bias and row constants."""
    *lead, rows, labels = shape
    gold = random.integers(0, labels, (*lead, rows))
    # The labels together have about e^-6 of the probability.
    noise = random.normal(0, 1, shape) + random.normal(0, 1, (*lead, rows, 1)) - 6
    bias = random.normal(0, 1, (*lead, 1, labels))
    return (noise + bias + 1.6 * np.eye(labels)[gold]).astype(np.float32)


def seconds(call: Callable[[], Any], repeats: int) -> float:
    """Returns the shortest time of several calls, because other programs share the machine."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        jax.block_until_ready(call())  # jax returns before the work is done
        times.append(time.perf_counter() - start)
    return min(times)


def shift_methods() -> None:
    """Times all shift methods in one jitted call on 13 tasks x 5 seeds of 1000 x 3 scores."""
    random = np.random.default_rng(0)
    # Number of rows of each block.
    sizes = {"test": 1000, "cc": 3, "dc": 20, "cc_original": 3, "dc_original": 20, "pmi": 1}
    rows = sizes | {"looc": 6, "permutations": 3000, "labeled": 384}
    blocks = {}
    for name, count in rows.items():
        log_probs = jnp.asarray(scores(random, 65, count, 3))  # 13 tasks x 5 seeds
        labels = jnp.asarray(random.integers(0, 3, (65, count)), jnp.int32)
        blocks[name] = log_probs, labels
    together = jax.jit(compare, static_argnames="methods")
    jax.block_until_ready(together(blocks))  # compiles
    taken = seconds(lambda: together(blocks), 5)
    names = [name for name, method in METHODS.items() if not method.needs_key]
    print(f"shift methods ({', '.join(names)}), 13 x 5 tables of 1000 x 3: {taken * 1e3:.1f} ms")


def prototypes_beside_scikit_learn(rows: int, labels: int) -> None:
    """Compares PC with scikit-learn: densities from the same 100 starts, and run times."""
    random = np.random.default_rng(1)
    table = jnp.asarray(scores(random, rows, labels))
    # Scikit-learn computes in float64.
    log_probs = np.asarray(jax.nn.log_softmax(table), np.float64)
    firsts = np.stack(
        # [starts, k, k]
        [log_probs[random.choice(rows, labels, replace=False)] for _ in range(STARTS)]
    )

    # All labels start with one covariance, as in our implementation.
    precision = np.linalg.inv(np.cov(log_probs.T, bias=True) + COVARIANCE_RIDGE * np.eye(labels))
    peers, taken_same = [], 0.0
    for first in firsts:
        peer = GaussianMixture(
            labels,
            init_params="random",  # the cheapest; means_init and precisions_init replace its draws
            means_init=first,
            weights_init=np.full(labels, 1 / labels),
            precisions_init=np.stack([precision] * labels),
        )
        start = time.perf_counter()
        peers.append(peer.fit(log_probs))
        taken_same += time.perf_counter() - start
    gaps = []
    for first, peer in zip(firsts, peers, strict=True):
        one_start = prototypes(start_means=first[None], fitted_weights=True)
        # [n], log density
        ours = jax.nn.logsumexp(one_start.apply(one_start.fit(table), table), axis=-1)
        gaps.append(float(np.abs(ours - peer.score_samples(log_probs)).max()))

    by_likelihood = prototypes(select="likelihood")
    fit = lambda seed: by_likelihood.fit(table, key=jax.random.key(seed))  # noqa: E731
    jax.block_until_ready(fit(0))  # compiles
    ours_taken = seconds(lambda: fit(1), 3)
    best_start = prototypes(start_means=firsts, select="likelihood").fit(table)

    print(f"\npc, n = {rows}, k = {labels}, {STARTS} starts, at most 100 steps, tolerance 1e-3")
    print(
        f"  same starts: max |d log density| per row, over all starts: median "
        f"{np.median(gaps):.1e}, worst {max(gaps):.1e} nats"
    )
    print(
        f"  best of the same starts, mean log-likelihood: ours "
        f"{float(best_start.log_likelihood):.6f}, "
        f"scikit-learn {max(peer.lower_bound_ for peer in peers):.6f}"
    )
    print(f"  ours {ours_taken:.3f} s, likelihood {float(fit(1).log_likelihood):.6f}")
    print(f"  scikit-learn, same starts {taken_same:.3f} s ({taken_same / ours_taken:.0f} x)")
    for init in ("random", "random_from_data", "kmeans"):
        peer = GaussianMixture(labels, n_init=STARTS, init_params=init, random_state=0)
        start = time.perf_counter()
        peer.fit(log_probs)
        taken = time.perf_counter() - start
        print(
            f"  scikit-learn, init {init}: {taken:.3f} s ({taken / ours_taken:.0f} x), "
            f"likelihood {peer.lower_bound_:.6f}"
        )


def main() -> None:
    """Prints both comparisons."""
    # Neither side has to converge within 100 steps.
    warnings.simplefilter("ignore", ConvergenceWarning)
    print(f"jax {jax.__version__} on {jax.devices()[0].device_kind}")
    shift_methods()
    prototypes_beside_scikit_learn(872, 2)  # the size of SST-2's validation set
    prototypes_beside_scikit_learn(9815, 3)  # the size of MNLI's, matched


if __name__ == "__main__":
    main()
