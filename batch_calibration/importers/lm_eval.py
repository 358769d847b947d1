"""Logs of lm-evaluation-harness: what `--log_samples` writes of multiple choice, since 0.4.0."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from batch_calibration.errors import InputError, shown
from batch_calibration.files import Json
from batch_calibration.importers.base import Imported, Reading, beginning
from batch_calibration.importers.choices import Row, by_columns, target_of, to_imported
from batch_calibration.importers.json_parts import fields
from batch_calibration.importers.json_rows import json_rows
from batch_calibration.importers.lm_eval_results import about_log
from batch_calibration.importers.one_context import KEPT, differing_demonstrations

REMEDY = (
    "`fewshot_config: {sampler: first_n}` in the task's YAML gives every row the same "
    "demonstrations."
)
ROLLING = "log-likelihoods of whole texts (loglikelihood_rolling)"
GENERATED = "generated texts (generate_until)"


@dataclass(frozen=True)
class Logged:
    """One line of a log.

    Attributes:
        row: the question.
        prompt: before its first choice.
        filter: which of the harness's filters the line is for, "" in older logs.
        mark: a hash of what was asked and answered.
    """

    row: Row
    prompt: str
    filter: str
    mark: int


def recognizes(path: Path, start: bytes) -> bool:
    """Whether a file is a log of samples, or the results that stand beside it."""
    text = start.removeprefix(b"\xef\xbb\xbf")
    first = rb'\s*(\[\s*)?\{\s*"(doc_id"\s*:|doc"\s*:|target"\s*:)'
    samples = re.match(first, text) is not None and b'"doc' in text
    return samples or _is_results(path, text)


def read(path: Path, reading: Reading) -> list[Imported]:
    """The scores of a log of samples; what results_*.json beside it says is taken when there.

    Raises:
        InputError: no log of multiple choice; rows that disagree; what `to_imported` refuses.
    """
    if _is_results(path, beginning(path)):
        raise InputError(
            f"{path}: these are the harness's averages, which hold no scores; name the samples "
            "file beside it (samples_*.jsonl), which --log_samples writes."
        )
    kept: dict[str, Logged] = {}
    prompts: list[str] = []
    filters: dict[str, None] = {}
    for where, value in json_rows(path):
        line = _logged(value, where, reading)
        filters[line.filter] = None
        if reading.filter and not line.filter:
            raise InputError(f"{where}: the log names no filters; leave --filter out.")
        if reading.filter and line.filter != reading.filter:
            continue
        before = kept.get(line.row.id)
        if before is None:
            if len(prompts) < KEPT:
                prompts.append(line.prompt)
            kept[line.row.id] = Logged(line.row, "", line.filter, line.mark)
        else:
            _same(before, line, where)
    if reading.filter and not kept and filters:
        raise InputError.unknown("filter", reading.filter, filters)
    about, shots = about_log(path, reading)
    note = differing_demonstrations(prompts, shots, REMEDY)
    return to_imported(
        [line.row for line in kept.values()], str(path), reading, about, [note] if note else []
    )


def _is_results(path: Path, start: bytes) -> bool:
    return path.suffix == ".json" and re.match(rb'\s*\{\s*"results"\s*:\s*\{', start) is not None


def _same(before: Logged, line: Logged, where: str) -> None:
    """Refuse a second line of a document that is no repetition for another filter."""
    if before.filter == line.filter != "":
        raise InputError(
            f"{where}: the doc_id {line.row.id} stands there twice for the filter {line.filter!r}; "
            "are two logs in one file? Keep one of them."
        )
    if before.mark != line.mark:
        either = " or ".join(f"--filter={one.filter}" for one in (before, line) if one.filter)
        raise InputError(
            f"{where}: the doc_id {line.row.id} stands there again with other scores; "
            + (f"choose by {either}." if either else "are two logs in one file? Keep one.")
        )


def _logged(value: Mapping[str, Json], where: str, reading: Reading) -> Logged:
    for name in ("doc_id", "arguments"):
        if name not in value:
            raise InputError(
                where=where,
                expected=f"{name!r}, as --log_samples of lm-evaluation-harness writes it",
                got=shown(list(value)),
            )
    pairs = _pairs(value["arguments"], where)
    answers = value.get("filtered_resps") or value.get("resps")
    if not isinstance(answers, list) or len(answers) != len(pairs):
        many = len(answers) if isinstance(answers, list) else 0
        raise InputError(
            where=where,
            expected=f"one log-likelihood for each of {len(pairs)} requests in "
            "'filtered_resps' or 'resps'",
            got=many,
            remedy="write the log again",
        )
    scores = [_log_likelihood(one, where, reading) for one in answers]
    alone = _without_question(pairs, "acc_mutual_info" in value)
    asked = [i for i in range(len(pairs)) if i not in alone]
    contexts = {pairs[i][0] for i in asked}
    # Where the prompts differ and the answer is one, the choices stand in the prompts.
    texts = tuple(pairs[i][1] for i in asked) if len(contexts) == 1 else ()
    document = fields(value.get("doc"))
    row = Row(
        id=str(value["doc_id"]),
        scores=tuple(scores[i] for i in asked),
        choices=texts,
        target=target_of(document, value.get("target") if texts else None, where, reading),
        right=_right(value.get("acc")),
        alone=tuple(scores[i] for i in alone),
        columns=by_columns(document, where, reading),
    )
    mark = hash((tuple(pairs), tuple(scores), str(value.get("target"))))
    named = value.get("filter", "")
    return Logged(row, pairs[asked[0]][0], named if isinstance(named, str) else "", mark)


def _pairs(arguments: Json, where: str) -> list[tuple[str, str]]:
    """Prompt and answer of each request: lists to 0.4.2, then dicts by `gen_args_N` and `arg_M`."""
    requests = arguments if isinstance(arguments, list) else []
    if isinstance(arguments, dict):
        # The same number of digits first: "gen_args_2" before "gen_args_10".
        names = sorted(arguments, key=lambda name: (len(name), name))
        requests = [arguments[name] for name in names if name.startswith("gen_args_")]
    found = []
    # Copies of a log whose rows have one form fill up with null.
    for one in (one for one in requests if one is not None):
        parts = [one.get("arg_0"), one.get("arg_1")] if isinstance(one, dict) else one
        if not isinstance(parts, list) or not parts or not isinstance(parts[0], str):
            raise InputError(
                where=where,
                expected="arguments of requests as lists of texts, or as gen_args_0 with "
                "arg_0 and arg_1",
                got=shown(one),
            )
        if len(parts) < 2 or parts[1] is None:
            raise _no_choices(ROLLING, where)
        if not isinstance(parts[1], str):
            raise _no_choices(GENERATED, where)
        found.append((parts[0], parts[1]))
    if not found:
        raise InputError(where=where, expected="the requests' arguments", got=shown(arguments))
    return found


def _no_choices(what: str, where: str) -> InputError:
    return InputError(
        f"{where}: these are {what}, which are no scores of choices; take a log of a task with "
        "`output_type: multiple_choice`."
    )


def _log_likelihood(answer: Json, where: str, reading: Reading) -> float:
    """The number in one request's answer, which logs since 0.4.3 hold as text."""
    while isinstance(answer, list) and answer:
        answer = answer[0]
    if isinstance(answer, bool) or not isinstance(answer, str | int | float):
        raise InputError(where=where, expected="a log-likelihood", got=shown(answer))
    try:
        number = float(answer)
    except (ValueError, OverflowError):
        if isinstance(answer, str):
            raise _no_choices(GENERATED, where) from None
        number = math.inf
    if math.isfinite(number) or (number == -math.inf and reading.missing is not None):
        return number
    raise InputError(
        where=where,
        expected="a finite log-likelihood",
        got=f"{number}; one such value makes every mean of its label NaN or infinite",
        remedy="ask the model again, in float32 or bfloat16",
    )


def _without_question(pairs: list[tuple[str, str]], mutual: bool) -> list[int]:
    """Which requests ask for a choice without its question, as `acc_mutual_info` has them.

    They follow the others, or alternate with them (to 0.4.3 or later).
    """
    n, half = len(pairs), len(pairs) // 2
    empty = [i for i, (prompt, _) in enumerate(pairs) if not prompt]
    if n == 2 * len(empty):
        return empty
    if len(empty) == n == 2 * half and mutual:
        texts = [answer.strip() for _, answer in pairs]
        if texts[:half] == texts[half:]:
            return list(range(half, n))
        if texts[::2] == texts[1::2]:
            return list(range(1, n, 2))
    return []


def _right(acc: Json) -> bool | None:
    """What a log's own accuracy says of a row; None where it is none of 0 and 1."""
    try:
        number = float(acc) if isinstance(acc, str | int | float) else math.nan
    except (ValueError, OverflowError):
        number = math.nan
    return bool(number) if number in (0.0, 1.0) else None
