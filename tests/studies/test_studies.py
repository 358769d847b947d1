"""Records of other studies: never mixed with the main table; tabulated and drawn by themselves."""

import dataclasses

import numpy as np
import pytest
from making import make_by_rows, make_curve, make_record

from batch_calibration.reporting import cells, curves, prompts, tables, two_labels, writing
from batch_calibration.reporting.cells import Best
from batch_calibration.reporting.figures import studies
from batch_calibration.reporting.figures.style import save
from batch_calibration.reporting.frame import axis_name, by_setting
from batch_calibration.reporting.items import Results
from batch_calibration.scores import ScoreTable, make_block
from batch_calibration.studies import Store, csv_text


def record(seed=0, shots=1, accuracy=0.5, task="rte", shortened=0, sizes=None, **options):
    methods = {"icl": accuracy, "bc": accuracy + 0.1}
    context = {"seed": seed, "shots": shots, "options": options}
    cut = {"test": {"dropped": shortened}} if shortened else {}
    return make_record(task, methods, probe_size=sizes, context=context, over_long=cut)


MAIN = [record(seed) for seed in range(5)]
ROBUST = [
    *(record(seed, selection="total") for seed in range(10)),
    *(record(0, 4, 0.4 + i / 100, selection="total", order=i) for i in range(24)),
    *(record(0, accuracy=0.3 + i / 100, template=str(i)) for i in range(1, 11)),
    *(record(0, verbalizer=str(i)) for i in range(1, 11)),
]


def test_bands_and_tables_have_one_standard_deviation():
    """Of 40, 50 and 60 % it is 10 points by n - 1, and 8.2 by n."""
    values = np.array([40.0, 50.0, 60.0])
    shot_curves = curves.Curves("a", "a", "shots", {"rte": {"bc": {1: values, 2: values[:1]}}})
    _, *rows = studies.draw_curves(shot_curves).cells
    assert [row[4:] for row in rows] == [["40", "60"], ["40", "40"]]  # low and high
    runs = []
    for seed, value in enumerate(values):
        curve = make_curve([value / 100] * 101)
        runs.append(make_record("rte", {"bc": 0.5}, context={"seed": seed}, curve=curve))
    _, *rows = studies.draw_strength(by_setting(runs)[0]).cells
    assert {tuple(row[4:]) for row in rows} == {("40", "60")}
    assert cells.spread(values) == "50.0 ± 10.0" and cells.spread(values[:1]) == "40.0"


@pytest.mark.parametrize(
    ("names", "drawn"),
    [
        (("entailment", "neutral", "contradiction"), ("entailment", "contradiction")),
        (("entailment", "contradiction", "neutral"), ("entailment", "contradiction")),
        (("a", "b", "c"), ("a", "c")),
    ],
)
def test_boundaries_are_drawn_between_opposite_labels(names, drawn):
    rows = np.log([[0.5, 0.2, 0.1], [0.1, 0.6, 0.2], [0.2, 0.1, 0.4]])
    table = ScoreTable({"task": "cb"}, names, {"test": make_block(rows, [0, 1, 2])})
    two = two_labels.cut_table(table)
    indices = [names.index(name) for name in drawn]
    scores, gold = two.blocks["test"]
    assert two.names == drawn and gold.tolist() == [0, 1]
    np.testing.assert_array_equal(scores, rows.astype(np.float32)[indices][:, indices])


def test_a_robustness_study_is_not_mixed_with_the_main_table():
    (group,) = by_setting([*MAIN, *ROBUST])
    assert len(group.tasks["rte"].records) == 5
    axes = {a.name: len(a.frame.records) for a in prompts.find_axes([*MAIN, *ROBUST])}
    assert axes == {"choices": 10, "orders": 24, "templates": 10, "verbalizers": 10}
    assert by_setting(ROBUST) == [] and prompts.find_axes(MAIN) == []


def test_two_choices_at_once_are_an_axis_of_their_own():
    assert axis_name(record(template="1", verbalizer="2")) == "template-verbalizer"
    (axis,) = prompts.find_axes([record(template="1", verbalizer="2")])
    assert prompts.prompt_cells(axis)[1][0] == "1, 2"


def test_policies_for_long_prompts_are_settings():
    records = [*MAIN, *(record(seed, over_long="drop_shots", shortened=9) for seed in range(2))]
    plain, dropped = sorted(by_setting(records), key=lambda x: x.setting.over_long, reverse=1)
    assert len(plain.records) == 5 and len(dropped.records) == 2
    setting = "m, 1-shot, validation split, all rows, long prompts (†) lose shots"
    assert str(dropped.setting) == setting
    assert plain.setting.slug == "m-1shot-validation"
    assert dropped.setting.slug == "m-1shot-validation-drop_shots"
    assert tables.accuracy_cells(plain, ["icl"])[1][1] == "277"
    assert tables.accuracy_cells(dropped, ["icl"])[1][1] == "277 †9"


def test_table_of_an_axis_has_a_row_for_each_value_in_order():
    templates = next(a for a in prompts.find_axes(ROBUST) if a.name == "templates")
    table_cells = prompts.prompt_cells(templates)
    assert table_cells[0] == ["templates", "rows", "icl", "bc"]
    assert [row[0] for row in table_cells[1:]] == [*map(str, range(1, 11)), "all", "max - min"]
    assert table_cells[1] == ["1", "277", "31.0", "41.0"]
    assert table_cells[-2] == ["all", "277", "35.5 ± 3.0", "45.5 ± 3.0"]
    assert [isinstance(cell, Best) for cell in table_cells[1]] == [False, False, False, True]
    assert table_cells[-1] == ["max - min", "", "9.0", "9.0"]
    assert csv_text(table_cells).splitlines()[1] == "1,277,31.0,41.0"
    assert "| 1 | 277 | 31.0 | **41.0** |" in cells.markdown(table_cells)


def test_shots_make_curves():
    records = [record(s, shots, 0.1 * shots + s / 100) for shots in (1, 0, 4) for s in range(2)]
    (shot_curves,) = curves.by_shots(by_setting([*records, *ROBUST]))
    assert shot_curves.slug == "m-0to4shots-validation"
    assert sorted(shot_curves.tasks["rte"]["icl"]) == [0, 1, 4]
    np.testing.assert_allclose(shot_curves.tasks["rte"]["bc"][4], [50, 51])
    assert curves.curve_cells(shot_curves)[1] == ["RTE", "0", "0.5 ± 0.7", "10.5 ± 0.7"]
    assert curves.by_shots(by_setting(MAIN)) == []


def test_what_a_reader_must_know_stands_below_every_table():
    records = [
        dataclasses.replace(record(0, shots, sizes=SIZES, **options), notes=("† known",))
        for shots, options in ((0, {}), (1, {}), (1, {"template": "1"}))
    ]
    tables = writing.make_tables(Results(records))
    # What methods do and what the data are hangs on no context.
    marked = [table for table in tables if table.number not in ("Table 1", "Table 4")]
    assert len(marked) > 10 and all("† known" in table.note for table in marked)


SIZES = make_by_rows([2, 277], bc=[[0.5, 0.6], [0.7]], pc=[[0.4, 0.4], [0.5]])


def test_probe_sizes_make_curves_with_draws_of_all_seeds():
    (size_curves,) = curves.by_probe_size(by_setting([record(i, sizes=SIZES) for i in range(3)]))
    assert size_curves.slug == "m-1shot-validation-probe-size"
    np.testing.assert_allclose(size_curves.tasks["rte"]["bc"][2], [50, 60] * 3)
    assert curves.curve_cells(size_curves)[-1] == ["RTE", "277", "70.0 ± 0.0", "50.0 ± 0.0"]
    assert curves.by_probe_size(by_setting(MAIN)) == []


@pytest.mark.parametrize("kind", ["robustness", "shots", "probe sizes"])
def test_figures_are_drawn(tmp_path, kind):
    if kind == "robustness":
        drawn = studies.draw_boxes(prompts.find_axes(ROBUST))
        names = [text.get_text() for text in drawn.figure.axes[0].get_xticklabels()]
        assert names[1] == "24 orders, 4-shot"
        assert len(drawn.cells) == 1 + 2 * len(ROBUST) and "seeds" in drawn.cells[0]
    elif kind == "shots":
        tasks = ("rte", "cb", "copa", "wic", "sst2")
        records = [record(0, shots, task=task) for shots in range(5) for task in tasks]
        drawn = studies.draw_curves(curves.by_shots(by_setting(records))[0])
        panels = [axes for axes in drawn.figure.axes if axes.axison]
        assert panels[-1].get_title(loc="left") == studies.AVERAGE
        assert len(panels) == 6 and len({axes.get_ylim() for axes in panels}) == 1
    else:
        drawn = studies.draw_curves(curves.by_probe_size(by_setting([record(sizes=SIZES)]))[0])
        assert drawn.figure.axes[0].get_xscale() == "log"
    written = save(drawn.figure, tmp_path / "f", ("png", "pdf"))
    assert [path.stat().st_size > 5000 for path in written] == [True, True]


def stored(store, planted, **context):
    """A score table without a model."""
    block = make_block(*map(np.asarray, planted(12, 2)[:2]))
    details = {"model": "m", "scorer": {"kind": "causal_lm"}, "split": "validation", "limit": 0}
    details |= {"task": "rte", "seed": 0, "shots": 1, **context}
    store.put(ScoreTable(details, ("yes", "no"), {"test": block}))


def test_programs_tabulate_and_draw_every_study(program, planted, tmp_path):
    store, workdir = Store(tmp_path, create=True), f"--workdir={tmp_path}"
    for shots in (0, 1):
        stored(store, planted, shots=shots)
    for name in ("2", "3"):
        stored(store, planted, options={"template": name})
    program("calibrate", workdir, "--methods=icl,bc", "--probe_sizes=2,4", "--draws=2")
    stdout = program("tables", f"--workdir={tmp_path}").stdout
    assert "over templates" in stdout and "Probe size" in stdout and "Shots" in stdout
    names = {path.name for path in (tmp_path / "tables").iterdir()}
    program("figures", f"--workdir={tmp_path}", "--boundary_tasks=0", "--formats=svg,pdf")
    drawn = {path.name for path in (tmp_path / "figures").iterdir()}
    for kind, picture in (
        ("m-1shot-validation-rte-templates", "m-1shot-validation-rte-robustness"),
        ("m-1shot-validation-probe-size", "m-1shot-validation-probe-size-curve"),
        ("m-0to1shots-validation", "m-0to1shots-validation-curve"),
    ):
        assert {f"{kind}.md", f"{kind}.tex", f"{kind}.csv"} <= names
        assert {f"{picture}.svg", f"{picture}.pdf"} <= drawn
    wrong = program("calibrate", f"--workdir={tmp_path}", "--probe_sizes=2,few", code=2)
    said = "probe_sizes: expected positive whole numbers, such as 2,5,10; got '2,few'"
    assert said in wrong.stderr


@pytest.mark.slow
def test_scoring_says_how_many_prompts_it_shortened(program, shared, tmp_path):
    settings = f"model=mini tasks=('boolq',) data={shared / 'data'} limit=2 limit_rows=first"
    flags = [f"--config.{text}" for text in f"{settings} dc_texts=1 labeled_per_class=0".split()]
    config = "--config=configs/main_table.py:smoke"
    stdout = program("score", config, *flags, f"--workdir={tmp_path}").stdout
    assert "boolq: of 32 prompts, 23 lost demonstrations and 23 were truncated" in stdout


def test_tasks_with_two_numbers_of_shots_are_not_drawn_beside_curves_of_more():
    values = np.array([50.0, 60.0])
    three, two = {1: values, 2: values, 4: values}, {0: values, 1: values}
    tasks = {"rte": {"bc": three}, "cb": {"bc": two}, "wic": {"bc": two}}
    shot_curves = curves.Curves("a", "a", "shots", tasks)
    drawn = studies.draw_curves(shot_curves)
    assert [axes.get_title(loc="left") for axes in drawn.figure.axes] == ["RTE"]
    assert drawn.note.endswith("run with two numbers of shots alone: CB, WiC.")
    alike_tasks = shot_curves._replace(tasks={"cb": {"bc": two}, "wic": {"bc": two}})
    assert len(studies.draw_curves(alike_tasks).figure.axes) == 3  # the average too
