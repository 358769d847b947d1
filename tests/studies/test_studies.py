"""Records of other studies: never mixed with the main table; tabulated and drawn by themselves."""

import dataclasses

import numpy as np
import pytest
from making import make_by_rows, make_curve, make_record

from batch_calibration.reporting import cells, curves, tables, two_labels, writing
from batch_calibration.reporting.figures import studies
from batch_calibration.reporting.figures.style import save
from batch_calibration.reporting.frame import Frame
from batch_calibration.reporting.items import Results
from batch_calibration.scores import ScoreTable, make_block
from batch_calibration.studies import Store, csv_text
from experiments.evidence import paper_figures


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
    _, *rows = paper_figures.draw_strength(Frame(runs)).cells
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


def test_the_robustness_study_has_a_table_for_each_factor():
    made = {table.slug: table for table in writing.make_tables(Results([*MAIN, *ROBUST]))}
    rows = {}
    for name in ("template", "verbalizer", "selection", "order", "shots", "seed"):
        rows[name] = [row[0] for row in made[f"m-by-{name}"].cells[1:]]
    assert rows["template"] == ["own", *map(str, range(1, 11))] == rows["verbalizer"]
    assert rows["order"] == [*map(str, range(24))]
    assert rows["selection"] == ["per_class", "total"]
    assert rows["seed"] == [*map(str, range(10))]
    assert made["m-by-template"].number == made["m-by-verbalizer"].number == "Table 7"
    # The task's own template has five seeds, each other template one.
    header, own, first, *_ = made["m-by-template"].cells
    assert header[:2] == ["template", "contexts"] and own[:2] == ["own", "5"]
    assert first[:4] == ["1", "1", "31.0", "41.0"]
    assert cells.markdown(made["m-by-template"].cells).splitlines()[3].startswith("| 1 | 1 | 31.0")
    assert csv_text(made["m-by-template"].cells).splitlines()[2].startswith("1,1,31.0,41.0,")


def test_policies_for_long_prompts_are_a_factor_and_shortened_prompts_are_counted():
    dropped = [record(seed, over_long="drop_shots", shortened=9) for seed in range(2)]
    group = Frame([*MAIN, *dropped])
    assert group.varying == ["seed", "over_long"]
    assert group.names[5] == "seed 0, over long drop_shots"
    assert tables.by_task(Frame(MAIN))[1][1] == "277"
    assert tables.by_task(Frame(dropped))[1][1] == "277 †9"
    # If all contexts have it, each table names it.
    made = writing.make_tables(Results(dropped))
    assert made and all("In all contexts: over long drop_shots." in one.note for one in made)


def test_shots_make_curves():
    records = [record(s, shots, 0.1 * shots + s / 100) for shots in (0, 1, 4) for s in range(2)]
    shot_curves = curves.by_shots("m", Frame(records))
    assert shot_curves.slug == "m-shots" and shot_curves.number == "Figure 6"
    assert sorted(shot_curves.tasks["rte"]["icl"]) == [0, 1, 4]
    np.testing.assert_allclose(shot_curves.tasks["rte"]["bc"][4], [50, 51])
    assert curves.curve_cells(shot_curves)[1] == ["RTE", "0", "0.5 ± 0.7", "10.5 ± 0.7"]
    assert curves.by_shots("m", Frame(MAIN)) is None
    # Contexts with unknown shots are on no curve.
    unknown = curves.by_shots("m", Frame([record(0, None), *records]))
    assert sorted(unknown.tasks["rte"]["icl"]) == [0, 1, 4]


def test_remarks_of_records_stand_below_every_table():
    records = [
        dataclasses.replace(record(0, shots, sizes=SIZES, **options), notes=("† known",))
        for shots, options in ((0, {}), (1, {}), (1, {"template": "1"}))
    ]
    made = writing.make_tables(Results(records))
    assert len(made) > 5 and all("† known" in table.note for table in made)


SIZES = make_by_rows([2, 277], bc=[[0.5, 0.6], [0.7]], pc=[[0.4, 0.4], [0.5]])


def test_probe_sizes_make_curves_with_draws_of_all_seeds():
    (curve,) = curves.find_curves("m", Frame([record(i, sizes=SIZES) for i in range(3)]))
    assert (curve.slug, curve.number) == ("m-probe-size", "Figure 9")
    np.testing.assert_allclose(curve.tasks["rte"]["bc"][2], [50, 60] * 3)
    assert curves.curve_cells(curve)[-1] == ["RTE", "277", "70.0 ± 0.0", "50.0 ± 0.0"]
    assert list(curves.find_curves("m", Frame(MAIN))) == []


@pytest.mark.parametrize("kind", ["robustness", "shots", "probe sizes"])
def test_figures_are_drawn(tmp_path, kind):
    if kind == "robustness":
        drawn = studies.draw_robustness(Frame([*MAIN, *ROBUST]), ["template", "order"])
        names = [text.get_text() for text in drawn.figure.axes[0].get_xticklabels()]
        assert names == ["template (11)", "order (25)"]
    elif kind == "shots":
        tasks = ("rte", "cb", "copa", "wic", "sst2")
        records = [record(0, shots, task=task) for shots in range(5) for task in tasks]
        drawn = studies.draw_curves(curves.by_shots("m", Frame(records)))
        panels = [axes for axes in drawn.figure.axes if axes.axison]
        assert panels[0].get_title(loc="left") == studies.AVERAGE
        assert len(panels) == 6 and len({axes.get_ylim() for axes in panels}) == 1
    else:
        drawn = studies.draw_curves(*curves.find_curves("m", Frame([record(sizes=SIZES)])))
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
    assert "By template" in stdout and "Probe size" in stdout and "By shots" in stdout
    names = {path.name for path in (tmp_path / "tables").iterdir()}
    program("figures", f"--workdir={tmp_path}", "--boundary-tasks=0", "--formats=svg,pdf")
    drawn = {path.name for path in (tmp_path / "figures").iterdir()}
    for kind in ("m-by-template", "m-by-shots", "m-contexts", "m-probe-size"):
        assert {f"{kind}.md", f"{kind}.tex", f"{kind}.csv"} <= names
    for kind in ("m-robustness", "m-probe-size", "m-shots"):
        assert {f"{kind}.svg", f"{kind}.pdf", f"{kind}.csv"} <= drawn
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
