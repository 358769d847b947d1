"""Tables of a study: in the terminal, as Markdown, LaTeX and CSV; all results as one file.

python -m experiments.tables --workdir=W
"""

from absl import flags

from experiments import cli

WORKDIR = cli.folder_flag("folder with scores and records")
TENSORBOARD = flags.DEFINE_bool("tensorboard", False, "also write WORKDIR/tensorboard")


def main() -> None:
    """Write every table, print those that are no point of a curve, and write all results."""
    from batch_calibration.artifacts import catalogue, terminal, writing
    from batch_calibration.store import Store, write_results

    store = Store(WORKDIR.value)
    records, folder = store.records(), store.workdir / "tables"
    tables = writing.write_tables(catalogue.gather(records, store.table_of), folder)
    files, lacks = write_results(records, store.workdir)
    if TENSORBOARD.value:
        writing.write_events(records, store.workdir / "tensorboard")
    for table in tables:
        if table.shown:
            terminal.show(table)
    print(*store.unmatched(records), f"tables are in {folder}", sep="\n")
    print(f"all results are in {', '.join(map(str, files))}", lacks, sep="\n" * bool(lacks))


if __name__ == "__main__":
    cli.enter(main)
