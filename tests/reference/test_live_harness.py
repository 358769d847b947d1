"""lm-evaluation-harness asks the embedded checkpoint; its log says what our own scorer says.

500 rows of the embedded SST-2 and of the embedded CB, two demonstrations, float32 on a CPU. With
lm-eval 0.4.13, torch 2.13.0 and transformers 5.23.0 the log-probabilities are 1.2e-5 (SST-2) and
1.0e-5 nats (CB) apart at most, and `acc` is 0.750 and 0.734 in both.
"""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("lm_eval", reason="needs lm-evaluation-harness: run `make reference`")

from cases import harness_task

from batch_calibration import importers
from batch_calibration.files.rows import json_rows
from batch_calibration.scoring.causal_lm import CausalLM
from batch_calibration.scoring.embedded import CHECKPOINTS, suite
from batch_calibration.scoring.models.files.checkpoint import load_checkpoint
from batch_calibration.scoring.prompts import template as templates
from batch_calibration.scoring.tasks import TASKS

NAMES = ("sst2", "cb")
CLOSE = 1e-3


def write_task(folder, name):
    """Rows as JSON Lines, and a task of the harness that reads them."""
    task, rows = TASKS[name], {}
    for split in ("train", "validation"):
        read = suite.read_rows(name, split)
        texts = [templates.query(task.few_shot, row) for row in read.rows]
        rows[split] = zip(texts, read.labels, strict=True)
    choices = [task.verbalizer[label] for label in task.label_names]
    metrics = [{"metric": "acc"}, {"metric": "acc_mutual_info"}]
    config = harness_task(f"mini_{name}", folder, rows, choices, metric_list=metrics)
    # JSON is YAML.
    (folder / f"mini_{name}.yaml").write_text(json.dumps(config))


@pytest.fixture(scope="module")
def logs(tmp_path_factory):
    """The folder of the harness's logs."""
    folder = tmp_path_factory.mktemp("harness")
    for name in NAMES:
        write_task(folder, name)
    offline = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "HF_HOME": str(folder / "cache")}
    command = [
        *(sys.executable, "-m", "lm_eval", "--model", "hf", "--device", "cpu"),
        *("--model_args", f"pretrained={CHECKPOINTS['mini']},dtype=float32", "--batch_size", "32"),
        *("--tasks", ",".join(f"mini_{name}" for name in NAMES), "--include_path", str(folder)),
        *("--log_samples", "--output_path", str(folder / "out")),
    ]
    done = subprocess.run(
        command, cwd=folder, env=os.environ | offline, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "out"


@pytest.mark.parametrize("name", NAMES)
def test_our_scores_are_the_harness_s(name, logs):
    (path,) = logs.rglob(f"samples_mini_{name}_*.jsonl")
    (results,) = logs.rglob("results_*.json")
    (table,) = importers.read(path)
    block = table.blocks["test"]
    task = TASKS[name]
    labels = [f" {task.verbalizer[label]}" for label in task.label_names]
    assert table.label_names == tuple(label.strip() for label in labels)
    prompts = [row["arguments"]["gen_args_0"]["arg_0"] for _, row in json_rows(path)]
    ours = CausalLM(load_checkpoint(CHECKPOINTS["mini"])).score(prompts, labels).log_probs
    distance = float(np.abs(ours - block.log_probs).max())
    assert distance < CLOSE
    reported = json.loads(results.read_text())["results"][f"mini_{name}"]
    accuracy = float((block.log_probs.argmax(axis=1) == block.labels).mean())
    assert accuracy == reported["acc,none"]
    alone = block.log_probs - table.blocks["pmi"].log_probs
    assert float((alone.argmax(axis=1) == block.labels).mean()) == reported["acc_mutual_info,none"]
    assert block.labels.tolist() == list(suite.read_rows(name, "validation").labels)
    assert table.context["shots"] == 2 and len(block.labels) == 500
    # Two demonstrations for all: one context, and nothing else to be said of the log.
    assert not any("demonstrations" in note for note in block.spec.get("notes", ()))
    assert not any("accuracy" in note for note in block.spec.get("notes", ()))
    print(f"{name}: {distance:.1e} nats apart at most, accuracy {accuracy}, notes {block.spec}")


def test_the_console_program_makes_the_page_of_the_logs(logs, tmp_path, capsys):
    from batch_calibration import cli

    cli.run(["report", str(logs), f"--output={tmp_path / 'page.html'}"])
    assert "mini_sst2" in capsys.readouterr().out
    text = (tmp_path / "page.html").read_text()
    assert "mini_cb" in text and "Accuracy in %" in text and "Advised" in text
