"""Records: what calibration found in each context; typed, versioned JSON with a checksum."""

from __future__ import annotations

import base64
import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from batch_calibration.errors import InputError, answering, step
from batch_calibration.files import WrongJson, object_at, parse_json, read_as, value_at
from batch_calibration.scores import ScoreTable, digest

VERSION = 5
"""Of the JSON below; version 4, of batch-calibration 0.2, is read, too."""
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
class ByRows:
    """Accuracy of a method by a number of rows: those it learned from, or those seen so far.

    Attributes:
        rows: the numbers, ascending where rows are seen.
        accuracy: for each number, a value per draw or order of rows. Of rows seen it is the share
            of right answers among the rows from the number before it up to this one.
    """

    rows: tuple[int, ...]
    accuracy: tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class Result:
    """The result of one method on one context's scores.

    Attributes:
        metrics: metric -> value; `gain` is over the scores as they are.
        right: which of the labeled rows it answers rightly, see `pack`.
        bias: of each label, in nats; () where the method keeps none.
        options: those that were not the default.
        strength: the strength that it searched; None where it searched none.
        curve: accuracy by strength, where it was searched.
        probe_size: accuracy by the number of probe rows, where that was asked for.
        over_stream: accuracy by the number of rows seen, where that was asked for.
    """

    metrics: Mapping[str, float]
    right: str = ""
    bias: tuple[float, ...] = ()
    options: Mapping[str, object] = field(default_factory=dict)
    strength: float | None = None
    curve: Curve | None = None
    probe_size: ByRows | None = None
    over_stream: ByRows | None = None

    def with_curves_of(self, earlier: Result | None) -> Result:
        """Adds the curves by rows of an earlier result with the same options, where it has none."""
        # As JSON, where a tuple and a list are one.
        if earlier is None or _as_json(earlier.options) != _as_json(self.options):
            return self
        curves = {name: getattr(self, name) or getattr(earlier, name) for name in CURVES}
        return dataclasses.replace(self, **curves)


CURVES = ("probe_size", "over_stream")
"""The curves of a result by numbers of rows."""


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
    """The results of methods on one context's scores.

    Attributes:
        id: of the score table.
        context: what the scores were asked for.
        label_names: one per column of scores.
        rows: block -> how many rows it has.
        methods: method -> its result.
        classes: of the test rows whose right label is known, how many have each label.
        skipped: method -> why it is left out.
        over_long: block -> how many prompts were "dropped" demonstrations of or "truncated".
        unreadable: block -> how many of its images could not be read.
        floor: what smaller scores were raised to, in nats; None where none was asked for.
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
    methods: Mapping[str, Result]
    classes: tuple[int, ...] = ()
    skipped: Mapping[str, str] = field(default_factory=dict)
    over_long: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    unreadable: Mapping[str, int] = field(default_factory=dict)
    floor: float | None = None
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

    @property
    def searched(self) -> Result | None:
        """The result of the first method that searched its strength; None where none did."""
        return next((result for result in self.methods.values() if result.curve), None)

    def to_json(self) -> str:
        """JSON text with a checksum; fields without a value are left out."""
        fields = _filled(dataclasses.asdict(self))
        fields["methods"] = {name: _filled(of) for name, of in fields["methods"].items()}
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
        if not isinstance(fields, dict) or version not in (VERSION, BY_KIND):
            got = "none" if version is None else f"version {version!r}"
            expected = f"a record of version {VERSION}"
            raise InputError.at(where, expected, got, remedy)
        if fields.pop(CHECKSUM, None) != digest(fields):
            raise InputError(
                f"{where}: its checksum is not that of its content: it was damaged or edited; "
                f"{remedy}."
            )
        try:
            if version == BY_KIND:
                fields |= {"version": VERSION, "methods": _by_method(fields)}
            record = read_as(cls, fields, "record")
            _check(record)
            return record
        except WrongJson as error:
            raise InputError(f"{where}: {error}; {remedy}.") from error


def _as_json(options: Mapping[str, object]) -> str:
    return json.dumps(options, sort_keys=True)


def _filled(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value not in (None, "", (), {})}


BY_KIND = 4
"""The version of records that keep a map from methods for each kind of result."""


def _by_method(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Converts the results of a record of version `BY_KIND`: method -> its fields."""
    from batch_calibration.methods import METHODS  # heavy, and scoring reads no records

    methods = dict[str, dict[str, object]]()
    for name, metrics in object_at(fields, "methods").items():
        methods[name] = {"metrics": metrics}
    for kind in ("right", "bias", "options"):
        for name in methods.keys() & object_at(fields, kind):
            methods[name][kind] = value_at(fields, kind, name)
    for kind, numbers in zip(CURVES, ("sizes", "rows"), strict=True):
        for name in methods.keys() & object_at(fields, kind, "accuracy"):
            accuracy = value_at(fields, kind, "accuracy", name)
            methods[name][kind] = {"rows": value_at(fields, kind, numbers), "accuracy": accuracy}
    # The strength and its curve are of the first method that searched one.
    for name in [name for name in METHODS if METHODS[name].has_curve and name in methods][:1]:
        methods[name] |= {kind: fields[kind] for kind in ("strength", "curve") if kind in fields}
    return methods


def _check(record: Record) -> None:
    """Refuses a record whose fields disagree: tables and figures take them as they are."""
    k, labeled_rows = len(record.label_names), sum(record.classes)
    accuracies, counts, have_every_size = list[float](), [record.rows.get("test", 0)], True
    are_ordered = have_points = are_answered = have_biases = True
    for of_method in record.methods.values():
        metrics, curve = of_method.metrics, of_method.curve
        # A method without an accuracy has none in range.
        accuracies.append(metrics.get("accuracy", -1.0))
        # A method without a gain has zeros, which are ordered.
        low, gain, high = (metrics.get(name, 0.0) for name in ("gain_low", "gain", "gain_high"))
        are_ordered &= -1 <= low <= gain <= high <= 1
        are_answered &= not of_method.right or is_packed(of_method.right, labeled_rows)
        have_biases &= len(of_method.bias) in (0, k)
        if curve:
            accuracies += [*curve.labeled, *curve.test]
            have_points &= len(curve.labeled) == len(curve.test) == CURVE_POINTS
        for by_rows in filter(None, (of_method.probe_size, of_method.over_stream)):
            counts += [*by_rows.rows, *map(len, by_rows.accuracy)]  # no draws are refused
            have_every_size &= len(by_rows.accuracy) == len(by_rows.rows)
            accuracies += chain.from_iterable(by_rows.accuracy)
    for is_fine, expected in (
        (k > 1, "two labels or more"),
        (record.methods and min(counts) > 0, "test rows, methods, probe sizes and draws of them"),
        (all(0 <= accuracy <= 1 for accuracy in accuracies), "every accuracy, from 0 to 1"),
        (are_ordered, "a gain inside its interval"),
        (len(record.classes) in (0, k), f"the rows of each of {k} labels"),
        (min(record.classes, default=0) >= 0 and are_answered, "an answer of each labeled row"),
        (have_biases, f"a bias of {k} labels"),
        (have_points, f"{CURVE_POINTS} points of a curve"),
        (have_every_size, "a row a size"),
    ):
        if not is_fine:
            raise WrongJson(f"expected {expected} in the record; got others")
