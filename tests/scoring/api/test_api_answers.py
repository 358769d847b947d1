"""Answers of a server are kept and asked once; the key is written nowhere."""

import sqlite3
import zlib

import numpy as np
import pytest
from api_server import LABELS, TEXTS, Reply, Time, running, scorer, want

from batch_calibration.files import process_name
from batch_calibration.scoring.api.answers import CHECKSUM_BYTES, Answers, Request
from batch_calibration.scoring.api.scorer import ApiScorer
from batch_calibration.settings import ApiSettings

KEY = "sk-planted-0123456789"

# Answers are kept


def test_one_request_that_fails_for_good_loses_no_other(tmp_path):
    path = tmp_path / "answers"

    def fault(_, where, body):
        return Reply("too long", 400) if body["prompt"].startswith(TEXTS[3]) else None

    with running(fault) as server:
        first_scorer = scorer(server.address, answers=path)
        partial = first_scorer.score(TEXTS, LABELS)
        assert len(server.asked) == 24 and list(partial.failed) == [3]
        assert "status 400: 'too long'" in partial.failed[3]
        assert np.isnan(partial.log_probs[3]).all()
        answered = np.arange(len(TEXTS)) != 3
        np.testing.assert_allclose(partial.log_probs[answered], want()[answered], rtol=1e-6)
        (note,) = first_scorer.notes
        assert note.startswith("1 of 12 prompts have no scores") and f"end in {TEXTS[3]!r}" in note
        # The refusal is kept as answers are.
        restarted = scorer(server.address, answers=path)
        assert restarted.estimate(TEXTS, LABELS)[:3:2] == (0, 24)
        again = restarted.score(TEXTS, LABELS)
        np.testing.assert_array_equal(again.log_probs, partial.log_probs)
        assert again.failed == partial.failed and len(server.asked) == 24


def test_another_model_server_or_way_has_answers_of_its_own(tmp_path):
    path = tmp_path / "answers"
    with running() as first, running() as two:
        scorer(first.address, "top_k", answers=path).score(TEXTS, LABELS)
        scorer(two.address, "top_k", answers=path).score(TEXTS, LABELS)
        scorer(first.address, "chat", answers=path).score(TEXTS, LABELS)
        settings = ApiSettings(server=first.address, api_scores="top_k")
        ApiScorer(settings, "other", None, path, Time().pace()).score(TEXTS, LABELS)
        assert (len(first.asked), len(two.asked)) == (36, 12)


def test_a_damaged_file_of_answers_is_a_sentence(tmp_path, refuses):
    path = tmp_path / "answers"
    path.write_bytes(b"no database" * 100)
    error = refuses(scorer("http://127.0.0.1:9/v1", answers=path).score, TEXTS, LABELS)
    assert error.where == str(path) and "not a database" in error.got


def test_a_transaction_that_was_cut_short_loses_the_last_answer_alone(tmp_path):
    path, server = tmp_path / "answers", "http://127.0.0.1/v1"
    requests = [Request("completions", {"prompt": str(i)}) for i in range(3)]
    with Answers(path).opened() as answers:
        for request in requests:
            answers.keep(server, request, '{"a": 1}')
    with Answers(path).opened() as answers:
        answers._rows.execute("BEGIN")
        answers._rows.execute("DELETE FROM answers")
        # Closed without a commit, as when the process is killed.
    with Answers(path).opened() as answers:
        assert [answers.get(server, request) for request in requests] == [{"a": 1}] * 3


# The key


def test_the_key_of_a_variable_is_sent_without_spaces(monkeypatch):
    """What is written of it: test_hostile_server.py."""
    monkeypatch.setenv("MY_KEY", f" {KEY}\n")
    with running() as server:
        asks = scorer(server.address, key_variable="MY_KEY")
        asks.score(TEXTS, LABELS)
        sent = [headers for *_, headers in server.asked]
    assert {h.get("authorization", h.get("Authorization")) for h in sent} == {f"Bearer {KEY}"}
    assert KEY not in repr(asks._server)


def test_an_address_is_checked_and_holds_no_key(refuses):
    wrong = ["127.0.0.1:8000", "ftp://a/v1", "http://"]
    wrong += [f"http://{host}/v1" for host in ("a:b", "a b", "a\n")]
    for server in wrong:
        error = refuses(scorer, server)
        assert (error.key, error.got) == ("server", repr(server))
    for server in (f"http://me:{KEY}@host/v1", f"http://host/v1?key={KEY}"):
        error = refuses(scorer, server)
        assert (error.key, error.got) == ("server", "one for host") and KEY not in str(error)


@pytest.mark.parametrize("key", ["sk-\N{EN DASH}planted", "sk-planted\r\nX: y"])
def test_a_key_that_no_header_can_hold_is_refused_without_it(monkeypatch, key, refuses):
    monkeypatch.setenv("API_KEY", key)
    error = refuses(scorer, "http://127.0.0.1/v1")
    assert error.where.endswith("API_KEY") and "planted" not in str(error)


# What is kept may be damaged, of an earlier version, or of a run that was killed


def kept_rows(path):
    with sqlite3.connect(path) as rows:
        stored = rows.execute("SELECT asked, answer FROM answers").fetchall()
    rows.close()
    return stored


def change(path, *statement):
    with sqlite3.connect(path) as rows:
        rows.execute(*statement)
    rows.close()


def damages(blob):
    """A kept answer with a bit flipped, cut, of another kind, and one that zlib does not refuse."""
    yield blob[:-9] + bytes([blob[-9] ^ 1]) + blob[-8:]
    yield from (blob[:-3], b"", b"\1", None, "text", 3, zlib.compress(b"{"), zlib.compress(b"\xff"))
    yield blob[:17] + zlib.compress(zlib.decompress(blob[17:]).replace(b"-", b"-1"))


def test_a_damaged_answer_is_asked_again_with_a_note(tmp_path):
    path = tmp_path / "answers"
    with running() as server:
        scorer(server.address, answers=path).score(TEXTS[:2], LABELS)
        rows = kept_rows(path)
        request_key, blob = rows[0]
        other_blobs = [blob_of_another for key, blob_of_another in rows if key != request_key]
        for damaged in (*damages(blob), other_blobs[0]):  # the last is another request's
            change(path, "UPDATE answers SET answer = ? WHERE asked = ?", (damaged, request_key))
            before = len(server.asked)
            asks = scorer(server.address, answers=path)
            got = asks.score(TEXTS[:2], LABELS).log_probs
            np.testing.assert_allclose(got, want(TEXTS[:2]), rtol=1e-6)
            assert len(server.asked) == before + 1, damaged
            assert asks.notes == ["1 stored answers were damaged and asked again."]


def test_answers_of_the_version_before_are_read_and_hold_no_key_after(tmp_path, monkeypatch):
    path = tmp_path / "answers"
    with running() as server:
        scorer(server.address, answers=path).score(TEXTS, LABELS)
        change(path, "DROP TABLE started")
        for request_key, blob in kept_rows(path):
            text = zlib.decompress(blob[1 + CHECKSUM_BYTES :]).decode()
            text = text.replace('"choices"', '"debug": "sk\\u002dplanted-0123456789", "choices"', 1)
            old = zlib.compress(text.encode())
            change(path, "UPDATE answers SET answer = ? WHERE asked = ?", (old, request_key))
        before = len(server.asked)
        monkeypatch.setenv("API_KEY", KEY)
        got = scorer(server.address, answers=path).score(TEXTS, LABELS).log_probs
        assert len(server.asked) == before
    np.testing.assert_allclose(got, want(), rtol=1e-6)
    answer_texts = [zlib.decompress(blob[1 + CHECKSUM_BYTES :]) for _, blob in kept_rows(path)]
    assert answer_texts and not any(b"planted" in text for text in answer_texts)


def test_requests_that_a_stopped_run_had_under_way_are_counted(tmp_path, refuses):
    path = tmp_path / "answers"

    def stop(done):
        if len(server.asked) > 6:
            raise RuntimeError

    with running() as server:
        with pytest.raises(RuntimeError):
            scorer(server.address, answers=path, in_flight=3).score(TEXTS, LABELS, progress=stop)
        restarted = scorer(server.address, answers=path, in_flight=3)
        assert 1 <= restarted.count_interrupted() <= 3
        np.testing.assert_allclose(restarted.score(TEXTS, LABELS).log_probs, want(), rtol=1e-6)
        assert restarted.count_interrupted() == 0
        # At most what was in flight is asked twice.
        assert len(server.asked) <= 24 + 3
        # One that fails for good is not under way.
        server.fault = lambda *_: Reply("no", 400)
        error = refuses(scorer(server.address, "top_k", answers=path).score, TEXTS, LABELS)
        assert "status 400: 'no'" in str(error)
        assert restarted.count_interrupted() == 0


def test_requests_of_another_run_that_still_goes_on_are_not_counted(tmp_path):
    path, server = tmp_path / "answers", "http://127.0.0.1/v1"
    requests = [Request("completions", {"prompt": str(i)}) for i in range(3)]
    with Answers(path).opened() as answers:
        for request in requests:
            answers.start(server, request)
        assert answers.count_interrupted() == 0  # they are under way in this process
        answers.keep(server, requests[0], "{}")
        machine = process_name().split("-")[0]
        (asked,) = answers._open_rows.execute("SELECT asked FROM started").fetchone()
        row = (f"{machine}-4194304-1", asked)
        answers._open_rows.execute("UPDATE started SET process = ? WHERE asked = ?", row)
        assert answers.count_interrupted() == 1  # a process that was killed
    with Answers(path).opened() as answers:
        assert answers.count_interrupted() == 2
