"""Tables of a study: in the terminal, as Markdown, LaTeX and CSV.

python -m experiments.tables --workdir=W
"""

from pathlib import Path

from experiments import cli

WORKDIR = cli.folder_flag("folder with scores and records")


def main() -> None:
    """Write every table, and print those that are no point of a curve."""
    from batch_calibration.artifacts import catalogue, terminal, writing
    from batch_calibration.store import Store

    store, folder = Store(WORKDIR.value), Path(WORKDIR.value) / "tables"
    for table in writing.write_tables(catalogue.gather(store.records()), folder):
        if table.shown:
            terminal.show(table)
    print(*store.unmatched(), f"tables are in {folder}", sep="\n")


if __name__ == "__main__":
    cli.enter(main)
