"""Calibrate stored scores with every method; no model is needed.

python -m experiments.calibrate --workdir=W
"""

import json
import time

from absl import flags

from batch_calibration.errors import InputError
from batch_calibration.methods import METHODS, get_method
from batch_calibration.store import Store
from batch_calibration.study.calibration import run_calibration
from batch_calibration.validation import check_floor
from experiments import machine
from experiments.cli import enter

WORKDIR = flags.DEFINE_string("workdir", None, "folder with scores", required=True)
METHOD = flags.DEFINE_list("methods", list(METHODS), "methods to apply, comma-separated")
FLOOR = flags.DEFINE_float("floor", None, "raise scores of -inf to this many nats")
SIZES = flags.DEFINE_list("probe_sizes", [], "also let BC and PC learn from so many rows alone")
DRAWS = flags.DEFINE_integer("draws", 20, "draws of rows for each probe size", lower_bound=1)


def main() -> None:
    """Write one record per stored table."""
    machine.set_up()
    if not METHOD.value:
        raise InputError(f"--methods: expected one or more of {', '.join(METHODS)}, got none.")
    for name in METHOD.value:
        get_method(name)
    if FLOOR.value is not None:
        check_floor(FLOOR.value)
    store = Store(WORKDIR.value)
    tables, broken = store.tables()
    if not tables and not broken:
        raise InputError(f"workdir {store.workdir}: no score tables yet; run experiments.score.")
    began = time.monotonic()
    records = run_calibration(
        tables,
        METHOD.value,
        floor=FLOOR.value,
        probe_sizes=_numbers(SIZES.value),
        draws=DRAWS.value,
    )
    for record in records:
        # What an earlier call measured of the same scores stays true.
        earlier = store.record(record.id)
        kept = {"probe_size": earlier["probe_size"]} if "probe_size" in earlier else {}
        store.put_record(record.id, kept | json.loads(record.to_json()))
    for name, reason in {k: v for r in records for k, v in r.skipped.items()}.items():
        print(f"{name} is left out of some contexts: {reason}")
    for record in records:
        for name, count in record.unreadable.items():
            whole = record.rows[name] + count
            print(
                f"{record.context.task}, block {name!r}: left out for they could not be read: "
                f"{count:,} of {whole:,} pictures"
            )
    print(
        f"{len(tables)} tables x {len(METHOD.value)} methods in {time.monotonic() - began:.1f} s, "
        f"compilation included; the records are in {store.workdir / 'records'}"
    )
    if broken:
        raise InputError(" ".join(broken))


def _numbers(words: list[str]) -> list[int]:
    try:
        return [int(word) for word in words]
    except ValueError as error:
        raise InputError(
            f"--probe_sizes: expected numbers such as 2,5,10, got {','.join(words)!r}."
        ) from error


if __name__ == "__main__":
    enter(main)
