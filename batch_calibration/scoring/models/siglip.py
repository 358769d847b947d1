"""SigLIP: CLIP's two towers without end and class tokens; attention pools the patches."""

import string
from dataclasses import dataclass
from pathlib import Path

import jax
import jax.numpy as jnp
from flax import nnx
from tokenizers import Regex, Tokenizer, normalizers

from batch_calibration.errors import InputError
from batch_calibration.scoring.models import clip, layers
from batch_calibration.scoring.models.attention import Heads, full
from batch_calibration.scoring.models.family import TokenId, Weight, linear_weights, norm_weights
from batch_calibration.scoring.models.files.config import read_json

DEFAULT_PADDING = TokenId(1)
TOKENIZER_CLASS = "SiglipTokenizer"
AS_IT_STANDS = ("PreTrainedTokenizer", "TokenizersBackend")
"""Tokenizer classes that use `tokenizer.json` without changes."""


@dataclass(frozen=True, kw_only=True)
class Config(clip.Config):
    """The sizes of both towers, as in `clip.Config`, with SigLIP's defaults."""

    text_vocab_size: int = 32000
    text_hidden_size: int = 768
    text_intermediate_size: int = 3072
    text_num_attention_heads: int = 12
    text_max_position_embeddings: int = 64
    text_hidden_act: str = "gelu_pytorch_tanh"
    text_layer_norm_eps: float = 1e-6
    text_pad_token_id: TokenId = DEFAULT_PADDING
    text_projection_size: int | None = None  # None: the hidden size
    vision_patch_size: int = 16
    vision_hidden_act: str = "gelu_pytorch_tanh"
    vision_layer_norm_eps: float = 1e-6

    @property
    def image_tokens(self) -> int:
        """The number of positions in the vision tower: the patches."""
        return super().image_tokens - 1


class Text(nnx.Module):
    """The bidirectional tower of captions; its output is read at the last position."""

    def __init__(self, config: Config, *, rngs: nnx.Rngs):
        shape = clip.Shape.of(config, "text")
        self.padding = config.text_pad_token_id
        self.positions = config.text_max_position_embeddings
        self.token_embedding = layers.embedding(config.text_vocab_size, shape.width, rngs)
        self.position_embedding = layers.embedding(self.positions, shape.width, rngs)
        self.blocks = nnx.List([clip.Block(shape, rngs=rngs) for _ in range(shape.layers)])
        self.ln = clip.norm(shape, rngs)
        self.head = layers.linear(shape.width, config.text_projection_size or shape.width, rngs)

    def __call__(self, tokens: jax.Array, lengths: jax.Array) -> jax.Array:
        """Computes embeddings `[b, p]` of `tokens [b, t]` of captions with `lengths [b]`.

        Captions are padded to all positions, and padding is attended to, as in training.
        """
        lacking = max(0, self.positions - tokens.shape[1])
        tokens = jnp.pad(tokens[:, : self.positions], ((0, 0), (0, lacking)))
        position = jnp.arange(self.positions)
        tokens = jnp.where(position < lengths[:, None], tokens, self.padding)
        h = self.token_embedding(tokens) + self.position_embedding(position)
        for layer, block in enumerate(self.blocks):
            h = block(h, layer, full)
        return self.head(self.ln(h[:, -1]))


class Pooling(nnx.Module):
    """Attention of one learned query over all patches, then an MLP."""

    def __init__(self, shape: clip.Shape, *, rngs: nnx.Rngs):
        width = shape.width
        self.heads = shape.heads
        self.probe = layers.parameter(rngs, 1, 1, width)
        self.qkv = layers.linear(width, 3 * width, rngs)
        self.out = layers.linear(width, width, rngs)
        self.ln = clip.norm(shape, rngs)
        self.mlp = layers.MLP(width, shape.inner, shape.act, rngs)

    def __call__(self, h: jax.Array) -> jax.Array:
        """Pools the patches `h [b, patches, d]` to one embedding `[b, d]`."""
        b, _, d = h.shape
        query, _, _ = jnp.split(self.qkv(self.probe[...]), 3, axis=-1)  # [1, 1, d]
        _, key, value = jnp.split(self.qkv(h), 3, axis=-1)
        queries = jnp.broadcast_to(query, (b, 1, d))
        q, k, v = (x.reshape(*x.shape[:-1], self.heads, -1) for x in (queries, key, value))
        pooled = self.out(full(0, Heads(q, k, v)).reshape(b, d))
        return pooled + self.mlp(self.ln(pooled))


class Vision(nnx.Module):
    """The tower of images cut into square patches."""

    def __init__(self, config: Config, *, rngs: nnx.Rngs):
        shape, edge = clip.Shape.of(config, "vision"), config.vision_patch_size
        self.patch = layers.parameter(rngs, edge, edge, 3, shape.width)
        self.patch_bias = nnx.Param(jnp.zeros(shape.width))
        self.position_embedding = layers.parameter(rngs, config.image_tokens, shape.width)
        self.blocks = nnx.List([clip.Block(shape, rngs=rngs) for _ in range(shape.layers)])
        self.ln = clip.norm(shape, rngs)
        self.pooling = Pooling(shape, rngs=rngs)

    def __call__(self, pixels: jax.Array) -> jax.Array:
        """Computes embeddings `[b, p]` of `pixels [b, h, w, 3]`."""
        h = clip.embed_patches(pixels, self.patch[...]) + self.patch_bias[...]
        h = h + self.position_embedding[...]  # [b, patches, d]
        for layer, block in enumerate(self.blocks):
            h = block(h, layer, full)
        return self.pooling(self.ln(h))


class Model(clip.Model):
    """SigLIP (Zhai et al. 2023), loadable from a Hugging Face `siglip` directory."""

    def __init__(self, config: Config, *, rngs: nnx.Rngs):
        self.text, self.vision = Text(config, rngs=rngs), Vision(config, rngs=rngs)
        self.log_scale = nnx.Param(jnp.zeros(1))
        # SigLIP adds it to each logit before a sigmoid. Scores do not depend on it.
        self.logit_bias = nnx.Param(jnp.zeros(1))


HEAD, POOLING = "vision_model.head", "vision.pooling"
EMBEDDINGS = "vision_model.embeddings"


def canonicalize(tokenizer: Tokenizer, directory: Path) -> None:
    """Changes a tokenizer to read text as SigLIP's tokenizer class in transformers does.

    Before the steps of `tokenizer.json`, that class lowercases text, drops ASCII punctuation and
    joins white space. Repeating these steps is harmless if the file has them, too.

    Raises:
        InputError: The file names another class, as SigLIP 2 does, which pads captions differently.
    """
    path = directory / "tokenizer_config.json"
    options = read_json(path, "a tokenizer config") if path.is_file() else {}
    name = str(options.get("tokenizer_class", TOKENIZER_CLASS)).removesuffix("Fast")
    if name in AS_IT_STANDS:
        return
    if name != TOKENIZER_CLASS:
        expected, remedy = (
            f"tokenizer_class {TOKENIZER_CLASS}",
            "use a checkpoint of the first SigLIP",
        )
        raise InputError.at(path, expected, name, remedy)
    punctuation = "".join(f"\\{mark}" for mark in string.punctuation)
    before = [normalizers.Lowercase()] if options.get("do_lower_case", True) else []
    steps = [
        *before,
        normalizers.Replace(Regex(f"[{punctuation}]"), ""),
        # Python's white space includes four control characters that \s does not match here.
        normalizers.Replace(Regex(r"[\s\x1c-\x1f]+"), " "),
        normalizers.Strip(),
    ]
    after = [tokenizer.normalizer] if tokenizer.normalizer else []
    tokenizer.normalizer = normalizers.Sequence([*steps, *after])


WEIGHTS = {
    "logit_scale": Weight("log_scale"),
    "logit_bias": Weight("logit_bias"),
    **clip.CAPTION_WEIGHTS,
    **linear_weights("text_model.head", "text.head", 1),
    f"{EMBEDDINGS}.patch_embedding.weight": Weight("vision.patch", True),
    f"{EMBEDDINGS}.patch_embedding.bias": Weight("vision.patch_bias"),
    f"{EMBEDDINGS}.position_embedding.weight": Weight("vision.position_embedding"),
    **clip.tower_weights("vision_model", "vision"),
    **norm_weights("vision_model.post_layernorm", "vision.ln"),
    f"{HEAD}.probe": Weight(f"{POOLING}.probe"),
    f"{HEAD}.attention.in_proj_weight": Weight(f"{POOLING}.qkv.kernel", True, 1),
    f"{HEAD}.attention.in_proj_bias": Weight(f"{POOLING}.qkv.bias", split=0),
    **linear_weights(f"{HEAD}.attention.out_proj", f"{POOLING}.out", 0),
    **norm_weights(f"{HEAD}.layernorm", f"{POOLING}.ln"),
    **linear_weights(f"{HEAD}.mlp.fc1", f"{POOLING}.mlp.fc", 1),
    **linear_weights(f"{HEAD}.mlp.fc2", f"{POOLING}.mlp.proj", 0),
}
FAMILY = clip.FAMILY._replace(
    name="siglip",
    config=Config,
    model=Model,
    weights=WEIGHTS,
    fixed={"vision_num_channels": 3, "vision_vision_use_head": True},
    parts={
        "text_config": clip.tower_keys(Config, "text"),
        "vision_config": (*clip.tower_keys(Config, "vision"), "vision_use_head"),
    },
    adapt_tokenizer=canonicalize,
)
