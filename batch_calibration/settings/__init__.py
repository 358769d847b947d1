"""Typed settings of a study: all keys by name, checked, and the grids of contexts over them."""

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
"""An entry of a docstring's section of attributes, with the lines that continue it."""


class Key(NamedTuple):
    """One setting, as a program needs it to make a flag and to check what is given.

    Attributes:
        name: as in `Settings.of`, and in a config.
        part: the part of `Settings` that it belongs to; "" for tasks and seeds.
        kind: its type: plain, a `Literal` of texts, or a tuple.
        default: its value where none is given.
        help: its description in the docstring of its part.
        minimum: the least number that it may be; None where any will do.
        unit: what that number counts.
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
        """The texts that it may be; () where it is free."""
        return typing.get_args(self.kind) if typing.get_origin(self.kind) is Literal else ()

    @property
    def is_tuple(self) -> bool:
        """True where it may have several members, with commas between them at the command line."""
        return typing.get_origin(self.kind) is tuple

    def parse(self, text: str) -> Value:
        """The value of a text at the command line; errors as in `check`.

        >>> Key("shots", "prompt", int, 1, "").parse("4")
        4
        """
        if self.is_tuple and not text:
            remedy = "leave it out for the default"
            raise InputError(key=self.name, expected="a value", got="nothing", remedy=remedy)
        setting: object = text
        if self.kind is int or self.kind is float:
            with suppress(ValueError):  # `check` says what is wrong with it
                setting = int(text) if self.kind is int else float(text)
        elif self.kind is bool:
            # Any other text is refused by `check`.
            setting = {"True": True, "False": False}.get(text, text)
        return self.check(setting)

    def check(self, setting: object) -> Value:
        """The setting in its own type.

        What can mean one thing alone is accepted: one word for a tuple of one, words with commas or
        a list for a tuple, a whole number for a real one.

        Raises:
            InputError: another type, an unknown choice, a number below the least.
        """
        if self.choices:
            if setting not in self.choices:
                kind = spell(self.name).rstrip("=")
                raise InputError.unknown(kind, setting, self.choices, key=self.name)
            return str(setting)
        if self.is_tuple:
            return self._check_tuple(setting)
        if self.kind is float and type(setting) is int:  # True has another type
            setting = float(setting)
        # Not isinstance: True would pass for the number 1.
        if type(setting) is not self.kind:
            raise InputError(key=self.name, expected=TYPE_NAMES[self.kind], got=repr(setting))
        # Not `<`: NaN is below no number.
        if self.minimum is not None and not typing.cast(float, setting) >= self.minimum:
            expected = f"{self.minimum} or more {self.unit}"
            raise InputError(key=self.name, expected=expected, got=setting)
        return typing.cast(Value, setting)

    def _check_tuple(self, setting: Any) -> tuple[str | int, ...]:
        member_type = typing.get_args(self.kind)[0]
        # Of a union, each of its types.
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
            # A task file's path may hold a comma.
            if isinstance(member, str) and "," in member and not Path(member).exists():
                # Python's quotes and brackets are let through
                stripped = (name.strip(" '\"") for name in member.strip("()[]").split(","))
                names += filter(None, stripped)
            else:
                names.append(member)
        return tuple(names)


def _read_counts(setting: object, key: str) -> tuple[int, ...]:
    """Whole numbers from 1 on; at the command line they may come as a text with commas."""
    members = setting if isinstance(setting, list | tuple) else [setting]
    digits: list[str] = []
    for member in members:
        digits += filter(None, str(member).strip("()[]").split(","))
    if not all(number.strip().isdigit() and int(number) > 0 for number in digits):
        expected = "whole numbers from 1 on, such as 2,5,10"
        raise InputError(key=key, expected=expected, got=repr(setting))
    return tuple(map(int, digits))


def read_help(owner: type) -> dict[str, str]:
    """Attribute -> its description in the docstring of a class, in one line."""
    entries = ATTRIBUTE.findall(inspect.getdoc(owner) or "")
    return {name: " ".join(text.split()) for name, text in entries}


ScorerKind = Literal["causal_lm", "dual_encoder", "transformers", "api"]
ApiScores = Literal["echo", "prompt_logprobs", "logprob_token_ids", "score", "top_k", "chat",
                    "systemone"]  # fmt: skip
LengthPolicy = Literal["error", "drop_shots", "same_context", "truncate_left"]
LimitRows = Literal["sample", "first"]
Number = TypeVar("Number", int, float)


def _at_least(minimum: int, default: Number, unit: str) -> Number:
    """A field of at least `minimum`, counted in `unit`."""
    # Typed as what an instance's field holds, as `dataclasses.field` is.
    return field(default=default, metadata={"minimum": minimum, "unit": unit})


@dataclass(frozen=True)
class DataSettings:
    """Which rows are scored.

    Attributes:
        data: a folder of rows or TFDS folders, or "mini" (embedded); a task file has its own rows.
        split: the split that is tested.
        train_split: where demonstrations and the labeled set are drawn from.
        limit: how many test rows; 0 is all. Give a few to try a config out.
        limit_rows: which rows `limit` keeps: a "sample" of all, the same for every context of the
            task, or the "first".
        labeled_per_class: rows of BCL's labeled set per class; 0 scores none, and leaves bcl out.
        classes: of an image task, "present" scores only the classes that the data have images of.
    """

    data: str = ""
    split: str = "validation"
    train_split: str = "train"
    limit: int = 0
    limit_rows: LimitRows = "sample"
    labeled_per_class: int = _at_least(0, 128, "rows (0: no labeled set)")
    classes: Literal["task", "present"] = "task"


@dataclass(frozen=True)
class PromptSettings:
    """The form of prompts.

    Attributes:
        shots: demonstrations per class; for `selection` "total" and "explicit", in all.
        selection: "per_class" draws `shots` rows of each class and shuffles them; "round_robin"
            has the classes in turn; "total" draws `shots` rows of any class; "explicit" shows
            the rows that `demonstrations` names.
        demonstrations: ids or numbers of training rows, for `selection` "explicit".
        order: number of a permutation of the demonstrations, from 0; -1 is the drawn order.
        template: "" is the task's own; a number names one of its choices; a text with {field} and
            {label} is used as it is. Of image tasks and dual encoders, the label's statement.
        verbalizer: "" is the task's own label words; a name chooses others of the task.
        demonstration_labels: those shown: their own, random ones, or of each row the next label.
        label_words: "own" or words that name no label, drawn by the seed from a list: "training",
            from which the embedded model's training drew them, or "held_out" from it.
        over_long: what is done where a prompt is longer than the model's positions: refuse it,
            leave out its first demonstrations, or the first ones of all prompts of the context,
            probes too, so that one context holds for all, or cut the text on the left.
        chat: "off" is text as a base model reads it; else messages of the checkpoint's chat
            template: demonstrations as "turns", or all in "one_message" of the user.
        system: the system message of a chat; none where it is empty.
        answer_start: how the answer of a chat begins before the label, such as "The answer is".
        chat_date: the day for a chat template that writes the date.
        cc_fill: cc's content-free texts fill every field, or replace the whole input.
        dc_texts: how many random-word texts dc learns from.
        option_orders: "sample" asks 5 % of the rows in all k cyclic orders of the task's options
            (pride); "two" asks all as they are and reversed, "all" in all k (order_average).
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
    """Which model is asked, and how.

    Attributes:
        scorer: "causal_lm" scores label words after a prompt; "dual_encoder" compares an
            image or a text with label statements (CLIP, SigLIP); "transformers" is "causal_lm"
            for any architecture, T5 too, run with torch; "api" asks a server.
        model: a checkpoint directory, a GGUF file, a name on the Hugging Face hub, "mini",
            "mini_small" or "mini_clip"; of the scorer "api", what the server calls it.
        batch_size: most rows in a batch; lower it only where memory is short.
        dtype: "auto" is float32 on CPUs and bfloat16 on accelerators.
        mesh: devices, such as "data:4,model:2"; "" is one device.
        logits_only: leave the softmax's denominator out; labels of one token each.
        scale: of a dual encoder, one over its temperature; 0 is the checkpoint's own.
        max_tokens: of a dual encoder, where texts are cut; 0 is the checkpoint's own limit.
        accept_keys: keys of config.json that are unknown here and, you know, change no score.
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
        server: its address, such as "http://127.0.0.1:8000/v1".
        api_scores: the way of asking. Of whole labels: "echo" (OpenAI-style completions),
            "prompt_logprobs" (vLLM). Of labels of one token: "logprob_token_ids" (vLLM), "score"
            (SGLang). Of the most probable first tokens: "top_k" (completions), "chat". Of the
            options of a decision model: "systemone".
        tokenizer: directory of the model's tokenizer.json and config.json: counts tokens, fits
            prompts, and tells "logprob_token_ids" and "score" the labels' ids.
        top_logprobs: most probable first tokens that "top_k" and "chat" ask for.
        missing: what is done about labels that are not among them: "least" puts them just below
            the least one, "drop" leaves the row out, a number of nats stands for them.
        in_flight: most requests at a time.
        per_minute: most requests a minute; 0 is no limit.
        timeout: seconds after which a request is given up and asked again.
        price: dollars per million tokens sent, for the estimate before the run.
        key_variable: the environment variable that holds the key; none is sent where it is unset.
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
    """Calibration of the scores: no model is asked, nothing is scored again.

    Attributes:
        methods: names of methods; none is all. Where the model is asked, it leaves out the probe
            inputs that only other methods learn from.
        method_options: options that differ from a method's own, METHOD.OPTION=VALUE, such as
            "bc_running.batch_size=8"; in results they name the setting.
        label_shares: the shares of labels that methods match: "equal" ones, or "train", those
            counted in the task's training file; in results that names the setting.
        probe_sizes: also let BC and PC learn from so many rows alone.
        draws: draws of rows for each probe size.
        stream_orders: random orders in which the rows come, for accuracy by rows seen; 0 is none.
    """

    methods: tuple[str, ...] = ()
    method_options: tuple[str, ...] = ()
    label_shares: Literal["equal", "train"] = "equal"
    probe_sizes: tuple[int, ...] = ()
    draws: int = _at_least(1, 20, "draws")
    stream_orders: int = _at_least(0, 0, "orders (0: none)")


PARTS = {"data": DataSettings, "prompt": PromptSettings, "model": ModelSettings}
PARTS |= {"api": ApiSettings, "calibration": CalibrationSettings}
ONE_VALUE = {"batch_size", "mesh"}
"""Keys of the model that decide no number; commas of a mesh are its own."""


@dataclass(frozen=True)
class Settings:
    """Settings of a study: tasks, seeds, and parts, whose keys `of` and the flags take flat.

    Attributes:
        tasks: names of tasks, or paths of task files.
        seeds: how many draws of demonstrations, seeds 0 to `seeds` - 1.
        data: which rows.
        prompt: how rows become prompts.
        model: which model.
        api: how a server is asked, where one is.
        calibration: what is done with the scores.

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
        """Settings with these keys and the defaults of all others.

        Raises:
            InputError: an unknown key, a value of another type or out of range.
        """
        return cls().replace(**chosen)

    def replace(self, **chosen: object) -> Self:
        """The same settings with some keys changed; errors as in `of`."""
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
        """Every key and its value."""
        flat = {}
        for name, key in keys().items():
            flat[name] = getattr(getattr(self, key.part) if key.part else self, name)
        return flat

    def cell(self, task: str, seed: int = 0, **chosen: object) -> Cell:
        """One context of a study: a task, a seed, and what else differs from these settings.

        Raises:
            InputError: as in `of`; a key of the model, which all cells of a study share.

        >>> Settings.of(data="mini").cell("sst2", seed=1, shots=2).prompt.shots
        2
        """
        for name in chosen:
            if name in keys() and keys()[name].part not in ("data", "prompt"):
                raise InputError(
                    f"a cell of the sweep sets {name}, which all cells of a study share: set it in "
                    "the study's settings, or score two studies."
                )
        if not isinstance(task, str) or not task:
            expected = "a task's name or a task file's path"
            raise InputError(where="task", expected=expected, got=repr(task))
        if type(seed) is not int or seed < 0:  # True is no seed
            raise InputError(where="seed", expected="a whole number from 0 on", got=repr(seed))
        settings = self.replace(**chosen) if chosen else self
        return Cell(task, seed, settings.data, settings.prompt)

    def grid(self) -> Iterator[Cell]:
        """The usual sweep: each task with each seed, one seed where nothing is drawn."""
        # Of zero-shot prompts every seed would score the same test rows again.
        is_drawn = self.prompt.shots or self.prompt.label_words != "own"
        for task in self.tasks:
            for seed in range(self.seeds if is_drawn else 1):
                yield self.cell(task, seed)


@dataclass(frozen=True)
class Cell:
    """One context of a sweep, before it is rendered.

    Attributes:
        task: a task's name, or the path of a task file.
        seed: decides the demonstrations, drawn label words, the labeled set and dc's texts.
        data: which rows.
        prompt: how rows become prompts.
    """

    task: str
    seed: int = 0
    data: DataSettings = field(default_factory=DataSettings)
    prompt: PromptSettings = field(default_factory=PromptSettings)

    def unfitted(self) -> Cell:
        """The same context, its prompts left as long as they are."""
        return dataclasses.replace(self, prompt=dataclasses.replace(self.prompt, over_long="error"))


@cache
def keys() -> Mapping[str, Key]:
    """Every setting by name, tasks and seeds first: all that a program needs for its flags."""
    by_name, defaults = dict[str, Key](), Settings()
    for part_name, owner in {"": Settings, **PARTS}.items():
        holder = getattr(defaults, part_name) if part_name else defaults
        # Evaluated: in this module annotations are texts.
        types, help_texts = typing.get_type_hints(owner), read_help(owner)
        for setting in dataclasses.fields(owner):
            name, default = setting.name, getattr(holder, setting.name)
            if part_name or name not in PARTS:  # not the parts themselves
                key = Key(name, part_name, types[name], default, help_texts[name])
                by_name[name] = key._replace(**setting.metadata)
    return by_name


class Study(NamedTuple):
    """Contexts that one model is asked about.

    Attributes:
        settings: what all contexts share, and the model.
        cells: the contexts.
    """

    settings: Settings
    cells: tuple[Cell, ...]


def grid(settings: Settings, **choices: Sequence[object]) -> list[Study]:
    """The usual sweep of the settings for every combination of choices; a study for each model.

    Args:
        settings: of the keys that are not varied.
        **choices: several values each of keys of the data, the prompt and the model.

    Raises:
        InputError: a key that a sweep has one value of; a value that the key cannot have.

    >>> settings = Settings.of(tasks=("sst2", "rte"), model="mini")
    >>> [len(study.cells) for study in grid(settings, shots=(1, 2, 4), template=("", "1"))]
    [12]
    """
    changed = [settings.replace(**combination) for combination in combinations(choices)]
    return gather(Study(variant, tuple(variant.grid())) for variant in changed)


def combinations(choices: Mapping[str, Sequence[object]]) -> Iterator[dict[str, object]]:
    """One choice of each key; the last key varies fastest.

    Raises:
        InputError: a key that a sweep has one value of, or no values.
    """
    for name, several in choices.items():
        refuse_unknown("key that may have several values", name, varied())
        # A text is a sequence too, of letters.
        if isinstance(several, str) or not several:
            expected = "several values such as (1, 2)"
            raise InputError(where=name, expected=expected, got=repr(several))
    for combination in product(*choices.values()):
        yield dict(zip(choices, combination, strict=True))


def varied() -> list[str]:
    """The keys that may have several values: keys that decide scores."""
    scored = [name for name, key in keys().items() if key.part in ("data", "prompt", "model")]
    return [name for name in scored if name not in ONE_VALUE]


def gather(studies: Iterable[Study]) -> list[Study]:
    """Studies of one model as one, each context once, in the order they come."""
    by_model: dict[object, Study] = {}
    for settings, cells in studies:
        model = (settings.model, settings.api)  # what decides the answers
        earlier = by_model.get(model, Study(settings, ()))
        # A dict keeps the order of first sight, as a set would not.
        by_model[model] = Study(earlier.settings, tuple(dict.fromkeys(earlier.cells + cells)))
    return list(by_model.values())
