"""Details of lighteval: the Parquet files of `--save-details`, of questions with choices.

Since 0.10 a row is `doc` (query, choices, gold_index), `model_response` (input, logprobs and
unconditioned_logprobs) and `metric`; before that it had `full_prompt`, `choices`, `gold_index`,
`predictions` (first of the choices, then, for PMI, of the choices without the question), `metrics`.
"""

import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from batch_calibration.errors import InputError, shown
from batch_calibration.files import Json
from batch_calibration.importers.base import Imported, Reading
from batch_calibration.importers.choices import Row, by_columns, target_of, to_imported
from batch_calibration.importers.columnar import need_pyarrow
from batch_calibration.importers.lm_eval_results import DATE
from batch_calibration.importers.one_context import KEPT, differing_demonstrations

NEW, OLD = {"doc", "model_response"}, {"full_prompt", "predictions", "gold_index", "choices"}
ACCURACY = ("acc", "loglikelihood_acc", "loglikelihood_acc_single_token")
"""Metrics that count the highest sum of log-probabilities, in new and old versions."""
REMEDY = "`few_shots_select` without sampling gives every row the same demonstrations."


def recognizes(path: Path, start: bytes) -> bool:
    """Whether a file is Parquet with the columns of details."""
    if not start.startswith(b"PAR1"):
        return False
    try:
        from pyarrow import ArrowException, parquet
    except ImportError:
        return False
    try:
        names = {name.strip("_") for name in parquet.read_schema(path).names}
    except (ArrowException, OSError, ValueError):
        return False
    return names >= NEW or names >= OLD


def read(path: Path, reading: Reading) -> list[Imported]:
    """The scores in a file of details.

    Raises:
        InputError: no details; generated answers; what `to_imported` refuses.
    """
    rows: list[Row] = []
    prompts: list[str] = []
    for i, record in enumerate(_records(path)):
        row, prompt = _row(record, str(i), f"{path}, row {i}", reading)
        rows.append(row)
        if len(prompts) < KEPT:
            prompts.append(prompt)
    named = re.fullmatch(rf"details_(.+)_({DATE})", path.stem)
    task = named[1] if named else path.stem
    shots = re.search(r"\|(\d{1,3})(?:\|\d)?$", task)
    about: dict[str, Json] = {"task": reading.task or task, "scorer": "lighteval"}
    if shots:
        about["shots"] = int(shots[1])
    note = differing_demonstrations(prompts, int(shots[1]) if shots else None, REMEDY)
    return to_imported(rows, str(path), reading, about, [note] if note else [])


def _records(path: Path) -> Iterator[dict[str, object]]:
    need_pyarrow(str(path))
    from pyarrow import ArrowException, parquet

    try:
        with parquet.ParquetFile(path) as file:
            for batch in file.iter_batches(1024):
                yield from batch.to_pylist()
    except (ArrowException, OSError, ValueError) as error:
        raise InputError(
            f"{path}: no whole Parquet file ({shown(str(error))}); copy it again."
        ) from error


def _row(
    record: Mapping[str, object], number: str, where: str, reading: Reading
) -> tuple[Row, str]:
    """A question and its prompt."""
    record = {name.strip("_"): value for name, value in record.items()}
    document, answer = _fields(record.get("doc")), _fields(record.get("model_response"))
    metrics = _fields(record.get("metric", record.get("metrics")))
    source = document if document else record
    choices = source.get("choices")
    if not isinstance(choices, list) or not all(isinstance(one, str) for one in choices):
        raise InputError(where=where, expected="the choices as a list of texts", got=shown(choices))
    given = answer.get("logprobs") if document else record.get("predictions")
    alone = answer.get("unconditioned_logprobs")
    scores, k = _numbers(given, where), len(choices)
    if not document and len(scores) == 2 * k:
        scores, alone = scores[:k], scores[k:]
    if not k or len(scores) != k:
        raise InputError(
            where=where,
            expected=f"a log-probability for each of {k} choices",
            got=f"{len(scores)}; generated answers hold none",
            remedy="take a task that is scored by log-likelihoods",
        )
    right = next((metrics[name] for name in ACCURACY if name in metrics), None)
    prompt = answer.get("input") if document else record.get("full_prompt")
    known = {**_fields(source.get("specific", source.get("specifics"))), **source}
    row = Row(
        id=str(source.get("id") or number),
        scores=tuple(scores),
        choices=tuple(choices),
        target=_gold(target_of(known, source.get("gold_index"), where, reading)),
        right=bool(right) if right in (0, 1) else None,
        alone=tuple(_numbers(alone, where)) if alone else (),
        columns=by_columns(known, where, reading),
    )
    return row, prompt if isinstance(prompt, str) else str(source.get("query", ""))


def _numbers(value: object, where: str) -> list[float]:
    """Log-probabilities: numbers, or pairs of a number and whether it was the likeliest."""
    found = []
    for one in value if isinstance(value, list) else []:
        number = one[0] if isinstance(one, list) and one else one
        if isinstance(number, bool) or not isinstance(number, int | float):
            raise InputError(
                where=where,
                expected="log-probabilities of the choices",
                got=f"{shown(one)}; generated answers hold none",
                remedy="take a task that is scored by log-likelihoods",
            )
        if math.isnan(number) or number == math.inf:
            raise InputError(
                where=where,
                expected="a finite log-probability",
                got=number,
                remedy="ask the model again, in float32 or bfloat16",
            )
        found.append(float(number))
    return found


def _gold(index: object) -> Json:
    if isinstance(index, list):
        return [int(one) for one in index if isinstance(one, int)]
    return index if isinstance(index, int | str) else None


def _fields(value: object) -> dict[str, object]:
    return value if isinstance(value, dict) else {}
