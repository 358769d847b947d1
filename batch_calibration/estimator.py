"""A scikit-learn estimator for all methods: fit, partial_fit, transform, predict."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Mapping, Sequence
from functools import partial
from typing import Any, Self

import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, ClassifierMixin, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils import Tags, validation
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets

from batch_calibration import methods
from batch_calibration.arrays.alignment import in_label_order, in_row_order, is_text
from batch_calibration.arrays.missing_scores import Missing
from batch_calibration.arrays.numbers import check_key, usual_jax
from batch_calibration.calibration import running
from batch_calibration.calibration import temperature as tempering
from batch_calibration.calibration.base import Calibrator, label_normalized, predict
from batch_calibration.diagnosis.advice import AdviceSource, load_advice, refuse_beside_advice
from batch_calibration.errors import InputError, callers_level, shown
from batch_calibration.typing import FromProbs, Key, Labels

STREAMED = "bc"
"""The method with a running mean as its bias, which `partial_fit` can update."""


def _is_streamed(corrector: LabelBiasCorrector) -> bool:
    method = corrector.method if corrector.advice is None else "advice"
    if method == STREAMED:
        return True
    raise AttributeError(
        f"partial_fit: expected method={STREAMED!r}, which has a running mean as its bias; got "
        f"{shown(method)}: call fit with all rows."
    )


class LabelBiasCorrector(
    ClassifierMixin,  # type: ignore[misc]
    OneToOneFeatureMixin,  # type: ignore[misc]
    TransformerMixin,  # type: ignore[misc]
    BaseEstimator,  # type: ignore[misc]
):
    """Learns a prompt's label bias from the rows given to `fit`, and removes it: s - gamma b.

    `X` holds log-probabilities [n, k] in nats, one column per label, in an array or a frame. All
    rows belong to one context, so that `bc_pooled_shares` equals `bc_empirical_bayes` here;
    `recommend_together` pools the label shares of several contexts of a task.
    The rows given to `fit` are scores of content-free prompts for cc, of random words for dc, of
    the batch itself for bc and pc. For bcl, `y` is -1 for the rows that determine the bias; if no
    row is unlabeled, the labeled rows determine both the bias and the strength.

    `classes` matches classes with columns. Without it, `y` holds names of a frame's columns, column
    indices, or else k numbers in the order of the columns. Other texts are refused, because their
    columns are unknown. A pandas `y` is aligned with a frame's rows by index.

    Args:
        method: A name in `METHODS`.
        options: Other arguments of `METHODS[method].make`, such as starts, batch_size or bias_from.
        random_state: An int seed, for pc.
        strength: gamma; None, here and below, for the method's own default.
        target_prior: The expected share of each of the k labels, in the order of the columns or
            by class (a dict or a series).
        metric: The metric by which bcl chooses its strength, "accuracy" or "macro_f1".
        floor: Raises scores below this many nats, minus infinity too, to this value.
        missing: Replacement for scores of labels that were not returned; see `calibrate`.
        from_probs: True: the rows are probabilities, and their logarithm is taken. "counts": they
            count sampled answers (see `calibrate`). None: detect the scale (see
            `arrays.find_scale`), and refuse all but log-probabilities. False: accept any numbers.
        classes: The class of each column, in order.
        temperature: T, by which the corrected scores are divided for `predict_proba`, or "auto":
            fitted to the rows with labels `y` (see `fit_temperature`).
        advice: Advice of `recommend`, or its file, in place of method, options, target_prior and
            strength. Its labels are found by `classes` or the names of a frame's columns, if these
            are texts, else by position.

    Attributes:
        method_: The method that was fitted.
        state_: The learned state of the method, a NamedTuple of arrays.
        column_classes_: The class of each column: its index, unless `classes` or `y` sets another.
        classes_: The same classes sorted, as scikit-learn's metrics expect them; the order of the
            columns of `predict_proba` and `decision_function`.
        n_features_in_: k.
        feature_names_in_: Names of a frame's columns, if these are texts.
        own_rows_: The rows given to `fit`, for bc_running and bc_loo, which correct only these.
        seen_: The mean of all rows so far and their number, for bc.
        temperature_: T, 1 without a temperature.

    >>> rows = [[-1.0, -3.0], [-2.0, -2.5]]
    >>> LabelBiasCorrector(classes=["no", "yes"]).fit(10 * rows).predict(rows).tolist()
    ['no', 'yes']
    """

    def __init__(
        self,
        method: str = "bc",
        options: Mapping[str, object] | None = None,
        random_state: int | None = None,
        *,
        strength: float | None = None,
        target_prior: Sequence[float] | None = None,
        metric: str | None = None,
        floor: float | None = None,
        missing: Missing | None = None,
        from_probs: FromProbs = None,
        classes: Sequence[Hashable] | None = None,
        advice: AdviceSource | None = None,
        temperature: tempering.Temperature | None = None,
    ):
        self.method = method
        self.options = options
        self.random_state = random_state
        self.strength = strength
        self.target_prior = target_prior
        self.metric = metric
        self.floor = floor
        self.missing = missing
        self.from_probs = from_probs
        self.classes = classes
        self.advice = advice
        self.temperature = temperature

    @usual_jax
    def fit(self, X: ArrayLike, y: ArrayLike | None = None) -> Self:
        """Learns the bias from the rows of `X`; some methods also read the labels `y`.

        Raises:
            InputError: Scores, labels or options are invalid, the method is unknown, or its probe
                rows or labels are missing.
        """
        method, scores, gold = self._begin(X, y)
        methods.warn_of_few_rows(self.method_, method.probe.blocks, len(scores), "X")
        labels, seed = None, self.random_state
        if y is not None and method.probe.labels:
            labels = jnp.asarray(methods.check_labels(gold, scores, "y"))
        if gold is not None:  # `score` reads labels even if the method does not
            methods.warn_about_order(scores, gold, "y")
        key = None if seed is None else check_key(seed, "random_state")
        self.state_ = self._calibrator().fit(jnp.asarray(scores), labels, key=key)
        self.temperature_ = self.temperature or 1.0
        if self.temperature == tempering.AUTO:
            self.temperature_ = self._fit_temperature(scores, gold, labels, key)
        # A new fit discards the rows of earlier calls of partial_fit.
        self.__dict__.pop("seen_", None)
        self.own_rows_ = scores if method.own_rows else None
        if self.method_ == STREAMED:
            # partial_fit continues from this estimate.
            self.seen_ = running.update(running.empty(scores.shape[-1]), scores)
        return self

    @available_if(_is_streamed)  # type: ignore[untyped-decorator]
    @usual_jax
    def partial_fit(
        self, X: ArrayLike, y: ArrayLike | None = None, classes: Sequence[Hashable] | None = None
    ) -> Self:
        """Updates the bias of bc with more rows; the batches together give the same as `fit`.

        Args:
            X: The next rows [m, k].
            y: Labels, which are read only in the first batch, to get the classes.
            classes: All classes that `y` may hold, if the first batch lacks some. The estimator's
                parameter `classes` assigns them to columns.

        Raises:
            AttributeError: The method is not bc.
            InputError: `fit` would refuse the rows.
        """
        if hasattr(self, "seen_"):
            scores, seen = self._check_rows(X, reset=False), self.seen_
        else:
            _, scores, _ = self._begin(X, y, classes)
            if self.temperature == tempering.AUTO:
                expected, remedy = "a number for partial_fit", "call fit with all rows"
                raise InputError.at("", expected, repr(tempering.AUTO), remedy, "temperature")
            self.temperature_ = self.temperature or 1.0
            seen = running.empty(scores.shape[-1])
        self.seen_ = running.update(seen, scores)
        # The mean is passed as a single row, so that the method's options apply as in `fit`.
        self.state_ = self._calibrator().fit(self.seen_.mean[None])
        return self

    @usual_jax
    def transform(self, X: ArrayLike) -> np.ndarray:
        """Returns the corrected scores [n, k], divided by the temperature."""
        validation.check_is_fitted(self)
        scores = self._check_rows(X, reset=False)
        own = getattr(self, "own_rows_", None)
        if own is not None and not np.array_equal(own, scores):
            expected = f"the {len(own)} rows given to fit, as {self.method_} corrects no others"
            got, remedy = f"{len(scores)} different rows", "call fit with them, or use bc"
            raise InputError.at("X", expected, got, remedy)
        corrected = self._calibrator().apply(self.state_, jnp.asarray(scores))
        return np.asarray(corrected) / np.float32(self.temperature_)

    @usual_jax
    def predict(self, X: ArrayLike) -> np.ndarray:
        """Predicts the class of the largest corrected score; the first column wins ties."""
        column = np.asarray(predict(self.transform(X)))
        return np.asarray(self.column_classes_[column])

    @usual_jax
    def predict_proba(self, X: ArrayLike) -> np.ndarray:
        """Returns the softmax of `transform(X)`, [n, k], in the order of `classes_`."""
        return np.asarray(jnp.exp(label_normalized(jnp.asarray(self._by_class(X)))))

    @usual_jax
    def score(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Returns the accuracy of `predict` on rows with known `y`; pandas rows align by index."""
        gold, weights = in_row_order(y, "y", X, "X"), sample_weight
        if weights is not None:
            weights = in_row_order(weights, "sample_weight", X, "X")
        is_unknown = np.asarray(gold) == -1
        if is_unknown.any() and -1 not in self.classes_.tolist():
            weights = np.where(is_unknown, 0.0, 1.0 if weights is None else weights)
        return float(super().score(X, gold, weights))

    @usual_jax
    def decision_function(self, X: ArrayLike) -> np.ndarray:
        """Returns corrected scores [n, k] by `classes_`; for two, second minus first, [n]."""
        scores = self._by_class(X)
        return scores[:, 1] - scores[:, 0] if scores.shape[-1] == 2 else scores

    def _fit_temperature(
        self, scores: np.ndarray, gold: np.ndarray | None, labels: Labels | None, key: Key | None
    ) -> float:
        """Fits T to the rows with known labels; a method that reads labels is fitted in folds."""
        if gold is None or not (gold >= 0).any():
            remedy = "pass y, or a number"
            raise InputError.at("", "known labels y for 'auto'", "none", remedy, "temperature")
        calibrator, rows = self._calibrator(), jnp.asarray(scores)
        corrected = np.array(calibrator.apply(self.state_, rows))
        for is_out in () if labels is None else tempering.folds(len(rows)):
            state = calibrator.fit(rows, jnp.where(is_out, -1, jnp.asarray(labels)), key=key)
            corrected[is_out] = np.asarray(calibrator.apply(state, rows))[is_out]
        return float(tempering.find_temperature(corrected, gold))

    def _by_class(self, X: ArrayLike) -> np.ndarray:
        return self.transform(X)[:, np.argsort(self.column_classes_)]

    def __setstate__(self, state: dict[str, Any]) -> None:
        # Earlier versions had neither advice nor a temperature.
        super().__setstate__({"advice": None, "temperature": None, "temperature_": 1.0, **state})
        if "classes_" in state and "column_classes_" not in state:
            # Earlier versions stored only the classes in the order of the columns.
            self.column_classes_ = state["classes_"]
            self.classes_ = np.sort(state["classes_"])

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = False
        tags.transformer_tags.preserves_dtype = ["float32"]
        # The columns must be scores of labels; the data of scikit-learn's checks are not.
        tags.classifier_tags.poor_score = True
        return tags

    def _begin(
        self, X: ArrayLike, y: ArrayLike | None, occurring: Sequence[Hashable] | None = None
    ) -> tuple[methods.Method, np.ndarray, np.ndarray | None]:
        """Reads the first batch; returns the method, its scores, and the column of each `y`."""
        tempering.check_temperature(self.temperature)
        scores = self._check_rows(X, reset=True)
        parameters = {name: getattr(self, name) for name in ("strength", "target_prior", "metric")}
        # Parameters of the estimator take precedence over `options` of the same name.
        named = {name: chosen for name, chosen in parameters.items() if chosen is not None}
        options = {**(self.options or {}), **named}
        names = getattr(self, "feature_names_in_", None)
        self.method_ = self.method
        if self.advice is not None:
            given = {"method": self.method != STREAMED, "options": self.options}
            refuse_beside_advice(**given, **dict.fromkeys(named, True))
            known = [labels for labels in (self.classes, names) if labels is not None]
            texts = next((labels for labels in known if all(map(is_text, labels))), ())
            advice = load_advice(self.advice, texts, k=scores.shape[-1])
            self.method_, options = advice.method, dict(advice.options)
        # Converted to a string, because a list is not hashable and cannot be looked up.
        method = methods.get_method(str(self.method_))
        class_of_row = None
        if y is not None:
            class_of_row = class_values(in_row_order(y, "y", X, "X"), len(scores))
        if occurring is not None:  # later batches may hold classes that this batch lacks
            class_of_row = np.asarray(occurring)
        k, needed = scores.shape[-1], bool(method.probe.labels)
        columns, gold = class_columns(class_of_row, k, self.classes, names, needed=needed)
        self.column_classes_ = columns
        self.classes_ = np.sort(columns)
        if "target_prior" in options:
            # Shares are by class, or by the names of a frame's columns if `y` gave no classes.
            has_names = names is not None and self.classes is None and y is None
            labels = np.asarray(names if has_names else columns)
            shares = in_label_order(options["target_prior"], labels.tolist(), "target_prior", k)
            options["target_prior"] = shares
        self.options_ = methods.check_options(self.method_, method.factory, options, k)
        self.options_["floor"] = self._floor
        return method, scores, gold

    def _calibrator(self) -> Calibrator:
        """Returns the fitted method; made again each time, as its functions cannot be pickled."""
        return methods.make_calibrator(methods.get_method(self.method_), **self.options_)  # type: ignore[arg-type]

    @property
    def _floor(self) -> float | None:
        return self.floor if self.floor is not None else (self.options or {}).get("floor")  # type: ignore[return-value]

    def _check_rows(self, X: ArrayLike, *, reset: bool) -> np.ndarray:
        if issparse(X):
            got = f"a sparse {type(X).__name__}"
            raise InputError.at("X", "a dense array [n, k]", got, "pass X.toarray()")
        # scikit-learn checks names and width first, so that its own messages appear.
        if not reset and len(getattr(X, "shape", ())) == 2:
            validation.validate_data(self, X, reset=False, skip_check_array=True)
        read = partial(methods.check_scores, floor=self._floor, from_probs=self.from_probs)
        beside_others = not reset and self._learned_from_others
        scores = read(X, "X", missing=self.missing, beside_others=beside_others)
        if reset:
            self._learned_from_others: bool = bool((scores > 0).any())
        if scores.ndim != 2:
            expected = "one context, an array [n, k]"
            remedy = "fit one estimator per context, or use calibrate, which accepts several"
            raise InputError.at("X", expected, f"shape {scores.shape}", remedy)
        # Repeated after the scores are accepted: sets the width and names that `fit` has seen.
        validation.validate_data(self, X, reset=reset, skip_check_array=True)
        return scores


def class_values(y: ArrayLike, rows: int) -> np.ndarray:
    """Returns the class of each row, [n], after scikit-learn's checks."""
    classes = validation.column_or_1d(y, warn=True)
    validation.check_consistent_length(np.empty(rows), classes)
    if classes.dtype.kind == "f":  # texts have no NaN
        validation.assert_all_finite(classes, input_name="y")
    check_classification_targets(classes)
    return np.asarray(classes)


def class_columns(
    y: np.ndarray | Sequence[Hashable] | None,
    k: int,
    classes: Sequence[Hashable] | None = None,
    names: np.ndarray | None = None,
    *,
    needed: bool = True,
) -> tuple[np.ndarray, np.ndarray | None]:
    """Returns the class of each of k columns, and the column of each row's class (-1: unknown).

    `y` has the class of each row, -1 for unknown; `classes` the class of each column, if known;
    `names` the columns' names. A class without a column is an error if `needed`. Otherwise, for a
    whole number, a warning states that no prediction can be right, and the column is -1.

    Raises:
        InputError: The classes are not k different values, a class has no column, or the order of
            texts is unknown.

    >>> class_columns(["yes", "no", "yes"], 2, ["no", "yes"])[1].tolist()
    [1, 0, 1]
    """
    columns = np.arange(k)  # without names, a class is the index of its column
    if classes is not None:
        columns = np.asarray(classes)
        if columns.shape != (k,) or len(set(columns.tolist())) < k:  # a class has two columns
            expected = f"{k} different ones, one for each column of X in order"
            raise InputError.at("classes", expected, shown(classes))
    if y is None:
        return columns, None
    distinct, distinct_of_row = np.unique(np.asarray(y), return_inverse=True)
    is_numeric = distinct.dtype.kind in "iuf"
    # -1 is a class only if it is in `classes`; in other dtypes, only NaN differs from itself.
    is_unknown = distinct != distinct
    if is_numeric:
        is_unknown = (distinct == -1) & (-1 not in columns.tolist())
    occurring = distinct[~is_unknown].tolist()
    # -1, 0, 1 for three classes and -1, 1 for two are ambiguous: -1 may be unknown or a class.
    if classes is None and is_unknown.any() and occurring == ([*range(k - 1)] if k > 2 else [1]):
        got = f"{shown([-1, *occurring])}; -1 may be a class or unknown"
        remedy = f"pass classes={shown([-1, *occurring])} or classes={shown([*range(k)])}"
        raise InputError.at("y", f"indices of {k} columns", got, remedy)
    if classes is None and not set(occurring) <= set(range(k)):
        # Names of columns determine the order; otherwise k numbers are sorted.
        if names is not None and set(occurring) <= set(names.tolist()):
            columns = names
        elif not is_numeric:
            # Alphabetical order would be a guess, and no later error would reveal a wrong one.
            expected = "column indices, or names of the columns of X"
            expected += "" if names is None else f", {shown(names.tolist())}"
            got = f"{shown(occurring[:k])}, and their columns are unknown"
            remedy = "use LabelBiasCorrector(classes=[...]), the class of each column in order"
            raise InputError.at("y", expected, got, remedy)
        elif len(occurring) == k:  # numbers such as 1 and 2, in their order
            columns = distinct[~is_unknown]
    column_of = dict(zip(columns.tolist(), range(k), strict=True))
    without_column = [name for name in occurring if name not in column_of]
    if without_column:
        if needed or not is_numeric or classes is not None:
            expected = f"classes of the {k} columns of X, {shown(columns.tolist())}"
            got = f"{len(occurring)} classes with {shown(without_column[0])} among them"
            remedy = "pass classes=[...], the class of each column in order"
            raise InputError.at("y", expected, got, remedy)
        warnings.warn(
            f"y: the class {without_column[0]} has no column in X. The columns are "
            f"{columns.tolist()}, so no prediction for its rows is right; pass classes=[...] "
            "if it has a column.",
            stacklevel=callers_level(),
        )
    column_of_distinct = [column_of.get(name, -1) for name in distinct.tolist()]
    return columns, np.array(column_of_distinct, np.int32)[distinct_of_row]  # [n]
