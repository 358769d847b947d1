"""Times each method on one large score table.

python -m benchmarks.methods --rows=1000000 --labels=4

The scores are simulated in float32: a bias, one favored label per row, and noise. Each method fits
and applies in one compiled program. The table has the seconds of the first run with compilation,
the seconds of a second run, and the peak memory of the process so far. PC fits 100 mixtures and is
measured only with --pc.
"""

import argparse
import resource
import time

import jax
import numpy as np

from batch_calibration.methods import METHODS, Blocks, Evidence, correct

LABELED = 512
"""Number of rows of the labeled set and of every other probe."""


def simulated(rows: int, labels: int, seed: int) -> Evidence:
    """Simulates scores [rows, labels] in nats with a bias, and each row's favored label."""
    random = np.random.default_rng(seed)
    gold = random.integers(labels, size=rows).astype(np.int32)
    scores = random.standard_normal((rows, labels), np.float32)
    scores[np.arange(rows), gold] += 1.5  # nats for the better label
    bias = np.linspace(0, 2, labels, dtype=np.float32)
    total = np.log(np.exp(scores + bias).sum(axis=1, keepdims=True))
    return Evidence(scores + bias - total - 1, gold)  # a label mass of e^-1


def main() -> None:
    """Prints one line per method."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--labels", type=int, default=4)
    parser.add_argument("--pc", action="store_true", help="also measure PC")
    args = parser.parse_args()
    test = Evidence(simulated(args.rows, args.labels, 0).log_probs)  # without labels
    probes = set().union(*(method.probe.blocks for method in METHODS.values()))
    # PriDe needs whole questions, so the number of rows is a multiple of the labels.
    labeled_rows = LABELED // args.labels * args.labels
    blocks: Blocks = {
        **{name: simulated(labeled_rows, args.labels, 1) for name in sorted(probes)},
        "test": test,  # last, because BC's probe is also called "test"
    }
    key = jax.random.key(0)
    print(f"{args.rows:,} rows of {args.labels} labels; {jax.devices()[0].device_kind}")
    print(f"{'method':16}{'first, s':>10}{'again, s':>10}{'GB at most':>12}")
    for name, method in METHODS.items():
        if method.looped and not args.pc:
            continue
        method_blocks = {block: blocks[block] for block in ("test", *method.probe.blocks)}
        program = jax.jit(
            lambda blocks_, method=method: correct(  # bound in this iteration
                method, blocks_, blocks_["test"].log_probs, key=key
            )
        )
        times = []
        for _ in range(2):
            began = time.perf_counter()
            jax.block_until_ready(program(method_blocks))
            times.append(time.perf_counter() - began)
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2  # ru_maxrss is in KiB
        print(f"{name:16}{times[0]:10.2f}{times[1]:10.2f}{most:12.2f}", flush=True)


if __name__ == "__main__":
    main()
