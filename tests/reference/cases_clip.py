"""CLIP and SigLIP in small random configs that differ in every option; captions."""

import gzip
import json
from pathlib import Path

import numpy as np
import torch
from cases import moved
from transformers import CLIPConfig, CLIPModel, CLIPTokenizer, SiglipConfig, SiglipModel

CASES = json.loads(Path(__file__).with_name("cases.json").read_text())
CLIP, SIGLIP, WORDS = CASES["clip"], CASES["siglip"], CASES["words"]
Network = CLIPModel | SiglipModel
SHARDED = ("clip_first_end", "siglip_padded")
DICTS = ("clip_before_ends_had_names",)
"""Cases whose towers' keys stand in `text_config_dict` and `vision_config_dict`."""


def build(name: str, seed: int = 0) -> Network:
    """The named network of transformers, every parameter moved by noise."""
    torch.manual_seed(seed)
    if name in SIGLIP:
        model = SiglipModel(SiglipConfig(**SIGLIP[name]))
    else:
        model = CLIPModel(CLIPConfig(**CLIP[name]))
    return moved(model)


def save(name: str, model: Network, directory: Path, sharded: bool | None = None) -> Path:
    """Write `config.json` and safetensors as transformers does, or as it once did."""
    sharded = name in SHARDED if sharded is None else sharded
    model.save_pretrained(directory, **({"max_shard_size": "5KB"} if sharded else {}))
    if name in DICTS:
        path = directory / "config.json"
        raw = json.loads(path.read_text())
        for tower in ("text", "vision"):
            raw[f"{tower}_config_dict"] = raw[f"{tower}_config"]
            raw[f"{tower}_config"] = {"hidden_size": 7}
        path.write_text(json.dumps(raw, indent=2))
    return directory


def inputs(name: str, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Random `pixels [3 3 h w]`, and `tokens [4 t]` that end at different places."""
    generator = torch.Generator().manual_seed(seed)
    raw = (CLIP | SIGLIP)[name]
    text, edge = raw["text_config"], raw["vision_config"]["image_size"]
    if name in SIGLIP:
        length, padding = text["max_position_embeddings"], text.get("pad_token_id", 1)
        tokens = torch.randint(2, text["vocab_size"], (4, length), generator=generator)
        for row, count in enumerate((length, 1, length // 2, length - 3)):
            tokens[row, count:] = padding
        return torch.randn(3, 3, edge, edge, generator=generator), tokens
    end = text["eos_token_id"] if text["eos_token_id"] != 2 else text["vocab_size"] - 1
    length = text["max_position_embeddings"]
    tokens = torch.randint(3, end, (4, length), generator=generator)
    for row, end_place in enumerate((length - 1, 1, length // 2, length - 3)):
        tokens[row, end_place:] = end
    tokens[2, length // 2 + 1 :] = 0
    return torch.randn(3, 3, edge, edge, generator=generator), tokens


def answers(model: Network, pixels: torch.Tensor, tokens: torch.Tensor) -> dict[str, np.ndarray]:
    """Embeddings `[b p]` of images and texts, as projected, and logits per image."""
    with torch.no_grad():
        return {
            "image": model.get_image_features(pixel_values=pixels).pooler_output.numpy(),
            "text": model.get_text_features(input_ids=tokens).pooler_output.numpy(),
            "logits": model(input_ids=tokens, pixel_values=pixels).logits_per_image.numpy(),
        }


def captions(count: int, seed: int = 0) -> list[str]:
    """Texts that are hard on a tokenizer: each word alone, then random ones together."""
    random = np.random.default_rng(seed)
    texts = list(WORDS)
    while len(texts) < count:
        glue = random.choice(["", " ", "  ", ", "])
        texts.append(glue.join(random.choice(WORDS, random.integers(2, 9))))
    return texts[:count]


def their_tokenizer(merges: Path) -> CLIPTokenizer:
    """transformers' own, of the list of merges in CLIP's repository, cut as CLIP's code cuts it."""
    lines = gzip.decompress(merges.read_bytes()).decode().split("\n")[1 : 49152 - 256 - 2 + 1]
    pairs = [tuple(line.split()) for line in lines]
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    letters = [*map(chr, shown), *(chr(256 + n) for n in range(256 - len(shown)))]
    names = letters + [letter + "</w>" for letter in letters] + ["".join(pair) for pair in pairs]
    names += ["<|startoftext|>", "<|endoftext|>"]
    return CLIPTokenizer(vocab={name: i for i, name in enumerate(names)}, merges=pairs)
