"""Scores labels by the cosine between the embeddings of an input and of each label's statement."""

import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from functools import partial
from typing import cast

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jax.sharding import NamedSharding
from tokenizers import Tokenizer

from batch_calibration.errors import InputError, spell
from batch_calibration.scoring import NOTHING_FINISHED, Finished, Identity, ImageInputs, LabelScores
from batch_calibration.scoring.engine import label_texts, preprocessing, sharding
from batch_calibration.scoring.engine.batches import batches, behind
from batch_calibration.scoring.engine.programs import State
from batch_calibration.scoring.engine.tokens import count_cut, refuse_same_tokens, token_ids
from batch_calibration.scoring.models import clip
from batch_calibration.scoring.models.files.checkpoint import Checkpoint
from batch_calibration.scoring.models.files.weights import OTHER_FILES
from batch_calibration.scoring.models.layers import exactness

VERSION = "1"
TOKENIZED_ROWS = 4096
BATCH_TOKENS = {"cpu": 2048}
STEP = 16
MAX_NAMED = 3
"""Unreadable images that the note at the end names; it counts all of them."""


class DualEncoder(label_texts.LabelScorer):
    """Scaled cosine between the embeddings of each text or image and of each label's statement.

    `score(x, y) = scale * e(x) . e(y) / (|e(x)| |e(y)|)`: logits, in nats up to a constant per row
    (Radford et al. 2021, figure 3). SigLIP's bias is part of it. CLIP and SigLIP have a
    tower for text and one for images. A label with several statements (a prompt ensemble) has the
    mean of their embeddings, normalized to length one.

    Example:
        clip = DualEncoder(load_checkpoint("checkpoints/clip-vit-base-patch16"), scale=0)
        clip.score(ImageInputs(refs), ["a photo of a cat.", "a photo of a dog."])

    Args:
        checkpoint: CLIP or SigLIP, and its tokenizer.
        scale: The inverse temperature of the contrastive training; 0 is the checkpoint's learned
            scale.
        max_tokens: The length at which texts are cut; 0 is the checkpoint's own limit. Statements
            must fit.
        batch_size: Maximum rows in a batch. Batches of long rows are smaller if memory requires it.

    `score` cuts texts at `max_tokens`. Its token counts include special tokens; for images, they
    count patches. Images that cannot be read have rows of NaN and are named in `failed` and
    `notes`.

    Raises:
        InputError: the checkpoint is a language model, or a number is out of range. `score` raises
            for labels that are equal or too long, for texts without tokens, and if it can read no
            image.
    """

    def __init__(
        self, checkpoint: Checkpoint, scale: float = 20.0, max_tokens: int = 0,
        batch_size: int = 64,
    ):  # fmt: skip
        if checkpoint.kind == "causal_lm":
            expected, got = "CLIP or SigLIP", f"a {checkpoint.model_type} network"
            raise InputError.at(checkpoint.directory, expected, got, "score with CausalLM")
        super().__init__(f"{checkpoint.directory}: a {checkpoint.model_type} network", batch_size)
        if not 0 <= scale < math.inf:
            expected = "a positive, finite number (20 is usual), or 0 for the checkpoint's own"
            raise InputError.at("scale", expected, scale)
        if max_tokens != 0 and max_tokens < 3:
            expected = "3 or more (two are special), or 0 for the checkpoint's"
            raise InputError.at("max_tokens", expected, max_tokens)
        self.checkpoint = checkpoint
        self.scale = float(scale or cast(clip.Model, checkpoint.model).scale)
        positions = checkpoint.config.positions
        self.max_tokens = min(max_tokens or positions, positions)  # tokens, specials included
        self._budget = BATCH_TOKENS.get(jax.default_backend(), 65536)
        # A copy, because texts are cut and statements must not be.
        self._tokenizer = Tokenizer.from_str(checkpoint.tokenizer.to_str())
        self._tokenizer.enable_truncation(self.max_tokens)
        self._embed_texts = program(checkpoint, _embed_captions)

    @property
    def identity(self) -> Identity:
        """Everything that determines the scores; the batch size does not."""
        identity: Identity = {"kind": "dual_encoder", "version": VERSION}
        identity |= {"checkpoint": self.checkpoint.digest, "dtype": self.checkpoint.dtype}
        return identity | {"scale": self.scale, "max_tokens": self.max_tokens}

    def _score(self, asked: label_texts.Asked) -> LabelScores:
        self._check_labels(asked.forms)
        embeddings, _ = self.embed(asked.forms)
        directions = label_texts.average_embeddings(embeddings, asked.counts)  # [k, d], unit length
        failed: dict[int, str] = {}
        inputs, progress, finished = asked.inputs, asked.progress, asked.finished
        if isinstance(inputs, ImageInputs):
            vectors, tokens, failed = self.embed_images(inputs, progress, finished)
        else:
            vectors, tokens = self.embed(inputs, progress, finished)
        log_probs = np.float32(self.scale) * (vectors @ directions.T)  # [n, k]
        # Unreadable images have rows of NaN, which are not checked.
        readable = [row for row in range(len(log_probs)) if row not in failed]
        first_forms = [asked.forms[sum(asked.counts[:label])] for label in range(len(asked.counts))]
        label_texts.refuse_infinite(log_probs[readable], readable, first_forms, "score")
        return LabelScores(log_probs, tokens, failed)

    def embed(
        self,
        texts: Sequence[str],
        progress: Callable[[int], None] = lambda _: None,
        finished: Finished = NOTHING_FINISHED,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Computes embeddings `[n d]` of length one, and token counts `[n]` of the cut texts."""
        counts = np.zeros(len(texts), np.int32)
        most, cut, finished_rows = self.max_tokens, 0, finished.rows

        def run() -> Iterator[Embedded]:
            nonlocal cut
            for start in range(0, len(texts), TOKENIZED_ROWS):
                part = list(texts[start : start + TOKENIZED_ROWS])  # The list renders them once.
                ids = token_ids(self._tokenizer, part, special=True)
                counts[start : start + len(ids)] = list(map(len, ids))
                cut += count_cut(self.checkpoint.tokenizer, part, ids, most)
                done = {row - start for row in finished_rows}
                for rows, embeddings in self._run(ids, done):
                    yield [start + row for row in rows], {}, embeddings

        vectors, _ = collect(run(), progress, finished)
        if cut:
            self.notes.append(
                f"{cut} of {len(texts)} texts are longer than {most} tokens and cut there "
                f"({spell('max_tokens')}; 0 is the checkpoint's own limit)"
            )
        if len(texts) and not counts.all():
            row = int(np.argmin(counts))
            expected, got = "a text of at least one token", f"{texts[row]!r}"
            raise InputError.at(f"row {row}", expected, got, "drop it")
        # Batches return rows in another order than the texts.
        stacked = [vectors[row] for row in range(len(texts))]
        return np.stack(stacked) if stacked else np.zeros((0, 1), np.float32), counts

    def embed_images(
        self,
        images: ImageInputs,
        progress: Callable[[int], None] = lambda _: None,
        finished: Finished = NOTHING_FINISHED,
    ) -> tuple[np.ndarray, np.ndarray, dict[int, str]]:
        """Computes embeddings `[n d]` of length one, token counts `[n]`, and errors by row.

        Images are decoded ahead a few batches at a time, so memory does not grow with their number.
        """
        how = preprocessing.load_preprocessing(self.checkpoint.directory)
        config = cast(clip.Config, self.checkpoint.config)
        edge = config.vision_image_size
        if how.crop != (edge, edge):
            expected = f"images that are cropped to {(edge, edge)}, as the network takes them"
            raise InputError.at(self.checkpoint.directory, expected, how.crop, OTHER_FILES)
        tokens = config.image_tokens
        size = self._padded(min(self.batch_size, max(1, self._budget // tokens), len(images)))
        embed = program(self.checkpoint, _embed_images, how)
        # Finished rows fill whole batches, so the remaining batches are the same as before.
        settled = {*finished.rows, *finished.failed}
        pending = [row for row in range(len(images)) if row not in settled]

        def run() -> Iterator[Embedded]:
            refs = list(map(images.refs.__getitem__, pending))
            for rows, pixels, bad in preprocessing.decode_batches(refs, how, size):
                (placed,) = sharding.shard_rows(self.checkpoint.mesh, (pixels,))
                unreadable = {pending[row]: why for row, why in bad.items()}
                yield [pending[row] for row in rows], unreadable, embed(placed)

        vectors, failed = collect(run(), progress, finished)
        if failed:
            few = " ".join(map(failed.__getitem__, sorted(failed)[:MAX_NAMED]))
            few += " ..." if len(failed) > MAX_NAMED else ""
            counts = f"{len(failed):,} of {len(images):,} images"
            self.notes.append(f"{counts} could not be read and are left out: {few}")
        if not vectors:
            first = next(iter(failed.values()), "there are none")
            raise InputError(f"no image of {len(images)} can be read: {first}")
        missing = np.full_like(next(iter(vectors.values())), np.nan)  # [d]
        stacked = np.stack([vectors.get(row, missing) for row in range(len(images))])
        return stacked, np.full(len(images), tokens, np.int32), failed

    def _run(self, ids: list[list[int]], done: set[int]) -> Iterator[tuple[list[int], jax.Array]]:
        """Yields rows and their embeddings by batch, without batches of finished rows only."""
        lengths = list(map(len, ids))
        planned = batches(range(len(ids)), lengths, self.batch_size, self._budget, STEP)
        for rows, size, width in planned:
            if done.issuperset(rows):
                continue
            tokens = np.zeros((self._padded(size), width), np.int32)
            counts = np.zeros(len(tokens), np.int32)
            for i, row in enumerate(rows):
                tokens[i, : lengths[row]] = ids[row]
                counts[i] = lengths[row]
            placed = sharding.shard_rows(self.checkpoint.mesh, (tokens, counts))
            yield rows, self._embed_texts(*placed)

    def _padded(self, size: int) -> int:
        step = sharding.row_multiple(self.checkpoint.mesh)
        return -(-max(1, size) // step) * step

    def _check_labels(self, labels: Sequence[str]) -> None:
        """Raises if there are no labels, or if two are equal as tokens or one is too long."""
        if not labels:
            raise InputError(where="labels", expected="one or more sentences", got="none")
        token_lists = token_ids(self.checkpoint.tokenizer, list(labels), special=True)
        for label, ids in zip(labels, token_lists, strict=True):
            if len(ids) > self.max_tokens:
                expected, got = f"at most {self.max_tokens} tokens", f"a statement of {len(ids)}"
                raise InputError.at(f"label {label!r}", expected, got, "shorten it")
        refuse_same_tokens(token_lists, labels)


Embed = Callable[..., jax.Array]
Embedded = tuple[list[int], dict[int, str], jax.Array]
"""Rows of a batch, a sentence on each unreadable row, and embeddings that may include padding."""


def collect(
    running: Iterable[Embedded], progress: Callable[[int], None], finished: Finished
) -> tuple[dict[int, np.ndarray], dict[int, str]]:
    """Collects the embedding of each row and a sentence on each unreadable row.

    The results include the finished rows.
    """
    vectors, failed = dict(finished.rows), dict(finished.failed)
    # The device computes one batch while the next is prepared.
    for rows, unreadable, placed in behind(running):
        embeddings = np.asarray(placed)
        vectors.update(zip(rows, embeddings, strict=False))
        failed |= unreadable
        finished.add(rows, embeddings[: len(rows)], unreadable)
        progress(len(vectors) + len(failed))
    return vectors, failed


def program(checkpoint: Checkpoint, embed: Embed, *options: Hashable) -> Embed:
    """Returns a compiled `embed(network, *inputs, *options)`: embeddings `[b, p]` of length one."""
    home = sharding.replicated(checkpoint.mesh)
    graph, state = nnx.split(checkpoint.model)

    def run(*inputs: jax.Array) -> jax.Array:
        with jax.default_matmul_precision(exactness(checkpoint.dtype)):
            vectors: jax.Array = _run(graph, home, embed, options, state, *inputs)
        return vectors

    return run


@partial(jax.jit, static_argnums=(0, 1, 2, 3))
def _run(
    graph: nnx.GraphDef[nnx.Module],
    home: NamedSharding | None,
    embed: Embed,
    options: tuple[Hashable, ...],
    state: State,
    *inputs: jax.Array,
) -> jax.Array:
    """Computes float32 embeddings of length one, replicated on every device of a mesh."""
    vectors = embed(nnx.merge(graph, state), *inputs, *options)
    vectors = vectors.astype(jnp.float32)  # In half precision lengths would be off by 0.4 %.
    vectors = vectors / jnp.linalg.norm(vectors, axis=-1, keepdims=True)
    return sharding.replicate(vectors, home)


def _embed_captions(network: clip.Model, tokens: jax.Array, lengths: jax.Array) -> jax.Array:
    """Computes CLIP's embeddings of `tokens [b, t]` with true lengths `lengths [b]`."""
    return network.embed_text(tokens, lengths)


def _embed_images(
    network: clip.Model, pixels: jax.Array, how: preprocessing.Preprocessing
) -> jax.Array:
    """Computes CLIP's embeddings of uint8 `pixels [b, h, w, 3]`."""
    dtype = jax.tree.leaves(nnx.state(network))[0].dtype  # the network's
    return network.embed_image(preprocessing.normalize(pixels, how).astype(dtype))
