"""Small random configs that differ in every option, built by transformers."""

from pathlib import Path

import torch
import transformers
from transformers import (
    BertConfig,
    BertForMaskedLM,
    BertModel,
    GPT2Config,
    GPT2LMHeadModel,
    GPT2Model,
)

GPT2 = {
    "gpt2_plain": dict(vocab_size=61, n_positions=32, n_embd=16, n_layer=2, n_head=2),
    "gpt2_wide": dict(
        vocab_size=53,
        n_positions=24,
        n_embd=24,
        n_layer=3,
        n_head=3,
        n_inner=40,
        activation_function="gelu",
        layer_norm_epsilon=1e-3,
    ),
    "gpt2_relu": dict(
        vocab_size=47,
        n_positions=40,
        n_embd=16,
        n_layer=1,
        n_head=4,
        n_inner=72,
        activation_function="relu",
        layer_norm_epsilon=1e-6,
    ),
    "gpt2_silu": dict(
        vocab_size=47,
        n_positions=17,
        n_embd=8,
        n_layer=2,
        n_head=1,
        n_inner=8,
        activation_function="silu",
        layer_norm_epsilon=1e-2,
    ),
}
BERT = {
    "bert_plain": dict(
        vocab_size=61,
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=24,
        max_position_embeddings=32,
    ),
    "bert_tanh_gelu": dict(
        vocab_size=53,
        hidden_size=24,
        num_hidden_layers=3,
        num_attention_heads=4,
        intermediate_size=32,
        max_position_embeddings=20,
        type_vocab_size=3,
        layer_norm_eps=1e-3,
        hidden_act="gelu_new",
    ),
    "bert_relu_with_head": dict(
        vocab_size=47,
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=1,
        intermediate_size=64,
        max_position_embeddings=40,
        type_vocab_size=1,
        layer_norm_eps=1e-5,
        hidden_act="relu",
    ),
}
SHARDED = ("gpt2_wide", "bert_tanh_gelu")
HEADLESS = ("gpt2_relu",)
HEADED = ("bert_relu_with_head",)
transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()


def build(name: str, seed: int = 0, **changes) -> torch.nn.Module:
    """The named network of transformers, every parameter moved by noise."""
    torch.manual_seed(seed)
    if name in GPT2:
        model = GPT2LMHeadModel(GPT2Config(**GPT2[name] | changes))
    elif name in HEADED:
        model = BertForMaskedLM(BertConfig(**BERT[name] | changes))
    else:
        model = BertModel(BertConfig(**BERT[name] | changes))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return model.eval()


def save(name: str, model: torch.nn.Module, directory: Path, sharded: bool | None = None) -> Path:
    """Write `config.json` and safetensors as transformers does: with or without head, in shards."""
    sharded = name in SHARDED if sharded is None else sharded
    kept = model.transformer if name in HEADLESS else model
    assert name not in HEADLESS or isinstance(kept, GPT2Model)
    kept.save_pretrained(directory, **({"max_shard_size": "5KB"} if sharded else {}))
    return directory


def answers(name: str, model: torch.nn.Module, tokens: torch.Tensor, types: torch.Tensor):
    """Logits of a language model, or last hidden states of an encoder, `[b, t, ...]`."""
    with torch.no_grad():
        if name in GPT2:
            return model(tokens).logits
        encoder = model.bert if name in HEADED else model
        return encoder(tokens, token_type_ids=types).last_hidden_state


def inputs(name: str, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Random tokens `[2, t]` as long as the model's positions, and their types."""
    random = torch.Generator().manual_seed(seed)
    raw = GPT2.get(name) or BERT[name]
    length = raw.get("n_positions") or raw["max_position_embeddings"]
    tokens = torch.randint(raw["vocab_size"], (2, length), generator=random)
    types = torch.randint(raw.get("type_vocab_size", 2), (2, length), generator=random)
    return tokens, types
