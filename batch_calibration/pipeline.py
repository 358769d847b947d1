"""Where the wings meet: score a context once, then calibrate what is stored, for free."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from batch_calibration import metrics
from batch_calibration.calibration.learned_shift import strength_curve
from batch_calibration.data.images import open_picture
from batch_calibration.embedded import CHECKPOINTS
from batch_calibration.errors import InputError
from batch_calibration.methods import METHODS, compare, correct, fit
from batch_calibration.models.checkpoint import find, load_checkpoint, load_tokenizer
from batch_calibration.prompts.length_limit import Texts
from batch_calibration.prompts.render import Plan
from batch_calibration.scores import Block, ScoreTable, make_block
from batch_calibration.scoring import ImageInputs, Inputs, Scorer, sharding
from batch_calibration.scoring.causal_lm import CausalLM
from batch_calibration.scoring.dual_encoder import DualEncoder
from batch_calibration.scoring.token_budget import TokenBudget
from batch_calibration.store import Store
from batch_calibration.validation import check_scores


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


def make_room(settings: Mapping[str, Any]) -> TokenBudget | None:
    """What the model's tokenizer and config alone say of a prompt; None where no model is named."""
    model = str(settings["model"])
    return TokenBudget(load_tokenizer(_directory(model))) if model else None


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


class _Image(NamedTuple):
    reference: str

    def read(self) -> bytes:
        return open_picture(self.reference)

    def __str__(self) -> str:
        return self.reference


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
    inputs: Inputs = ImageInputs([_Image(t) for t in texts]) if planned.inputs == "image" else texts
    ends = np.cumsum(planned.forms).tolist()
    forms = zip(ends, planned.forms, strict=True)
    labels = [planned.label_texts[end - count : end] for end, count in forms]
    if jax.process_index():
        if wanted:
            scorer.score(inputs, labels, progress=progress)
        return None, len(texts)
    if not wanted and stored is not None:
        table = _relabel(planned, stored)
        if table is not stored:
            store.put(table)
        return table, 0
    answer = scorer.score(inputs, labels, progress=progress)
    blocks: dict[str, Block] = dict(stored.blocks) if stored else {}
    start = 0
    for name in wanted:
        request = planned.blocks[name]
        rows = len(request.texts)
        kept = [row for row in range(rows) if start + row not in answer.failed]
        lost = {UNREADABLE: rows - len(kept)} if len(kept) < rows else {}
        here = [start + row for row in kept]
        blocks[name] = make_block(
            answer.log_probs[here], [request.labels[row] for row in kept], answer.tokens[here],
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


def calibrate(
    tables: Sequence[ScoreTable],
    methods: Sequence[str] = tuple(METHODS),
    *,
    floor: float | None = None,
    seed: int = 0,
) -> list[dict[str, Any]]:
    """Every method on every table, one compiled call per shape; one record a table.

    A method whose probe block a table lacks, or that cannot tell so many labels apart, is left out
    of its record and named in `skipped`.
    """
    for table in tables:
        if not (table.blocks["test"].labels >= 0).any():
            raise InputError(
                f"table {table.id}: none of its {len(table.blocks['test'].row_ids)} test rows has "
                "a gold label, so no accuracy can be given; use batch_calibration.calibrate on "
                "its scores, or label some rows."
            )
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
        many = len(group[0].label_names)
        skipped |= {
            name: f"{many} labels are more than the {METHODS[name].most_labels} it can tell apart"
            for name in names
            if not _tells_apart(name, many)
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
                "over_long": _changed(table),
                UNREADABLE: {
                    name: block.spec[UNREADABLE]
                    for name, block in table.blocks.items()
                    if UNREADABLE in block.spec
                },
                **jax.tree.map(lambda x, i=i: np.asarray(x[i]).tolist(), states),
            })  # fmt: skip
    return records


def probe_sizes(
    table: ScoreTable,
    sizes: Sequence[int],
    *,
    draws: int = 20,
    floor: float | None = None,
    seed: int = 0,
) -> dict[str, Any]:
    """Accuracy on all n test rows when BC and PC learn from m random ones of them, unlabeled.

    Source: Zhou et al. 2024, the figure of batch sizes. Sizes beyond n are left out, n is added;
    it has one draw, the others `draws`.

    Returns:
        `sizes`, and by method under `accuracy` a list of draws for each size.
    """
    block = table.blocks["test"]
    (log_probs,), (labels,) = _stack([table], "test", floor)
    rows = len(block.row_ids)
    kept = [size for size in dict.fromkeys(sizes) if size < rows]
    if any(size < 1 for size in kept):
        raise InputError(f"probe sizes: expected 1 or more rows, got {min(kept)}.")
    random = np.random.default_rng([seed, 5])
    weights = np.zeros((len(kept) * draws + 1, rows), np.float32)
    for i in range(len(kept) * draws):
        weights[i, random.choice(rows, kept[i // draws], replace=False)] = 1
    weights[-1] = 1
    found: dict[str, list[list[float]]] = {}
    for name in ("bc", "pc"):
        if not _tells_apart(name, log_probs.shape[1]):
            continue
        reached = np.asarray(_by_weight(name, log_probs, labels, weights, jax.random.key(seed)))
        parts = np.split(reached, np.arange(1, len(kept) + 1) * draws)
        found[name] = [part.tolist() for part in parts]
    return {"sizes": [*kept, rows], "accuracy": found}


def _tells_apart(name: str, labels: int) -> bool:
    most = METHODS[name].most_labels
    return most is None or labels <= most


@partial(jax.jit, static_argnums=0)
def _by_weight(
    name: str, log_probs: jax.Array, labels: jax.Array, weights: jax.Array, key: jax.Array
) -> jax.Array:
    """Accuracy `[p]` of a method that learns from the rows each of `weights [p n]` keeps."""

    def one(kept: tuple[jax.Array, jax.Array]) -> jax.Array:
        weight, number = kept
        evidence = {"test": (log_probs, None, weight)}
        own = jax.random.fold_in(key, number)
        return metrics.accuracy(correct(METHODS[name], evidence, log_probs, key=own), labels)

    # One at a time: 100 starts of PC for every size and draw at once would not fit.
    return jax.lax.map(one, (weights, jnp.arange(len(weights))))


def _changed(table: ScoreTable) -> dict[str, dict[str, int]]:
    """By block, how many prompts lost demonstrations or were cut to fit the model."""
    found = {
        name: {what: block.spec[what] for what in CHANGES if block.spec.get(what)}
        for name, block in table.blocks.items()
    }
    return {name: counts for name, counts in found.items() if counts}


CHANGES = ("dropped", "truncated")
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
