"""Converts a llama2.c network and its tokenizer to a Hugging Face directory."""

import json
import math
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, processors

HEADER = struct.Struct("<7i")
SPECIAL = ("<unk>", "<s>", "</s>")


def convert(weights: Path, tokenizer: Path, out: Path) -> int:
    """Write config.json, model.safetensors and tokenizer.json of a Llama; how many parameters."""
    out.mkdir(parents=True, exist_ok=True)
    raw, tensors = read_network(weights)
    pieces = read_tokenizer(tokenizer, raw["vocab_size"])
    (out / "config.json").write_text(json.dumps(raw, indent=2, sort_keys=True) + "\n")
    safetensors.numpy.save_file(tensors, out / "model.safetensors", metadata={"format": "pt"})
    pieces.save(str(out / "tokenizer.json"))
    return sum(array.size for array in tensors.values())


def read_network(path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The `config.json` of llama2.c's file and its tensors by their Hugging Face names."""
    data = path.read_bytes()
    width, inner, layers, heads, groups, vocabulary, positions = HEADER.unpack_from(data)
    d, tied, vocabulary = width // heads, vocabulary > 0, abs(vocabulary)
    numbers = np.frombuffer(data, "<f4", offset=HEADER.size)
    shapes = {
        "model.embed_tokens": (vocabulary, width),
        "input_layernorm": (layers, width),
        "self_attn.q_proj": (layers, width, width),
        "self_attn.k_proj": (layers, groups * d, width),
        "self_attn.v_proj": (layers, groups * d, width),
        "self_attn.o_proj": (layers, width, width),
        "post_attention_layernorm": (layers, width),
        "mlp.gate_proj": (layers, inner, width),
        "mlp.down_proj": (layers, width, inner),
        "mlp.up_proj": (layers, inner, width),
        "model.norm": (width,),
        "": (2, positions, d // 2),  # cosines and sines, which Llamas compute
    } | ({} if tied else {"lm_head": (vocabulary, width)})
    assert sum(map(math.prod, shapes.values())) == numbers.size
    tensors, start = {}, 0
    for name, shape in shapes.items():
        array = numbers[start : start + math.prod(shape)].reshape(shape)
        start += array.size
        if name in ("self_attn.q_proj", "self_attn.k_proj"):
            # llama2.c rotates neighbors, Hugging Face numbers half a head apart.
            halves = array.reshape(layers, -1, d // 2, 2, width).swapaxes(2, 3)
            array = halves.reshape(shape)
        if name.startswith(("model.", "lm_head")):
            tensors[f"{name}.weight"] = np.ascontiguousarray(array)
        elif name:
            for layer in range(layers):
                key = f"model.layers.{layer}.{name}.weight"
                tensors[key] = np.ascontiguousarray(array[layer])
    raw = {
        "model_type": "llama",
        "architectures": ["LlamaForCausalLM"],
        "vocab_size": vocabulary,
        "hidden_size": width,
        "intermediate_size": inner,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": groups,
        "max_position_embeddings": positions,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "hidden_act": "silu",
        "tie_word_embeddings": tied,
        "bos_token_id": 1,
        "eos_token_id": 2,
    }
    return raw, tensors


def pieces(path: Path, count: int) -> Iterator[tuple[str, float]]:
    """Each token's text, spaces as sentencepiece writes them, and its score."""
    data = path.read_bytes()
    offset = 4  # the longest token's length comes first
    for number in range(count):
        score, size = struct.unpack_from("<fi", data, offset)
        text = data[offset + 8 : offset + 8 + size].decode()
        offset += 8 + size
        yield SPECIAL[number] if number < 3 else text.replace(" ", "▁"), score


def read_tokenizer(path: Path, count: int) -> Tokenizer:
    """Llama's tokenizer: merges in the order of their scores, bytes for unknown characters."""
    scores = dict(pieces(path, count))
    vocabulary = {piece: number for number, piece in enumerate(scores)}
    merges = [
        (piece[:cut], piece[cut:])
        for piece in sorted(scores, key=lambda piece: -scores[piece])
        if vocabulary[piece] > 2 + 256
        for cut in range(1, len(piece))
        if piece[:cut] in vocabulary and piece[cut:] in vocabulary
    ]
    tokenizer = Tokenizer(
        models.BPE(vocabulary, merges, unk_token=SPECIAL[0], fuse_unk=True, byte_fallback=True)
    )
    steps = [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
    tokenizer.normalizer = normalizers.Sequence(steps)
    steps = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    tokenizer.decoder = decoders.Sequence([*steps, decoders.Strip(" ", 1, 0)])
    tokenizer.add_special_tokens([AddedToken(piece, normalized=False) for piece in SPECIAL])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", vocabulary["<s>"])]
    )
    return tokenizer
