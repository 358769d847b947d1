"""The table of methods: name -> probe, calibrator, source. The paper's comparison is this dict."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from batch_calibration import probes
from batch_calibration.calibration.base import Calibrator
from batch_calibration.calibration.learned_shift import learned_shift
from batch_calibration.calibration.prototypes import MOST_LABELS, prototypes
from batch_calibration.calibration.running import running_shift
from batch_calibration.calibration.shift import (
    mean_prob_shift,
    mean_shift,
    no_shift,
    original_shift,
    prob_shift,
)
from batch_calibration.errors import InputError
from batch_calibration.typing import Key, Labels, ProbeRows, Rows, Scores, Weight


class Method(NamedTuple):
    """A way to correct label bias.

    Attributes:
        probe: what the bias is learned from.
        make: options -> `Calibrator`.
        source: where the method is from.
        most_labels: how many labels it can tell apart, None for any number.
    """

    probe: probes.Probe
    make: Callable[..., Calibrator]
    source: str
    most_labels: int | None = None


class Evidence(NamedTuple):
    """A block of rows to learn from; a plain pair `(log_probs, labels)` serves as well.

    Attributes:
        log_probs: [m k], in nats.
        labels: [m]; -1 means unknown.
        weight: [m]; 0 means absent.
    """

    log_probs: ProbeRows
    labels: Labels | None = None
    weight: Weight | None = None


_PAPER = "Zhou et al. 2024, arXiv:2309.17249"

METHODS: dict[str, Method] = {
    "icl": Method(probes.NONE, no_shift, "Brown et al. 2020, arXiv:2005.14165"),
    "cc": Method(probes.CONTENT_FREE, mean_shift, f"Zhao et al. 2021, as in {_PAPER}, app. B"),
    "dc": Method(probes.RANDOM_WORDS, mean_shift, f"Fei et al. 2023, as in {_PAPER}, app. B"),
    "pc": Method(
        probes.BATCH, prototypes, f"Han et al. 2023, as in {_PAPER}, sec. 3 and app. B", MOST_LABELS
    ),
    "bc": Method(probes.BATCH, mean_shift, f"{_PAPER}, eq. 1 and 2"),
    "bcl": Method(probes.BATCH_AND_LABELED, learned_shift, f"{_PAPER}, eq. 4"),
    "bc_running": Method(probes.STREAM, running_shift, f"{_PAPER}, eq. 3"),
    "cc_original": Method(
        probes.CONTENT_FREE, original_shift, "code of Zhao et al. 2021, arXiv:2102.09690"
    ),
    "dc_original": Method(
        probes.RANDOM_WORDS, original_shift, "code of Fei et al. 2023, arXiv:2305.19148"
    ),
    "bc_mean_prob": Method(probes.BATCH, mean_prob_shift, "division by the mean probability: UCPA"),
    "bc_prob_shift": Method(probes.BATCH, prob_shift, "p - mean p: StaICC"),
}


def get_method(name: str) -> Method:
    """The method of that name.

    Raises:
        InputError: there is none; the sentence offers the nearest name.

    >>> get_method("bc").probe.name
    'batch'
    """
    if name not in METHODS:
        raise InputError.unknown("method", name, METHODS)
    return METHODS[name]


def gather(method: Method, blocks: Mapping[str, Any]) -> Evidence:
    """The rows a method learns from, one after the other; labels kept of "labeled" alone.

    Labels of the test rows are hidden (-1): no method may see them.

    Raises:
        InputError: a block that the method's probe names is missing.
    """
    missing = [name for name in method.probe.blocks if name not in blocks]
    if missing:
        raise InputError(
            f"The probe '{method.probe.name}' reads the blocks {', '.join(method.probe.blocks)}; "
            f"{', '.join(missing)} did not come, only {', '.join(blocks) or 'none'}: score the "
            f"missing inputs first."
        )
    # A method without a probe still reads the number of labels from some rows.
    names = method.probe.blocks or tuple(blocks)[:1]
    parts = [Evidence(*blocks[name]) for name in names]
    labels = [
        jnp.asarray(part.labels, jnp.int32)
        if name == "labeled" and part.labels is not None
        else jnp.full(part.log_probs.shape[0], -1, jnp.int32)
        for name, part in zip(names, parts, strict=True)
    ]
    weights = [
        jnp.ones(part.log_probs.shape[0], jnp.float32)
        if part.weight is None
        else jnp.asarray(part.weight)
        for part in parts
    ]
    return Evidence(
        jnp.concatenate([jnp.asarray(part.log_probs) for part in parts]),
        jnp.concatenate(labels),
        jnp.concatenate(weights),
    )


def fit(
    method: Method, blocks: Mapping[str, Any], *, key: Key | None = None, **options: Any
) -> Any:
    """Learns a method's state from the blocks its probe names.

    Args:
        method: a row of `METHODS`.
        blocks: name -> `(log_probs[m k], labels[m] or None)`, or with a weight[m] as third.
        key: a `jax.random` key, for PC.
        **options: what `method.make` takes.

    Returns:
        The state, for `method.make(**options).apply`.

    >>> rows = jnp.array([[-1.0, -3.0], [-2.0, -2.5]])
    >>> fit(METHODS["bc"], {"test": (rows, None)}).bias.tolist()
    [-1.5, -2.75]
    """
    return method.make(**options).fit(*gather(method, blocks), key=key)


def correct(
    method: Method,
    blocks: Mapping[str, Any],
    log_probs: Rows,
    *,
    key: Key | None = None,
    **options: Any,
) -> Scores:
    """Learns from the blocks and removes the bias from `log_probs`: fit, then apply.

    >>> rows = jnp.array([[-1.0, -3.0], [-2.0, -2.5]])
    >>> correct(METHODS["bc"], {"test": (rows, None)}, rows).tolist()
    [[0.5, -0.25], [-0.5, 0.25]]
    """
    state = fit(method, blocks, key=key, **options)
    return method.make(**options).apply(state, log_probs)


SHIFTS = tuple(name for name in METHODS if name != "pc")
"""Every method but PC: those whose state is a few numbers and that need no random key."""


def compare(
    blocks: Mapping[str, Any], *, methods: tuple[str, ...] = SHIFTS, key: Key | None = None
) -> dict[str, jax.Array]:
    """Many methods on many contexts: name -> scores[c n k] of the "test" block.

    Pure, so `jax.jit(compare, static_argnames="methods")` makes it one compiled call. Contexts
    with fewer rows are padded, with weight 0.

    Args:
        blocks: name -> `(log_probs[c m k], labels[c m] or None, weight[c m] or None)`.
        methods: names from `METHODS`; all but PC by default.
        key: a `jax.random` key, if PC is among them.

    >>> rows = jnp.array([[[-1.0, -3.0], [-2.0, -2.5]]])
    >>> compare({"test": (rows,)}, methods=("icl", "bc"))["bc"].shape
    (1, 2, 2)
    """
    contexts = {name: Evidence(*block) for name, block in blocks.items()}
    if "test" not in contexts:
        raise InputError(
            f"compare corrects the block 'test', which did not come, only "
            f"{', '.join(contexts) or 'none'}: name the rows to correct 'test'."
        )

    def one(name: str) -> jax.Array:
        method = get_method(name)
        named = {
            part: contexts[part]
            for part in dict.fromkeys(("test", *method.probe.blocks))
            if part in contexts
        }

        def context(parts: dict[str, Evidence]) -> jax.Array:
            return correct(method, parts, parts["test"].log_probs, key=key)

        # 100 starts on the rows of every context at once would not fit.
        return jax.lax.map(context, named) if name == "pc" else jax.vmap(context)(named)

    return {name: one(name) for name in methods}
