"""Reads multiple-choice logs of lm-evaluation-harness, as `--log_samples` writes since 0.4.0."""

import math
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import compress
from operator import not_
from pathlib import Path

from batch_calibration import files
from batch_calibration.arrays.score_scale import MAX_LOG_PROB
from batch_calibration.errors import InputError, shown, spell
from batch_calibration.files.rows import beginning, json_rows
from batch_calibration.importers import questions
from batch_calibration.importers.base import Imported, Reading
from batch_calibration.responses.servers import check_log_prob
from batch_calibration.scores import digest

MAX_REPEATED = 0.1
"""The largest share of rows that may repeat the document of another row."""
NOISE = (0.5, 0.02)
"""Tolerances for two answers to one request in half precision: absolute in nats, and relative."""
REMEDY = (
    "`fewshot_config: {sampler: first_n}` in the task's YAML gives every row the same "
    "demonstrations."
)
SOURCE = ("task", "task_name", "model", "model_name")
"""Fields of a line that may identify its log."""
ROLLING = "log-likelihoods of whole texts (loglikelihood_rolling)"
GENERATED = "generated texts (generate_until)"


@dataclass(frozen=True)
class Sample:
    """One line of a log.

    Attributes:
        row: The question.
        filter: The harness's filter that produced the line, "" in older logs.
        content_hash: A hash of the requests, their scores and the target.
        document_hash: A hash of the document, the data set's row.
        request_hash: A hash of the requests and the document.
        document: An identifier of the document in all logs of the task, "" if it has none.
        source: The task and the model, if the line names them.
    """

    row: questions.Row
    filter: str
    content_hash: int
    document_hash: int
    request_hash: int
    document: str
    source: tuple[str, ...]


def recognizes(path: Path, start: bytes) -> bool:
    """Checks whether a file is a log of samples or a file of results."""
    first_key = rb'\s*(\[\s*)?\{\s*"(doc_id"\s*:|doc"\s*:|target"\s*:)'
    are_samples = re.match(first_key, start) is not None and b'"doc' in start
    return are_samples or _is_results(path, start)


def read(path: Path, reading: Reading) -> list[Imported]:
    """Reads the scores in a log of samples, and facts of the run from the results file."""
    if _is_results(path, beginning(path)):
        raise InputError(
            f"{path}: these are the harness's averages, which hold no scores; name the samples "
            "file in the same folder (samples_*.jsonl), which --log_samples writes."
        )
    samples: dict[str, Sample] = {}
    filters: dict[str, None] = {}
    for where, line in json_rows(path):
        sample = _read_sample(line, where, reading)
        filters[sample.filter] = None
        if reading.filter and not sample.filter:
            raise InputError(f"{where}: the log names no filters; leave {spell('filter')} out.")
        if reading.filter and sample.filter != reading.filter:
            continue
        # A log repeats its rows for each filter; the scores are needed only once.
        if sample.row.id in samples:
            _refuse_other(samples[sample.row.id], sample, where)
            continue
        if len(samples) >= questions.MAX_PROMPTS:  # a long log has long prompts
            sample = replace(sample, row=replace(sample.row, prompt=""))
        samples[sample.row.id] = sample
        first = next(iter(samples.values()))
        if sample.source != first.source:
            expected = f"a line of {' '.join(filter(None, first.source))}, like the lines before"
            got = " ".join(filter(None, sample.source))
            raise InputError.at(where, expected, got, "keep one of the two logs")
    if reading.filter and not samples and filters:
        raise InputError.unknown("filter", reading.filter, filters)
    context, evaluated, results_name = about_log(path, reading)
    notes = _note_repeated(list(samples.values()), str(path))
    if samples and evaluated not in (None, len(samples)):
        notes.append(
            f"The log holds {len(samples):,} rows, but {evaluated:,} were evaluated according to "
            f"{results_name}: the log was cut, or belongs to another run."
        )
    documents = [sample.document for sample in samples.values()]
    if all(documents):
        context["rows"] = digest(documents)  # it is equal for logs of the same questions
    rows = [sample.row for sample in samples.values()]
    return questions.import_rows(rows, str(path), reading, context, notes, REMEDY)


def _note_repeated(samples: list[Sample], where: str) -> list[str]:
    """Returns a note on documents that occur again with another doc_id.

    Raises:
        InputError: One request has different scores, or too many documents occur again, as if the
            file held two logs.
    """
    answered: dict[int, questions.Row] = {}
    documents: set[int] = set()
    repeated = 0
    for sample in samples:
        first = answered.setdefault(sample.request_hash, sample.row)
        if first is not sample.row and _differ(first.scores, sample.row.scores):
            got = f"different scores for the doc_ids {first.id} and {sample.row.id} of one request"
            remedy = "if the file holds the logs of two models, keep one"
            raise InputError.at(where, "one score for each request", got, remedy)
        repeated += sample.document_hash in documents
        documents.add(sample.document_hash)
    if repeated > max(1, MAX_REPEATED * len(samples)):
        got = f"{repeated:,} of {len(samples):,} rows that repeat a document"
        raise InputError.at(where, "one row for each document", got, "keep one of the two logs")
    if not repeated:
        return []
    return [f"{repeated:,} of {len(samples):,} rows repeat the document of another row."]


def _differ(first: tuple[float, ...], second: tuple[float, ...]) -> bool:
    """Checks whether two answers to one request differ by more than half precision explains."""
    pairs = zip(first, second, strict=True)
    return any(abs(a - b) > max(NOISE[0], NOISE[1] * abs(a)) for a, b in pairs)


def _is_results(path: Path, start: bytes) -> bool:
    return path.suffix == ".json" and re.match(rb'\s*\{\s*"results"\s*:\s*\{', start) is not None


def _refuse_other(first: Sample, sample: Sample, where: str) -> None:
    """Raises an error unless a document's second line repeats the first for another filter."""
    if first.filter == sample.filter != "":
        expected = f"the doc_id {sample.row.id} once for the filter {sample.filter!r}"
        raise InputError.at(where, expected, "it twice", "if the file holds two logs, keep one")
    if first.content_hash != sample.content_hash:
        names = " or ".join(spell("filter", s.filter) for s in (first, sample) if s.filter)
        remedy = f"choose {names}." if names else "if the file holds two logs, keep one."
        raise InputError(
            f"{where}: the doc_id {sample.row.id} occurs again with different scores; {remedy}"
        )


def _read_sample(line: Mapping[str, files.Json], where: str, reading: Reading) -> Sample:
    if "model_output" in line or "logit_0" in line:
        return _read_prediction(line, where, reading)
    for name in ("doc_id", "arguments"):
        if name not in line:
            expected = f"{name!r}, as the harness's --log_samples writes it"
            raise InputError.at(where, expected, shown(list(line)))
    requests = _requests(line["arguments"], where)
    answers = files.list_at(line.get("filtered_resps") or line.get("resps"))
    if len(answers) != len(requests):  # there is at least one request
        expected = (
            f"one log-likelihood for each of {len(requests)} requests in "
            "'filtered_resps' or 'resps'"
        )
        raise InputError.at(where, expected, len(answers), "write the log again")
    scores = [_log_likelihood(answer, where, reading) for answer in answers]
    is_alone = _are_without_question(requests, is_mutual="acc_mutual_info" in line)
    is_asked = list(map(not_, is_alone))
    prompts, choices = zip(*compress(requests, is_asked), strict=True)
    # If the prompts differ, as in Winogrande, the choices are parts of the prompts.
    if len(set(prompts)) > 1:
        choices = ()
    document = files.object_at(line, "doc")  # the data set's own row
    target = line.get("target") if choices else None
    row = questions.Row(
        id=str(line["doc_id"]),
        scores=tuple(compress(scores, is_asked)),
        choices=choices,
        target=questions.target_of(document, target, where, reading),
        right=questions.read_flag(line.get("acc")),
        alone=tuple(compress(scores, is_alone)),
        columns=questions.by_columns(document, where, reading),
        prompt=prompts[0],
    )
    content_hash = hash((tuple(requests), tuple(scores), str(line.get("target"))))
    # Logs before 0.4.3 have no doc_hash, and other logs may hold only part of each document.
    own_hash = files.text_at(line, "doc_hash")
    document_hash = hash(own_hash or (str(document), *requests))
    request_hash = hash((tuple(requests), document_hash))
    named = map(line.get, SOURCE)
    source = tuple([name if isinstance(name, str) else "" for name in named])
    hashes = content_hash, document_hash, request_hash
    document_name = own_hash or (digest(document) if document else "")
    return Sample(row, files.text_at(line, "filter"), *hashes, document_name, source)


def _read_prediction(line: Mapping[str, files.Json], where: str, reading: Reading) -> Sample:
    """Reads a row of OLMES's predictions, or of the harness's `*_write_out_info.json` up to 0.3."""
    outputs = files.list_at(line, "model_output")
    names = [name for name in line if re.fullmatch(r"logit_\d+", name)]
    logits = [line[name] for name in sorted(names, key=lambda name: (len(name), name))]
    answers = [files.value_at(output, "sum_logits") for output in outputs] or logits
    scores = tuple(_log_likelihood(answer, where, reading) for answer in answers)
    alone = [files.value_at(output, "sum_logits_uncond") for output in outputs]
    is_asked_alone = bool(alone) and all(isinstance(number, float) for number in alone)
    right = files.value_at(line, "metrics", "acc_raw") if outputs else line.get("acc")
    target = questions.target_of(line, line.get("label", line.get("truth")), where, reading)
    row = questions.Row(
        id=str(line.get("doc_id")),
        scores=scores,
        target=target,
        right=questions.read_flag(right),
        alone=tuple(map(float, alone)) if is_asked_alone else (),  # type: ignore[arg-type]
        columns=questions.by_columns(line, where, reading),
        prompt=files.text_at(line, "prompt_0"),
    )
    document_hash = hash((row.id, str(line.get("native_id"))))
    source = tuple(files.text_at(line, name) for name in ("task_hash", "model_hash"))
    content_hash = hash((scores, str(target)))
    document = str(line.get("native_id") or "")
    return Sample(row, "", content_hash, document_hash, document_hash, document, source)


def _requests(arguments: files.Json, where: str) -> list[tuple[str, str]]:
    """Returns the prompt and the answer of each request.

    Arguments are lists up to 0.4.2, later dicts with the keys `gen_args_N` and `arg_M`.
    """
    listed = arguments if isinstance(arguments, list) else []
    if isinstance(arguments, dict):
        # Shorter names first: "gen_args_2" before "gen_args_10".
        names = sorted(arguments, key=lambda name: (len(name), name))
        listed = [arguments[name] for name in names if name.startswith("gen_args_")]
    requests = list[tuple[str, str]]()
    for request in listed:
        if request is None:  # copies with a fixed schema pad the dict with null
            continue
        parts = request
        if isinstance(request, dict):
            parts = [request.get("arg_0"), request.get("arg_1")]
        prompt, answer = (*parts, None, None)[:2] if isinstance(parts, list) else (None, None)
        if not isinstance(prompt, str):
            expected = "arguments as lists of texts, or as gen_args_0 with arg_0 and arg_1"
            raise InputError.at(where, expected, shown(request))
        if not isinstance(answer, str):
            raise _no_choices(ROLLING if answer is None else GENERATED, where)
        requests.append((prompt, answer))
    if not requests:
        raise InputError.at(where, "the requests' arguments", shown(arguments))
    return requests


def _no_choices(kind: str, where: str) -> InputError:
    remedy = "use a log of a task with `output_type: multiple_choice`"
    return InputError.at(where, "scores of choices", kind, remedy)


def _log_likelihood(answer: object, where: str, reading: Reading) -> float:
    """Returns the number in the answer to a request, which is text in logs since 0.4.3."""
    while isinstance(answer, list) and answer:  # [[number, is_greedy]], or fewer levels
        answer = answer[0]
    if isinstance(answer, bool) or not isinstance(answer, str | int | float):
        raise InputError.at(where, "a log-likelihood", shown(answer))
    try:
        number = float(answer)
    except (ValueError, OverflowError):
        if isinstance(answer, str):
            raise _no_choices(GENERATED, where) from None
        number = math.inf  # an integer of hundreds of digits
    if math.isfinite(number) or (number != math.inf and reading.missing is not None):
        return number if number <= MAX_LOG_PROB else check_log_prob(number, where)
    got = f"{number}, which makes the mean of its label NaN or infinite"
    remedy = f"ask again, in float32 or bfloat16, or pass {spell('missing', 'drop')}"
    raise InputError.at(where, "a finite log-likelihood", got, remedy)


def _are_without_question(requests: list[tuple[str, str]], *, is_mutual: bool) -> list[bool]:
    """Marks the requests that score a choice without its question (`acc_mutual_info`).

    These requests follow the others, or alternate with them (up to 0.4.3 or later).
    """
    n, half = len(requests), len(requests) // 2
    is_empty = [not prompt for prompt, _ in requests]
    if n == 2 * sum(is_empty):  # an empty prompt has no question
        return is_empty
    if all(is_empty) and is_mutual:
        # Real questions are empty, too; the order of the repeated answers shows the layout.
        answers = [answer.strip() for _, answer in requests]
        if answers[:half] == answers[half:]:
            return [False] * half + [True] * half
        if answers[::2] == answers[1::2]:
            return [False, True] * half
    return [False] * n


DATE = r"\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d(?:\.\d+)?"
MAX_RESULTS_BYTES = 1 << 26  # larger files are ignored


# Facts of a run, from the log's name and the results file in its folder


def about_log(path: Path, reading: Reading) -> tuple[dict[str, files.Json], int | None, str]:
    """Returns a log's context, the number of evaluated documents, and the results file's name.

    An unknown number is None. The results file of `samples_TASK_DATE.jsonl` is
    `results_DATE.json`. Logs of 0.4.0 to 0.4.2 are named `MODEL_ARGS_TASK.jsonl`, and their results
    file is `results.json`.
    """
    name, averages, task = results_of(path)
    config, run = files.object_at(averages, "configs", task), files.object_at(averages, "config")
    shots = files.count_at(files.object_at(averages, "n-shot").get(task, config.get("num_fewshot")))
    seed = run.get("fewshot_seed")
    data = (files.text_at(config, "dataset_path"), files.text_at(config, "dataset_name"))
    context: dict[str, files.Json] = {
        "task": reading.task or task,
        "scorer": f"lm-evaluation-harness {averages.get('lm_eval_version') or ''}".strip(),
        "model": _model(averages, run),
        "data": " ".join(data).strip(),
        "split": files.text_at(config, "test_split") or files.text_at(config, "validation_split"),
        "template": files.text_at(config, "doc_to_text"),
        "shots": shots,
        "seed": seed if type(seed) is int else None,
    }
    return context, files.count_at(averages, "n-samples", task, "effective"), name


def results_of(path: Path) -> tuple[str, Mapping[str, files.Json], str]:
    """Returns the name of a log's results file, its content ({} if absent), and the task's name."""
    named = re.fullmatch(rf"samples_(.+)_({DATE})", path.stem)
    # A folder of logs without dates has one results file.
    name = f"results_{named[2]}.json" if named else "results.json"
    file, averages = path.with_name(name), dict[str, files.Json]()
    # The results file is optional, so errors and files that are too large are ignored.
    with suppress(OSError, ValueError):
        if file.stat().st_size <= MAX_RESULTS_BYTES:
            averages = files.object_at(files.parse_json(file.read_text(encoding="utf-8-sig")))
    if named:
        return name, averages, named[1]
    # Several task names may end the log's name; the longest is right.
    configs = files.object_at(averages, "configs")
    tasks = [task for task in configs if path.stem.endswith(f"_{task}")]
    return name, averages, max(tasks, key=len, default=path.stem)


def _model(averages: Mapping[str, files.Json], run: Mapping[str, files.Json]) -> str:
    """Returns the model's name, or the last two parts of its path.

    The name has its own key since 0.4.3. Before, it is part of the arguments.
    """
    pretrained = files.text_at(run, "model_args", "pretrained")
    if match := re.search(r"(?:pretrained|model)=([^,]+)", files.text_at(run, "model_args")):
        pretrained = match[1]
    name = files.text_at(averages, "model_name") or pretrained or files.text_at(run, "model")
    # Two parts are kept, because checkpoints of several runs often have equal names.
    return "/".join(Path(name).parts[-2:]) if Path(name).is_absolute() else name
