"""Tables of a study: in the terminal, as Markdown, LaTeX and CSV.

python -m experiments.tables --workdir=W
"""

from pathlib import Path

from experiments import cli

WORKDIR = cli.folder_flag("folder with scores and records")


def main() -> None:
    """Write every table, and print those that are no point of a curve."""
    from batch_calibration.artifacts import catalogue, writing
    from batch_calibration.store import Store
    from experiments import terminal

    folder = Path(WORKDIR.value) / "tables"
    for table in writing.write_tables(catalogue.gather(Store(WORKDIR.value).records()), folder):
        if table.shown:
            terminal.show(table)
    print(f"tables are in {folder}")


if __name__ == "__main__":
    cli.enter(main)
