"""The engine against scoring one sequence at a time, for every causal family."""

import numpy as np
import pytest
from test_causal_lm import LABELS, SHOTS, naive, queries
from tiny import GPT2, write

from batch_calibration.scoring.causal_lm import CausalLM
from batch_calibration.scoring.models import FAMILIES
from batch_calibration.scoring.models.files.checkpoint import load_checkpoint

WITHOUT_INNER = {"vocab_size": 400, "hidden_size": 16, "num_hidden_layers": 2}
WITHOUT_INNER |= {"num_attention_heads": 4, "max_position_embeddings": 320}
SHAPE = WITHOUT_INNER | {"intermediate_size": 24}
GROUPED = SHAPE | {"num_key_value_heads": 2, "head_dim": 6}
TWO_HEADS = SHAPE | {"num_key_value_heads": 2}
YARN = {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64}
LLAMA3 = YARN | {"type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
LONG = {"type": "longrope", "short_factor": [1.5, 2.0], "long_factor": [3.0, 4.0]}
LONG = {"rope_scaling": LONG, "original_max_position_embeddings": 320}
SLIDING = "sliding_attention"
GEMMA = GROUPED | {"query_pre_attn_scalar": 5, "sliding_window": 11}
CASES = {
    "gpt2": GPT2 | {"n_positions": 320},
    "llama": GROUPED | {"attention_bias": True, "rope_scaling": LLAMA3},
    "mistral": GROUPED | {"sliding_window": 9},
    "ministral": GROUPED | {"sliding_window": 9, "layer_types": [SLIDING, "full_attention"]},
    "smollm3": SHAPE | {"no_rope_layers": [1, 0], "num_key_value_heads": 2},
    "granite": SHAPE
    | {f"{name}_multiplier": 0.4 for name in ("attention", "residual", "embedding")}
    | {"logits_scaling": 0.5},
    "phi3": TWO_HEADS | LONG | {"sliding_window": 40},
    "olmo2": TWO_HEADS | {"rope_scaling": YARN},
    "olmo3": TWO_HEADS | {"sliding_window": 9},
    "mixtral": GROUPED | {"num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": 9},
    "qwen3_moe": GROUPED | {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 8},
    "gpt_oss": GROUPED | {"num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": 9},
    "gemma": GROUPED,
    "gptj": GPT2 | {"model_type": "gptj", "n_positions": 320, "rotary_dim": 4},
    "qwen2": SHAPE | {"use_sliding_window": True, "sliding_window": 40, "max_window_layers": 1},
    "qwen3": GROUPED | {"tie_word_embeddings": True},
    "gemma2": GEMMA | {"attn_logit_softcapping": 1.0, "final_logit_softcapping": 2.0},
    "gemma3_text": GEMMA | {"sliding_window_pattern": 2},
    "gemma3": {"text_config": GEMMA | {"sliding_window": 3}},
    "gpt_neox": SHAPE,
    "gpt_neo": SHAPE
    | {"num_layers": 2, "num_heads": 4, "window_size": 9}
    | {"attention_types": [[["global", "local"], 1]]},
    "phi": TWO_HEADS,
    "opt": WITHOUT_INNER | {"ffn_dim": 24, "word_embed_proj_dim": 12},
}
SIX = ["\nq", "\nqx", "\nqxz", "\nqxzj", "\nqxzjk", "\nqxzjkw", "\nqxzjkv", " pos", " positive"]
TWENTY = [f" {a}{b}" for a in "pqrst" for b in "wxyz"]


def test_every_causal_family_is_here():
    assert {n for n, family in FAMILIES.items() if family.kind == "causal_lm"} == CASES.keys()


@pytest.fixture(scope="module", params=CASES)
def checkpoint(request, tmp_path_factory):
    raw = {"model_type": request.param} | CASES[request.param]
    return load_checkpoint(write(tmp_path_factory.mktemp("family"), raw, noise=0.4))


@pytest.mark.parametrize(
    ("shots", "rows", "labels"),
    [
        pytest.param("", 5, LABELS, id="empty context"),
        pytest.param(SHOTS * 2, 3, SIX, id="long context, labels of 1 to 7 tokens"),
        pytest.param(SHOTS, 1, TWENTY, id="one row, twenty labels"),
    ],
)
def test_equals_naive_scoring(checkpoint, shots, rows, labels):
    texts = [shots + query for query in queries(rows)]
    scores = CausalLM(checkpoint).score(texts, labels).log_probs
    expected = naive(checkpoint, texts, labels)
    assert expected.std() > 0.1
    np.testing.assert_allclose(scores, expected, atol=1e-4)
