"""Servers that do harm: the right score or a sentence, never another number; the key nowhere.

Each kind is a small function that answers a request wrongly. After each, every file and all that
was printed, logged or said is searched for the key in every writing.
"""

import base64
import gzip
import json
import logging
import math
import re
import sqlite3
import ssl
import threading
import traceback
import zlib
from functools import cache
from typing import NamedTuple

import numpy as np
import pytest
from api_server import Reply, Time, answer, running, scorer, want, want_first, want_ids

from batch_calibration.errors import InputError
from batch_calibration.scoring.api import client

KEY = "sk-Planted/0123+456789"
TEXTS = [f"Review: film {i}{' and more of it' * i}\nSentiment:" for i in range(4)]
LABELS = (" negative", " very positive")
TIMEOUT = 0.4
"""Seconds that an answer may take of a server that never ends."""
RIGHT = "right"
"""The expected scores of a server whose answers are right in all that counts."""


class Kind(NamedTuple):
    """A server that does harm.

    Attributes:
        answer: number of the request, path, body -> a reply; None for the right one.
        expected: part of the sentence, as a regular expression, or `RIGHT`.
        way: how it is asked.
        note: part of a note, where answers are right but something is to be known.
    """

    answer: object
    expected: str = RIGHT
    way: str = "echo"
    note: str = ""


# What a harmful server does


def always(*arguments, **named):
    return lambda *_: Reply(*arguments, **named)


def changed(change):
    """The right answer, changed in place, or replaced by what is given back."""

    def reply(_, path, body):
        right = answer(path, body)
        return Reply(change(right) or right)

    return reply


def logprobs(change):
    """The right answer with its lists of tokens changed."""
    return changed(lambda right: change(right["choices"][0]["logprobs"]))


def having(**members):
    """The right answer with other members."""
    return changed(lambda right: {**right, **members})


def counting(tokens):
    """The right answer to a prompt of so many tokens."""
    return having(usage={"prompt_tokens": tokens, "completion_tokens": 1})


def sent(write=str, **headers):
    """The right answer, written as a text or bytes in another way, with headers."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda _, path, body: Reply(write(json.dumps(answer(path, body))), headers=named)


def label(value, place=-2):
    """The last token of the label, or another, has another log-probability."""
    return logprobs(lambda right: right["token_logprobs"].__setitem__(place, value))


def asked_otherwise(change):
    """The right answer to another prompt."""

    def reply(_, path, body):
        return Reply(answer(path, {**body, "prompt": change(body["prompt"])}))

    return reply


def cut(prompt):
    """The last 6 tokens, as a server of few positions keeps them."""
    return "".join(re.findall(r" ?\w+|\W", prompt)[-6:])


def of_first():
    """A cache that gives the first answer to all."""
    calls = {}

    def reply(_, path, body):
        return Reply(calls.setdefault(path, answer(path, body)))

    return reply


def head(handler, line):
    handler.wfile.write(b"HTTP/1.1 200 OK\r\n" + line + b"\r\n\r\n")
    handler.wfile.flush()


def drip(handler, chunk=b"[", wait=0.05, chunked=False):
    """For ever a little more."""
    head(handler, b"transfer-encoding: chunked" if chunked else b"content-length: 999999999")
    while True:
        size = f"{len(chunk):x}\r\n".encode() if chunked else b""
        handler.wfile.write(size + chunk + (b"\r\n" if chunked else b""))
        handler.wfile.flush()
        threading.Event().wait(wait)


def torn(handler):
    head(handler, b"content-length: 5000")
    handler.wfile.write(b'{"choices": [')
    handler.wfile.flush()


def garbage(handler):
    handler.wfile.write(b"\x00\x01 what is this?\r\n\r\n" * 9)


def send(how, **named):
    return lambda *_: Reply(send=lambda handler: how(handler, **named))


def shorter(_, path, body):
    """A right answer whose length is said to be less."""
    text = json.dumps(answer(path, body))
    return Reply(text, headers={"content-length": str(len(text) // 2)})


def twice(number, path, body):
    """Every answer two times, so that the second may be taken for that of the next request."""
    text = json.dumps(answer(path, body)).encode()
    message = b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%s" % (len(text), text)

    def both(handler):
        handler.close_connection = False
        handler.wfile.write(2 * message)

    return Reply(send=both)


@cache
def bomb():
    """16 MiB of spaces in few bytes."""
    return gzip.compress(b" " * (16 << 20))


@cache
def many():
    """Of 400,000 tokens, where 20 were asked for."""
    tops = ", ".join(f'"{i}": -30' for i in range(400_000))
    return f'{{"choices": [{{"logprobs": {{"top_logprobs": [{{{tops}}}]}}}}]}}'.encode()


def zipped(text):
    return gzip.compress(text.encode())


def two_members(text):
    """The choices two times: others first, or last."""
    return text[:-1] + ', "choices": [{"logprobs": null}]}'


def other_label(text):
    """One log-probability two times."""
    twice = re.sub(r'("token_logprobs": )(\[[^]]*\])', r"\1\2, \1\2", text)
    return twice.replace("-0.5", "-0.6", 1)


def of_a_book(prompt):
    return prompt.replace("film", "book")


def choices(change):
    """The right answer with other choices, made of its only one."""
    return changed(lambda right: {"choices": change(right["choices"][0])})


def without(name):
    return lambda one: [{**one, name: None}]


def likely(tops):
    """The right answer with other likely tokens."""
    return logprobs(lambda lists: lists.update(top_logprobs=[tops]))


AGAIN, BYTES = "none after attempt 2 of 2", "expected at most .* bytes"
GZIP = {"content_encoding": "gzip"}
DEEP, DEEPER = json.loads("[" * 400 + "]" * 400), f', "debug": {"[" * 990}{"]" * 990}}}'
FAR = {"retry-after": "Fri, 31 Dec 9999 23:59:59 -9999", "date": "Sun, 22 Nov 2026 05:00:00 GMT"}
BUSY = {"error": {"message": "busy", "code": 429}}
SENT = "the prompt that was sent"
KINDS = {
    # The connection
    "length too large": Kind(send(torn), AGAIN),
    "length too small": Kind(shorter, AGAIN),
    "no HTTP": Kind(send(garbage), AGAIN),
    "a byte now and then": Kind(send(drip), "no complete answer within 0.4 seconds"),
    "chunks without end": Kind(send(drip, chunk=b" " * 500_000, wait=0, chunked=True), BYTES),
    "every answer twice": Kind(twice),
    # The body
    "gzip bomb": Kind(sent(lambda _: bomb(), **GZIP), f"{BYTES}; got more"),
    "gzip in gzip": Kind(sent(zipped, content_encoding="gzip, gzip"), "another content-encoding"),
    "gzip that is none": Kind(sent(**GZIP), "its gzip is damaged"),
    "gzip cut short": Kind(sent(lambda text: zipped(text)[:-9], **GZIP), "its gzip ends too early"),
    "gzip": Kind(sent(zipped, **GZIP)),
    "nothing": Kind(always("", 204), "no JSON"),
    "nested as deeply as can be read": Kind(having(debug=DEEP)),
    "nested a little deeper": Kind(sent(lambda text: text[:-1] + DEEPER), "no JSON"),
    "a member twice": Kind(sent(two_members), "each key once"),
    "a list twice": Kind(sent(other_label), "each key once"),
    "byte order mark": Kind(sent(lambda text: text.encode("utf-8-sig"))),
    "UTF-16": Kind(sent(lambda text: text.encode("utf-16"))),
    "charset of another encoding": Kind(sent(content_type="application/json; charset=utf-16")),
    # The status
    "come again at a far date": Kind(always("", 503, FAR), "status 503"),
    "500 for ever": Kind(always("broken", 500), f"{AGAIN} .*status 500"),
    "error and choices": Kind(having(error="partly"), "with an error: 'partly'"),
    "overload with status 200": Kind(always(BUSY), f"{AGAIN} .*busy"),
    "vLLM's error": Kind(always({"object": "error", "message": "too long"}), "error: 'too long'"),
    "null for no error": Kind(having(error=None)),
    # The numbers
    "NaN": Kind(label(math.nan), "is not there|expected a log-prob"),
    "one token above 0": Kind(label(1.25), "at most 0; got 1.25"),
    "one token of the prompt above 0": Kind(label(0.75, 2), "at most 0; got 0.75"),
    "400,000 likeliest tokens": Kind(lambda *_: Reply(many()), BYTES, "top_k"),
    # The choices
    "two choices": Kind(choices(lambda one: [one, one]), "expected one choice"),
    "another choice's index": Kind(choices(lambda one: [{**one, "index": 3}]), "index 3"),
    "another model's name": Kind(having(model="tiny-7b"), note="'m', and the server .*'tiny-7b'"),
    "a wrong count of new tokens": Kind(having(usage={"completion_tokens": 3}), "ends with"),
    # Answers without scores: what to try instead is named
    "no log-probs": Kind(choices(without("logprobs")), "logprobs are null.* try prompt_logprobs"),
    "no prompt_logprobs": Kind(choices(without("prompt_logprobs")), "try echo", "prompt_logprobs"),
    "no likely token": Kind(likely({}), "no list .* try chat", "top_k"),
    "other ids": Kind(likely({"token_id:5": -1.0}), "without token_id.* try", "logprob_token_ids"),
    "three scores": Kind(always({"scores": [[0.2, 0.2, 0.1]]}), r"\[1, 2\]; got \(1, 3\)", "score"),
    "a score of 0": Kind(always({"scores": [[0.2, 0.0]]}), "above 0.* got 0.* try echo", "score"),
    "a list": Kind(always([1]), "a JSON object", "score"),
    # The prompt
    "prompts cut": Kind(asked_otherwise(cut), "only its last .* letters"),
    "prompts cut, vLLM": Kind(asked_otherwise(cut), SENT, "prompt_logprobs"),
    "prompts cut, ids": Kind(counting(3), "tokens; got one to 3", "logprob_token_ids"),
    "prompts cut, as counted": Kind(counting(16), RIGHT, "top_k", "16 tokens in each of 4 prompts"),
    "another prompt's answer": Kind(asked_otherwise(of_a_book), SENT),
    "one answer to all, top-k": Kind(of_first(), "the same one to 4", "top_k"),
    "one answer to all, ids": Kind(of_first(), "got an answer without token_id|same one", "score"),
}


# How a server may write the key that it was sent


def unicode_escapes(text):
    return "".join(f"\\u{ord(letter):04x}" for letter in text)


def base64_of(before):
    return lambda key: base64.b64encode((before + key).encode()).decode()


WRITINGS = {
    "plain": str,
    "JSON": lambda key: key.replace("/", "\\/"),
    "unicode escapes": unicode_escapes,
    "escapes in escapes": lambda key: unicode_escapes(key).replace("\\", "\\\\"),
    "percent, all letters": lambda key: "".join(f"%{ord(letter):02x}" for letter in key),
    "HTML": lambda key: "".join(f"&#{ord(letter)};" for letter in key),
    "C": lambda key: "".join(f"\\x{ord(letter):02x}" for letter in key),
    "base64, 0": base64_of(""),
    "base64, 1": base64_of("x"),
    "base64, 2": base64_of("xx"),
    "base64 of URLs": lambda key: base64.urlsafe_b64encode(key.encode()).decode(),
    "hex": lambda key: key.encode().hex(),
    "hex of capitals": lambda key: key.encode().hex(":").upper(),
    "with spaces": " ".join,
    "backwards": lambda key: key[::-1],
    "decimal codes": lambda key: " ".join(str(ord(letter)) for letter in key),
    "HTML's codes, escaped": lambda key: "".join(f"&amp;#{ord(letter)};" for letter in key),
    "first letters": lambda key: f"{key[:20]}...",
    "base32": lambda key: base64.b32encode(f"xyz{key}".encode()).decode(),
    "base64 twice": lambda key: base64_of("")(base64_of("x")(key)),
}


def search(text, key=KEY):
    """The writings of the key that a text holds, found in another way than the client's."""
    text = text if isinstance(text, str) else text.decode("latin-1")
    dense = re.sub(r"[\s:]", "", text.lower())
    spellings = [name for name, write in WRITINGS.items() if write(key) in text]
    spellings += [name for name, write in WRITINGS.items() if write(key).lower() in dense]
    for offset in range(3):
        letters = base64.b64encode(b"?" * offset + key.encode()).decode()[4:-4]
        spellings += [f"base64 at {offset}"] * (letters in text)
    return spellings


def everything(folder, asks, *errors):
    """All that a run leaves: files, kept answers inflated, notes, sentences with their causes."""
    for path in folder.rglob("*"):
        if path.is_file():
            yield path.read_bytes()
            if path.read_bytes().startswith(b"SQLite"):
                with sqlite3.connect(path) as rows:
                    for (blob,) in rows.execute("SELECT answer FROM answers"):
                        start = blob.index(b"\x78") if blob[:1] != b"\1" else 17
                        yield zlib.decompress(blob[start:])
                rows.close()
    yield from asks.notes
    yield str(asks.identity)
    for error in errors:
        yield "".join(traceback.format_exception(error))


CONTEXT = cache(ssl.create_default_context)


@pytest.fixture(autouse=True)
def quick(monkeypatch, caplog):
    monkeypatch.setattr(client, "MAX_ATTEMPTS", 2)
    monkeypatch.setenv("API_KEY", KEY)
    monkeypatch.setattr(ssl, "create_default_context", CONTEXT)  # it reads all certificates
    caplog.set_level(logging.DEBUG)


def wanted(way, tokenizer):
    if way in ("top_k", "chat"):
        return want_first(TEXTS)
    if way in ("echo", "prompt_logprobs"):
        return want(TEXTS, LABELS)
    return want_ids(tokenizer, TEXTS)


WORDS_WAYS = ("top_k", "chat", "logprob_token_ids", "score")
LABELS_OF = dict.fromkeys(WORDS_WAYS, (" negative", " positive"))


def ask(server, way, path, tokenizer, timeout=60.0, texts=TEXTS):
    """The scores or a sentence, and the scorer."""
    tokenizer = tokenizer if way in LABELS_OF else None
    asks = scorer(server.address, way, Time(), path, tokenizer, timeout=timeout)
    try:
        return asks.score(texts, LABELS_OF.get(way, LABELS)), asks
    except InputError as error:
        return error, asks


@pytest.mark.parametrize("name", KINDS)
def test_no_wrong_number_is_taken_and_no_key_is_left(name, tokenizer, tmp_path, caplog, capfd):
    kind, path = KINDS[name], tmp_path / "answers.sqlite"
    right = wanted(kind.way, tokenizer)
    errors = []
    timeout = TIMEOUT if "within" in kind.expected else 60.0
    with running(kind.answer) as server:
        # A second time, of what was kept.
        for _ in range(2):
            outcome, asks = ask(server, kind.way, path, tokenizer, timeout)
            if isinstance(outcome, InputError):
                errors.append(outcome)
                assert kind.expected != RIGHT and re.search(kind.expected, str(outcome)), outcome
                assert "\n" not in str(outcome)
            else:
                assert kind.expected == RIGHT, outcome
                np.testing.assert_allclose(outcome.log_probs, right, rtol=1e-5)
                notes = [note for note in asks.notes if "labels together" not in note]
                assert len(notes) == bool(kind.note) and re.search(kind.note, "".join(notes))
        # And of a server that has mended: nothing harmful was kept, or it says what to move away.
        if "move " not in str(outcome):
            server.fault = lambda *_: None
            mended, _ = ask(server, kind.way, path, tokenizer)
            np.testing.assert_allclose(mended.log_probs, right, rtol=1e-5)
    for text in (*everything(tmp_path, asks, *errors), caplog.text, *capfd.readouterr()):
        assert not search(text), text


@pytest.mark.parametrize("name", WRITINGS)
def test_a_key_that_the_server_repeats_is_written_nowhere(name, tmp_path, caplog, capfd):
    key, errors = WRITINGS[name](KEY), []

    def repeat(number, path, body):
        right = answer(path, body)
        debug = {"header": f"Bearer {key}", key: [key, {"inner": json.dumps({"key": key})}]}
        text = json.dumps({**right, "model": f"m {key}", "debug": debug})
        if name == "unicode escapes":  # as escapes of the answer itself
            text = text.replace("\\\\u", "\\u")
        headers = {"x-repeat": key, "set-cookie": f"key={key}"}
        return Reply(text, headers=headers, reason=f"OK {key}")

    with running(repeat) as server:
        outcome, asks = ask(server, "echo", tmp_path / "answers.sqlite", None)
        assert not isinstance(outcome, InputError), outcome
        np.testing.assert_allclose(outcome.log_probs, want(TEXTS, LABELS), rtol=1e-5)
        for status in (401, 402, 500, 200):
            server.fault = always({"error": {"message": f"wrong key {key}"}}, status)
            errors.append(ask(server, "top_k", None, None, texts=TEXTS[:1])[0])
            server.fault = always(f"<p>wrong key {key}", status)
            errors.append(ask(server, "top_k", None, None, texts=TEXTS[:1])[0])
    assert all(isinstance(error, InputError) for error in errors)
    for text in (*everything(tmp_path, asks, *errors), caplog.text, *capfd.readouterr()):
        assert not search(text), text


def test_a_key_in_parts_is_written_nowhere(tmp_path, caplog):
    forms = {"header": ["Bearer " + KEY[:9], KEY[9:]], "bytes": list(KEY.encode())}
    with running(changed(lambda right: {**right, "debug": forms})) as server:
        outcome, asks = ask(server, "echo", tmp_path / "answers.sqlite", None)
    assert "parts of it" in str(outcome)
    for text in (*everything(tmp_path, asks, outcome), caplog.text):
        assert not search(text) and KEY[9:] not in str(text)


def test_a_redirect_takes_the_key_nowhere():
    with running() as elsewhere:
        location = {"location": f"{elsewhere.address}/completions"}
        with running(always("", 307, location)) as server:
            outcome, _ = ask(server, "echo", None, None)
        assert "status 307" in str(outcome) and not elsewhere.asked


def test_the_search_finds_what_it_looks_for(tmp_path):
    for name, write in WRITINGS.items():
        assert search(f"a page, {write(KEY)}, and more"), name
    assert not search("a page, sk-..., and more")
