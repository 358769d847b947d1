"""The programs, as a person types them: the path from a config to the page, and every sentence."""

import json
import os
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

from batch_calibration.methods import METHODS
from batch_calibration.scores import load
from batch_calibration.scoring.embedded import CHECKPOINTS


@pytest.fixture(scope="module")
def scored(program, tmp_path_factory):
    """A workdir of the smoke study, scored and calibrated."""
    workdir = tmp_path_factory.mktemp("study")
    said = program("score", "--config=configs/mini.py:smoke", f"--workdir={workdir}")
    assert "2 contexts: 259 rows scored" in said.stdout
    program("calibrate", f"--workdir={workdir}")
    return workdir


def asked_from_elsewhere(page):
    """What a page loads or links to that is not in it, by its attributes and its styles."""
    asked = []

    class Reader(HTMLParser):
        def handle_starttag(self, tag, attrs):
            asked.extend(value for name, value in attrs if name in ("src", "href"))
            self.handle_data(dict(attrs).get("style") or "")

        def handle_data(self, text):
            asked.extend(re.findall(r"url\(\s*[\"']?([^\"')]*)", text))

    Reader().feed(page)
    return [where for where in asked if not where.startswith(("data:", "#"))]


def test_what_is_asked_from_elsewhere_is_found():
    page = """<style>p { background: url("https://a/b.png") } i { background: url(data:x) }</style>
        <img src="data:image/png;base64,http"><a href="#top"></a><a href='//c'></a>
        <script src=d.js></script><p style="background: url( e.png)">http</p>"""
    assert asked_from_elsewhere(page) == ["https://a/b.png", "//c", "d.js", "e.png"]


def test_from_config_to_page(program, scored):
    said = program("tables", f"--workdir={scored}").stdout
    assert "SST-2" in said and "MNLI" in said and "average" in said
    names = {path.name for path in (scored / "tables").iterdir()}
    kinds = {"paper": "methods", "variant": "variants"}
    groups = {kinds.get(method.group, method.group) for method in METHODS.values()}
    texts = [f"{kind}{gains}" for kind in groups for gains in ("", "-gains")]
    numbers = ("overview", "probabilities", "nll", "brier", "ece")
    ends = [f"-{kind}.{form}" for kind in (*texts, *numbers) for form in ("md", "tex")]
    ends += [f"-{kind}.csv" for kind in numbers]
    start = "mini-1shot-validation-first40-labeled_per_class-16"
    assert {start + end for end in ends} <= names
    assert {"results.csv", "results.parquet"} <= {path.name for path in scored.iterdir()}
    program("figures", f"--workdir={scored}")
    drawn = {path.stem for path in (scored / "figures").iterdir()}
    forms = sorted(path.name for path in (scored / "figures").iterdir())
    assert {f"{start}-{name}" for name in ("boundaries", "differences", "strength")} <= drawn
    assert forms == sorted(f"{name}.{form}" for name in drawn for form in ("csv", "pdf", "png"))
    said = program("report", f"--workdir={scored}").stdout
    assert "Batch Calibration on" in said and "report.html" in said
    page = (scored / "report.html").read_text()
    shown = set(re.findall('<figure id="figure-([^"]+)"', page))
    assert f"{start}-differences" in shown and asked_from_elsewhere(page) == []
    # The chart of all contexts, and those of single ones, are the page's own.
    own = re.compile(r"preferences|s\d+-c\d+")
    assert {name for name in shown if not own.fullmatch(name)} <= drawn
    assert "experiments.score --config=configs/mini.py:smoke" in page and "jax" in page


def test_records_say_what_every_method_did(scored):
    records = [json.loads(path.read_text()) for path in (scored / "records").iterdir()]
    assert len(records) == 2
    for record in records:
        permuted = {name for name, row in METHODS.items() if "permutations" in row.probe.blocks}
        assert set(record["methods"]) == set(METHODS) - permuted
        assert set(record["skipped"]) == permuted
        assert len(record["curve"]["test"]) == len(record["curve"]["labeled"]) == 101
        assert -5 <= record["strength"] <= 5
        for metrics in record["methods"].values():
            assert 0 <= metrics["accuracy_low"] <= metrics["accuracy"] <= metrics["accuracy_high"]


def test_a_second_run_scores_nothing_and_a_lost_context_is_scored_alone(program, scored, tmp_path):
    workdir = tmp_path / "w"
    shutil.copytree(scored, workdir)
    again = program("score", "--config=configs/mini.py:smoke", f"--workdir={workdir}")
    assert "0 rows scored" in again.stdout and "259 were there already" in again.stdout
    lost = sorted((workdir / "scores").iterdir())[0]
    before = lost.read_bytes()
    lost.unlink()
    program("score", "--config=configs/mini.py:smoke", f"--workdir={workdir}")
    assert lost.read_bytes() == before


def test_a_changed_probe_scores_its_block_alone(program, scored, tmp_path):
    workdir = tmp_path / "w"
    shutil.copytree(scored, workdir)
    said = program("score", "--config=configs/mini.py:smoke", "--config.dc_texts=4",
                   f"--workdir={workdir}").stdout  # fmt: skip
    assert "8 rows scored" in said
    tables = [load(path) for path in (workdir / "scores").iterdir()]
    assert all(len(table.blocks["dc"].row_ids) == 4 for table in tables)


def test_one_override_changes_one_thing(program, scored, tmp_path):
    program("score", "--config=configs/mini.py:smoke", "--config.shots=2",
            "--config.tasks=('sst2',)", f"--workdir={tmp_path}")  # fmt: skip
    (two,) = [load(path) for path in (tmp_path / "scores").iterdir()]
    one = next(t for p in (scored / "scores").iterdir() if (t := load(p)).context["task"] == "sst2")
    changed = {k for k in one.context if one.context[k] != two.context[k]}
    assert changed == {"shots", "demonstrations", "shown"}
    assert one.blocks["test"].row_ids == two.blocks["test"].row_ids


MINI = "--config=configs/mini.py"
WRONG = {
    "a config key that does not exist": (
        "score", [MINI, "--config.shotz=1"], "no key 'shotz'; did you mean 'shots'?"),
    "a config that does not exist": (
        "score", ["--config=configs/minni.py"], "minni.py"),
    "a preset that does not exist": (
        "score", [MINI + ":smok"], "no preset 'smok'"),
    "a config value of the wrong kind": (
        "score", [MINI, "--config.shots=two"], "shots"),
    "a flag that does not exist": (
        "score", [MINI, "--wordkir=x"], "no flag is called --wordkir; did you mean 'workdir'?"),
    "an option of no method": (
        "calibrate", ["--method_options=batch_size=8"], "METHOD.OPTION=VALUE; got 'batch_size=8'"),
    "a config key without a config": (
        "calibrate", ["--config.draws=3"], "give --config=configs/mini.py"),
    "a flag that is missing": (
        "calibrate", ["--floor=-9"], "workdir"),
    "a task that does not exist": (
        "score", [MINI, "--config.tasks=('sst22',)"], "no task named 'sst22'; did you mean 'sst2'"),
    "a scorer that does not exist": (
        "score", [MINI, "--config.scorer=causal"], "no config.scorer named 'causal'"),
    "shots that nobody has": (
        "score", [MINI, "--config.shots=5000"], "5000 shots of class"),
    "a negative number of shots": (
        "score", [MINI, "--config.shots=-1"], "expected 0 or more"),
    "a prompt longer than the model's positions": (
        "score", [MINI + ":smoke", "--config.shots=40"], "the model has 576"),
    "a model that is not there": (
        "score", [MINI + ":smoke", "--config.model=./nowhere"], "nowhere: expected a checkpoint"),
    "no model": (
        "score", ["--config=configs/zero_shot_text.py", "--config.data=mini",
                  "--config.tasks=('sst2',)"], "config.model: expected a checkpoint"),
    "data that is not there": (
        "score", [MINI, "--config.data=nowhere"], "nowhere: no such folder"),
    "a workdir without scores": (
        "calibrate", [], "run experiments.score"),
    "a workdir without records": (
        "tables", [], "run experiments.score"),
    "no config": (
        "score", [], "--config: expected a value, none came; give --config=configs/mini.py"),
    "an override without a config": (
        "score", ["--config.shots=1"], "give --config=configs/mini.py"),
    "an empty config": (
        "score", ["--config="], "--config=: expected a Python file; got none"),
    "a folder as a config": (
        "score", ["--config=configs"], "--config=configs: expected a Python file; got none"),
    "an override of a config that does not exist": (
        "score", ["--config=configs/minni.py", "--config.shots=1"], "the shipped ones are in"),
    "a config without a sweep": (
        "score", ["--config=configs/train_mini.py"], "expected a study with a function sweep"),
    "a config key that does not exist, with a space": (
        "score", ["--config", "configs/mini.py", "--config.shot=4"], "did you mean 'shots'?"),
    "no seeds": (
        "score", [MINI, "--config.seeds=0"], "the sweep has no context"),
    "less than no seeds": (
        "score", [MINI, "--config.seeds=-1"], "the sweep has no context"),
    "no tasks": (
        "score", [MINI, "--config.tasks=()"], "the sweep has no context"),
    "a stray word": (
        "score", [MINI, "stray"], "stray: expected flags alone"),
    "a stray word before the flags": (
        "calibrate", ["bc", "--draws=3"], "bc: expected flags alone"),
    "an empty workdir": (
        "score", [MINI, "--workdir="], "--workdir: expected a value; got nothing"),
    "no data": (
        "score", [MINI, "--config.data="], "expected a folder of rows or 'mini'; got nothing"),
    "two numbers for one": (
        "score", [MINI, "--config.shots=1,2"], "config.shots: expected a whole number; got '1,2'"),
    "another truth value": (
        "score", [MINI, "--config.logits_only=yes"], "expected True or False; got 'yes'"),
    "a labeled set of less than nothing": (
        "score", [MINI, "--config.labeled_per_class=-1"], "config.labeled_per_class: expected 0"),
    "no random texts": (
        "score", [MINI, "--config.dc_texts=0"], "config.dc_texts: expected 1 or more texts; got 0"),
    "batches of nothing": (
        "score", [MINI + ":smoke", "--config.batch_size=0"], "batch_size: expected 1 or more"),
    "a method that does not exist": (
        "calibrate", ["--methods=bbc"], "no method named 'bbc'; did you mean 'bc'?"),
}  # fmt: skip


@pytest.mark.parametrize("what", WRONG)
def test_wrong_input_gets_one_sentence_and_exit_code_2(program, tmp_path, what):
    name, flags, sentence = WRONG[what]
    workdir = [] if what == "a flag that is missing" else [f"--workdir={tmp_path / 'w'}"]
    said = program(name, *workdir, *flags, code=2)
    assert sentence in said.stderr and "Traceback" not in said.stderr
    assert said.stderr.count("error: ") == 1


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (["--config.peak=1"], "give --config="),
        (["--config=configs/mini.py"], "a training run with stages; got none"),
        (["--config=configs/train_mini.py", "--config.stage=1"], "did you mean 'stages'?"),
        (
            ["--config=configs/train_mini.py:smoke", "--config.positions=32"],
            "config.positions = 32",
        ),
    ],
)
def test_training_that_cannot_be(program, tmp_path, flags, sentence):
    folders = [f"--out={tmp_path / 'out'}", f"--workdir={tmp_path / 'w'}"]
    # A process of its own: devices are asked for before JAX starts.
    said = program("train_mini", *flags, *folders, code=2, process=True)
    assert sentence in said.stderr and "Traceback" not in said.stderr


@pytest.mark.parametrize("lost", ["config.json", "model.safetensors", "tokenizer.json"])
def test_a_checkpoint_without_a_file(program, tmp_path, lost):
    shutil.copytree(CHECKPOINTS["mini"], tmp_path / "model")
    (tmp_path / "model" / lost).unlink()
    said = program("score", MINI + ":smoke", f"--config.model={tmp_path / 'model'}",
                   f"--workdir={tmp_path / 'w'}", code=2)  # fmt: skip
    assert lost.split(".")[-1] in said.stderr and "Traceback" not in said.stderr


def test_an_unwritable_workdir(program, tmp_path):
    (tmp_path / "file").write_text("")
    said = program("score", MINI, f"--workdir={tmp_path / 'file' / 'w'}", code=2)
    assert "cannot be written" in said.stderr


def test_one_broken_table_is_named_and_the_others_are_calibrated(program, scored, tmp_path):
    workdir = tmp_path / "w"
    shutil.copytree(scored / "scores", workdir / "scores")
    broken = sorted((workdir / "scores").iterdir())[0]
    broken.write_bytes(broken.read_bytes()[:100])
    said = program("calibrate", f"--workdir={workdir}", code=2)
    assert broken.name in said.stderr and "truncated" in said.stderr
    assert len(list((workdir / "records").iterdir())) == 1


PROGRAMS = sorted(
    path.stem
    for path in (Path(__file__).resolve().parents[1] / "experiments").glob("*.py")
    if "cli.enter(" in path.read_text(encoding="utf-8")
)


@pytest.mark.parametrize("name", PROGRAMS)
def test_help(program, name):
    said = program(name, "--help").stdout
    folder = {"show": "config", "data": "data_dir", "prepare_data": "data_dir"}.get(name, "workdir")
    assert f"python -m experiments.{name} --" in said and f"--{folder}: " in said


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("import nowhere", "own.py: cannot be run (ModuleNotFoundError"),
        ("x = 1", "own.py: expected a function get_config; got none"),
        ("def get_config(): return {}", "expected a ConfigDict from get_config; got dict"),
        ("def get_config(): return {}['x']", "get_config fails with KeyError('x')"),
        (
            "from ml_collections import ConfigDict as C\n"
            "def get_config(): return C({'shotz': 1})\n"
            "def sweep(config): return []",
            "no setting named 'shotz'; did you mean 'shots'?",
        ),
        (
            "from ml_collections import ConfigDict as C\n"
            "def get_config(): return C({'shots': 1})\n"
            "def sweep(config): return [3]",
            "expected a dict with a task from sweep; got 3",
        ),
        (
            "from ml_collections import ConfigDict as C\n"
            "def get_config(): return C({'data': 'mini'})\n"
            "def sweep(config): return [{'task': 'sst2', 'model': 'x'}]",
            "a cell of the sweep sets model",
        ),
    ],
)
def test_a_config_of_ones_own_that_is_none(program, tmp_path, text, sentence):
    (tmp_path / "own.py").write_text(text)
    flags = (f"--config={tmp_path / 'own.py'}", f"--workdir={tmp_path / 'w'}")
    said = program("score", *flags, code=2)
    assert sentence in said.stderr and "Traceback" not in said.stderr
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
    said = program("score", MINI + ":smoke", "--config.tasks=sst2,cb", "--config.limit=2",
                   "--config.labeled_per_class=0", f"--workdir={tmp_path}").stdout  # fmt: skip
    assert "2 contexts: 103 rows scored" in said


def test_help_names_the_keys_of_the_config(program):
    assert "labeled_per_class" in program("score", "--help").stdout
    said = program("score", "--config=configs/zero_shot_text.py", "--help").stdout
    assert "max_tokens" in said


def driven(code, *flags):
    """Runs `code` in the place of a program."""
    return subprocess.run(
        [sys.executable, "-c", code, *flags], capture_output=True, text=True, check=False,
        cwd=Path(__file__).resolve().parents[1],
    )  # fmt: skip


FULL = """
import resource
from experiments import cli, score
resource.setrlimit(resource.RLIMIT_FSIZE, (1024, 1024))
cli.enter(score.main, loads=("jax",))
"""


def derived(workdir):
    return {path: path.read_bytes() for path in workdir.rglob("*") if path.is_file()}


@pytest.mark.parametrize("name", ["calibrate", "tables", "figures", "report"])
def test_a_disk_that_is_full_leaves_what_was_derived_before(program, scored, tmp_path, name):
    shutil.copytree(scored, tmp_path / "w")
    if name in ("tables", "report"):
        program(name, f"--workdir={tmp_path / 'w'}")
    before = derived(tmp_path / "w")
    code = FULL.replace("score", name).replace("1024", "64" if name == "tables" else "1024")
    said = driven(code, f"--workdir={tmp_path / 'w'}")
    assert said.returncode == 2 and "Traceback" not in said.stderr
    assert "cannot be written (File too large); make room" in said.stderr
    assert derived(tmp_path / "w") == before


def test_an_output_that_is_full_or_lacks_letters_or_has_no_reader(program, scored, tmp_path):
    shutil.copytree(scored, tmp_path / "w")
    program("tables", f"--workdir={tmp_path / 'w'}")
    every = {path.name for path in (tmp_path / "w/tables").iterdir()}
    flags = [sys.executable, "-m", "experiments.tables", f"--workdir={tmp_path / 'w'}"]

    def run(out, **environment):
        shutil.rmtree(tmp_path / "w/tables")
        done = subprocess.run(
            flags, stdout=out, stderr=subprocess.PIPE, text=True, check=False,
            env=os.environ | environment, cwd=Path(__file__).resolve().parents[1],
        )  # fmt: skip
        assert {path.name for path in (tmp_path / "w/tables").iterdir()} == every
        return done

    with open("/dev/full", "w") as full:
        said = run(full)
    assert said.returncode == 2 and said.stderr.startswith("error: the program's output: No space")
    assert said.stderr.count("\n") == 1
    said = run(subprocess.PIPE, PYTHONIOENCODING="ascii")
    assert said.returncode == 0 and "\\u2713 learned" in said.stdout
    reading, writing = os.pipe()
    os.close(reading)
    said = run(writing)
    os.close(writing)
    assert said.returncode == 0 and not said.stderr
    flags[:0] = ["sh", "-c", 'exec "$0" "$@" >&-']
    said = run(None)
    assert said.returncode == 0 and not said.stderr


WITHOUT_READER = """
import os, pathlib
from experiments import cli
def main():
    for _ in range(3):
        print("a line", flush=True)
    pathlib.Path(os.environ["WRITTEN"]).write_text("all")
cli.enter(main)
"""


def test_a_program_without_a_reader_goes_on(tmp_path):
    reading, writing = os.pipe()
    os.close(reading)
    subprocess.run(
        [sys.executable, "-c", WITHOUT_READER], stdout=writing, check=True,
        cwd=Path(__file__).resolve().parents[1],
        env=os.environ | {"WRITTEN": str(tmp_path / "written")},
    )  # fmt: skip
    os.close(writing)
    assert (tmp_path / "written").read_text() == "all"


def test_a_disk_that_is_full(tmp_path):
    said = driven(FULL, MINI + ":smoke", f"--workdir={tmp_path}")
    assert said.returncode == 2 and "Traceback" not in said.stderr
    assert f"workdir {tmp_path}: cannot be written (File too large); make room" in said.stderr
    assert not list((tmp_path / "scores").glob("*.safetensors"))


STOPPED = "error: stopped; what was finished is kept"
INTERRUPTED = """
import os, signal
from batch_calibration.studies import Store
from experiments import cli, score
put = Store.put
def interrupted(self, table):
    put(self, table)
    os.kill(os.getpid(), signal.SIGINT)
Store.put = interrupted
cli.enter(score.main, loads=("jax",))
"""


SIGNALS = {"SIGINT": 130, "SIGTERM": 143}


@pytest.mark.parametrize("signal", SIGNALS)
def test_an_interrupted_score_goes_on_from_there(program, scored, tmp_path, signal):
    flags = (MINI + ":smoke", f"--workdir={tmp_path}")
    said = driven(INTERRUPTED.replace("SIGINT", signal), *flags)
    assert said.returncode == SIGNALS[signal] and "Traceback" not in said.stderr
    assert said.stderr.count("error: ") == 1 and STOPPED in said.stderr
    (kept,) = (tmp_path / "scores").iterdir()
    stored = sum(len(block.row_ids) for block in load(kept).blocks.values())
    before, stamp = kept.read_bytes(), os.stat(kept).st_mtime_ns
    again = program("score", *flags).stdout
    assert f"{259 - stored} rows scored" in again and f"{stored} were there already" in again
    assert (kept.read_bytes(), os.stat(kept).st_mtime_ns) == (before, stamp)
    for path in (scored / "scores").iterdir():
        assert (tmp_path / "scores" / path.name).read_bytes() == path.read_bytes()


EARLY = """
import os, signal, sys, types
class Loader:
    def find_spec(self, name, path=None, target=None):
        if name == "slow":
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Loader())
from experiments import cli
cli.enter(lambda: print("went on"), loads=("slow",))
"""


SWALLOWED = """
import gc, os, signal
from experiments import cli
def main():
    gc.callbacks.append(lambda *_: os.kill(os.getpid(), signal.SIGINT))
    gc.collect()
    print("went on")
cli.enter(main)
"""


@pytest.mark.parametrize("signal", SIGNALS)
@pytest.mark.parametrize("code", [EARLY, SWALLOWED])
def test_an_interruption_while_imports_or_hooks_run(code, signal):
    said = driven(code.replace("SIGINT", signal))
    assert not said.stdout
    assert said.returncode == SIGNALS[signal] and "Traceback" not in said.stderr
    assert said.stderr.count("error: ") == 1 and STOPPED in said.stderr
