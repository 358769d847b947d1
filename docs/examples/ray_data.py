"""BC over a cluster: Ray Data learns the mean of all rows block by block, then removes it.

python docs/examples/ray_data.py SCORES CORRECTED no yes

SCORES is a Parquet file or a folder of them with a column of log-probabilities, in nats, for each
label named; CORRECTED is a folder, which becomes Parquet with the same columns. The running
estimate is a monoid: each block gives one by `update`, and `merge` makes one of two, in any order,
which is what Ray calls an aggregate. Rows never travel; a block's estimate is two rows and a count.

It starts two processes on this machine that listen on the loopback address alone; on a cluster
leave out LOOPBACK and give `ray.init` the cluster's address instead of "local".
"""

# ruff: noqa: E402 (Ray reads its settings when it is imported)

import os
import sys

LOOPBACK = "127.0.0.1"
# Read when ray is imported. With the second, which is for Windows and macOS by its name but is
# heeded everywhere, Ray keeps a loopback address; else it listens on all addresses of the machine.
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"

import numpy as np
import ray
from ray.data.aggregate import AggregateFnV2
from ray.data.block import Block, BlockAccessor

from batch_calibration.calibration.running import Running, empty, merge, update
from batch_calibration.calibration.shift import Shift, apply

State = list[list[float]]
"""An estimate as Ray keeps it: the mean, what rounding took off it, and the count."""


def from_state(state: State) -> Running:
    """An estimate of what Ray keeps."""
    mean, rest, (count,) = state
    return Running(np.float32(mean), np.int32(count), np.float32(rest))


def to_state(running: Running) -> State:
    """The state of an estimate in Ray."""
    return [running.mean.tolist(), running.rest.tolist(), [int(running.count)]]


class RunningMean(AggregateFnV2):
    """The running estimate of BC (eq. 3 of the paper) over all rows of a data set."""

    def __init__(self, labels: list[str]):
        self.labels = labels
        super().__init__("bias", lambda: to_state(empty(len(labels))), on=None, ignore_nulls=False)

    def aggregate_block(self, block: Block) -> State:
        """The estimate of one block."""
        columns = BlockAccessor.for_block(block).to_numpy(self.labels)
        return to_state(update(empty(len(self.labels)), rows_of(columns, self.labels)))

    def combine(self, current_accumulator: State, new: State) -> State:
        """The estimate of both."""
        return to_state(merge(from_state(current_accumulator), from_state(new)))


def rows_of(columns: dict[str, np.ndarray], labels: list[str]) -> np.ndarray:
    """Scores [n, k] of a batch."""
    return np.stack([np.asarray(columns[label], np.float32) for label in labels], axis=1)


def corrected(batch: dict[str, np.ndarray], labels: list[str], bias: State) -> dict:
    """A batch without the bias, and what it predicts."""
    state = Shift(from_state(bias).mean, np.float32(1.0))
    scores = np.asarray(apply(state, rows_of(batch, labels)))
    best = np.array(labels)[scores.argmax(axis=1)]
    return {**batch, **dict(zip(labels, scores.T, strict=True)), "prediction": best}


def main(source: str, target: str, labels: list[str]) -> None:
    """Correct the scores of `source`, and write them to `target`."""
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
