"""A server with OpenAI's batch API on 127.0.0.1, whose faults a test chooses."""

import json
import threading
from collections.abc import Callable
from contextlib import contextmanager
from email.parser import BytesParser
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import api_server

STATES = ("validating", "in_progress", "finalizing")  # of a batch, one at each look
MOST_LINES, MOST_BYTES = 50_000, 200_000_000  # of a file, as OpenAI publishes them
EXPIRED = "expired"


def line_errors(content: bytes, endpoint: str) -> list[str]:
    """Checks a file of requests against the published form of lines; returns the faults.

    A line is an object with custom_id, a text that no other line has; method, which is POST; url,
    which is the batch's endpoint; body, an object with the model of all other lines.
    """
    lines, faults = content.splitlines(), []
    if not lines or len(lines) > MOST_LINES or len(content) >= MOST_BYTES:
        faults.append(f"{len(lines)} lines, {len(content)} bytes")
    seen, models = set(), set()
    for number, line in enumerate(map(json.loads, lines), 1):
        if set(line) != {"custom_id", "method", "url", "body"}:
            faults.append(f"line {number}: members {sorted(line)}")
        name, body = line["custom_id"], line["body"]
        # OpenAI's own ids have at most 64 letters; servers that follow it may allow no more.
        if not isinstance(name, str) or not 0 < len(name) <= 64 or name in seen:
            faults.append(f"line {number}: custom_id {name!r}")
        if line["method"] != "POST" or line["url"] != endpoint:
            faults.append(f"line {number}: {line['method']} {line['url']}")
        seen.add(name)
        models.add(body["model"])
    return faults + [f"models {sorted(models)}"] * (len(models) != 1)


Fault = Callable[[dict], int | str]
"""A line -> the status of its answer, or `EXPIRED`."""


class Batches:
    """A running server.

    Attributes:
        address: of it.
        key: that requests must have.
        answer: path and body of a request -> its answer.
        fault: the lines that fail.
        refuses: whether the validation of every batch fails.
        asked: method and path of each request, without `/v1/`.
        away: number of looks that it answers with status 503 before others.
        files: id -> content.
        batches: id -> batch.
    """

    def __init__(self, answer=api_server.answer, key="a secret of twenty letters"):
        self.address, self.key, self.answer = "", key, answer
        self.fault: Fault = lambda line: 200
        self.refuses, self.away = False, 0
        self.asked: list[tuple[str, str]] = []
        self.files: dict[str, bytes] = {}
        self.batches: dict[str, dict] = {}
        self.looks: dict[str, int] = {}

    def count(self, method: str, path: str) -> int:
        """The number of requests."""
        return self.asked.count((method, path))

    def reply(self, method: str, path: str, headers, body: bytes) -> tuple[int, bytes]:
        """Answers a request."""
        path = path.removeprefix("/v1/").partition("?")[0]
        self.asked.append((method, path))
        if headers.get("authorization") != f"Bearer {self.key}":
            message = f"wrong key: {headers.get('authorization')}"
            return 401, json.dumps({"error": {"message": message}}).encode()
        if method == "GET" and self.away:
            self.away -= 1
            return 503, b"away"
        kind, *rest = path.split("/")
        if method == "POST" and path == "files":
            return 200, json.dumps(self._upload(headers["content-type"], body)).encode()
        if method == "POST" and path == "batches":
            return 200, json.dumps(self._create(**json.loads(body))).encode()
        if kind == "files" and rest[1:] == ["content"]:
            return 200, self.files[rest[0]]
        if path == "batches":
            return 200, json.dumps({"data": list(self.batches.values())[::-1]}).encode()
        return 200, json.dumps(self._look(rest[0])).encode()

    def _upload(self, content_type: str, body: bytes) -> dict:
        form = BytesParser().parsebytes(f"content-type: {content_type}\r\n\r\n".encode() + body)
        parts = {p.get_param("name", header="content-disposition"): p for p in form.get_payload()}
        assert parts["purpose"].get_payload() == "batch" and parts["file"].get_filename()
        return {"id": self._keep(parts["file"].get_payload(decode=True)), "purpose": "batch"}

    def _keep(self, content: bytes) -> str:
        name = f"file-{len(self.files)}"
        self.files[name] = content
        return name

    def _create(self, *, input_file_id: str, endpoint: str, completion_window: str) -> dict:
        assert completion_window == "24h" and input_file_id in self.files
        name = f"batch_{len(self.batches)}"
        batch = {"id": name, "object": "batch", "status": STATES[0], "endpoint": endpoint}
        batch |= {"input_file_id": input_file_id, "errors": None}
        self.batches[name] = batch | {"output_file_id": None, "error_file_id": None}
        self.looks[name] = 0
        return self.batches[name]

    def _look(self, name: str) -> dict:
        batch, look = self.batches[name], self.looks[name]
        self.looks[name] += 1
        if look < len(STATES):
            batch["status"] = STATES[look]
        elif batch["status"] in STATES:
            self._end(batch)
        return batch

    def _end(self, batch: dict) -> None:
        content = self.files[batch["input_file_id"]]
        faults = line_errors(content, batch["endpoint"]) + ["too many tokens"] * self.refuses
        if faults:
            listed = [{"code": "invalid", "message": fault} for fault in faults]
            batch |= {"status": "failed", "errors": {"object": "list", "data": listed}}
            return
        files = {"output": [], "error": []}
        for line in map(json.loads, content.splitlines()):
            status = self.fault(line)
            response = {"status_code": status, "request_id": "r"}
            row = {"id": "b", "custom_id": line["custom_id"], "response": response, "error": None}
            if status == EXPIRED:
                message = "This request could not be executed in time."
                row |= {"response": None, "error": {"code": "batch_expired", "message": message}}
            elif status == 200:
                response["body"] = self.answer(line["url"], line["body"])
            else:
                response["body"] = {"error": {"message": "refused", "code": "invalid_prompt"}}
            files["output" if status == 200 else "error"].append(row)
        is_expired = any(row["response"] is None for row in files["error"])
        counts = {"completed": len(files["output"]), "failed": len(files["error"])}
        batch |= {"status": "expired" if is_expired else "completed", "request_counts": counts}
        for kind, rows in files.items():
            if rows:
                # The order of the answers is not that of the requests.
                text = "".join(json.dumps(row) + "\n" for row in reversed(rows))
                batch[f"{kind}_file_id"] = self._keep(text.encode())


@contextmanager
def running(**options):
    """A server while the block runs."""
    batches, lock = Batches(**options), threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1

        def do_GET(self):
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            with lock:
                status, content = batches.reply(self.command, self.path, self.headers, body)
            self.send_response(status)
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_POST = do_GET

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    batches.address = f"http://127.0.0.1:{server.server_address[1]}/v1"
    try:
        yield batches
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
