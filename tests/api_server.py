"""A small server of the OpenAI style on 127.0.0.1, whose faults a test chooses, and a scorer."""

import asyncio
import json
import math
import re
import threading
import zlib
from collections.abc import Callable
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np

from batch_calibration.scoring.api.client import Pace
from batch_calibration.scoring.api.scorer import ApiScorer
from batch_calibration.scoring.engine.tokens import encode
from batch_calibration.settings import ApiSettings

LABELS = (" negative", " positive")


def nats(text: str, token: str) -> float:
    """The log-probability of a token after a text: some number that both decide."""
    return -0.01 - zlib.crc32(f"{text}|{token}".encode()) % 1000 / 200


def first_tokens(text: str) -> dict[str, float]:
    """The most probable first tokens after a text; their probabilities sum to less than 1."""
    tokens = (*LABELS, " the", "\n")
    total = math.log(sum(math.exp(nats(text, token)) for token in tokens)) + 0.1
    return {token: nats(text, token) - total for token in tokens}


def split(text: str) -> list[str]:
    """Tokens of a text: words with the space before them, and all other letters."""
    return re.findall(r" ?\w+|\W", text)


def summed(text: str, label: str) -> float:
    """The log-probability of a label after a text, token by token."""
    total = 0.0
    for token in split(label):
        total += nats(text, token)
        text += token
    return total


def token_of(number: int) -> str:
    """The token that has an id."""
    return f"token {number}"


def answer(path: str, body: dict) -> dict:
    """The answer of a server without faults."""
    if path.endswith("/score"):
        text = str(body["query"] + body["items"][0])
        tops = {n: math.exp(nats(text, token_of(n)) - 1) for n in body["label_token_ids"]}
        return {"object": "scoring", "scores": [list(tops.values())]}
    if path.endswith("/systemone"):
        ((name, question),) = body["questions"].items()
        nats_of = {option: nats(body["state"], f" {option}") for option in question["criteria"]}
        total = sum(map(math.exp, nats_of.values()))
        probabilities = {option: math.exp(x) / total for option, x in nats_of.items()}
        choice = max(probabilities, key=probabilities.__getitem__)
        decision = {"type": "choice", "choice": choice, "probabilities": probabilities}
        return {"model": body["model"], "answers": {name: decision}}
    if path.endswith("/chat/completions"):
        tops = first_tokens(body["messages"][0]["content"])
        content = [{"token": t, "logprob": log_prob} for t, log_prob in tops.items()]
        return {"choices": [{"logprobs": {"content": [{"top_logprobs": content}]}}]}
    prompt = body["prompt"]
    if "logprob_token_ids" in body:
        ids = body["logprob_token_ids"]
        tops = {f"token_id:{n}": nats(str(prompt), token_of(n)) - 1 for n in ids}
        return completion(" the", {"top_logprobs": [tops], "token_logprobs": [-1.0]})
    if not body.get("echo") and "prompt_logprobs" not in body:
        tops = first_tokens(prompt)
        best = max(tops, key=tops.__getitem__)
        lists = {"tokens": [best], "token_logprobs": [tops[best]], "top_logprobs": [tops]}
        return completion(best, lists)
    tokens, log_probs, text = split(prompt), [], ""
    for token in tokens:
        log_probs.append(nats(text, token) if text else None)
        text += token
    if "prompt_logprobs" in body:
        places = [
            log_prob if log_prob is None else {"7": {"logprob": log_prob, "decoded_token": token}}
            for token, log_prob in zip(tokens, log_probs, strict=True)
        ]
        return {"choices": [{"text": "\n", "logprobs": None, "prompt_logprobs": places}]}
    log_probs = {"tokens": [*tokens, "\n"], "token_logprobs": [*log_probs, -0.5]}
    return completion(prompt + "\n", log_probs)


def completion(text: str, logprobs: dict | None) -> dict:
    """An answer of the completions endpoint with one new token."""
    return {"choices": [{"text": text, "logprobs": logprobs}], "usage": {"completion_tokens": 1}}


class Reply:
    """A server's reply: a status, a text or bytes, headers.

    `wait`, if given, is called before; `send` takes the handler and sends what it likes instead.
    """

    def __init__(self, value="", status=200, headers=(), wait=None, send=None, reason=None):
        text = value if isinstance(value, str | bytes) else json.dumps(value)
        self.content = text.encode() if isinstance(text, str) else text
        self.status, self.headers, self.wait = status, dict(headers), wait
        self.send, self.reason = send, reason


Fault = Callable[[int, str, dict], Reply | None]
"""Number of the request, path and body -> a reply, None for the right one."""


class Fake:
    """A running server.

    Attributes:
        address: of it.
        asked: path, body and headers of each request, in the order in which they came.
        most: most requests that it answered at a time.
        fault: what it does wrong.
    """

    def __init__(self, fault: Fault):
        self.asked: list[tuple[str, dict, dict]] = []
        self.most = self._now = 0
        self.fault = fault
        self.address = ""
        self._lock = threading.Lock()

    def reply(self, path: str, body: dict, headers: dict) -> Reply:
        """Answer a request."""
        with self._lock:
            number = len(self.asked)
            self.asked.append((path, body, headers))
            self._now += 1
            self.most = max(self.most, self._now)
        reply = self.fault(number, path, body) or Reply(answer(path, body))
        if reply.wait:
            reply.wait()
        with self._lock:
            self._now -= 1
        return reply


@contextmanager
def running(fault: Fault = lambda *_: None):
    """A server while the block runs."""
    fake = Fake(fault)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        # Headers and body leave together: apart, each answer waits 40 ms for an acknowledgment.
        wbufsize = -1

        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            reply = fake.reply(self.path, body, dict(self.headers))
            if reply.send:
                self.close_connection = True
                reply.send(self)
                return
            self.send_response(reply.status, reply.reason)
            for name, content in {"content-length": len(reply.content), **reply.headers}.items():
                self.send_header(name, content)
            self.end_headers()
            self.wfile.write(reply.content)

        def log_message(self, *_):
            pass

    class Server(ThreadingHTTPServer):
        # With the usual 5, the sixth connection at a time waits a second.
        request_queue_size = 64

    server = Server(("127.0.0.1", 0), Handler)
    server.handle_error = lambda *_: None
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    fake.address = f"http://127.0.0.1:{server.server_address[1]}/v1"
    try:
        yield fake
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


# Texts, a clock that waits for nobody, a scorer, and its right scores

TEXTS = [f"Review: film {i}\nSentiment:" for i in range(12)]


class Time:
    """A clock that goes on to when the first of those who sleep wakes."""

    def __init__(self):
        self.now, self.slept, self._until = 0.0, [], []

    async def sleep(self, seconds):
        self.slept.append(seconds)
        until = self.now + seconds
        self._until.append(until)
        while self.now < until:
            await asyncio.sleep(0)
            if min(self._until) == until:
                self.now = max(self.now, until)
        self._until.remove(until)

    def pace(self, per_minute=0):
        return Pace(per_minute, self.sleep, lambda: self.now)


def scorer(address, way="echo", time=None, answers=None, tokenizer=None, **settings):
    api = ApiSettings(server=address, api_scores=way, **settings)
    return ApiScorer(api, "m", tokenizer, answers, (time or Time()).pace(api.per_minute))


def want(texts=TEXTS, labels=LABELS):
    return np.array([[summed(text, label) for label in labels] for text in texts])


def want_first(texts=TEXTS):
    return np.array([[first_tokens(text)[label] for label in LABELS] for text in texts])


def want_ids(tokenizer, texts=TEXTS):
    encoded = encode(tokenizer.tokenizer, texts, LABELS, tokenizer.bos)
    rows = []
    for prompt, labels in zip(*encoded, strict=True):
        rows.append([nats(str(prompt), token_of(ids[0])) - 1 for ids in labels])
    return np.array(rows)
