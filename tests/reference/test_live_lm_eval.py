"""lm-evaluation-harness with our filter, aggregations and task class, live, on real label scores.

A model that returns the stored scores of Mistral-7B and Gemma-7B (MMLU, ../shared/scores). The
figures stand in the shared README: 39.16 and 38.84 % as they are, 48.36 and 49.03 % after BC.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("lm_eval", reason="needs lm-evaluation-harness: run `make reference`")

import lm_eval
from lm_eval.api.model import LM
from lm_eval.tasks import TaskManager

import batch_calibration as bc
from batch_calibration.cli import run as command
from batch_calibration.errors import InputError
from batch_calibration.importers import Reading, read
from batch_calibration.integrations import lm_eval as integration
from batch_calibration.integrations.lm_eval import write_overlays
from batch_calibration.scoring.embedded import CHECKPOINTS

MODULE = "!function batch_calibration.integrations.lm_eval"
MODELS = {"Mistral-7B": (0.3916, 0.4836), "Gemma-7B": (0.3884, 0.4903)}
LETTERS = ["A", "B", "C", "D"]
FILTERS = f"""
filter_list:
  - name: none
    filter: [{{function: take_first}}]
  - name: bc
    filter:
      - function: take_first
      - function: {MODULE}.BatchCalibration
"""
METRICS = f"""
metric_list:
  - {{metric: acc, aggregation: mean, higher_is_better: true}}
  - metric: {MODULE}.likelihood
    aggregation: {MODULE}.corrected_accuracy
    higher_is_better: true
"""


class StoredScores(LM):
    """Answers with scores [n, k] that a model gave before."""

    def __init__(self, scores):
        super().__init__()
        self.scores = scores

    def loglikelihood(self, requests):
        answers = []
        for request in requests:
            prompt, choice = request.args
            row = int(prompt.removeprefix("row "))
            answers.append((float(self.scores[row, LETTERS.index(choice.strip())]), False))
        return answers

    def loglikelihood_rolling(self, requests):
        raise NotImplementedError

    generate_until = loglikelihood_rolling


def write_task(folder, name, gold, more, choices="[A, B, C, D]"):
    """A task over rows of a number and the right choice."""
    rows = folder / f"{name}.jsonl"
    lines = [json.dumps({"id": i, "gold": int(g)}) for i, g in enumerate(gold)]
    rows.write_text("\n".join(lines))
    (folder / f"{name}.yaml").write_text(
        f"""task: {name}
dataset_path: json
dataset_kwargs:
  data_files: {{test: {rows}}}
test_split: test
output_type: multiple_choice
doc_to_text: "row {{{{id}}}}"
doc_to_choice: {choices}
doc_to_target: gold
num_fewshot: 0
metadata: {{version: 0}}
{more}"""
    )


def run(folder, scores, name):
    return results_of(folder, scores, name)["results"][name]


def results_of(folder, scores, name):
    manager = TaskManager(include_path=str(folder), include_defaults=False)
    options = {"task_manager": manager, "bootstrap_iters": 0, "log_samples": False}
    return lm_eval.simple_evaluate(model=StoredScores(scores), tasks=[name], **options)


@pytest.fixture(autouse=True)
def offline(monkeypatch, tmp_path):
    for name in ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE"):
        monkeypatch.setenv(name, "1")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "cache"))


@pytest.fixture(scope="module")
def mmlu(shared):
    with np.load(shared / "scores" / "mmlu_base" / "orig.npz") as file:
        arrays = dict(file)
    return arrays


def scores_of(mmlu, model):
    return mmlu["scores"][list(mmlu["models"]).index(model)]


@pytest.mark.parametrize("model", MODELS)
def test_the_table_has_the_corrected_accuracy(tmp_path, mmlu, model):
    scores, gold = scores_of(mmlu, model), mmlu["gold"]
    write_task(tmp_path, "stored", gold, FILTERS + METRICS)
    table = run(tmp_path, scores, "stored")
    raw, corrected = MODELS[model]
    assert round(table["acc,none"], 4) == raw
    assert round(table["acc,bc"], 4) == round(table["likelihood,none"], 4) == corrected
    ours = bc.calibrate(scores, "bc")
    assert table["acc,bc"] == pytest.approx(float(bc.accuracy(ours, gold)), abs=1e-6)


def test_the_class_of_a_task_adds_columns(tmp_path, mmlu):
    scores, gold = scores_of(mmlu, "Mistral-7B")[:2000], mmlu["gold"][:2000]
    write_task(tmp_path, "corrected", gold, f"class: {MODULE}.CorrectedTask")
    table = run(tmp_path, scores, "corrected")
    ours = bc.calibrate(scores, "bc")
    expected = {
        "acc": bc.accuracy(scores, gold),
        "acc_bc": bc.accuracy(ours, gold),
        "balanced_acc": bc.balanced_accuracy(scores, gold),
        "balanced_acc_bc": bc.balanced_accuracy(ours, gold),
        "preference_nats": np.ptp(scores.astype(np.float64).mean(axis=0)),
    }
    for name, value in expected.items():
        assert table[f"{name},none"] == pytest.approx(float(value), abs=1e-6), name
    assert "likelihood,none" not in table


def test_a_prior_and_another_method_are_said_in_the_task(tmp_path, mmlu):
    scores, gold = scores_of(mmlu, "Gemma-7B")[:1000], mmlu["gold"][:1000]
    prior = [0.1, 0.2, 0.3, 0.4]
    write_task(tmp_path, "prior", gold, f"class: {MODULE}.CorrectedTask\n")
    file = tmp_path / "prior.yaml"
    options = f"batch_calibration: {{method: prior_matching, prior: {prior}}}"
    file.write_text(file.read_text().replace("{version: 0}", f"{{version: 0, {options}}}"))
    found = run(tmp_path, scores, "prior")["acc_prior_matching,none"]
    ours = bc.calibrate(scores, "prior_matching", target_prior=prior)
    assert found == pytest.approx(float(bc.accuracy(ours, gold)), abs=1e-6)


def test_advice_of_a_file_is_followed_by_the_task(tmp_path, mmlu):
    scores, gold = scores_of(mmlu, "Gemma-7B")[:1000], mmlu["gold"][:1000]
    advice = bc.recommend(scores, target_prior=[0.1, 0.2, 0.3, 0.4], label_names=LETTERS)
    bc.save_advice(tmp_path / "advice.json", {"any": advice})
    write_task(tmp_path, "advised", gold, f"class: {MODULE}.CorrectedTask\n")
    file, options = tmp_path / "advised.yaml", f"{{advice: {tmp_path / 'advice.json'}}}"
    metadata = f"{{version: 0, batch_calibration: {options}}}"
    file.write_text(file.read_text().replace("{version: 0}", metadata))
    found = run(tmp_path, scores, "advised")["acc_advice,none"]
    ours = advice.apply(scores)
    assert found == pytest.approx(float(bc.accuracy(ours, gold)), abs=1e-6)


def test_documents_that_differ_in_choices_are_nan_and_a_warning(tmp_path, mmlu, caplog):
    scores, gold = scores_of(mmlu, "Gemma-7B")[:20], np.zeros(20, int)
    choices = "\"{{['A', 'B', 'C'][:2 + id % 2]}}\""
    write_task(tmp_path, "mixed", gold, f"class: {MODULE}.CorrectedTask", choices)
    table = run(tmp_path, scores, "mixed")
    assert np.isnan(table["acc_bc,none"]) and np.isfinite(table["acc,none"])
    assert re.search(r"number of choices in each document.*2 and 3 choices", caplog.text)


def test_a_file_of_the_user_s_own_is_not_overwritten(tmp_path):
    for content in (b"task: boolq\n", b"\xff\xfe"):
        (tmp_path / "boolq.yaml").write_bytes(content)
        with pytest.raises(InputError, match="without your own tasks"):
            write_overlays(["boolq"], tmp_path)
        assert (tmp_path / "boolq.yaml").read_bytes() == content


def test_a_filter_in_one_process_of_several_says_so(caplog, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    documents = [{"id": 0}, {"id": 1}]
    responses = [(-1.0, True), (-2.0, False), (-3.0, False), (-1.5, True)]
    of_requests = [documents[0], documents[0], documents[1], documents[1]]
    with pytest.warns(UserWarning, match="from 2 rows"):
        corrected = integration.BatchCalibration().apply(responses, of_requests)
    assert "each of 2 processes" in caplog.text
    assert np.allclose([score for score, _ in corrected], [1.0, -0.25, -1.0, 0.25])
    assert [greedy for _, greedy in corrected] == [True, False, False, True]


def test_aggregations_see_what_all_processes_gathered(mmlu):
    scores, gold = scores_of(mmlu, "Mistral-7B"), mmlu["gold"]
    ranks = [slice(rank, None, 2) for rank in range(2)]
    # The harness gathers the values of each rank and joins them rank by rank.
    gathered = []
    for rank in ranks:
        gathered += list(zip(gold[rank].tolist(), scores[rank].tolist(), strict=True))
    assert round(integration.corrected_accuracy(gathered), 4) == 0.4836


@pytest.mark.parametrize("model", MODELS)
def test_the_command_writes_overlays_of_tasks_that_exist(tmp_path, mmlu, model):
    scores, gold = scores_of(mmlu, model), mmlu["gold"]
    own, overlays = tmp_path / "own", tmp_path / "overlays"
    own.mkdir()
    write_task(own, "stored", gold, "tag: our_tag")
    write_overlays(["our_tag"], overlays, include_path=str(own))
    results = results_of(overlays, scores, "stored")
    table = results["results"]["stored"]
    raw, corrected = MODELS[model]
    assert round(table["acc,none"], 4) == raw
    assert round(table["acc_bc,none"], 4) == corrected
    assert results["configs"]["stored"]["metadata"]["version"] == 0  # as the task's own file has it


def test_groups_of_the_harness_get_an_overlay_for_each_task(tmp_path):
    tasks, notes = write_overlays(["mmlu_stem", "truthfulqa"], tmp_path, "bc", [0.25] * 4)
    assert "mmlu_anatomy" in tasks and len(tasks) >= 19
    assert "truthfulqa_gen stays uncorrected: its output type is generate_until" in " ".join(notes)
    manager = TaskManager(include_path=str(tmp_path))
    assert manager.task_index["mmlu_anatomy"].yaml_path == tmp_path / "mmlu_anatomy.yaml"
    # The group still has all of its tasks, now ours.
    assert manager.task_index["mmlu_stem_tasks"].tags >= {name for name in tasks if "mmlu" in name}


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (["--tasks=gsm8k"], "task gsm8k: expected a task that scores choices"),
        (["--tasks=nothing_of_this_name"], "nothing_of_this_name"),
        (["--tasks=boolq", "--method=cc"], "cc"),
        (["--tasks=boolq", "--prior=a"], "a share of each choice"),
        (["--tasks=boolq", "--", "--tasks", "rte"], "--tasks before the two dashes"),
        (["--tasks=boolq", "--", "--model=dummy", "-t", "rte"], "-t before the two dashes"),
    ],
)
def test_what_cannot_be_corrected_is_a_sentence(tmp_path, capsys, monkeypatch, flags, sentence):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit, match="2"):
        command(["lm-eval", *flags])
    assert sentence in capsys.readouterr().err


def test_without_arguments_the_command_is_printed(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    command(["lm-eval", "--tasks=boolq"])
    assert "lm_eval --tasks boolq --include_path corrected_tasks" in capsys.readouterr().out
    assert "CorrectedTask" in (tmp_path / "corrected_tasks" / "boolq.yaml").read_text()


def test_the_command_runs_the_harness_and_its_log_is_read(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own").mkdir()
    write_task(tmp_path / "own", "stored", np.arange(8) % 4, "")
    flags = "--tasks=stored --include_path=own -- --model dummy --log_samples --output_path out"
    command(["lm-eval", *flags.split()])
    (results,) = (tmp_path / "out").rglob("results_*.json")
    (log,) = (tmp_path / "out").rglob("samples_*.jsonl")
    metrics = json.loads(results.read_text())["results"]["stored"]
    block = read(log, Reading())[0].blocks["test"]
    ours = bc.accuracy(bc.calibrate(block.log_probs, "bc", from_probs=False), block.labels)
    assert metrics["acc_bc,none"] == pytest.approx(float(ours), abs=1e-6)


def test_the_page_s_commands_run(tmp_path):
    """docs/plugins.md, with a task of our own and the embedded checkpoint for its capital words."""
    write_task(tmp_path, "stored", np.arange(12) % 4, "")
    page = Path(__file__).parents[2] / "docs" / "plugins.md"
    blocks = re.findall(r"```console\n(.*?)```", page.read_text(encoding="utf-8"), re.S)
    commands = [block for block in blocks if block.startswith("batch-calibration")]
    assert len(commands) == 3
    script = "".join(commands).replace("--tasks=TASK", "--tasks=stored --include_path=.")
    script = script.replace("pretrained=MODEL", f"pretrained={CHECKPOINTS['mini']},dtype=float32 "
                            "--device cpu --log_samples --output_path out")  # fmt: skip
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-ec", script], cwd=tmp_path, env=os.environ | {"PATH": path},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    for metric in ("acc_bc", "balanced_acc", "balanced_acc_bc", "preference_nats"):
        assert re.search(rf"\|{metric} *\|", done.stdout), done.stdout
    (results,) = (tmp_path / "out").rglob("results_*_corrected.json")
    (plain,) = set((tmp_path / "out").rglob("results_*.json")) - {results}
    reports = [json.loads(file.read_text()) for file in (results, plain)]
    corrected, own = (report["results"]["stored"] for report in reports)
    assert corrected["acc_bc,none"] == pytest.approx(own["acc_bc,none"], abs=1e-6)
    assert corrected["preference_nats,none"] == pytest.approx(own["preference_nats,none"], rel=1e-4)


def test_the_yaml_of_the_page_is_a_task(tmp_path, mmlu):
    scores, gold = scores_of(mmlu, "Gemma-7B")[:400], mmlu["gold"][:400]
    write_task(tmp_path, "TASK", gold, "")
    page = (Path(__file__).parents[2] / "docs" / "plugins.md").read_text(encoding="utf-8")
    block = re.findall(r"```yaml\n(.*?)```", page, re.S)[0]
    (tmp_path / "mine.yaml").write_text(f"{block}task: mine\n")
    table = run(tmp_path, scores, "mine")
    ours = float(bc.accuracy(bc.calibrate(scores, "bc"), gold))
    assert table["acc_bc,none"] == pytest.approx(ours, abs=1e-6)
