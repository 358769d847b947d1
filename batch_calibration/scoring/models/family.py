"""A model family: describes how the checkpoints of one architecture become a network."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import Field, dataclass
from itertools import islice, repeat
from operator import attrgetter
from pathlib import Path
from types import MappingProxyType, UnionType
from typing import Any, ClassVar, Literal, NamedTuple, Protocol, get_args, get_origin

import jax
import jax.numpy as jnp
from flax import nnx
from tokenizers import Tokenizer

from batch_calibration.errors import InputError
from batch_calibration.scoring.models import layers
from batch_calibration.scoring.models.attention import Attend, Kept, Layer
from batch_calibration.scoring.models.layers import TokenSet
from batch_calibration.scoring.models.scanned import ScannedBlocks, stack_blocks


class TokenId(int):
    """The type of a config field that holds a token id: 0 is allowed, unlike for `int` fields."""


def _is_positive(number: Any) -> bool:
    """Checks whether a value is a positive, finite number; True and False are not numbers."""
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
"""The types of config fields, each with a description and a check (of each element for lists)."""


def misfit(kind: object, setting: object) -> str:
    """Describes the allowed values of a config field if `setting` is not one of them; else "".

    >>> misfit(int | None, 0), misfit(int | None, None)
    ('a whole number from 1 on, or null', '')
    """
    or_null = ""
    if isinstance(kind, UnionType):
        kind, or_null = get_args(kind)[0], ", or null"
    words, fits = FIELDS.get(kind, ("no value", lambda _: False))
    if get_origin(kind) is tuple:
        is_right = isinstance(setting, tuple) and all(map(fits, setting))
    else:
        is_right = fits(setting)
    return "" if is_right or (or_null and setting is None) else words + or_null


RawConfig = dict[str, object]
"""The content of a `config.json`."""


def misread(
    name: str, setting: object, expected: str, remedy: str = "fetch the file again", where: str = ""
) -> InputError:
    """Returns the error for a setting of `config.json`, in the directory `where`."""
    at = f"{where}: config.json" if where else "config.json"
    return InputError.at(at, expected, f"{name} = {setting!r:.200}", remedy)


Kind = Literal["causal_lm", "clip"]
"""The interface of a network: `CausalNetwork` or `clip.Model`."""


class CausalNetwork(Protocol):
    """The interface of a causal language model; `attend` decides which tokens a token sees."""

    def hidden(
        self, tokens: jax.Array, positions: jax.Array, attend: Attend, kept: Kept | None = None
    ) -> jax.Array:
        """Computes final hidden states `[b, t, d]` of `tokens [b, t]` at `positions [b, t]`.

        `kept` is the list to which `attend` appends the keys and values of each layer, if it does.
        """

    def unembed(self, h: jax.Array, token_set: TokenSet = None) -> jax.Array:
        """Computes logits `[..., v]` of hidden states `[..., d]` for `token_set` (None: all)."""


class Config(Protocol):
    """The properties of every family's config, a frozen dataclass."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    @property
    def vocab_size(self) -> int:
        """The number of token embeddings."""

    @property
    def positions(self) -> int:
        """The longest sequence that the network supports."""

    @property
    def layers(self) -> int:
        """The number of blocks; with several towers, the number in the deepest."""

    @property
    def width(self) -> int:
        """The hidden size."""

    @property
    def heads(self) -> int:
        """The number of attention heads."""


@dataclass(frozen=True, kw_only=True)
class TransformerConfig:
    """The fields that most `config.json` files share; a family adds its own fields."""

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
    """A residual block of attention and an MLP, both with a norm before them.

    Attributes:
        ln_1: The norm before attention.
        attention: The attention; called with normalized states, the layer's index, `attend` and
            the layer's terms of `block_terms`.
        ln_2: The norm before the MLP, or None to reuse the normalized states of attention.
        mlp: The MLP.
        parallel: Whether the MLP reads the block's input instead of attention's residual output.
        multiplier: The factor of the outputs of attention and MLP before they are added.
    """

    ln_1: Any
    attention: Any
    ln_2: Any
    mlp: Any
    parallel: bool = False
    multiplier: float = 1.0

    def __call__(self, h: jax.Array, layer: Layer, attend: Attend, *terms: object) -> jax.Array:
        """Adds this block's attention and MLP to `h [b, t, d]`."""
        normed: jax.Array = self.ln_1(h)
        attended = h + self.attention(normed, layer, attend, *terms) * self.multiplier
        if self.ln_2 is not None:
            normed = self.ln_2(h if self.parallel else attended)
        result: jax.Array = attended + self.mlp(normed) * self.multiplier
        return result


MakePart = Callable[..., nnx.Module]


class Decoder(nnx.Module):
    """A decoder: token embeddings, blocks, a final norm and an output layer.

    Attributes:
        block: Makes a block from the config.
        embed: The token embeddings.
        multiplier: The factor of the token embeddings.
        position_embedding: Learned position embeddings that are added to them, or None.
        blocks: The blocks; called with hidden states, the layer's index, `attend` and the layer's
            terms of `block_terms`.
        ln: The final norm, or None.
        head: The output embeddings, or None for tied embeddings (`embed`).
        scale: The factor of the logits.
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
        """Makes these parts; `windows` has the attention window of each block."""
        given = [(window,) for window in windows] or repeat((), config.layers)
        self.embed = layers.embedding(config.vocab_size, config.width, rngs)
        if has_positions:
            self.position_embedding = layers.embedding(config.positions, config.width, rngs)
        self.blocks = nnx.List([self.block(config, *options, rngs=rngs) for options in given])
        self.ln = norm(rngs=rngs)
        if not is_tied:
            self.head = layers.embedding(config.vocab_size, config.width, rngs)

    def embedded(self, tokens: jax.Array, positions: jax.Array) -> jax.Array:
        """Computes the input of the first block, `[b, t, d]`."""
        h: jax.Array = self.embed(tokens) * self.multiplier
        if self.position_embedding is not None:
            h = h + self.position_embedding(positions)
        return h

    def block_terms(self, positions: jax.Array, dtype: jnp.dtype) -> Iterable[tuple[object, ...]]:
        """Yields the additional arguments of each block, such as the rotation by positions."""
        return repeat(())

    def hidden(
        self, tokens: jax.Array, positions: jax.Array, attend: Attend, kept: Kept | None = None
    ) -> jax.Array:
        """Computes final hidden states `[b, t, d]`, as in `CausalNetwork`."""
        h = self.embedded(tokens, positions)
        terms = self.block_terms(positions, h.dtype)
        if isinstance(self.blocks, ScannedBlocks):
            h = self.blocks(h, attend, terms, [] if kept is None else kept)
        else:
            for layer, (block, given) in enumerate(zip(self.blocks, terms, strict=False)):
                h = block(h, layer, attend, *given)
        return h if self.ln is None else self.ln(h)

    def scan_layers(self, *, frees: bool = False) -> None:
        """Stacks the blocks that repeat, so that one compiled body runs them; see `scanned`."""
        blocks = list(self.blocks)
        terms = self.block_terms(jnp.zeros((1, 1), jnp.int32), jnp.dtype(jnp.float32))
        if stacked := stack_blocks(blocks, list(islice(terms, len(blocks))), frees=frees):
            self.blocks = stacked

    def unembed(self, h: jax.Array, token_set: TokenSet = None) -> jax.Array:
        """Computes logits `[..., v]` of hidden states `[..., d]` for `token_set` (None: all)."""
        table = self.embed if self.head is None else self.head
        return layers.logits(h, table.embedding[...], token_set) * self.scale


class Weight(NamedTuple):
    """The place of a checkpoint's tensor in our network; `{i}` is the index of a layer.

    Attributes:
        path: Our name of the weight.
        transpose: Whether the file stores the transpose, `[out, in]` for our `[in, out]`.
        split: The axis that is sharded over the mesh axis `model`; None: not sharded.
    """

    path: str
    transpose: bool = False  # True for torch's linear layers
    split: int | None = None  # None for norms and positions


def linear_weights(theirs: str, ours: str, split: int, transpose: bool = True) -> dict[str, Weight]:
    """Returns the weights of a linear layer with a bias, sharded by inputs (0) or outputs (1)."""
    return {
        f"{theirs}.weight": Weight(f"{ours}.kernel", transpose, split),
        f"{theirs}.bias": Weight(f"{ours}.bias", split=0 if split else None),
    }


OUT_PROJ = ("q_proj", "k_proj", "v_proj", "out_proj")


def attention_weights(
    theirs: str, ours: str, names: Sequence[str] = ("q_proj", "k_proj", "v_proj", "o_proj")
) -> dict[str, Weight]:
    """Returns the weights of queries, keys, values and output, given their names in checkpoints."""
    rows: dict[str, Weight] = {}
    for name, part in zip(names, ("q", "k", "v", "out"), strict=True):
        rows |= linear_weights(f"{theirs}.{name}", f"{ours}.{part}", 0 if part == "out" else 1)
    return rows


def norm_weights(theirs: str, ours: str) -> dict[str, Weight]:
    """Returns the weights of a layer norm with a bias."""
    return {f"{theirs}.weight": Weight(f"{ours}.scale"), f"{theirs}.bias": Weight(f"{ours}.bias")}


def decoder_weights(
    embed: str, layer: str, norms: Sequence[str], mlp: Sequence[str], ln: str, head: str = "",
    *, transpose: bool = True,
) -> dict[str, Weight]:  # fmt: skip
    """Returns the weights of embeddings, norms with biases, two-layer MLPs and a head, by name."""
    rows = {f"{embed}.weight": Weight("embed.embedding", split=0)}
    for theirs, ours in zip(norms, ("ln_1", "ln_2"), strict=False):
        rows |= norm_weights(f"{layer}.{theirs}", f"blocks.{{i}}.{ours}")
    for theirs, ours, split in zip(mlp, ("fc", "proj"), (1, 0), strict=True):
        rows |= linear_weights(f"{layer}.{theirs}", f"blocks.{{i}}.mlp.{ours}", split, transpose)
    rows |= norm_weights(ln, "ln")
    return rows | ({f"{head}.weight": Weight("head.embedding", split=0)} if head else {})


class Family(NamedTuple):
    """The networks of one architecture.

    Attributes:
        name: Its name in error messages.
        config: A frozen dataclass with keys of `config.json` as fields.
        model: `(config, rngs=...)` -> the network.
        weights: The tensors of a checkpoint, keyed by their names in the file.
        kind: The interface of the network, which decides its scorer.
        prefixes: Prefixes of tensor names that some files leave out.
        fixed: Keys of `config.json` that this network supports with only one value, and the value.
        keys: Further keys of `config.json` that `flatten` reads.
        parts: Nested objects of `config.json` and their additional keys; other keys are as above.
        inert: Patterns of keys that change no score of this family (`config.INERT`: of any family).
        tied: Tensors, without prefixes, that must equal the weight of ours that replaces them.
        ignored: Patterns of tensors, without prefixes, that change no score: heads of other tasks,
            other towers, and buffers that transformers computes itself.
        flatten: Renames keys of nested objects and of older files to the config's fields.
        adapt_tokenizer: `(tokenizer, directory)`; changes the tokenizer of `tokenizer.json` to read
            text as the family's tokenizer class in transformers does.
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
