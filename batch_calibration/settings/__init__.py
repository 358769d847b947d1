"""Typed settings of a study: their keys, checks of their values, and grids of contexts."""

from __future__ import annotations

import dataclasses
import inspect
import re
import typing
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self, TypeVar

from batch_calibration.errors import InputError, refuse_unknown, spell

Value = str | int | float | bool | tuple[str, ...] | tuple[str | int, ...] | tuple[int, ...]
"""Types of settings."""
TYPE_NAMES: dict[object, str] = {int: "a whole number", float: "a number"}
TYPE_NAMES |= {bool: "True or False", str: "a text"}
ATTRIBUTE = re.compile(r"^    (\w+): (.*(?:\n {8}.*)*)", re.M)
"""An entry of a docstring's section "Attributes", with its continuation lines."""


class Key(NamedTuple):
    """A setting, with the data that programs need for its flag and for its checks.

    Attributes:
        name: Name in `Settings.of` and in a config.
        part: The part of `Settings` with this key; "" for tasks and seeds.
        kind: Its type: a plain type, a `Literal` of texts, or a tuple.
        default: Its default value.
        help: Its description in the docstring of its part.
        minimum: Its minimum if it is a number; None for no minimum.
        unit: The unit of that number.
    """

    name: str
    part: str
    kind: object
    default: Value
    help: str
    minimum: int | None = None
    unit: str = ""

    @property
    def choices(self) -> tuple[str, ...]:
        """The allowed texts; () if any text is allowed."""
        return typing.get_args(self.kind) if typing.get_origin(self.kind) is Literal else ()

    @property
    def is_tuple(self) -> bool:
        """True for a tuple; the command line separates its members by commas."""
        return typing.get_origin(self.kind) is tuple

    def parse(self, text: str) -> Value:
        """Converts a text of the command line to a value; raises the errors of `check`.

        >>> Key("shots", "prompt", int, 1, "").parse("4")
        4
        """
        if self.is_tuple and not text:
            remedy = "leave it out for the default"
            raise InputError(key=self.name, expected="a value", got="nothing", remedy=remedy)
        setting: object = text
        if self.kind is int or self.kind is float:
            with suppress(ValueError):  # `check` reports an invalid number
                setting = int(text) if self.kind is int else float(text)
        elif self.kind is bool:
            # `check` refuses any other text.
            setting = {"True": True, "False": False}.get(text, text)
        return self.check(setting)

    def check(self, setting: object) -> Value:
        """Converts a setting to its type.

        Unambiguous values of other types are accepted: a word for a tuple of one, words with commas
        or a list for a tuple, an integer for a float or a name.

        Raises:
            InputError: The type is wrong, the choice is unknown, or the number is too small.
        """
        if self.choices:
            if setting not in self.choices:
                kind = spell(self.name).rstrip("=")
                raise InputError.unknown(kind, setting, self.choices, key=self.name)
            return str(setting)
        if self.is_tuple:
            return self._check_tuple(setting)
        if self.kind in (float, str) and type(setting) is int:  # bool is excluded
            setting = self.kind(setting)
        # type, not isinstance, because True would count as the number 1.
        if type(setting) is not self.kind:
            raise InputError(key=self.name, expected=TYPE_NAMES[self.kind], got=repr(setting))
        # `not >=`, because a comparison with `<` would accept NaN.
        if self.minimum is not None and not typing.cast(float, setting) >= self.minimum:
            expected = f"{self.minimum} or more {self.unit}"
            raise InputError(key=self.name, expected=expected, got=setting)
        return typing.cast(Value, setting)

    def _check_tuple(self, setting: Any) -> tuple[str | int, ...]:
        member_type = typing.get_args(self.kind)[0]
        # A union has several types of members.
        member_types = typing.get_args(member_type) or (member_type,)
        if member_types == (int,):
            return _read_counts(setting, self.name)
        members = [setting] if isinstance(setting, str) else setting
        is_list = isinstance(members, list | tuple)
        if not is_list or not all(type(member) in member_types for member in members):
            example = f'{self.name}=\'("a","b")\''
            raise InputError(key=self.name, expected=f"names such as {example}", got=repr(setting))
        names: list[str | int] = []
        for member in members:
            # The path of a task file may contain a comma.
            if isinstance(member, str) and "," in member and not Path(member).exists():
                # Python's quotes and brackets are accepted, too.
                stripped = (name.strip(" '\"") for name in member.strip("()[]").split(","))
                names += filter(None, stripped)
            else:
                names.append(member)
        return tuple(names)


def _read_counts(setting: object, key: str) -> tuple[int, ...]:
    """Reads positive integers from a list, or from a text with commas."""
    members = setting if isinstance(setting, list | tuple) else [setting]
    digits: list[str] = []
    for member in members:
        digits += filter(None, str(member).strip("()[]").split(","))
    if not all(number.strip().isdigit() and int(number) > 0 for number in digits):
        expected = "positive whole numbers, such as 2,5,10"
        raise InputError(key=key, expected=expected, got=repr(setting))
    return tuple(map(int, digits))


def read_help(owner: type) -> dict[str, str]:
    """Returns the description of each attribute in the docstring of a class, in one line."""
    entries = ATTRIBUTE.findall(inspect.getdoc(owner) or "")
    return {name: " ".join(text.split()) for name, text in entries}


ScorerKind = Literal["causal_lm", "dual_encoder", "transformers", "api"]
ApiScores = Literal["echo", "prompt_logprobs", "logprob_token_ids", "score", "top_k", "chat",
                    "systemone"]  # fmt: skip
LengthPolicy = Literal["error", "drop_shots", "same_context", "truncate_left"]
LimitRows = Literal["sample", "first"]
Number = TypeVar("Number", int, float)


def _at_least(minimum: int, default: Number, unit: str) -> Number:
    """Returns a dataclass field with a minimum, counted in `unit`."""
    # The return type is that of the field's value, as for `dataclasses.field`.
    return field(default=default, metadata={"minimum": minimum, "unit": unit})


@dataclass(frozen=True)
class DataSettings:
    """The rows to score.

    Attributes:
        data: a folder of rows or TFDS folders, or "mini" (embedded); a task file has its own rows.
        split: the split to test.
        train_split: the split of demonstrations and of the labeled set.
        limit: number of test rows; 0 for all. Use a few rows to try a config.
        limit_rows: rows that `limit` keeps: a random "sample", the same for every context of the
            task, or the "first".
        labeled_per_class: rows of BCL's labeled set per class, 128 in the paper; 0 for no labeled
            set and no bcl.
        classes: for image tasks, "present" scores only the classes with images in the data.
    """

    data: str = ""
    split: str = "validation"
    train_split: str = "train"
    limit: int = 0
    limit_rows: LimitRows = "sample"
    labeled_per_class: int = _at_least(0, 0, "rows (0: no labeled set)")
    classes: Literal["task", "present"] = "task"


@dataclass(frozen=True)
class PromptSettings:
    """The form of prompts.

    Attributes:
        shots: demonstrations per class; for `selection` "total" and "explicit", in all.
        selection: "per_class" draws `shots` rows of each class and shuffles them; "round_robin"
            alternates the classes; "total" draws `shots` rows of any class; "explicit" shows the
            rows in `demonstrations`.
        demonstrations: ids or numbers of training rows, for `selection` "explicit".
        order: number of a permutation of the demonstrations, from 0; -1 for the drawn order.
        template: "" for the task's own template; a number for another template of the task; or a
            text with {field} and {label}. For image tasks and dual encoders, the label's statement.
        verbalizer: "" for the task's own label words; or the name of other words of the task.
        demonstration_labels: labels of demonstrations: their own, random ones, or the next label.
        label_words: "own", or drawn words that name no label: from the list "training", which the
            embedded model's training used, or from the list "held_out".
        over_long: treatment of prompts that exceed the model's positions: raise an error; drop the
            first demonstrations of each long prompt; drop the same number from all prompts of the
            context, probes too; or cut the text on the left.
        chat: "off" for plain text, as base models read it; or messages of the checkpoint's chat
            template, with demonstrations as "turns", or all in "one_message" of the user.
        system: system message of a chat; "" for no message.
        answer_start: beginning of a chat answer before the label, such as "The answer is".
        chat_date: date for chat templates that write it.
        cc_fill: whether cc's content-free texts fill every field, or replace the whole input.
        dc_texts: number of random-word texts that dc learns from.
        option_orders: orders of the task's options: "sample" scores 5 % of the rows in all k cyclic
            orders (pride); "two" all rows as they are and reversed, "all" in all k (order_average).
    """

    shots: int = _at_least(0, 1, "shots")
    selection: Literal["per_class", "total", "round_robin", "explicit"] = "per_class"
    demonstrations: tuple[str | int, ...] = ()
    order: int = _at_least(-1, -1, "(-1: as drawn)")
    template: str = ""
    verbalizer: str = ""
    demonstration_labels: Literal["gold", "random", "flipped"] = "gold"
    label_words: Literal["own", "training", "held_out"] = "own"
    over_long: LengthPolicy = "error"
    chat: Literal["off", "turns", "one_message"] = "off"
    system: str = ""
    answer_start: str = ""
    chat_date: str = "2024-07-26"
    cc_fill: Literal["per_field", "whole_input"] = "per_field"
    dc_texts: int = _at_least(1, 20, "texts")  # as published
    option_orders: Literal["sample", "two", "all"] = "sample"


@dataclass(frozen=True)
class ModelSettings:
    """The model and its execution.

    Attributes:
        scorer: "causal_lm" scores label words after a prompt; "dual_encoder" compares an
            image or a text with label statements (CLIP, SigLIP); "transformers" is "causal_lm"
            for any architecture, T5 too, run with torch; "api" uses a server.
        model: a checkpoint directory, a GGUF file, a name on the Hugging Face hub, "mini",
            "mini_small" or "mini_clip"; for the scorer "api", the server's name for the model.
        batch_size: maximum number of rows in a batch; lower it only if memory is short.
        dtype: "auto" is float32 on CPUs and bfloat16 on accelerators.
        mesh: devices, such as "data:4,model:2"; "" is one device.
        logits_only: leave the softmax's denominator out; labels must have one token each.
        scale: one over the temperature of a dual encoder; 0 for the checkpoint's own.
        max_tokens: maximum length of texts for a dual encoder; 0 for the checkpoint's own limit.
        accept_keys: unknown keys of config.json that, as you know, do not affect scores.
    """

    scorer: ScorerKind = "causal_lm"
    model: str = ""
    batch_size: int = _at_least(1, 1024, "rows")
    dtype: str = "auto"
    mesh: str = ""
    logits_only: bool = False
    scale: float = 20.0
    max_tokens: int = 0
    accept_keys: tuple[str, ...] = ()


@dataclass(frozen=True)
class ApiSettings:
    """Requests to a server, for the scorer "api": docs/asking-an-api.md.

    Attributes:
        server: address of the server, such as "http://127.0.0.1:8000/v1".
        api_scores: protocol of the requests. For whole labels: "echo" (OpenAI-style completions),
            "prompt_logprobs" (vLLM). For labels of one token: "logprob_token_ids" (vLLM), "score"
            (SGLang). For the most probable first tokens: "top_k" (completions), "chat". For the
            options of a decision model: "systemone".
        tokenizer: directory of the model's tokenizer.json and config.json, to count tokens, to fit
            prompts, and to find the labels' ids for "logprob_token_ids" and "score".
        top_logprobs: number of most probable first tokens to request with "top_k" and "chat".
        missing: treatment of labels that are not among these tokens: "least" gives scores just
            below the least one, "drop" leaves the row out, a number of nats is the score.
        in_flight: maximum number of requests at a time.
        per_minute: maximum number of requests per minute; 0 for no limit.
        timeout: seconds after which a request is canceled and sent again.
        price: dollars per million tokens sent, for the estimate before the run.
        key_variable: environment variable with the API key; if it is unset, no key is sent.
    """

    server: str = ""
    api_scores: ApiScores = "echo"
    tokenizer: str = ""
    top_logprobs: int = _at_least(1, 20, "tokens")
    missing: str = "least"
    in_flight: int = _at_least(1, 8, "requests")
    per_minute: int = _at_least(0, 0, "requests (0: no limit)")
    timeout: float = _at_least(1, 120.0, "seconds")
    price: float = _at_least(0, 0.0, "dollars")
    key_variable: str = "API_KEY"


@dataclass(frozen=True)
class CalibrationSettings:
    """Calibration of stored scores, which needs no model.

    Attributes:
        methods: names of methods, or "all"; empty for the paper's and those that are advised.
            During scoring, names leave out the probe inputs that only other methods need.
        method_options: options that differ from a method's defaults, METHOD.OPTION=VALUE, such as
            "bc_running.batch_size=8"; results name the setting by them.
        label_shares: shares of labels that methods match: "equal", or "train" for the shares
            counted in the task's training file; results name the setting by it.
        probe_sizes: numbers of rows to which BC and PC are also limited.
        draws: draws of rows for each probe size.
        stream_orders: random orders of the rows, for accuracy by rows seen; 0 for no stream.
    """

    methods: tuple[str, ...] = ()
    method_options: tuple[str, ...] = ()
    label_shares: Literal["equal", "train"] = "equal"
    probe_sizes: tuple[int, ...] = ()
    draws: int = _at_least(1, 20, "draws")
    stream_orders: int = _at_least(0, 0, "orders (0: none)")


def refuse_changed(part: object, names: Iterable[str], why: str) -> None:
    """Raises an error if one of these settings of a part differs from its default."""
    for name in names:
        setting, usual = getattr(part, name), getattr(type(part)(), name)
        if setting != usual:
            raise InputError.at("", f"{usual!r}, because {why}", repr(setting), key=name)


PARTS = {"data": DataSettings, "prompt": PromptSettings, "model": ModelSettings}
PARTS |= {"api": ApiSettings, "calibration": CalibrationSettings}
ONE_VALUE = {"batch_size", "mesh"}
"""Keys of the model that do not affect numbers; commas in a mesh separate no values."""


@dataclass(frozen=True)
class Settings:
    """Settings of a study: tasks, seeds, and parts. `of` and the flags take all keys flat.

    Attributes:
        tasks: names of tasks, or paths of task files.
        seeds: number of draws of demonstrations, with seeds 0 to `seeds` - 1.
        data: the rows.
        prompt: the form of prompts.
        model: the model.
        api: the requests to a server, for the scorer "api".
        calibration: the calibration of the scores.

    >>> Settings.of(tasks="sst2", shots=4).prompt.shots
    4
    """

    tasks: tuple[str, ...] = ()
    seeds: int = 1
    data: DataSettings = field(default_factory=DataSettings)
    prompt: PromptSettings = field(default_factory=PromptSettings)
    model: ModelSettings = field(default_factory=ModelSettings)
    api: ApiSettings = field(default_factory=ApiSettings)
    calibration: CalibrationSettings = field(default_factory=CalibrationSettings)

    @classmethod
    def of(cls, **chosen: object) -> Self:
        """Returns settings with these keys and defaults for all others.

        Raises:
            InputError: A key is unknown, or a value has a wrong type or is out of range.
        """
        return cls().replace(**chosen)

    def replace(self, **chosen: object) -> Self:
        """Returns these settings with some keys changed; raises the errors of `of`."""
        changed: dict[str, Any] = {}
        by_part: dict[str, dict[str, Any]] = defaultdict(dict)
        for name, setting in chosen.items():
            refuse_unknown("setting", name, keys())
            key = keys()[name]
            (by_part[key.part] if key.part else changed)[name] = key.check(setting)
        for part_name, changes in by_part.items():  # each part is replaced once
            changed[part_name] = dataclasses.replace(getattr(self, part_name), **changes)
        return dataclasses.replace(self, **changed)

    def flat(self) -> dict[str, Value]:
        """Returns every key and its value."""
        flat = {}
        for name, key in keys().items():
            flat[name] = getattr(getattr(self, key.part) if key.part else self, name)
        return flat

    def cell(self, task: str, seed: int = 0, **chosen: object) -> Cell:
        """Returns one context of a study: a task, a seed, and changes of these settings.

        Raises:
            InputError: `of` would raise, or a key belongs to the model, which all cells share.

        >>> Settings.of(data="mini").cell("sst2", seed=1, shots=2).prompt.shots
        2
        """
        for name in chosen:
            if name in keys() and keys()[name].part not in ("data", "prompt"):
                expected = f"no {name}, which all cells of a study share"
                remedy = "set it in the study's settings, or score two studies"
                raise InputError.at("a cell of the sweep", expected, remedy=remedy)
        if not isinstance(task, str) or not task:
            expected = "a task's name or a task file's path"
            raise InputError(where="task", expected=expected, got=repr(task))
        if type(seed) is not int or seed < 0:  # bool is excluded
            raise InputError(where="seed", expected="a whole number from 0 on", got=repr(seed))
        settings = self.replace(**chosen) if chosen else self
        return Cell(task, seed, settings.data, settings.prompt)

    def grid(self) -> Iterator[Cell]:
        """Yields the usual sweep: each task with each seed, or one seed if nothing is drawn."""
        # With zero shots, every seed would score the same test rows again.
        is_drawn = self.prompt.shots or self.prompt.label_words != "own"
        for task in self.tasks:
            for seed in range(self.seeds if is_drawn else 1):
                yield self.cell(task, seed)


@dataclass(frozen=True)
class Cell:
    """One context of a sweep, before it is rendered.

    Attributes:
        task: a task's name, or the path of a task file.
        seed: seed of the demonstrations, drawn label words, the labeled set and dc's texts.
        data: the rows.
        prompt: the form of prompts.
    """

    task: str
    seed: int = 0
    data: DataSettings = field(default_factory=DataSettings)
    prompt: PromptSettings = field(default_factory=PromptSettings)

    def unfitted(self) -> Cell:
        """Returns the same context without a limit on the length of prompts."""
        return dataclasses.replace(self, prompt=dataclasses.replace(self.prompt, over_long="error"))


@cache
def keys() -> Mapping[str, Key]:
    """Returns every setting by name, tasks and seeds first, with the data for its flag."""
    by_name, defaults = dict[str, Key](), Settings()
    for part_name, owner in {"": Settings, **PARTS}.items():
        holder = getattr(defaults, part_name) if part_name else defaults
        # Type hints are evaluated, because annotations in this module are strings.
        types, help_texts = typing.get_type_hints(owner), read_help(owner)
        for setting in dataclasses.fields(owner):
            name, default = setting.name, getattr(holder, setting.name)
            if part_name or name not in PARTS:  # skips the fields for whole parts
                key = Key(name, part_name, types[name], default, help_texts[name])
                by_name[name] = key._replace(**setting.metadata)
    return by_name


class Study(NamedTuple):
    """Contexts to score with one model.

    Attributes:
        settings: The settings that all contexts share, and the model.
        cells: The contexts.
    """

    settings: Settings
    cells: tuple[Cell, ...]


def grid(settings: Settings, **choices: Sequence[object]) -> list[Study]:
    """Returns the usual sweep for every combination of choices, with a study for each model.

    Args:
        settings: Settings of the keys that are not varied.
        **choices: Several values for each of some keys of the data, the prompt or the model.

    Raises:
        InputError: A key cannot have several values, or a value is invalid for its key.

    >>> settings = Settings.of(tasks=("sst2", "rte"), model="mini")
    >>> [len(study.cells) for study in grid(settings, shots=(1, 2, 4), template=("", "1"))]
    [12]
    """
    changed = [settings.replace(**combination) for combination in combinations(choices)]
    return gather(Study(variant, tuple(variant.grid())) for variant in changed)


def combinations(choices: Mapping[str, Sequence[object]]) -> Iterator[dict[str, object]]:
    """Yields one choice of each key; the last key varies fastest.

    Raises:
        InputError: A key cannot have several values, or has no values.
    """
    for name, several in choices.items():
        refuse_unknown("key that may have several values", name, varied())
        # A text is a sequence of characters, so it needs its own check.
        if isinstance(several, str) or not several:
            expected = "several values such as (1, 2)"
            raise InputError(where=name, expected=expected, got=repr(several))
    for combination in product(*choices.values()):
        yield dict(zip(choices, combination, strict=True))


def varied() -> list[str]:
    """Returns the keys that may have several values: those that affect scores."""
    scored = [name for name, key in keys().items() if key.part in ("data", "prompt", "model")]
    return [name for name in scored if name not in ONE_VALUE]


def gather(studies: Iterable[Study]) -> list[Study]:
    """Merges the studies of each model into one; keeps the order and drops repeated contexts."""
    by_model: dict[object, Study] = {}
    for settings, cells in studies:
        model = (settings.model, settings.api)  # everything that affects the answers
        earlier = by_model.get(model, Study(settings, ()))
        # A dict removes duplicates and, unlike a set, keeps the order.
        by_model[model] = Study(earlier.settings, tuple(dict.fromkeys(earlier.cells + cells)))
    return list(by_model.values())
