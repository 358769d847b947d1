"""Loads what the settings name: the scorer, its tokenizer, what asking a server will cost."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from batch_calibration.embedded import CHECKPOINTS
from batch_calibration.errors import InputError
from batch_calibration.inputs import joined
from batch_calibration.prompts.rendered import RenderedContext
from batch_calibration.scoring import Scorer
from batch_calibration.settings import ModelSettings, Settings

if TYPE_CHECKING:
    from batch_calibration.models.checkpoint import TokenizerInfo
    from batch_calibration.scoring.api.scorer import ApiScorer
    from batch_calibration.scoring.token_budget import TokenBudget

ANSWERS = "answers.sqlite"
"""The file of a workdir that keeps the answers of servers."""


def load_scorer(settings: Settings, workdir: Path | None = None) -> Scorer:
    """The scorer that the settings name, its checkpoint loaded.

    Args:
        settings: the study's.
        workdir: where answers of a server are kept; None keeps them in memory.

    Raises:
        InputError: no model; settings that do not go together; a checkpoint that cannot be read.
    """
    model = settings.model
    if model.scorer == "api":
        import jax

        if jax.process_count() > 1:
            raise InputError(
                "config.scorer: one process alone asks a server; leave --coordinator out."
            )
        return load_api_scorer(settings, workdir)
    # The networks are loaded where they are asked for: reading stored scores needs none.
    from batch_calibration.models.checkpoint import load_checkpoint
    from batch_calibration.scoring import sharding
    from batch_calibration.scoring.causal_lm import CausalLM
    from batch_calibration.scoring.dual_encoder import DualEncoder

    if not model.model:
        raise InputError(
            where="config.model",
            expected="a checkpoint directory",
            got="nothing",
            remedy="give one",
        )
    if model.logits_only and model.scorer != "causal_lm":
        raise InputError(
            "config.logits_only: cosines of a dual encoder have no softmax's denominator to leave "
            "out; leave it False, or score with a causal language model."
        )
    mesh = sharding.make_mesh(model.mesh)
    checkpoint = load_checkpoint(_directory(model.model), model.dtype, mesh)
    if model.scorer == "causal_lm":
        return CausalLM(checkpoint, model.batch_size, model.logits_only)
    return DualEncoder(
        checkpoint, scale=model.scale, max_tokens=model.max_tokens, batch_size=model.batch_size
    )


def load_api_scorer(settings: Settings, workdir: Path | None = None) -> "ApiScorer":
    """The scorer that asks a server; nothing is sent yet.

    Raises:
        InputError: as in `load_scorer`; a setting of networks that are run here.
    """
    from batch_calibration.scoring.api.scorer import ApiScorer

    usual = ModelSettings()
    for name in ("dtype", "mesh", "logits_only"):
        if getattr(settings.model, name) != getattr(usual, name):
            raise InputError(
                f"config.{name}: it is for networks that are run here, and config.scorer=api asks "
                f"a server; leave it at {getattr(usual, name)!r}."
            )
    answers = workdir / ANSWERS if workdir else None
    return ApiScorer(settings.api, settings.model.model, _load_tokenizer(settings), answers)


def load_token_budget(settings: Settings) -> "TokenBudget | None":
    """What the model's tokenizer and config alone say of a prompt; None where none is named."""
    tokenizer = _load_tokenizer(settings)
    if tokenizer is None:
        return None
    from batch_calibration.scoring.token_budget import TokenBudget

    return TokenBudget(tokenizer)


def _load_tokenizer(settings: Settings) -> "TokenizerInfo | None":
    api = settings.model.scorer == "api"
    name = settings.api.tokenizer if api else settings.model.model
    if not name:
        return None
    from batch_calibration.models.checkpoint import load_tokenizer

    return load_tokenizer(_directory(name))


def _directory(model: str) -> Path:
    from batch_calibration.models.checkpoint import find

    return CHECKPOINTS[model] if model in CHECKPOINTS else find(model)


class ApiCost(NamedTuple):
    """What asking a server about some contexts will cost.

    Attributes:
        requests: that have no answer yet.
        tokens: sent with them.
        dollars: for these.
        answered: requests that earlier runs asked.
    """

    requests: int
    tokens: int
    dollars: float
    answered: int

    def __str__(self) -> str:
        price = f", ${self.dollars:,.2f} at config.price" if self.dollars else ""
        known = f"; {self.answered:,} more were answered before" if self.answered else ""
        return f"{self.requests:,} requests, about {self.tokens:,} tokens{price}{known}"


def api_cost(
    lacking: Iterable[tuple[RenderedContext, Iterable[str]]], scorer: "ApiScorer"
) -> ApiCost:
    """What asking about these blocks of these contexts will cost.

    Args:
        lacking: contexts and the names of their blocks that are to be scored.
        scorer: asks the server.
    """
    requests = tokens = answered = 0
    for context, names in lacking:
        wanted = [context.blocks[name].inputs for name in names]
        if wanted:
            found = scorer.estimate(joined(wanted), context.label_texts)
            requests, tokens = requests + found.requests, tokens + found.tokens
            answered += found.answered
    return ApiCost(requests, tokens, tokens / 1e6 * scorer.settings.price, answered)
