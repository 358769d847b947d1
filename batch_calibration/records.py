"""Records: what calibration found in each context; typed, versioned, also a tidy table."""

from __future__ import annotations

import dataclasses
import json
import types
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar, Union, get_args, get_origin, get_type_hints, overload

from batch_calibration.errors import InputError
from batch_calibration.scores import ScoreTable, digest

if TYPE_CHECKING:
    import pandas
    import pyarrow

VERSION = 3
"""Of the JSON below; records without a number are of version 1."""

Row = dict[str, object]


@dataclass(frozen=True)
class ScorerInfo:
    """Who gave the scores: the kind of scorer, and a digest of its whole identity."""

    kind: str = ""
    digest: str = ""


@dataclass(frozen=True)
class ContextInfo:
    """What a context's scores were asked for; nothing of it is demanded of a table.

    Attributes:
        task: the task's name.
        model: the model's name, for people.
        data: the name of the data, for people.
        scorer: who gave the scores.
        shots: demonstrations, per label or in all as the options say.
        seed: of the draw of demonstrations.
        split: the split that was asked for.
        served: the split that stood in for it, empty where none had to.
        limit: how many rows at most, 0 for all.
        options: settings that are not the default, such as selection, order or template.
        blocks: block beside the test rows -> those of its settings that are not the default.
        template: the prompt's template.
        demonstrations: ids of the rows shown.
    """

    task: str = ""
    model: str = ""
    data: str = ""
    scorer: ScorerInfo = ScorerInfo()
    shots: int = 0
    seed: int = 0
    split: str = ""
    served: str = ""
    limit: int = 0
    options: Mapping[str, object] = field(default_factory=dict)
    blocks: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    template: str = ""
    demonstrations: tuple[str, ...] = ()

    @property
    def every_option(self) -> dict[str, object]:
        """The options, and those of all blocks."""
        return {k: v for some in (self.options, *self.blocks.values()) for k, v in some.items()}

    @classmethod
    def of(cls, table: ScoreTable) -> ContextInfo:
        """What a score table says of its context.

        Raises:
            InputError: it says it in another type.
        """
        known = {f.name for f in dataclasses.fields(cls)}
        about = {
            key: value for key, value in table.context.items() if key in known and value is not None
        }
        if identity := about.pop("scorer", None):
            kind = identity.get("kind", "") if isinstance(identity, Mapping) else str(identity)
            about["scorer"] = {"kind": kind, "digest": digest(identity)}
        others = {name: block for name, block in table.blocks.items() if name != "test"}
        about["blocks"] = {name: block.spec.get("options", {}) for name, block in others.items()}
        try:
            return _read(cls, about, "context")
        except _Mismatch as error:
            raise InputError(f"table {table.id}: {error}; write it so in the table.") from error


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
class Record:
    """What every method did to one context's scores.

    Attributes:
        id: of the score table.
        context: what the scores were asked for.
        label_names: one per column of scores.
        rows: block -> how many rows it has.
        methods: method -> metric -> value.
        skipped: method -> why it is left out.
        over_long: block -> how many prompts were "dropped" demonstrations of or "truncated".
        unreadable: block -> how many of its images could not be read.
        bias: method -> the bias of each label, in nats.
        floor: what smaller scores were raised to, in nats; None where none was asked for.
        strength: what BCL chose.
        curve: accuracy by strength, where BCL ran.
        probe_size: accuracy by the number of probe rows, where that was asked for.
        notes: what a reader of the numbers must know, in sentences.
        scores: digest of the file that held the scores; empty where they came from no file.
        version: of the record's form.
    """

    id: str
    context: ContextInfo
    label_names: tuple[str, ...]
    rows: Mapping[str, int]
    methods: Mapping[str, Mapping[str, float]]
    skipped: Mapping[str, str] = field(default_factory=dict)
    over_long: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    unreadable: Mapping[str, int] = field(default_factory=dict)
    bias: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    floor: float | None = None
    strength: float | None = None
    curve: Curve | None = None
    probe_size: ProbeSizes | None = None
    notes: tuple[str, ...] = ()
    scores: str = ""
    version: int = VERSION

    def to_json(self) -> str:
        """JSON text; what is None is left out."""
        whole = dataclasses.asdict(self)
        said = {key: value for key, value in whole.items() if value is not None}
        return json.dumps(said, indent=1, sort_keys=True)

    @classmethod
    def from_json(cls, text: str, where: str | Path = "the record") -> Record:
        """The record that `to_json` wrote.

        Args:
            text: the JSON text.
            where: the file's name, for the sentence.

        Raises:
            InputError: no JSON, another version, a field that lacks or is of another type.
        """
        again = "run experiments.calibrate again"
        try:
            found = json.loads(text)
        except ValueError as error:
            raise InputError(
                f"{where}: expected a record in JSON, got {error}; {again}."
            ) from error
        version = found.get("version", 1) if isinstance(found, dict) else None
        if version != VERSION:
            raise InputError(
                f"{where}: expected a record of version {VERSION}, got "
                f"{'none' if version is None else f'version {version!r}'}; {again}."
            )
        try:
            return _read(cls, found, "record")
        except _Mismatch as error:
            raise InputError(f"{where}: {error}; {again}.") from error


class Records(Sequence[Record]):
    """Records in order, and the same as one tidy table: a row per context, method and metric."""

    def __init__(self, records: Sequence[Record] = ()):
        self._records = tuple(records)

    def __len__(self) -> int:
        return len(self._records)

    @overload
    def __getitem__(self, index: int) -> Record: ...
    @overload
    def __getitem__(self, index: slice) -> Records: ...
    def __getitem__(self, index: int | slice) -> Record | Records:
        found = self._records[index]
        return found if isinstance(found, Record) else Records(found)

    def __repr__(self) -> str:
        return f"Records({list(self._records)!r})"

    def rows(self) -> list[Row]:
        """One dict per context, method and metric, with the context's fields beside.

        The scorer is `scorer` and `scorer_digest`; each option, those of blocks too, is
        `option.NAME`, None in contexts without it.
        """
        options = dict.fromkeys(name for record in self for name in record.context.every_option)
        return [
            {**_about(record, options), "method": method, "metric": metric, "value": value}
            for record in self
            for method, metrics in record.methods.items()
            for metric, value in metrics.items()
        ]

    def to_pandas(self) -> pandas.DataFrame:
        """`rows` as a pandas DataFrame.

        Raises:
            InputError: pandas is not installed.
        """
        try:
            import pandas
        except ImportError as error:
            raise InputError("to_pandas needs pandas; install it, or use rows().") from error
        return pandas.DataFrame(self.rows())

    def to_arrow(self) -> pyarrow.Table:
        """`rows` as a pyarrow Table.

        Raises:
            InputError: pyarrow is not installed.
        """
        try:
            import pyarrow
        except ImportError as error:
            raise InputError("to_arrow needs pyarrow; install it, or use rows().") from error
        return pyarrow.Table.from_pylist(self.rows())


def _about(record: Record, options: Mapping[str, None]) -> Row:
    """A context's fields, flat."""
    flat: Row = {"id": record.id, **vars(record.context)}
    del flat["options"], flat["blocks"]
    given, scorer = record.context.every_option, record.context.scorer
    flat |= {"demonstrations": list(record.context.demonstrations)}
    flat |= {"scorer": scorer.kind, "scorer_digest": scorer.digest}
    return flat | {f"option.{name}": given.get(name) for name in options}


class _Mismatch(Exception):
    """A value that is not of its field's type."""


T = TypeVar("T")


def _read(kind: type[T], value: object, where: str) -> T:
    """A JSON value as its field's type: dataclass, tuple, mapping, optional, plain."""
    origin, parts = get_origin(kind), get_args(kind)
    if dataclasses.is_dataclass(kind) and isinstance(value, Mapping):
        hints = get_type_hints(kind)
        lacking = [
            f.name
            for f in dataclasses.fields(kind)
            if f.name not in value
            and f.default is dataclasses.MISSING
            and f.default_factory is dataclasses.MISSING
        ]
        if lacking:
            raise _Mismatch(f"expected {', '.join(lacking)} in the {where}, got none")
        known = {name: value[name] for name in hints if name in value}
        return kind(**{name: _read(hints[name], x, name) for name, x in known.items()})
    if kind is object:
        return value  # type: ignore[return-value]
    if origin in (Union, types.UnionType):
        (kept,) = [part for part in parts if part is not type(None)]
        return value if value is None else _read(kept, value, where)  # type: ignore[return-value]
    if origin is tuple and isinstance(value, list | tuple):
        return tuple(_read(parts[0], x, where) for x in value)  # type: ignore[return-value]
    if isinstance(origin, type) and issubclass(origin, Mapping) and isinstance(value, Mapping):
        return {str(k): _read(parts[1], x, where) for k, x in value.items()}  # type: ignore
    if kind is float and isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)  # type: ignore[return-value]
    if kind in (int, str) and type(value) is kind:
        return value
    name = kind.__name__ if isinstance(kind, type) and not origin else str(kind)
    raise _Mismatch(f"expected {where} to be {name}, got {str(value)[:60]!r}")
