"""Tiny random checkpoints and tokenizers, made on the spot."""

import json
from pathlib import Path

import jax
import numpy as np
from flax import nnx
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from tokenizers.processors import ByteLevel, TemplateProcessing

from batch_calibration.scoring.models import FAMILIES
from batch_calibration.scoring.models.files import weights
from batch_calibration.scoring.models.files.config import read_config

CORPUS = [
    "Review: a charming and often affecting journey.\nSentiment: positive\n\n",
    "Review: unflinchingly bleak and desperate, not even funny.\nSentiment: negative\n\n",
    "Review: it's slow -- very, very slow; the acting is fine.\nSentiment: neutral\n\n",
]
GPT2 = {"model_type": "gpt2", "vocab_size": 400, "n_positions": 160}
GPT2 |= {"n_embd": 16, "n_layer": 2, "n_head": 2}
TOWER = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2}
TOWER |= {"num_attention_heads": 2}
CLIP = {
    "model_type": "clip",
    "projection_dim": 8,
    "text_config": TOWER | {"vocab_size": 400, "eos_token_id": 399, "max_position_embeddings": 40},
    "vision_config": TOWER | {"image_size": 32, "patch_size": 8},
}

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
CAUSAL_FAMILIES = {
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
"""A small configuration of each family."""


def byte_level(size: int = 330) -> Tokenizer:
    """A byte-level BPE like GPT-2's: it may be cut at spaces."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    special = {"initial_alphabet": alphabet, "special_tokens": ["<|end|>"]}
    trainer = trainers.BpeTrainer(vocab_size=size, show_progress=False, **special)
    tokenizer.train_from_iterator(CORPUS, trainer)
    return tokenizer


def whole_text(size: int = 330) -> Tokenizer:
    """A BPE over characters with no words at all: tokens reach over spaces."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))
    marks = ["<unk>", "<s>"]
    trainer = trainers.BpeTrainer(vocab_size=size, special_tokens=marks, show_progress=False)
    tokenizer.train_from_iterator([text + text for text in CORPUS], trainer)
    return tokenizer


def write(
    directory: Path, raw: dict, tokenizer: Tokenizer | None = None, seed=0, noise=0.2
) -> Path:
    """A checkpoint directory with every weight at random, the norms' and biases too."""
    family = FAMILIES[raw["model_type"]]
    config = read_config(family, raw, directory)
    graph, shapes = nnx.split(nnx.eval_shape(lambda: family.model(config, rngs=nnx.Rngs(0))))
    random = np.random.default_rng(seed)
    state = jax.tree.map(lambda s: random.normal(0, noise, s.shape).astype(np.float32), shapes)
    weights.save(directory, nnx.merge(graph, state), family, raw)
    (tokenizer or byte_level()).save(str(directory / "tokenizer.json"))
    # The network's own class would split text its own way (decision 11).
    as_it_stands = {"tokenizer_class": "PreTrainedTokenizerFast"}
    (directory / "tokenizer_config.json").write_text(json.dumps(as_it_stands))
    return directory


POST = {"none": None, "bytes": "", "<s>": "<s> $A", "</s>": "$A </s>", "both": "<s> $A </s>"}
"""How a tokenizer file puts special tokens around a text."""


def tokenizer_of(post: str | None) -> Tokenizer:
    """Makes a byte-level BPE with the special tokens `<s>` and `</s>` and a value of `POST`."""
    tokenizer = byte_level()
    tokenizer.add_special_tokens(["<s>", "</s>"])
    special = [(token, tokenizer.token_to_id(token)) for token in ("<s>", "</s>")]
    if post == "":
        tokenizer.post_processor = ByteLevel(trim_offsets=False)
    elif post:
        tokenizer.post_processor = TemplateProcessing(single=post, special_tokens=special)
    return tokenizer
