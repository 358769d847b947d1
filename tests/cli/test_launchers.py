"""Workers that share a workdir write what one process writes, whoever of them dies."""

import os

import pytest

from batch_calibration.cli.launchers.local import Local
from batch_calibration.cli.launchers.slurm import Slurm
from batch_calibration.settings import Settings, grid
from batch_calibration.studies import sweep
from batch_calibration.studies.workers import Work

ROWS = {"tasks": "sst2", "limit": 40, "labeled_per_class": 0, "seeds": 3}
SETTINGS = Settings.of(model="mini", data="mini", **ROWS)
FLAGS = ["--config=configs/mini.py", *(f"--config.{key}={value}" for key, value in ROWS.items())]
FLAGS += ["--config.shots=1,2"]


@pytest.fixture(scope="module")
def studies():
    return grid(SETTINGS, shots=(1, 2))


def test_gpus_are_shared_out(studies, tmp_path, monkeypatch, refuses):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,5,6,7")
    launch = Local(workers=2, gpus=1, processes=2)
    assert [launch._gpus(number) for number in range(4)] == [["4"], ["5"], ["6"], ["7"]]
    many = {"launch": Local(workers=6, gpus=1), "notify": lambda _: None}
    assert "6 GPUs" in str(refuses(sweep, studies, tmp_path, **many))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    assert Local(workers=2, gpus=2)._gpus(1) == ["2", "3"]


def test_what_is_asked_of_sbatch(studies, tmp_path, monkeypatch, refuses):
    """The file that is handed to sbatch, which stands here in its place."""
    bin_ = tmp_path / "bin"
    bin_.mkdir()
    for name in ("sbatch", "srun"):
        (bin_ / name).write_text(f"#!/bin/sh\ncp $1 {tmp_path}/submitted\necho job 77 >&2; exit 1")
        (bin_ / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{bin_}:{os.environ['PATH']}")
    asked = {"partition": "gpu", "minutes": 90, "gpus": 4, "cpus": 16, "memory": 64, "hosts": 2}
    launch = Slurm(workers=8, at_once=3, options={"account": "lab"}, grace=45, **asked)
    assert refuses(launch._submit, Work(tuple(studies), tmp_path / "w")).got == "job 77"
    script = (tmp_path / "submitted").read_text()
    asked = (
        "array=0-7%3 partition=gpu time=90 gpus-per-node=4 cpus-per-task=16 mem=64GB nodes=2 "
        "ntasks-per-node=1 account=lab signal=USR2@45"
    )
    for line in asked.split():
        assert f"#SBATCH --{line}\n" in script, line


def test_without_slurm_one_sentence(studies, tmp_path, monkeypatch, refuses):
    monkeypatch.setenv("PATH", "/nowhere")
    assert "srun" in refuses(sweep, studies, tmp_path, launch=Slurm(), notify=print).got


RAY = "--launcher=ray"


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (f"{RAY} --resources=TPU", "--resources: expected NAME=VALUE, comma-separated; got 'TPU'"),
        (f"{RAY} --address=localhost:1", "--address=localhost:1: expected a Ray cluster to join"),
        ("--launcher=slurms", "no launcher named 'slurms'"),
        ("--config.shots=1,two", "--shots: expected a whole number; got 'two'"),
        ("--config.shotz=1,2", "--shotz=1,2; did you mean --shots"),
    ],
)
def test_flags_of_a_sweep_that_cannot_be(program, tmp_path, flags, sentence):
    done = program("sweep", *FLAGS, f"--workdir={tmp_path}", *flags.split(), code=2)
    assert sentence in done.stderr and "Traceback" not in done.stderr
    assert not list((tmp_path / "scores").glob("*"))
