"""A study that asks a server: estimate, scores, resuming, and what the programs print."""

import numpy as np
import pytest
from api_server import LABELS, Reply, completion, first_tokens, running

from batch_calibration.settings import Settings
from batch_calibration.studies import Store, run_calibration, run_scoring
from batch_calibration.studies.loading import api_cost, load_scorer
from batch_calibration.studies.scoring import render_contexts


def study(address, way="top_k", **settings):
    asked = {"scorer": "api", "model": "m", "server": address, "api_scores": way}
    sizes = {"limit": 20, "seeds": 1, "labeled_per_class": 2, "dc_texts": 4}
    return Settings.of(data="mini", tasks="sst2", **asked, **sizes, **settings)


def without_labels():
    """An answer whose likeliest tokens are no labels."""
    return Reply(completion("I", {"top_logprobs": [{"I": -0.1, " am": -3.0}]}))


def test_a_study_asks_once_and_calibrates_as_any_other(tmp_path):
    with running() as server:
        notes = []
        report = run_scoring(study(server.address), store=tmp_path, notify=notes.append)
        # Of a task of one text, cc's prompts are those of cc_original.
        assert (report.scored, len(server.asked)) == (57, 54)
        assert notes[0].startswith(f"{server.address} will be asked 54 requests, about ")
        second = run_scoring(study(server.address), store=tmp_path, notify=notes.append)
        assert second.scored == 0 and notes[-1].endswith("will be asked 0 requests, about 0 tokens")
        # Another rule for missing labels is another table of the same answers.
        run_scoring(study(server.address, missing="-20"), store=tmp_path, notify=notes.append)
        assert notes[-1].endswith("0 requests, about 0 tokens; 54 more were answered before")
        assert len(server.asked) == 54
    tables, _ = Store(tmp_path).tables()
    assert len(tables) == 2
    assert tables[0].context["scorer"]["server"] == server.address
    (context,) = render_contexts(study(server.address))
    texts = list(context.blocks["test"].inputs)
    want = [[first_tokens(text)[label] for label in (" negative", " positive")] for text in texts]
    np.testing.assert_allclose(tables[0].blocks["test"].log_probs, want, rtol=1e-6)
    methods = {"icl", "cc", "bc", "bcl"}
    assert methods == set(run_calibration(tables, methods)[0].methods)


def test_a_run_whose_server_fails_goes_on(tmp_path, refuses):
    def fault(number, *_):
        return Reply("gone", 400) if number >= 12 else None

    with running(fault) as server:
        error = refuses(run_scoring, study(server.address, in_flight=1), store=tmp_path)
        assert len(server.asked) == 20 and "status 400: 'gone'" in str(error)
        server.fault = lambda *_: None
        notes = []
        run_scoring(study(server.address, in_flight=1), store=tmp_path, notify=notes.append)
        assert "will be asked 42 requests" in notes[0] and "12 more were answered bef" in notes[0]
        assert len(server.asked) == 62


def test_a_refused_row_is_named_and_costs_no_other(tmp_path):
    texts = list(render_contexts(study("http://127.0.0.1:1/v1"))[0].blocks["test"].inputs)

    def fault(_, path, body):
        if body["prompt"] == texts[4]:
            return Reply('{"error": {"message": "content_filter"}}', 400)
        if body["prompt"] == texts[7]:
            return Reply({"choices": [{"finish_reason": "content_filter", "logprobs": None}]})
        return None

    with running(fault) as server:
        report = run_scoring(study(server.address), store=tmp_path)
        test = Store(tmp_path).tables()[0][0].blocks["test"]
        assert len(test.row_ids) == 18 and test.spec["unreadable"] == 2
        want = [[first_tokens(text)[label] for label in LABELS] for text in texts]
        np.testing.assert_allclose(test.log_probs, np.delete(want, [4, 7], axis=0), rtol=1e-6)
        (note,) = [note for note in report.notes if "have no scores from the server" in note]
        assert note.startswith("2 of ") and repr(texts[4][-20:])[1:] in note
        # The table is whole: nothing blocks it, nothing is asked again.
        requests_before = len(server.asked)
        assert run_scoring(study(server.address), store=tmp_path).scored == 0
        assert len(server.asked) == requests_before


def test_probes_that_have_no_score_at_all_are_left_out(tmp_path, refuses):
    usual = render_contexts(study("http://127.0.0.1:1/v1"))[0].blocks["test"].inputs

    def fault(_, path, body):
        return None if body["prompt"] in usual else without_labels()

    with running(fault) as server:
        for _ in range(2):
            run_scoring(study(server.address), store=tmp_path)
            (table,) = Store(tmp_path).tables()[0]
            assert list(table.blocks) == ["test"]
        assert len(server.asked) == 54
        server.fault = lambda *_: Reply(completion("I", {"top_logprobs": [{"I": -0.1}]}))
        error = refuses(run_scoring, study(server.address, top_logprobs=3), store=tmp_path)
    assert "no test row has scores" in str(error)


def test_settings_of_networks_are_refused_for_a_server(refuses):
    for name, value in (("mesh", "data:2"), ("logits_only", True), ("dtype", "bfloat16")):
        error = refuses(load_scorer, study("http://127.0.0.1:1/v1", **{name: value}))
        assert error.key == name
    error = refuses(render_contexts, study("http://127.0.0.1:1/v1", over_long="drop_shots"))
    assert error.key == "over_long"
    fits = study("http://127.0.0.1:1/v1", over_long="drop_shots", tokenizer="mini")
    assert render_contexts(fits)


def test_the_price_is_that_of_the_tokens():
    settings = study("http://127.0.0.1:1/v1", "echo", price=2.5, tokenizer="mini")
    contexts = render_contexts(settings)
    cost = api_cost([(context, context.blocks) for context in contexts], load_scorer(settings))
    assert cost.requests == 108 and cost.dollars == pytest.approx(cost.tokens * 2.5e-6)
    assert str(cost._replace(dollars=1234.5)).endswith("tokens, $1,234.50 at price=")


FLAGS = "tasks=sst2 limit=8 scorer=api model=m api_scores=top_k"
FLAGS = ("--config=configs/mini.py:smoke", *(f"--config.{flag}" for flag in FLAGS.split()))


@pytest.mark.slow
def test_the_programs_ask_and_estimate(program, tmp_path):
    with running() as server:
        flags = (*FLAGS, f"--config.server={server.address}", "--config.price=1000000")
        shown = program("show", *flags, "--rows=1").stdout
        assert "--tokenizer is empty: texts only" in shown and "requests" in shown
        line = next(line for line in shown.splitlines() if line.strip().startswith("all "))
        contexts, rows, requests, tokens = (int(n.replace(",", "")) for n in line.split()[1:])
        assert (contexts, rows, requests) == (1, 89, 86) and f"${tokens:,}.00" in shown
        assert not server.asked
        done = program("score", *flags, f"--workdir={tmp_path}")
        stdout = " ".join(done.stdout.split())
        assert f"86 requests, about {tokens:,} tokens, ${tokens:,}.00 at --price" in stdout
        server.fault = lambda *_: Reply("no credit", 402)
        refused = program("score", *flags, f"--workdir={tmp_path}", "--config.seeds=2", code=2)
        assert "no credit" in refused.stderr
    program("calibrate", f"--workdir={tmp_path}")
    program("tables", f"--workdir={tmp_path}")
