"""Loads what settings and runs name: the scorer, its tokenizer, texts of rows; costs of asking."""

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
    """The files of the model, or of its tokenizer alone where a server is asked; None: not named.

    Raises:
        InputError: the directory is missing, or no family has that architecture.
    """
    asks_server = SCORERS[settings.model.scorer].asks_server
    name = settings.api.tokenizer if asks_server else settings.model.model
    if not name:
        return None
    # Flax is loaded where a network is asked for: reading stored scores needs none.
    from batch_calibration.scoring.models.files.checkpoint import find

    directory = CHECKPOINTS[name] if name in CHECKPOINTS else find(name)
    return SCORERS[settings.model.scorer].open_files(directory, settings.model)


def load_scorer(
    settings: Settings, workdir: Path | None = None, files: OpenFiles | None = None
) -> Scorer:
    """The scorer that the settings name, its checkpoint loaded.

    Args:
        settings: the study's.
        workdir: where answers of a server are kept; None keeps them in memory.
        files: the result of `open_model`, where they are open already.

    Raises:
        InputError: no model; settings that do not go together; a checkpoint that cannot be read.
    """
    return SCORERS[settings.model.scorer].load(settings, files or open_model(settings), workdir)


def load_token_budget(settings: Settings, files: OpenFiles | None = None) -> "TokenBudget | None":
    """The tokenizer and positions of the model without its weights; None where none is named."""
    files = files or open_model(settings)
    if files is None:
        return None
    from batch_calibration.scoring.engine.token_budget import TokenBudget

    return TokenBudget(files.tokenizer_info)


def api_cost(
    lacking: Iterable[tuple[RenderedContext, Iterable[str]]], scorer: "ApiScorer"
) -> "ApiCost":
    """The cost of asking about these blocks of these contexts.

    Args:
        lacking: contexts and the names of their blocks that are to be scored.
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
    """A score table -> the texts of its test rows by row id; none where they are not found.

    Every data folder and task file of the runs is looked into; rows of another digest than the
    table's are others, and are not taken.
    """
    # Each once, in the order of the runs.
    folders = list(dict.fromkeys(str(run.config["data"]) for run in runs if "data" in run.config))
    tasks, reader = dict(TASKS), RowReader()
    for run in runs:
        names = run.config.get("tasks")
        for name in names if isinstance(names, list | tuple) else ():
            # A task file may have been moved since.
            with suppress(InputError):
                task = load_task(str(name))
                tasks[task.name] = task

    def read_texts(table: ScoreTable) -> Mapping[str, str]:
        context = ContextInfo.from_table(table)
        task = tasks.get(context.task)
        if task is None or task.is_image:
            return {}
        # Scores of older versions are of the first rows, and do not say so.
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
