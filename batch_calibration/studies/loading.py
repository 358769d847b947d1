"""Loads the scorer, the tokenizer and the texts of rows; estimates the cost of asking a server."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from batch_calibration.scoring import Scorer
from batch_calibration.scoring.embedded import CHECKPOINTS
from batch_calibration.scoring.inputs import joined
from batch_calibration.scoring.prompts.rendered import RenderedContext
from batch_calibration.scoring.table import SCORERS, OpenFiles
from batch_calibration.settings import Settings

if TYPE_CHECKING:
    from batch_calibration.scoring.api.client import ApiCost
    from batch_calibration.scoring.api.scorer import ApiScorer
    from batch_calibration.scoring.engine.token_budget import TokenBudget


def open_model(settings: Settings) -> OpenFiles | None:
    """Opens the files of the model; for a server, only the tokenizer's.

    Returns None unless the settings name a model or tokenizer.

    Raises:
        InputError: the directory is missing, or no model family has the checkpoint's architecture.
    """
    asks_server = SCORERS[settings.model.scorer].asks_server
    name = settings.api.tokenizer if asks_server else settings.model.model
    if not name:
        return None
    # Imported here because it loads Flax, which stored scores do not need.
    from batch_calibration.scoring.models.files.checkpoint import find

    directory = CHECKPOINTS[name] if name in CHECKPOINTS else find(name)
    return SCORERS[settings.model.scorer].open_files(directory, settings.model)


def load_scorer(
    settings: Settings, workdir: Path | None = None, files: OpenFiles | None = None
) -> Scorer:
    """Loads the scorer that the settings name, with its checkpoint.

    Args:
        settings: settings of the study.
        workdir: folder that stores a server's answers; None keeps them in memory.
        files: the result of `open_model`; None opens the files.

    Raises:
        InputError: no model; settings that contradict each other; an unreadable checkpoint.
    """
    return SCORERS[settings.model.scorer].load(settings, files or open_model(settings), workdir)


def load_token_budget(settings: Settings, files: OpenFiles | None = None) -> "TokenBudget | None":
    """Loads the model's tokenizer and context length without weights; None without a model."""
    files = files or open_model(settings)
    if files is None:
        return None
    from batch_calibration.scoring.engine.token_budget import TokenBudget

    return TokenBudget(files.tokenizer_info)


def api_cost(
    lacking: Iterable[tuple[RenderedContext, Iterable[str]]], scorer: "ApiScorer"
) -> "ApiCost":
    """Estimates the cost of asking a server about blocks of contexts.

    Args:
        lacking: contexts, each with the names of the blocks to score.
        scorer: asks the server.
    """
    from batch_calibration.scoring.api.client import ApiCost

    requests = tokens = answered = 0
    for context, names in lacking:
        inputs = [context.blocks[name].inputs for name in names]
        if inputs:
            estimate = scorer.estimate(joined(inputs), context.label_texts)
            requests, tokens = requests + estimate.requests, tokens + estimate.tokens
            answered += estimate.answered
    # The price is for a million tokens.
    dollars = tokens / 1e6 * scorer.settings.price
    return ApiCost(requests, tokens, answered, dollars, scorer.count_interrupted())
