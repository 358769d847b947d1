"""A model family: a value that says how its checkpoints become a network."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import Field, dataclass
from itertools import repeat
from operator import attrgetter
from pathlib import Path
from types import MappingProxyType, UnionType
from typing import Any, ClassVar, Literal, NamedTuple, Protocol, get_args, get_origin

import jax
import jax.numpy as jnp
from flax import nnx
from tokenizers import Tokenizer

from batch_calibration.scoring.models import layers
from batch_calibration.scoring.models.attention import Attend
from batch_calibration.scoring.models.layers import TokenSet


class TokenId(int):
    """A field of a config that is a token's id, from 0 on, where other numbers are sizes."""


def _is_positive(number: Any) -> bool:
    """True of a positive, finite number; True and False are numbers to no config."""
    is_number = isinstance(number, int | float) and not isinstance(number, bool)
    return is_number and 0 < number < math.inf


FIELDS: dict[object, tuple[str, Callable[[Any], bool]]] = {
    int: ("a whole number from 1 on", lambda n: type(n) is int and n >= 1),
    TokenId: ("a token id, a whole number from 0 on", lambda i: type(i) is int and i >= 0),
    float: ("a positive number", _is_positive),
    bool: ("true or false", lambda setting: isinstance(setting, bool)),
    str: ("text", lambda setting: isinstance(setting, str)),
    tuple[int, ...]: ("a list of whole numbers", lambda member: type(member) is int),
    tuple[float, ...]: ("a list of positive numbers", _is_positive),
    tuple[str, ...]: ("a list of names", lambda member: isinstance(member, str)),
}  # fmt: skip
"""The types that a config's fields have: each in words, and what is true of a setting or of the
members of a list."""


def misfit(kind: object, setting: object) -> str:
    """The words for what a field of a config takes, where a setting is not that; else "".

    >>> misfit(int | None, 0), misfit(int | None, None)
    ('a whole number from 1 on, or null', '')
    """
    or_null = ""
    if isinstance(kind, UnionType):
        kind, or_null = get_args(kind)[0], ", or null"
    words, fits = FIELDS.get(kind, ("no such key", lambda _: False))
    if get_origin(kind) is tuple:
        is_right = isinstance(setting, tuple) and all(map(fits, setting))
    else:
        is_right = fits(setting)
    return "" if is_right or (or_null and setting is None) else words + or_null


RawConfig = dict[str, object]
"""The content of a `config.json`."""
Kind = Literal["causal_lm", "clip"]
"""The interface of a network: `CausalNetwork` or `clip.Model`."""


class CausalNetwork(Protocol):
    """A language model, scored by `CausalLM`: `attend` decides which tokens a token sees."""

    def hidden(self, tokens: jax.Array, positions: jax.Array, attend: Attend) -> jax.Array:
        """Final hidden states `[b, t, d]` of `tokens [b, t]` at `positions [b, t]`."""

    def unembed(self, h: jax.Array, token_set: TokenSet = None) -> jax.Array:
        """Logits `[..., v]` of hidden states `[..., d]`, of all tokens or of some."""


class Config(Protocol):
    """The fields that every family's config, a frozen dataclass, has."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    @property
    def vocab_size(self) -> int:
        """Tokens that the network embeds."""

    @property
    def positions(self) -> int:
        """Longest sequence the network has positions for."""

    @property
    def layers(self) -> int:
        """Blocks, of the deepest tower where there are several."""

    @property
    def width(self) -> int:
        """Hidden size."""

    @property
    def heads(self) -> int:
        """Attention heads."""


@dataclass(frozen=True, kw_only=True)
class TransformerConfig:
    """The fields that most `config.json` files share; a family adds its own to them."""

    vocab_size: int
    hidden_size: int
    num_hidden_layers: int
    num_attention_heads: int
    max_position_embeddings: int

    positions = property(attrgetter("max_position_embeddings"))
    layers = property(attrgetter("num_hidden_layers"))
    width = property(attrgetter("hidden_size"))
    heads = property(attrgetter("num_attention_heads"))


class Block(nnx.Module):
    """Attention and an MLP, each of normalized states and added to the residual stream.

    Attributes:
        ln_1: The norm of what attention reads.
        attention: Called with it, the layer's number, `attend`, and a term of `block_terms`.
        ln_2: The norm of what the MLP reads; None where that is what attention reads.
        mlp: The MLP.
        parallel: Whether the MLP reads the block's input, and not what attention added.
        multiplier: What both are multiplied by before they are added.
    """

    ln_1: Any
    attention: Any
    ln_2: Any
    mlp: Any
    parallel: bool = False
    multiplier: float = 1.0

    def __call__(self, h: jax.Array, layer: int, attend: Attend, *terms: object) -> jax.Array:
        """Add this block's attention and MLP to `h [b, t, d]`."""
        normed: jax.Array = self.ln_1(h)
        attended = h + self.attention(normed, layer, attend, *terms) * self.multiplier
        if self.ln_2 is not None:
            normed = self.ln_2(h if self.parallel else attended)
        result: jax.Array = attended + self.mlp(normed) * self.multiplier
        return result


MakePart = Callable[..., nnx.Module]


class Decoder(nnx.Module):
    """The parts that a family makes, from token embeddings to logits.

    Attributes:
        block: Makes a block from the config.
        embed: The token embeddings.
        multiplier: What these are multiplied by.
        position_embedding: The embeddings of positions that are added to them, if there are any.
        blocks: Called with the hidden states, their number, `attend`, and a term of `block_terms`.
        ln: The last norm, if there is one.
        head: The embeddings that logits are computed with; None: `embed`.
        scale: What logits are multiplied by.
    """

    block: ClassVar[MakePart]
    embed: nnx.Embed
    multiplier: float = 1.0
    position_embedding: Any = None
    blocks: Any
    ln: Any
    head: nnx.Embed | None = None
    scale: float = 1.0

    def make(
        self, config: Config, norm: MakePart, is_tied: bool, rngs: nnx.Rngs,
        windows: Sequence[int | None] = (), *, has_positions: bool = False,
    ) -> None:  # fmt: skip
        """Make these parts; blocks get a window each where there are `windows`."""
        given = [(window,) for window in windows] or repeat((), config.layers)
        self.embed = layers.embedding(config.vocab_size, config.width, rngs)
        if has_positions:
            self.position_embedding = layers.embedding(config.positions, config.width, rngs)
        self.blocks = nnx.List([self.block(config, *options, rngs=rngs) for options in given])
        self.ln = norm(rngs=rngs)
        if not is_tied:
            self.head = layers.embedding(config.vocab_size, config.width, rngs)

    def embedded(self, tokens: jax.Array, positions: jax.Array) -> jax.Array:
        """What the first block reads, `[b, t, d]`."""
        h: jax.Array = self.embed(tokens) * self.multiplier
        if self.position_embedding is not None:
            h = h + self.position_embedding(positions)
        return h

    def block_terms(self, positions: jax.Array, dtype: jnp.dtype) -> Iterable[tuple[object, ...]]:
        """What each block is given in addition, such as the rotation by positions."""
        return repeat(())

    def hidden(self, tokens: jax.Array, positions: jax.Array, attend: Attend) -> jax.Array:
        """Final hidden states `[b, t, d]` of `tokens [b, t]` at `positions [b, t]`."""
        h = self.embedded(tokens, positions)
        terms = self.block_terms(positions, h.dtype)
        for layer, (block, given) in enumerate(zip(self.blocks, terms, strict=False)):
            h = block(h, layer, attend, *given)
        return h if self.ln is None else self.ln(h)

    def unembed(self, h: jax.Array, token_set: TokenSet = None) -> jax.Array:
        """Logits `[..., v]` of hidden states `[..., d]`, of all tokens or of some."""
        table = self.embed if self.head is None else self.head
        return layers.logits(h, table.embedding[...], token_set) * self.scale


class Weight(NamedTuple):
    """Where a checkpoint's tensor lives in our network; `{i}` stands for a layer's number.

    Attributes:
        path: Our name.
        transpose: Whether the file holds it as `[out, in]`, ours being `[in, out]`.
        split: The axis of ours that the devices along a mesh's `model` share, None for no axis.
    """

    path: str
    transpose: bool = False  # torch's linear layers: True
    split: int | None = None  # norms, positions: held whole


def linear_weights(theirs: str, ours: str, split: int, transpose: bool = True) -> dict[str, Weight]:
    """The rows of a linear layer with a bias, split over devices by inputs (0) or outputs (1)."""
    return {
        f"{theirs}.weight": Weight(f"{ours}.kernel", transpose, split),
        f"{theirs}.bias": Weight(f"{ours}.bias", split=0 if split else None),
    }


OUT_PROJ = ("q_proj", "k_proj", "v_proj", "out_proj")


def attention_weights(
    theirs: str, ours: str, names: Sequence[str] = ("q_proj", "k_proj", "v_proj", "o_proj")
) -> dict[str, Weight]:
    """The rows of queries, keys, values and the output, which have these names in checkpoints."""
    rows: dict[str, Weight] = {}
    for name, part in zip(names, ("q", "k", "v", "out"), strict=True):
        rows |= linear_weights(f"{theirs}.{name}", f"{ours}.{part}", 0 if part == "out" else 1)
    return rows


def norm_weights(theirs: str, ours: str) -> dict[str, Weight]:
    """The rows of a layer norm with a bias."""
    return {f"{theirs}.weight": Weight(f"{ours}.scale"), f"{theirs}.bias": Weight(f"{ours}.bias")}


def decoder_weights(
    embed: str, layer: str, norms: Sequence[str], mlp: Sequence[str], ln: str, head: str = "",
    *, transpose: bool = True,
) -> dict[str, Weight]:  # fmt: skip
    """The rows of embeddings, norms with biases, two-layer MLPs and a head, by their names."""
    rows = {f"{embed}.weight": Weight("embed.embedding", split=0)}
    for theirs, ours in zip(norms, ("ln_1", "ln_2"), strict=False):
        rows |= norm_weights(f"{layer}.{theirs}", f"blocks.{{i}}.{ours}")
    for theirs, ours, split in zip(mlp, ("fc", "proj"), (1, 0), strict=True):
        rows |= linear_weights(f"{layer}.{theirs}", f"blocks.{{i}}.mlp.{ours}", split, transpose)
    rows |= norm_weights(ln, "ln")
    return rows | ({f"{head}.weight": Weight("head.embedding", split=0)} if head else {})


class Family(NamedTuple):
    """Networks of one architecture.

    Attributes:
        name: What error sentences call it.
        config: A frozen dataclass; its fields are keys of `config.json`.
        model: `(config, rngs=...)` -> the network.
        weights: The tensors of a checkpoint by their names there.
        kind: What its networks offer, and so which scorer takes them.
        prefixes: Beginnings of tensors' names that some files leave out.
        fixed: Keys of `config.json` and the only value each may have; the network knows no other.
        keys: Further keys of `config.json` that `flatten` reads.
        parts: Objects in `config.json` and the further keys of each; the other keys are as above.
        inert: Patterns of keys that change no score of this family (`config.INERT`: of any).
        tied: Tensors, prefixes removed, that must equal the weight of ours which does their work.
        ignored: Patterns of tensors, prefixes removed, that no score depends on: heads of other
            tasks, other towers, and buffers that transformers computes anew.
        flatten: Brings nested parts and older spellings of a config to the names of its fields.
        adapt_tokenizer: `(tokenizer, directory)`; makes what `tokenizer.json` says read text as the
            family's class in transformers does.
    """

    name: str
    config: type[Config]
    model: Callable[..., nnx.Module]
    weights: Mapping[str, Weight]
    kind: Kind = "causal_lm"
    prefixes: tuple[str, ...] = ("model.",)
    fixed: Mapping[str, object] = MappingProxyType({})
    keys: tuple[str, ...] = ()
    parts: Mapping[str, tuple[str, ...]] = MappingProxyType({})
    inert: tuple[str, ...] = ()
    tied: Mapping[str, str] = MappingProxyType({"lm_head.weight": "embed.embedding"})
    ignored: tuple[str, ...] = ()
    flatten: Callable[[RawConfig], RawConfig] = dict
    adapt_tokenizer: Callable[[Tokenizer, Path], None] | None = None
