"""Array types and their axis letters.

Axes: `n` rows, `m` probe rows, `k` labels, `s` starts, `c` contexts, `g` strengths.
Scores are natural logarithms (nats) of a label's probability given a prompt.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import jax
import numpy as np
from jaxtyping import Float, Int, Int32, Shaped

AnyArray = jax.Array | np.ndarray
"""Arrays that a calibrator accepts; it always returns a `jax.Array`."""

Rows = Float[AnyArray, "n k"]
Scores = Float[jax.Array, "n k"]
ProbeRows = Float[AnyArray, "m k"]
Labels = Int[AnyArray, "m"]
Weight = Float[AnyArray, "m"]
Bias = Float[jax.Array, "k"]
Curve = Float[jax.Array, "g"]
Scalar = Float[jax.Array, ""]
Count = Int32[jax.Array, ""]
Predictions = Int32[jax.Array, "..."]
State = Any
"""State of a method's `fit`: a NamedTuple of arrays that only its own `apply` reads."""

Container = Any
"""Arrays that users pass and receive: an array, a tensor, a list, a series, a frame."""

Prior = Sequence[float] | Float[AnyArray, "k"]
"""The expected share of each label; an array may be traced."""

Key = Shaped[jax.Array, "..."]
"""A `jax.random` key, new style (typed) or old (two words)."""

Plane = Float[AnyArray, "..."]
Margin = Float[jax.Array, "..."]

Means = Float[jax.Array, "k k"]
Factors = Float[jax.Array, "k k k"]
Starts = Float[jax.Array, "s k k"]
Ordinal = bool | Sequence[str]
"""True if labels are grades, or their names from lowest to highest."""
FromProbs = bool | Literal["counts"] | None
"""The kind of scores as a user states it: True for probabilities, "counts" for counts of a row's
sampled answers, False for other scores; None detects the kind."""
