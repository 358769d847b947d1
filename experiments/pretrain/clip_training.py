"""Training of the tiny CLIP: pictures and captions, each to be told from the batch's others."""

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from tokenizers import Tokenizer

from batch_calibration.files import write_whole
from batch_calibration.models import clip, weights
from batch_calibration.models.clip_tokenizer import END, START
from experiments.pretrain import captions
from experiments.pretrain.optimization import Optimizer, Stretch, minimize

MEAN, STD = 0.45, 0.25
"""Of the drawn pictures' values, 0 to 1, the same for each color."""


class Phase(NamedTuple):
    """A stretch of training: how many steps, on how many pairs, of which kinds of pictures."""

    steps: int
    pairs: int
    tasks: tuple[str, ...]


class Progress(NamedTuple):
    """What one step says: total steps done, loss in nats, share of pictures with their caption."""

    step: int
    loss: float
    right: float
    pairs: int


class Batch(NamedTuple):
    """Pictures `uint8 [b h w 3]` and the tokens `[b t]` of their captions, in the same order."""

    pixels: np.ndarray
    tokens: np.ndarray


def loss(model: clip.Model, batch: Batch) -> tuple[jax.Array, jax.Array]:
    """Symmetric cross-entropy in nats (Radford et al. 2021, figure 3), and the share put right.

    A caption that stands under several pictures is one choice for a picture, and right for each
    of them: `log p(caption | picture)` counts it once, `log p(picture | caption)` sums over them.
    """
    pixels = (jnp.asarray(batch.pixels).astype(jnp.float32) / 255 - MEAN) / STD
    tokens = jnp.asarray(batch.tokens)
    seen, said = (
        vectors / jnp.linalg.norm(vectors, axis=-1, keepdims=True)
        for vectors in (model.embed_image(pixels), model.embed_text(tokens))
    )
    logits = model.scale * seen @ said.T
    same = jnp.all(tokens[:, None] == tokens, axis=-1)
    place, own = jnp.arange(len(logits)), jnp.argmax(same, axis=1)
    choices = jnp.where(own == place, logits, -jnp.inf)
    to_caption = jax.nn.log_softmax(choices)[place, own]
    right = jnp.where(same, logits, -jnp.inf)
    to_picture = jax.nn.logsumexp(right, axis=0) - jax.nn.logsumexp(logits, axis=0)
    share = jnp.mean((jnp.argmax(choices, axis=1) == own).astype(jnp.float32))
    return -(to_caption.mean() + to_picture.mean()) / 2, share


def train(
    config: clip.Config,
    tokenizer: Tokenizer,
    phases: tuple[Phase, ...],
    optimizer: Optimizer,
    seed: int,
    state_file: Path,
    save_every: int,
    report: Callable[[Progress], None],
) -> clip.Model:
    """Train from scratch, or from `state_file` where an earlier run left one; hand back the model.

    Step `i` sees the pairs that `(seed, i)` names, so a resumed run sees what an unbroken one does.
    """
    graph, params = nnx.split(clip.Model(config, rngs=nnx.Rngs(seed)))
    schedule = [phase for phase in phases for _ in range(phase.steps)]
    padded = Tokenizer.from_str(tokenizer.to_str())
    padded.enable_truncation(config.positions)
    padded.enable_padding(pad_id=tokenizer.token_to_id(END), pad_to_multiple_of=8)

    def batch(_: int, index: int) -> Batch:
        _, pairs, tasks = schedule[index]
        pixels, texts = captions.caption_batch(
            np.random.default_rng([seed, 0, index]), pairs, tasks
        )
        rows = padded.encode_batch_fast(texts)
        return Batch(pixels, np.array([row.ids for row in rows], np.int32))

    params, _ = minimize(
        lambda params, batch: loss(nnx.merge(graph, params), batch),
        (), params, batch, [Stretch(len(schedule))], optimizer.rule(len(schedule)),
        state_file, save_every,
        lambda now: report(
            Progress(sum(now.steps), now.loss, float(now.watched), len(now.batch.pixels))
        ),
        identity=repr((seed, config, phases, optimizer)),
    )  # fmt: skip
    return nnx.merge(graph, params)


def write(directory: Path, model: clip.Model, config: clip.Config, tokenizer: Tokenizer) -> None:
    """Write a Hugging Face directory: config, weights, tokenizer, and how pictures are prepared."""
    weights.save(directory, model, clip.FAMILY, nested(config, tokenizer))
    tokenizer.save(str(directory / "tokenizer.json"))
    edge = config.vision_image_size
    prepared = {
        "image_processor_type": "CLIPImageProcessor",
        "do_convert_rgb": True,
        "do_resize": True,
        "size": {"shortest_edge": edge},
        "resample": 3,
        "do_center_crop": True,
        "crop_size": {"height": edge, "width": edge},
        "do_rescale": True,
        "rescale_factor": 1 / 255,
        "do_normalize": True,
        "image_mean": [MEAN] * 3,
        "image_std": [STD] * 3,
    }
    special = {
        "tokenizer_class": "CLIPTokenizer",
        "model_max_length": config.positions,
        "bos_token": START,
        **dict.fromkeys(("eos_token", "pad_token", "unk_token"), END),
    }
    for name, value in (("preprocessor_config", prepared), ("tokenizer_config", special)):
        text = json.dumps(value, indent=2, sort_keys=True) + "\n"
        write_whole(directory / f"{name}.json", text.encode())


def nested(config: clip.Config, tokenizer: Tokenizer) -> dict[str, Any]:
    """What `config.json` says: the keys of each tower under its name."""
    end = tokenizer.token_to_id(END)
    raw: dict[str, Any] = {"model_type": "clip", "architectures": ["CLIPModel"]}
    for key, value in asdict(config).items():
        tower, _, name = key.partition("_")
        if tower in ("text", "vision"):
            raw.setdefault(f"{tower}_config", {})[name] = value
        else:
            raw[key] = value
    raw["text_config"] |= {"bos_token_id": tokenizer.token_to_id(START), "pad_token_id": end}
    return raw
