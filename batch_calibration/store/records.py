"""Records: what calibration found in each context; typed, versioned, also a tidy table."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, overload

from batch_calibration.errors import InputError
from batch_calibration.files import WrongJson, parse_json, read_as
from batch_calibration.scores import ScoreTable, digest
from batch_calibration.store import tidy
from batch_calibration.store.accuracies import STRENGTHS, Curve, OverStream, ProbeSizes
from batch_calibration.store.outcomes import fits

if TYPE_CHECKING:
    import pandas
    import pyarrow

VERSION = 4
"""Of the JSON below; records without a number are of version 1. In those before 4
bc_running is BC."""

CHECKSUM = "checksum"
"""The digest of all else in the JSON."""


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
    """What a context's scores were asked for; nothing of it is demanded of a table.

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
        blocks: block beside the test rows -> those of its settings that are not the default.
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
            said = dict(identity) if isinstance(identity, dict) else {}
            kind = said.pop("kind", "") if said else str(identity)
            about["scorer"] = {"kind": kind, "digest": digest(identity), "settings": said}
        others = {name: block for name, block in table.blocks.items() if name != "test"}
        about["blocks"] = {name: block.spec.get("options", {}) for name, block in others.items()}
        try:
            return read_as(cls, about, "context")
        except WrongJson as error:
            raise InputError(f"table {table.id}: {error}; write it so in the table.") from error


@dataclass(frozen=True)
class Record:
    """What every method did to one context's scores.

    Attributes:
        id: of the score table.
        context: what the scores were asked for.
        label_names: one per column of scores.
        rows: block -> how many rows it has.
        methods: method -> metric -> value; `gain` is over the scores as they are.
        classes: of the test rows whose right label is known, how many have each label.
        right: method -> which of those rows it answers rightly, see `outcomes`.
        skipped: method -> why it is left out.
        over_long: block -> how many prompts were "dropped" demonstrations of or "truncated".
        unreadable: block -> how many of its images could not be read.
        bias: method -> the bias of each label, in nats.
        floor: what smaller scores were raised to, in nats; None where none was asked for.
        options: method -> those of its options that were not the default.
        strength: what BCL chose.
        curve: accuracy by strength, where BCL ran.
        probe_size: accuracy by the number of probe rows, where that was asked for.
        over_stream: accuracy by the number of rows seen, where that was asked for.
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
    notes: tuple[str, ...] = ()
    scores: str = ""
    version: int = VERSION

    def to_json(self) -> str:
        """JSON text; what is None is left out, and a checksum of the others is added."""
        whole = dataclasses.asdict(self)
        said = {key: value for key, value in whole.items() if value is not None}
        return json.dumps(said | {CHECKSUM: digest(said)}, indent=1, sort_keys=True)

    @classmethod
    def from_json(cls, text: str, where: str | Path = "the record") -> Record:
        """The record that `to_json` wrote.

        Args:
            text: the JSON text.
            where: the file's name, for the sentence.

        Raises:
            InputError: no JSON, another version, another checksum than its content's, a field that
                lacks or is of another type.
        """
        again = "run experiments.calibrate again"
        try:
            found = parse_json(text)
        except ValueError as error:
            raise InputError(
                where=where, expected="a record in JSON", got=error, remedy=again
            ) from error
        version = found.get("version", 1) if isinstance(found, dict) else None
        if version != VERSION:
            raise InputError(
                where=where,
                expected=f"a record of version {VERSION}",
                got=f"{('none' if version is None else f'version {version!r}')}",
                remedy=again,
            )
        if not isinstance(found, dict) or found.pop(CHECKSUM, None) != digest(found):
            raise InputError(
                f"{where}: its checksum is not that of its content: it was damaged or edited; "
                f"{again}."
            )
        try:
            record = read_as(cls, found, "record")
            _check(record)
            return record
        except WrongJson as error:
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

    def rows(self) -> list[tidy.Row]:
        """One dict per context, method and metric: what was found, and every setting.

        `low` and `high` are the ends of the value's 95 % interval, None where it has none. A
        setting is None where it is the default or not known: `option_NAME` is one of the prompt
        or of a block, `scorer_NAME` one of the scorer, `method_NAME` one of the row's method.
        """
        return tidy.filled(
            {
                **about, **tidy.named("method", record.options.get(method, {})),
                "method": method, "metric": metric, "value": value,
                "low": metrics.get(f"{metric}_low"), "high": metrics.get(f"{metric}_high"),
            }
            for record in self
            for about in [_about(record)]
            for method, metrics in record.methods.items()
            for metric, value in metrics.items()
            if metric.removesuffix("_low").removesuffix("_high") not in {*metrics} - {metric}
        )  # fmt: skip

    def to_pandas(self) -> pandas.DataFrame:
        """`rows` as a pandas DataFrame.

        Raises:
            InputError: pandas is not installed.
        """
        return tidy.to_pandas(tidy.columns(self.rows()))

    def to_arrow(self) -> pyarrow.Table:
        """`rows` as a pyarrow Table.

        Raises:
            InputError: pyarrow is not installed.
        """
        return tidy.to_arrow(tidy.columns(self.rows()))


def _about(record: Record) -> tidy.Row:
    """A context's fields and settings, flat; what is empty is None."""
    about = record.context
    flat = {name: x if isinstance(x, int) else x or None for name, x in vars(about).items()}
    del flat["options"], flat["blocks"]
    flat |= tidy.named("option", about.every_option) | tidy.named("scorer", about.scorer.settings)
    return flat | {
        "id": record.id, "rows": record.rows["test"], "floor": record.floor,
        "scorer": about.scorer.kind or None, "scorer_digest": about.scorer.digest or None,
        "demonstrations": list(about.demonstrations), "label_names": list(record.label_names),
    }  # fmt: skip


def _check(record: Record) -> None:
    """Refuse a record whose parts disagree: tables and figures take them as they are."""
    k, curve = len(record.label_names), record.curve
    along = [one.every() for one in (record.probe_size, record.over_stream) if one]
    methods, counts = record.methods.values(), [record.rows.get("test", 0)]
    accuracies = [found.get("accuracy", -1.0) for found in methods]
    answered = [fits(one, sum(record.classes)) for one in record.right.values()]
    gains = [[of.get(f"gain{end}", 0.0) for end in ("_low", "", "_high")] for of in methods]
    if curve:
        accuracies += [*curve.labeled, *curve.test]
    for numbers, of_methods in along:
        accuracies += [x for draws in of_methods for of in draws for x in of]
        counts += [*numbers, *(len(of) for draws in of_methods for of in draws)]
    for fine, expected in (
        (k > 1, "two labels or more"),
        (methods and min(counts) > 0, "test rows, methods, probe sizes and draws of them"),
        (all(0 <= accuracy <= 1 for accuracy in accuracies), "every accuracy, from 0 to 1"),
        (all(-1 <= low <= x <= high <= 1 for low, x, high in gains), "a gain inside its interval"),
        (len(record.classes) in (0, k), f"the rows of each of {k} labels"),
        (min(record.classes, default=0) >= 0 and all(answered), "an answer of each labeled row"),
        (all(len(bias) == k for bias in record.bias.values()), f"a bias of {k} labels"),
        (not curve or len(curve.labeled) == len(curve.test) == STRENGTHS, "101 points of a curve"),
        (all({*map(len, of)} <= {len(numbers)} for numbers, of in along), "a row a size"),
    ):
        if not fine:
            raise WrongJson(f"expected {expected} in the record, got others")
