"""The table of methods as a scikit-learn estimator: fit, transform, predict."""

from collections.abc import Mapping
from typing import Self

import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from batch_calibration.arrays import check_key
from batch_calibration.calibration.base import predict
from batch_calibration.errors import InputError
from batch_calibration.methods import get_method, make_calibrator
from batch_calibration.validation import (
    check_labels,
    check_options,
    check_scores,
    warn_of_few,
)


class LabelBiasCorrector(ClassifierMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Learns a prompt's label bias from the rows given to `fit`, and removes it: s - gamma b.

    `X` holds log-probabilities [n, k] in nats, one column per label; labels are column indices.
    What the rows given to `fit` are makes the method: scores of content-free prompts for cc, of
    random words for dc, of the batch itself for bc and pc. For bcl, `y` is -1 on the rows that give
    the bias; if no row is unlabeled, the labeled rows give bias and strength both.

    Args:
        method: a name from `METHODS`.
        options: what `METHODS[method].make` takes.
        random_state: int seed, for pc.

    Attributes:
        state_: what the method learned.
        classes_: the column indices, 0 to k - 1.

    >>> rows = [[-1.0, -3.0], [-2.0, -2.5]]
    >>> LabelBiasCorrector().fit(10 * rows).predict(rows).tolist()
    [0, 1]
    """

    def __init__(
        self,
        method: str = "bc",
        options: Mapping[str, object] | None = None,
        random_state: int | None = None,
    ):
        self.method = method
        self.options = options
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike | None = None) -> Self:
        """Learns the bias from the rows of `X`; `y` is read by methods that read labels.

        Raises:
            InputError: bad scores, labels or options, an unknown method, a method without what it
                needs.
        """
        # As a string: a list has no hash to look up.
        method = get_method(str(self.method))
        scores = self._check_rows(X)
        options = check_options(self.method, method.make, self.options or {}, scores.shape[-1])
        options.pop("floor", None)
        warn_of_few(self.method, method.probe.blocks, len(scores), "X")
        labels = None if y is None or not method.probe.labels else check_labels(y, scores, "y")
        self.calibrator_ = make_calibrator(method, floor=self._floor, **options)
        self.state_ = self.calibrator_.fit(
            jnp.asarray(scores),
            None if labels is None else jnp.asarray(labels),
            key=None if self.random_state is None else check_key(self.random_state, "random_state"),
        )
        self.classes_ = np.arange(scores.shape[-1])
        self.n_features_in_ = scores.shape[-1]
        return self

    def transform(self, X: ArrayLike) -> np.ndarray:
        """The corrected scores [n, k]."""
        check_is_fitted(self)
        scores = self._check_rows(X, self.n_features_in_)
        return np.asarray(self.calibrator_.apply(self.state_, jnp.asarray(scores)))

    @property
    def _floor(self) -> float | None:
        floor: float | None = (self.options or {}).get("floor")  # type: ignore[assignment]
        return floor

    def _check_rows(self, X: ArrayLike, labels: int | None = None) -> np.ndarray:
        scores = check_scores(X, "X", labels=labels, floor=self._floor)
        if scores.ndim != 2:
            raise InputError(
                f"X: expected one context, an array [n, k]; got shape {scores.shape}: fit one "
                f"estimator per context, or use calibrate, which takes them together."
            )
        return scores

    def predict(self, X: ArrayLike) -> np.ndarray:
        """The column of the largest corrected score; of equal scores, the lowest."""
        return np.asarray(predict(self.transform(X)))

    def decision_function(self, X: ArrayLike) -> np.ndarray:
        """The corrected scores, under the name that scikit-learn's curves ask for."""
        return self.transform(X)
