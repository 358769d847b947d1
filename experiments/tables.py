"""Tables of a study: in the terminal, as Markdown, LaTeX and CSV; all results as one file.

python -m experiments.tables --workdir=W
"""

from experiments import cli

WORKDIR = cli.folder_flag("folder with scores and records")


def main() -> None:
    """Write every table, print those that are no point of a curve, and write all results."""
    from batch_calibration.artifacts import catalogue, terminal, writing
    from batch_calibration.results import write_results
    from batch_calibration.store import Store

    store = Store(WORKDIR.value)
    records, folder = store.records(), store.workdir / "tables"
    for table in writing.write_tables(catalogue.gather(records), folder):
        if table.shown:
            terminal.show(table)
    files, lacks = write_results(records, store.workdir)
    print(*store.unmatched(), f"tables are in {folder}", sep="\n")
    print(f"all results are in {', '.join(map(str, files))}", lacks, sep="\n" * bool(lacks))


if __name__ == "__main__":
    cli.enter(main)
