"""`calibrate`: scores in, corrected scores out; bad input is answered in sentences."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from functools import partial
from typing import TypeVar, overload

import numpy as np

from batch_calibration import methods
from batch_calibration.arrays.alignment import column_numbers, in_label_order, in_row_order
from batch_calibration.arrays.frames import in_kind_of, is_frame, names_of
from batch_calibration.arrays.missing_scores import Missing
from batch_calibration.arrays.numbers import check_key, usual_jax
from batch_calibration.errors import InputError
from batch_calibration.methods.run import correct_group
from batch_calibration.scores import ScoreTable, make_block
from batch_calibration.typing import Key

ScoresT = TypeVar("ScoresT")


@overload
def calibrate(
    scores: Sequence[object],
    method: str = "bc", *, probe: object = None, labeled: object = None, labels: object = None,
    columns: Sequence[Hashable] | None = None, from_probs: bool | None = None,
    key: int | Key | None = None, floor: float | None = None, missing: Missing | None = None,
    bound: object = None, **options: object,
) -> np.ndarray: ...  # fmt: skip


@overload
def calibrate(
    scores: ScoresT,
    method: str = "bc", *, probe: object = None, labeled: object = None, labels: object = None,
    columns: Sequence[Hashable] | None = None, from_probs: bool | None = None,
    key: int | Key | None = None, floor: float | None = None, missing: Missing | None = None,
    bound: object = None, **options: object,
) -> ScoresT: ...  # fmt: skip


@usual_jax
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
        labels: its labels, or the probe's (looc), [m] or [..., m], as indices or names of the
            columns of scores; -1 means unknown: bcl learns the bias from these rows too, and from
            the rows to correct.
        columns: of a frame that holds more than scores, the names of the labels' columns; probe
            and labeled, where they are frames too, have columns of the same names.
        from_probs: True: scores, probe and labeled are probabilities, whose logarithm is taken.
            None: detect the scale (see `arrays.find_scale`), and raise on probabilities,
            percentages, losses or ambiguous values. False: use the numbers as given, such as
            cosines.
        key: an int seed or a `jax.random` key (pc).
        floor: minus infinity and all below it is raised to this many nats.
        missing: what NaN, minus infinity, -9999.0 and all below -1e6 become where they stand for
            labels that a list of top tokens lacks: "least" puts each just below the least
            score returned for its row, a number of nats there at most; None refuses them.
        bound: [n] or [..., n], the least log-probability returned for each row of scores, of any
            token, where it is known; without it the least of the row's labels.
        **options: what `METHODS[method].make` takes: strength, target_prior, metric, starts ...
            Shares may be a dict or a series by the names of columns, as `value_counts` gives them.

    Rows of pandas are aligned by their indexes: `labels` with the rows of `labeled` or `probe`,
    `bound` with the rows of `scores`. Where the entries differ, or one index is a default range,
    InputError is raised; `.to_numpy()` aligns by position, as objects without an index are.

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
    chosen = methods.get_method(str(method))
    read = partial(methods.check_scores, floor=floor, from_probs=from_probs, missing=missing)
    if bound is not None:
        bound = in_row_order(bound, "bound", scores)
    array = read(scores, columns=columns, bound=bound)
    # Logits may be above 0 in all of few rows.
    read = partial(read, beside_others=bool((array > 0).any()))
    columns = names_of(scores, columns)  # kept, so that the result has the same columns
    rows, k = array.shape[-2:]
    leading_axes = array.shape[:-2]  # of separate contexts
    methods.warn_of_few_rows(method, chosen.probe.blocks, rows)
    if "target_prior" in options:
        shares = in_label_order(options["target_prior"], columns, "target_prior", k)
        options["target_prior"] = shares
    options = methods.check_options(method, chosen.factory, options, k)
    random_key = None if key is None else check_key(key)
    needs_log_probs = chosen.needs_log_probs_with(options)
    if needs_log_probs and "test" in chosen.probe.blocks and (why := methods.no_log_probs(array)):
        raise InputError(_log_probs_needed("scores", method, why))

    if probe is not None or labeled is not None or labels is not None:
        _refuse_unread(method, chosen, probe=probe, labeled=labeled, labels=labels)
    blocks = {"test": methods.Evidence(array.reshape(-1, rows, k))}  # [contexts, n, k]
    for block in chosen.probe.blocks:
        if block == "test":
            continue
        where, source = ("labeled", labeled) if block == "labeled" else ("probe", probe)
        is_labeled = block in chosen.probe.labeled
        if source is None or (labels is None and is_labeled):
            lacking = where if source is None else "labels"
            raise InputError(_what_is_lacking(chosen, method, block, lacking))
        if chosen.probe.aligned:  # a row for each row of the scores
            source = in_row_order(source, where, scores)
        learned_from = read(source, where, labels=k, columns=columns if is_frame(source) else None)
        counts = chosen.probe.row_counts(rows, k)
        if counts and learned_from.shape[-2] not in counts:
            raise InputError(
                f"{where}: {method} reads {chosen.probe.describe_counts(rows, k)}; "
                f"got {learned_from.shape[-2]}: give one or the other."
            )
        if needs_log_probs and (why := methods.no_log_probs(learned_from)):
            raise InputError(_log_probs_needed(where, method, why))
        gold = None
        if is_labeled:
            numbers = in_row_order(labels, "labels", source, where)
            numbers = column_numbers(numbers, columns or names_of(source))
            # As a column [m, 1], so that labels are spread over the contexts as scores are.
            column = methods.check_labels(numbers, learned_from)[..., None]
            if block == "labeled":
                methods.warn_about_order(learned_from, column[..., 0])
            gold = _one_per_context(column, leading_axes)[..., 0]
        blocks[block] = methods.Evidence(_one_per_context(learned_from, leading_axes), gold)

    corrected = np.empty_like(blocks["test"].log_probs)
    correct = partial(methods.correct_context, chosen, options=options, floor=floor, key=random_key)
    for context in range(len(corrected)):
        of_context = dict[str, methods.Evidence]()
        for name, (rows_of_all, gold_of_all, _) in blocks.items():
            gold_of_one = None if gold_of_all is None else gold_of_all[context]
            of_context[name] = methods.Evidence(rows_of_all[context], gold_of_one)
        corrected[context] = correct(of_context).scores
    return in_kind_of(scores, corrected.reshape(array.shape), columns)


@usual_jax
def ensemble(
    contexts: Iterable[object],
    *,
    columns: Sequence[Hashable] | None = None,
    from_probs: bool | None = None,
    missing: Missing | None = None,
) -> object:
    """One answer a row from several prompts: the mean of their corrected log-probabilities.

    Label shares are estimated from all contexts together, each context is matched to them
    (`bc_pooled_shares`), its scores are normalized over the labels, and those of the contexts whose
    rows tell enough of their labels are averaged. Predict by the largest.

    Args:
        contexts: for each prompt, seed or model the scores [n, k] of the same rows, as `calibrate`
            takes them; or an array [c, n, k]. Frames of pandas are aligned to the first by index.
        columns: as in `calibrate`.
        from_probs: as in `calibrate`.
        missing: as in `calibrate`.

    Returns:
        [n, k], in nats, in what the first context came in.

    Raises:
        InputError: no context; contexts of other rows or labels; what `calibrate` refuses.

    >>> first = np.log(10 * [[0.6, 0.4], [0.9, 0.1], [0.3, 0.7]])
    >>> second = np.log(10 * [[0.5, 0.5], [0.8, 0.2], [0.1, 0.9]])
    >>> ensemble([first, second])[:3].argmax(axis=1).tolist()
    [0, 0, 1]
    """
    sources = list(contexts)
    if not sources:
        raise InputError.at("contexts", "the scores of one prompt or more", "none")
    names, tables = names_of(sources[0], columns), list[ScoreTable]()
    read = partial(methods.check_scores, from_probs=from_probs, missing=missing)
    for place, source in enumerate(sources):
        where = f"contexts[{place}]"
        aligned = in_row_order(source, where, sources[0], "contexts[0]")
        rows = read(aligned, where, columns=names if is_frame(source) else columns)
        shape = tables[0].blocks["test"].log_probs.shape if tables else rows.shape[-2:]
        if rows.shape != shape:
            expected = f"scores of the same rows and labels, {shape}"
            remedy = "give each prompt's scores of all rows"
            raise InputError.at(where, expected, rows.shape, remedy)
        labels = tuple(map(str, names or range(rows.shape[-1])))
        # They are said to be the same rows.
        tables.append(ScoreTable({"rows": "same"}, labels, {"test": make_block(rows)}))
    averaged = correct_group(methods.METHODS["ensemble"], tables)[0].scores
    return in_kind_of(sources[0], averaged, names)


def _refuse_unread(
    name: str, method: methods.Method, *, probe: object, labeled: object, labels: object
) -> None:
    """Refuse rows or labels that the method does not read: their giver expects that it does."""
    probe_blocks = set(method.probe.blocks) - {"test", "labeled"}  # what probe= gives
    for where, source, is_read in (
        ("probe", probe, bool(probe_blocks)),
        ("labeled", labeled, "labeled" in method.probe.blocks),
        ("labels", labels, bool(method.probe.labeled)),
    ):
        if source is not None and not is_read:
            expected = f"none, as {name} reads {method.probe.description}"
            raise InputError.at(where, expected, remedy="leave it out")


def _log_probs_needed(where: str, method: str, why: str) -> str:
    """That the scores can be no log-probabilities, which the method needs."""
    return (
        f"{where}: {method} needs log-probabilities over the whole vocabulary, and {why}: give "
        f"these, or use {method.partition('_')[0]} with its defaults, which takes any."
    )


def _what_is_lacking(method: methods.Method, name: str, block: str, lacking: str) -> str:
    """That a method did not get the rows of a block, or their labels."""
    if block == "labeled":
        return (
            f"{name} learns from a labeled set; {lacking} did not come: give labeled=[m, k] and "
            "labels=[m], or use bc, which needs no labels."
        )
    if lacking == "labels":
        return (
            f"{name} learns from probe prompts whose labels are known "
            f"({method.probe.description}); labels did not come: give labels=[m] with "
            "probe=[m, k], or use bc, which needs no labels."
        )
    return (
        f"{name} learns its bias from probe prompts ({method.probe.description}) and none came: "
        "give their scores, probe=[m, k], or use bc, which needs no probe."
    )


def _one_per_context(array: np.ndarray, leading_axes: tuple[int, ...]) -> np.ndarray:
    """One copy per context: [m, k] serves all contexts, [..., m, k] one each."""
    if array.ndim > 2 and array.shape[:-2] != leading_axes:
        expected = f"[m, k] for all contexts or leading axes {leading_axes} as in scores"
        remedy = "give one set for all or one per context"
        raise InputError.at("probe or labeled", expected, f"shape {array.shape}", remedy)
    spread = np.broadcast_to(array, (*leading_axes, *array.shape[-2:]))
    return spread.reshape(-1, *array.shape[-2:])  # [contexts, m, k]
