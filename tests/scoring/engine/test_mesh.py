"""Several devices and several processes give the scores of one."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tiny import CAUSAL_FAMILIES, GPT2, write

from batch_calibration.scoring.engine.sharding import make_mesh
from batch_calibration.studies import Store

HERE = Path(__file__).parents[2]
NAMES = ("llama", "gemma2", "gpt_neox", "opt")
CASES = {"gpt2": GPT2} | {name: {"model_type": name} | CAUSAL_FAMILIES[name] for name in NAMES}


def start(out, devices, directories, meshes, *hosts, **names):
    env = os.environ | {"PYTHONPATH": f"{HERE}{os.pathsep}{HERE.parent}"} | names
    env.pop("XLA_FLAGS", None)
    script = Path(__file__).with_name("mesh_scores.py")
    command = [sys.executable, str(script), str(out), str(devices)]
    command += [json.dumps([str(d) for d in directories]), json.dumps(meshes), *map(str, hosts)]
    return subprocess.Popen(command, env=env, stderr=subprocess.PIPE, text=True)


def finish(process):
    _, errors = process.communicate(timeout=600)
    assert process.returncode == 0, errors[-3000:]


@pytest.mark.slow
def test_every_mesh_gives_the_scores_of_one_device(tmp_path):
    directories = [write(tmp_path / name, raw) for name, raw in CASES.items()]
    meshes = ["", "data:8", "data:4,model:2", "data:2,model:4"]
    finish(start(tmp_path / "found.npz", 8, directories, meshes))
    arrays = np.load(tmp_path / "found.npz")
    for directory in directories:
        for text in meshes[1:]:
            single, many = arrays[f"{directory}|"], arrays[f"{directory}|{text}"]
            np.testing.assert_allclose(many, single, atol=1e-5)
        # Most of the weights are shared along `model`, none along `data`.
        assert arrays[f"{directory}|data:8|part"] == 1
        assert arrays[f"{directory}|data:4,model:2|part"] < 0.75
        assert arrays[f"{directory}|data:2,model:4|part"] < 0.7


@pytest.mark.slow
def test_the_programs_of_tpus_share_rows_and_heads(tmp_path):
    """llama has a head for each device along `model`, gemma2 has not; both scan their layers."""
    four = {"num_hidden_layers": 4, "layer_types": None}
    directories = [write(tmp_path / name, CASES[name] | four) for name in ("llama", "gemma2")]
    meshes = ["", "data:2,model:2"]
    arrays = {}
    for name, flags in (("usual", {}), ("tpu", {"AS_ON_TPU": "1"})):
        finish(start(tmp_path / f"{name}.npz", 4, directories, meshes, **flags))
        arrays[name] = np.load(tmp_path / f"{name}.npz")
    for directory in directories:
        for text in meshes:
            single, got = arrays["usual"][f"{directory}|"], arrays["tpu"][f"{directory}|{text}"]
            np.testing.assert_allclose(got, single, atol=1e-5)
        assert arrays["tpu"][f"{directory}|data:2,model:2|part"] < 0.75


def port():
    with socket.socket() as free:
        free.bind(("localhost", 0))
        return free.getsockname()[1]


@pytest.mark.slow
def test_two_processes_give_the_scores_of_one(tmp_path):
    directory = write(tmp_path / "model", GPT2)
    finish(start(tmp_path / "one.npz", 1, [directory], [""]))
    address, meshes = f"localhost:{port()}", ["data:4", "data:2,model:2"]
    outs = [tmp_path / f"{i}.npz" for i in range(2)]
    started = [start(out, 2, [directory], meshes, address, 2, i) for i, out in enumerate(outs)]
    for process in started:
        finish(process)
    single = np.load(tmp_path / "one.npz")[f"{directory}|"]
    for arrays in map(np.load, outs):
        for text in meshes:
            np.testing.assert_allclose(arrays[f"{directory}|{text}"], single, atol=1e-5)


@pytest.mark.parametrize("text", ["rows:2", "data:0", "data", "data:3,model:5"])
def test_meshes_that_cannot_be(text, refuses):
    assert refuses(make_mesh, text).got == repr(text)


def score(workdir, *flags):
    env = os.environ | {"XLA_FLAGS": "--xla_force_host_platform_device_count=2"}
    command = [sys.executable, "-m", "experiments.score", "--config=configs/mini.py:smoke"]
    command += ['--config.tasks=("sst2",)', f"--workdir={workdir}", *flags]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, env=env, cwd=HERE.parent, stdout=pipe, stderr=pipe, text=True)


@pytest.mark.slow
def test_two_processes_write_the_table_of_one(tmp_path):
    hosts = [f"--coordinator=localhost:{port()}", "--processes=2", "--config.mesh=data:2,model:2"]
    processes = [score(tmp_path / "two", *hosts, f"--process={i}") for i in range(2)]
    streams = [process.communicate(timeout=600) for process in processes]
    assert [process.returncode for process in processes] == [0, 0], streams
    assert "rows scored" in streams[0][0] and "rows scored" not in streams[1][0]
    score(tmp_path / "one").communicate(timeout=600)
    (alone,), (shared,) = (Store(tmp_path / name).tables()[0] for name in ("one", "two"))
    assert alone.id == shared.id
    for name, block in alone.blocks.items():
        np.testing.assert_allclose(shared.blocks[name].log_probs, block.log_probs, atol=2e-5)


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (["--processes=2"], "--processes and --process need --coordinator"),
        (["--coordinator=localhost:1"], "expected --processes and --process, or auto"),
        (["--config.mesh=data:16"], "with the product 2, the number of devices; got 'data:16'"),
    ],
)
def test_flags_that_name_no_devices(tmp_path, flags, sentence):
    process = score(tmp_path, *flags)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 2 and sentence in errors and "Traceback" not in errors
