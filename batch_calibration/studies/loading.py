"""Loads the scorer, the tokenizer and the texts of rows; estimates the cost of asking a server."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from batch_calibration.errors import InputError
from batch_calibration.scores import ScoreTable
from batch_calibration.scoring import Scorer
from batch_calibration.scoring.data.task_file import load_task
from batch_calibration.scoring.data.texts import RowReader
from batch_calibration.scoring.embedded import CHECKPOINTS
from batch_calibration.scoring.inputs import joined
from batch_calibration.scoring.prompts.rendered import RenderedContext, text_digest
from batch_calibration.scoring.table import SCORERS, OpenFiles
from batch_calibration.scoring.tasks import TASKS
from batch_calibration.settings import LimitRows, Settings
from batch_calibration.studies import ContextInfo, Run

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


def row_texts(runs: Sequence[Run]) -> Callable[[ScoreTable], Mapping[str, str]]:
    """Returns a function that maps a score table to the texts of its test rows, by row id.

    The function searches all data folders and task files of the runs. It takes rows only if their
    digest equals the table's; the mapping is empty if no rows match.
    """
    # `dict.fromkeys` drops duplicates and keeps the order of the runs.
    folders = list(dict.fromkeys(str(run.config["data"]) for run in runs if "data" in run.config))
    tasks, reader = dict(TASKS), RowReader()
    for run in runs:
        names = run.config.get("tasks")
        for name in names if isinstance(names, list | tuple) else ():
            # The task file may have been moved since the run.
            with suppress(InputError):
                task = load_task(str(name))
                tasks[task.name] = task

    def read_texts(table: ScoreTable) -> Mapping[str, str]:
        context = ContextInfo.from_table(table)
        task = tasks.get(context.task)
        if task is None or task.is_image:
            return {}
        # Tables of older versions hold the first rows but do not record it, so both are tried.
        for folder, which in product(folders or [""], get_args(LimitRows)):
            try:
                rows = reader.texts(task, folder, context.split, context.limit, which)
            except InputError:
                continue
            if text_digest(str(row) for row in rows.rows) == table.context.get("rows"):
                texts = {}
                for row_id, row in zip(rows.ids, rows.rows, strict=True):
                    texts[row_id] = "\n".join(f"{field}: {text}" for field, text in row.items())
                return texts
        return {}

    return read_texts
