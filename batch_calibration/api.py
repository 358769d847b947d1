"""Corrects scores: `calibrate` for one prompt, `ensemble` for several."""

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
from batch_calibration.calibration import temperature as tempering
from batch_calibration.errors import InputError
from batch_calibration.methods.run import correct_group
from batch_calibration.scores import ScoreTable, make_block
from batch_calibration.typing import FromProbs, Key

ScoresT = TypeVar("ScoresT")


@overload
def calibrate(
    scores: Sequence[object],
    method: str = "bc", *, probe: object = None, labeled: object = None, labels: object = None,
    columns: Sequence[Hashable] | None = None, from_probs: FromProbs = None,
    key: int | Key | None = None, floor: float | None = None, missing: Missing | None = None,
    bound: object = None, temperature: tempering.Temperature | None = None, **options: object,
) -> np.ndarray: ...  # fmt: skip


@overload
def calibrate(
    scores: ScoresT,
    method: str = "bc", *, probe: object = None, labeled: object = None, labels: object = None,
    columns: Sequence[Hashable] | None = None, from_probs: FromProbs = None,
    key: int | Key | None = None, floor: float | None = None, missing: Missing | None = None,
    bound: object = None, temperature: tempering.Temperature | None = None, **options: object,
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
    from_probs: FromProbs = None,
    key: int | Key | None = None,
    floor: float | None = None,
    missing: Missing | None = None,
    bound: object = None,
    temperature: tempering.Temperature | None = None,
    **options: object,
) -> object:
    """Removes a prompt's label bias from scores: s_ij - gamma b_j, b learned as `method` does.

    The prediction is the label with the largest corrected score. With fewer than 10 rows the
    learned bias is noisy, and a warning is issued. This corrects label bias, which the paper calls
    calibration; it is not the calibration that ECE measures.

    Args:
        scores: log p(label j | prompt i) in nats, [n, k]. Leading axes [..., n, k] are separate
            contexts (seeds, templates), which are corrected one by one. A NumPy or JAX array, a
            torch tensor, lists, or a frame of pandas, polars or pyarrow with a column per label.
        method: A name in `METHODS`.
        probe: Scores of the prompts that the method learns from, such as content-free (cc) or
            random-word prompts (dc), [m, k] or [..., m, k]: see `METHODS[method].probe`.
        labeled: Scores of a labeled set, [m, k] or [..., m, k] (bcl).
        labels: Labels of `labeled`, or of `probe` (looc), [m] or [..., m], as indices or names of
            the columns of scores. -1 is unknown: bcl learns the bias from these rows and from the
            rows to correct.
        columns: Names of the label columns, if a frame has other columns, too. Frames of probe and
            labeled must have columns with the same names.
        from_probs: True: scores, probe and labeled are probabilities, and their logarithm is taken.
            "counts": they count each label among n sampled answers of a row, and are replaced by
            log((count + 1/2) / (n + k/2)). None: detect the scale (see `arrays.find_scale`), and
            raise on probabilities, percentages, counts, losses or ambiguous values. False: use the
            numbers as given, such as cosines.
        key: An int seed or a `jax.random` key (pc).
        floor: Raises scores below this many nats, minus infinity too, to this value.
        missing: Replacement for NaN, minus infinity, -9999.0 and all scores below -1e6, if these
            are labels missing from a list of top tokens. "least": just below the least score
            returned for the row. A number: this many nats, but never above "least". None: raise.
        bound: [n] or [..., n], the least log-probability of any token that was returned for each
            row of scores, if known. By default, the least score of the row's labels.
        temperature: T, by which the corrected scores are divided, so that their softmax is a
            probability of each label. "auto": fitted to `labeled` and `labels` (see
            `fit_temperature`). No prediction changes.
        **options: Arguments of `METHODS[method].make`: strength, target_prior, metric, starts ...
            Shares may be a dict or a series by column names, as `value_counts` returns them.

    Rows of pandas objects are aligned by index: `labels` with the rows of `labeled` or `probe`,
    `bound` with the rows of `scores`. If the entries of two indexes differ, or one index is a
    default range, InputError is raised. `.to_numpy()` aligns by position, as for all objects
    without an index.

    Returns:
        float32 scores with the shape and the type of `scores`, in nats for the shift methods: a
        frame has the same index and the label columns, a tensor is on the same device. For lists,
        a NumPy array.

    Raises:
        InputError: The input is invalid; the message states the place, the expected and the actual
            input, and a remedy.

    >>> calibrate(10 * [[-1.0, -3.0], [-2.0, -2.5]])[:2].tolist()
    [[0.5, -0.25], [-0.5, 0.25]]
    """
    # Converted to a string, because a list is not hashable and cannot be looked up.
    chosen = methods.get_method(str(method))
    read = partial(methods.check_scores, floor=floor, from_probs=from_probs, missing=missing)
    if bound is not None:
        bound = in_row_order(bound, "bound", scores)
    array = read(scores, columns=columns, bound=bound)
    # A few rows of logits may all be above 0 and look like losses; `beside_others` accepts them.
    read = partial(read, beside_others=bool((array > 0).any()))
    columns = names_of(scores, columns)  # kept, so that the result has the same columns
    rows, k = array.shape[-2:]
    leading_axes = array.shape[:-2]  # axes of separate contexts
    methods.warn_of_few_rows(method, chosen.probe.blocks, rows)
    if "target_prior" in options:
        shares = in_label_order(options["target_prior"], columns, "target_prior", k)
        options["target_prior"] = shares
    options = methods.check_options(method, chosen.factory, options, k)
    random_key = None if key is None else check_key(key)
    needs_log_probs = chosen.needs_log_probs_with(options)
    if needs_log_probs and "test" in chosen.probe.blocks and (why := methods.no_log_probs(array)):
        raise InputError(_log_probs_needed("scores", method, why))

    tempering.check_temperature(temperature)
    is_fitted = temperature == tempering.AUTO
    if is_fitted and {*chosen.probe.labeled} - {"labeled"}:  # `labels` cannot belong to both
        got = f"{method}, with labels of probe="
        remedy = "use fit_temperature on the corrected scores of labeled rows"
        raise InputError.at("", "a method without labels of its probe", got, remedy, "temperature")
    of_method = {} if is_fitted else {"labeled": labeled, "labels": labels}
    _refuse_unread(method, chosen, probe, **of_method)
    blocks = {"test": methods.Evidence(array.reshape(-1, rows, k))}  # [contexts, n, k]
    for block in dict.fromkeys((*chosen.probe.blocks, *["labeled"] * is_fitted)):
        if block == "test":
            continue
        where, source = ("labeled", labeled) if block == "labeled" else ("probe", probe)
        is_labeled = block in ("labeled", *chosen.probe.labeled)
        if source is None or (labels is None and is_labeled):
            lacking = where if source is None else "labels"
            if block not in chosen.probe.blocks:
                remedy = "pass labeled=[m, k] and labels=[m], or a number"
                raise InputError.at("", "labeled rows for 'auto'", "none", remedy, "temperature")
            raise InputError(_what_is_lacking(chosen, method, block, lacking))
        # Each probe row belongs to a row of the scores.
        if chosen.probe.aligned and block != "labeled":
            source = in_row_order(source, where, scores)
        learned_from = read(source, where, labels=k, columns=columns if is_frame(source) else None)
        counts = chosen.probe.row_counts(rows, k) if block != "labeled" else ()
        if counts and learned_from.shape[-2] not in counts:
            raise InputError(
                f"{where}: {method} reads {chosen.probe.describe_counts(rows, k)}; "
                f"got {learned_from.shape[-2]}: pass one of these numbers of rows."
            )
        if needs_log_probs and (why := methods.no_log_probs(learned_from)):
            raise InputError(_log_probs_needed(where, method, why))
        gold = None
        if is_labeled:
            numbers = in_row_order(labels, "labels", source, where)
            numbers = column_numbers(numbers, columns or names_of(source))
            # Labels become a column [m, 1], so that they broadcast over contexts like scores.
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
        found, divisor = correct(of_context), temperature or 1.0
        if is_fitted:
            of_labels = methods.correct_labeled(
                chosen, of_context, found, options=options, floor=floor, key=random_key
            )
            divisor = float(tempering.find_temperature(of_labels, of_context["labeled"].labels))
        corrected[context] = np.asarray(found.scores) / divisor
    return in_kind_of(scores, corrected.reshape(array.shape), columns)


@usual_jax
def ensemble(
    contexts: Iterable[object],
    *,
    columns: Sequence[Hashable] | None = None,
    from_probs: FromProbs = None,
    missing: Missing | None = None,
) -> object:
    """Combines several prompts' scores by the mean of their corrected log-probabilities.

    Label shares are estimated from all contexts together, and each context is matched to them
    (`bc_pooled_shares`). Its scores are then normalized over the labels, and averaged over the
    contexts with enough information about the labels. The prediction is the label with the largest
    average.

    Args:
        contexts: For each prompt, seed or model, scores [n, k] of the same rows in a form that
            `calibrate` accepts; or an array [c, n, k]. Frames of pandas are aligned to the first by
            index.
        columns: See `calibrate`.
        from_probs: See `calibrate`.
        missing: See `calibrate`.

    Returns:
        Scores [n, k] in nats, with the type of the first context.

    Raises:
        InputError: There is no context, contexts differ in rows or labels, or `calibrate` would
            refuse the scores.

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
            remedy = "pass the scores of all rows for each prompt"
            raise InputError.at(where, expected, rows.shape, remedy)
        labels = tuple(map(str, names or range(rows.shape[-1])))
        # "same": the caller states that all contexts have the same rows.
        tables.append(ScoreTable({"rows": "same"}, labels, {"test": make_block(rows)}))
    averaged = correct_group(methods.METHODS["ensemble"], tables)[0].scores
    return in_kind_of(sources[0], averaged, names)


def _refuse_unread(
    name: str, method: methods.Method, probe: object, labeled: object = None, labels: object = None
) -> None:
    """Raises an error if the caller passes rows or labels that the method does not read."""
    probe_blocks = set(method.probe.blocks) - {"test", "labeled"}  # blocks that `probe` fills
    for where, source, is_read in (
        ("probe", probe, bool(probe_blocks)),
        ("labeled", labeled, "labeled" in method.probe.blocks),
        ("labels", labels, bool(method.probe.labeled)),
    ):
        if source is not None and not is_read:
            expected = f"none, as {name} reads {method.probe.description}"
            raise InputError.at(where, expected, remedy="leave it out")


def _log_probs_needed(where: str, method: str, why: str) -> str:
    """Returns the message about scores that are no log-probabilities, which the method needs."""
    return (
        f"{where}: {method} needs log-probabilities over the whole vocabulary, but {why}: pass "
        f"these, or use {method.partition('_')[0]} with its defaults, which accepts all scores."
    )


def _what_is_lacking(method: methods.Method, name: str, block: str, lacking: str) -> str:
    """Returns the message about the missing rows of a block, or their missing labels."""
    if block == "labeled":
        return (
            f"{name} learns from a labeled set, but {lacking} is missing: pass labeled=[m, k] and "
            "labels=[m], or use bc, which needs no labels."
        )
    if lacking == "labels":
        return (
            f"{name} learns from probe prompts with known labels "
            f"({method.probe.description}), but labels is missing: pass labels=[m] with "
            "probe=[m, k], or use bc, which needs no labels."
        )
    return (
        f"{name} learns its bias from probe prompts ({method.probe.description}), but probe is "
        "missing: pass their scores, probe=[m, k], or use bc, which needs no probe."
    )


def _one_per_context(array: np.ndarray, leading_axes: tuple[int, ...]) -> np.ndarray:
    """Returns one array for each context: repeats [m, k], and flattens the axes of [..., m, k]."""
    if array.ndim > 2 and array.shape[:-2] != leading_axes:
        expected = f"[m, k] for all contexts or leading axes {leading_axes} as in scores"
        remedy = "pass one set for all contexts, or one for each"
        raise InputError.at("probe or labeled", expected, f"shape {array.shape}", remedy)
    spread = np.broadcast_to(array, (*leading_axes, *array.shape[-2:]))
    return spread.reshape(-1, *array.shape[-2:])  # [contexts, m, k]
