"""Merge workdirs: the scores of several folders in one, each block kept; nothing is scored.

python -m experiments.merge --from=A,B --workdir=W
"""

from absl import flags

from experiments import cli

FROM = flags.DEFINE_list("from", None, "workdirs to read, comma-separated", required=True)
WORKDIR = cli.folder_flag("folder that they go into; made where there is none")
TOLERANCE = flags.DEFINE_float(
    "tolerance", 1e-3, "nats by which two scores of one label may differ: rounding", lower_bound=0
)


def main() -> None:
    """Bring the score tables of some workdirs into another, and say how many."""
    from batch_calibration.errors import InputError
    from batch_calibration.studies import merge_workdirs

    report = merge_workdirs(FROM.value, WORKDIR.value, tolerance=TOLERANCE.value)
    print(
        f"{report.added} contexts added, {report.widened} given blocks that they lacked, "
        f"{report.unchanged} there already"
    )
    if report.added or report.widened:
        print(f"next: python -m experiments.calibrate --workdir={WORKDIR.value}")
    if report.left_out:  # last: what could be merged is merged
        raise InputError(" ".join(report.left_out))


if __name__ == "__main__":
    cli.enter(main)
