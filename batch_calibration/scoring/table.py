"""The scorers, one entry each, with facts that are known before code and weights are loaded.

A new scorer is a file, an entry here, and its name in `settings.ScorerKind`.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple, Protocol, cast

from batch_calibration.errors import InputError, spell
from batch_calibration.scoring import Scorer
from batch_calibration.settings import ModelSettings, Settings, refuse_changed

# The functions below load Flax and the tokenizers, because reading stored scores needs neither.
if TYPE_CHECKING:
    from batch_calibration.scoring.engine.token_budget import Cost, TokenBudget
    from batch_calibration.scoring.models.files import checkpoint
    from batch_calibration.scoring.models.files.chat_template import ChatTemplate
    from batch_calibration.scoring.models.files.transformers_files import TransformersFiles

ANSWERS = "answers.sqlite"
"""The file of a workdir that stores the answers of servers."""


class OpenFiles(Protocol):
    """A checkpoint directory with its config and tokenizer read, before its weights are read."""

    @property
    def tokenizer_info(self) -> "checkpoint.TokenizerInfo":
        """The tokenizer and the way the model reads text."""

    @property
    def chat_template(self) -> "ChatTemplate | None":
        """The template for the messages of a chat, or None without one."""


Load = Callable[[Settings, OpenFiles | None, Path | None], Scorer]
CountTokens = Callable[["TokenBudget", Sequence[str], Sequence[str], ModelSettings], "Cost"]


def _open_checkpoint(directory: Path, model: ModelSettings) -> "checkpoint.ModelFiles":
    from batch_calibration.scoring.models.files.checkpoint import ModelFiles

    return ModelFiles(directory, model.accept_keys)


def _open_transformers(directory: Path, _: ModelSettings) -> "TransformersFiles":
    from batch_calibration.scoring.models.files.transformers_files import TransformersFiles

    return TransformersFiles(directory)


def _require(files: OpenFiles | None) -> OpenFiles:
    if files is None:
        expected = "a checkpoint directory"
        raise InputError(key="model", expected=expected, got="nothing", remedy="give one")
    return files


class ScorerFacts(NamedTuple):
    """Facts of a scorer that are known before it is loaded.

    Attributes:
        load: maps `(settings, files, workdir)` to the scorer. `files` is the model's directory, or
            the tokenizer's for a server. `files` and `workdir` may be None.
        count_tokens: maps `(budget, texts, labels, settings)` to the cost of scoring; None for a
            server, which counts requests too.
        cost_note: The meaning of the second number of the cost, printed below it.
        asks_server: Whether a server runs the model, so that no checkpoint and no device are
            needed.
        compares_statements: Whether a text is compared with a statement for each label. Then there
            are no prompts, no demonstrations and no boundary between prompt and label.
        reads_images: Whether it scores images.
        open_files: The function that reads the config and the tokenizer of a directory.
    """

    load: Load
    count_tokens: CountTokens | None = None
    cost_note: str = ""
    asks_server: bool = False
    compares_statements: bool = False
    reads_images: bool = False
    open_files: "Callable[[Path, ModelSettings], OpenFiles]" = _open_checkpoint


def _load_causal_lm(settings: Settings, files: OpenFiles | None, _: Path | None) -> Scorer:
    from batch_calibration.scoring.causal_lm import CausalLM

    model = settings.model
    return CausalLM(_load_weights(files, model), model.batch_size, model.logits_only)


def _load_dual_encoder(settings: Settings, files: OpenFiles | None, _: Path | None) -> Scorer:
    from batch_calibration.scoring.dual_encoder import DualEncoder

    model = settings.model
    if files and model.logits_only:
        expected = "False, because cosines have no softmax denominator to leave out"
        raise InputError.at("", expected, "True", key="logits_only")
    return DualEncoder(_load_weights(files, model), model.scale, model.max_tokens, model.batch_size)


def _load_transformers(settings: Settings, files: OpenFiles | None, _: Path | None) -> Scorer:
    from batch_calibration.scoring.transformers_lm import TransformersLM

    model, why = settings.model, "transformers runs this network, not this package"
    refuse_changed(model, ("mesh", "logits_only", "accept_keys"), why)
    checkpoint = cast("TransformersFiles", _require(files)).load(model.dtype)
    return TransformersLM(checkpoint, model.batch_size)


def _load_api(settings: Settings, files: OpenFiles | None, workdir: Path | None) -> Scorer:
    """Loads the scorer that asks a server; it sends nothing yet."""
    import jax

    from batch_calibration.scoring.api.scorer import ApiScorer

    if jax.process_count() > 1:
        remedy = f"omit {spell('coordinator')}"
        raise InputError.at("", "one process that asks a server", "several", remedy, "scorer")
    why = f"{spell('scorer', 'api')} asks a server"
    refuse_changed(settings.model, ("dtype", "mesh", "logits_only"), why)
    tokenizer = files.tokenizer_info if files else None
    answers = workdir / ANSWERS if workdir else None
    return ApiScorer(settings.api, settings.model.model, tokenizer, answers)


def _load_weights(files: OpenFiles | None, model: ModelSettings) -> "checkpoint.Checkpoint":
    from batch_calibration.scoring.engine import sharding

    opened = cast("checkpoint.ModelFiles", _require(files))
    return opened.load(model.dtype, sharding.make_mesh(model.mesh))


SCORERS: MappingProxyType[str, ScorerFacts] = MappingProxyType({
    "causal_lm": ScorerFacts(
        _load_causal_lm,
        lambda budget, texts, labels, _: budget.cost(texts, labels),
        "positions: shared prefixes run once, labels run as a trie",
    ),
    "dual_encoder": ScorerFacts(
        _load_dual_encoder,
        lambda budget, texts, labels, model: budget.cut_cost([*texts, *labels], model.max_tokens),
        "positions: texts longer than max_tokens are cut there",
        compares_statements=True,
        reads_images=True,
    ),
    "transformers": ScorerFacts(
        _load_transformers,
        lambda budget, texts, labels, _: budget.cost(texts, labels),
        "positions: shared prefixes run once",
        open_files=_open_transformers,
    ),
    "api": ScorerFacts(_load_api, asks_server=True),
})  # fmt: skip
