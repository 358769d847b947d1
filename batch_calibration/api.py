"""`calibrate`: scores in, corrected scores out; bad input is answered in sentences."""

from collections.abc import Hashable, Sequence
from functools import partial
from operator import itemgetter
from typing import TypeVar, overload

import jax
import jax.numpy as jnp
import numpy as np

from batch_calibration.arrays import Missing, check_key, is_frame, like, names_of
from batch_calibration.errors import InputError
from batch_calibration.methods import (
    Evidence,
    Method,
    check_labels,
    check_options,
    check_scores,
    correct,
    get_method,
    no_log_probs,
    warn_of_few,
)
from batch_calibration.typing import Key

Given = TypeVar("Given")


@overload
def calibrate(
    scores: Sequence[object],
    method: str = "bc",
    *,
    probe: object = None,
    labeled: object = None,
    labels: object = None,
    columns: Sequence[Hashable] | None = None,
    from_probs: bool | None = None,
    key: int | Key | None = None,
    floor: float | None = None,
    missing: Missing | None = None,
    bound: object = None,
    **options: object,
) -> np.ndarray: ...


@overload
def calibrate(
    scores: Given,
    method: str = "bc",
    *,
    probe: object = None,
    labeled: object = None,
    labels: object = None,
    columns: Sequence[Hashable] | None = None,
    from_probs: bool | None = None,
    key: int | Key | None = None,
    floor: float | None = None,
    missing: Missing | None = None,
    bound: object = None,
    **options: object,
) -> Given: ...


def calibrate(
    scores: object,
    method: str = "bc",
    *,
    probe: object = None,
    labeled: object = None,
    labels: object = None,
    columns: Sequence[Hashable] | None = None,
    from_probs: bool | None = None,
    key: int | Key | None = None,
    floor: float | None = None,
    missing: Missing | None = None,
    bound: object = None,
    **options: object,
) -> object:
    """Removes a prompt's label bias from scores: s_ij - gamma b_j, b learned as `method` does.

    Predict by the largest corrected score. A bias learned from few rows is rough: a batch of less
    than 10 is warned of. This corrects label bias, which the paper calls
    calibration; it is not the calibration that ECE measures.

    Args:
        scores: log p(label j | prompt i) in nats, [n, k]; leading axes [..., n, k] are separate
            contexts (seeds, templates), each corrected by itself. An array of numpy or jax, a
            tensor of torch, lists, or a frame of pandas, polars or pyarrow with a column per label.
        method: a name from `METHODS`.
        probe: scores of the prompts that the method learns from, such as content-free (cc) or
            random-word ones (dc), [m, k] or [..., m, k]: `METHODS[method].probe` describes them.
        labeled: scores of a labeled set, [m, k] or [..., m, k] (bcl).
        labels: its labels, or the probe's (looc), [m] or [..., m], as column indices; -1 means
            unknown: the scores of such a row of bcl's enter the bias, beside those of the rows to
            correct.
        columns: of a frame that holds more than scores, the names of the labels' columns; probe
            and labeled, where they are frames too, have columns of the same names.
        from_probs: True where probabilities come, whose logarithm is taken; None refuses what looks
            like probabilities, and False takes it, such as cosines, for scores.
        key: an int seed or a `jax.random` key (pc).
        floor: minus infinity and all below it is raised to this many nats.
        missing: what NaN, minus infinity, -9999.0 and all below -1e6 become where they stand for
            labels that a list of the likeliest tokens lacks: "least" puts each just below the least
            score returned for its row, a number of nats there at most; None refuses them.
        bound: [n] or [..., n], the least log-probability returned for each row of scores, of any
            token, where it is known; without it the least of the row's labels.
        **options: what `METHODS[method].make` takes: strength, target_prior, metric, starts ...

    Returns:
        float32 scores of the same shape, in nats for the shift methods, in what they came in: a
        frame with the same index and its labels' columns, a tensor on the same device; of lists, an
        array of numpy.

    Raises:
        InputError: a sentence that says where, what was expected, what came, what to do.

    >>> calibrate(10 * [[-1.0, -3.0], [-2.0, -2.5]])[:2].tolist()
    [[0.5, -0.25], [-0.5, 0.25]]
    """
    # As a string: a list has no hash to look up.
    chosen = get_method(str(method))
    read = partial(check_scores, floor=floor, from_probs=from_probs, missing=missing)
    array = read(scores, columns=columns, bound=bound)
    if is_frame(scores):
        columns = names_of(scores) if columns is None else list(columns)
    rows, k = array.shape[-2:]
    warn_of_few(method, chosen.probe.blocks, rows)
    options = check_options(method, chosen.make, options, k)
    random_key = None if key is None else check_key(key)
    contexts = array.reshape(-1, rows, k)
    lead = array.shape[:-2]
    blocks = {"test": Evidence(contexts)}

    level = chosen.reads_level(options)
    if level and "test" in chosen.probe.blocks and (why := no_log_probs(array)):
        raise InputError(_no_level("scores", method, why))

    needed = [name for name in chosen.probe.blocks if name not in ("test", "labeled")]
    for name, given, reads in (
        ("probe", probe, needed),
        ("labeled", labeled, "labeled" in chosen.probe.blocks),
        ("labels", labels, chosen.probe.labels),
    ):
        if given is not None and not reads:
            raise InputError(
                where=name,
                expected=f"none, for {method} reads {chosen.probe.description}",
                got=f"{type(given).__name__}",
                remedy=f"leave {name}= out",
            )
    for block in chosen.probe.blocks:
        if block == "test":
            continue
        name, given = ("labeled", labeled) if block == "labeled" else ("probe", probe)
        gold = labels if block in chosen.probe.labeled else None
        if given is None or (gold is None and block in chosen.probe.labeled):
            raise InputError(_lacks(chosen, method, block, name if given is None else "labels"))
        rows_of = read(given, name, labels=k, columns=columns if is_frame(given) else None)
        if chosen.probe.aligned and rows_of.shape[-2] not in (1, rows):
            raise InputError(
                f"{name}: {method} reads one row, or one for each of the {rows} rows of scores; "
                f"got {rows_of.shape[-2]}: give one or the other."
            )
        if level and (why := no_log_probs(rows_of)):
            raise InputError(_no_level(name, method, why))
        known = None if gold is None else check_labels(gold, rows_of)[..., None]
        blocks[block] = Evidence(
            _spread(rows_of, lead), None if known is None else _spread(known, lead)[..., 0]
        )

    def context(parts: dict[str, Evidence]) -> jax.Array:
        rows = jnp.asarray(parts["test"].log_probs)
        return correct(chosen, parts, rows, key=random_key, floor=floor, **options).scores

    if chosen.looped:
        parts = (jax.tree.map(itemgetter(i), blocks) for i in range(len(contexts)))
        corrected = jnp.stack([context(part) for part in parts])
    else:
        corrected = jax.vmap(context)(blocks)
    return like(scores, corrected.reshape(array.shape), columns)


def _no_level(where: str, method: str, why: str) -> str:
    """That the scores can be no log-probabilities, which the method needs."""
    return (
        f"{where}: {method} needs log-probabilities over the whole vocabulary, and {why}: give "
        f"such scores, or use {method.partition('_')[0]} with its defaults, which takes any."
    )


def _lacks(method: Method, name: str, block: str, what: str) -> str:
    """That a method did not get the rows of a block, or their labels."""
    if block == "labeled":
        return (
            f"{name} learns from a labeled set; {what} did not come: give labeled=[m, k] and "
            "labels=[m], or use bc, which needs no labels."
        )
    if what == "labels":
        return (
            f"{name} learns from probe prompts whose labels are known "
            f"({method.probe.description}); labels did not come: give labels=[m] beside "
            "probe=[m, k], or use bc, which needs no labels."
        )
    return (
        f"{name} learns its bias from probe prompts ({method.probe.description}) and none came: "
        "give their scores, probe=[m, k], or use bc, which needs no probe."
    )


def _spread(array: np.ndarray, lead: tuple[int, ...]) -> np.ndarray:
    """One copy per context: [m, k] serves all contexts, [..., m, k] one each."""
    if array.ndim > 2 and array.shape[:-2] != lead:
        raise InputError(
            where="probe or labeled",
            expected=f"[m, k] for all contexts or leading axes {lead} as in scores",
            got=f"shape {array.shape}",
            remedy="give one set for all or one per context",
        )
    full = np.broadcast_to(array, (*lead, *array.shape[-2:]))
    return full.reshape(-1, *array.shape[-2:])
