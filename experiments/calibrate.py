"""Calibrate stored scores with every method; no model is needed.

python -m experiments.calibrate --workdir=W
"""

from absl import flags

from experiments import cli, machine

WORKDIR = cli.folder_flag("folder with scores")
METHODS = flags.DEFINE_list("methods", None, "methods to apply, comma-separated; all by default")
FLOOR = flags.DEFINE_float("floor", None, "raise scores below it, -inf too, to this many nats")
SIZES = flags.DEFINE_list("probe_sizes", [], "also let BC and PC learn from so many rows alone")
DRAWS = flags.DEFINE_integer("draws", 20, "draws of rows for each probe size", lower_bound=1)


def main() -> None:
    """Write one record per stored table."""
    from batch_calibration.errors import InputError
    from batch_calibration.study import calibrate_store

    machine.set_up()
    report = calibrate_store(
        WORKDIR.value, METHODS.value, floor=FLOOR.value,
        probe_sizes=cli.numbers("probe_sizes", SIZES.value), draws=DRAWS.value,
    )  # fmt: skip
    for note in report.notes:
        print(note)
    print(
        f"{len(report.records)} score tables in {report.seconds:.1f} s, compilation included; the "
        f"records are in {WORKDIR.value}/records"
    )
    if report.broken:
        raise InputError(" ".join(report.broken))


if __name__ == "__main__":
    cli.enter(main, loads=("jax",))
