"""Calibrate stored scores with every method; no model is needed.

python -m experiments.calibrate --workdir=W
python -m experiments.calibrate --workdir=W --options=bc_running.batch_size=8,pc.features=raw
python -m experiments.calibrate --workdir=W --config=configs/mini_probe_size.py

Flags go before the keys of a config, which are `CalibrationSettings`.
"""

from absl import flags

from experiments import cli, machine

WORKDIR = cli.folder_flag("folder with scores")
CONFIG = cli.config_flag("study whose calibration settings are taken", required=False)
METHODS = flags.DEFINE_list("methods", None, "methods to apply, comma-separated; all by default")
OPTIONS = flags.DEFINE_list(
    "options", None, "options of methods: METHOD.OPTION=VALUE, comma-separated"
)
FLOOR = flags.DEFINE_float("floor", None, "raise scores below it, -inf too, to this many nats")
SIZES = flags.DEFINE_list("probe_sizes", None, "also let BC and PC learn from so many rows alone")
DRAWS = flags.DEFINE_integer("draws", None, "draws of rows for each probe size", lower_bound=1)
ORDERS = flags.DEFINE_integer(
    "stream_orders", None, "random orders of the rows, for accuracy by rows seen", lower_bound=0
)


def main() -> None:
    """Write one record per stored table."""
    from batch_calibration.errors import InputError
    from batch_calibration.method_options import read_options
    from batch_calibration.study import calibrate_store

    machine.set_up()
    said = cli.configured_settings().calibration
    report = calibrate_store(
        WORKDIR.value,
        METHODS.value or said.methods or None,
        floor=FLOOR.value,
        options=read_options(said.method_options if OPTIONS.value is None else OPTIONS.value),
        probe_sizes=said.probe_sizes
        if SIZES.value is None
        else cli.numbers("probe_sizes", SIZES.value),
        draws=said.draws if DRAWS.value is None else DRAWS.value,
        stream_orders=said.stream_orders if ORDERS.value is None else ORDERS.value,
    )
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
