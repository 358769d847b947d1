"""The programs, as a person types them: the path from a config to the page, and every sentence."""

import json
import re
import shutil
from html.parser import HTMLParser
from pathlib import Path

import pytest

from batch_calibration.cli.options import COMMANDS
from batch_calibration.methods import METHODS, SHELF
from batch_calibration.scores import load
from batch_calibration.scoring.embedded import CHECKPOINTS

EXPERIMENTS = Path(__file__).resolve().parents[2] / "experiments"
MINI = "--config=configs/mini.py"
SMOKE = f"{MINI}:smoke"


@pytest.fixture(scope="module")
def scored(program, tmp_path_factory):
    """A workdir of the smoke study, scored and calibrated."""
    workdir = tmp_path_factory.mktemp("study")
    process = program("score", SMOKE, f"--workdir={workdir}")
    assert "2 contexts: 259 rows scored" in process.stdout
    said = program("calibrate", "--methods=all", f"--workdir={workdir}").stdout
    assert "left out of some contexts: " in said  # each task has one context
    return workdir


def asked_from_elsewhere(page):
    """Addresses outside a page that its attributes and styles load or link to."""
    addresses = []

    class Reader(HTMLParser):
        def handle_starttag(self, tag, attrs):
            addresses.extend(value for name, value in attrs if name in ("src", "href"))
            self.handle_data(dict(attrs).get("style") or "")

        def handle_data(self, text):
            addresses.extend(re.findall(r"url\(\s*[\"']?([^\"')]*)", text))

    Reader().feed(page)
    return [where for where in addresses if not where.startswith(("data:", "#"))]


def test_what_is_asked_from_elsewhere_is_found():
    page = """<style>p { background: url("https://a/b.png") } i { background: url(data:x) }</style>
        <img src="data:image/png;base64,http"><a href="#top"></a><a href='//c'></a>
        <script src=d.js></script><p style="background: url( e.png)">http</p>"""
    assert asked_from_elsewhere(page) == ["https://a/b.png", "//c", "d.js", "e.png"]


def test_from_config_to_page(program, scored):
    stdout = program("tables", f"--workdir={scored}").stdout
    assert "SST-2" in stdout and "MNLI" in stdout and "average" in stdout
    names = {path.name for path in (scored / "tables").iterdir()}
    kinds = ("methods", "by-task", "gains", "probabilities")
    assert {f"mini-{kind}.{form}" for kind in kinds for form in ("md", "tex", "csv")} == names
    assert {"results.csv", "results.parquet"} <= {path.name for path in scored.iterdir()}
    program("figures", f"--workdir={scored}")
    drawn = {path.stem for path in (scored / "figures").iterdir()}
    forms = sorted(path.name for path in (scored / "figures").iterdir())
    assert {"mini-boundaries", "mini-gains"} == drawn
    assert forms == sorted(f"{name}.{form}" for name in drawn for form in ("csv", "png"))
    stdout = program("report", f"--workdir={scored}").stdout
    assert "advised" in stdout and "With Batch Calibration" in stdout and "report.html" in stdout
    page = (scored / "report.html").read_text()
    shown = set(re.findall('<figure id="figure-([^"]+)"', page))
    assert "mini-gains" in shown and asked_from_elsewhere(page) == []
    # The page of a few contexts also draws the reliability of their probabilities.
    own = re.compile(r"mini-reliability")
    assert {name for name in shown if not own.fullmatch(name)} <= drawn
    assert "batch-calibration score --config=configs/mini.py:smoke" in page and "jax" in page


def test_records_say_what_every_method_did(scored):
    records = [json.loads(path.read_text()) for path in (scored / "records").iterdir()]
    assert len(records) == 2
    for record in records:
        permuted = {name for name, row in METHODS.items() if "permutations" in row.probe.blocks}
        permuted.add("ensemble")  # a task has one context
        assert set(record["methods"]) == set(METHODS) - permuted
        assert set(record["skipped"]) == permuted
        bcl = record["methods"]["bcl"]
        assert len(bcl["curve"]["test"]) == len(bcl["curve"]["labeled"]) == 101
        assert -5 <= bcl["strength"] <= 5
        for metrics in (result["metrics"] for result in record["methods"].values()):
            assert 0 <= metrics["accuracy_low"] <= metrics["accuracy"] <= metrics["accuracy_high"]


def test_the_shelf_is_calibrated_unasked_and_a_method_it_lacks_by_name(program, scored, tmp_path):
    shutil.copytree(scored / "scores", tmp_path / "scores")

    def calibrated(*flags):
        said = program("calibrate", *flags, f"--workdir={tmp_path}").stdout
        records = [json.loads(path.read_text()) for path in (tmp_path / "records").iterdir()]
        return "left out" in said, {frozenset(record["methods"]) for record in records}

    shelf = {*SHELF} - {"ensemble"}  # a task has one context
    assert calibrated() == (False, {frozenset(shelf)})
    shelf |= {"sld_em"}  # whoever sets an option wants the method
    assert calibrated("--method_options=sld_em.damping=0.5") == (False, {frozenset(shelf)})
    assert calibrated("--methods=ensemble,vector") == (True, {frozenset(shelf | {"vector"})})


def test_a_second_run_scores_nothing_and_a_lost_context_is_scored_alone(program, scored, tmp_path):
    workdir = tmp_path / "w"
    shutil.copytree(scored, workdir)
    process = program("score", SMOKE, f"--workdir={workdir}")
    assert "0 rows scored" in process.stdout and "259 were already stored" in process.stdout
    lost = sorted((workdir / "scores").iterdir())[0]
    before = lost.read_bytes()
    lost.unlink()
    program("score", SMOKE, f"--workdir={workdir}")
    assert lost.read_bytes() == before


def test_a_changed_probe_scores_its_block_alone(program, scored, tmp_path):
    workdir = tmp_path / "w"
    shutil.copytree(scored, workdir)
    stdout = program("score", SMOKE, "--config.dc_texts=4", f"--workdir={workdir}").stdout
    assert "8 rows scored" in stdout
    tables = [load(path) for path in (workdir / "scores").iterdir()]
    assert all(len(table.blocks["dc"].row_ids) == 4 for table in tables)


def test_one_override_changes_one_thing(program, scored, tmp_path):
    program("score", SMOKE, "--config.shots=2", "--config.tasks=('sst2',)", f"--workdir={tmp_path}")
    (two,) = [load(path) for path in (tmp_path / "scores").iterdir()]
    first = next(t for t in map(load, scored.glob("scores/*")) if t.context["task"] == "sst2")
    changed = {k for k in first.context if first.context[k] != two.context[k]}
    assert changed == {"shots", "demonstrations", "shown"}
    assert first.blocks["test"].row_ids == two.blocks["test"].row_ids


WRONG = [
    ("score", f"{MINI} --config.shotz=1", "--shotz=1; did you mean --shots?"),
    ("score", "--config=configs/minni.py", "minni.py"),
    ("score", f"{MINI}:smok", "no preset 'smok'"),
    ("score", f"{MINI} --wordkir=x", "--wordkir=x; did you mean --workdir?"),
    ("score", f"{MINI} --config.tasks=sst22", "no task named 'sst22'; did you mean 'sst2'"),
    ("score", f"{MINI}:smoke --config.shots=40", "the model has 576"),
    ("score", "--config=", "--config=: expected a Python file; got none"),
    ("score", "--config=configs", "--config=configs: expected a Python file; got none"),
    ("score", "--config=configs/minni.py --config.shots=1", "use one, such as"),
    ("score", "--config=configs/train_mini.py", "There is no setting named"),
    ("score", f"{MINI} --plugin=own.py", "--plugin=own.py: expected a Python file; got none"),
    ("score", f"{MINI} stray", "unrecognized arguments: stray"),
    ("score", f"{MINI} --workdir=", "--workdir: expected a folder; got nothing"),
]


@pytest.mark.parametrize(("name", "flags", "sentence"), WRONG)
def test_wrong_input_gets_one_sentence_and_exit_code_2(program, tmp_path, name, flags, sentence):
    process = program(name, f"--workdir={tmp_path / 'w'}", *flags.split(), code=2)
    assert sentence in process.stderr and "Traceback" not in process.stderr
    assert process.stderr.count("error: ") == 1


@pytest.mark.parametrize("lost", ["config.json", "model.safetensors", "tokenizer.json"])
def test_a_checkpoint_without_a_file(program, tmp_path, lost):
    shutil.copytree(CHECKPOINTS["mini"], tmp_path / "model")
    (tmp_path / "model" / lost).unlink()
    flags = f"--config.model={tmp_path}/model", f"--workdir={tmp_path}/w"
    process = program("score", SMOKE, *flags, code=2)
    assert lost.split(".")[-1] in process.stderr and "Traceback" not in process.stderr


def test_one_broken_table_is_named_and_the_others_are_calibrated(program, scored, tmp_path):
    workdir = tmp_path / "w"
    shutil.copytree(scored / "scores", workdir / "scores")
    broken = sorted((workdir / "scores").iterdir())[0]
    broken.write_bytes(broken.read_bytes()[:100])
    process = program("calibrate", f"--workdir={workdir}", code=2)
    assert broken.name in process.stderr and "a complete score table" in process.stderr
    assert len(list((workdir / "records").iterdir())) == 1


@pytest.mark.parametrize("name", COMMANDS)
def test_help_of_a_command(program, name):
    said = program(name, "--help").stdout
    assert f"usage: batch-calibration {name} " in said and "options:" in said


SWEEP = "import ml_collections as m\ndef get_config(): return m.ConfigDict({})\ndef sweep(c): {}"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("import nowhere", "own.py: cannot be run (ModuleNotFoundError"),
        ("x = 1", "own.py: expected a function get_config; got none"),
        (SWEEP.format({"shotz": 1}, "return []"), "no setting named 'shotz'; did you mean 'shots'"),
        (
            SWEEP.format({"shots": 1}, "return [3]"),
            "expected dicts from sweep, as in configs/base.py",
        ),
        (
            SWEEP.format({"data": "mini"}, "return [{'task': 'sst2', 'model': 'x'}]"),
            "expected no model, which all cells of a study share",
        ),
    ],
)
def test_a_config_of_ones_own_that_is_none(program, tmp_path, text, sentence):
    (tmp_path / "own.py").write_text(text)
    flags = (f"--config={tmp_path / 'own.py'}", f"--workdir={tmp_path / 'w'}")
    process = program("score", *flags, code=2)
    assert sentence in process.stderr and "Traceback" not in process.stderr
    assert not (tmp_path / "w").exists()


def test_a_config_of_ones_own_states_what_differs_alone(program, tmp_path):
    (tmp_path / "own.py").write_text(
        "from ml_collections import ConfigDict\n"
        "def get_config():\n"
        "    config = ConfigDict({'model': 'mini', 'data': 'mini', 'limit': 4, 'dc_texts': 2})\n"
        "    return config.lock()\n"
        "def sweep(config):\n"
        "    for shots in (0, 1):\n"
        "        yield {'task': 'sst2', 'shots': shots, 'labeled_per_class': 1}\n"
    )
    flags = (f"--config={tmp_path / 'own.py'}", f"--workdir={tmp_path / 'w'}")
    assert "2 contexts: 72 rows scored" in program("score", *flags).stdout


def test_tasks_may_be_named_without_quotes(program, tmp_path):
    flags = "--config.tasks=sst2,cb", "--config.limit=2", "--config.labeled_per_class=0"
    stdout = program("score", SMOKE, *flags, f"--workdir={tmp_path}").stdout
    assert "2 contexts: 103 rows scored" in stdout
