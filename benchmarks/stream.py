"""Measures the rate and the memory of BC on a large Parquet file, in a separate process.

python -m benchmarks.stream              # 1e6 rows of 4 labels
python -m benchmarks.stream --rows=1e8   # 1.6 GB in, 1.7 GB out, removed afterwards

The file has random scores. `--one-group` writes all rows as one row group, which a reader by row
groups must hold in memory. The results are in RESULTS.md.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

CHUNK = 1_000_000
LABELS = "ABCD"


def make(path: Path, rows: int, *, one_group: bool) -> np.ndarray:
    """Writes random scores to a Parquet file, and returns their mean in float64."""
    total = np.zeros(4)
    schema = pa.schema([(name, pa.float32()) for name in LABELS])
    with pq.ParquetWriter(path, schema, use_dictionary=False) as writer:  # floats do not repeat
        if one_group:
            scores = np.random.default_rng(0).standard_normal((rows, 4), np.float32) - np.arange(
                1, 5, dtype=np.float32
            )
            total = scores.sum(axis=0, dtype=np.float64)
            columns = {name: scores[:, i] for i, name in enumerate(LABELS)}
            writer.write_table(pa.table(columns), row_group_size=rows)
            return total / rows
        for start in range(0, rows, CHUNK):
            random = np.random.default_rng(start)  # each chunk has its own seed
            scores = random.standard_normal((min(CHUNK, rows - start), 4), np.float32)
            scores -= np.arange(1, 5, dtype=np.float32)  # the biases to recover
            total += scores.sum(axis=0, dtype=np.float64)
            columns = {name: scores[:, i] for i, name in enumerate(LABELS)}
            writer.write_table(pa.table(columns))  # one row group per chunk
    return total / rows


def child(source: str, target: str) -> None:
    """Corrects one file; prints seconds, peak memory, bias and number of rows as JSON."""
    from batch_calibration.integrations.streams import correct_stream

    start = time.monotonic()
    done = correct_stream(source, target)
    seconds = time.monotonic() - start
    print(json.dumps([seconds, peak_memory(), done.bias[""].tolist(), done.rows]))


def peak_memory() -> int:
    """Returns the peak memory of this process in bytes.

    `getrusage` may return the peak of the parent process if that is larger.
    """
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return 1024 * int(status.partition("VmHWM:")[2].split()[0])


def main() -> None:
    """Makes the file, corrects it in another process, and prints the results."""
    flags = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    flags.add_argument("--rows", type=float, default=1e6)
    flags.add_argument("--one-group", action="store_true")
    flags.add_argument("--child", nargs=2)
    args = flags.parse_args()
    if args.child:
        child(*args.child)
        return
    rows = int(args.rows)
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "scores.parquet", Path(folder) / "corrected.parquet"
        mean = make(source, rows, one_group=args.one_group)
        command = [sys.executable, "-m", "benchmarks.stream", "--child", str(source), str(target)]
        printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        seconds, peak, bias, written = json.loads(printed)
        # The file on disk is checked, too, not only the count that the child reports.
        assert written == rows == pq.ParquetFile(target).metadata.num_rows
        sizes = [path.stat().st_size / 1e9 for path in (source, target)]
    print(
        f"{rows:,} rows of 4 labels, {sizes[0]:.2f} GB in, {sizes[1]:.2f} GB out: {seconds:.1f} s, "
        f"{rows / seconds:,.0f} rows/s, {peak / 1e9:.2f} GB of memory at most, bias off by "
        f"{np.abs(np.array(bias) - mean).max():.1e} nats"
    )


if __name__ == "__main__":
    main()
