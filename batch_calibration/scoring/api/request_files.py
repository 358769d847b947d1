"""Files of requests for engines that read files, and the answers that they write.

Each request has an id, `custom_id`: a hash of everything in it. The answer with this id therefore
belongs to exactly this request, in any order and in any file.
"""

import gzip
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple

from batch_calibration.errors import InputError, shown
from batch_calibration.files import (
    Json,
    count_at,
    object_at,
    parse_json,
    text_at,
    value_at,
    write_whole,
)
from batch_calibration.files.rows import arrow_errors, need_pyarrow, parquet_rows, readable
from batch_calibration.scores import canonical
from batch_calibration.scoring.api.answers import Brought
from batch_calibration.scoring.api.client import REFUSING_STATUSES, error_message, error_status
from batch_calibration.scoring.api.scorer import PlannedRequest
from batch_calibration.settings import ApiScores

MAX_BYTES = 100_000_000  # bytes of requests in a file; OpenAI accepts 200 MB
KIND = "a file of answers"
HELD = {"choices", "logprobs", "prompt_logprobs", "scores"}
"""Members of an answer, one of which a row must have that is an answer itself."""
OF_SERVER = ("model", "messages", "prompt")
"""Members of a request that Ray takes apart from the sampling parameters."""


class RequestForm(NamedTuple):
    """The form in which an engine reads requests.

    Attributes:
        api_scores: protocols that the engine supports; the first is the default.
        ending: suffix of its files.
        write: maps the requests of a file to its content.
    """

    api_scores: tuple[ApiScores, ...]
    ending: str
    write: Callable[[list[PlannedRequest]], bytes]


def _write_lines(requests: list[PlannedRequest]) -> bytes:
    """Writes lines of OpenAI's batch format."""
    lines = []
    for request in requests:
        path, body = request.request
        line = {"custom_id": request.id.hex(), "method": "POST", "url": f"/v1/{path}"}
        lines.append(json.dumps({**line, "body": body}) + "\n")
    return "".join(lines).encode()


def _write_parquet(requests: list[PlannedRequest]) -> bytes:
    """Writes a Parquet file with the columns of Ray Data LLM: prompts and sampling parameters."""
    need_pyarrow("the form ray")
    import pyarrow as pa
    from pyarrow import parquet

    rows = list[dict[str, Json]]()
    for request in requests:
        body = request.request.body
        sampling = {name: body[name] for name in body if name not in OF_SERVER}
        if top := sampling.pop("top_logprobs", 0):  # of a chat; vLLM itself has one number
            sampling["logprobs"] = top
        prompt = {name: body[name] for name in OF_SERVER[1:] if name in body}
        rows.append({"custom_id": request.id.hex(), **prompt, "sampling_params": sampling})
    sink = pa.BufferOutputStream()
    with arrow_errors(Path("requests")):
        parquet.write_table(pa.Table.from_pylist(rows), sink)
    return bytes(sink.getvalue())


FORMS: Mapping[str, RequestForm] = {
    "openai": RequestForm(("chat", "top_k", "echo"), ".jsonl", _write_lines),
    "vllm": RequestForm(("chat",), ".jsonl", _write_lines),
    "ray": RequestForm(("chat", "top_k", "prompt_logprobs"), ".parquet", _write_parquet),
    "sglang": RequestForm(("score",), ".jsonl", _write_lines),
}
"""Name of an engine -> the form of its requests."""


ENDINGS = (".jsonl", ".gz", ".parquet")
"""Suffixes of files of answers."""


def write_files(
    requests: Iterable[PlannedRequest], folder: Path, form: RequestForm, shard_size: int
) -> list[Path]:
    """Writes requests to numbered files, which replace those of an earlier plan.

    In a file, prompts with a common beginning are adjacent, so that an engine can reuse its states.

    Args:
        requests: the requests.
        folder: folder of the files.
        form: the form of the files.
        shard_size: maximum number of requests in a file; it has at most `MAX_BYTES`, too.
    """
    paths, shard, size = list[Path](), list[tuple[str, PlannedRequest]](), 0

    def flush() -> None:
        shard.sort(key=itemgetter(0))
        paths.append(folder / f"requests-{len(paths):05}{form.ending}")
        write_whole(paths[-1], form.write([request for _, request in shard]))
        shard.clear()

    for request in requests:
        # This form begins with the settings, which are equal, and goes on with the prompt.
        text = canonical(request.request.body)
        if shard and (len(shard) == shard_size or size + len(text) > MAX_BYTES):
            flush()
            size = 0
        shard.append((text, request))
        size += len(text)
    if shard:
        flush()
    for ending in {form.ending for form in FORMS.values()}:
        for path in set(folder.glob(f"requests-*{ending}")).difference(paths):
            path.unlink()
    return paths


class Unusable(NamedTuple):
    """A line of a file that settles no request: its kind, and the reason."""

    kind: str
    reason: str


def read_answers(path: Path) -> Iterator[Brought | Unusable]:
    """Yields the answer of each line or row of a file, one at a time.

    Lines follow OpenAI's batch format; a Parquet file has the columns of its members. An answer
    stands under `response.body`, as JSON in a text under `answer`, or in the row itself.
    """
    try:
        for row in _rows(path):
            try:
                if isinstance(row, bytes):
                    yield _read(parse_json(row.decode("utf-8-sig"), unique_keys=True))
                else:
                    yield _read(row)
            except ValueError as error:
                yield Unusable("truncated", f"no JSON ({error})")
    except InputError as error:  # such as a file of a job that was stopped
        yield Unusable("truncated", str(error))


def _rows(path: Path) -> Iterator[bytes | dict[str, Json]]:
    """Yields the lines of a text file or the rows of a Parquet file, one at a time."""
    if path.suffix == ".parquet":
        yield from (row for _, row in parquet_rows(path))
        return
    opener = gzip.open if path.suffix == ".gz" else open
    with readable(path, KIND), opener(path, "rb") as lines:
        yield from filter(bytes.strip, lines)


def _read(row: Json) -> Brought | Unusable:
    try:
        request = bytes.fromhex(text_at(row, "custom_id"))
    except ValueError:
        request = b""
    if not request:
        return Unusable("unknown", f"custom_id is {shown(value_at(row, 'custom_id'))}")
    response = object_at(row, "response")
    status = count_at(response, "status_code") or 200
    body: Json = object_at(response, "body") or ({} if "status_code" in response else response)
    if not body and "response" not in object_at(row):
        body = object_at(row)
        if answer := text_at(row, "answer"):
            body = parse_json(answer)
        elif "logprobs" in body and "choices" not in body:  # a row of vLLM's own library
            body = {**body, "outputs": [{"logprobs": body["logprobs"]}]}
        elif not HELD.intersection(body):
            return Unusable(
                "unknown", f"no answer among {shown([*body])}, as in a file of requests"
            )
    error = object_at(row).get("error")
    status = error_status(body) if status == 200 else status
    if status or error or not body:
        reason = f"status {status or 'unknown'}: {error_message(error or body or 'no answer')}"
        is_refused = status in REFUSING_STATUSES
        return Brought(request, reason=reason) if is_refused else Unusable("failed", reason)
    return Brought(request, json.dumps(body, default=str))
