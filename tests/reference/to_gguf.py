"""Writes a GPT-2 checkpoint as the file that llama.cpp reads, in float32.

python tests/reference/to_gguf.py CHECKPOINT_DIRECTORY FILE.gguf

Runs in the environment of `constraints-server.txt`. Names of tensors and keys are those of
llama.cpp's architecture "gpt2".
"""

import json
import sys
from pathlib import Path

import gguf
from safetensors.numpy import load_file

NAMES = {
    "wte": "token_embd",
    "wpe": "position_embd",
    "ln_f": "output_norm",
    "ln_1": "attn_norm",
    "attn.c_attn": "attn_qkv",
    "attn.c_proj": "attn_output",
    "ln_2": "ffn_norm",
    "mlp.c_fc": "ffn_up",
    "mlp.c_proj": "ffn_down",
}


def tensor_name(name: str) -> str:
    """llama.cpp's name of a tensor of transformers' GPT-2.

    >>> tensor_name("transformer.h.0.attn.c_attn.weight")
    'blk.0.attn_qkv.weight'
    """
    inner, _, part = name.removeprefix("transformer.").rpartition(".")
    if not inner.startswith("h."):
        return f"{NAMES[inner]}.{part}"
    _, layer, inner = inner.split(".", 2)
    return f"blk.{layer}.{NAMES[inner]}.{part}"


def write(directory: Path, path: Path) -> None:
    """Write the checkpoint in `directory` to `path`."""
    config = json.loads((directory / "config.json").read_text(encoding="utf-8"))
    tokenizer = json.loads((directory / "tokenizer.json").read_text(encoding="utf-8"))
    writer = gguf.GGUFWriter(path, "gpt2")
    writer.add_context_length(config["n_positions"])
    writer.add_embedding_length(config["n_embd"])
    writer.add_feed_forward_length(config["n_inner"] or 4 * config["n_embd"])
    writer.add_block_count(config["n_layer"])
    writer.add_head_count(config["n_head"])
    writer.add_layer_norm_eps(config["layer_norm_epsilon"])
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)

    vocabulary = sorted(tokenizer["model"]["vocab"].items(), key=lambda item: item[1])
    special = {token["id"] for token in tokenizer["added_tokens"]}
    kinds = (gguf.TokenType.NORMAL, gguf.TokenType.CONTROL)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list([token for token, _ in vocabulary])
    writer.add_token_types([kinds[number in special] for _, number in vocabulary])
    merges = tokenizer["model"]["merges"]
    writer.add_token_merges([one if isinstance(one, str) else " ".join(one) for one in merges])
    writer.add_bos_token_id(config["bos_token_id"])
    writer.add_eos_token_id(config["eos_token_id"])
    # A post-processor of ours does nothing but put the beginning token.
    writer.add_add_bos_token(tokenizer["post_processor"] is not None)

    for name, tensor in load_file(directory / "model.safetensors").items():
        # GPT-2's linear layers are stored input first.
        linear = ".c_" in name and name.endswith(".weight")
        writer.add_tensor(tensor_name(name), tensor.T.copy() if linear else tensor)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    write(Path(sys.argv[1]), Path(sys.argv[2]))
