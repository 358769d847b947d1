"""The programs, as a person types them: the path from a config to the page, and every sentence."""

import csv
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from processes import python

from batch_calibration.reporting.figures import style
from batch_calibration.scores import load

EXPERIMENTS = Path(__file__).resolve().parents[2] / "experiments"
MINI = "--config=configs/mini.py"
SMOKE = f"{MINI}:smoke"


@pytest.fixture(scope="module")
def scored(program, tmp_path_factory):
    """A workdir of the smoke study, scored and calibrated."""
    workdir = tmp_path_factory.mktemp("study")
    process = program("score", SMOKE, f"--workdir={workdir}")
    assert "2 contexts: 259 rows scored" in process.stdout
    program("calibrate", f"--workdir={workdir}")
    return workdir


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (MINI, "a training run with stages; got none"),
        ("--config=configs/train_mini.py:smoke --config.positions=32", "config.positions = 32"),
    ],
)
def test_training_that_cannot_be(program, tmp_path, flags, sentence):
    folders = [f"--out={tmp_path / 'out'}", f"--workdir={tmp_path / 'w'}"]
    # A process of its own: devices are asked for before JAX starts.
    process = program("train_mini", *flags.split(), *folders, code=2, process=True)
    assert sentence in process.stderr and "Traceback" not in process.stderr


MAINS = sorted(
    ".".join(path.relative_to(EXPERIMENTS).with_suffix("").parts).removesuffix(".__main__")
    for path in EXPERIMENTS.rglob("*.py")
    if "app.run(" in path.read_text(encoding="utf-8")
)


@pytest.mark.parametrize("name", MAINS)
def test_help_of_a_program(program, name):
    said = program(name, "--help", process=True).stdout
    assert f"python -m experiments.{name} --" in said and "--workdir: " in said


PROGRAM_WRONG = [
    (f"{MINI} --config.shotz=1", "no config key named 'shotz'; did you mean 'shots'?"),
    ("--config=configs/minni.py", "--config=configs/minni.py: expected a Python file"),
    (f"{MINI}:smok", "no preset 'smok'"),
    (f"{MINI} --config.shots=two", "--config.shots=two"),
    (f"{MINI} --wordkir=x", "Did you mean: workdir"),
    ("", "--config must have a value"),
    ("--config.shots=1", "'config.shots'"),
    (f"{MINI} stray", "stray: expected only flags"),
    (f"{MINI} --config.shots=-1", "config.shots: expected 0 or more"),
    (f"{MINI} --workdir=", "--workdir: expected a folder; got nothing"),
]


@pytest.mark.parametrize(("flags", "sentence"), PROGRAM_WRONG)
def test_wrong_flags_of_a_program_get_one_sentence(program, tmp_path, flags, sentence):
    said = program("score", f"--workdir={tmp_path / 'w'}", *flags.split(), code=2, process=True)
    assert sentence in said.stderr and "Traceback" not in said.stderr
    assert said.stderr.count("error: ") == 1


FEW = ("--config.tasks=sst2", "--config.limit=6", "--config.labeled_per_class=2")
STEPS = (
    ("score", SMOKE, *FEW, "--config.shots=2"),
    ("calibrate", "--methods=icl,cc,bc,bc_running", "--method_options=bc_running.batch_size=8"),
    ("tables",),
    ("figures", "--boundary_tasks=1", "--formats=png,pdf"),
    ("report",),
)


def test_programs_make_the_store_of_the_commands(program, tmp_path, monkeypatch):
    # As in a process of its own, which the fixture `quick_fonts` does not reach.
    monkeypatch.setitem(style.STYLE, "pdf.fonttype", 42)
    stores = []
    for workdir, process in ((tmp_path / "command", False), (tmp_path / "program", True)):
        for name, *flags in STEPS:
            program(name, *flags, f"--workdir={workdir}", process=process)
        files = {path.relative_to(workdir): content for path, content in derived(workdir).items()}
        # These hold times, and the commands as they were typed.
        dated = ("runs", "work", "report.html")
        stores.append({path: files[path] for path in files if path.parts[0] not in dated})
        page = (workdir / "report.html").read_text()
        assert ("python -m experiments.score" in page) == process
    assert stores[0] == stores[1] and len(stores[0]) > 12


def write_tickets(folder):
    rows = [("The invoice is wrong.", "billing"), ("It stops at once.", "bug")] * 6
    for split in ("train", "validation"):
        with (folder / f"{split}.csv").open("w", newline="") as file:
            csv.writer(file).writerows([("text", "kind"), *rows])
    path = folder / "tickets.toml"
    path.write_text(
        'name = "tickets"\ntitle = "Tickets"\nfields = ["text"]\nlabel_names = ["billing", "bug"]\n'
        'labels_are = "names"\nlabel_column = "kind"\ntemplate = "Review: {text}\\nSentiment: '
        '{label}"\nverbalizer = {billing = "positive", bug = "negative"}\n'
        'files = {train = "train.csv", validation = "validation.csv"}\n'
    )
    return path


def test_a_task_of_ones_own_from_csv_to_a_table(program, tmp_path):
    path = write_tickets(tmp_path)
    stdout = program("show", f"--tasks={path}", "--shots=0", "--no-cost").stdout
    assert "block test: 12 rows" in stdout and "label billing: ' positive'" in stdout
    assert "Review: The invoice is wrong.\nSentiment:|\n" in stdout
    workdir = tmp_path / "w"
    flags = f"--config.tasks=('{path}',)", "--config.labeled_per_class=2", f"--workdir={workdir}"
    program("score", "--config=configs/mini.py:smoke", *flags)
    (table,) = [load(path) for path in (workdir / "scores").iterdir()]
    assert table.context["task"] == "tickets" and table.label_names == ("billing", "bug")
    assert len(table.blocks["test"].row_ids) == 12
    program("calibrate", f"--workdir={workdir}")
    assert "tickets" in program("tables", f"--workdir={workdir}").stdout


METHOD = """
from batch_calibration.cli.options import COMMANDS
from batch_calibration.methods import METHODS
METHODS["mine"] = METHODS["bc"]
"""


def test_a_config_and_a_method_of_ones_own_in_an_empty_folder(tmp_path):
    (tmp_path / "own.py").write_text(
        "def get_config():\n"
        "    return {'model': 'mini', 'data': 'mini', 'tasks': 'sst2', 'limit': 4, 'dc_texts': 2,\n"
        "            'labeled_per_class': 0}\n"
    )
    (tmp_path / "method.py").write_text(METHOD)

    def run(*words):
        script = Path(sys.executable).with_name("batch-calibration")
        command = [script] if script.exists() else [sys.executable, "-m", "batch_calibration"]
        environment = os.environ | {"PYTHONPATH": str(EXPERIMENTS.parent)}
        options = {"cwd": tmp_path, "env": environment, "text": True, "check": False}
        done = subprocess.run([*command, *words], capture_output=True, **options)
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert "1 contexts: " in run("score", "--config=own.py", "--seeds=1", "--workdir=W")
    run("calibrate", "--plugin=method.py", "--methods=mine,bc", "--workdir=W")
    (record,) = (json.loads(path.read_text()) for path in (tmp_path / "W/records").iterdir())
    assert record["methods"]["mine"]["metrics"] == record["methods"]["bc"]["metrics"]


FULL = """
import resource, sys
sys.dont_write_bytecode = True  # Python would keep what it compiled, cut short
from batch_calibration import cli
resource.setrlimit(resource.RLIMIT_FSIZE, (1024, 1024))
cli.main()
"""


def derived(workdir):
    return {path: path.read_bytes() for path in workdir.rglob("*") if path.is_file()}


@pytest.mark.parametrize("name", ["calibrate", "tables", "figures", "report"])
def test_a_disk_that_is_full_leaves_what_was_derived_before(program, scored, tmp_path, name):
    shutil.copytree(scored, tmp_path / "w")
    if name in ("tables", "report"):
        program(name, f"--workdir={tmp_path / 'w'}")
    before = derived(tmp_path / "w")
    code = FULL.replace("1024", "64" if name == "tables" else "1024")
    process = python("-c", code, name, f"--workdir={tmp_path / 'w'}", code=2)
    assert "Traceback" not in process.stderr
    assert "cannot be written (File too large); make room" in process.stderr
    assert derived(tmp_path / "w") == before


def test_an_output_that_is_full_or_lacks_letters_or_has_no_reader(program, scored, tmp_path):
    shutil.copytree(scored, tmp_path / "w")
    program("tables", f"--workdir={tmp_path / 'w'}")
    names = {path.name for path in (tmp_path / "w/tables").iterdir()}
    flags = [sys.executable, "-m", "batch_calibration", "tables", f"--workdir={tmp_path / 'w'}"]

    def run(out, **environment):
        shutil.rmtree(tmp_path / "w/tables")
        options = {"env": os.environ | environment, "cwd": EXPERIMENTS.parent, "check": False}
        done = subprocess.run(flags, stdout=out, stderr=subprocess.PIPE, text=True, **options)
        assert {path.name for path in (tmp_path / "w/tables").iterdir()} == names
        return done

    with open("/dev/full", "w") as full:
        done = run(full)
    assert done.returncode == 2 and done.stderr.startswith("error: the program's output: No space")
    assert done.stderr.count("\n") == 1
    done = run(subprocess.PIPE, PYTHONIOENCODING="ascii")
    assert done.returncode == 0 and "\\u2713 learned" in done.stdout
    reading, writing = os.pipe()
    os.close(reading)
    done = run(writing)
    os.close(writing)
    assert done.returncode == 0 and not done.stderr
    flags[:0] = ["sh", "-c", 'exec "$0" "$@" >&-']
    done = run(None)
    assert done.returncode == 0 and not done.stderr


WITHOUT_READER = """
import os, pathlib
from batch_calibration.cli import guard
def main():
    for _ in range(3):
        print("a line", flush=True)
    pathlib.Path(os.environ["WRITTEN"]).write_text("all")
guard.set_up_process()
guard.guard(main)
"""


def test_a_program_without_a_reader_goes_on(tmp_path):
    reading, writing = os.pipe()
    os.close(reading)
    written = {"WRITTEN": str(tmp_path / "written")}
    python("-c", WITHOUT_READER, stdout=writing, env=written)
    os.close(writing)
    assert (tmp_path / "written").read_text() == "all"


def test_a_disk_that_is_full(tmp_path):
    process = python("-c", FULL, "score", SMOKE, f"--workdir={tmp_path}", code=2)
    assert "Traceback" not in process.stderr
    assert f"workdir {tmp_path}: cannot be written (File too large); make room" in process.stderr
    assert not list((tmp_path / "scores").glob("*.safetensors"))


STOPPED = "error: stopped; finished work is kept"
INTERRUPTED = """
import os, signal
from batch_calibration import cli
from batch_calibration.studies import Store
put = Store.put
def interrupted(self, table):
    put(self, table)
    os.kill(os.getpid(), signal.SIGINT)
Store.put = interrupted
cli.main()
"""


SIGNALS = {"SIGINT": 130, "SIGTERM": 143}


@pytest.mark.parametrize("signal", SIGNALS)
def test_an_interrupted_score_goes_on_from_there(program, scored, tmp_path, signal):
    flags = (SMOKE, f"--workdir={tmp_path}")
    interrupted = INTERRUPTED.replace("SIGINT", signal)
    process = python("-c", interrupted, "score", *flags, code=SIGNALS[signal])
    assert "Traceback" not in process.stderr
    assert process.stderr.count("error: ") == 1 and STOPPED in process.stderr
    (stored_table,) = (tmp_path / "scores").iterdir()
    stored = sum(len(block.row_ids) for block in load(stored_table).blocks.values())
    before, stamp = stored_table.read_bytes(), os.stat(stored_table).st_mtime_ns
    stdout = program("score", *flags).stdout
    assert f"{259 - stored} rows scored" in stdout and f"{stored} were already stored" in stdout
    assert (stored_table.read_bytes(), os.stat(stored_table).st_mtime_ns) == (before, stamp)
    for path in (scored / "scores").iterdir():
        assert (tmp_path / "scores" / path.name).read_bytes() == path.read_bytes()


EARLY = """
import os, signal, sys, types
class Loader:
    def find_spec(self, name, path=None, target=None):
        if name == "slow":
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Loader())
from batch_calibration.cli import guard
guard.set_up_process()
guard.guard(lambda: print("went on"), loads=("slow",))
"""


SWALLOWED = """
import gc, os, signal
from batch_calibration.cli import guard
def main():
    gc.callbacks.append(lambda *_: os.kill(os.getpid(), signal.SIGINT))
    gc.collect()
    print("went on")
guard.set_up_process()
guard.guard(main)
"""


@pytest.mark.parametrize("signal", SIGNALS)
@pytest.mark.parametrize("code", [EARLY, SWALLOWED])
def test_an_interruption_while_imports_or_hooks_run(code, signal):
    process = python("-c", code.replace("SIGINT", signal), code=SIGNALS[signal])
    assert not process.stdout
    assert "Traceback" not in process.stderr
    assert process.stderr.count("error: ") == 1 and STOPPED in process.stderr
