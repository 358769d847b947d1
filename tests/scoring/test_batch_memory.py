"""Batches by a device's memory: the formula against what the compiler plans, and its limits."""

import jax
import jax.numpy as jnp
import pytest
from flax import nnx
from tiny import CAUSAL_FAMILIES, write

from batch_calibration.scoring.engine import forward, programs
from batch_calibration.scoring.engine.packing import pack_prompts
from batch_calibration.scoring.models.files import memory
from batch_calibration.scoring.models.files.checkpoint import load_checkpoint

LLAMA = {"hidden_size": 128, "intermediate_size": 512, "head_dim": 32, "rope_scaling": None}
SHAPES = {
    "gpt2": {"vocab_size": 400, "n_positions": 2048, "n_embd": 128, "n_layer": 2, "n_head": 2},
    "llama": CAUSAL_FAMILIES["llama"] | LLAMA | {"max_position_embeddings": 2048},
}


@pytest.fixture(scope="module", params=SHAPES)
def checkpoint(request, tmp_path_factory):
    raw = {"model_type": request.param} | SHAPES[request.param]
    return load_checkpoint(write(tmp_path_factory.mktemp("memory"), raw))


def test_a_position_takes_no_more_than_is_counted(checkpoint, monkeypatch):
    """The compiler's own plan of a batch's temporary memory, where all logits are kept."""
    graph, state = nnx.split(checkpoint.model)
    length, most, how = 2048, {}, programs.Attention("at once")
    for count in (1, 3):
        slots = jnp.zeros((count, length), jnp.int32)
        planned = programs.forward_packed.lower(graph, how, state, (), slots, slots, slots)
        most[count] = planned.compile().memory_analysis().temp_size_in_bytes
    a_position = (most[3] - most[1]) / (2 * length)
    monkeypatch.setattr(forward, "positions", lambda free, counted, most: counted)
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    counted = forward.budget(checkpoint, logits=True)
    assert counted / 3 < a_position <= counted
    logits = (8 * checkpoint.config.heads + 1) * forward.BUDGETED_KEYS
    assert forward.budget(checkpoint, logits=False) == counted - logits


def test_free_memory_decides_within_limits(checkpoint, monkeypatch):
    assert forward.budget(checkpoint, logits=True) == forward.CPU_POSITIONS
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    budgets = {}
    for free in (1e3, 1e8, 4e8, 1e12, float("inf")):
        monkeypatch.setattr(memory, "available", lambda _, free=free: free)
        budgets[free] = forward.budget(checkpoint, logits=False)
    assert budgets[1e3] == forward.MIN_POSITIONS
    assert budgets[1e12] == budgets[float("inf")] == forward.MAX_POSITIONS
    smallest, most = forward.MIN_POSITIONS, forward.MAX_POSITIONS
    assert smallest < budgets[1e8] < budgets[4e8] == 4 * budgets[1e8] < most
    monkeypatch.setattr(jax, "default_backend", lambda: "tpu")
    assert forward.budget(checkpoint, logits=False) == forward.TPU_POSITIONS < most


@pytest.mark.parametrize("tokens, lengths", [(300, {640}), (700, {768}), (900, {1024})])
def test_long_rows_leave_little_of_their_sequences_empty(tokens, lengths):
    prompts = [[row] * tokens for row in range(130)]
    sequences = pack_prompts(range(130), prompts, 0, [0] * 130, 256)
    assert {packed.length for packed in sequences} == lengths
    assert sorted(row for packed in sequences for row in packed.rows) == list(range(130))


def test_a_batch_of_few_rows_runs_few_empty_sequences(checkpoint, monkeypatch):
    monkeypatch.setattr(forward, "budget", lambda *_, **__: forward.MAX_POSITIONS)
    prompts = [[row] * 60 for row in range(2000)]
    scorer = forward.Forward(checkpoint, 256, True)
    batch = scorer._batch(pack_prompts(range(2000), prompts, 0, [0] * 2000, 256))
    assert sum(len(packed.rows) for packed in batch.sequences) == 256
    assert (len(batch.sequences), batch.size) == (128, 128)
