"""Runs BC on a cluster: Ray Data learns the mean of all rows block by block, then subtracts it.

python docs/examples/ray_data.py SCORES CORRECTED no yes

SCORES is a Parquet file or a folder of Parquet files with one column of log-probabilities, in nats,
for each named label. CORRECTED is a folder for Parquet files with the same columns and the
predictions. The running estimate of BC is a monoid: `update` computes an estimate for each block,
and `merge` combines two estimates in any order, as an aggregate of Ray does. Only estimates are
sent between processes, not rows; an estimate is two vectors and a count.

The example starts two processes on this machine, which listen only on the loopback address. On a
cluster, remove LOOPBACK and pass the cluster's address to `ray.init` instead of "local".
"""

# ruff: noqa: E402 (Ray reads its settings when it is imported)

import os
import sys

LOOPBACK = "127.0.0.1"
# Ray reads both when it is imported. The second one works on all systems despite its name: with
# "0", Ray keeps the loopback address; otherwise it listens on all addresses of the machine.
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"

import numpy as np
import ray
from ray.data.aggregate import AggregateFnV2
from ray.data.block import Block, BlockAccessor

from batch_calibration.calibration.running import Running, empty, merge, update
from batch_calibration.calibration.shift import Shift, apply

State = list[list[float]]
"""A running estimate in Ray: the mean, its rounding error, and the count."""


def from_state(state: State) -> Running:
    """Converts a state of Ray to a running estimate."""
    mean, rest, (count,) = state
    return Running(np.float32(mean), np.int32(count), np.float32(rest))


def to_state(running: Running) -> State:
    """Converts a running estimate to a state of Ray."""
    return [running.mean.tolist(), running.rest.tolist(), [int(running.count)]]


class RunningMean(AggregateFnV2):
    """The running estimate of BC (eq. 3 of the paper) over all rows of a data set."""

    def __init__(self, labels: list[str]):
        self.labels = labels
        super().__init__("bias", lambda: to_state(empty(len(labels))), on=None, ignore_nulls=False)

    def aggregate_block(self, block: Block) -> State:
        """Computes the estimate of one block."""
        columns = BlockAccessor.for_block(block).to_numpy(self.labels)
        return to_state(update(empty(len(self.labels)), rows_of(columns, self.labels)))

    def combine(self, current_accumulator: State, new: State) -> State:
        """Merges two estimates."""
        return to_state(merge(from_state(current_accumulator), from_state(new)))


def rows_of(columns: dict[str, np.ndarray], labels: list[str]) -> np.ndarray:
    """Stacks the label columns of a batch as scores [n, k]."""
    return np.stack([np.asarray(columns[label], np.float32) for label in labels], axis=1)


def corrected(batch: dict[str, np.ndarray], labels: list[str], bias: State) -> dict:
    """Subtracts the bias from a batch, and adds the predictions as a column."""
    state = Shift(from_state(bias).mean, np.float32(1.0))
    scores = np.asarray(apply(state, rows_of(batch, labels)))
    best = np.array(labels)[scores.argmax(axis=1)]
    return {**batch, **dict(zip(labels, scores.T, strict=True)), "prediction": best}


def main(source: str, target: str, labels: list[str]) -> None:
    """Corrects the scores of `source`, and writes them to `target`."""
    quiet = {"include_dashboard": False, "log_to_driver": False}
    ray.init("local", num_cpus=2, _node_ip_address=LOOPBACK, **quiet)
    print("nodes:", *(node["NodeManagerAddress"] for node in ray.nodes()))
    rows = ray.data.read_parquet(source)
    bias = rows.aggregate(RunningMean(labels))["bias"]
    options = {"labels": labels, "bias": bias}
    rows.map_batches(corrected, fn_kwargs=options, batch_format="numpy").write_parquet(target)
    means = dict(zip(labels, from_state(bias).mean.tolist(), strict=True))
    print(f"{int(bias[2][0]):,} rows; bias in nats:", means)
    ray.shutdown()


if __name__ == "__main__":
    if len(sys.argv) < 5:
        sys.exit(__doc__)
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
