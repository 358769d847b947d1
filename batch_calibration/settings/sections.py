"""Typed settings by section: the one owner of every key that a config may set."""

from dataclasses import dataclass, field
from typing import Literal, TypeVar

ScorerKind = Literal["causal_lm", "dual_encoder", "transformers", "api"]
ApiScores = Literal["echo", "prompt_logprobs", "logprob_token_ids", "score", "top_k", "chat",
                    "systemone"]  # fmt: skip
Selection = Literal["per_class", "total", "round_robin", "explicit"]
LengthPolicy = Literal["error", "drop_shots", "same_context", "truncate_left"]
Chat = Literal["off", "turns", "one_message"]
LabelWords = Literal["own", "training", "held_out"]
Number = TypeVar("Number", int, float)


def _at_least(minimum: int, default: Number, unit: str) -> Number:
    """A field of at least `minimum`, counted in `unit`."""
    # Typed as what an instance's field holds, as `dataclasses.field` is.
    number: Number = field(default=default, metadata={"minimum": minimum, "unit": unit})
    return number


@dataclass(frozen=True)
class DataSettings:
    """Which rows are scored.

    Attributes:
        data: a folder of rows or TFDS folders, or "mini" (embedded); a task file has its own rows.
        split: the split that is tested.
        train_split: where demonstrations and the labeled set are drawn from.
        limit: how many test rows, the first ones; 0 is all. Give a few to try a config out.
        labeled_per_class: rows of BCL's labeled set per class; 0 scores none, and leaves bcl out.
        classes: of an image task, "present" scores only the classes that the data have images of.
    """

    data: str = ""
    split: str = "validation"
    train_split: str = "train"
    limit: int = 0
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
    selection: Selection = "per_class"
    demonstrations: tuple[str | int, ...] = ()
    order: int = _at_least(-1, -1, "(-1: as drawn)")
    template: str = ""
    verbalizer: str = ""
    demonstration_labels: Literal["gold", "random", "flipped"] = "gold"
    label_words: LabelWords = "own"
    over_long: LengthPolicy = "error"
    chat: Chat = "off"
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
        scorer: "causal_lm" scores label words after a prompt; "dual_encoder" compares a text or an
            image with label statements (sentence encoders, CLIP); "transformers" is "causal_lm"
            for any architecture, T5 too, run with torch; "api" asks a server.
        model: a checkpoint directory, a name on the Hugging Face hub, "mini", "mini_small" or
            "mini_clip"; of the scorer "api", what the server calls it.
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
    batch_size: int = _at_least(1, 256, "rows")
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
        methods: names of methods; none is all.
        method_options: options that differ from a method's own, METHOD.OPTION=VALUE, such as
            "bc_running.batch_size=8"; in results they name the setting.
        probe_sizes: also let BC and PC learn from so many rows alone.
        draws: draws of rows for each probe size.
        stream_orders: random orders in which the rows come, for accuracy by rows seen; 0 is none.
    """

    methods: tuple[str, ...] = ()
    method_options: tuple[str, ...] = ()
    probe_sizes: tuple[int, ...] = ()
    draws: int = _at_least(1, 20, "draws")
    stream_orders: int = _at_least(0, 0, "orders (0: none)")
