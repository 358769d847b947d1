"""Reads multiple-choice details of lighteval: the Parquet files of `--save-details`.

Since 0.10 a row has `doc` (query, choices, gold_index), `model_response` (input, logprobs and
unconditioned_logprobs) and `metric`. Before, it had `full_prompt`, `choices`, `gold_index`,
`predictions` and `metrics`. For PMI, `predictions` also lists the scores of the choices without the
question, after the scores of the choices.
"""

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from batch_calibration.errors import InputError, shown
from batch_calibration.files import Json, list_at, object_at
from batch_calibration.files.rows import arrow_errors, need_pyarrow
from batch_calibration.importers import questions
from batch_calibration.importers.base import Imported, Reading
from batch_calibration.importers.compressed import check_rows
from batch_calibration.importers.lm_eval import DATE
from batch_calibration.responses.servers import check_log_prob

COLUMNS = {"doc", "model_response"}
COLUMNS_TO_0_9 = {"full_prompt", "predictions", "gold_index", "choices"}
ACCURACY = ("acc", "loglikelihood_acc", "loglikelihood_acc_single_token")
"""Names of accuracy by the highest sum of log-probabilities, in new and old versions."""
REMEDY = "`few_shots_select` without sampling gives every row the same demonstrations."
NOT_GENERATED = "use a task that is scored by log-likelihoods"
ROWS_AT_ONCE = 1024


def recognizes(path: Path, start: bytes) -> bool:
    """Checks whether a file is Parquet with the columns of details."""
    if not start.startswith(b"PAR1"):
        return False  # the import of pyarrow below is slow
    try:
        from pyarrow import ArrowException, parquet
    except ImportError:
        return False
    try:
        names = {name.strip("_") for name in parquet.read_schema(path).names}
    except (ArrowException, OSError, ValueError):
        return False
    return names >= COLUMNS or names >= COLUMNS_TO_0_9


def read(path: Path, reading: Reading) -> list[Imported]:
    """Reads the scores in a file of details."""
    rows: list[questions.Row] = []
    for i, record in enumerate(_records(path)):
        row = _row(record, str(i), f"{path}, row {i}", reading)
        rows.append(row if i < questions.MAX_PROMPTS else replace(row, prompt=""))
    named = re.fullmatch(rf"details_(.+)_({DATE})", path.stem)
    task = named[1] if named else path.stem
    shots_in_name = re.search(r"\|(\d{1,3})(?:\|\d)?$", task)  # suite|task|shots|truncation
    shots = int(shots_in_name[1]) if shots_in_name else None
    context = {"task": reading.task or task, "scorer": "lighteval", "shots": shots}
    return questions.import_rows(rows, str(path), reading, context, remedy=REMEDY)


def _records(path: Path) -> Iterator[Mapping[str, Json]]:
    need_pyarrow(str(path))
    from pyarrow import parquet

    with arrow_errors(path), parquet.ParquetFile(path) as file:
        check_rows(path, file.metadata.num_rows, file.metadata.num_columns)
        for batch in file.iter_batches(ROWS_AT_ONCE):
            yield from batch.to_pylist()


def _row(record: Mapping[str, Json], number: str, where: str, reading: Reading) -> questions.Row:
    record = {name.strip("_"): cell for name, cell in record.items()}
    document, response = object_at(record, "doc"), object_at(record, "model_response")
    source = document or record  # a row is flat up to 0.9
    choices, k = source.get("choices"), len(list_at(source, "choices"))
    if not isinstance(choices, list) or not all(isinstance(text, str) for text in choices):
        raise InputError.at(where, "the choices as a list of texts", shown(choices))
    scores = _numbers(response.get("logprobs") if document else record.get("predictions"), where)
    alone = _numbers(response.get("unconditioned_logprobs"), where)
    if not document and len(scores) == 2 * k:  # PMI, up to 0.9
        scores, alone = scores[:k], scores[k:]
    if not k or len(scores) != k:
        got = f"{len(scores)}; generated answers hold none"
        raise InputError.at(where, f"a log-probability for each of {k} choices", got, NOT_GENERATED)
    metrics = object_at(record.get("metric", record.get("metrics")))
    right = next((metrics[name] for name in ACCURACY if name in metrics), None)
    # Fields that all tasks have take precedence over fields that a task adds.
    known_fields = {**object_at(source.get("specific", source.get("specifics"))), **source}
    gold = questions.target_of(known_fields, source.get("gold_index"), where, reading)
    if isinstance(gold, list):
        gold = [int(label) for label in gold if isinstance(label, int)]
    prompt = response.get("input") if document else record.get("full_prompt")
    return questions.Row(
        id=str(source.get("id") or number),
        scores=tuple(scores),
        choices=tuple(map(str, choices)),
        target=gold,
        right=questions.read_flag(right),
        alone=tuple(alone),
        columns=questions.by_columns(known_fields, where, reading),
        prompt=prompt if isinstance(prompt, str) else str(source.get("query", "")),
    )


def _numbers(answers: Json, where: str) -> list[float]:
    """Returns log-probabilities from numbers, or from pairs of a number and an is-greedy flag."""
    log_probs = []
    for answer in list_at(answers):
        number = answer[0] if isinstance(answer, list) and answer else answer  # a pair up to 0.9
        if isinstance(number, bool) or not isinstance(number, int | float):
            got = f"{shown(answer)}; generated answers hold none"
            raise InputError.at(where, "log-probabilities of the choices", got, NOT_GENERATED)
        if math.isnan(number) or number == math.inf:
            expected = "a finite log-probability"
            raise InputError.at(where, expected, number, "ask again, in float32 or bfloat16")
        log_probs.append(check_log_prob(float(number), where))
    return log_probs
