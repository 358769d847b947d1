"""Advice: label shares, their error, the expected gain, and files of advice."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
from scipy.special import betainc

from batch_calibration.api import calibrate
from batch_calibration.arrays.frames import column_names, is_frame
from batch_calibration.diagnosis.forms import ends, paragraphs_html, to_frame
from batch_calibration.errors import InputError, answering, shown, spell
from batch_calibration.files import write_whole
from batch_calibration.methods import check_options, get_method
from batch_calibration.metrics import Estimate

if TYPE_CHECKING:
    import pandas as pd


class Expected(NamedTuple):
    """The expected gain and risk of advice.

    Attributes:
        gain: the expected change of accuracy with a 95 % interval, in shares of the rows; None
            means unknown.
        risk: the probability that accuracy falls; NaN means unknown. It is unknown without labels:
            similar contexts predicted risks of .06 to .47, and on other data sources the risks were
            .21 to .50.
        source: the origin of both, as a phrase.
    """

    gain: Estimate | None
    risk: float
    source: str

    @property
    def risk_in_words(self) -> str:
        """The risk as the end of a sentence; "" if it is unknown."""
        if np.isnan(self.risk):
            return ""
        return f", with a risk of {100 * self.risk:.0f} % that it falls"

    def sentence(self) -> str:
        """Describes the expected gain and the risk; "" if the gain is unknown or exactly 0."""
        if self.gain is None or self.gain == (0.0, 0.0, 0.0):
            return ""
        mean, low, high = (100 * number for number in self.gain)
        return (
            f"Expected: {mean:+.1f} points of accuracy "
            f"[{low:+.1f}, {high:+.1f}]{self.risk_in_words} ({self.source})."
        )


UNCHANGED = Expected(Estimate(0.0, 0.0, 0.0), 0.0, "nothing is changed")
UNKNOWN = Expected(None, np.nan, "not known")


class Range(NamedTuple):
    """Measured gains of the contexts of real models with a promised gain in one range.

    Attributes:
        most: the upper end of the range of promised gains, in points.
        contexts: the number of contexts.
        gain: the mean gain in accuracy, with equal weights for the data sources, in points.
        low: the 2.5 % quantile of the gains, in points.
        high: the 97.5 % quantile, in points.
        fell: the share of contexts with a loss of accuracy.
    """

    most: float
    contexts: int
    gain: float
    low: float
    high: float
    fell: float


EQUAL, STATED, ESTIMATED, POOLED, LABELED = "equal", "stated", "estimated", "pooled", "labeled"
"""Sources of shares: known to be about equal, known to be other shares, estimated from one context
or from several contexts, and learned from labeled rows."""

RANGES: dict[str, tuple[Range, ...]] = {
    EQUAL: (
        Range(0.3, 127, 0.1, -3.6, 3.8, 0.37),
        Range(1, 229, 0.6, -4.6, 6.1, 0.33),
        Range(3, 240, 2.1, -7.8, 12.7, 0.29),
        Range(6, 149, 5.8, -8.0, 19.2, 0.19),
        Range(np.inf, 315, 12.6, -5.0, 35.0, 0.12),
    ),
    ESTIMATED: (
        Range(0.3, 239, 0.0, -2.3, 2.6, 0.47),
        Range(1, 263, 0.9, -5.7, 7.0, 0.31),
        Range(3, 404, 3.6, -7.0, 12.1, 0.25),
        Range(6, 327, 6.4, -9.0, 21.0, 0.18),
        Range(np.inf, 374, 14.3, -7.1, 37.3, 0.08),
    ),
    STATED: (
        Range(0.3, 120, 0.2, -2.0, 4.0, 0.33),
        Range(1, 166, 0.3, -3.9, 3.5, 0.33),
        Range(3, 313, 2.4, -4.3, 10.0, 0.17),
        Range(6, 355, 5.7, -3.9, 15.4, 0.08),
        Range(np.inf, 1256, 17.8, -0.7, 44.3, 0.03),
    ),
}
"""Source of the shares -> measured gains, by promised gain. From evidence_experience.csv of the
study configs/evidence_recommend.py."""


def promised_gain(before: np.ndarray, after: np.ndarray) -> float:
    """Computes the gain in accuracy if the corrected scores are right log-probabilities, in points.

    For each row it is the probability of the label predicted after the correction, minus the
    probability of the label predicted before. Both probabilities are the softmax of the corrected
    scores. The mean over rows is never below 0; it is a signal and not a forecast.

    Args:
        before: [n, k], scores in nats.
        after: [n, k], corrected scores in nats.

    >>> round(promised_gain(np.log([[0.6, 0.4]]), np.log([[0.25, 0.75]])), 1)
    50.0
    """
    raised = np.exp(after - after.max(axis=-1, keepdims=True))
    probs = raised / raised.sum(axis=-1, keepdims=True)
    at_first = probs[np.arange(len(probs)), before.argmax(axis=-1)]
    return float(100 * (probs.max(axis=-1) - at_first).mean())


def expect(before: np.ndarray, after: np.ndarray, source: str) -> Expected:
    """Estimates the gain of a correction from gains on contexts with a similar promised gain.

    Args:
        before: [n, k], scores in nats.
        after: [n, k], corrected scores in nats.
        source: the source of the shares. The gain is unknown if `RANGES` has no entry for it.
    """
    if source not in RANGES:
        return UNKNOWN
    promised = promised_gain(np.asarray(before, np.float64), np.asarray(after, np.float64))
    _, contexts, mean, low, high, _ = find_range(RANGES[source], promised)
    similar = f"{contexts:,} contexts of real models with similar scores"
    return Expected(Estimate(mean / 100, low / 100, high / 100), np.nan, similar)


def find_range(ranges: Sequence[Range], promised: float) -> Range:
    """Finds the range that contains a promised gain, in points."""
    return next((range_ for range_ in ranges if promised <= range_.most), ranges[-1])


def expect_from_rows(gain: Estimate, before: np.ndarray, after: np.ndarray) -> Expected:
    """Estimates the gain from labeled rows.

    The risk is P(p < 1/2) for p ~ Beta(won + 1, lost + 1). "won" counts the rows that only the
    corrected scores predict correctly, "lost" the rows that only the uncorrected scores do.

    Args:
        gain: the gain measured on the rows.
        before: [m], True for rows that are predicted correctly without a correction.
        after: [m], True for rows that are predicted correctly after it.
    """
    won, lost = int((after & ~before).sum()), int((before & ~after).sum())
    risk = float(betainc(won + 1, lost + 1, 0.5))
    return Expected(gain, risk, f"{len(before):,} labeled rows, cross-validated")


LEAVE, MATCH = "icl", "prior_matching"
"""The methods of advice: no correction, and matching the mean prediction to label shares."""
MANY_NAMES = 5
"""The number of shares up to which a sentence lists all of them."""
Options = dict[str, float | tuple[float, ...]]
ScoresT = TypeVar("ScoresT")


class Signals(NamedTuple):
    """Measures of unlabeled scores.

    Attributes:
        rows: n, the number of rows.
        preference: the largest mean score of a label minus the smallest, in nats.
        error: the standard error of the preference, in nats.
        information: the information of a row's scores on its label after BC, in nats.
        label_error: the largest standard error of a label's share from one label; NaN if unknown.
    """

    rows: int
    preference: float
    error: float
    information: float
    label_error: float = np.nan


class Advice(NamedTuple):
    """Label shares to match, their error, the reasons, and the expected gain.

    `advice.apply(scores)`, `calibrate(scores, advice.method, **advice.options)` and the file that
    `save_advice` writes give the same corrected scores in every interface.

    Attributes:
        method: "prior_matching" matches the shares; "icl" leaves the scores as they are. Labeled
            rows may choose another method.
        options: target_prior, the shares (without it they are equal), and share_error.
        source: the source of the shares, see `EQUAL` to `LABELED`; "" without shares.
        reason: sentences; the first one is the advice.
        signals: measures of the unlabeled scores.
        expected: the gain in accuracy with a 95 % interval, and the risk of a loss.
        label_names: k names.
        accuracy: the accuracy of the advice on held-out labeled rows; None without labels.
        measured: method -> cross-validated accuracy on the labeled rows; empty without labels. The
            best of many methods is too high by selection; `accuracy` is not.
        if_balanced: the method and options to use instead if labels are about equally frequent;
            None without an alternative.
        doubt: a sentence if known right labels contradict the advice, else "".
        by_labels: the advice that uses the right labels of the same rows, if they are known.
    """

    method: str
    options: Options
    source: str
    reason: tuple[str, ...]
    signals: Signals
    expected: Expected
    label_names: tuple[str, ...]
    accuracy: Estimate | None = None
    measured: Mapping[str, Estimate] = {}
    if_balanced: tuple[str, Options] | None = None
    doubt: str = ""
    by_labels: Advice | None = None

    @property
    def shares(self) -> dict[str, float] | None:
        """The share of each label; None without shares to match."""
        if not self.source:
            return None
        k = len(self.label_names)
        matched = self.options.get("target_prior", (1 / k,) * k)
        return dict(zip(self.label_names, matched, strict=True))  # type: ignore[arg-type]

    @property
    def error(self) -> float | None:
        """The standard error of each share, without sampling error; None for exact shares."""
        return self.options.get("share_error")  # type: ignore[return-value]

    @property
    def short(self) -> str:
        """A name for tables, such as "leave it" or "equal shares"; without shares, the method."""
        if self.method == LEAVE:
            return "leave it"
        near = "nearly " if self.source == EQUAL and self.error else ""
        return f"{near}{self.source} shares" if self.source else self.method

    @property
    def balanced(self) -> Advice:
        """The advice for labels that are about equally frequent."""
        if self.if_balanced is None:
            return self
        method, options = self.if_balanced
        return self._replace(method=method, options=options, source=EQUAL, if_balanced=None)

    def apply(self, scores: ScoresT, **arguments: object) -> ScoresT:
        """Corrects scores [..., n, k] as advised.

        Args:
            scores: scores in nats, in a form that `calibrate` accepts.
            **arguments: other arguments of `calibrate`. In a frame with other columns, too, the
                columns of scores are those with the labels' names. A method that labeled rows chose
                may need labeled and labels.
        """
        if is_frame(scores) and {*self.label_names} < {*column_names(scores)}:
            arguments.setdefault("columns", self.label_names)
        options, matched = dict[str, object](self.options), self.options.get("target_prior")
        if isinstance(matched, tuple) and is_frame(scores):
            options["target_prior"] = dict(zip(self.label_names, matched, strict=True))
        return calibrate(scores, self.method, **options, **arguments)  # type: ignore[call-overload,no-any-return]

    def in_order(self, names: Sequence[str]) -> Advice:
        """Returns the advice for the same labels in the order of these names."""
        options, shares = dict(self.options), self.options.get("target_prior")
        if isinstance(shares, tuple):
            places = map([*map(str, self.label_names)].index, names)
            options["target_prior"] = tuple(shares[place] for place in places)
        return self._replace(options=options, label_names=tuple(names))

    def to_frame(self) -> pd.DataFrame:
        """Returns a frame with a row for the advice and for each method measured on labeled rows.

        The columns are: whether the method is advised; the accuracy on the labeled rows with the
        ends of its 95 % interval (NaN without labels); and, for the advice only, the expected gain
        with the ends of its interval and the risk of a loss.

        Raises:
            InputError: pandas is not installed.
        """
        measured, chosen = dict(self.measured), self.short
        if self.accuracy is not None:
            measured[chosen] = self.accuracy  # on held-out rows
        rows = []
        for name in dict.fromkeys([chosen, *measured]):
            gain, risk = self.expected[:2] if name == chosen else (None, np.nan)
            row = {"method": name, "recommended": name == chosen}
            row |= ends("accuracy", measured.get(name)) | ends("gain", gain)
            rows.append(row | {"risk": risk})
        return to_frame(rows, "method")

    def __repr__(self) -> str:
        return f"Advice({self.short}, expected gain {self.expected.gain}: print it)"

    def __str__(self) -> str:
        return "\n".join(self.reason)

    def _repr_html_(self) -> str:
        return paragraphs_html(self.reason)


def list_shares(shares: Mapping[str, float]) -> str:
    """Lists shares in percent; if there are many labels, only the largest shares.

    >>> list_shares({"no": 0.8, "yes": 0.2})
    'no 80 %, yes 20 %'
    """
    largest = sorted(shares, key=lambda name: -shares[name])[: MANY_NAMES - 2]
    names = [*shares] if len(shares) <= MANY_NAMES else largest
    texts = [f"{name} {100 * shares[name]:.1f} %".replace(".0 %", " %") for name in names]
    return ", ".join(texts) + f" and {len(shares) - len(names)} others" * (len(names) < len(shares))


AdviceSource = str | Path | Advice
"""A file of `save_advice`, or advice itself."""


def save_advice(path: str | Path, advice: Mapping[str, Advice]) -> None:
    """Writes advice to a JSON file that every interface reads.

    Args:
        path: the file to write.
        advice: the name of each context -> its advice.
    """
    contexts = []
    for name, one in advice.items():
        options = dict[str, object](one.options)
        if "target_prior" in options:
            options["target_prior"] = one.shares
        facts = {"context": name, "labels": one.label_names, "method": one.method}
        contexts.append(facts | {"options": options, "source": one.source, "reason": one.reason})
    text = json.dumps({"advice": contexts}, indent=1, ensure_ascii=False)
    write_whole(Path(path), f"{text}\n".encode())


def load_advice(
    source: AdviceSource, labels: Sequence[object] = (), *, k: int = 0, context: str = ""
) -> Advice:
    """Returns advice for labels in the order of their columns.

    Args:
        source: a file written by `save_advice`, or an `Advice`.
        labels: the names of the labels. Without names, the shares keep the order of the file.
        k: the number of labels, if they have no names.
        context: the name of the context. If the file lacks it, the advice for all its contexts
            must be equal.

    Raises:
        InputError: the file cannot be read, has no advice for these labels, or has different advice
            for several contexts.

    >>> import tempfile
    >>> seen = Signals(9, 0.0, 0.0, 0.0)
    >>> advice = Advice("icl", {}, "", ("Leave it.",), seen, UNKNOWN, ("a", "b"))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_advice(f"{folder}/a.json", {"one": advice})
    ...     load_advice(f"{folder}/a.json", ("b", "a")).label_names
    ('b', 'a')
    """
    if isinstance(source, Advice):
        return choose_advice([("", source)], "advice", labels, k=k)
    return choose_advice(read_advice(source), str(source), labels, k=k, context=context)


EXPECTED = "a JSON file of advice, from recommend or save_advice"
WRITE_IT = "run recommend on scores of these labels, and save its advice"


def read_advice(path: str | Path) -> list[tuple[str, Advice]]:
    """Reads the contexts of a file of `save_advice`, each with its name."""
    with answering((OSError, ValueError, KeyError, TypeError), path, EXPECTED, WRITE_IT):
        saved = json.loads(Path(path).read_text(encoding="utf-8"))["advice"]
        return [(str(context["context"]), _read_context(context)) for context in saved]


def choose_advice(
    contexts: Sequence[tuple[str, Advice]], where: str, labels: Sequence[object] = (), *,
    k: int = 0, context: str = "",
) -> Advice:  # fmt: skip
    """Returns the advice of one of a file's contexts (see `load_advice`)."""
    names = tuple(map(str, labels))
    own = [pair for pair in contexts if pair[0] == context] or contexts
    fitting = [pair for pair in own if sorted(map(str, pair[1].label_names)) == sorted(names)]
    if not names:
        fitting = [pair for pair in own if len(pair[1].label_names) == k]
    if not fitting:
        wanted = f"advice on the labels {shown(names)}" if names else f"advice on {k} labels"
        got = "; ".join(dict.fromkeys(shown(one.label_names) for _, one in own))
        raise InputError.at(where, wanted, f"advice on {got or 'none'}", WRITE_IT)
    first, *others = [one.in_order(names or one.label_names) for _, one in fitting]
    if any((other.method, other.options) != (first.method, first.options) for other in others):
        expected = "the same advice for all contexts"
        got = f"different advice for {shown([name for name, _ in fitting])}"
        raise InputError.at(where, expected, got, "keep the advice of one context in the file")
    return first


def _read_context(saved: Mapping[str, Any]) -> Advice:
    labels, options = tuple(map(str, saved["labels"])), dict(saved["options"])
    if "target_prior" in options:
        shares = options["target_prior"]
        options["target_prior"] = tuple(float(shares[name]) for name in labels)
    method, source = str(saved["method"]), str(saved["source"])
    check_options(method, get_method(method).factory, options, len(labels))
    (first, *more), unseen = map(str, saved["reason"]), Signals(0, np.nan, np.nan, np.nan)
    return Advice(method, options, source, (first, *more), unseen, UNKNOWN, labels)


def refuse_beside_advice(**given: object) -> None:
    """Raises an error if arguments that advice replaces are given, too."""
    if named := [spell(name).rstrip("=") for name, argument in given.items() if argument]:
        expected = "no other argument for the correction"
        got = f"{' and '.join(named)} too"
        raise InputError.at("", expected, got, "leave the others out", "advice")
