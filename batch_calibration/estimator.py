"""The table of methods in scikit-learn's clothes: fit, transform, predict."""

from typing import Any, Self

import jax.numpy as jnp
import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from batch_calibration.calibration.base import predict
from batch_calibration.errors import InputError
from batch_calibration.methods import get_method
from batch_calibration.validation import check_key, check_labels, check_options, check_scores


class LabelBiasCorrector(ClassifierMixin, TransformerMixin, BaseEstimator):
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
    >>> LabelBiasCorrector().fit(rows).predict(rows).tolist()
    [0, 1]
    """

    def __init__(
        self,
        method: str = "bc",
        options: dict[str, Any] | None = None,
        random_state: int | None = None,
    ):
        self.method = method
        self.options = options
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learns the bias from the rows of `X`; `y` is read by bcl alone.

        Raises:
            InputError: bad scores, labels or options, an unknown method, a method without what it
                needs.
        """
        # As a string: a list has no hash to look up.
        method = get_method(str(self.method))
        scores = self._check_rows(X)
        options = check_options(self.method, method.make, self.options or {}, scores.shape[-1])
        labels = None if y is None or not method.probe.labels else check_labels(y, scores, "y")
        if labels is not None and (labels >= 0).all():
            options.setdefault("bias_from", "labeled")
        self.calibrator_ = method.make(**options)
        self.state_ = self.calibrator_.fit(
            jnp.asarray(scores),
            None if labels is None else jnp.asarray(labels),
            key=check_key(self.random_state, "random_state"),
        )
        self.classes_ = np.arange(scores.shape[-1])
        self.n_features_in_ = scores.shape[-1]
        return self

    def transform(self, X: Any) -> np.ndarray:
        """The corrected scores [n, k]."""
        check_is_fitted(self)
        scores = self._check_rows(X, self.n_features_in_)
        return np.asarray(self.calibrator_.apply(self.state_, jnp.asarray(scores)))

    def _check_rows(self, X: Any, labels: int | None = None) -> np.ndarray:
        scores = check_scores(X, "X", labels=labels, floor=(self.options or {}).get("floor"))
        if scores.ndim != 2:
            raise InputError(
                f"X: expected one context, an array [n, k]; got shape {scores.shape}: fit one "
                f"estimator per context, or use calibrate, which takes them together."
            )
        return scores

    def predict(self, X: Any) -> np.ndarray:
        """The column of the largest corrected score; of equal scores, the lowest."""
        return np.asarray(predict(self.transform(X)))

    def decision_function(self, X: Any) -> np.ndarray:
        """The corrected scores, under the name that scikit-learn's curves ask for."""
        return self.transform(X)
