"""What was learned, in one paragraph, and one HTML page with every table and figure.

python -m experiments.report --workdir=W
"""

import textwrap

from absl import flags

from batch_calibration.artifacts import curves, learned, report, robustness, summary, tables
from batch_calibration.artifacts.study import studies, title
from batch_calibration.store import Store
from experiments.cli import enter

FIGURES = ("bars", "boundaries", "strength")
WORKDIR = flags.DEFINE_string("workdir", None, "folder with scores and records", required=True)


def main() -> None:
    """Write the page, print the paragraph of every setting, and say where the files are."""
    store = Store(WORKDIR.value)
    sections = []
    records = store.records()
    every = studies(records)
    for study in curves.apart(every):
        drawn = [store.workdir / "figures" / f"{study.setting.slug}-{f}.png" for f in FIGURES]
        pictures = [path for path in drawn if path.exists()]
        said, note = summary.paragraph(study), learned.note(study)
        shown = {
            what: tables.accuracy_cells(study, methods) for what, methods in study.panels().items()
        }
        sections.append(report.Section(str(study.setting), said, shown, pictures, note))
        print(textwrap.fill(said, 100), end="\n\n")
    across = [
        path
        for end in ("curve", "robustness")
        for path in sorted((store.workdir / "figures").glob(f"*-{end}.png"))
    ]
    varied = {
        f"{title(axis.task)} over {axis.name}: {axis.setting}": robustness.accuracy_cells(axis)
        for axis in robustness.axes(records)
    } | {
        curve.heading: curves.accuracy_cells(curve)
        for curve in [*curves.by_shots(every), *curves.by_probe_size(every)]
    }
    if across or varied:
        words = "Accuracy as one thing varies: shots, rows a bias is learned from, the prompt."
        sections.append(report.Section("Across settings", words, varied, across))
    page = store.workdir / "report.html"
    page.write_text(report.page(sections), encoding="utf-8")
    print(f"tables:  {store.workdir / 'tables'}")
    print(f"figures: {store.workdir / 'figures'}")
    print(f"report:  {page}")


if __name__ == "__main__":
    enter(main)
