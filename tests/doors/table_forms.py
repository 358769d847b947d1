"""Files of scores in every format of tables and arrays, for the fuzz: name -> bytes."""

import io
import json

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import safetensors.numpy

from batch_calibration.importers import Reading

SCORES = [[-1.5, -2.25], [-0.25, -4.5], [-3.5, -0.125], [-0.75, -0.5]]
GOLD = ["yes", "no", "", "yes"]
ROWS = [
    {"id": f"r{i}", "no": no, "yes": yes, "gold": gold, "topic": "ab"[i % 2]}
    for i, ((no, yes), gold) in enumerate(zip(SCORES, GOLD, strict=True))
]
TOGETHER = [{"id": row["id"], "scores": [row["no"], row["yes"]], "gold": 1} for row in ROWS]
SPLIT = Reading(gold="gold", ids="id", by=("topic",))
TURNED = Reading(labels=("yes", "no"), gold="gold", missing="least")
PROBS = Reading(labels=("no", "yes"), from_probs=True, missing="least")
DROP, FIXED = Reading(gold="gold", missing="drop"), Reading(gold="gold", missing=-30.0)
READINGS = Reading(gold="gold"), SPLIT, TURNED, DROP, FIXED, PROBS


def _text(delimiter):
    lines = [ROWS[0].keys(), *(row.values() for row in ROWS)]
    return "\n".join(delimiter.join(map(str, line)) for line in lines).encode()


def _arrays():
    scores, ids = np.array([SCORES, SCORES]) - 0.5, np.array([row["id"] for row in ROWS])
    arrays = {"scores": scores, "gold": np.array([1, 0, -1, 1], np.int8), "id": ids}
    for name, cells in (("labels", ["no", "yes"]), ("models", ["m", "n"]), ("topics", ["a", "b"])):
        arrays[name] = np.array(cells)
    return arrays | {"topic": np.array([0, 1, 0, 1], np.uint8)}


def _numpy(save, arrays):
    file = io.BytesIO()
    save(file, arrays) if save is np.save else save(file, **arrays)
    return file.getvalue()


def _tensors():
    numbers = {name: array for name, array in _arrays().items() if array.dtype.kind != "U"}
    texts = {name: json.dumps(x.tolist()) for name, x in _arrays().items() if name not in numbers}
    return safetensors.numpy.save(numbers, texts)


def _arrow(write, rows):
    file = io.BytesIO()
    write(pa.Table.from_pylist(rows), file)
    return file.getvalue()


def _stream(table, file):
    with pa.ipc.new_stream(file, table.schema) as writer:
        writer.write_table(table)


FORMS = {"a.csv": _text(","), "a.tsv": _text("\t"), "b.csv": _text(";")}
FORMS |= {"a.npz": _numpy(np.savez, _arrays()), "b.npz": _numpy(np.savez_compressed, _arrays())}
FORMS |= {"a.npy": _numpy(np.save, np.array(SCORES)), "a.safetensors": _tensors()}
FORMS |= {"a.feather": _arrow(pa.feather.write_feather, ROWS), "a.arrows": _arrow(_stream, ROWS)}
FORMS["a.parquet"] = _arrow(pa.parquet.write_table, ROWS)
FORMS["b.parquet"] = _arrow(pa.parquet.write_table, TOGETHER)
VALUES = {"a.jsonl": ROWS, "b.jsonl": TOGETHER, "a.json": ROWS}
VALUES["b.json"] = {"labels": ["no", "yes"], "rows": TOGETHER}


def as_json(name, value, as_text):
    """A JSON value as a file of its name: a row a line, or one text."""
    if name.endswith(".jsonl") and isinstance(value, list):
        return "\n".join(map(as_text, value)).encode()
    return as_text(value).encode()
