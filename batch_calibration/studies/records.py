"""Records: what calibration found in each context; typed, versioned JSON with a checksum."""

from __future__ import annotations

import base64
import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from batch_calibration.errors import InputError, answering, step
from batch_calibration.files import WrongJson, parse_json, read_as
from batch_calibration.scores import ScoreTable, digest

VERSION = 4
"""Of the JSON below; records without a number are of version 1. Before 4 bc_running was BC."""
CHECKSUM = "checksum"
"""The digest of all else in the JSON."""
CURVE_POINTS = 101
"""Strengths of a curve: -5 to 5 in steps of 0.1, as `calibration.learned_shift` has them."""


@dataclass(frozen=True)
class Curve:
    """Accuracy at each of the 101 strengths, on the labeled set and on the test rows."""

    labeled: tuple[float, ...]
    test: tuple[float, ...]


@dataclass(frozen=True)
class ProbeSizes:
    """Accuracy on all test rows when a method learns from so many of them.

    Attributes:
        sizes: rows a method learned from.
        accuracy: method -> for each size, a value per draw of rows.
    """

    sizes: tuple[int, ...]
    accuracy: Mapping[str, tuple[tuple[float, ...], ...]]


@dataclass(frozen=True)
class OverStream:
    """Accuracy of the test rows as they come in random orders, each corrected when it comes.

    Attributes:
        rows: rows seen, ascending.
        accuracy: method -> for each of these numbers, a value per order: the share that is right
            among the rows from the number before it up to this one.
    """

    rows: tuple[int, ...]
    accuracy: Mapping[str, tuple[tuple[float, ...], ...]]


def pack(is_right: np.ndarray) -> str:
    """Base64 of the bits of [n], true for rows that are right: six rows a letter.

    >>> pack(np.array([True, False, True]))
    'oA=='
    """
    return base64.b64encode(np.packbits(is_right).tobytes()).decode()


def unpack(text: str, rows: int) -> np.ndarray:
    """The argument of `pack`, as [rows] of bool.

    >>> unpack("oA==", 3).tolist()
    [True, False, True]
    """
    # The last byte is filled up with zeros: `count` leaves them out.
    return np.unpackbits(np.frombuffer(base64.b64decode(text), np.uint8), count=rows).astype(bool)


def is_packed(text: str, rows: int) -> bool:
    """True if the text is a packing of so many rows.

    >>> is_packed("oA==", 3), is_packed("oA==", 9), is_packed("?", 3)
    (True, False, False)
    """
    try:
        return len(base64.b64decode(text, validate=True)) == -(-rows // 8)  # bytes, rounded up
    except ValueError:
        return False


@dataclass(frozen=True)
class ScorerInfo:
    """Who gave the scores: the kind of scorer, a digest of its whole identity, and the rest of it.

    Attributes:
        kind: such as "causal_lm".
        digest: of all that decides its numbers.
        settings: what that is, such as the checkpoint's digest, the dtype or the server.
    """

    kind: str = ""
    digest: str = ""
    settings: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class ContextInfo:
    """The settings of a context; a table need not have any of them.

    Attributes:
        task: the task's name.
        model: the model's name, for people.
        data: the name of the data, for people.
        scorer: who gave the scores.
        shots: demonstrations, per label or in all as the options say; None where unknown.
        seed: of the draw of demonstrations; None where unknown.
        split: the split that was asked for.
        served: the split that stood in for it, empty where none had to.
        limit: how many rows at most, 0 for all.
        options: settings that are not the default, such as selection, order or template.
        blocks: block other than the test rows -> its settings that are not the default.
        template: the prompt's template.
        demonstrations: ids of the rows shown.
    """

    task: str = ""
    model: str = ""
    data: str = ""
    scorer: ScorerInfo = ScorerInfo()
    shots: int | None = None
    seed: int | None = None
    split: str = ""
    served: str = ""
    limit: int = 0
    options: Mapping[str, object] = field(default_factory=dict)
    blocks: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    template: str = ""
    demonstrations: tuple[str, ...] = ()

    @property
    def every_option(self) -> dict[str, object]:
        """The options of the context and of all its blocks."""
        options = dict(self.options)
        for block_options in self.blocks.values():
            options |= block_options
        return options

    @classmethod
    def from_table(cls, table: ScoreTable) -> ContextInfo:
        """The settings that a score table names.

        Raises:
            InputError: it says it in another type.
        """
        description = dict[str, object]()
        for field_ in dataclasses.fields(cls):
            setting = table.context.get(field_.name)
            if setting is not None and field_.name != "scorer":
                description[field_.name] = setting
        # A table of other people's scores may name its scorer by a word, or not at all.
        if identity := table.context.get("scorer"):
            settings = dict(identity) if isinstance(identity, dict) else {"kind": str(identity)}
            kind = settings.pop("kind", "")
            scorer = {"kind": kind, "digest": digest(identity), "settings": settings}
            description["scorer"] = scorer
        options = {name: block.spec.get("options", {}) for name, block in table.blocks.items()}
        options.pop("test", None)
        description["blocks"] = options
        try:
            return read_as(cls, description, "context")
        except WrongJson as error:
            raise InputError(f"table {table.id}: {error}; write it so in the table.") from error


@dataclass(frozen=True)
class Record:
    """The results of every method on one context's scores.

    Attributes:
        id: of the score table.
        context: what the scores were asked for.
        label_names: one per column of scores.
        rows: block -> how many rows it has.
        methods: method -> metric -> value; `gain` is over the scores as they are.
        classes: of the test rows whose right label is known, how many have each label.
        right: method -> which of those rows it answers rightly, see `pack`.
        skipped: method -> why it is left out.
        over_long: block -> how many prompts were "dropped" demonstrations of or "truncated".
        unreadable: block -> how many of its images could not be read.
        bias: method -> the bias of each label, in nats.
        floor: what smaller scores were raised to, in nats; None where none was asked for.
        options: method -> its options that were not the default.
        strength: what BCL chose.
        curve: accuracy by strength, where BCL ran.
        probe_size: accuracy by the number of probe rows, where that was asked for.
        over_stream: accuracy by the number of rows seen, where that was asked for.
        order_flips: the share of questions whose answer changes with the order of their options,
            and its 95 % interval, in 0 to 1; () where not all were asked in several orders.
        notes: what a reader of the numbers must know, in sentences.
        scores: digest of the file that held the scores; empty where they came from no file.
        version: of the record's form.
    """

    id: str
    context: ContextInfo
    label_names: tuple[str, ...]
    rows: Mapping[str, int]
    methods: Mapping[str, Mapping[str, float]]
    classes: tuple[int, ...] = ()
    right: Mapping[str, str] = field(default_factory=dict)
    skipped: Mapping[str, str] = field(default_factory=dict)
    over_long: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    unreadable: Mapping[str, int] = field(default_factory=dict)
    bias: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    floor: float | None = None
    options: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    strength: float | None = None
    curve: Curve | None = None
    probe_size: ProbeSizes | None = None
    over_stream: OverStream | None = None
    order_flips: tuple[float, ...] = ()
    notes: tuple[str, ...] = ()
    scores: str = ""
    version: int = VERSION

    @property
    def labeled_rows(self) -> int:
        """Test rows whose right label is known: those that every metric counts."""
        # A record may come without counts: of all rows then.
        return sum(self.classes) or self.rows["test"]

    def scores_of(self, table: ScoreTable) -> np.ndarray:
        """The test scores [n, k] of the record's table, raised to its floor where it has one."""
        scores = np.asarray(table.blocks["test"].log_probs)
        return scores if self.floor is None else np.maximum(scores, np.float32(self.floor))

    def to_json(self) -> str:
        """JSON text; what is None is left out, and a checksum of the others is added."""
        fields = dataclasses.asdict(self)
        fields = {name: field for name, field in fields.items() if field is not None}
        return json.dumps(fields | {CHECKSUM: digest(fields)}, indent=1, sort_keys=True)

    @classmethod
    def from_json(cls, text: str, where: str | Path = "the record") -> Record:
        """The record that `to_json` wrote.

        Raises:
            InputError: no JSON, another version, another checksum than its content's, a field that
                lacks or is of another type.
        """
        remedy = f"{step('calibrate')} again"
        with answering(ValueError, where, "a record in JSON", remedy):
            fields = parse_json(text)
        version = fields.get("version", 1) if isinstance(fields, dict) else None
        # Before the checksum: an old record is whole, and a sentence on damage would mislead.
        if not isinstance(fields, dict) or version != VERSION:
            got = "none" if version is None else f"version {version!r}"
            expected = f"a record of version {VERSION}"
            raise InputError.at(where, expected, got, remedy)
        if fields.pop(CHECKSUM, None) != digest(fields):
            raise InputError(
                f"{where}: its checksum is not that of its content: it was damaged or edited; "
                f"{remedy}."
            )
        try:
            record = read_as(cls, fields, "record")
            _check(record)
            return record
        except WrongJson as error:
            raise InputError(f"{where}: {error}; {remedy}.") from error


def _check(record: Record) -> None:
    """Refuse a record whose fields disagree: tables and figures take them as they are."""
    k, curve = len(record.label_names), record.curve
    # Both curves by rows have the same form: numbers, and a list of draws for each.
    axes = list[tuple[tuple[int, ...], Mapping[str, tuple[tuple[float, ...], ...]]]]()
    if record.probe_size:
        axes.append((record.probe_size.sizes, record.probe_size.accuracy))
    if record.over_stream:
        axes.append((record.over_stream.rows, record.over_stream.accuracy))
    # A method without an accuracy has none in range.
    accuracies = [metrics.get("accuracy", -1.0) for metrics in record.methods.values()]
    counts = [record.rows.get("test", 0)]
    if curve:
        accuracies += [*curve.labeled, *curve.test]
    has_every_size = True
    for sizes, by_method in axes:
        counts += sizes
        for by_size in by_method.values():
            has_every_size &= len(by_size) == len(sizes)  # no draws are refused by `counts`
            for draws in by_size:
                accuracies += draws
                counts.append(len(draws))
    are_ordered = True  # a method without a gain has zeros, which are
    for metrics in record.methods.values():
        low, gain, high = (metrics.get(name, 0.0) for name in ("gain_low", "gain", "gain_high"))
        are_ordered &= -1 <= low <= gain <= high <= 1
    labeled_rows = sum(record.classes)  # `right` is of rows with a known label alone
    are_answered = all(is_packed(text, labeled_rows) for text in record.right.values())
    for is_fine, expected in (
        (k > 1, "two labels or more"),
        (record.methods and min(counts) > 0, "test rows, methods, probe sizes and draws of them"),
        (all(0 <= accuracy <= 1 for accuracy in accuracies), "every accuracy, from 0 to 1"),
        (are_ordered, "a gain inside its interval"),
        (len(record.classes) in (0, k), f"the rows of each of {k} labels"),
        (min(record.classes, default=0) >= 0 and are_answered, "an answer of each labeled row"),
        (all(len(bias) == k for bias in record.bias.values()), f"a bias of {k} labels"),
        (
            not curve or len(curve.labeled) == len(curve.test) == CURVE_POINTS,
            f"{CURVE_POINTS} points of a curve",
        ),
        (has_every_size, "a row a size"),
    ):
        if not is_fine:
            raise WrongJson(f"expected {expected} in the record; got others")
