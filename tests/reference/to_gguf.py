"""Writes a GPT-2, Llama, Qwen2 or Qwen3 checkpoint as the file that llama.cpp reads.

python tests/reference/to_gguf.py CHECKPOINT_DIRECTORY FILE.gguf [float16]

Runs where gguf is installed (`constraints/server.txt`, `constraints/bench.txt`). Names of tensors
and keys follow llama.cpp's architectures of the same names. Matrices are in float32 unless float16
is asked for.
"""

import json
import sys
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from safetensors.numpy import load_file

GPT2 = """
    wte=token_embd wpe=position_embd ln_f=output_norm ln_1=attn_norm attn.c_attn=attn_qkv
    attn.c_proj=attn_output ln_2=ffn_norm mlp.c_fc=ffn_up mlp.c_proj=ffn_down
"""
LLAMA = """
    embed_tokens=token_embd norm=output_norm lm_head=output input_layernorm=attn_norm
    self_attn.q_proj=attn_q self_attn.k_proj=attn_k self_attn.v_proj=attn_v
    self_attn.q_norm=attn_q_norm self_attn.k_norm=attn_k_norm
    self_attn.o_proj=attn_output post_attention_layernorm=ffn_norm mlp.gate_proj=ffn_gate
    mlp.up_proj=ffn_up mlp.down_proj=ffn_down
"""
NAMES = dict(pair.split("=") for pair in (GPT2 + LLAMA).split())
GPT2_SHAPE = """
    n_positions=context_length n_embd=embedding_length n_inner=feed_forward_length
    n_layer=block_count n_head=head_count layer_norm_epsilon=layer_norm_eps
"""
LLAMA_SHAPE = """
    max_position_embeddings=context_length hidden_size=embedding_length
    intermediate_size=feed_forward_length num_hidden_layers=block_count
    num_attention_heads=head_count num_key_value_heads=head_count_kv head_dim=key_length
    head_dim=value_length head_dim=rope_dimension_count rope_theta=rope_freq_base
    rms_norm_eps=layer_norm_rms_eps vocab_size=vocab_size
"""
"""Keys of a config, and what the writer of gguf calls each."""


def tensor_name(name: str) -> str:
    """llama.cpp's name of a tensor of transformers' GPT-2 or Llama.

    >>> tensor_name("transformer.h.0.attn.c_attn.weight")
    'blk.0.attn_qkv.weight'
    >>> tensor_name("model.layers.1.self_attn.q_proj.weight")
    'blk.1.attn_q.weight'
    """
    inner, _, kind = name.removeprefix("transformer.").removeprefix("model.").rpartition(".")
    if not inner.startswith(("h.", "layers.")):
        return f"{NAMES[inner]}.{kind}"
    _, layer, inner = inner.split(".", 2)
    return f"blk.{layer}.{NAMES[inner]}.{kind}"


def write(directory: Path, path: Path, matrix_type: type[np.floating]) -> None:
    """Write the checkpoint in `directory` to `path`."""
    config = json.loads((directory / "config.json").read_text(encoding="utf-8"))
    kind = config["model_type"]
    writer = gguf.GGUFWriter(path, kind)
    half = matrix_type == np.float16
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_F16 if half else gguf.LlamaFileType.ALL_F32)
    tensors = load_file(directory / "model.safetensors")
    add_shape(writer, config)
    if kind == "llama":
        tensors = rotated_in_pairs(tensors, config) | rope_factors(config)
    add_tokenizer(writer, directory, config)
    for name, tensor in tensors.items():
        # GPT-2's linear layers are stored input first.
        linear = ".c_" in name and name.endswith(".weight")
        tensor = tensor.T.copy() if linear else tensor
        # llama.cpp adds vectors and positions in float32.
        is_matrix = tensor.ndim == 2 and "wpe" not in name
        written_name = name if name.startswith("rope_freqs") else tensor_name(name)
        writer.add_tensor(written_name, tensor.astype(matrix_type) if is_matrix else tensor)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def add_shape(writer: gguf.GGUFWriter, config: dict[str, Any]) -> None:
    """The shape of a network, also what its config leaves out."""
    if config["model_type"] == "gpt2":
        usual = {"layer_norm_epsilon": 1e-5}
        config["n_inner"] = config.get("n_inner") or 4 * config["n_embd"]
    else:
        usual = {"rms_norm_eps": 1e-6}
        config.setdefault("head_dim", config["hidden_size"] // config["num_attention_heads"])
    for pair in (GPT2_SHAPE if "n_embd" in config else LLAMA_SHAPE).split():
        key, name = pair.split("=")
        getattr(writer, f"add_{name}")((usual | config)[key])


def add_tokenizer(writer: gguf.GGUFWriter, directory: Path, config: dict[str, Any]) -> None:
    """The byte-level tokenizer, filled up to the vocabulary's size."""
    tokenizer = json.loads((directory / "tokenizer.json").read_text(encoding="utf-8"))
    vocabulary = sorted(tokenizer["model"]["vocab"].items(), key=lambda item: item[1])
    special = {token["id"] for token in tokenizer["added_tokens"]}
    kinds = [gguf.TokenType.NORMAL] * len(vocabulary)
    for number in special:
        kinds[number] = gguf.TokenType.CONTROL
    missing = config["vocab_size"] - len(vocabulary)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(
        [token for token, _ in vocabulary] + [f"[PAD{number}]" for number in range(missing)]
    )
    writer.add_token_types(kinds + [gguf.TokenType.UNUSED] * missing)
    merges = tokenizer["model"]["merges"]
    writer.add_token_merges(
        [merge if isinstance(merge, str) else " ".join(merge) for merge in merges]
    )
    if "bos_token_id" in config:
        writer.add_bos_token_id(config["bos_token_id"])
        writer.add_eos_token_id(config["eos_token_id"])
    # A post-processor of ours does nothing but put the beginning token.
    writer.add_add_bos_token("bos_token_id" in config and tokenizer["post_processor"] is not None)


def rotated_in_pairs(
    tensors: dict[str, np.ndarray], config: dict[str, Any]
) -> dict[str, np.ndarray]:
    """Queries and keys in llama.cpp's order: it rotates neighbors where Llama rotates halves."""
    reordered = dict(tensors)
    for name, tensor in tensors.items():
        if name.endswith(("q_proj.weight", "k_proj.weight")):
            halves = tensor.reshape(-1, 2, config["head_dim"] // 2, tensor.shape[1])
            reordered[name] = halves.swapaxes(1, 2).reshape(tensor.shape)
    return reordered


def rope_factors(config: dict[str, Any]) -> dict[str, np.ndarray]:
    """Divisors of frequencies in llama.cpp, for Llama 3's scaling of positions."""
    scaling = config.get("rope_scaling")
    if not scaling:
        return {}
    exponents = np.arange(0, config["head_dim"], 2) / config["head_dim"]
    turns = scaling["original_max_position_embeddings"] / (
        2 * np.pi * config["rope_theta"] ** exponents
    )
    low, high = scaling["low_freq_factor"], scaling["high_freq_factor"]
    smooth = np.clip((turns - low) / (high - low), 0, 1)
    factors = 1 / ((1 - smooth) / scaling["factor"] + smooth)
    return {"rope_freqs.weight": factors.astype(np.float32)}


if __name__ == "__main__":
    write(Path(sys.argv[1]), Path(sys.argv[2]), np.dtype((*sys.argv[3:], "float32")[0]).type)
