"""Where the wings meet: score a context once, then calibrate what is stored, for free."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from batch_calibration import metrics
from batch_calibration.calibration.learned_shift import strength_curve
from batch_calibration.checks import check_scores
from batch_calibration.methods import METHODS, compare, fit
from batch_calibration.models.checkpoint import load_checkpoint
from batch_calibration.plan import Plan
from batch_calibration.scores import Block, ScoreTable, make_block
from batch_calibration.scoring import Scorer
from batch_calibration.scoring.causal_lm import CausalLM
from batch_calibration.scoring.dual_encoder import DualEncoder
from batch_calibration.store import Store
from batch_calibration.typing import InputError

MINI_CHECKPOINT = Path(__file__).parent / "mini" / "checkpoint"


def make_scorer(settings: Mapping[str, Any]) -> Scorer:
    """The scorer that the settings name, its checkpoint loaded."""
    model = str(settings["model"])
    if not model:
        raise InputError("config.model: expected a checkpoint directory, got nothing; give one.")
    checkpoint = load_checkpoint(MINI_CHECKPOINT if model == "mini" else model)
    scorer: Scorer = (
        CausalLM(checkpoint, batch_size=settings["batch_size"])
        if settings["scorer"] == "causal_lm"
        else DualEncoder(
            checkpoint,
            scale=settings["scale"],
            max_tokens=settings["max_tokens"],
            batch_size=settings["batch_size"],
        )
    )
    return scorer


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
        if name not in have or have[name].spec != wanted.spec
    ]


def score(
    planned: Plan,
    scorer: Scorer,
    store: Store,
    model: str,
    progress: Callable[[int], None] | None = None,
) -> tuple[ScoreTable, int]:
    """Ask the model for what is not stored yet, store the table, say how many rows were asked."""
    context = describe(planned, scorer, model)
    stored = store.get(context)
    wanted = missing(planned, stored)
    if not wanted and stored is not None:
        return stored, 0
    texts = [text for name in wanted for text in planned.blocks[name].texts]
    answer = scorer.score(texts, planned.label_texts, progress=progress)
    blocks: dict[str, Block] = dict(stored.blocks) if stored else {}
    start = 0
    for name in wanted:
        request = planned.blocks[name]
        here = slice(start, start + len(request.texts))
        blocks[name] = make_block(
            answer.log_probs[here], request.labels, answer.tokens[here], request.row_ids,
            request.spec,
        )  # fmt: skip
        start = here.stop
    table = ScoreTable(context, planned.label_names, blocks)
    store.put(table)
    return table, len(texts)


def calibrate(
    tables: Sequence[ScoreTable],
    methods: Sequence[str] = tuple(METHODS),
    *,
    floor: float | None = None,
    seed: int = 0,
) -> list[dict[str, Any]]:
    """Every method on every table, one compiled call per shape; one record a table.

    A method whose probe block a table lacks is left out of its record and named in `skipped`.
    """
    records = []
    for _, same in groupby(sorted(tables, key=_shape), key=_shape):
        group = list(same)
        names = [name for name in METHODS if name in methods]
        skipped = {
            name: f"no block {block!r} in the table"
            for name in names
            for block in METHODS[name].probe.blocks
            if block not in group[0].blocks
        }
        names = [name for name in names if name not in skipped]
        blocks = {name: _stack(group, name, floor) for name in group[0].blocks}
        key = jax.random.key(seed)
        corrected = _compare(blocks, methods=tuple(names), key=key)
        states = _states(blocks, methods=tuple(n for n in names if n in BIASES))
        for i, table in enumerate(group):
            labels = table.blocks["test"].labels
            records.append({
                "id": table.id,
                "context": table.context,
                "label_names": table.label_names,
                "rows": {name: len(block.row_ids) for name, block in table.blocks.items()},
                "methods": {
                    name: metrics.summary(corrected[name][i], labels, key) for name in names
                },
                "skipped": skipped,
                **jax.tree.map(lambda x, i=i: np.asarray(x[i]).tolist(), states),
            })  # fmt: skip
    return records


BIASES = ("cc", "dc", "bc", "bcl")
_compare = jax.jit(compare, static_argnames="methods")


def _shape(table: ScoreTable) -> list[tuple[str, tuple[int, ...]]]:
    return sorted((name, block.log_probs.shape) for name, block in table.blocks.items())


def _stack(
    tables: Sequence[ScoreTable], name: str, floor: float | None
) -> tuple[jax.Array, jax.Array]:
    """One block of several contexts: log_probs `[c m k]` and labels `[c m]`."""
    for table in tables:
        check_scores(table.blocks[name].log_probs, f"table {table.id}, block {name}", floor=floor)
    stacked = np.stack([table.blocks[name].log_probs for table in tables])
    if floor is not None:
        stacked = np.maximum(stacked, np.float32(floor))
    return jnp.asarray(stacked), jnp.asarray(np.stack([t.blocks[name].labels for t in tables]))


@partial(jax.jit, static_argnames="methods")
def _states(blocks: Mapping[str, Any], methods: tuple[str, ...]) -> dict[str, Any]:
    """What the shifts learned, per context: biases, BCL's strength, and both its curves."""
    learned = {
        name: jax.vmap(lambda parts, name=name: fit(METHODS[name], parts))(dict(blocks))
        for name in methods
    }
    states: dict[str, Any] = {"bias": {name: state.bias for name, state in learned.items()}}
    if "bcl" in learned:
        states["strength"] = learned["bcl"].strength
        states["curve"] = {
            "labeled": learned["bcl"].curve,
            "test": jax.vmap(strength_curve)(learned["bcl"].bias, *blocks["test"]),
        }
    return states
