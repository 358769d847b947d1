"""Logs of lm-evaluation-harness: what `--log_samples` writes of multiple choice, since 0.4.0."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from batch_calibration.errors import InputError, shown
from batch_calibration.files import Json, parse_json
from batch_calibration.importers.base import Imported, Reading
from batch_calibration.importers.choices import Row, by_columns, target_of, to_imported
from batch_calibration.importers.demonstrations import MAX_PROMPTS, note_differing_demonstrations
from batch_calibration.importers.text_files import (
    beginning,
    fields,
    json_rows,
    members,
    text_or_empty,
)

DATE = r"\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d(?:\.\d+)?"
MAX_RESULTS_BYTES = 1 << 26
"""Beyond these a results file is none."""
REMEDY = (
    "`fewshot_config: {sampler: first_n}` in the task's YAML gives every row the same "
    "demonstrations."
)
ROLLING = "log-likelihoods of whole texts (loglikelihood_rolling)"
GENERATED = "generated texts (generate_until)"


@dataclass(frozen=True)
class Sample:
    """One line of a log.

    Attributes:
        row: the question.
        prompt: before its first choice.
        filter: which of the harness's filters the line is for, "" in older logs.
        content_hash: of what was asked and answered.
    """

    row: Row
    prompt: str
    filter: str
    content_hash: int


def recognizes(path: Path, start: bytes) -> bool:
    """Whether a file is a log of samples, or the results that stand beside it."""
    text = start.removeprefix(b"\xef\xbb\xbf")
    first_key = rb'\s*(\[\s*)?\{\s*"(doc_id"\s*:|doc"\s*:|target"\s*:)'
    are_samples = re.match(first_key, text) is not None and b'"doc' in text
    return are_samples or _is_results(path, text)


def read(path: Path, reading: Reading) -> list[Imported]:
    """The scores of a log of samples; what results_*.json beside it says is taken when there."""
    if _is_results(path, beginning(path)):
        raise InputError(
            f"{path}: these are the harness's averages, which hold no scores; name the samples "
            "file beside it (samples_*.jsonl), which --log_samples writes."
        )
    samples: dict[str, Sample] = {}
    prompts: list[str] = []
    filters: dict[str, None] = {}
    for where, line in json_rows(path):
        sample = _read_sample(line, where, reading)
        filters[sample.filter] = None
        if reading.filter and not sample.filter:
            raise InputError(f"{where}: the log names no filters; leave --filter out.")
        if reading.filter and sample.filter != reading.filter:
            continue
        # A log repeats its rows for each filter; a bias needs them once.
        if sample.row.id in samples:
            _refuse_other(samples[sample.row.id], sample, where)
            continue
        if len(prompts) < MAX_PROMPTS:
            prompts.append(sample.prompt)
        samples[sample.row.id] = replace(sample, prompt="")  # a long log has long prompts
    if reading.filter and not samples and filters:
        raise InputError.unknown("filter", reading.filter, filters)
    context, shots = about_log(path, reading)
    note = note_differing_demonstrations(prompts, shots, REMEDY)
    rows = [sample.row for sample in samples.values()]
    return to_imported(rows, str(path), reading, context, [note] if note else [])


def _is_results(path: Path, start: bytes) -> bool:
    return path.suffix == ".json" and re.match(rb'\s*\{\s*"results"\s*:\s*\{', start) is not None


def _refuse_other(first: Sample, sample: Sample, where: str) -> None:
    """Refuse a second line of a document that is no repetition for another filter."""
    if first.filter == sample.filter != "":
        raise InputError(
            f"{where}: the doc_id {sample.row.id} stands there twice for the filter "
            f"{sample.filter!r}; are two logs in one file? Keep one of them."
        )
    if first.content_hash != sample.content_hash:
        flags = " or ".join(f"--filter={s.filter}" for s in (first, sample) if s.filter)
        remedy = f"choose by {flags}." if flags else "are two logs in one file? Keep one."
        raise InputError(
            f"{where}: the doc_id {sample.row.id} stands there again with other scores; {remedy}"
        )


def _read_sample(line: Mapping[str, Json], where: str, reading: Reading) -> Sample:
    for name in ("doc_id", "arguments"):
        if name not in line:
            raise InputError(
                where=where,
                expected=f"{name!r}, as --log_samples of lm-evaluation-harness writes it",
                got=shown(list(line)),
            )
    requests = _requests(line["arguments"], where)
    answers = line.get("filtered_resps") or line.get("resps")
    if not isinstance(answers, list) or len(answers) != len(requests):
        raise InputError(
            where=where,
            expected=f"one log-likelihood for each of {len(requests)} requests in "
            "'filtered_resps' or 'resps'",
            got=len(members(answers)),
            remedy="write the log again",
        )
    scores = [_log_likelihood(answer, where, reading) for answer in answers]
    alone = _without_question(requests, is_mutual="acc_mutual_info" in line)
    with_question = [i for i in range(len(requests)) if i not in alone]
    # Where the prompts differ and the answer is one, the choices stand in the prompts.
    is_one_prompt = len({requests[i][0] for i in with_question}) == 1
    choices = tuple(requests[i][1] for i in with_question) if is_one_prompt else ()
    document = fields(line.get("doc"))  # the data set's own row
    target = line.get("target") if choices else None
    row = Row(
        id=str(line["doc_id"]),
        scores=tuple(scores[i] for i in with_question),
        choices=choices,
        target=target_of(document, target, where, reading),
        right=_right(line.get("acc")),
        alone=tuple(scores[i] for i in alone),
        columns=by_columns(document, where, reading),
    )
    content_hash = hash((tuple(requests), tuple(scores), str(line.get("target"))))
    name = text_or_empty(line.get("filter"))
    return Sample(row, requests[with_question[0]][0], name, content_hash)


def _requests(arguments: Json, where: str) -> list[tuple[str, str]]:
    """Prompt and answer of each request: lists to 0.4.2, then dicts by `gen_args_N` and `arg_M`."""
    listed = members(arguments)
    if isinstance(arguments, dict):
        # The same number of digits first: "gen_args_2" before "gen_args_10".
        names = sorted(arguments, key=lambda name: (len(name), name))
        listed = [arguments[name] for name in names if name.startswith("gen_args_")]
    requests = []
    for request in listed:
        if request is None:  # copies of a log whose rows have one form fill up with null
            continue
        pair = request
        if isinstance(request, dict):
            pair = [request.get("arg_0"), request.get("arg_1")]
        if not isinstance(pair, list) or not pair or not isinstance(pair[0], str):
            raise InputError(
                where=where,
                expected="arguments of requests as lists of texts, or as gen_args_0 with "
                "arg_0 and arg_1",
                got=shown(request),
            )
        if len(pair) < 2 or pair[1] is None:
            raise _no_choices(ROLLING, where)
        if not isinstance(pair[1], str):
            raise _no_choices(GENERATED, where)
        requests.append((pair[0], pair[1]))
    if not requests:
        raise InputError(where=where, expected="the requests' arguments", got=shown(arguments))
    return requests


def _no_choices(kind: str, where: str) -> InputError:
    return InputError(
        f"{where}: these are {kind}, which are no scores of choices; take a log of a task with "
        "`output_type: multiple_choice`."
    )


def _log_likelihood(answer: Json, where: str, reading: Reading) -> float:
    """The number in one request's answer, which logs since 0.4.3 hold as text."""
    while isinstance(answer, list) and answer:  # [[number, is_greedy]], or less nested
        answer = answer[0]
    if isinstance(answer, bool) or not isinstance(answer, str | int | float):
        raise InputError(where=where, expected="a log-likelihood", got=shown(answer))
    try:
        number = float(answer)
    except (ValueError, OverflowError):
        if isinstance(answer, str):
            raise _no_choices(GENERATED, where) from None
        number = math.inf  # a whole number of hundreds of digits
    if math.isfinite(number) or (number == -math.inf and reading.missing is not None):
        return number
    raise InputError(
        where=where,
        expected="a finite log-likelihood",
        got=f"{number}; one such value makes every mean of its label NaN or infinite",
        remedy="ask the model again, in float32 or bfloat16",
    )


def _without_question(requests: list[tuple[str, str]], *, is_mutual: bool) -> list[int]:
    """Which requests ask for a choice without its question, as `acc_mutual_info` has them.

    They follow the others, or alternate with them (to 0.4.3 or later).
    """
    n, half = len(requests), len(requests) // 2
    empty = [i for i, (prompt, _) in enumerate(requests) if not prompt]
    if n == 2 * len(empty):  # a prompt of nothing asks for the choice alone
        return empty
    if len(empty) == n == 2 * half and is_mutual:
        # The questions are empty too: what is asked twice tells the order.
        answers = [answer.strip() for _, answer in requests]
        if answers[:half] == answers[half:]:
            return list(range(half, n))
        if answers[::2] == answers[1::2]:
            return list(range(1, n, 2))
    return []


def _right(accuracy: Json) -> bool | None:
    """What a log's own accuracy says of a row; None where it is none of 0 and 1."""
    try:
        number = float(accuracy) if isinstance(accuracy, str | int | float) else math.nan
    except (ValueError, OverflowError):
        number = math.nan
    return bool(number) if number in (0.0, 1.0) else None


# What the results file beside a log says, and the log's name


def about_log(path: Path, reading: Reading) -> tuple[dict[str, Json], int | None]:
    """What is known of a log's context, and its number of demonstrations where it is known.

    `samples_TASK_DATE.jsonl` has `results_DATE.json` beside it, and the logs of 0.4.0 to 0.4.2,
    `MODEL_ARGS_TASK.jsonl`, have `results.json`.
    """
    named = re.fullmatch(rf"samples_(.+)_({DATE})", path.stem)
    # Without a date there is one file of results a folder.
    name = f"results_{named[2]}.json" if named else "results.json"
    averages = _read_results(path.with_name(name))
    configs = fields(averages.get("configs"))
    if named:
        task = named[1]
    else:  # the longest known task that the name ends in
        tasks = [name for name in configs if path.stem.endswith(f"_{name}")]
        task = max(tasks, key=len, default=path.stem)
    config, run = fields(configs.get(task)), fields(averages.get("config"))
    shots = fields(averages.get("n-shot")).get(task, config.get("num_fewshot"))
    shots = shots if type(shots) is int and shots >= 0 else None
    seed = run.get("fewshot_seed")
    context: dict[str, Json] = {
        "task": reading.task or task,
        "scorer": f"lm-evaluation-harness {averages.get('lm_eval_version') or ''}".strip(),
        "model": _model(averages, run),
        "data": _join(config.get("dataset_path"), config.get("dataset_name")),
        "split": _join(config.get("test_split") or config.get("validation_split")),
        "template": _join(config.get("doc_to_text")),
        "shots": shots,
        "seed": seed if type(seed) is int else None,
    }
    return {name: detail for name, detail in context.items() if detail not in (None, "")}, shots


def _read_results(path: Path) -> Mapping[str, Json]:
    """The results file, or nothing where there is none that can be read: it is never demanded."""
    try:
        if path.stat().st_size > MAX_RESULTS_BYTES:
            return {}
        return fields(parse_json(path.read_text(encoding="utf-8-sig")))
    except (OSError, ValueError):
        return {}


def _model(averages: Mapping[str, Json], run: Mapping[str, Json]) -> str:
    """The model's name: since 0.4.3 as such, before that in the arguments; of a path the end."""
    arguments = run.get("model_args")
    pretrained = fields(arguments).get("pretrained")
    if isinstance(arguments, str):
        match = re.search(r"(?:pretrained|model)=([^,]+)", arguments)
        pretrained = match[1] if match else ""
    name = _join(averages.get("model_name")) or _join(pretrained) or _join(run.get("model"))
    # Two folders: checkpoints of several runs are often called alike.
    return "/".join(Path(name).parts[-2:]) if Path(name).is_absolute() else name


def _join(*texts: Json) -> str:
    return " ".join(text for text in texts if isinstance(text, str) and text)
