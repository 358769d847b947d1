"""Calibrate stored scores with every method; no model is needed.

python -m experiments.calibrate --workdir=W --method_options=bc_running.batch_size=8
python -m experiments.calibrate --workdir=W --config=configs/mini_probe_size.py --tasks=sst2,mnli
"""

from absl import flags

from experiments import cli, machine

WORKDIR = cli.folder_flag("folder with scores")
CONFIG = cli.config_flag("study whose keys of `calibration` are taken", required=False)
FLOOR = flags.DEFINE_float("floor", None, "raise scores below it, -inf too, to this many nats")
TASKS = flags.DEFINE_list("tasks", [], "calibrate scores of these tasks alone")
SHOTS = flags.DEFINE_integer("shots", None, "calibrate scores of so many shots alone")
cli.key_flags("calibration")
machine.define_flags()


def main() -> None:
    """Write one record per stored table that is asked for."""
    from batch_calibration.errors import InputError
    from batch_calibration.study import calibrate_study

    machine.set_up()
    report = calibrate_study(
        WORKDIR.value, cli.configured_settings().calibration, floor=FLOOR.value,
        tasks=TASKS.value, shots=SHOTS.value,
    )  # fmt: skip
    print(*report.notes, sep="\n", end="\n" * bool(report.notes))
    print(
        f"{len(report.records)} score tables in {report.seconds:.1f} s, compilation included; the "
        f"records are in {WORKDIR.value}/records"
    )
    if report.broken:
        raise InputError(" ".join(report.broken))


if __name__ == "__main__":
    cli.enter(main, loads=("jax",))
