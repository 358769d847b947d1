"""The scorer of `integrations.inspect_ai` in the installed Inspect, against our importer of logs.

A mock model answers with a letter and the most probable tokens there, as providers give them.
"""

import random
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("inspect_ai", reason="needs Inspect: run `make reference`")

from inspect_ai import Task, eval, score
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.log import read_eval_log
from inspect_ai.model import (
    ChatCompletionChoice,
    ChatMessageAssistant,
    Logprob,
    Logprobs,
    ModelOutput,
    ModelUsage,
    TopLogprob,
    get_model,
)
from inspect_ai.scorer import choice
from inspect_ai.solver import generate, multiple_choice

import batch_calibration as bc
from batch_calibration.importers import Reading, read
from batch_calibration.integrations.inspect_ai import label_bias

PAGE = Path(__file__).parents[2] / "docs" / "plugins.md"
ROWS = 24
ANIMALS = ("cat", "dog", "emu")
METRICS = ("icl_accuracy", "corrected_accuracy", "preference_nats", "flips")


def answers(with_log_probs=True, mentions="ABC", pieces=("ANSWER", ":")):
    """A model that prefers the first letter; of each seventh row one letter is not shown."""
    random_state, rows = np.random.default_rng(0), []
    for row in range(ROWS):
        nats = random_state.normal((1.5, 0.0, -0.5), 1.0)
        log_probs = nats - np.log(np.exp(nats).sum()) - 0.05
        shown = {f" {letter}": float(x) for letter, x in zip(mentions, log_probs, strict=True)}
        if row % 7 == 0:
            del shown[min(shown, key=shown.get)]
        rows.append({**shown, " the": -9.0})

    def answer(messages, tools, tool_choice, config):
        text = messages[-1].text
        row = int(text[text.index("number") :].split()[1].strip("?"))
        likely = max(rows[row], key=rows[row].get)
        tokens = [Logprob(token=piece, logprob=-0.01, top_logprobs=[]) for piece in pieces]
        top = [TopLogprob(token=name, logprob=x) for name, x in rows[row].items()]
        tokens.append(Logprob(token=likely, logprob=rows[row][likely], top_logprobs=top))
        message = ChatMessageAssistant(content="".join(token.token for token in tokens))
        log_probs = Logprobs(content=tokens) if with_log_probs else None
        choices = [ChatCompletionChoice(message=message, logprobs=log_probs)]
        # With a usage: without one, Inspect fetches a tokenizer to count tokens.
        return ModelOutput(model="mock", choices=choices, usage=ModelUsage())

    return get_model("mockllm/model", custom_outputs=answer)


def samples(varied=False):
    chance = random.Random(0)
    rows = []
    for row in range(ROWS):
        texts = list(ANIMALS) if not varied else [f"{row} {name}" for name in ANIMALS]
        text, target = f"Animal number {row} ?", chance.choice("ABC")
        rows.append(Sample(text, choices=texts, target=target, id=row + 1))
    return MemoryDataset(rows, name="animals")


def run(folder, scorer, solver=None, model=None, dataset=None):
    task = Task(dataset=dataset or samples(), solver=solver or multiple_choice(), scorer=scorer)
    shown = {"display": "none", "logprobs": True, "top_logprobs": 4}
    (log,) = eval(task, model=model or answers(), log_dir=str(folder), **shown)
    assert log.status == "success", log.error
    return log


def metrics_of(log, name="label_bias"):
    (of_scorer,) = [entry for entry in log.results.scores if entry.name == name]
    return {name: metric.value for name, metric in of_scorer.metrics.items()}


def expected(table):
    """The four metrics from an imported table, by functions of our own interface."""
    scores, gold = np.asarray(table.blocks["test"].log_probs), table.blocks["test"].labels
    corrected = np.asarray(bc.calibrate(scores, "bc", from_probs=False))
    return {
        "icl_accuracy": float(bc.accuracy(scores, gold)),
        "corrected_accuracy": float(bc.accuracy(corrected, gold)),
        "preference_nats": float(np.ptp(scores.astype(np.float64).mean(axis=0))),
        "flips": float((scores.argmax(1) != corrected.argmax(1)).mean()),
    }


def label_scores(log, name="label_bias"):
    scores = [sample.scores[name].metadata["label_scores"] for sample in log.samples]
    return np.array([list(of_labels.values()) for of_labels in scores])


def test_a_live_run_has_the_importers_scores_and_metrics(tmp_path):
    log = run(tmp_path, label_bias())
    (table,) = read(Path(log.location), Reading(missing="least"))
    scores = metrics_of(log)
    assert set(scores) == set(METRICS)
    assert scores == pytest.approx(expected(table), abs=1e-6)
    assert scores["flips"] > 0 and scores["preference_nats"] > 0.5  # the letter A is preferred
    # As differences: an importer's table moves rows, which a correction does not see.
    ours, theirs = label_scores(log), np.asarray(table.blocks["test"].log_probs)
    np.testing.assert_allclose(ours - ours[:, :1], theirs - theirs[:, :1], atol=1e-5)
    counted = [sample.scores["label_bias"].value for sample in log.samples]
    assert counted.count("C") / ROWS == pytest.approx(scores["icl_accuracy"])


def test_advice_of_a_file_is_followed(tmp_path):
    (table,) = read(Path(run(tmp_path, choice()).location), Reading(missing="least"))
    block = table.blocks["test"]
    shares = {"target_prior": [0.5, 0.3, 0.2], "label_names": table.label_names}
    advice = bc.recommend(block.log_probs, from_probs=False, **shares)
    bc.save_advice(tmp_path / "advice.json", {"any": advice})
    scores = metrics_of(run(tmp_path, label_bias(advice=str(tmp_path / "advice.json"))))
    ours = advice.apply(block.log_probs, from_probs=False)
    expected_accuracy = float(bc.accuracy(ours, block.labels))
    assert scores["corrected_accuracy"] == pytest.approx(expected_accuracy, abs=1e-6)


def test_an_old_log_is_scored_by_the_page_s_command(tmp_path):
    log = run(tmp_path / "old", choice())
    (table,) = read(Path(log.location), Reading(missing="least"))
    output = tmp_path / "scored.eval"
    (block,) = re.findall(r"```console\n(inspect .*?)```", PAGE.read_text(encoding="utf-8"), re.S)
    program, *arguments = shlex.split(block.replace("LOG.eval", log.location))
    command = [Path(sys.executable).with_name(program), *arguments, "--display", "none"]
    subprocess.run(command, check=True, capture_output=True, cwd=tmp_path)
    assert metrics_of(read_eval_log(str(output))) == pytest.approx(expected(table), abs=1e-6)
    # The log that now has our scores beside Inspect's is read as before.
    (reread,) = read(output, Reading(missing="least"))
    assert expected(reread) == pytest.approx(expected(table), abs=1e-6)


def test_choices_that_a_solver_shuffled_are_the_letters_that_the_model_saw(tmp_path):
    solver = multiple_choice(shuffle=random.Random(3))
    log = run(tmp_path, [choice(), label_bias()], solver, dataset=samples(varied=True))
    (table,) = read(Path(log.location), Reading(missing="least"))
    live = metrics_of(log)
    assert live == pytest.approx(expected(table), abs=1e-6)
    # Inspect's own accuracy is that of the letters that the model wrote.
    (own,) = [entry for entry in log.results.scores if entry.name == "choice"]
    assert own.metrics["accuracy"].value == pytest.approx(live["icl_accuracy"])
    # Of the log alone, in which the choices stand as in the data.
    old = run(tmp_path / "old", choice(), multiple_choice(shuffle=random.Random(3)),
              dataset=samples(varied=True))  # fmt: skip
    rescored = score(old, label_bias(), action="append", display="none")
    (of_old,) = read(Path(old.location), Reading(missing="least"))
    assert metrics_of(rescored) == pytest.approx(expected(of_old), abs=1e-6)
    # Without the scores of Inspect's own scorer nothing tells the order.
    bare = score(old, label_bias(), action="overwrite", display="none")
    explanations = [sample.scores["label_bias"].explanation or "" for sample in bare.samples]
    assert any("--action append" in explanation for explanation in explanations)


def test_a_log_without_log_probabilities_is_unscored_with_what_to_run(tmp_path):
    log = run(tmp_path, label_bias(), model=answers(with_log_probs=False))
    explanations = {sample.scores["label_bias"].explanation for sample in log.samples}
    assert len(explanations) == 1 and "--logprobs --top-logprobs 20" in explanations.pop()
    assert all(np.isnan(value) for value in metrics_of(log).values())


def test_answers_without_choices_are_named(tmp_path):
    rows = [Sample(f"Is number {i} ?", target=("yes", "no", "maybe")[i % 3]) for i in range(ROWS)]
    names, dataset = ("yes", "no", "maybe"), MemoryDataset(rows)
    model = answers(mentions=names, pieces=())
    log = run(tmp_path, label_bias(labels="yes,no,maybe"), generate(), model, dataset)
    (table,) = read(Path(log.location), Reading(labels=names, missing="least"))
    assert table.label_names == names
    assert metrics_of(log) == pytest.approx(expected(table), abs=1e-6)


def test_samples_that_differ_in_choices_are_a_warning_and_no_error(tmp_path, caplog):
    rows = []
    for i in range(8):
        choices = list("abc")[: 2 + i % 2]
        rows.append(Sample(f"Animal number {i} ?", choices=choices, target="A"))
    log = run(tmp_path, label_bias(), dataset=MemoryDataset(rows))
    assert all(np.isnan(value) for value in metrics_of(log).values())
    assert "the number of choices varies" in caplog.text


def test_another_method_and_a_prior(tmp_path):
    prior = [0.2, 0.3, 0.5]
    log = run(tmp_path, label_bias(method="prior_matching", prior=prior))
    (table,) = read(Path(log.location), Reading(missing="least"))
    block = table.blocks["test"]
    how = {"target_prior": prior, "from_probs": False}
    corrected = bc.calibrate(block.log_probs, "prior_matching", **how)
    ours = float(bc.accuracy(corrected, block.labels))
    assert metrics_of(log)["corrected_accuracy"] == pytest.approx(ours, abs=1e-6)


def test_the_task_of_the_page_is_evaluated(tmp_path):
    (block,) = re.findall(r"```py\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S)
    names = {"dataset": samples()}
    exec(block, names)
    (log,) = eval(names["task"], model=answers(), log_dir=str(tmp_path), display="none")
    (table,) = read(Path(log.location), Reading(missing="least"))
    assert metrics_of(log) == pytest.approx(expected(table), abs=1e-6)
