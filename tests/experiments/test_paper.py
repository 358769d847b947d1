"""The paper's tables and figures: each is drawn under its number, or says what it lacks."""

import dataclasses
import os
import re
import shutil
import subprocess

import figures
import numpy as np
import pytest
from making import make_record

from batch_calibration import calibrate
from batch_calibration.methods import METHODS
from batch_calibration.reporting import writing
from batch_calibration.reporting.cells import Best, NumberCell, Second, latex, markdown
from batch_calibration.reporting.figures import style
from batch_calibration.reporting.frame import Frame
from batch_calibration.reporting.tables import make_tables
from batch_calibration.scores import ScoreTable, make_block
from batch_calibration.scoring.tasks import PAPER_LANGUAGE, TASKS
from batch_calibration.studies import Store, calibrate_store
from experiments.evidence import paper, paper_figures
from experiments.evidence import paper_tables as tables
from experiments.evidence.paper_figures import PaperResults

TEXT = ("sst2", "qnli", "qqp", "cb", "rte")
DRAWN = ("svhn", "eurosat", "clevr")
ROWS = {"test": 24, "cc": 3, "dc": 20, "labeled": 12}
MODELS = ("small", "middle", "big")


@pytest.fixture(scope="module", autouse=True)
def usual_fonts():
    """Those of a user's figures, which other tests leave out (conftest.py)."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(style.STYLE, "pdf.fonttype", 42)
        yield


@pytest.fixture(scope="module")
def workdir(tmp_path_factory, planted):
    """Every study of the paper on planted scores: three models, five tasks of text, images."""
    store = Store(tmp_path_factory.mktemp("paper"), create=True)

    def put(task, rows=ROWS, **fields):
        names = TASKS[task].label_names
        number = len(list(store.workdir.glob("scores/*")))
        planted_blocks = {n: planted(m, len(names), number)[:2] for n, m in rows.items()}
        blocks = {name: make_block(*map(np.asarray, pair)) for name, pair in planted_blocks.items()}
        usual = {"model": "big", "seed": 0, "shots": 1, "limit": 0, "split": "validation"}
        scorer = {"kind": "causal_lm", "of": fields.get("model", "big")}
        usual |= {"data": "mini", "scorer": scorer, "task": task}
        store.put(ScoreTable(usual | fields, names, blocks))

    probes = {name: ROWS[name] for name in ("test", "cc", "dc")}
    for task in TEXT:
        for model in MODELS:
            put(task, model=model)
        put(task, probes, shots=0)
    put("sst2", seed=1)
    for key, count in (("template", 3), ("verbalizer", 2)):
        for number in range(1, count + 1):
            put("rte", probes, options={key: str(number)})
    for task in DRAWN:
        put(task, {"test": 24}, model="clip", shots=0, scorer={"kind": "dual_encoder"})
    calibrate_store(store, ("icl", "cc", "dc", "pc", "bc", "bcl"), tasks=TEXT)
    calibrate_store(store, ("icl", "bc"), tasks=DRAWN)
    calibrate_store(store, ("bc",), probe_sizes=(4, 8), draws=2, tasks=("rte",), shots=1)
    return store


def gathered(store):
    return PaperResults(store.records(), store.table_of, models=MODELS)


@pytest.fixture(scope="module")
def page(program, workdir):
    """The program's entries, an item each, and every file by name."""
    flags = (f"--models={','.join(MODELS)}", f"--workdir={workdir.workdir}")
    stdout = program("paper", *flags).stdout.rstrip()
    entries = re.split(r"\n(?! )", stdout)  # an entry's other lines are indented
    folder = workdir.workdir / "paper"
    return entries, {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def test_the_list_is_the_papers():
    numbers = [item.number for item in paper.ITEMS]
    assert numbers == [f"Table {i}" for i in range(1, 12)] + [f"Figure {i}" for i in range(1, 12)]


@pytest.mark.slow
def test_every_item_is_drawn_and_says_where(page):
    entries, files = page
    for item in paper.ITEMS:
        name = item.number.lower().replace(" ", "-")
        endings = ("md", "tex") if item.number.startswith("Table") else ("png", "pdf")
        for ending in endings:
            assert len(files[f"{name}.{ending}"]) > 100
        (entry,) = [entry for entry in entries if entry.startswith(f"{item.number} ")]
        assert f"{name}.{endings[0]}" in entry
    stems = {name.split(".")[0] for name in files}
    # Templates and verbalizers are two tables.
    more = {"table-7-2", "paper"}
    assert stems == {item.number.lower().replace(" ", "-") for item in paper.ITEMS} | more
    assert "needs MNLI, MRPC" in next(entry for entry in entries if entry.startswith("Table 4 "))
    assert entries[-1].startswith("19 of 22 are complete")


def test_no_two_texts_of_a_figure_overlap(workdir):
    for drawing in writing.make_figures(gathered(workdir)):
        figures.check(drawing.draw().figure)
        if drawing.draw_for_page:
            figures.check(drawing.draw_for_page().figure)


@pytest.mark.slow
def test_files_written_again_are_the_same(workdir, page, tmp_path):
    for state in paper.find_states(gathered(workdir)):
        if state.item.number.startswith(("Table", "Figure 2", "Figure 7")):
            paper.write_item(state, tmp_path)
    names = [path.name for path in tmp_path.iterdir()]
    forms = {"md", "tex", "csv", "png", "pdf"}
    assert len(names) > 20 and {name.rsplit(".")[-1] for name in names} == forms
    for name in names:
        assert (tmp_path / name).read_bytes() == page[1][name], name


@pytest.mark.slow
def test_the_page_says_where_the_paper_has_another_setting(page):
    text = page[1]["paper.md"].decode()
    assert text.count("## ") == len(paper.ITEMS)
    assert "The paper's numbers are for PaLM 2-S and 2-L, 1 shot; these are for another" in text
    assert "![Decision boundaries" in text and "](figure-10.png)" in text


@pytest.mark.slow
def test_latex_compiles(workdir, page, tmp_path):
    program = shutil.which("pdflatex")
    if program is None:
        lacking = pytest.fail if os.environ.get("REQUIRE_TOOLS") == "1" else pytest.skip
        lacking("needs pdflatex; `make tools` installs it")
    quiet = ["-interaction=nonstopmode", "-halt-on-error", f"-output-directory={tmp_path}"]
    command, folder = [program, *quiet, "paper.tex"], workdir.workdir / "paper"
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:]
    assert (tmp_path / "paper.pdf").stat().st_size > 50_000
    assert "Overfull" not in done.stdout


def test_what_lacks_is_said_with_commands(program, planted, tmp_path):
    store = Store(tmp_path, create=True)
    block = make_block(*map(np.asarray, planted(12, 2)[:2]))
    details = {"task": "sst2", "model": "m", "seed": 0, "shots": 1, "data": "real"}
    store.put(ScoreTable(details, TASKS["sst2"].label_names, {"test": block}))
    calibrate_store(store, ("icl", "bc"))
    stdout = program("paper", f"--workdir={tmp_path}").stdout
    assert "Table 2    13 tasks, two sizes of model\n    needs two models:\n" in stdout
    assert (
        "    python -m experiments.score --config=configs/zero_shot.py --config.model=DIR "
        f"--config.data=DATA --workdir={tmp_path}\n"
    ) in stdout
    assert (
        "    python -m experiments.calibrate --config=configs/probe_size.py --config.model=DIR "
        f"--config.data=DATA --tasks=rte --shots=1 --workdir={tmp_path}\n"
    ) in stdout
    assert "Figure 4   The method, illustrated\n    drawn: " in stdout


def test_only_what_is_asked_for_is_calibrated(program, planted, tmp_path):
    store = Store(tmp_path, create=True)
    block = make_block(*map(np.asarray, planted(12, 2)[:2]))
    for task, shots in (("sst2", 0), ("sst2", 1), ("rte", 1)):
        store.put(ScoreTable({"task": task, "shots": shots}, ("a", "b"), {"test": block}))
    records = calibrate_store(store, ("icl",), tasks=("sst2",), shots=1).records
    assert [(record.context.task, record.context.shots) for record in records] == [("sst2", 1)]
    wrong = program("calibrate", f"--workdir={tmp_path}", "--tasks=sst2,cb", "--shots=4", code=2)
    assert (
        f"workdir {tmp_path}: expected score tables of sst2, cb, 4 shots; got none: run "
        "batch-calibration score first" in wrong.stderr
    )


def test_methods_are_described_from_their_table():
    group = Frame([make_record("sst2", {"icl": 0.5})])
    header, *rows = tables.method_cells(group)
    described = [name for name in METHODS if name in tables.FORMULAS]
    assert [row[0] for row in rows] == described and {"cc", "dc", "pc", "bc"} <= set(described)
    passes = {row[0]: row[header.index("forward passes")] for row in rows}
    assert passes["cc"] == "3 + 1" and passes["dc"] == "20 + 1" and passes["bc"] == "1"
    asked = make_record("sst2", {"icl": 0.5})
    few = Frame([dataclasses.replace(asked, rows={"test": 277, "cc": 3, "dc": 10})])
    assert [row[2] for row in tables.method_cells(few) if row[0] == "dc"] == ["10 + 1"]
    decides = {row[0]: row[-1] for row in rows}
    assert decides["cc"] == "p0 = c p1" and decides["dc"] == decides["bc"] == "s0 = s1 + c"


def test_gains_stand_by_the_kind_of_task():
    both = {"sst2": {"icl": 0.5, "bc": 0.7}, "rte": {"icl": 0.6, "bc": 0.5}}
    group = Frame(sized("m", **both))
    header, *bodies = tables.method_cells(group)
    assert header[-2:] == ["gain, one text", "gain, several texts"]
    bc = next(row for row in bodies if row[0] == "bc")
    assert bc[-2].startswith("+20.2 [") and bc[-1].startswith("-10.1 [")
    assert next(row for row in bodies if row[0] == "cc")[-2:] == ["-", "-"]


def sized(model, shots=1, data="", **accuracy):
    context = {"shots": shots, "model": model, "data": data}
    return [make_record(task, dict(methods), context=context) for task, methods in accuracy.items()]


def test_best_and_second_best_of_each_size_are_marked():
    settings = PaperResults(
        sized("s", rte={"icl": 0.5, "cc": 0.6, "dc": 0.6, "bc": 0.55})
        + sized("l", rte={"icl": 0.9, "bc": 0.8}, cb={"icl": 0.7, "bc": 0.7}),
        models=("s",),
    )
    sizes = settings.sizes
    assert [group.levels("model") for group in sizes] == [["s"], ["l"]]
    cells = tables.size_cells([(group.levels("model")[0], group) for group in sizes])
    assert cells[0] == ["task", "rows", "s icl", "s cc", "s dc", "s bc", "l icl", "l bc"]
    cb, rte, average = cells[1:]
    assert cb == ["CB", "277", "-", "-", "-", "-", "70.0", "70.0"]
    assert rte[2:] == ["50.0", "60.0", "60.0", "55.0", "90.0", "80.0"]
    kinds = [type(cell) for cell in rte[2:]]
    assert kinds == [NumberCell, Best, Best, Second, Best, Second]
    assert [type(cell) for cell in cb[-2:]] == [Best, Best]
    assert average[2:] == ["50.0", "60.0", "60.0", "55.0", "80.0", "75.0"]
    assert "*55.0*" in markdown(cells) and r"\underline{55.0}" in latex(cells)


def test_the_middle_size_is_the_one_between_others():
    records = [r for model in ("c", "a", "b") for r in sized(model, rte={"icl": 0.9, "bc": 0.5})]
    for models, middle in (((), "b"), (("b", "a", "c"), "a")):
        results = PaperResults(records, models=models)
        assert [group.levels("model") for group in results.middle] == [[middle]]
        (table,) = [made for made in tables.paper_tables(results) if made.number == "Table 5"]
        assert table.cells[0][2] == f"{middle} 1-shot icl"
    assert PaperResults(sized("a", rte={"icl": 0.9, "bc": 0.5})).middle == []


def test_bcl_stands_beside_bc_of_the_first_seed():
    contexts = [{"shots": 1, "seed": seed} for seed in range(2)]
    methods = [{"icl": 0.5, "bc": bc, "bcl": 0.7} for bc in (0.6, 0.7)]
    records = [
        make_record("rte", m, strength=1.25, context=c)
        for m, c in zip(methods, contexts, strict=True)
    ]
    # Of several draws the first seed counts, in whatever order they were stored.
    assert tables.bcl_cells(PaperResults(records[::-1]).main) == [
        ["task", "rows", "icl", "bc", "bcl", "γ learned"],
        ["RTE", "277", "50.0", "60.0", "70.0", "+1.2"],
        ["average", "", "50.0", "60.0", "70.0", ""],
    ]
    assert tables.bcl_cells(Frame(sized("m", rte={"icl": 0.5}))) == []


def test_data_are_described_as_in_the_paper():
    group = Frame(sized("m", cb={"icl": 0.5}))
    assert tables.data_cells(group)[1] == ["CB", "NLI", "2", "3", "277", "56"]
    assert set(PAPER_LANGUAGE) == {n for n, task in TASKS.items() if task.test_rows}
    assert "of the data" not in tables.data_note(group)
    on_mini = Frame(sized("m", data="mini", cb={"icl": 0.5}))
    assert "of the data mini" in tables.data_note(on_mini)


def test_numbered_choices_have_two_tables():
    records, asked = sized("m", rte={"icl": 0.7, "bc": 0.7}), {"shots": 1}
    for key, name, icl in ("template", "10", 0.6), ("template", "2", 0.4), ("verbalizer", "2", 0.5):
        context = asked | {"options": {key: name}}
        records.append(make_record("rte", {"icl": icl, "bc": 0.5}, context=context))
    numbered = [table for table in make_tables(PaperResults(records)) if table.number == "Table 7"]
    assert [[row[:4] for row in table.cells] for table in numbered] == [
        [
            ["template", "contexts", "icl", "bc"],
            ["own", "1", "70.0", "70.0"],
            ["2", "1", "40.0", "50.0"],
            ["10", "1", "60.0", "50.0"],
        ],
        [
            ["verbalizer", "contexts", "icl", "bc"],
            ["own", "1", "70.0", "70.0"],
            ["2", "1", "50.0", "50.0"],
        ],
    ]
    marked = [[isinstance(cell, Best) for cell in row[2:4]] for row in numbered[0].cells[2:]]
    assert marked == [[False, True], [True, False]]
    assert not [table.number for table in make_tables(PaperResults(records[:1])) if table.number]


def test_items_of_one_model_are_of_the_main_one():
    def record(model, shots, share, **options):
        context = {"model": model, "shots": shots, "options": options}
        return make_record("rte", {"icl": share, "bc": 0.5}, context=context)

    records = [record("a", 1, 0.9), record("b", 0, 0.8), record("b", 1, 0.6)]
    records += [record("a", 0, 0.2), record("b", 1, 0.4, template="1")]
    states = {state.item.number: state for state in paper.find_states(PaperResults(records))}
    (shots,) = states["Figure 6"].artifacts
    drawn = [row[1:] for row in shots.draw().cells[1:]]
    assert [row[:3] for row in drawn if row[0] == "icl"] == [
        ["icl", "0", "80"],
        ["icl", "1", "60"],
    ]
    (templates,) = states["Table 7"].artifacts
    assert [row[:3] for row in templates.cells[1:]] == [["own", "1", "60.0"], ["1", "1", "40.0"]]


def test_the_papers_images_stand_beside_its_own_setting_alone():
    usual = {"model": "openai-clip-vit-base-patch16", "split": "test"}

    def scored(task, icl, bc, **changes):
        return make_record(task, {"icl": icl, "bc": bc}, context=usual | changes)

    def group_of(**changes):
        return Frame([scored("svhn", 0.2, 0.3, **changes), scored("dtd", 0.5, 0.4, **changes)])

    header, svhn, dtd, average = tables.image_cells(group_of())
    assert svhn == ["SVHN", "20.0", "30.0", "+10.0", "18.0", "35.0", "+17.0"]
    assert dtd[-1] == "-2.7" and " ".join(average) == "average 35.0 35.0 +0.0 31.2 38.4 +7.2"
    assert header[4] == "paper ZS" and tables.image_note(group_of()) == ""
    for changes, note in (
        ({"data": "mini"}, "12 of its 47 classes"),
        ({"limit": 100}, "another setting"),
        ({"options": {"classes": "present"}}, "another setting"),
        ({"model": "openai-clip-vit-large-patch14"}, "another setting"),
    ):
        unlike = group_of(**changes)
        assert len(tables.image_cells(unlike)[0]) == 4 and note in tables.image_note(unlike)
        # Both settings have a table of their own.
        both = PaperResults([*group_of().records, *unlike.records])
        made = [table for table in tables.paper_tables(both) if table.number == "Table 6"]
        assert sorted(len(table.cells[0]) for table in made) == [4, 7]
    assert tables.image_cells(Frame([scored("sst2", 0.5, 0.6)])) == []


def test_shifted_scores_are_those_of_the_method(workdir):
    record = next(candidate for candidate in workdir.records() if candidate.context.task == "qnli")
    table = workdir.table_of(record)
    shifted = paper_figures.shift_scores(record, table)
    assert list(shifted.biases) == ["icl", "cc", "dc", "bc"]
    after = np.asarray(calibrate(table.blocks["test"].log_probs, method="bc"))
    np.testing.assert_allclose(shifted.margin("bc"), after[:, 0] - after[:, 1], atol=1e-5)
    for name in shifted.biases:
        assert shifted.accuracy(name) == pytest.approx(record.methods[name].metrics["accuracy"])
    rows = paper_figures.shifted_cells([shifted])
    assert len(rows) == 1 + len(shifted.gold) and len({len(row) for row in rows}) == 1
    of_three = next(candidate for candidate in workdir.records() if candidate.context.task == "cb")
    assert paper_figures.shift_scores(of_three, workdir.table_of(of_three)) is None


def test_main_setting_is_of_the_model_that_has_most():
    records = sized("a", rte={"icl": 0.9, "bc": 0.5}) + sized("b", rte={"icl": 0.9, "bc": 0.5})
    records += sized("b", shots=0, rte={"icl": 0.9, "bc": 0.5})
    assert PaperResults(records).main.levels("model") == ["b"]
    assert PaperResults([]).main is None
