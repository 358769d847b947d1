"""Corrects label scores in Parquet files of any size on a Ray cluster: BC in two passes.

    python examples/ray_correction.py scores corrected no maybe yes

Needs `pip install 'ray[data]'`. Files of the folder `scores` have a column of log-probabilities for
each label. In the first pass each batch gives a mean and a count; merged, they are the bias. The
second pass subtracts it and adds `raw_prediction` and `prediction`. Other columns stay; have one of
ids, because Ray does not keep the order of rows. One machine needs no Ray:
`batch-calibration calibrate 'scores/*.parquet' --shards --output=corrected.parquet`.
"""

import sys
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pyarrow as pa
import ray
from pyarrow.dataset import dataset

from batch_calibration import InputError, predict
from batch_calibration.calibration.running import Running, empty, merge, update
from batch_calibration.methods import check_scores

source, out, *labels = sys.argv[1:]
NEW = ("raw_prediction", "prediction")
BATCH = {"batch_size": 2**16, "batch_format": "pyarrow"}  # few shapes, which JAX compiles


def read(table, *, from_probs=False):
    """Returns the scores [n, k] of a batch; refuses gaps and infinities."""
    columns = [table[name].to_numpy() for name in labels]
    return check_scores(np.stack(columns, axis=1), f"a batch of {source}", from_probs=from_probs)


def learn(table):
    """Returns the mean of a batch, its rounding error, and the number of rows, as one row."""
    state = update(empty(len(labels)), read(table))
    return {name: np.asarray(part)[None] for name, part in state._asdict().items()}


def correct(table, bias):
    """Subtracts the bias, and predicts a label before and after."""
    scores = read(table)
    corrected = scores - bias
    for name, column in zip(labels, corrected.T, strict=True):
        table = table.set_column(table.schema.get_field_index(name), name, pa.array(column))
    for name, found in zip(NEW, (scores, corrected), strict=True):
        table = table.append_column(name, pa.DictionaryArray.from_arrays(predict(found), labels))
    return table


if Path(out).exists():  # Ray would add files to it.
    sys.exit(f"{out}: expected a new folder; name another one, or move it away.")
first = dataset(source, format="parquet").head(1000)
try:
    read(first, from_probs=None)
except InputError as error:
    sys.exit(f"{error}\nThe columns must have log-probabilities: take logarithms of probabilities.")
if taken := set(NEW) & set(first.column_names):
    sys.exit(f"{source}: expected no column {', '.join(taken)}; rename it.")

rows = ray.data.read_parquet(source)
states = rows.select_columns(labels).map_batches(learn, **BATCH).take_all()
total = empty(len(labels))
for state in sorted(states, key=lambda state: state["mean"].tolist()):  # Ray's order varies.
    parts = {name: jnp.asarray(part) for name, part in state.items()}
    total = merge(total, Running(**parts))
bias = np.asarray(total.mean)
rows.map_batches(correct, fn_args=(bias,), **BATCH).write_parquet(out)
print(f"{int(total.count):,} rows, bias", *map("{}: {:.6f}".format, labels, bias), "nats")
