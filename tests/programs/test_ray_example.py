"""The example of BC on Ray Data runs on a local cluster and gives what `calibrate` gives."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from processes import python

from batch_calibration import calibrate

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "docs" / "examples" / "ray_data.py"


def test_the_aggregate_of_ray_is_bc(tmp_path):
    labels, rows = ("no", "yes"), 1000
    scores = np.random.default_rng(0).normal((-1, -3), 1, (rows, 2)).astype(np.float32)
    (tmp_path / "scores").mkdir()
    for start in range(0, rows, 250):
        columns = {name: scores[start : start + 250, i] for i, name in enumerate(labels)}
        ids = np.arange(start, start + 250)
        pq.write_table(pa.table({**columns, "id": ids}), tmp_path / f"scores/{start}.parquet")
    done = python(EXAMPLE, tmp_path / "scores", tmp_path / "corrected", *labels)
    lines = done.stdout.splitlines()
    assert "nodes: 127.0.0.1" in lines
    assert any(line.startswith("1,000 rows; bias in nats: {'no': -1.0") for line in lines)
    table = pq.read_table(tmp_path / "corrected").sort_by("id")
    got = np.stack([table[name] for name in labels], axis=1)
    expected = np.asarray(calibrate(scores))
    np.testing.assert_allclose(got, expected, atol=1e-6)
    assert table["prediction"].to_pylist() == [labels[i] for i in expected.argmax(axis=1)]
