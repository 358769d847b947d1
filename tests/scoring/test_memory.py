"""Memory that loading and scoring ask for, and sentences where there is too little."""

import tracemalloc
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from safetensors.numpy import load_file, save_file
from tiny import GPT2, write

from batch_calibration.scoring.engine import programs
from batch_calibration.scoring.models import gpt2
from batch_calibration.scoring.models.files import memory, weights
from batch_calibration.scoring.models.files.checkpoint import load_checkpoint
from batch_calibration.scoring.models.files.memory import Demand
from batch_calibration.scoring.models.files.tensors import tensors

LLAMA_7B = Demand(6_738_415_616, 4096, 32, cached=True)
MIDDLE = GPT2 | {"vocab_size": 5000, "n_embd": 256, "n_head": 4}


@pytest.mark.parametrize("number_type", [np.float16, jnp.bfloat16, np.float32, np.float64])
def test_numbers_are_read_in_every_width(tmp_path, monkeypatch, number_type):
    monkeypatch.setattr(f"{tensors.__module__}.PART", 7)  # the last part is shorter
    numbers = {"a": np.arange(60, dtype=number_type).reshape(5, 12), "b": np.array(3, number_type)}
    save_file(numbers, tmp_path / "model.safetensors")
    for tensor in tensors(tmp_path):
        for dtype in (np.float32, jnp.bfloat16, np.float16):
            read = tensor.read(dtype)
            assert read.dtype == dtype
            np.testing.assert_array_equal(read, numbers[tensor.name].astype(dtype))


@pytest.mark.parametrize("bad", [np.nan, -np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", [np.float16, jnp.bfloat16, np.float32])
def test_what_is_not_finite_is_found_in_every_width(tmp_path, dtype, bad, refuses):
    write(tmp_path, GPT2)
    path = tmp_path / "model.safetensors"
    arrays = {name: array.astype(dtype) for name, array in load_file(path).items()}
    largest = np.full_like(arrays["transformer.wte.weight"], jnp.finfo(dtype).max)
    save_file(arrays | {"transformer.wte.weight": largest}, path)
    weights.load(tmp_path, gpt2.FAMILY, dtype)
    arrays["transformer.h.1.mlp.c_fc.weight"][3, 2] = bad
    save_file(arrays, path)
    error = refuses(weights.load, tmp_path, gpt2.FAMILY, dtype)
    assert "transformer.h.1.mlp.c_fc.weight (our blocks.1.mlp.fc.kernel): 1 of 1024" in str(error)


def test_few_tensors_are_held_beside_those_that_were_placed(tmp_path, monkeypatch):
    monkeypatch.setattr("batch_calibration.scoring.models.files.tensors.PART", 1 << 12)
    write(tmp_path, GPT2 | {"n_embd": 512, "n_layer": 6})
    tracemalloc.start()
    try:
        _, model = weights.load(tmp_path, gpt2.FAMILY)
        peak = tracemalloc.get_traced_memory()[1]  # of numpy, not of JAX, which has the network
    finally:
        tracemalloc.stop()
    sizes = [leaf.nbytes for leaf in jax.tree.leaves(nnx.state(model, nnx.Param))]
    # JAX lets go of what it has copied at some later call.
    assert peak < 2 * weights.READERS * max(sizes) + 4e6 < 0.6 * sum(sizes)


def test_hashing_ends_where_loading_fails(tmp_path, refuses):
    write(tmp_path, GPT2)
    arrays = load_file(tmp_path / "model.safetensors")
    del arrays["transformer.ln_f.bias"]
    save_file(arrays, tmp_path / "model.safetensors")
    assert "missing transformer.ln_f.bias" in str(refuses(load_checkpoint, tmp_path))


def temporary(directory, layers, dtype):
    """Bytes that a batch of 2,048 tokens takes without the weights, after a prefix of 128."""
    raw = MIDDLE | {"n_layer": layers}
    write(directory, raw)
    config, model = weights.load(directory, gpt2.FAMILY, dtype)
    graph, state = nnx.split(model)
    cached = tuple(jnp.ones((layers, 128, 4, width), dtype) for width in (64, 65))
    tokens = jnp.zeros((16, 128), jnp.int32)
    how = programs.Attention("in turn")
    program = programs.forward_packed.lower(graph, how, state, cached, *[tokens] * 3)
    demand = Demand(0, config.width, config.layers, cached=True)
    return program.compile().memory_analysis().temp_size_in_bytes, demand


@pytest.mark.parametrize("dtype", [np.float32, jnp.bfloat16])
def test_the_work_on_a_batch_does_not_grow_with_the_depth(tmp_path, dtype):
    """No copy of a layer's weights is made before its turn: of three they would be 9 MB."""
    # Flax's layer norm mixes dtypes, which tests otherwise forbid.
    with jax.numpy_dtype_promotion("standard"):
        (shallow, _), (deep, demand) = (temporary(tmp_path / str(n), n, dtype) for n in (1, 4))
    # The prefix's keys and values are laid out for all layers.
    cache = 3 * 128 * 4 * 129 * np.dtype(dtype).itemsize
    assert deep - shallow < 3 * cache
    assert deep < demand.work(np.dtype(dtype).itemsize, 1)


@pytest.mark.parametrize(
    ("platform", "dtype", "free", "advice"),
    [
        ("cpu", "float32", 16e9, "use dtype='bfloat16' (14.9 GB per device)."),
        ("cpu", "float32", 14e9, "with 14.9 GB free, with dtype='bfloat16', or a smaller"),
        ("cpu", "bfloat16", 14e9, "with 14.9 GB free, or a smaller"),
        ("gpu", "bfloat16", 8e9, "use mesh='model:2' on 2 of these devices (7.6 GB per device)."),
        ("gpu", "float32", 16e9, "(14.9 GB per device) or dtype='bfloat16' (14.9 GB per device)."),
        ("gpu", "float32", 2e9, "(1.2 GB per device) or dtype='bfloat16' with mesh='model:16' on"),
        ("gpu", "float32", 1e6, "with 14.9 GB free, with dtype='bfloat16', or a smaller"),
    ],
)
def test_what_would_fit(monkeypatch, tmp_path, platform, dtype, free, advice, refuses):
    monkeypatch.setattr(jax, "devices", lambda: [SimpleNamespace(platform=platform)])
    monkeypatch.setattr(memory, "available", lambda device: free)
    error = refuses(memory.require, tmp_path, LLAMA_7B, jnp.dtype(dtype), None)
    assert advice in str(error)


def test_what_fits_is_not_refused(monkeypatch, tmp_path):
    monkeypatch.setattr(memory, "available", lambda device: 15e9)
    memory.require(tmp_path, LLAMA_7B, jnp.dtype("bfloat16"), None)
    assert LLAMA_7B._replace(cached=False).total(2, 1) < LLAMA_7B.total(2, 1) - 1e9
