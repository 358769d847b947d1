"""The programs of a study compile for TPUs that are not there; a mesh or a cache may not fit."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("libtpu", reason="the compiler for TPUs is not installed (make tpu)")
ROOT = Path(__file__).resolve().parents[2]


def compiled(*flags):
    command = (sys.executable, "-m", "benchmarks.tpu", *flags)
    given = os.environ | {"PYTHONPATH": str(ROOT)}
    return subprocess.run(command, cwd=ROOT, env=given, capture_output=True, text=True)


def rows_of(done):
    lines = [line.split(" | ") for line in done.stdout.splitlines() if line.startswith("| ")]
    return [dict(zip(lines[0], line, strict=True)) for line in lines[2:]]


@pytest.mark.parametrize(
    ("networks", "chip", "programs", "count"),
    [
        ("GPT-2", "v5e", "", 5),
        ("Qwen3-0.6B", "v5e", "", 5),
        ("core,CLIP ViT-B/16", "v5e", "", 3),
        ("Gemma3-270M", "v5p", "tokens", 2),
        ("gpt-oss-20b", "v6e", "after", 1),
        ("Llama-3.2-1B", "v6e", "tokens", 2),
    ],
)
def test_every_program_compiles_and_fits(networks, chip, programs, count):
    done = compiled(f"--networks={networks}", f"--chips={chip}", f"--programs={programs}")
    assert done.returncode == 0, done.stderr[-2000:]
    rows = rows_of(done)
    assert len(rows) == count
    for row in rows:
        is_packed = row["program"].endswith(("tokens", "after 240"))
        if is_packed and networks != "gpt-oss-20b":  # its loops are counted once
            assert float(row["of peak"].removesuffix("%")) >= 60, row


def test_scanned_layers_compile_and_need_no_more_memory():
    flags = "--networks=Qwen3-0.6B", "--chips=v5e", "--programs=1,024", "--layers=4"
    gigabytes = []
    for scan in ((), ("--scan",)):
        done = compiled(*flags, *scan)
        assert done.returncode == 0, done.stderr[-2000:]
        (row,) = rows_of(done)
        gigabytes.append(float(row["memory, GB"].split()[0]))
    assert gigabytes[1] <= gigabytes[0]


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (("--mesh=data:3",), "sizes with the product 4"),
        (("--mesh=rows:4",), "axes as data:4,model:2"),
        (("--networks=GPT2",), "GPT2"),
        (("--chips=v9",), "v9"),
        (("--prefix=8000000", "--programs=60 after"), "failed: GPT-2, v5e data:4"),
    ],
)
def test_what_does_not_fit_fails(flags, sentence):
    chip = () if "--mesh=" in flags[0] else ("--mesh=data:4",)
    done = compiled("--networks=GPT-2", "--chips=v5e", *chip, *flags)
    assert done.returncode != 0
    assert sentence in done.stderr
