"""Where the wings meet: score a context once, then calibrate what is stored, for free."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np

from batch_calibration.data.images import open_picture
from batch_calibration.embedded import CHECKPOINTS
from batch_calibration.errors import InputError
from batch_calibration.models.checkpoint import find, load_checkpoint, load_tokenizer
from batch_calibration.prompts.length_limit import Texts
from batch_calibration.prompts.render import Plan
from batch_calibration.scores import Block, ScoreTable, make_block
from batch_calibration.scoring import Scorer, sharding
from batch_calibration.scoring.causal_lm import CausalLM
from batch_calibration.scoring.dual_encoder import DualEncoder
from batch_calibration.scoring.token_budget import Room
from batch_calibration.store import Store


def make_scorer(settings: Mapping[str, Any]) -> Scorer:
    """The scorer that the settings name, its checkpoint loaded."""
    model = str(settings["model"])
    if not model:
        raise InputError("config.model: expected a checkpoint directory, got nothing; give one.")
    mesh = sharding.make_mesh(settings["mesh"])
    checkpoint = load_checkpoint(_directory(model), settings["dtype"], mesh)
    scorer: Scorer = (
        CausalLM(checkpoint, settings["batch_size"], settings["logits_only"])
        if settings["scorer"] == "causal_lm"
        else DualEncoder(
            checkpoint,
            scale=settings["scale"],
            max_tokens=settings["max_tokens"],
            batch_size=settings["batch_size"],
        )
    )
    return scorer


def make_room(settings: Mapping[str, Any]) -> Room | None:
    """What the model's tokenizer and config alone say of a prompt; None where no model is named."""
    model = str(settings["model"])
    return Room(load_tokenizer(_directory(model))) if model else None


def _directory(model: str) -> Path:
    return CHECKPOINTS[model] if model in CHECKPOINTS else find(model)


def describe(planned: Plan, scorer: Scorer, model: str) -> dict[str, Any]:
    """The context's description: everything that decides its numbers, and the model's name."""
    # Many checkpoints lie in a folder called "model": the folder above tells them apart.
    name = "-".join(part for part in Path(model).parts[-2:] if part not in ("/", "..", "."))
    return {**planned.context, "model": name, "scorer": scorer.identity}


def missing(planned: Plan, stored: ScoreTable | None) -> list[str]:
    """The blocks that no stored table holds with these very texts."""
    have = stored.blocks if stored else {}
    return [
        name
        for name, wanted in planned.blocks.items()
        if name not in have or _asked(have[name].spec) != wanted.spec
    ]


UNREADABLE = "unreadable"
"""What a block's spec calls the number of its pictures that could not be read."""


def _asked(spec: Mapping[str, Any]) -> dict[str, Any]:
    """What was asked for, whatever came of it."""
    return {key: value for key, value in spec.items() if key != UNREADABLE}


def score(
    planned: Plan,
    scorer: Scorer,
    store: Store,
    model: str,
    progress: Callable[[int], None] | None = None,
) -> tuple[ScoreTable | None, int]:
    """Ask the model for what is not stored yet, store the table, say how many rows were asked.

    Of several processes the first alone reads and writes the store; the others lend their devices,
    and get no table.
    """
    context = describe(planned, scorer, model)
    stored = store.get(context)
    wanted = sharding.agree(list(planned.blocks), missing(planned, stored))
    texts = Texts.joined([planned.blocks[name].texts for name in wanted])
    ask: Any = scorer.score
    if planned.inputs == "image":
        ask = partial(ask, open_picture=open_picture)
    if planned.ensemble:
        ask = partial(ask, groups=planned.forms)
    if jax.process_index():
        if wanted:
            ask(texts, planned.label_texts, progress=progress)
        return None, len(texts)
    if not wanted and stored is not None:
        table = _relabel(planned, stored)
        if table is not stored:
            store.put(table)
        return table, 0
    answer = ask(texts, planned.label_texts, progress=progress)
    log_probs = answer.log_probs if planned.ensemble else fold(answer.log_probs, planned.forms)
    blocks: dict[str, Block] = dict(stored.blocks) if stored else {}
    start = 0
    for name in wanted:
        request = planned.blocks[name]
        rows = len(request.texts)
        kept = [row for row in range(rows) if start + row not in answer.failed]
        lost = {UNREADABLE: rows - len(kept)} if len(kept) < rows else {}
        here = [start + row for row in kept]
        blocks[name] = make_block(
            log_probs[here], [request.labels[row] for row in kept], answer.tokens[here],
            [request.row_ids[row] for row in kept], request.spec | lost,
        )  # fmt: skip
        start += rows
    table = _relabel(planned, ScoreTable(context, planned.label_names, blocks))
    store.put(table)
    return table, len(texts)


def _relabel(planned: Plan, table: ScoreTable) -> ScoreTable:
    """The table with the plan's gold labels and row ids; the same object where they agree."""
    blocks = dict(table.blocks)
    for name, request in planned.blocks.items():
        labels, ids = np.asarray(request.labels, np.int32), tuple(request.row_ids)
        if UNREADABLE in blocks[name].spec:
            place = {row: i for i, row in enumerate(ids)}
            labels = labels[[place[row] for row in blocks[name].row_ids]]
            ids = blocks[name].row_ids
        if not np.array_equal(blocks[name].labels, labels) or blocks[name].row_ids != ids:
            blocks[name] = blocks[name]._replace(labels=labels, row_ids=ids)
    same = all(blocks[name] is table.blocks[name] for name in blocks)
    return table if same else table._replace(blocks=blocks)


def fold(log_probs: np.ndarray, forms: Sequence[int]) -> np.ndarray:
    """Scores `[n, sum(forms)]` of surface forms as those of labels `[n, k]`: log sum_f p(f).

    >>> fold(np.log(np.float32([[0.1, 0.2, 0.4]])), [2, 1]).round(3).tolist()
    [[-1.2039999961853027, -0.9160000085830688]]
    """
    if len(forms) == log_probs.shape[1]:
        return log_probs
    parts = np.split(log_probs, np.cumsum(forms)[:-1], axis=1)
    return np.stack([np.logaddexp.reduce(part, axis=1) for part in parts], axis=1)
