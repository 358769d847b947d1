"""The program that shows what a model will see, as a person types it."""

import shutil

import pytest

from batch_calibration.scoring.embedded import CHECKPOINTS

MINI = "--config=configs/mini.py:smoke"


def test_prompts_probes_boundary_and_cost_without_weights(program, tmp_path):
    for name in ("config.json", "tokenizer.json"):
        shutil.copy(CHECKPOINTS["mini"] / name, tmp_path / name)
    flags = f"--config.model={tmp_path}", "--config.tasks=sst2", "--rows=2"
    stdout = program("show", MINI, *flags).stdout
    assert stdout.startswith("beginning token: none, from tokenizer.json's post-processor\n")
    assert "=== sst2, seed 0, 1 shots" in stdout
    assert "label negative: ' negative'\nlabel positive: ' positive'" in stdout
    sizes = "test: 40, cc: 3, dc: 20, labeled: 32, cc_original: 3, dc_original: 20, pmi: 1, looc: 2"
    for block in sizes.split(", "):
        assert f"--- block {block} rows; read by " in stdout
    assert "\n\nReview: N/A\nSentiment:|\n" in stdout
    assert stdout.count("[mini/sst2/validation/") == 2 and stdout.count("[dc/0/") == 2
    assert "'ĠnegativeX'" not in stdout and "| 'Ġnegative'  (' negative')" in stdout
    assert "of 576 positions" in stdout
    line = next(line for line in stdout.splitlines() if line.strip().startswith("all "))
    contexts, rows, read, unique_tokens = (int(n.replace(",", "")) for n in line.split()[1:])
    assert (contexts, rows) == (1, 121) and unique_tokens < read


def test_without_a_model_only_texts_are_shown(program, shared):
    flags = f"--config.data={shared / 'data'}", "--config.tasks=rte", "--rows=1"
    stdout = program("show", "--config=configs/main_table.py:smoke", *flags).stdout
    assert stdout.startswith("--model is empty")
    assert "--- tokens" not in stdout and "Hypothesis:" in stdout


def test_shortened_prompts_are_counted(program, shared):
    flags = f"--config.data={shared / 'data'}", "--config.tasks=cb", "--rows=1", "--no-cost"
    config = "--config=configs/main_table.py:smoke"
    stdout = program("show", config, "--config.model=mini", *flags).stdout
    assert "over_long drop_shots" in stdout and " dropped" in stdout
    assert "the whole sweep" not in stdout


def test_a_dual_encoder_compares_texts_with_statements(program):
    flags = "--config.scorer=dual_encoder", "--config.model=mini_clip", "--config.shots=0"
    stdout = program("show", MINI, *flags, "--config.tasks=sst2").stdout
    assert "label positive: 'A positive movie review.'" in stdout and "--- tokens" not in stdout
    line = next(line for line in stdout.splitlines() if line.strip().startswith("all "))
    read, unique_tokens = (int(n.replace(",", "")) for n in line.split()[-2:])
    assert 0 < unique_tokens <= read


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        ([MINI, "--rows=0"], "rows"),
        ([MINI, "--config.model=./nowhere"], "nowhere: expected a checkpoint"),
        ([MINI, "--config.order=5"], "or -1 (as drawn); got 5"),
        (["--config=configs/main_table.py", "--config.tasks=('rte',)"], "got nothing: give one"),
    ],
)
def test_wrong_input(program, flags, sentence):
    process = program("show", *flags, code=2)
    assert sentence in process.stderr and "Traceback" not in process.stderr
