"""Tables over two things at once: models and tasks, shots and templates."""

import numpy as np
from making import make_record

from batch_calibration.reporting import prompts, tables, writing
from batch_calibration.reporting.cells import Best, Sums, latex
from batch_calibration.reporting.figures.style import save
from batch_calibration.reporting.frame import by_setting
from batch_calibration.reporting.items import Results


def of_model(model, task, seed=0, icl=0.5, **context):
    details = {"model": model, "data": "mini", "seed": seed, "shots": 1, **context}
    return make_record(task, {"icl": icl, "bc": icl + 0.1, "cc": 0.4}, rows=100, context=details)


TWO = [of_model("big", x, i, 0.7 + i / 10) for x in ("rte", "cb", "mine") for i in (0, 1)]
TWO += [of_model("small", task) for task in ("rte", "cb")]


def test_models_stand_below_one_another_beside_their_tasks():
    cells = tables.family_cells(by_setting(TWO))
    assert cells == [
        ["model", "method", "CB", "RTE", "mine", "average"],
        ["big", "icl", "75.0", "75.0", "75.0", "75.0"],
        ["big", "cc", "40.0", "40.0", "40.0", "40.0"],
        ["big", "bc", "85.0", "85.0", "85.0", "85.0"],
        ["small", "icl", "50.0", "50.0", "-", "50.0"],
        ["small", "cc", "40.0", "40.0", "-", "40.0"],
        ["small", "bc", "60.0", "60.0", "-", "60.0"],
    ]
    assert [type(cell) is Best for cell in cells[3]] == [False, False, True, True, True, True]


def test_an_average_is_over_the_tasks_of_all_models():
    big_records = [of_model("big", "rte", icl=0.5), of_model("big", "mine", icl=0.9)]
    group = by_setting([*big_records, of_model("small", "rte")])
    assert tables.family_cells(group)[1] == ["big", "icl", "50.0", "90.0", "50.0"]
    group = by_setting([big_records[0], of_model("small", "mine")])
    assert [row[-1] for row in tables.family_cells(group)[1:]] == ["-"] * 6


SHOTS_OF = ((1, "big"), (2, "small"))


def test_other_shots_or_one_task_alone_are_no_table_of_models():
    one_task = [of_model("big", "rte"), of_model("small", "rte")]
    assert list(tables.of_models(Results(one_task))) == []
    big, small = ([of_model(x, task, shots=n) for task in ("rte", "cb")] for n, x in SHOTS_OF)
    assert list(tables.of_models(Results([*big, *small]))) == []


def at(shots, seed=0, icl=0.5, **options):
    details = {"model": "m", "seed": seed, "shots": shots, "options": options}
    return make_record("rte", {"icl": icl, "bc": 0.6}, rows=100, context=details)


GRID = [
    at(shots, seed, 0.3 + shots / 10 + seed / 10, **options)
    for options in ({}, {"template": "2"}, {"template": "10"})
    for shots in (0, 4)
    for seed in (range(2) if shots else range(1))
]


def test_shots_and_templates_make_a_grid():
    (grid,) = prompts.find_grids(GRID)
    expected = [["template", "method", "shots 0", "shots 4"]]
    for name in ("2", "10", "own"):
        expected.append([name, "icl", "30.0", "75.0 ± 7.1"])
        expected.append([name, "bc", "60.0", "60.0 ± 0.0"])
    assert prompts.grid_cells(grid) == expected
    assert grid.heading == "RTE, template × shots: m, validation split, all rows"
    assert grid.slug == "m-validation-rte-template-shots"


def test_a_cell_that_was_not_scored_is_empty():
    (grid,) = prompts.find_grids([*GRID, at(2)])
    assert [row[3] for row in prompts.grid_cells(grid)] == ["shots 2", *"----", "50.0", "60.0"]


def test_a_grid_beside_another_choice_has_a_name_of_its_own():
    extra = [at(r.context.shots, r.context.seed, **r.context.options, verbalizer="3")
              for r in GRID]  # fmt: skip
    grids = prompts.find_grids([*GRID, *extra])
    assert len({grid.slug for grid in grids}) == len(grids)
    heading = "RTE, template × shots: m, validation split, all rows, verbalizer 3"
    assert heading in [grid.heading for grid in grids]


def test_one_choice_at_a_time_is_no_grid():
    cross = [at(shots) for shots in range(5)] + [at(1, template=str(i)) for i in range(1, 11)]
    assert prompts.find_grids(cross) == []
    assert prompts.find_grids([make_record("rte", {"icl": 0.5}, context={"shots": None})]) == []


def test_two_way_tables_are_in_the_catalogue_and_have_no_last_row_apart():
    by_slug = {t.slug: t for t in writing.make_tables(Results([*TWO, *GRID]))}
    for slug in ("mini-1shot-validation-models", "m-validation-rte-template-shots"):
        table = by_slug[slug]
        assert table.csv and not any(isinstance(row, Sums) for row in table.cells)
        assert latex(table.cells).count(r"\midrule") == 1
    assert latex([["a"], ["b"], Sums(["c"])]).splitlines()[4:6] == [r"b \\", r"\midrule"]


def test_a_grid_is_drawn_with_a_panel_a_method_and_a_number_a_cell():
    (drawing,) = (d for d in writing.make_figures(Results([*GRID, at(2)])) if "grid" in d.slug)
    drawn = drawing.draw()
    icl, bc, _ = drawn.figure.axes  # the last one is the scale of the colors
    assert [icl.get_title(loc="left"), bc.get_title(loc="left")] == ["icl", "bc"]
    shown = np.ma.filled(icl.images[0].get_array(), -1).round(1).tolist()
    assert shown == [[30.0, -1, 75.0]] * 2 + [[30.0, 50.0, 75.0]]
    assert [text.get_text() for text in icl.get_yticklabels()] == ["2", "10", "own"]
    assert len(icl.texts) == 7 and "template" in drawn.cells[0]


def test_a_grid_of_one_accuracy_can_be_drawn(tmp_path):
    flat = [at(shots, **options) for options in ({}, {"verbalizer": "2"}) for shots in (0, 1)]
    (drawing,) = (d for d in writing.make_figures(Results(flat)) if "grid" in d.slug)
    assert all(path.stat().st_size for path in save(drawing.draw().figure, tmp_path / "grid"))
