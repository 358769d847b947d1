"""The scorers, a line for each: what other rooms ask of one before its code and weights are loaded.

A new scorer is a file, its line here, and its name in `settings.ScorerKind`.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from batch_calibration.errors import InputError
from batch_calibration.scoring import Scorer
from batch_calibration.settings import ModelSettings, Settings

# Flax and the tokenizers are loaded by the functions below: reading stored scores needs neither.
if TYPE_CHECKING:
    from batch_calibration.models.checkpoint import Checkpoint, ModelFiles
    from batch_calibration.scoring.token_budget import Cost, TokenBudget

ANSWERS = "answers.sqlite"
"""The file of a workdir that keeps the answers of servers."""

Load = Callable[[Settings, "ModelFiles | None", Path | None], Scorer]
CountTokens = Callable[["TokenBudget", Sequence[str], Sequence[str], ModelSettings], "Cost"]


class ScorerFacts(NamedTuple):
    """What is known of a scorer before it is loaded.

    Attributes:
        load: `(settings, files, workdir)` -> the scorer; `files` are those of the model, or of its
            tokenizer alone for a server; None of either where there is none.
        count_tokens: `(budget, texts, labels, settings)` -> what asking about them costs; None
            where a server is asked, which counts requests too.
        cost_note: What the second of these numbers means, to be printed below it.
        asks_server: Whether a server runs the model: then no checkpoint and no device are needed.
        compares_statements: Whether a text is compared with a statement for each label, so that
            there is no prompt, no demonstration and no boundary between prompt and label.
        reads_images: Whether it takes images.
        why_no_log_probs: Why its scores are no log-probabilities over the vocabulary: "" where
            they are, None where a table's values must be looked at.
    """

    load: Load
    count_tokens: CountTokens | None = None
    cost_note: str = ""
    asks_server: bool = False
    compares_statements: bool = False
    reads_images: bool = False
    why_no_log_probs: str | None = None


def _load_causal_lm(settings: Settings, files: "ModelFiles | None", _: Path | None) -> Scorer:
    from batch_calibration.scoring.causal_lm import CausalLM

    model = settings.model
    return CausalLM(_load_weights(files, model), model.batch_size, model.logits_only)


def _load_dual_encoder(settings: Settings, files: "ModelFiles | None", _: Path | None) -> Scorer:
    from batch_calibration.scoring.dual_encoder import DualEncoder

    model = settings.model
    if files and model.logits_only:
        raise InputError(
            "config.logits_only: cosines of a dual encoder have no softmax's denominator to leave "
            "out; leave it False, or score with a causal language model."
        )
    return DualEncoder(_load_weights(files, model), model.scale, model.max_tokens, model.batch_size)


def _load_api(settings: Settings, files: "ModelFiles | None", workdir: Path | None) -> Scorer:
    """The scorer that asks a server; nothing is sent yet."""
    import jax

    from batch_calibration.scoring.api.scorer import ApiScorer

    if jax.process_count() > 1:
        raise InputError("config.scorer: one process alone asks a server; leave --coordinator out.")
    usual = ModelSettings()
    for name in ("dtype", "mesh", "logits_only"):
        if getattr(settings.model, name) != getattr(usual, name):
            raise InputError(
                f"config.{name}: it is for networks that are run here, and config.scorer=api asks "
                f"a server; leave it at {getattr(usual, name)!r}."
            )
    tokenizer = files.tokenizer_info if files else None
    answers = workdir / ANSWERS if workdir else None
    return ApiScorer(settings.api, settings.model.model, tokenizer, answers)


def _load_weights(files: "ModelFiles | None", model: ModelSettings) -> "Checkpoint":
    from batch_calibration.scoring import sharding

    if files is None:
        raise InputError(
            where="config.model",
            expected="a checkpoint directory",
            got="nothing",
            remedy="give one",
        )
    return files.load(model.dtype, sharding.make_mesh(model.mesh))


SCORERS: MappingProxyType[str, ScorerFacts] = MappingProxyType({
    "causal_lm": ScorerFacts(
        _load_causal_lm,
        lambda budget, texts, labels, _: budget.cost(texts, labels),
        "asked: what prompts share is run once, labels as a trie",
        why_no_log_probs="",
    ),
    "dual_encoder": ScorerFacts(
        _load_dual_encoder,
        lambda budget, texts, labels, model: budget.cut_cost([*texts, *labels], model.max_tokens),
        "asked: what is left of texts longer than config.max_tokens",
        compares_statements=True,
        reads_images=True,
        why_no_log_probs="these are scaled cosines (dual_encoder)",
    ),
    "api": ScorerFacts(_load_api, asks_server=True),
})  # fmt: skip
