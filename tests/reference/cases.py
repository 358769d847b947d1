"""Small random configs that differ in every option, built by transformers."""

import json
from pathlib import Path

import numpy as np
import torch
import transformers
from tiny import byte_level
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    GPT2Model,
)

# Every option of a family differs from its default in some case, and sizes differ so that no two
# are taken for each other.
CASES = json.loads(Path(__file__).with_name("cases.json").read_text())
CAUSAL = CASES["causal"]
SHARDED = ("gpt2_wide", "llama_biased", "neox_serial")
HEADLESS = ("gpt2_relu",)
transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()


LENGTHS = ["original_max_position_embeddings", "max_position_embeddings", "n_positions"]
"""Config keys for the longest sequence, longrope's first."""


def sized(name: str, vocabulary: int | None = None, positions: int | None = None) -> dict:
    """The named case's config, with another vocabulary or more positions."""
    raw = CAUSAL[name]
    settings = raw.get("text_config", raw)
    sizes = {"vocab_size": vocabulary} | {key: positions for key in LENGTHS if key in settings}
    sizes = {key: size for key, size in sizes.items() if size is not None}
    if "text_config" in raw:
        return raw | {"text_config": raw["text_config"] | sizes}
    return raw | sizes


def build(name: str, seed: int = 0, **sizes: int) -> torch.nn.Module:
    """The named network of transformers, every parameter moved by noise."""
    torch.manual_seed(seed)
    config = AutoConfig.for_model(**sized(name, **sizes))
    return moved(AutoModelForCausalLM.from_config(config, attn_implementation="eager"))


def moved(model: torch.nn.Module, size: float = 0.2) -> torch.nn.Module:
    """The network with every parameter moved by noise: as they come, all labels are alike."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(size * torch.randn_like(parameter))
    return model.eval()


def write_tokenizer(directory: Path, **options: str) -> None:
    """The byte-level tokenizer, of a class that changes nothing of its file."""
    byte_level().save(str(directory / "tokenizer.json"))
    config = {"tokenizer_class": "PreTrainedTokenizerFast", **options}
    (directory / "tokenizer_config.json").write_text(json.dumps(config))


def save(name: str, model: torch.nn.Module, directory: Path, sharded: bool | None = None) -> Path:
    """Write `config.json` and safetensors as transformers does: with or without head, in shards."""
    sharded = name in SHARDED if sharded is None else sharded
    body = model.transformer if name in HEADLESS else model
    assert name not in HEADLESS or isinstance(body, GPT2Model)
    body.save_pretrained(directory, **({"max_shard_size": "5KB"} if sharded else {}))
    return directory


def answers(model: torch.nn.Module, tokens: torch.Tensor) -> torch.Tensor:
    """Returns logits `[b, t, v]`."""
    with torch.no_grad():
        return model(tokens).logits


def inputs(name: str, seed: int = 0) -> torch.Tensor:
    """Returns random tokens `[2, t]` as long as the model's positions."""
    random = torch.Generator().manual_seed(seed)
    raw = sized(name)
    raw = raw.get("text_config", raw)
    length = next(raw[key] for key in LENGTHS if key in raw)
    # The last token of the Gemma that sees stands for an image.
    return torch.randint(
        raw["vocab_size"] - ("text_config" in sized(name)), (2, length), generator=random
    )


def harness_task(name: str, folder: Path, rows: dict, choices: list[str], **more: object) -> dict:
    """A task of lm-evaluation-harness: texts and labels by split, two demonstrations."""
    files = {split: str(folder / f"{name}_{split}.jsonl") for split in rows}
    for split, path in files.items():
        lines = [json.dumps({"text": text, "label": label}) for text, label in rows[split]]
        Path(path).write_text("\n".join(lines))
    data = {"dataset_path": "json", "dataset_kwargs": {"data_files": files}}
    data |= {"training_split": "train", "validation_split": "validation", "fewshot_split": "train"}
    asked = {"output_type": "multiple_choice", "num_fewshot": 2, "doc_to_text": "{{text}}"}
    asked |= {"doc_to_target": "label", "doc_to_choice": choices}
    return {"task": name, "fewshot_config": {"sampler": "first_n"}} | data | asked | more


def scored_alone(model, tokenizer, texts, labels):
    """Log-probabilities of each label, and how many tokens were fed for it: all but the last."""
    scores = np.zeros((len(texts), len(labels)))
    fed = np.zeros(scores.shape, int)
    for row, column in np.ndindex(scores.shape):
        prompt, ids = (tokenizer.encode(texts[row] + end).ids for end in ("", labels[column]))
        with torch.no_grad():
            log_probs = model(torch.tensor([ids[:-1]])).logits[0].log_softmax(-1)
        label_places = range(len(prompt), len(ids))
        scores[row, column] = sum(float(log_probs[at - 1, ids[at]]) for at in label_places)
        fed[row, column] = len(ids) - 1
    return scores, fed
