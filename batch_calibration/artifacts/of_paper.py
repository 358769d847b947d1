"""Makes the tables and figures that the paper alone asks for, under its numbers."""

from collections.abc import Iterator, Sequence
from functools import partial

from batch_calibration.artifacts import (
    bcl_table,
    choices_table,
    data_table,
    gains,
    images,
    method_table,
    robustness,
    shifted,
    sizes,
)
from batch_calibration.artifacts.cells import notes, plain_csv
from batch_calibration.artifacts.grouping import REFERENCES, SettingRecords, title
from batch_calibration.artifacts.items import ACROSS, Drawing, Results, Table
from batch_calibration.artifacts.shifted import Shifted
from batch_calibration.artifacts.sizes import Column
from batch_calibration.metrics import over_tasks

SCORES_TASK = "qnli"
"""The task whose distributions of scores are drawn: the paper's; else the first of two labels."""
METHOD_TASK = "sst2"
"""The task that illustrates BC; likewise."""


def table_1(results: Results) -> Iterator[Table]:
    """The methods' cost, form and boundary, and what they gain here."""
    if main := results.main:
        cells = method_table.cells(main)
        yield Table(
            ACROSS, "paper-methods", f"What each method does: {main.setting}", cells,
            method_table.NOTE, last=0, csv=plain_csv(cells), unit="gains in points",
            number="Table 1",
        )  # fmt: skip


def tables_2_and_5(results: Results) -> Iterator[Table]:
    """Models of several sizes side by side; zero-shot, and the size in the middle."""
    if len(results.sizes) > 1:
        of = results.sizes
        columns = [Column(group.setting.model, group) for group in (of[0], of[-1])]
        yield _of_sizes("paper-sizes", "Models of two sizes, 1 shot", columns, "Table 2")
    columns = [
        Column(f"{group.setting.model} 0-shot", sizes.first_seeds(group))
        for same in sizes.alike(results.groups, 0, results.models)[:1]
        for group in same[:1]
    ]
    columns += [
        Column(f"{group.setting.model} 1-shot", sizes.first_seeds(group))
        for group in results.middle
    ]
    if columns:
        yield _of_sizes("paper-zero-shot", "Zero-shot and the middle size", columns, "Table 5")


def _of_sizes(slug: str, heading: str, columns: Sequence[Column], number: str) -> Table:
    records = [record for one in columns for record in one.group.every]
    note = " ".join(filter(None, (sizes.NOTE, notes(records))))
    cells = sizes.cells(columns)
    return Table(ACROSS, slug, heading, cells, note, csv=plain_csv(cells), number=number)


def table_3(results: Results) -> Iterator[Table]:
    """BC beside BCL, one context a task."""
    main = results.main
    if main and (cells := bcl_table.cells(main)):
        heading = f"A strength learned from labels: {main.setting}"
        yield Table(
            str(main.setting), f"{main.setting.slug}-bcl", heading, cells, bcl_table.NOTE,
            number="Table 3",
        )  # fmt: skip


def table_4(results: Results) -> Iterator[Table]:
    """What each task asks, and how many rows it has."""
    main = results.main
    if main and (cells := data_table.cells(main)):
        heading, note = f"Data: {main.setting}", data_table.note(main)
        yield Table(
            str(main.setting), f"{main.setting.slug}-data", heading, cells, note, unit="",
            number="Table 4",
        )  # fmt: skip


def table_6(results: Results) -> Iterator[Table]:
    """Zero-shot images, with the paper's numbers where the setting is the same."""
    for group in results.groups:
        if cells := images.cells(group):
            yield Table(
                str(group.setting), f"{group.setting.slug}-images", "Zero-shot images", cells,
                images.note(group), number="Table 6",
            )  # fmt: skip


def table_7(results: Results) -> Iterator[Table]:
    """ICL and BC for each template and verbalizer by its number."""
    for slug, axes in robustness.by_task(robustness.axes(results.records)).items():
        if cells := choices_table.cells(axes):
            heading = f"Templates and verbalizers by number: {title(axes[0].task)}"
            note = notes(record for axis in axes for record in axis.records)
            yield Table(
                ACROSS, f"{slug}-numbered", heading, cells, note, csv=plain_csv(cells),
                number="Table 7",
            )  # fmt: skip


def figure_1(results: Results) -> Iterator[Drawing]:
    """Average over the tasks of each method, a panel a model."""
    from batch_calibration.artifacts.figures import estimates

    panels = {}
    for group in results.sizes:
        chosen = group.among(sizes.methods())
        if len(gains.compared(group, chosen)) == len(chosen) - 1:
            panels[f"{group.setting.model}, {len(group.records)} tasks"] = {
                name: over_tasks([gains.accuracy(group, task, name) for task in group.records])
                for name in chosen
            }
    if panels:
        heading = f"Average over the tasks: {results.sizes[0].setting.words('1-shot')}"
        if len(panels) > 1:
            heading = "Average over the tasks, 1-shot"
        yield Drawing(
            ACROSS, "paper-averages", heading, partial(estimates.draw, panels, heading),
            partial(estimates.data, panels), "Figure 1",
        )  # fmt: skip


def figures_3_and_4(results: Results) -> Iterator[Drawing]:
    """How scores are distributed before and after each bias is taken away, and BC at work."""
    from batch_calibration.artifacts.figures import correction, distributions

    if (main := results.main) is None:
        return
    section, slug = str(main.setting), main.setting.slug
    if contexts := _contexts(results, main, SCORES_TASK):
        yield Drawing(
            section, f"{slug}-distributions", f"Score distributions: {section}",
            partial(distributions.draw, contexts[0], section),
            partial(shifted.data, contexts[:1]), "Figure 3",
        )  # fmt: skip
    if contexts := _contexts(results, main, METHOD_TASK):
        far = sorted(contexts, key=lambda one: float(one.biases[REFERENCES[1]] @ [1, -1]))
        ends = far[:1] if len(far) == 1 else [far[0], far[-1]]
        yield Drawing(
            section, f"{slug}-correction", f"Batch calibration at work: {section}",
            partial(correction.draw, ends, section), partial(shifted.data, ends), "Figure 4",
        )  # fmt: skip


def _contexts(results: Results, group: SettingRecords, preferred: str) -> list[Shifted]:
    """The contexts of the preferred task, else of the first that has two labels."""
    for task in dict.fromkeys((preferred, *group.records)):
        read = ((record, results.load(record)) for record in group.records.get(task, ()))
        found = [shifted.of(record, table) for record, table in read if table]
        if some := [one for one in found if one]:
            return some
    return []


def figure_7(results: Results) -> Iterator[Drawing]:
    """Zero-shot images before and after BC, a panel a task."""
    from batch_calibration.artifacts.figures import estimates

    for group in results.groups:
        if panels := images.estimates(group):
            heading = f"Zero-shot images: {group.setting}"
            yield Drawing(
                str(group.setting), f"{group.setting.slug}-image-gains", heading,
                partial(estimates.draw, panels, heading), partial(estimates.data, panels),
                "Figure 7",
            )  # fmt: skip
