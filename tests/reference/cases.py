"""Small random configs that differ in every option, built by transformers."""

from pathlib import Path

import torch
import transformers
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForCausalLM,
    BertConfig,
    BertForMaskedLM,
    GPT2Model,
)


def common(
    vocabulary: int, width: int, inner: int, layers: int, heads: int, positions: int, **options
) -> dict:
    """Sizes by the names that most families have for them, and options."""
    return options | {
        "vocab_size": vocabulary,
        "hidden_size": width,
        "intermediate_size": inner,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "max_position_embeddings": positions,
    }


def sized_as(model_type: str, *sizes: int, **options) -> dict:
    """A family's config: `common`, of its type."""
    return {"model_type": model_type} | common(*sizes, **options)


# Every option of a family differs from its default in some case, and sizes differ so that no two
# are taken for each other. The sizes of `sized_as`: words, width, inner, layers, heads, positions.
# fmt: off
CAUSAL = {
    "gpt2_plain": dict(
        model_type="gpt2", vocab_size=61, n_positions=32, n_embd=16, n_layer=2, n_head=2,
    ),
    "gpt2_wide": dict(
        model_type="gpt2", vocab_size=53, n_positions=24, n_embd=24, n_layer=3, n_head=3,
        n_inner=40, activation_function="gelu", layer_norm_epsilon=0.001,
    ),
    "gpt2_relu": dict(
        model_type="gpt2", vocab_size=47, n_positions=40, n_embd=16, n_layer=1, n_head=4,
        n_inner=72, activation_function="relu", layer_norm_epsilon=1e-06,
    ),
    "gpt2_silu": dict(
        model_type="gpt2", vocab_size=47, n_positions=17, n_embd=8, n_layer=2, n_head=1, n_inner=8,
        activation_function="silu", layer_norm_epsilon=0.01,
    ),
    "llama_tied": sized_as(
        "llama", 53, 16, 24, 2, 4, 24, num_key_value_heads=2, tie_word_embeddings=True,
        rope_parameters={"rope_type": "default", "rope_theta": 500.0},
    ),
    "llama_biased": sized_as(
        "llama", 47, 16, 20, 2, 4, 32, head_dim=8, attention_bias=True, mlp_bias=True,
        hidden_act="gelu", rms_norm_eps=0.01,
        rope_parameters={"rope_type": "llama3", "rope_theta": 30.0, "factor": 8.0,
            "low_freq_factor": 1.0, "high_freq_factor": 2.0,
            "original_max_position_embeddings": 12},
    ),
    "llama_linear": sized_as(
        "llama", 41, 12, 16, 1, 3, 20, num_key_value_heads=1,
        rope_parameters={"rope_type": "linear", "factor": 3.0, "rope_theta": 100.0},
    ),
    "mistral_window": sized_as(
        "mistral", 41, 16, 16, 2, 2, 24, num_key_value_heads=1, head_dim=6, sliding_window=5,
    ),
    "ministral_layers": sized_as(
        "ministral", 41, 16, 16, 3, 2, 24, num_key_value_heads=1, head_dim=8, sliding_window=4,
        layer_types=["full_attention", "sliding_attention", "full_attention"],
    ),
    "llama_yarn": sized_as(
        "llama", 41, 24, 16, 2, 2, 24,
        rope_parameters={"rope_type": "yarn", "rope_theta": 20.0, "factor": 3.0,
            "original_max_position_embeddings": 20, "beta_fast": 2.0, "beta_slow": 0.5,
            "truncate": False},
    ),
    "qwen3_yarn_scaled": sized_as(
        "qwen3", 37, 16, 12, 1, 2, 16, num_key_value_heads=1, head_dim=12,
        rope_parameters={"rope_type": "yarn", "rope_theta": 100.0, "factor": 4.0, "mscale": 2.0,
            "mscale_all_dim": 0.5},
    ),
    "llama_dynamic": sized_as(
        "llama", 37, 12, 12, 1, 2, 16,
        rope_parameters={"rope_type": "dynamic", "rope_theta": 100.0, "factor": 4.0},
    ),
    "phi3_whole": sized_as(
        "phi3", 43, 16, 20, 2, 4, 24, num_key_value_heads=2, original_max_position_embeddings=24,
        pad_token_id=0,
        rope_parameters={"rope_type": "default", "rope_theta": 50.0, "partial_rotary_factor": 0.5},
    ),
    "phi3_long": sized_as(
        "phi3", 41, 12, 16, 1, 2, 80, original_max_position_embeddings=20, sliding_window=7,
        tie_word_embeddings=True, pad_token_id=0,
        rope_parameters={"rope_type": "longrope", "rope_theta": 50.0, "short_factor": [1.0, 1.3,
            2.0], "long_factor": [1.0, 3.0, 5.0]},
    ),
    "olmo2_norms_after": sized_as(
        "olmo2", 43, 16, 20, 2, 4, 24, num_key_value_heads=2, attention_bias=True,
        rms_norm_eps=0.001,
    ),
    "olmo3_layers": sized_as(
        "olmo3", 43, 16, 20, 3, 4, 24, num_key_value_heads=2, sliding_window=5, pad_token_id=0,
        layer_types=["sliding_attention", "full_attention", "sliding_attention"],
        rope_parameters={"full_attention": {"rope_type": "linear", "factor": 3.0,
            "rope_theta": 50.0}, "sliding_attention": {"rope_type": "default",
            "rope_theta": 20.0}},
    ),
    "mixtral_window": sized_as(
        "mixtral", 43, 16, 20, 2, 4, 24, num_key_value_heads=2, num_local_experts=4,
        num_experts_per_tok=2, sliding_window=6,
    ),
    "qwen3_moe_plain": sized_as(
        "qwen3_moe", 41, 16, 20, 2, 4, 24, num_key_value_heads=2, num_experts=5,
        num_experts_per_tok=3, moe_intermediate_size=12, head_dim=6, norm_topk_prob=True,
    ),
    "qwen3_moe_window": sized_as(
        "qwen3_moe", 37, 12, 16, 2, 2, 16, num_key_value_heads=1, num_experts=3,
        num_experts_per_tok=1, moe_intermediate_size=8, use_sliding_window=True, sliding_window=4,
        tie_word_embeddings=True,
    ),
    "gpt_oss_plain": sized_as(
        "gpt_oss", 43, 16, 20, 3, 4, 24, num_key_value_heads=2, head_dim=6, num_local_experts=5,
        num_experts_per_tok=3, sliding_window=5, pad_token_id=0,
    ),
    "gpt_oss_clamped": sized_as(
        "gpt_oss", 37, 12, 8, 2, 2, 16, num_key_value_heads=1, head_dim=8, num_local_experts=3,
        num_experts_per_tok=1, sliding_window=4, attention_bias=False, swiglu_alpha=0.7,
        swiglu_limit=0.2, rms_norm_eps=0.01, tie_word_embeddings=True, pad_token_id=0,
        layer_types=["full_attention", "sliding_attention"],
        rope_parameters={"rope_type": "default", "rope_theta": 50.0},
    ),
    "granite_multiplied": sized_as(
        "granite", 43, 16, 20, 2, 4, 24, num_key_value_heads=2, mlp_bias=True,
        embedding_multiplier=3.0, residual_multiplier=0.4, attention_multiplier=0.3,
        logits_scaling=2.5, tie_word_embeddings=True,
    ),
    "smollm3_layers": sized_as(
        "smollm3", 43, 16, 20, 3, 4, 24, num_key_value_heads=2, no_rope_layer_interval=2,
        use_sliding_window=True, sliding_window=5, pad_token_id=0,
    ),
    "smollm3_named": sized_as(
        "smollm3", 37, 12, 12, 2, 2, 16, num_key_value_heads=2, no_rope_layers=[0, 1],
        tie_word_embeddings=False, attention_bias=True, pad_token_id=0,
    ),
    "mistral_whole": sized_as(
        "mistral", 43, 12, 8, 1, 2, 16, num_key_value_heads=2, sliding_window=None,
        tie_word_embeddings=True,
    ),
    "qwen2_late_window": sized_as(
        "qwen2", 43, 12, 16, 3, 2, 24, num_key_value_heads=1, use_sliding_window=True,
        sliding_window=4, max_window_layers=2, tie_word_embeddings=True,
    ),
    "qwen2_whole": sized_as("qwen2", 37, 12, 12, 1, 2, 16, num_key_value_heads=2, sliding_window=3),
    "qwen3_layers": sized_as(
        "qwen3", 43, 16, 20, 2, 4, 24, num_key_value_heads=2, head_dim=6, attention_bias=True,
        use_sliding_window=True, sliding_window=5,
        layer_types=["sliding_attention", "full_attention"],
    ),
    "qwen3_tied": sized_as(
        "qwen3", 37, 12, 12, 1, 2, 16, num_key_value_heads=1, head_dim=8, tie_word_embeddings=True,
    ),
    "gemma_first": sized_as(
        "gemma", 43, 16, 20, 2, 4, 24, num_key_value_heads=2, head_dim=6, attention_bias=True,
        hidden_act="gelu", rms_norm_eps=0.01,
        rope_parameters={"rope_type": "default", "rope_theta": 300.0},
    ),
    "gemma2_capped": sized_as(
        "gemma2", 43, 16, 20, 2, 4, 24, num_key_value_heads=2, head_dim=6, sliding_window=5,
        query_pre_attn_scalar=3, attn_logit_softcapping=1.5, final_logit_softcapping=2.5,
    ),
    "gemma2_uncapped": sized_as(
        "gemma2", 37, 12, 16, 2, 3, 20, num_key_value_heads=1, head_dim=4, sliding_window=6,
        layer_types=["full_attention", "sliding_attention"], query_pre_attn_scalar=7,
        attn_logit_softcapping=None, final_logit_softcapping=None, attention_bias=True,
        tie_word_embeddings=False, hidden_activation="gelu", rms_norm_eps=0.01,
        rope_parameters={"rope_type": "linear", "factor": 2.0, "rope_theta": 300.0},
    ),
    "gemma3_text_local": sized_as(
        "gemma3_text", 43, 16, 16, 3, 2, 24, num_key_value_heads=1, head_dim=6, sliding_window=4,
        sliding_window_pattern=2, query_pre_attn_scalar=5,
        rope_parameters={"full_attention": {"rope_type": "linear", "factor": 4.0,
            "rope_theta": 200.0}, "sliding_attention": {"rope_type": "default",
            "rope_theta": 20.0}},
    ),
    "gemma3_text_capped": sized_as(
        "gemma3_text", 37, 12, 12, 1, 2, 16, num_key_value_heads=2, head_dim=4, sliding_window=4,
        layer_types=["full_attention"], query_pre_attn_scalar=4, attention_bias=True,
        final_logit_softcapping=2.0, tie_word_embeddings=False,
    ),
    "gemma3_that_sees": dict(
        model_type="gemma3",
        text_config=common(43, 12, 16, 2, 2, 20, num_key_value_heads=1, head_dim=4,
            sliding_window=4, layer_types=["sliding_attention", "full_attention"],
            query_pre_attn_scalar=4),
        vision_config=dict(model_type="siglip_vision_model", hidden_size=4, intermediate_size=4,
            num_hidden_layers=1, num_attention_heads=1, image_size=4, patch_size=2),
        mm_tokens_per_image=4, image_token_index=42,
    ),
    "neox_parallel": sized_as(
        "gpt_neox", 53, 16, 24, 2, 2, 24,
        rope_parameters={"rope_type": "default", "rope_theta": 100.0,
            "partial_rotary_factor": 0.25},
    ),
    "neox_serial": sized_as(
        "gpt_neox", 43, 12, 20, 2, 3, 20, use_parallel_residual=False, attention_bias=False,
        tie_word_embeddings=True, hidden_act="relu", layer_norm_eps=0.01,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0,
            "partial_rotary_factor": 1.0},
    ),
    "neox_linear": sized_as(
        "gpt_neox", 41, 12, 12, 1, 1, 24,
        rope_parameters={"rope_type": "linear", "factor": 3.0, "rope_theta": 50.0,
            "partial_rotary_factor": 0.5},
    ),
    "opt_before": dict(
        model_type="opt", vocab_size=53, hidden_size=16, ffn_dim=24, num_hidden_layers=2,
        num_attention_heads=4, max_position_embeddings=24,
    ),
    "opt_after": dict(
        model_type="opt", vocab_size=43, hidden_size=16, ffn_dim=20, num_hidden_layers=2,
        num_attention_heads=2, max_position_embeddings=20, do_layer_norm_before=False,
        word_embed_proj_dim=8, activation_function="gelu",
    ),
    "opt_bare": dict(
        model_type="opt", vocab_size=41, hidden_size=12, ffn_dim=16, num_hidden_layers=1,
        num_attention_heads=3, max_position_embeddings=16, enable_bias=False,
        layer_norm_elementwise_affine=False, _remove_final_layer_norm=True,
        tie_word_embeddings=False,
    ),
    "cohere_first": sized_as(
        "cohere", 43, 16, 20, 2, 4, 24, num_key_value_heads=2, logit_scale=0.5,
        layer_norm_eps=0.01,
    ),
    "cohere2_pattern": sized_as(
        "cohere2", 43, 16, 20, 3, 4, 24, num_key_value_heads=2, sliding_window=5,
        sliding_window_pattern=2, logit_scale=0.5, layer_norm_eps=0.01,
    ),
    "cohere2_untied": sized_as(
        "cohere2", 37, 12, 16, 2, 2, 16, sliding_window=6,
        layer_types=["full_attention", "sliding_attention"], attention_bias=True,
        tie_word_embeddings=False, hidden_act="gelu",
    ),
    "falcon_one_key": dict(
        model_type="falcon", vocab_size=43, hidden_size=16, num_hidden_layers=2,
        num_attention_heads=4, max_position_embeddings=24,
    ),
    "falcon_new": dict(
        model_type="falcon", vocab_size=41, hidden_size=16, num_hidden_layers=2,
        num_attention_heads=4, num_kv_heads=2, new_decoder_architecture=True, ffn_hidden_size=24,
        bias=True, activation="relu", layer_norm_epsilon=0.01, max_position_embeddings=20,
        rope_parameters={"rope_type": "linear", "rope_theta": 100.0, "factor": 2.0},
    ),
    "falcon_one_norm": dict(
        model_type="falcon", vocab_size=41, hidden_size=12, num_hidden_layers=1,
        num_attention_heads=3, num_kv_heads=1, new_decoder_architecture=True,
        num_ln_in_parallel_attn=1, tie_word_embeddings=False, max_position_embeddings=16,
    ),
    "falcon_serial": dict(
        model_type="falcon", vocab_size=37, hidden_size=12, num_hidden_layers=2,
        num_attention_heads=3, multi_query=False, parallel_attn=False, bias=True,
        max_position_embeddings=16,
    ),
    "gptj_plain": dict(
        model_type="gptj", vocab_size=43, n_positions=24, n_embd=16, n_layer=2, n_head=2,
        rotary_dim=4,
    ),
    "gptj_tied": dict(
        model_type="gptj", vocab_size=37, n_positions=16, n_embd=12, n_layer=1, n_head=3,
        n_inner=20, rotary_dim=2, activation_function="relu", tie_word_embeddings=True,
        layer_norm_epsilon=0.01,
    ),
    "falcon_alibi": dict(
        model_type="falcon", vocab_size=43, hidden_size=24, num_hidden_layers=2,
        num_attention_heads=3, max_position_embeddings=28, alibi=True, multi_query=False,
        parallel_attn=False, bias=True, layer_norm_epsilon=0.01,
    ),
    "gpt_neo_windows": dict(
        model_type="gpt_neo", vocab_size=53, hidden_size=16, num_layers=3, num_heads=2,
        max_position_embeddings=24, window_size=5, layer_norm_epsilon=0.001,
        attention_types=[[["global", "local"], 1], [["local"], 1]],
    ),
    "gpt_neo_untied": dict(
        model_type="gpt_neo", vocab_size=47, hidden_size=12, num_layers=2, num_heads=3,
        max_position_embeddings=16, window_size=3, attention_types=[[["local", "global"], 1]],
        intermediate_size=20, activation_function="relu", tie_word_embeddings=False,
    ),
    "phi_plain": sized_as("phi", 53, 16, 24, 2, 2, 24, layer_norm_eps=1e-3),
    "phi_tied": sized_as(
        "phi", 47, 24, 20, 1, 6, 16, num_key_value_heads=3, tie_word_embeddings=True,
        hidden_act="relu",
        rope_parameters={
            "rope_type": "linear", "rope_theta": 100.0, "factor": 2.0, "partial_rotary_factor": 1.0,
        },
    ),
    "stablelm_serial": sized_as(
        "stablelm", 53, 16, 24, 2, 2, 24, num_key_value_heads=2, use_qkv_bias=True,
        layer_norm_eps=1e-3,
    ),
    "stablelm_norms": sized_as(
        "stablelm", 43, 16, 20, 2, 4, 16, num_key_value_heads=2, qk_layernorm=True,
        use_parallel_residual=True, layer_norm_eps=1e-2,
        rope_parameters={
            "rope_type": "default", "rope_theta": 100.0, "partial_rotary_factor": 0.5,
        },
    ),
    "stablelm_parallel": sized_as(
        "stablelm", 47, 32, 20, 2, 4, 16, num_key_value_heads=2, use_parallel_residual=True,
        tie_word_embeddings=True, hidden_act="gelu_new",
        rope_parameters={
            "rope_type": "default", "rope_theta": 100.0, "partial_rotary_factor": 0.5,
        },
    ),
    "bloom_three_heads": dict(
        model_type="bloom", vocab_size=43, hidden_size=24, n_layer=2, n_head=3, seq_length=24,
        layer_norm_epsilon=0.01,
    ),
    "bloom_after": dict(
        model_type="bloom", vocab_size=37, hidden_size=16, n_layer=2, n_head=4, seq_length=16,
        apply_residual_connection_post_layernorm=True,
    ),
}
BERT = {
    "bert_plain": common(61, 16, 24, 2, 2, 32),
    "bert_tanh_gelu": common(
        53, 24, 32, 3, 4, 20, type_vocab_size=3, layer_norm_eps=0.001, hidden_act="gelu_new",
    ),
    "bert_relu_with_head": common(
        47, 16, 64, 1, 1, 40, type_vocab_size=1, layer_norm_eps=1e-05, hidden_act="relu",
    ),
    "roberta_plain": sized_as(
        "roberta", 61, 16, 24, 2, 2, 34, type_vocab_size=1, layer_norm_eps=1e-05, pad_token_id=1,
    ),
    "mpnet_plain": sized_as("mpnet", 53, 16, 24, 2, 4, 180, layer_norm_eps=1e-05),
    "mpnet_relu": sized_as("mpnet", 47, 12, 20, 1, 2, 20, layer_norm_eps=0.01, hidden_act="relu"),
    "modernbert_plain": sized_as(
        "modernbert", 53, 16, 24, 4, 2, 30, local_attention=8, pad_token_id=0,
    ),
    "modernbert_biased": sized_as(
        "modernbert", 47, 24, 20, 3, 6, 26, local_attention=5, pad_token_id=0, norm_eps=0.01,
        norm_bias=True, attention_bias=True, mlp_bias=True, hidden_activation="relu",
        layer_types=["sliding_attention", "full_attention", "sliding_attention"],
        rope_parameters={"full_attention": {"rope_type": "linear", "factor": 3.0,
            "rope_theta": 50.0}, "sliding_attention": {"rope_type": "default",
            "rope_theta": 20.0}},
    ),
    "xlm_roberta_padded_late": sized_as(
        "xlm-roberta", 53, 24, 32, 2, 4, 30, type_vocab_size=1, pad_token_id=5,
        hidden_act="gelu_new",
    ),
}
# fmt: on
SHARDED = ("gpt2_wide", "bert_tanh_gelu", "llama_biased", "neox_serial")
HEADLESS = ("gpt2_relu",)
HEADED = ("bert_relu_with_head",)
transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()


LENGTHS = (
    "original_max_position_embeddings",
    "max_position_embeddings",
    "n_positions",
    "seq_length",
)
"""Config keys for the longest sequence, longrope's first."""


def sized(name: str, vocabulary: int | None = None, positions: int | None = None) -> dict:
    """The named case's config, with another vocabulary or more positions."""
    raw = CAUSAL.get(name) or BERT[name]
    settings = raw.get("text_config", raw)
    sizes = {"vocab_size": vocabulary} | {key: positions for key in LENGTHS if key in settings}
    sizes = {key: size for key, size in sizes.items() if size is not None}
    if "text_config" in raw:
        return raw | {"text_config": raw["text_config"] | sizes}
    return raw | sizes


def attention_of(raw: dict) -> str:
    """Which attention of transformers is the reference: "eager" adds Falcon's penalties twice."""
    return "sdpa" if raw.get("alibi") else "eager"


def build(name: str, seed: int = 0, **sizes: int) -> torch.nn.Module:
    """The named network of transformers, every parameter moved by noise."""
    torch.manual_seed(seed)
    raw = sized(name, **sizes)
    if name in CAUSAL:
        config = AutoConfig.for_model(**raw)
        model = AutoModelForCausalLM.from_config(config, attn_implementation=attention_of(raw))
    elif name in HEADED:
        model = BertForMaskedLM(BertConfig(**raw))
    else:
        model = AutoModel.from_config(AutoConfig.for_model(**{"model_type": "bert"} | raw))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return model.eval()


def save(name: str, model: torch.nn.Module, directory: Path, sharded: bool | None = None) -> Path:
    """Write `config.json` and safetensors as transformers does: with or without head, in shards."""
    sharded = name in SHARDED if sharded is None else sharded
    body = model.transformer if name in HEADLESS else model
    assert name not in HEADLESS or isinstance(body, GPT2Model)
    body.save_pretrained(directory, **({"max_shard_size": "5KB"} if sharded else {}))
    return directory


def answers(name: str, model: torch.nn.Module, tokens: torch.Tensor, types: torch.Tensor):
    """Logits of a language model, or last hidden states of an encoder, `[b, t, ...]`."""
    with torch.no_grad():
        if name in CAUSAL:
            return model(tokens).logits
        encoder = model.bert if name in HEADED else model
        if sized(name).get("model_type") in ("mpnet", "modernbert"):  # without token types
            return encoder(tokens).last_hidden_state
        return encoder(tokens, token_type_ids=types).last_hidden_state


def inputs(name: str, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Random tokens `[2, t]` as long as the model's positions, and their types."""
    random = torch.Generator().manual_seed(seed)
    raw = sized(name)
    raw = raw.get("text_config", raw)
    length = next(raw[key] for key in LENGTHS if key in raw)
    if raw.get("model_type") in ("roberta", "xlm-roberta", "mpnet"):
        length -= raw.get("pad_token_id", 1) + 1  # positions of no token
    # The last token of the Gemma that sees stands for an image.
    tokens = torch.randint(
        raw["vocab_size"] - ("text_config" in sized(name)), (2, length), generator=random
    )
    types = torch.randint(raw.get("type_vocab_size", 2), (2, length), generator=random)
    return tokens, types
