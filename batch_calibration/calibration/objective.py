"""Objectives that a fit may maximize, over labeled rows: accuracy, recall and macro-F1."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from batch_calibration.arrays.numbers import takes_predictions
from batch_calibration.calibration.base import favored, weights_of
from batch_calibration.typing import Labels, ProbeRows, Scalar, Weight


def known_weight(rows: ProbeRows, labels: Labels, weight: Weight | None = None) -> jax.Array:
    """Returns each row's weight, zero for an unknown label (-1)."""
    return jnp.where(labels >= 0, weights_of(rows, weight), 0.0)


@takes_predictions
def accuracy(scores: ProbeRows, labels: Labels, weight: Weight | None = None) -> Scalar:
    """Computes the share of labeled rows with a right prediction.

    `scores` may also be predicted labels [n].

    >>> accuracy([0, 0], [0, 1])
    0.5
    >>> accuracy(jnp.array([[1.0, 0.0], [1.0, 0.0]]), jnp.array([0, 1])).item()
    0.5
    """
    weights = known_weight(scores, labels, weight)
    right = jnp.sum(jnp.where(favored(scores) == labels, weights, 0.0))
    total = jnp.sum(weights)
    return right / jnp.where(total > 0, total, 1.0)


@takes_predictions
def macro_f1(scores: ProbeRows, labels: Labels, weight: Weight | None = None) -> Scalar:
    """Computes the mean over labels of F1_j = 2 TP_j / (2 TP_j + FP_j + FN_j).

    Labels that neither occur nor are predicted are left out, as in scikit-learn. `scores` may also
    be predicted labels [n].

    >>> round(macro_f1(jnp.array([[1.0, 0.0], [1.0, 0.0]]), jnp.array([0, 1])).item(), 4)
    0.3333
    """
    weights = known_weight(scores, labels, weight)[:, None]
    # Counted with weights: a row of weight 2 counts twice.
    names = jnp.arange(scores.shape[-1], dtype=jnp.int32)
    is_predicted = favored(scores)[:, None] == names
    is_true = jnp.asarray(labels, jnp.int32)[:, None] == names
    true_positives = jnp.sum(jnp.where(is_predicted & is_true, weights, 0.0), axis=0)
    counted = jnp.where(is_predicted, weights, 0.0) + jnp.where(is_true, weights, 0.0)
    predicted_plus_true = jnp.sum(counted, axis=0)
    f1 = 2.0 * true_positives / jnp.where(predicted_plus_true > 0, predicted_plus_true, 1.0)
    occurring = jnp.sum(predicted_plus_true > 0).astype(jnp.float32)
    return jnp.sum(f1) / jnp.maximum(occurring, 1.0)


def present_mean(per_row: jax.Array, weights: jax.Array, axis: int | None = None) -> jax.Array:
    """Computes a weighted mean, 0 if all weights are 0; masks absent values, which may be NaN."""
    total = jnp.sum(weights, axis=axis)
    weighted = jnp.where(weights > 0, weights * per_row, 0.0)
    return jnp.sum(weighted, axis=axis) / jnp.where(total > 0, total, 1.0)


def one_hot(scores: ProbeRows, labels: Labels) -> jax.Array:
    """Returns one-hot labels [m k], with zeros for an unknown label."""
    return jax.nn.one_hot(labels, scores.shape[-1], dtype=jnp.float32)


def mean_per_label(
    per_row: jax.Array, scores: ProbeRows, labels: Labels, weight: Weight | None
) -> tuple[jax.Array, jax.Array]:
    """Computes the mean of values[m] over each label's rows, [k], and whether the label occurs."""
    weights = known_weight(scores, labels, weight)[:, None] * one_hot(scores, labels)
    return present_mean(per_row[:, None], weights, axis=0), jnp.sum(weights, axis=0) > 0


def recall_per_label(
    scores: ProbeRows, labels: Labels, weight: Weight | None
) -> tuple[jax.Array, jax.Array]:
    """Computes the recall of each label, [k], and whether the label occurs."""
    right = (favored(scores) == labels).astype(jnp.float32)
    return mean_per_label(right, scores, labels, weight)


@takes_predictions
def balanced_accuracy(scores: ProbeRows, labels: Labels, weight: Weight | None = None) -> Scalar:
    """Computes the mean recall over the labels that occur: the accuracy at equal label shares.

    >>> balanced_accuracy([0, 0, 0, 0], [0, 0, 0, 1])
    0.5
    """
    recall, occurs = recall_per_label(scores, labels, weight)
    return present_mean(recall, occurs.astype(jnp.float32))
