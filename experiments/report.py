"""What was found, in one paragraph a setting, and one HTML page with every table and figure.

python -m experiments.report --workdir=W
"""

import textwrap

from experiments import cli, compilation_cache

WORKDIR = cli.folder_flag("folder with scores and records")


def main() -> None:
    """Write the page, print the paragraph of every setting, and say where the files are."""
    from batch_calibration.artifacts import catalogue, writing
    from batch_calibration.store import Store, runs
    from batch_calibration.study.loading import row_texts

    compilation_cache.keep_programs()
    store = Store(WORKDIR.value)
    page, figures = store.workdir / "report.html", store.workdir / "figures"
    records = store.records()
    results = catalogue.gather(records, store.table_of)
    known, broken = runs.read(store.workdir)
    for paragraph in writing.write_report(
        results, page, figures, [*store.unmatched(records), *broken],
        runs=known, texts=row_texts(known), contexts=True,
    ):  # fmt: skip
        print(textwrap.fill(paragraph, 100), end="\n\n")
    print(f"tables:  {store.workdir / 'tables'}")
    print(f"figures: {figures}")
    print(f"report:  {page}")


if __name__ == "__main__":
    cli.enter(main, loads=("jax",))
