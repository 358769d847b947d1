"""Saved answers of decision models, from a server of the test's own: no public file was found."""

import json
from urllib.request import Request, urlopen

import numpy as np
import pytest
from api_asking import TEXTS, scorer
from api_server import LABELS, Reply, nats, running

from batch_calibration import calibrate, cli
from batch_calibration.importers import IMPORTERS, Reading, read

TOPICS = ("sports", "art", "trade")
PLACES = np.array([1.5, 0.0, -0.5])
"""The server's preference among places, in nats."""


def decide(_, path, body):
    """A server that likes the options declared first."""
    options = body["options"]
    content = [0.0 if not body["state"] else 2.5 * (option in body["state"]) for option in options]
    scores = np.exp(np.array(content) + PLACES[: len(options)])
    probabilities = dict(zip(options, (scores / scores.sum()).tolist(), strict=True))
    choice = max(probabilities, key=probabilities.__getitem__)
    return Reply({"choice": choice, "probabilities": probabilities})


def saved(server, states, options, **more):
    """Lines as a user would save them."""
    lines = []
    for number, state in enumerate(states):
        body = json.dumps({"state": state, "options": options}).encode()
        headers = {"content-type": "application/json"}
        with urlopen(Request(f"{server.address}/systemone", body, headers)) as response:
            lines.append({"id": f"s{number}", **json.load(response), **more})
    return lines


def write(path, lines):
    path.write_text("\n".join(map(json.dumps, lines)))
    return path


STATES = [f"news on {topic} {i}" for i in range(4) for topic in TOPICS]


@pytest.fixture(scope="module")
def lines():
    with running(decide) as server:
        topics = saved(server, STATES, list(TOPICS))
        for line, state in zip(topics, STATES, strict=True):
            line["gold"] = next(topic for topic in TOPICS if topic in state)
        empty = saved(server, [""], list(TOPICS), content_free=True)
        art = saved(server, ["news on art"], ["no", "yes"], question="is it art?", gold="no")
    empty[0]["id"], art[0]["id"] = "empty", "other"
    return topics, empty, art


def test_probabilities_are_scores_in_the_order_of_the_options_names(lines, tmp_path):
    topics, empty, _ = lines
    path = write(tmp_path / "news.jsonl", topics + empty)
    (table,) = read(path)
    assert table.label_names == ("art", "sports", "trade") and table.context["task"] == "news"
    want = [[line["probabilities"][name] for name in table.label_names] for line in topics]
    test = table.blocks["test"]
    np.testing.assert_allclose(np.exp(test.log_probs), want, rtol=1e-5)
    assert test.row_ids == tuple(line["id"] for line in topics)
    assert [table.label_names[i] for i in test.labels] == [line["gold"] for line in topics]
    # Content-free lines are the block of cc.
    cc = calibrate(test.log_probs, "cc", probe=table.blocks["cc"].log_probs)
    assert (cc.argmax(1) == test.labels).all()
    (named,) = read(path, Reading(labels=TOPICS))
    assert named.label_names == TOPICS
    shares = np.exp(PLACES) / np.exp(PLACES).sum()
    np.testing.assert_allclose(named.blocks["cc"].log_probs[0], np.log(shares), atol=1e-5)


def test_the_order_in_which_options_are_declared_is_nothing(lines, tmp_path):
    topics, empty, _ = lines
    (table,) = read(write(tmp_path / "news.jsonl", topics + empty))
    for line in (turned := json.loads(json.dumps(topics + empty))):
        line["probabilities"] = dict(reversed(line["probabilities"].items()))
    (table_2,) = read(write(tmp_path / "turned.jsonl", turned))
    assert table_2.label_names == table.label_names
    for name in ("test", "cc"):
        np.testing.assert_array_equal(table_2.blocks[name].log_probs, table.blocks[name].log_probs)


def test_questions_with_other_options_are_contexts_of_their_own(lines, tmp_path, refuses):
    topics, empty, art = lines
    path = write(tmp_path / "all.jsonl", topics + empty + art)
    refuses(read, path)
    for column in ("question", "options"):
        # One row of two labels is all that differs.
        tables = read(path, Reading(by=(column,)))
        found = [(table.label_names, len(table.blocks["test"].row_ids)) for table in tables]
        assert found == [(("art", "sports", "trade"), 12), (("no", "yes"), 1)]
        assert list(tables[1].blocks) == ["test"]


def test_a_program_diagnoses_them(lines, tmp_path, capsys):
    topics, _, _ = lines
    path = write(tmp_path / "news.jsonl", topics)
    assert IMPORTERS["decisions"].recognizes(path, path.read_bytes()[:4096])
    cli.run(["diagnose", str(path)])
    assert "'sports' over 'trade'" in capsys.readouterr().out


def test_choices_that_are_not_the_likeliest_are_noted(lines, tmp_path):
    topics, _, _ = lines
    changed = [line | {"choice": "trade"} for line in topics]
    differing = sum(max(x["probabilities"], key=x["probabilities"].get) != "trade" for x in topics)
    (table,) = read(write(tmp_path / "a.jsonl", changed))
    (note,) = table.blocks["test"].spec["notes"]
    assert note.startswith(f"In {differing} of 12 decisions the choice is not the most probable")
    half = [line | {"question": f"q{i % 2}"} for i, line in enumerate(topics)]
    (table,) = read(write(tmp_path / "b.jsonl", half))
    assert "2 questions share their options" in table.blocks["test"].spec["notes"][0]
    assert len(read(tmp_path / "b.jsonl", Reading(by=("question",)))) == 2


def test_an_option_of_probability_0_is_missing(lines, tmp_path, refuses):
    topics, _, _ = lines
    changed = json.loads(json.dumps(topics))
    changed[0]["probabilities"]["trade"] = 0
    path = write(tmp_path / "a.jsonl", changed)
    refuses(read, path)
    (table,) = read(path, Reading(missing="least"))
    scores = table.blocks["test"].log_probs[0]
    assert scores.argmin() == 2 and np.isfinite(scores).all()


def test_a_line_that_is_none_is_a_sentence(tmp_path, refuses):
    usual = {"id": "0", "choice": "a", "probabilities": {"a": 0.6, "b": 0.4}, "gold": "a"}
    changes = [{"probabilities": {"a": share, "b": 0.6}} for share in (0.7, "x", -0.1)]
    changes += [{"probabilities": {"a": 1.0}}, {"probabilities": [0.5, 0.5]}]
    for change in (*changes, {"gold": "c"}, {"id": "0"}):
        refuses(read, write(tmp_path / "a.jsonl", [usual, usual | {"id": "1"} | change]))


def test_a_study_can_ask_for_decisions_with_options_in_the_order_of_their_names():
    with running() as server:
        asks = scorer(server.address, "systemone")
        assert asks.estimate(TEXTS, LABELS).requests == len(TEXTS)
        got = asks.score(TEXTS, LABELS).log_probs
        turned = scorer(server.address, "systemone").score(TEXTS, LABELS[::-1]).log_probs
        assert len(server.asked) == 2 * len(TEXTS)
        for _, body, _ in server.asked:
            (question,) = body["questions"].values()
            assert list(question["criteria"]) == ["negative", "positive"]
            assert body["state"] in TEXTS and question["type"] == "choice"
    raw = np.array([[nats(text, label) for label in LABELS] for text in TEXTS])
    want = raw - np.log(np.exp(raw).sum(1, keepdims=True))
    np.testing.assert_allclose(got, want, atol=1e-5)
    np.testing.assert_allclose(turned, want[:, ::-1], atol=1e-5)


def test_a_decision_of_other_options_is_refused(refuses):
    reply = {"answers": {"label": {"probabilities": {"negative": 0.5, "other": 0.5}}}}
    with running(lambda *_: Reply(reply)) as server:
        refuses(scorer(server.address, "systemone").score, TEXTS, LABELS)


def test_responses_as_they_came_are_read_as_the_saved_lines(lines, tmp_path):
    topics, _, art = lines
    (expected,) = read(write(tmp_path / "news.jsonl", topics))
    plain, around, several = [], [], []
    # Several questions of one state: each is a context of its own; a score is no decision.
    others = {"is art": {key: art[0][key] for key in ("choice", "probabilities")}}
    others["length"] = {"score": 3}
    for line in topics:
        answer = {key: line[key] for key in ("choice", "probabilities")}
        reference = {"id": line["id"], "gold": line["gold"]}
        plain.append(reference | {"model": "m", "answers": {"topic": answer}})
        around.append(reference | {"response": {"answers": {"topic": answer}}})
        gold = {"topic": line["gold"], "is art": "no"}
        several.append(reference | {"gold": gold, "answers": {"topic": answer, **others}})
    for rows in (plain, around):
        (table,) = read(write(tmp_path / "news.jsonl", rows))
        assert table.label_names == expected.label_names
        block, of_lines = table.blocks["test"], expected.blocks["test"]
        np.testing.assert_array_equal(block.log_probs, of_lines.log_probs)
        np.testing.assert_array_equal(block.labels, of_lines.labels)
        assert block.row_ids == of_lines.row_ids
    topic, is_art = read(write(tmp_path / "news.jsonl", several), Reading(by=("question",)))
    np.testing.assert_array_equal(topic.blocks["test"].log_probs, of_lines.log_probs)
    assert topic.blocks["test"].row_ids[0] == f"{topics[0]['id']} topic"
    assert is_art.label_names == ("no", "yes") and set(is_art.blocks["test"].labels) == {0}
