"""Trains the tiny CLIP on images and captions with the contrastive loss."""

import json
from collections.abc import Callable
from dataclasses import asdict
from itertools import chain, repeat
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from tokenizers import Tokenizer

from batch_calibration.files import write_whole
from batch_calibration.scoring.models import clip
from batch_calibration.scoring.models.files import weights
from batch_calibration.scoring.models.files.tokenizer_files import END, START
from experiments.pretrain import captions
from experiments.pretrain.optimization import Optimizer, Stage, Step, StepReport, minimize

MEAN, STD = 0.45, 0.25
"""Mean and standard deviation of the images' pixel values (0 to 1), for each color channel."""


class ImageStage(NamedTuple):
    """A stage of training: the number of steps, the pairs per step, and the image tasks."""

    steps: int
    pairs: int
    tasks: tuple[str, ...]


class PairBatch(NamedTuple):
    """Images `uint8 [b h w 3]` and the tokens `[b t]` of their captions, in the same order."""

    pixels: np.ndarray
    tokens: np.ndarray


def loss(model: clip.Model, batch: PairBatch) -> tuple[jax.Array, jax.Array]:
    """Computes the symmetric cross-entropy in nats (Radford et al. 2021, figure 3), and accuracy.

    Several images of a batch may have the same caption. It is one class in
    `log p(caption | image)`, and `log p(image | caption)` sums over its images.
    """
    pixels = (jnp.asarray(batch.pixels).astype(jnp.float32) / 255 - MEAN) / STD
    tokens = jnp.asarray(batch.tokens)
    images, texts = model.embed_image(pixels), model.embed_text(tokens)
    images /= jnp.linalg.norm(images, axis=-1, keepdims=True)
    texts /= jnp.linalg.norm(texts, axis=-1, keepdims=True)
    logits = model.scale * images @ texts.T
    same_caption = jnp.all(tokens[:, None] == tokens, axis=-1)  # [b, b]
    # `own` is the index of the first row with the same caption.
    index, own = jnp.arange(len(logits)), jnp.argmax(same_caption, axis=1)
    choices = jnp.where(own == index, logits, -jnp.inf)  # each caption is one choice
    to_caption = jax.nn.log_softmax(choices)[index, own]
    right = jnp.where(same_caption, logits, -jnp.inf)
    to_image = jax.nn.logsumexp(right, axis=0) - jax.nn.logsumexp(logits, axis=0)
    accuracy = jnp.mean((jnp.argmax(choices, axis=1) == own).astype(jnp.float32))
    return -(to_caption.mean() + to_image.mean()) / 2, accuracy


def train(
    config: clip.Config,
    tokenizer: Tokenizer,
    stages: tuple[ImageStage, ...],
    optimizer: Optimizer,
    seed: int,
    state_file: Path,
    save_every: int,
    report: Callable[[StepReport], None],
) -> clip.Model:
    """Trains from scratch, or resumes from `state_file` if it exists, and returns the model.

    The batch of step `i` depends only on `(seed, i)`, so a resumed run sees the same batches.
    """
    graph, params = nnx.split(clip.Model(config, rngs=nnx.Rngs(seed)))
    # The stage of each step.
    schedule = [*chain.from_iterable(repeat(stage, stage.steps) for stage in stages)]
    padded = Tokenizer.from_str(tokenizer.to_str())
    padded.enable_truncation(config.positions)
    # Padding to multiples of 8 limits the number of compiled programs.
    padded.enable_padding(pad_id=tokenizer.token_to_id(END), pad_to_multiple_of=8)

    def batch(_: int, index: int) -> PairBatch:
        _, pairs, tasks = schedule[index]
        # 0 is the training stream; the captions for the vocabulary are drawn from [seed, 1].
        pixels, texts = captions.caption_batch(
            np.random.default_rng([seed, 0, index]), pairs, tasks
        )
        rows = padded.encode_batch_fast(texts)
        return PairBatch(pixels, np.array([row.ids for row in rows], np.int32))

    def report_step(step: Step) -> None:
        metrics = {"accuracy": float(step.metrics)}
        report(StepReport(step.steps, step.loss, metrics, len(step.batch.pixels)))

    params, _ = minimize(
        lambda params, batch: loss(nnx.merge(graph, params), batch),
        (), params, batch, [Stage(len(schedule))], optimizer.transformation(len(schedule)),
        state_file, save_every, report_step, identity=repr((seed, config, stages, optimizer)),
    )  # fmt: skip
    return nnx.merge(graph, params)


def write(directory: Path, model: clip.Model, config: clip.Config, tokenizer: Tokenizer) -> None:
    """Writes a Hugging Face directory: config, weights, tokenizer, and image preprocessing."""
    weights.save(directory, model, clip.FAMILY, nested(config, tokenizer))
    tokenizer.save(str(directory / "tokenizer.json"))
    edge = config.vision_image_size
    prepared = {
        "image_processor_type": "CLIPImageProcessor",
        "do_convert_rgb": True,
        "do_resize": True,
        "size": {"shortest_edge": edge},
        "resample": 3,  # bicubic
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
    for name, settings in (("preprocessor_config", prepared), ("tokenizer_config", special)):
        text = json.dumps(settings, indent=2, sort_keys=True) + "\n"
        write_whole(directory / f"{name}.json", text.encode())


def nested(config: clip.Config, tokenizer: Tokenizer) -> dict[str, Any]:
    """Builds the content of `config.json`, with the keys of each tower under its name."""
    end = tokenizer.token_to_id(END)
    raw: dict[str, Any] = {"model_type": "clip", "architectures": ["CLIPModel"]}
    for key, setting in asdict(config).items():
        tower, _, name = key.partition("_")
        if tower in ("text", "vision"):
            raw.setdefault(f"{tower}_config", {})[name] = setting
        else:
            raw[key] = setting
    raw["text_config"] |= {"bos_token_id": tokenizer.token_to_id(START), "pad_token_id": end}
    return raw
