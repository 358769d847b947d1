"""Logs of lighteval, Inspect and HELM: what each holds, and a sentence where it holds no scores."""

import json
import zipfile

import log_forms
import numpy as np
import pyarrow as pa
import pytest
from log_forms import HEADER, as_log, helm_run, joint, sample, separate, state
from pyarrow import parquet
from reading_files import notes, read_one

from batch_calibration import importers
from batch_calibration.arrays.missing_scores import BELOW
from batch_calibration.importers import Reading

# lighteval


def details(i, scores=(-1.0, -2.0), **more):
    """A row of details as versions since 0.10 write it."""
    question = f"Q: number {i}?\nA:"
    document = {"query": question, "choices": [" no", " yes"], "gold_index": [i % 2]}
    document |= {"id": str(i), "specific": {"subject": "odd" if i % 2 else "even"}}
    response = {"input": f"Q: a?\nA: yes\n\n{question}", "text": []}
    response |= {"logprobs": [x - i / 8 for x in scores], "unconditioned_logprobs": None}
    row = {"doc": document, "model_response": response, "metric": {"acc": float(i % 2 == 0)}}
    return row | more


def before(i, scores=(-1.0, -2.0)):
    """A row as versions before 0.10 wrote it."""
    new = details(i, scores)
    document, metrics = new["doc"], {"metrics": new["metric"], "cont_tokens": []}
    row = {"full_prompt": document["query"], "specifics": document["specific"]} | metrics
    row |= {key: document[key] for key in ("choices", "gold_index")}
    return row | {"predictions": new["model_response"]["logprobs"]}


def pairs(i):
    """Predictions as pairs of a number and whether it is greedy."""
    row = before(i)
    return row | {"predictions": [[x, 0.0] for x in row["predictions"]]}


@pytest.fixture
def lighteval(tmp_path):
    def write(rows):
        path = tmp_path / "details_lighteval|toy|1_2026-01-02T03-04-05.678.parquet"
        parquet.write_table(pa.Table.from_pylist(rows), path)
        return path

    return write


@pytest.mark.parametrize("form", [details, before, pairs])
def test_details_of_lighteval(form, lighteval):
    path = lighteval([form(i) for i in range(5)])
    table = read_one(path)
    expected = [[-1.0 - i / 8, -2.0 - i / 8] for i in range(5)]
    np.testing.assert_array_equal(table.blocks["test"].log_probs, np.float32(expected))
    assert table.label_names == ("no", "yes")
    assert table.blocks["test"].labels.tolist() == [0, 1, 0, 1, 0]
    assert table.context["task"] == "lighteval|toy|1" and table.context["shots"] == 1
    assert "demonstrations" not in notes(table) and "accuracy" not in notes(table)
    even, odd = importers.read(path, Reading(by=("subject",)))
    assert (len(even.blocks["test"].labels), len(odd.blocks["test"].labels)) == (3, 2)


def test_unconditioned_scores_of_lighteval_are_a_block(lighteval):
    rows = [details(i) for i in range(3)]
    for row in rows:
        row["model_response"]["unconditioned_logprobs"] = [-0.5, -0.25]
    assert read_one(lighteval(rows)).blocks["pmi"].log_probs.tolist() == [[-0.5, -0.25]]
    rows = [before(i, (-1.0, -2.0, -0.5, -0.25 - i)) for i in range(3)]
    table = read_one(lighteval(rows))
    assert table.label_names == ("no", "yes")
    assert table.blocks["pmi"].log_probs[2].tolist() == [-0.75, -2.5]


def test_details_without_scores_are_refused(lighteval, refuses):
    for form, change, got in (
        (details, lambda row: row["model_response"].update(logprobs=[]), "0; generated"),
        (before, lambda row: row.update(predictions=["four", "five"]), "'four'"),
        (details, lambda row: row["model_response"].update(logprobs=[-1.0, float("nan")]), "nan"),
        (details, lambda row: row["doc"].update(choices=None), "got None"),
    ):
        rows = [form(i) for i in range(2)]
        for row in rows:
            change(row)
        assert got in str(refuses(read_one, lighteval(rows)))
    path = lighteval([details(0)])
    assert "'level'" in str(refuses(read_one, path, by=("level",)))
    path.write_bytes(path.read_bytes()[:-40])
    assert "magic bytes" in str(refuses(read_one, path, format="lighteval"))


def test_the_gold_label_may_be_another_field(lighteval, inspect_log, helm, saved, refuses):
    rows, log = [details(i) for i in range(2)], [log_forms.row(i, target=0) for i in range(2)]
    for detail, line in zip(rows, log, strict=True):
        detail["doc"]["specific"]["answer"] = line["doc"]["answer"] = "yes"
    samples = [sample(i, metadata={"answer": "B"}) for i in range(2)]
    states = separate(2, extra_data={"answer": 1})
    for path in (lighteval(rows), saved(log), inspect_log(samples), helm(states)):
        assert read_one(path, gold="answer").blocks["test"].labels.tolist() == [1, 1]
        assert "'x'" in str(refuses(read_one, path, gold="x"))


# Inspect


@pytest.fixture(params=["eval", "json"])
def inspect_log(request, tmp_path):
    def write(samples):
        path = tmp_path / f"2026-01-02_toy.{request.param}"
        form = {"eval": "inspect_ai_zip", "json": "inspect_ai"}[request.param]
        path.write_bytes(as_log(form, HEADER | {"samples": samples}, json.dumps))
        return path

    return write


def test_inspect_s_letters(inspect_log):
    table = read_one(inspect_log([sample(i, target="AB"[i % 2]) for i in range(4)]))
    assert table.label_names == ("A", "B")
    first = float(np.logaddexp(-0.5, -3.0))
    np.testing.assert_allclose(table.blocks["test"].log_probs[0], [first, -1.5], rtol=1e-6)
    assert table.blocks["test"].labels.tolist() == [0, 1, 0, 1]
    expected = {"task": "toy", "model": "openai/m", "data": "animals"}
    assert {key: table.context[key] for key in expected} == expected
    assert table.context["scorer"] == "inspect_ai 0.3.1"
    note = notes(table)
    assert "after up to 2 tokens that the model wrote" in note
    assert "log's own accuracy is 100.0 %, the highest score gives 50.0 %" in note


@pytest.mark.parametrize("scores", [{}, {"label_bias": {"value": "I", "answer": "B"}}])
def test_an_inspect_answer_at_once_needs_no_scorer_and_no_note(inspect_log, scores):
    table = read_one(inspect_log([sample(i, wrote=(), scores=scores) for i in range(2)]))
    assert len(table.blocks["test"].log_probs) == 2 and not notes(table)


def test_inspect_s_answers_without_choices(inspect_log, refuses):
    likely = {"Yes": -0.75, " no": -1.0, "No": -3.0}
    path = inspect_log([sample(i, likely, ["no", "yes"][i % 2], (), ()) for i in range(3)])
    table = read_one(path, labels=("no", "yes"))
    assert table.blocks["test"].labels.tolist() == [0, 1, 0]
    assert table.blocks["test"].log_probs[0, 1] == -0.75
    assert "no choices" in str(refuses(read_one, path))


def test_inspect_s_later_epochs_and_failed_samples_are_left_out(inspect_log):
    samples = [sample(i, epoch=epoch) for epoch in (1, 2) for i in range(3)]
    samples[1]["error"] = {"message": "timeout"}
    table = read_one(inspect_log(samples))
    assert table.blocks["test"].row_ids == ("0", "2")
    assert "3 samples of later epochs" in notes(table)
    assert "1 samples ended in an error" in notes(table)


def test_inspect_s_zstandard(tmp_path):
    """As Inspect writes since 2026: method 93, which zipfile reads from Python 3.14 on."""
    path = tmp_path / "toy.eval"
    with zipfile.ZipFile(path, "w") as archive:
        for i in range(3):
            raw = json.dumps(sample(i)).encode()
            data = pa.compress(raw, codec="zstd", asbytes=True)
            archive.writestr(f"samples/{i}_epoch_1.json", data)
            info = archive.infolist()[-1]
            info.compress_type, info.file_size = 93, len(raw)
        archive.writestr("other", b"")
    table = read_one(path)
    assert table.blocks["test"].row_ids == ("0", "1", "2")
    assert table.blocks["test"].log_probs[0, 1] == -1.5


def test_inspect_s_missing_letters_are_missing(inspect_log, refuses):
    path = inspect_log([sample(0), sample(1, {" A": -0.1, " x": -3.0}), sample(2)])
    assert "row 1 has -inf as the score of 'B'" in str(refuses(read_one, path))
    scores = read_one(path, missing="least").blocks["test"].log_probs
    np.testing.assert_allclose(scores[1], [-0.1, -3.0 - BELOW])


def test_inspect_s_choices_of_varied_number(inspect_log, refuses):
    four = {f" {letter}": -1.0 - i for i, letter in enumerate("ABCD")}
    samples = [sample(i, four, choices="abcd") if i % 2 else sample(i) for i in range(4)]
    path = inspect_log(samples)
    assert "2 in 2 rows, 4 in 2 rows" in str(refuses(read_one, path))
    two, many = importers.read(path, Reading(by=("choices",)))
    assert (two.label_names, many.label_names) == (("A", "B"), ("A", "B", "C", "D"))
    even, odd = importers.read(inspect_log([sample(i) for i in range(4)]), Reading(by=("subject",)))
    assert even.blocks["test"].row_ids == ("0", "2") and odd.context["task"] == "toy odd"


def test_an_inspect_log_that_holds_no_scores(inspect_log, refuses):
    bare, mixed = sample(0), sample(0)
    bare["output"]["choices"][0]["logprobs"] = None
    explanation = "Choices were shuffled before generating a response"
    mixed["scores"]["choice"]["explanation"] = explanation
    no_letter = sample(0, {" A": -0.1, " x": -3.0})
    many = sample(0, choices=list(map(str, range(27))))
    cases = {"--logprobs": [bare], "under A": [mixed], "label 'B'": [no_letter], "got 27": [many]}
    for got, samples in (cases | {"got none": []}).items():
        assert got in str(refuses(read_one, inspect_log(samples)))
    assert "'level'" in str(refuses(read_one, inspect_log([sample(0)]), by=("level",)))


def shuffled(i, texts, order, **more):
    """A sample whose choices a solver shuffled: the model saw texts[order[0]] under A."""
    sent = "\n".join(f"{chr(65 + letter)}) {texts[choice]}" for letter, choice in enumerate(order))
    explanation = (
        "Choices were shuffled before generating a response, the following was sent to the model:"
        f"\n\n{sent}\nShuffled answer:\nANSWER: A"
    )
    # Inspect's scorer names the answer by the data's own letter; the model wrote A.
    answer = chr(65 + order[0])
    grade = {"value": "C", "answer": answer, "explanation": explanation}
    return sample(i, target=answer, choices=texts, scores={"choice": grade}, **more)


def test_inspect_s_shuffled_choices_are_letters_that_the_model_saw(inspect_log, refuses):
    texts = ("cat", "cat\nB) dog", "dog")  # one begins as another, and holds what looks as a letter
    orders = [(0, 1, 2), (1, 2, 0), (2, 0, 1), (1, 0, 2)]
    likely = {" A": -0.5, " B": -1.5, " C": -2.5}
    samples = [shuffled(i, texts, order, likely=likely) for i, order in enumerate(orders)]
    table = read_one(inspect_log(samples))
    np.testing.assert_allclose(table.blocks["test"].log_probs, [[-0.5, -1.5, -2.5]] * 4)
    assert table.blocks["test"].labels.tolist() == [0, 0, 0, 0]  # what is right stood under A
    twice = shuffled(0, ("cat", "cat", "dog"), (0, 1, 2), likely=likely)
    assert refuses(read_one, inspect_log([twice])).got == "no unique choice under A"


def test_a_damaged_inspect_log(inspect_log, tmp_path, refuses):
    path = inspect_log([sample(i) for i in range(3)])
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    assert refuses(read_one, path, format="inspect_ai").where.startswith(str(path))
    error = refuses(read_one, tmp_path / "none.eval", format="inspect_ai")
    assert error.got == "No such file or directory"


# HELM


@pytest.fixture
def helm(tmp_path):
    def write(*run):
        path = tmp_path / "toy:model=m/scenario_state.json"
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(helm_run(*run), indent=2))
        return path

    return write


def test_helm_s_separate_choices(helm):
    table = read_one(helm(separate()))
    expected = [[-1.0 - i, -2.0] for i in range(4)]
    np.testing.assert_allclose(table.blocks["test"].log_probs, expected)
    assert table.label_names == ("no", "quite so")
    assert table.blocks["test"].labels.tolist() == [0, 1, 0, 1]
    assert table.blocks["test"].row_ids == ("id0", "id1", "id2", "id3")
    expected = {"task": "toy:model=m", "model": "org/m", "shots": 1, "scorer": "HELM"}
    assert {key: table.context[key] for key in expected} == expected
    assert "demonstrations" not in notes(table)


def test_helm_s_calibration_requests_are_a_block(helm):
    places = np.ndindex(4, 2)
    states = separate() + [state(*at, (-0.5, -0.25), mode="calibration") for at in places]
    table = read_one(helm(states, "multiple_choice_separate_calibrated"))
    assert table.blocks["pmi"].log_probs.tolist() == [[-0.5, -0.25]]


def test_helm_s_trials_are_contexts_and_perturbed_rows_are_left_out(helm):
    states = separate() + separate(trial=1) + separate(perturbation={"name": "typos"})
    tables = importers.read(helm(states), Reading())
    assert [table.context["seed"] for table in tables] == [0, 1]
    assert [len(table.blocks["test"].labels) for table in tables] == [4, 4]


def test_helm_s_joint_choices(helm, refuses):
    states = [joint(i, {" A": -0.5 - i, " B": -1.5}) for i in range(3)]
    table = read_one(helm(states, "multiple_choice_joint"))
    assert table.label_names == ("A", "B")
    assert table.blocks["test"].log_probs.tolist() == [[-0.5 - i, -1.5] for i in range(3)]
    assert table.blocks["test"].labels.tolist() == [0, 1, 0]
    error = refuses(read_one, helm([joint(0, None)], "multiple_choice_joint"))
    assert "answered token" in str(error)


SO, NAN = {"text": " so", "logprob": -1.0}, {"text": " so", "logprob": np.nan}


def test_helm_s_runs_that_hold_no_scores(helm, tmp_path, refuses):
    assert "'generation'" in str(refuses(read_one, helm(separate(), "generation")))
    stats = tmp_path / "per_instance_stats.json"
    stats.write_text(json.dumps([{"instance_id": "id0", "train_trial_index": 0, "stats": []}]))
    assert "scenario_state.json" in str(refuses(read_one, stats))
    cases = {"got none": [], "instance id3": separate()[:-1], "instance id0": separate() * 2}
    for got, states in cases.items():
        assert got in str(refuses(read_one, helm(states)))
    for change, got in (
        (lambda state: state["result"]["completions"][0]["tokens"].pop(), "' it? A: quite'"),
        (lambda state: state["result"].update(completions=[{"tokens": [SO]}]), "got ' so'"),
        (lambda state: state["result"].update(completions=[]), "got 0"),
        (lambda state: state.update(reference_index=5), "got 5"),
        (lambda state: state.update(instance={}), "{'instance': {}"),
        (lambda state: state["result"].update(completions=[{"tokens": [NAN]}]), "got nan"),
        (lambda state: state["instance"]["references"][0].pop("output"), "got None"),
    ):
        states = separate()
        change(states[1])
        assert got in str(refuses(read_one, helm(states)))
    path = helm(separate())
    path.write_bytes(path.read_bytes()[:-30])
    assert "JSON" in str(refuses(read_one, path))
    path.write_bytes(b"\xff\xfe")
    assert "UTF-8" in str(refuses(read_one, path, format="helm"))
    assert "No such file" in str(refuses(read_one, tmp_path / "none.json", format="helm"))
