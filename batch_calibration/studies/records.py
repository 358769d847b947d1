"""Records: the calibration results of each context, as typed, versioned JSON with a checksum."""

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
from batch_calibration.files import WrongJson, parse_json, read_as
from batch_calibration.scores import ScoreTable, digest

VERSION = 5
"""Version of the JSON format; records of other versions are refused."""
CHECKSUM = "checksum"
"""JSON key of the digest of all other fields."""
CURVE_POINTS = 101
"""Number of strengths in a curve: -5 to 5 in steps of 0.1, as in `calibration.learned_shift`."""


@dataclass(frozen=True)
class Curve:
    """Accuracy at each of the 101 strengths, on the labeled set and on the test rows."""

    labeled: tuple[float, ...]
    test: tuple[float, ...]


@dataclass(frozen=True)
class ByRows:
    """Accuracy of a method by number of rows: probe rows, or rows of a stream seen so far.

    Attributes:
        rows: the numbers of rows; ascending for a stream.
        accuracy: one value per draw or order of rows, for each number of rows. For a stream, the
            accuracy on the rows between the previous number and this one.
    """

    rows: tuple[int, ...]
    accuracy: tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class Result:
    """The result of one method on one context's scores.

    Attributes:
        metrics: metric -> value; `gain` is the accuracy minus ICL's.
        right: for each labeled row, whether the prediction is right, encoded by `pack`.
        bias: bias of each label, in nats; () if the method has none.
        options: options that differ from the defaults.
        strength: strength that the method found by search; None without a search.
        curve: accuracy by strength; None without a search.
        probe_size: accuracy by number of probe rows, if requested.
        over_stream: accuracy by number of rows seen, if requested.
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
        """Returns this result with missing curves from an earlier result with the same options."""
        # Compared as JSON, because a stored tuple is read as a list.
        if earlier is None or _as_json(earlier.options) != _as_json(self.options):
            return self
        curves = {name: getattr(self, name) or getattr(earlier, name) for name in CURVES}
        return dataclasses.replace(self, **curves)


CURVES = ("probe_size", "over_stream")
"""Names of the curves of a result over numbers of rows."""


def pack(is_right: np.ndarray) -> str:
    """Encodes a boolean array [n] as base64 text with six rows per character.

    >>> pack(np.array([True, False, True]))
    'oA=='
    """
    return base64.b64encode(np.packbits(is_right).tobytes()).decode()


def unpack(text: str, rows: int) -> np.ndarray:
    """Returns the boolean array [rows] that `pack` encoded.

    >>> unpack("oA==", 3).tolist()
    [True, False, True]
    """
    # `count` drops the zeros that pad the last byte.
    return np.unpackbits(np.frombuffer(base64.b64decode(text), np.uint8), count=rows).astype(bool)


def is_packed(text: str, rows: int) -> bool:
    """Checks whether a text encodes an array of this many rows.

    >>> is_packed("oA==", 3), is_packed("oA==", 9), is_packed("?", 3)
    (True, False, False)
    """
    try:
        return len(base64.b64decode(text, validate=True)) == -(-rows // 8)  # bytes, rounded up
    except ValueError:
        return False


@dataclass(frozen=True)
class ScorerInfo:
    """The scorer that gave the scores.

    Attributes:
        kind: kind of scorer, such as "causal_lm".
        digest: digest of the kind and all settings.
        settings: settings that determine the scores, such as the checkpoint's digest, the dtype or
            the server.
    """

    kind: str = ""
    digest: str = ""
    settings: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class ContextInfo:
    """The settings of a context; a score table may lack any of them.

    Attributes:
        task: name of the task.
        model: readable name of the model.
        data: readable name of the data.
        scorer: the scorer that gave the scores.
        shots: number of demonstrations, per label or in total, depending on `options`, or None
            (unknown).
        seed: seed of the draw of demonstrations, or None (unknown).
        split: the requested split.
        served: the split that replaces the requested one; empty if none does.
        limit: maximum number of rows; 0 for all.
        options: settings that differ from the defaults, such as selection, order or template.
        blocks: block, except the test rows -> its settings that differ from the defaults.
        template: the prompt template.
        demonstrations: ids of the demonstrations' rows.
        factors: column of a file -> its value, for the columns that split the file into contexts.
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
    factors: Mapping[str, str] = field(default_factory=dict)

    @property
    def every_option(self) -> dict[str, object]:
        """The options of the context and of all its blocks."""
        options = dict(self.options)
        for block_options in self.blocks.values():
            options |= block_options
        return options

    @classmethod
    def from_table(cls, table: ScoreTable) -> ContextInfo:
        """Reads the settings of a context from its score table.

        Raises:
            InputError: a setting has the wrong type.
        """
        description = dict[str, object]()
        for field_ in dataclasses.fields(cls):
            setting = table.context.get(field_.name)
            if setting is not None and field_.name != "scorer":
                description[field_.name] = setting
        # An imported table may name its scorer with one word, or not at all.
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
            raise InputError(f"table {table.id}: {error}; correct it in the table.") from error


@dataclass(frozen=True)
class Record:
    """The results of methods on one context's scores.

    Attributes:
        id: id of the score table.
        context: settings of the context.
        label_names: names of the labels, one per column of scores.
        rows: block -> number of its rows.
        methods: method -> its result.
        classes: number of test rows with each gold label.
        skipped: method -> the reason why it is left out.
        over_long: block -> number of prompts with "dropped" demonstrations, and of "truncated"
            prompts.
        unreadable: block -> number of images that cannot be read.
        floor: lower bound that smaller scores were raised to, in nats; None without a floor.
        order_flips: share of questions with different answers in different orders of their options,
            and its 95 % interval, in 0 to 1; () unless every question was asked in several orders.
        notes: remarks that qualify the numbers, in sentences.
        scores: digest of the file of scores; empty if the scores did not come from a file.
        version: version of the JSON format.
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

    @classmethod
    def without_methods(cls, table: ScoreTable) -> Record:
        """Returns a record without results, for instance of a table without right labels."""
        rows = {name: len(block.row_ids) for name, block in table.blocks.items()}
        return cls(table.id, ContextInfo.from_table(table), tuple(table.label_names), rows, {})

    @property
    def labeled_rows(self) -> int:
        """The number of test rows with a gold label; every metric counts only these rows."""
        # In a record without counts, all rows have a gold label.
        return sum(self.classes) or self.rows["test"]

    def scores_of(self, table: ScoreTable) -> np.ndarray:
        """Returns the test scores [n, k] of the record's table, raised to the record's floor."""
        scores = np.asarray(table.blocks["test"].log_probs)
        return scores if self.floor is None else np.maximum(scores, np.float32(self.floor))

    @property
    def searched(self) -> Result | None:
        """The result of the first method with a searched strength; None without one."""
        return next((result for result in self.methods.values() if result.curve), None)

    def to_json(self) -> str:
        """Returns JSON text with a checksum; fields without a value are left out."""
        fields = _filled(dataclasses.asdict(self))
        fields["methods"] = {name: _filled(of) for name, of in fields["methods"].items()}
        return json.dumps(fields | {CHECKSUM: digest(fields)}, indent=1, sort_keys=True)

    @classmethod
    def from_json(cls, text: str, where: str | Path = "the record") -> Record:
        """Reads a record that `to_json` wrote.

        Raises:
            InputError: invalid JSON; another version; a checksum that does not match the content; a
                field that is missing or has the wrong type.
        """
        remedy = f"{step('calibrate')} again"
        with answering(ValueError, where, "a record in JSON", remedy):
            fields = parse_json(text)
        version = fields.get("version", 1) if isinstance(fields, dict) else None
        # Checked before the checksum, because an old record is not damaged.
        if not isinstance(fields, dict) or version != VERSION:
            got = "none" if version is None else f"version {version!r}"
            expected = f"a record of version {VERSION}"
            raise InputError.at(where, expected, got, remedy)
        if fields.pop(CHECKSUM, None) != digest(fields):
            got = "content with another checksum: it was damaged or edited"
            raise InputError.at(where, "a whole record", got, remedy)
        try:
            record = read_as(cls, fields, "record")
            _check(record)
            return record
        except WrongJson as error:
            raise InputError(f"{where}: {error}; {remedy}.") from error


def _as_json(options: Mapping[str, object]) -> str:
    return json.dumps(options, sort_keys=True)


def _filled(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value not in (None, "", (), {})}


def _check(record: Record) -> None:
    """Raises if the fields of a record contradict each other; tables and figures rely on them."""
    k, labeled_rows = len(record.label_names), sum(record.classes)
    accuracies, counts, have_every_size = list[float](), [record.rows.get("test", 0)], True
    are_ordered = have_points = are_answered = have_biases = True
    for of_method in record.methods.values():
        metrics, curve = of_method.metrics, of_method.curve
        # A method without an accuracy fails the check of the range.
        accuracies.append(metrics.get("accuracy", -1.0))
        # A method without a gain gets zeros, which are ordered.
        low, gain, high = (metrics.get(name, 0.0) for name in ("gain_low", "gain", "gain_high"))
        are_ordered &= -1 <= low <= gain <= high <= 1
        are_answered &= not of_method.right or is_packed(of_method.right, labeled_rows)
        have_biases &= len(of_method.bias) in (0, k)
        if curve:
            accuracies += [*curve.labeled, *curve.test]
            have_points &= len(curve.labeled) == len(curve.test) == CURVE_POINTS
        for by_rows in filter(None, (of_method.probe_size, of_method.over_stream)):
            counts += [*by_rows.rows, *map(len, by_rows.accuracy)]  # at least one draw per number
            have_every_size &= len(by_rows.accuracy) == len(by_rows.rows)
            accuracies += chain.from_iterable(by_rows.accuracy)
    for is_fine, expected in (
        (k > 1, "two labels or more"),
        (record.methods and min(counts) > 0, "test rows, methods, and draws of each probe size"),
        (all(0 <= accuracy <= 1 for accuracy in accuracies), "accuracies from 0 to 1"),
        (are_ordered, "each gain inside its interval"),
        (len(record.classes) in (0, k), f"the number of rows of each of {k} labels"),
        (min(record.classes, default=0) >= 0 and are_answered, "an answer for each labeled row"),
        (have_biases, f"biases of {k} labels"),
        (have_points, f"curves of {CURVE_POINTS} points"),
        (have_every_size, "an accuracy for each number of rows"),
    ):
        if not is_fine:
            raise WrongJson(f"expected {expected} in the record; got other values")
