"""Gains over ICL with their intervals, and the tables of probabilities, in every form."""

import csv
import dataclasses
import io
import os
import shutil
import sys

import numpy as np
import pytest
from making import make_record
from matplotlib.collections import PathCollection
from matplotlib.colors import to_hex

from batch_calibration.reporting import tables, words, writing
from batch_calibration.reporting.cells import Best, Sums, latex, markdown, show_cells
from batch_calibration.reporting.frame import by_setting, gain, learned_tasks
from batch_calibration.reporting.items import Results
from batch_calibration.reporting.palette import VERDICTS
from batch_calibration.studies import csv_text


def study(*records):
    (group_of_records,) = by_setting(records)
    return group_of_records


def record(task="rte", icl=0.5, bc=0.6, seed=0, rows=500, **methods):
    return make_record(task, {"icl": icl, "bc": bc, **methods}, rows=rows, context={"seed": seed})


ONE = study(record(), record("sst2", 0.8, 0.804), record("wic", 0.6, 0.5))


def test_a_table_of_gains():
    cells = tables.gain_cells(ONE, ["bc"])
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
    group = study(record(cc=0.4), record("sst2", 0.8, 0.9, cc=0.7))
    cells = tables.method_overview(group)
    assert cells[0] == ["method", "accuracy", "gain over icl", "wins, ties, losses"]
    assert [row[0] for row in cells[1:]] == ["icl", "cc", "bc"]
    assert cells[1][2:] == ["", ""] and cells[2][3] == "0, 0, 2"
    assert isinstance(cells[3][1], Best) and cells[3][1].startswith("75.0 [")
    rows = list(csv.DictReader(io.StringIO(csv_text(tables.overview_csv(group)))))
    assert len(rows) == 3 * (3 + 2)
    wanted = {"task": "average", "method": "bc", "metric": "gain"}
    (cell,) = (row for row in rows if row | wanted == row)
    low, value, high = (float(cell[name]) for name in ("low", "value", "high"))
    assert low < value < high and value == pytest.approx(0.1)


def test_gains_stay_what_they_are_in_every_form():
    cells = tables.gain_cells(ONE, ["bc"])
    cell = cells[2][2]
    escaped = cell.replace("[", r"\[").replace("]", r"\]").replace("*", r"\*")
    assert f"| RTE | 500 | {escaped} |" in markdown(cells)
    assert f"RTE & 500 & {cell} " in latex(cells, tables.gain_note(ONE))
    assert latex(cells).count("midrule") == 2
    assert f'"{cell}"' in csv_text(cells) and "'+" not in csv_text(cells)
    assert "'+1 [=cmd()]" in csv_text([["+1 [=cmd()]"]])


def test_the_catalogue_has_a_table_of_gains_for_each_table_of_methods():
    found_tables = writing.make_tables(Results([record(bc_mean_prob=0.55)]))
    found_tables = [table for table in found_tables if not table.number]
    slugs = [table.slug.split("validation-", 1)[1] for table in found_tables]
    assert slugs == ["methods", "methods-gains", "variants", "variants-gains", "overview"]
    assert all("do not extend to others" in t.note for t in found_tables if "gains" in t.slug)
    alone = writing.make_tables(Results([make_record("rte", {"bc": 0.5})]))
    slugs = [table.slug for table in alone if not table.number]
    assert slugs == ["m-0shot-validation-methods"]


def test_probabilities_have_their_units_and_the_lowest_is_best():
    values = {"icl": (0.7, 0.5, 0.1), "bc": (0.6, 0.4, 0.2)}
    plain = record()
    methods = {}
    for name, numbers in values.items():
        measured = dict(zip(("nll", "brier", "ece"), numbers, strict=True))
        result = plain.methods[name]
        methods[name] = dataclasses.replace(result, metrics=result.metrics | measured)
    results = Results(study(dataclasses.replace(plain, methods=methods)).records)
    shown = [table for make in tables.OF_SETTINGS for table in make(results)][-4:]
    kinds = [table.slug.rsplit("-", 1)[-1] for table in shown]
    assert kinds == ["probabilities", "nll", "brier", "ece"]
    assert [table.shown for table in shown] == [True, False, False, False]
    cells = shown[0].cells
    assert cells[0] == ["method", "NLL (nats)", "Brier (0 to 2)", "ECE (0 to 1)"]
    assert cells[1:] == [["icl", "0.700", "0.500", "0.100"], ["bc", "0.600", "0.400", "0.200"]]
    assert [isinstance(x, Best) for x in cells[2]] == [False, True, True, False]
    assert shown[3].title == "ECE, 0 to 1" and shown[3].cells[1][2:] == ["0.100", "0.200"]
    assert "not label bias" in (note := tables.PROBABILITIES_NOTE) and "Lower is better" in note


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


def test_the_note_says_over_what_the_intervals_are():
    several = study(*(record(seed=seed) for seed in range(5)), record("cb", rows=56))
    text = tables.gain_note(several)
    assert "over the draws of demonstrations (1 to 5 a task) and over the test rows, which" in text
    assert "more draws make a small test set no larger" in text
    assert "Few test rows, so wide intervals: CB (56)." in text and "RTE (" not in text
    single = make_record("rte", {"icl": 0.5, "bc": 0.6}, context={"shots": 1})
    text = tables.gain_note(study(single))
    assert "over the test rows alone: one draw of demonstrations does not show" in text
    assert "over the test rows alone. " in tables.gain_note(ONE)


def test_the_main_table_marks_what_is_beyond_noise_and_counts_it():
    main_cells = tables.accuracy_cells(ONE, ["icl", "bc"])
    assert [row[2] for row in main_cells[1:4]] == ["80.0", "50.0", "60.0"]
    assert [row[3] for row in main_cells[1:4]] == ["80.4", "60.0 *", "50.0 *"]
    assert isinstance(main_cells[2][3], Best) and not isinstance(main_cells[3][3], Best)
    assert main_cells[5][:3] == ["gain over icl", "", ""]
    assert main_cells[5][3].startswith("+0.1 [-1.")
    assert main_cells[6] == ["wins, ties, losses", "", "", "1, 1, 1"]
    for cells, count in ((main_cells, 3), (tables.accuracy_cells(ONE, ["icl"]), 1)):
        assert [isinstance(row, Sums) for row in cells] == [False] * 4 + [True] * count
    assert "± is the standard" not in tables.accuracy_note(ONE, ["icl", "bc"])
    (table, *_) = writing.make_tables(Results(ONE.records))
    assert r"\midrule" + "\naverage &" in latex(table.cells, table.note)
    assert "beyond noise: 0 is outside it" in table.note


def test_a_figure_of_gains_has_a_line_a_task_and_their_average():
    results = Results(ONE.records)
    (drawing,) = (f for f in writing.make_figures(results) if f.slug.endswith("-differences"))
    drawn = drawing.draw()
    (axes,) = drawn.figure.axes
    names = [text.get_text() for text in axes.get_yticklabels()]
    assert names == ["SST-2", "RTE", "WiC", "average"] and axes.yaxis.get_inverted()
    dots = next(f for f in axes.collections if isinstance(f, PathCollection))
    assert dots.get_offsets()[:, 0].round(1).tolist() == [0.4, 10.0, -10.0, 0.1]
    assert list(map(to_hex, dots.get_facecolors()))[1:3] == [VERDICTS["gain"], VERDICTS["loss"]]
    # What is drawn is the table's.
    header, *rows = drawn.cells
    assert header == ["method", "task", "gain", "low", "high"]
    cells = [f"{float(row[2]):+.1f} [{float(row[3]):+.1f}, {float(row[4]):+.1f}]" for row in rows]
    assert cells == [row[2].rstrip("*") for row in tables.gain_cells(ONE, ["bc"])[1:-1]]


def test_contexts_that_have_a_method_which_others_lack_have_a_table():
    one, other = {"icl": 0.5, "bc": 0.75}, {"icl": 0.5, "bc": 0.75, "bcl": 0.8}
    records = [make_record("sst2", other), make_record("rte", one), make_record("cb", other)]
    shown = {table.slug: table for table in writing.make_tables(Results(records))}
    ((slug, part),) = [(s, t) for s, t in shown.items() if s.endswith("-methods-bcl")]
    assert part.heading.startswith("Methods: 2 of 3 contexts have bcl")
    assert part.cells[0][2:] == ["icl", "bc", "bcl"] and len(shown[slug[:-4]].cells[0]) == 4
    assert any(slug.endswith("methods-gains-bcl") for slug in shown)


def test_two_draws_are_said_to_tell_little():
    draws = [make_record("sst2", {"icl": 0.5, "bc": 0.75}, context={"seed": s}) for s in range(3)]
    (two,), (three,) = by_setting(draws[:2]), by_setting(draws)
    assert words.TWO_DRAWS in tables.gain_note(two)
    assert "Two draws" not in tables.gain_note(three)
