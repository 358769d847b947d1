"""The table of methods: name -> probe, calibrator, source. The paper's comparison is this dict."""

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import cache, partial, wraps
from typing import Literal, NamedTuple

from batch_calibration.arrays.alignment import in_label_order
from batch_calibration.calibration import order_average as orders
from batch_calibration.calibration import shift as shifts
from batch_calibration.calibration.base import Calibrator, reads_arrays
from batch_calibration.calibration.empirical_bayes import LABELED_WEIGHT, empirical_bayes
from batch_calibration.calibration.learned_shift import balanced_shift, learned_shift
from batch_calibration.calibration.leave_one_out import leave_one_out
from batch_calibration.calibration.linc import linc
from batch_calibration.calibration.matching import otter, prior_matching
from batch_calibration.calibration.pooled_shares import Pooled, pool_shares, pooled_shares
from batch_calibration.calibration.premise_shift import premise_shift
from batch_calibration.calibration.prototypes import MOST_LABELS, prototypes
from batch_calibration.calibration.running import running_shift
from batch_calibration.calibration.scaling import scaling
from batch_calibration.calibration.shares import bbse, prior_counted, prior_moved, sld_em
from batch_calibration.errors import refuse_unknown
from batch_calibration.methods import probes

Options = Mapping[str, object]
"""Option -> value, of one method."""
Group = Literal["paper", "variant", "unlabeled", "labeled"]


class Method(NamedTuple):
    """A method that corrects label bias, and its properties.

    Attributes:
        probe: the rows from which the bias is learned.
        factory: options -> `Calibrator`, for arrays of jax and numpy; users call `make`.
        source: the publication of the method. For "after ...: ...", the text behind the colon is
            the difference from the publication, which changes its numbers.
        group: the table that lists it: "paper" for a method of the paper's comparison, "variant"
            for a published variant of one, "unlabeled" for a correction beyond the paper without
            labels, "labeled" for a correction with labels.
        most_labels: the largest number of labels, None for any number.
        needs_log_probs: True if its predictions depend on the total probability of a row's labels,
            so that scores known up to a constant per row (bare logits, cosines) are not enough.
        needs_log_probs_if: an option and the value that makes `needs_log_probs` true.
        needs_key: True if `fit` draws at random and needs a `jax.random` key.
        in_order: True if its predictions depend on the order of the probe rows.
        own_rows: True if it corrects only the rows that it learned from, in their order.
        looped: True if contexts and probe sizes run sequentially (lax.map), because vmapped they
            do not fit into memory. Studies then correct their contexts one by one, too.
        one_by_one: True if studies correct contexts one by one, and not in blocks, because the last
            bits of a sum, which differ in a block, move its numbers by up to 4e-4 nats.
        keeps_bias: True if its state is a `Shift` with a bias that records keep.
        has_curve: True if its `Shift` holds a curve, the metric at each strength.
        over_probe_sizes: True if its accuracy can be measured with probes of several sizes.
        together: the function that learns from all contexts [c m k] of a task together, as
            `factory` does from one; None for a method that uses no other contexts.
        averages: True if it gives each row one answer from all contexts of its task with the same
            rows; a single context is skipped.
    """

    probe: probes.Probe
    factory: Callable[..., Calibrator]
    source: str
    group: Group = "paper"
    most_labels: int | None = None
    needs_log_probs: bool = False
    needs_log_probs_if: tuple[str, object] | None = None
    needs_key: bool = False
    in_order: bool = False
    own_rows: bool = False
    looped: bool = False
    one_by_one: bool = False
    keeps_bias: bool = False
    has_curve: bool = False
    over_probe_sizes: bool = False
    together: Callable[..., Pooled] | None = None
    averages: bool = False

    @property
    def make(self) -> Callable[..., Calibrator]:
        """The factory for users: its calibrators also accept lists, tensors and frames."""
        return _reading(self.factory)

    @property
    def over_stream(self) -> bool:
        """True if it corrects a stream, so that accuracy is measured by the number of rows seen."""
        return self.in_order and self.own_rows

    def needs_log_probs_with(self, options: Options | None = None) -> bool:
        """Checks whether it needs log-probabilities with these options (see `needs_log_probs`)."""
        if self.needs_log_probs or self.needs_log_probs_if is None:
            return self.needs_log_probs
        option, setting = self.needs_log_probs_if
        return (options or {}).get(option) == setting


def in_place(options: Mapping[str, object]) -> dict[str, object]:
    """Returns options with the target prior as a list, if it maps column indices to shares."""
    shares = options.get("target_prior")
    if shares is None:
        return dict(options)
    return {**options, "target_prior": in_label_order(shares, None, "target_prior")}


@cache
def _reading(factory: Callable[..., Calibrator]) -> Callable[..., Calibrator]:
    """Returns the factory with calibrators that read arrays of any kind."""
    # A partial has no name and docstring, but the function inside has.
    described = factory
    while isinstance(described, partial):
        described = described.func

    @wraps(described)
    def make(**options: object) -> Calibrator:
        return reads_arrays(factory(**in_place(options)))

    # `inspect.signature` then lists the options that a partial leaves open.
    make.__wrapped__ = factory
    return make


_PAPER = "Zhou et al. 2024, arXiv:2309.17249"

_APPENDIX = f"as in {_PAPER}, app. D"

_ORDERS = "Zheng et al. 2024, arXiv:2309.03882"

_SCALING = "after Guo et al. 2017, arXiv:1706.04599, sec. 4.2: a penalty pulls toward BC"

# CC, DC and BC differ only in their probes.
_mean_shift = partial(shifts.shift, estimate=shifts.mean_log_prob)

_variant = partial(Method, group="variant")
_unlabeled = partial(Method, group="unlabeled")
_labeled = partial(Method, group="labeled")

# fmt: off
METHODS: dict[str, Method] = {
    # The paper's comparison.
    "icl": Method(probes.NONE, shifts.no_shift, "Brown et al. 2020, arXiv:2005.14165"),
    "cc": Method(
        probes.CONTENT_FREE, _mean_shift, f"Zhao et al. 2021, {_APPENDIX}", keeps_bias=True
    ),
    "dc": Method(
        probes.RANDOM_WORDS, _mean_shift, f"Fei et al. 2023, {_APPENDIX}", keeps_bias=True
    ),
    "pc": Method(
        probes.BATCH, prototypes, f"Han et al. 2023, as in {_PAPER}, sec. 3.2 and app. D",
        most_labels=MOST_LABELS, needs_log_probs_if=("features", "raw"), needs_key=True,
        looped=True, over_probe_sizes=True
    ),
    "bc": Method(
        probes.BATCH, _mean_shift, f"{_PAPER}, eq. 1 and 2",
        keeps_bias=True, over_probe_sizes=True
    ),
    "bcl": Method(
        probes.BATCH_AND_LABELED, learned_shift, f"{_PAPER}, eq. 4",
        keeps_bias=True, has_curve=True
    ),
    # A mini-batch is corrected once, when it arrives.
    "bc_running": Method(
        probes.STREAM, running_shift, f"{_PAPER}, eq. 3, each mini-batch corrected as it comes",
        in_order=True, own_rows=True
    ),
    # Published variants of its methods.
    "cc_original": _variant(
        probes.CONTENT_FREE_ORIGINAL, partial(shifts.shift, estimate=shifts.log_mean_prob),
        "code of Zhao et al. 2021, arXiv:2102.09690", needs_log_probs=True
    ),
    "dc_original": _variant(
        probes.RANDOM_WORDS_ORIGINAL, partial(shifts.shift, estimate=shifts.log_mean_prob),
        "code of Fei et al. 2023, arXiv:2305.19148", needs_log_probs=True
    ),
    "bc_mean_prob": _variant(
        probes.BATCH, partial(shifts.shift, estimate=shifts.log_mean_label_prob),
        "Estienne et al. 2023, arXiv:2307.06713 (UCPA): p / mean p"
    ),
    "bc_prob_shift": _variant(
        probes.BATCH, shifts.prob_shift,
        "after Cho and Inoue 2025, arXiv:2501.15708 (StaICC), p - mean p: the mean is of all rows, "
        "not of each 128 in turn"
    ),
    # The mean of the other rows differs from row to row.
    "bc_loo": _variant(
        probes.BATCH, leave_one_out, "BC, each row by the mean of the others", own_rows=True
    ),
    "pc_raw": _variant(
        probes.BATCH, partial(prototypes, features="raw"),
        f"PC on log-probabilities as they are: {_PAPER}, Fig. 2",
        most_labels=MOST_LABELS, needs_log_probs=True, needs_key=True, looped=True
    ),
    # Beyond the paper: corrections that need no labels, and two that learn shares from labels.
    "bc_shrunk": _unlabeled(
        probes.BATCH, shifts.shrunk_shift,
        "BC's bias by James and Stein 1961, positive part",
        keeps_bias=True, over_probe_sizes=True
    ),
    "bc_empirical_bayes": _unlabeled(
        probes.BATCH, empirical_bayes,
        "BC with a likely bias and likely shares, by empirical Bayes; this project",
        one_by_one=True, keeps_bias=True
    ),
    "bc_pooled_shares": _unlabeled(
        probes.CONTEXTS, pooled_shares,
        "bc_empirical_bayes with shares of several contexts; this project",
        keeps_bias=True, together=pool_shares
    ),
    "ensemble": _unlabeled(
        probes.CONTEXTS, pooled_shares,
        "bc_pooled_shares, averaged over contexts of the same rows; this project",
        together=pool_shares, averages=True
    ),
    "bcl_empirical_bayes": _labeled(
        probes.BATCH_AND_LABELED, partial(empirical_bayes, labeled_weight=LABELED_WEIGHT),
        "bc_empirical_bayes with the log loss of labeled rows; this project",
        one_by_one=True, keeps_bias=True
    ),
    "prior_matching": _unlabeled(
        probes.BATCH, prior_matching, "Estienne et al. 2023, arXiv:2307.06713, to convergence",
        keeps_bias=True
    ),
    "otter": _unlabeled(
        probes.BATCH, otter, "Shin et al. 2024, arXiv:2404.08461", keeps_bias=True
    ),
    "sld_em": _unlabeled(
        probes.BATCH, sld_em,
        "after Saerens et al. 2002, Neural Computation 14(1): damped toward equal shares",
        keeps_bias=True
    ),
    "prior_counted": _labeled(
        probes.BATCH_AND_LABELED, prior_counted, "prior_matching, shares by Laplace's rule",
        keeps_bias=True
    ),
    "prior_moved": _labeled(
        probes.BATCH_AND_LABELED, prior_moved,
        "prior_matching, shares moved by labels as James and Stein 1961 shrink a mean; this "
        "project",
        one_by_one=True, keeps_bias=True
    ),
    "bbse": _labeled(
        probes.BATCH_AND_LABELED, bbse,
        "after Lipton et al. 2018, arXiv:1802.03916: BC predicts, weights are pulled to 1",
        keeps_bias=True
    ),
    # Other probes of a prompt's preferences.
    # Probe row i belongs to test row i.
    "pmi": _unlabeled(
        probes.DOMAIN_PREMISE, premise_shift, "Holtzman et al. 2021, arXiv:2104.08315",
        in_order=True
    ),
    "looc": _unlabeled(
        probes.LEFT_OUT, partial(balanced_shift, estimate=shifts.log_mean_label_prob),
        "Reif and Schwartz 2024, arXiv:2405.02743"
    ),
    "pride": _unlabeled(
        probes.PERMUTED_OPTIONS, partial(shifts.shift, estimate=orders.option_prior), _ORDERS,
        in_order=True
    ),
    # Row i is corrected by the orders of its own options.
    "order_average": _unlabeled(
        probes.OPTION_ORDERS, orders.order_average, f"after {_ORDERS}: means of log-probabilities",
        in_order=True
    ),
    "order_average_bc": _unlabeled(
        probes.OPTION_ORDERS, orders.order_average_bc, "order_average, then bc", in_order=True
    ),
    "order_average_prior": _unlabeled(
        probes.OPTION_ORDERS, orders.order_average_prior, "order_average, then prior_matching",
        in_order=True
    ),
    # Maps fitted to labeled rows.
    "rbcorr": _labeled(
        probes.LABELED, balanced_shift,
        "after Bhatt and Ivanova 2026, arXiv:2602.12445: a label's rows weigh 1 together, whatever "
        "their number, where as many of each are drawn"
    ),
    "vector": _labeled(probes.LABELED, partial(scaling, form="vector"), _SCALING),
    "matrix": _labeled(probes.LABELED, partial(scaling, form="matrix"), _SCALING),
    "linc": _labeled(
        probes.CONTENT_FREE_AND_LABELED, linc,
        "after Abbas et al. 2024, arXiv:2401.12406: a penalty in place of few steps of descent"
    ),
}
# fmt: on
_paper = (name for name, method in METHODS.items() if method.group == "paper")
SHELF = (*_paper, "bc_empirical_bayes", "bc_pooled_shares", "ensemble", "prior_matching")
"""The methods that correct a study or a file by default: the paper's, and those that are advised
without labels. They are few, because a reader compares all of them."""
ALL = "all"
"""The name that asks for every method."""
SHIPPED = frozenset(METHODS)
"""The methods of this package; others come from plugins."""


def on_shelf(names: Collection[str] = (), options: Iterable[str] = ()) -> list[str]:
    """Returns the methods that correct a study or a file, in the order of the table.

    Args:
        names: names from `METHODS`, or `ALL`; by default `SHELF` and the methods of plugins.
        options: names of methods with options, which run beside the default ones.

    Raises:
        InputError: as in `get_method`.

    >>> on_shelf(["sld_em", "bc"]), on_shelf([ALL]) == [*METHODS]
    (['bc', 'sld_em'], True)
    """
    asked = [*(names or (*SHELF, *METHODS.keys() - SHIPPED, *options))]
    return in_table_order([*METHODS, *filter(ALL.__ne__, asked)] if ALL in asked else asked)


def in_table_order(names: Iterable[str] | None) -> list[str]:
    """Returns the names of methods in the order of the table, by default all.

    Raises:
        InputError: as in `get_method`.
    """
    asked = list(METHODS if names is None else names)
    for name in asked:
        get_method(name)
    return list(filter(asked.__contains__, METHODS))


def get_method(name: str) -> Method:
    """Returns the method of that name.

    Raises:
        InputError: an unknown name; the message suggests the nearest name.

    >>> get_method("bc").probe.name
    'batch'
    """
    refuse_unknown("method", name, METHODS)
    return METHODS[name]
