"""The table of methods: name -> probe, calibrator, source. The paper's comparison is this dict."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
from numpy.typing import ArrayLike

from batch_calibration import probes
from batch_calibration.arrays import read_rows
from batch_calibration.calibration.balanced_shift import balanced_shift
from batch_calibration.calibration.base import Calibrator, floored, weights_of
from batch_calibration.calibration.learned_shift import learned_shift
from batch_calibration.calibration.linc import linc
from batch_calibration.calibration.matching import prior_matching
from batch_calibration.calibration.otter import otter
from batch_calibration.calibration.premise_shift import premise_shift
from batch_calibration.calibration.pride import option_prior
from batch_calibration.calibration.prototypes import MOST_LABELS, prototypes
from batch_calibration.calibration.running import running_shift
from batch_calibration.calibration.scaling import scaling
from batch_calibration.calibration.shares import bbse, prior_counted, sld_em
from batch_calibration.calibration.shift import (
    log_mean_label_prob,
    log_mean_prob,
    mean_log_prob,
    no_shift,
    prob_shift,
    shift,
)
from batch_calibration.errors import InputError
from batch_calibration.typing import Key, Labels, ProbeRows, Rows, Scores, State, Weight

Group = Literal["paper", "variant", "unlabeled", "labeled"]


class Method(NamedTuple):
    """A way to correct label bias, and all that is special about it.

    Attributes:
        probe: what the bias is learned from.
        make: options -> `Calibrator`.
        source: where the method is from.
        group: the table it stands in: "paper" for a method of the paper's comparison, "variant"
            for a published variant of one, "unlabeled" for a correction beyond the paper that
            needs no labels, "labeled" for one that does.
        most_labels: how many labels it can tell apart, None for any number.
        needs_log_probs: its predictions depend on how probable a row's labels are together, so
            that scores known up to a constant per row (bare logits, cosines) do not do.
        needs_key: `fit` draws at random and takes a `jax.random` key.
        in_order: its predictions depend on the order of the probe rows.
        looped: contexts and probe sizes are worked on one after the other, as their memory would
            not fit at once.
        keeps_bias: its state is a `Shift` whose bias goes into records.
        has_curve: its `Shift` holds a curve, the metric at each strength.
        boundary: the axes in which its decision boundary is drawn, None for not drawn.
        over_shots: it is drawn in curves of shots.
        over_probe_sizes: it is drawn in curves of probe sizes.
    """

    probe: probes.Probe
    make: Callable[..., Calibrator]
    source: str
    group: Group = "paper"
    most_labels: int | None = None
    needs_log_probs: bool = False
    needs_key: bool = False
    in_order: bool = False
    looped: bool = False
    keeps_bias: bool = False
    has_curve: bool = False
    boundary: Literal["log_probs", "probs"] | None = None
    over_shots: bool = False
    over_probe_sizes: bool = False


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


Blocks = Mapping[str, Evidence | Sequence[ArrayLike | None]]
"""Name -> a block of rows, an `Evidence` or the tuple of its parts."""

_PAPER = "Zhou et al. 2024, arXiv:2309.17249"

_SCALING = "Guo et al. 2017, arXiv:1706.04599, sec. 4.2"

_mean_shift = partial(shift, estimate=mean_log_prob)

# fmt: off
METHODS: dict[str, Method] = {
    "icl": Method(
        probes.NONE, no_shift, "Brown et al. 2020, arXiv:2005.14165",
        boundary="log_probs", over_shots=True,
    ),
    "cc": Method(
        probes.CONTENT_FREE, _mean_shift, f"Zhao et al. 2021, as in {_PAPER}, app. B",
        keeps_bias=True, boundary="probs", over_shots=True,
    ),
    "dc": Method(
        probes.RANDOM_WORDS, _mean_shift, f"Fei et al. 2023, as in {_PAPER}, app. B",
        keeps_bias=True, boundary="log_probs", over_shots=True,
    ),
    "pc": Method(
        probes.BATCH, prototypes, f"Han et al. 2023, as in {_PAPER}, sec. 3 and app. B",
        most_labels=MOST_LABELS, needs_key=True, looped=True,
        boundary="log_probs", over_shots=True, over_probe_sizes=True,
    ),
    "bc": Method(
        probes.BATCH, _mean_shift, f"{_PAPER}, eq. 1 and 2",
        keeps_bias=True, boundary="log_probs", over_shots=True, over_probe_sizes=True,
    ),
    "bcl": Method(
        probes.BATCH_AND_LABELED, learned_shift, f"{_PAPER}, eq. 4",
        keeps_bias=True, has_curve=True, over_shots=True,
    ),
    "bc_running": Method(probes.STREAM, running_shift, f"{_PAPER}, eq. 3"),
    "cc_original": Method(
        probes.CONTENT_FREE_ORIGINAL, partial(shift, estimate=log_mean_prob),
        "code of Zhao et al. 2021, arXiv:2102.09690", group="variant", needs_log_probs=True,
    ),
    "dc_original": Method(
        probes.RANDOM_WORDS_ORIGINAL, partial(shift, estimate=log_mean_prob),
        "code of Fei et al. 2023, arXiv:2305.19148", group="variant", needs_log_probs=True,
    ),
    "bc_mean_prob": Method(
        probes.BATCH, partial(shift, estimate=log_mean_label_prob),
        "division by the mean probability: UCPA", group="variant",
    ),
    "bc_prob_shift": Method(probes.BATCH, prob_shift, "p - mean p: StaICC", group="variant"),
    "prior_matching": Method(
        probes.BATCH, prior_matching, "Estienne et al. 2023, arXiv:2307.06713, to convergence",
        group="unlabeled", keeps_bias=True,
    ),
    "otter": Method(
        probes.BATCH, otter, "Shin et al. 2024, arXiv:2404.08461", group="unlabeled",
        keeps_bias=True,
    ),
    "sld_em": Method(
        probes.BATCH, sld_em, "Saerens et al. 2002, Neural Computation 14(1)", group="unlabeled",
        keeps_bias=True,
    ),
    "prior_counted": Method(
        probes.BATCH_AND_LABELED, prior_counted, "prior_matching, shares by Laplace's rule",
        group="labeled", keeps_bias=True,
    ),
    "bbse": Method(
        probes.BATCH_AND_LABELED, bbse, "Lipton et al. 2018, arXiv:1802.03916", group="labeled",
        keeps_bias=True,
    ),
    "pmi": Method(
        probes.DOMAIN_PREMISE, premise_shift, "Holtzman et al. 2021, arXiv:2104.08315",
        group="unlabeled", in_order=True,
    ),
    "looc": Method(
        probes.LEFT_OUT, partial(balanced_shift, estimate=log_mean_label_prob),
        "Reif and Schwartz 2024, arXiv:2405.02743", group="unlabeled",
    ),
    "pride": Method(
        probes.PERMUTED_OPTIONS, partial(shift, estimate=option_prior),
        "Zheng et al. 2024, arXiv:2309.03882", group="unlabeled", in_order=True,
    ),
    "rbcorr": Method(
        probes.LABELED, balanced_shift, "Bhatt and Ivanova 2026, arXiv:2602.12445", group="labeled",
    ),
    "temperature": Method(
        probes.LABELED, partial(scaling, form="temperature"), _SCALING, group="labeled",
    ),
    "vector": Method(probes.LABELED, partial(scaling, form="vector"), _SCALING, group="labeled"),
    "matrix": Method(probes.LABELED, partial(scaling, form="matrix"), _SCALING, group="labeled"),
    "linc": Method(
        probes.CONTENT_FREE_AND_LABELED, linc, "Abbas et al. 2024, arXiv:2401.12406",
        group="labeled",
    ),
}
# fmt: on


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


def make_calibrator(method: Method, *, floor: float | None = None, **options: object) -> Calibrator:
    """The method with its options chosen.

    Args:
        method: a row of `METHODS`.
        floor: scores below it, minus infinity too, are raised to it, in nats.
        **options: what `method.make` takes.

    >>> fit, apply = make_calibrator(METHODS["icl"], floor=-9.0)
    >>> rows = jnp.array([[-1.0, -jnp.inf]])
    >>> apply(fit(rows), rows).tolist()
    [[-1.0, -9.0]]
    """
    return floored(method.make(**options), floor)


def gather(method: Method, blocks: Blocks) -> Evidence:
    """The rows a method learns from, one after the other.

    Labels are kept of the blocks that its probe names as labeled; all others are hidden (-1): no
    method may see those of the test rows.

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
    parts = [Evidence(*read_rows(*blocks[name])) for name in names]
    labels = [
        jnp.asarray(part.labels, jnp.int32)
        if name in method.probe.labeled and part.labels is not None
        else jnp.full(part.log_probs.shape[0], -1, jnp.int32)
        for name, part in zip(names, parts, strict=True)
    ]
    weights = [weights_of(part.log_probs, part.weight) for part in parts]
    return Evidence(
        jnp.concatenate([part.log_probs for part in parts]),
        jnp.concatenate(labels),
        jnp.concatenate(weights),
    )


def fit(
    method: Method,
    blocks: Blocks,
    *,
    key: Key | None = None,
    floor: float | None = None,
    **options: object,
) -> State:
    """Learns a method's state from the blocks its probe names.

    Args:
        method: a row of `METHODS`.
        blocks: name -> `(log_probs[m k], labels[m] or None)`, or with a weight[m] as third.
        key: a `jax.random` key, for methods that need one.
        floor: scores below it are raised to it, in nats.
        **options: what `method.make` takes.

    Returns:
        The state, for the `apply` of `make_calibrator`.

    >>> rows = jnp.array([[-1.0, -3.0], [-2.0, -2.5]])
    >>> fit(METHODS["bc"], {"test": (rows, None)}).bias.tolist()
    [-1.5, -2.75]
    """
    return make_calibrator(method, floor=floor, **options).fit(*gather(method, blocks), key=key)


class Corrected(NamedTuple):
    """What a method learned, and the test scores without that bias."""

    state: State
    scores: Scores


def correct(
    method: Method,
    blocks: Blocks,
    log_probs: Rows,
    *,
    key: Key | None = None,
    floor: float | None = None,
    **options: object,
) -> Corrected:
    """Learns from the blocks and removes the bias from `log_probs`: fit, then apply.

    >>> rows = jnp.array([[-1.0, -3.0], [-2.0, -2.5]])
    >>> correct(METHODS["bc"], {"test": (rows, None)}, rows).scores.tolist()
    [[0.5, -0.25], [-0.5, 0.25]]
    """
    chosen = make_calibrator(method, floor=floor, **options)
    state = chosen.fit(*gather(method, blocks), key=key)
    return Corrected(state, chosen.apply(state, log_probs))


def compare(
    blocks: Blocks, *, methods: Sequence[str] | None = None, key: Key | None = None
) -> dict[str, Corrected]:
    """Many methods on many contexts: name -> state and scores[c n k] of the "test" block.

    Pure, so `jax.jit(compare, static_argnames="methods")` makes it one compiled call. Contexts
    with fewer rows are padded, with weight 0.

    Args:
        blocks: name -> `(log_probs[c m k], labels[c m] or None, weight[c m] or None)`.
        methods: names from `METHODS`; by default those that need no key.
        key: a `jax.random` key, if one of them needs it.

    >>> rows = jnp.array([[[-1.0, -3.0], [-2.0, -2.5]]])
    >>> compare({"test": (rows,)}, methods=("icl", "bc"))["bc"].scores.shape
    (1, 2, 2)
    """
    contexts = {name: Evidence(*block) for name, block in blocks.items()}
    if "test" not in contexts:
        raise InputError(
            f"compare corrects the block 'test', which did not come, only "
            f"{', '.join(contexts) or 'none'}: name the rows to correct 'test'."
        )
    if methods is None:
        methods = [name for name, method in METHODS.items() if not method.needs_key]

    def one(name: str) -> Corrected:
        method = get_method(name)
        read = dict.fromkeys(("test", *method.probe.blocks))
        named = {part: contexts[part] for part in read if part in contexts}

        def context(parts: dict[str, Evidence]) -> Corrected:
            return correct(method, parts, parts["test"].log_probs, key=key)

        done = jax.lax.map(context, named) if method.looped else jax.vmap(context)(named)
        return Corrected(*done)

    return {name: one(name) for name in methods}
