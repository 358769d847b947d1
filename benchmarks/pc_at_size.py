"""PC on large tables: how long it takes, and what the search by a sample changes.

python -m benchmarks.pc_at_size [--rows=N | --sample=N]

A line for each size of simulated tables of 4 labels, each in a process of its own: seconds of the
first fit with compilation, nothing compiled being kept, and of a second one with another key;
processor seconds; the process's high-water mark of memory. Then a line for each table of
../shared/scores, put together from several contexts, of more rows than are searched whole: the
search by a sample beside the full one with the same key, for three keys, and the full searches of
the other two keys beside that of the first, as the answer depends on the draw of the starts anyway.
--rows=N prints one line of the first kind alone, --sample=N those of the second with a sample of so
many rows.
"""

import argparse
import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import chain, product

import jax
import numpy as np

from batch_calibration.calibration.base import predict
from batch_calibration.calibration.prototypes import SEARCHED, prototypes
from benchmarks.calibration import scores
from experiments.evidence.sets import read_sets, shared_scores

KEYS = (0, 1, 2)
MMLU = ("mmlu_batch", "mmlu_neverA_batch", "mmlu_neverB_batch")
POOLS = {
    "one model": {"MMLU": MMLU},
    "all models": {
        **{name: (name,) for name in (*MMLU, "mmbench", "oodcv", "mmbench_AF", "oodcv_AF")},
        "MMLU, all three": MMLU,
        "MMBench and OOD-CV, A to D": ("mmbench", "oodcv"),
        "MMBench and OOD-CV, A to F": ("mmbench_AF", "oodcv_AF"),
    },
}
"""Which sets of scores are put together: the rows of one model, and those of all models."""


def seconds(rows: int) -> None:
    """One line: the first fit of a simulated table, and a second one."""
    table = jax.numpy.asarray(scores(np.random.default_rng(1), rows, 4))
    times = []
    for seed in range(2):
        wall, work = time.perf_counter(), time.process_time()
        jax.block_until_ready(prototypes().fit(table, key=jax.random.key(seed)))
        # Seconds on the clock, and of all cores.
        times += [time.perf_counter() - wall, time.process_time() - work]
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2  # ru_maxrss is in KiB
    print(f"{rows:10,}" + "".join(f"{duration:12.2f}" for duration in (*times, most)), flush=True)


def real_tables() -> Iterator[tuple[str, np.ndarray, tuple[str, ...]]]:
    """Name, scores, and the kinds of features that they allow."""
    for title, sets in POOLS["one model"].items():
        read = read_sets(shared_scores(), sets)
        for same_tables in zip(*(score_set.tables for score_set in read), strict=True):
            rows = np.concatenate([table.blocks["test"].log_probs for table in same_tables])
            yield f"{title}, {same_tables[0].context['model']}", rows, ("normalized", "raw")
    for title, sets in POOLS["all models"].items():
        tables = list(chain.from_iterable(read.tables for read in read_sets(shared_scores(), sets)))
        rows = np.concatenate([table.blocks["test"].log_probs for table in tables])
        # MMLU's are log-probabilities; the others miss a constant a row.
        yield title, rows, ("normalized", "raw") if sets[0] in MMLU else ("normalized",)


def beside(name: str, rows: np.ndarray, features: str, sample: int) -> None:
    """One line: what the search by a sample changes, and another key."""
    table = jax.numpy.asarray(rows)
    # The whole search, and by a sample.
    ways = [prototypes(features=features, searched=most) for most in (len(rows), sample)]
    predictions, likelihoods, durations = {}, {}, [0.0, 0.0]
    for seed, way in product(KEYS, (0, 1)):
        began = time.process_time()
        state = jax.block_until_ready(ways[way].fit(table, key=jax.random.key(seed)))
        durations[way] += time.process_time() - began
        likelihoods[seed, way] = float(state.log_likelihood)
        predictions[seed, way] = np.asarray(predict(ways[way].apply(state, table)))

    def change(first: tuple[int, int], second: tuple[int, int]) -> str:
        agreement = 100 * float(np.mean(predictions[first] == predictions[second]))
        return f"{likelihoods[first] - likelihoods[second]:+.4f} nats {agreement:.2f} %"

    samples = ", ".join(change((seed, 1), (seed, 0)) for seed in KEYS)
    other_keys = ", ".join(change((seed, 0), (0, 0)) for seed in KEYS[1:])
    print(
        f"{name}, {features}, {len(rows):,} x {rows.shape[1]} | {samples} | {other_keys} | "
        f"{durations[0]:.0f}, {durations[1]:.0f} s",
        flush=True,
    )


def main() -> None:
    """Both tables, or one line of the first."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int)
    parser.add_argument("--sample", type=int, default=SEARCHED)
    args = parser.parse_args()
    if args.rows:
        return seconds(args.rows)
    if args.sample == SEARCHED:
        print(f"jax {jax.__version__} on {jax.devices()[0].device_kind}")
        titles = ("first, s", "processor", "again, s", "processor", "GB at most")
        print(f"{'rows':>10}" + "".join(f"{title:>12}" for title in titles), flush=True)
        for rows in (1000, 10_000, 100_000, 1_000_000):
            command = [sys.executable, "-m", "benchmarks.pc_at_size", f"--rows={rows}"]
            # Nothing compiled is kept.
            fresh = {**os.environ, "JAX_ENABLE_COMPILATION_CACHE": "false"}
            subprocess.run(command, check=True, env=fresh)
    print("\ntable | by a sample | other keys | processor, full and by a sample", flush=True)
    for name, rows, kinds in real_tables():
        for features in kinds if len(rows) > args.sample else ():
            beside(name, rows, features, args.sample)
    return None


if __name__ == "__main__":
    main()
