"""Loads what the settings name: the scorer, its tokenizer, what asking a server will cost."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from batch_calibration.embedded import CHECKPOINTS
from batch_calibration.inputs import joined
from batch_calibration.prompts.rendered import RenderedContext
from batch_calibration.scoring import Scorer
from batch_calibration.scoring.table import SCORERS
from batch_calibration.settings import Settings

if TYPE_CHECKING:
    from batch_calibration.models.checkpoint import ModelFiles
    from batch_calibration.scoring.api.scorer import ApiScorer
    from batch_calibration.scoring.token_budget import TokenBudget


def open_model(settings: Settings) -> "ModelFiles | None":
    """The files of the model, or of its tokenizer alone where a server is asked; None: not named.

    Raises:
        InputError: no such directory, or no family has that architecture.
    """
    asks_server = SCORERS[settings.model.scorer].asks_server
    name = settings.api.tokenizer if asks_server else settings.model.model
    if not name:
        return None
    # Flax is loaded where a network is asked for: reading stored scores needs none.
    from batch_calibration.models.checkpoint import ModelFiles, find

    return ModelFiles(CHECKPOINTS[name] if name in CHECKPOINTS else find(name))


def load_scorer(
    settings: Settings, workdir: Path | None = None, files: "ModelFiles | None" = None
) -> Scorer:
    """The scorer that the settings name, its checkpoint loaded.

    Args:
        settings: the study's.
        workdir: where answers of a server are kept; None keeps them in memory.
        files: those of `open_model`, where they are open already.

    Raises:
        InputError: no model; settings that do not go together; a checkpoint that cannot be read.
    """
    return SCORERS[settings.model.scorer].load(settings, files or open_model(settings), workdir)


def load_token_budget(
    settings: Settings, files: "ModelFiles | None" = None
) -> "TokenBudget | None":
    """What the model's tokenizer and config alone say of a prompt; None where none is named."""
    files = files or open_model(settings)
    if files is None:
        return None
    from batch_calibration.scoring.token_budget import TokenBudget

    return TokenBudget(files.tokenizer_info)


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
