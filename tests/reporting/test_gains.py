"""Gains over ICL with their intervals, and the tables of probabilities, in every form."""

import dataclasses
import os
import shutil
import sys

import numpy as np
import pytest
from making import make_record
from matplotlib.collections import PathCollection
from matplotlib.colors import to_hex

from batch_calibration.reporting import tables, writing
from batch_calibration.reporting.cells import Best, Sums, latex, markdown, show_cells
from batch_calibration.reporting.frame import Frame, gain, learned_tasks, sort_records
from batch_calibration.reporting.items import Results
from batch_calibration.reporting.palette import VERDICTS
from batch_calibration.studies import csv_text


def study(*records):
    return Frame(sort_records(records))


def record(task="rte", icl=0.5, bc=0.6, seed=0, rows=500, **methods):
    return make_record(task, {"icl": icl, "bc": bc, **methods}, rows=rows, context={"seed": seed})


ONE = study(record(), record("sst2", 0.8, 0.804), record("wic", 0.6, 0.5))


def test_a_table_of_gains():
    cells = tables.gains(ONE)
    names = "task|SST-2|RTE|WiC|average|wins, ties, losses"
    assert "|".join(row[0] for row in cells) == names
    # 50 rows of 500 are won and none lost: p = 51 / 502, q = 1 / 502.
    p, q = 51 / 502, 1 / 502
    reach = 1.959964 * np.sqrt((p + q - (p - q) ** 2) / 502)
    ends = 100 * (p - q - reach), 100 * (p - q + reach)
    assert cells[2][2] == "+10.0 [{:+.1f}, {:+.1f}]*".format(*ends)
    assert cells[1][2] == "+0.4 [-0.4, +1.2]"
    assert cells[3][2].startswith("-10.0 [-12.6") and cells[3][2].endswith("]*")
    assert cells[4][2].startswith("+0.1 [-1.") and cells[4][2].endswith("]")
    assert cells[5] == ["wins, ties, losses", "", "1, 1, 1"]


def test_few_rows_that_are_asked_again_stay_few():
    """Of 56 rows 4 more are right in each of five draws: by t over the draws a sure gain."""
    small = study(*(record(bc=0.5 + 4 / 56, rows=56, seed=seed) for seed in range(5)))
    large = study(*(record(bc=0.5 + 4 / 56, rows=5600, seed=seed) for seed in range(5)))
    assert gain(small, "bc").beyond_noise == 0
    assert gain(large, "bc").beyond_noise == 1


def test_draws_that_disagree_widen_the_interval():
    agreeing = study(*(record(bc=0.6, seed=seed) for seed in range(3)))
    disagreeing = study(*(record(bc=bc, seed=seed) for seed, bc in enumerate((0.5, 0.6, 0.7))))
    narrow, wide = (gain(group, "bc") for group in (agreeing, disagreeing))
    assert narrow.value == pytest.approx(0.1) == wide.value
    assert narrow.beyond_noise and not wide.beyond_noise
    # Seeds with unlike rows have nothing in common.
    unlike = study(record(rows=500), record(rows=300, seed=1))
    assert gain(unlike, "bc").value == pytest.approx(0.1)


def test_each_method_over_the_tasks():
    cells = tables.overview(study(record(cc=0.4), record("sst2", 0.8, 0.9, cc=0.7)))
    assert cells[0] == ["method", "accuracy", "gain over icl", "wins, ties, losses"]
    assert [row[0] for row in cells[1:]] == ["icl", "cc", "bc"]
    assert cells[1][2:] == ["", ""] and cells[2][3] == "0, 0, 2"
    assert isinstance(cells[3][1], Best) and cells[3][1].startswith("75.0 [")


def test_every_form_of_a_table_has_the_same_cells(tmp_path):
    cells = tables.gains(ONE)
    cell = cells[2][2]
    escaped = cell.replace("[", r"\[").replace("]", r"\]").replace("*", r"\*")
    assert f"| RTE | 500 | {escaped} |" in markdown(cells)
    assert f"RTE & 500 & {cell} " in latex(cells, tables.gain_note(ONE))
    assert latex(cells).count("midrule") == 2
    assert f'"{cell}"' in csv_text(cells) and "'+" not in csv_text(cells)
    assert "'+1 [=cmd()]" in csv_text([["+1 [=cmd()]"]])
    made = writing.write_tables(Results(ONE.records), tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {
        f"{table.slug}.{ending}" for table in made for ending in ("csv", "md", "tex")
    }
    for table in made:
        text = (tmp_path / f"{table.slug}.csv").read_text()
        assert text == csv_text(table.cells)
        columns = len(table.cells[0])
        assert (tmp_path / f"{table.slug}.md").read_text().splitlines()[0].count("|") == columns + 1
        assert (
            rf"\begin{{tabular}}{{l{'r' * (columns - 1)}}}"
            in (tmp_path / f"{table.slug}.tex").read_text()
        )


def test_the_tables_of_a_study_answer_one_question_each():
    made = writing.make_tables(Results([*ONE.records, record(seed=1), record("wic", seed=1)]))
    slugs = [table.slug for table in made]
    assert slugs == ["m-methods", "m-by-task", "m-gains", "m-by-seed", "m-spread"]
    assert len({table.title for table in made}) == len(made)


def test_probabilities_have_their_units_and_the_lowest_is_best():
    values = {"icl": (0.7, 0.5, 0.1), "bc": (0.6, 0.4, 0.2)}
    plain = record()
    methods = {}
    for name, numbers in values.items():
        measured = dict(zip(("nll", "brier", "ece"), numbers, strict=True))
        result = plain.methods[name]
        methods[name] = dataclasses.replace(result, metrics=result.metrics | measured)
    results = Results([dataclasses.replace(plain, methods=methods)])
    *_, shown = writing.make_tables(results)
    assert shown.slug.endswith("-probabilities") and "Lower is better" in shown.note
    assert shown.cells[0] == ["method", "NLL (nats)", "Brier (0 to 2)", "ECE (0 to 1)"]
    assert shown.cells[1:] == [
        ["icl", "0.700", "0.500", "0.100"],
        ["bc", "0.600", "0.400", "0.200"],
    ]
    assert [isinstance(x, Best) for x in shown.cells[2]] == [False, True, True, False]
    densities = dataclasses.replace(plain, methods={**methods, "pc": methods["bc"]})
    rows = {row[0]: row for row in tables.probabilities(Frame([densities]))}
    assert rows["pc"][1:3] == ["-", "0.400"]


def test_a_task_is_learned_beyond_noise_and_beyond_its_most_frequent_label():
    for accuracy, classes, is_learned in (
        (0.65, (250, 250), True),
        (0.65, (10, 10), False),
        (0.65, (320, 180), False),
        (0.72, (320, 180), True),
    ):
        measured = record(icl=accuracy, bc=0.5, rows=sum(classes))
        measured = dataclasses.replace(measured, classes=classes)
        assert learned_tasks(study(measured)) == ["rte"] * is_learned


def test_a_narrow_terminal_gets_the_columns_in_parts(monkeypatch, capsys):
    cells = [["task", *(f"method{i}" for i in range(6))], ["RTE", *"123456"]]
    show_cells("Wide", cells)
    assert len(capsys.readouterr().out.splitlines()) == 6
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setattr(shutil, "get_terminal_size", lambda: os.terminal_size((40, 24)))
    show_cells("Wide", cells)
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 40
    assert [" ".join(x.split()) for x in lines if x[:3] == "RTE"] == ["RTE 1 2 3 4", "RTE 5 6"]


def test_the_note_names_the_unit_of_the_intervals_and_tasks_with_few_rows():
    text = tables.gain_note(study(*(record(seed=seed) for seed in range(5)), record("cb", rows=56)))
    assert "over contexts of a task and its test rows" in text
    assert "Fewer than 200 test rows: CB." in text
    text = tables.gain_note(ONE)
    assert "intervals over test rows;" in text and "Fewer" not in text


def test_the_table_of_tasks_marks_gains_beyond_noise_and_counts_them():
    cells = tables.by_task(ONE)
    assert [row[2] for row in cells[1:4]] == ["80.0", "50.0", "60.0"]
    assert [row[3] for row in cells[1:4]] == ["80.4", "60.0 *", "50.0 *"]
    assert isinstance(cells[2][3], Best) and not isinstance(cells[3][3], Best)
    assert cells[5][:3] == ["gain over icl", "", ""]
    assert cells[5][3].startswith("+0.1 [-1.")
    assert cells[6] == ["wins, ties, losses", "", "", "1, 1, 1"]
    lone = study(*(make_record(task, {"icl": 0.5}) for task in ("sst2", "rte", "wic")))
    for of_table, count in ((cells, 3), (tables.by_task(lone), 1)):
        assert [isinstance(row, Sums) for row in of_table] == [False] * 4 + [True] * count
    assert "± is the standard" not in tables.task_note(ONE)
    (table,) = (t for t in writing.make_tables(Results(ONE.records)) if t.slug == "m-by-task")
    assert r"\midrule" + "\naverage &" in latex(table.cells, table.note)
    assert "beyond noise: the interval excludes 0" in table.note


def test_a_figure_of_gains_has_a_line_a_task_and_their_average():
    (drawing,) = (f for f in writing.make_figures(Results(ONE.records)) if f.slug == "m-gains")
    drawn = drawing.draw()
    (axes,) = drawn.figure.axes
    names = [text.get_text() for text in axes.get_yticklabels()]
    assert names == ["SST-2", "RTE", "WiC", "average"] and axes.yaxis.get_inverted()
    dots = next(f for f in axes.collections if isinstance(f, PathCollection))
    assert dots.get_offsets()[:, 0].round(1).tolist() == [0.4, 10.0, -10.0, 0.1]
    assert list(map(to_hex, dots.get_facecolors()))[1:3] == [VERDICTS["gain"], VERDICTS["loss"]]
    # The figure and the table have the same numbers.
    header, *rows = drawn.cells
    assert header == ["method", "task", "gain", "low", "high"]
    cells = [f"{float(row[2]):+.1f} [{float(row[3]):+.1f}, {float(row[4]):+.1f}]" for row in rows]
    assert cells == [row[2].rstrip("*") for row in tables.gains(ONE)[1:-1]]
