"""Training of the mini language model: resumes, opens gates, shares rows, reads without bias."""

import random

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import safetensors.numpy
from flax import nnx
from processes import python

from batch_calibration.errors import InputError
from batch_calibration.scoring.models import gpt2
from batch_calibration.scoring.models.attention import self_attention
from batch_calibration.scoring.tasks import TASKS
from experiments.pretrain import documents, vocabulary
from experiments.pretrain import train_language_model as training
from experiments.pretrain.documents import Recipe
from experiments.pretrain.progress import TrainingProgress, draw_curve, read_curve
from experiments.pretrain.train_language_model import TextStage

MINI = {name: TASKS[name] for name in ("mnli", "sst2")}
RECIPE = Recipe((("mnli", 1.0), ("sst2", 1.0)), shots=1)
TOKENIZER = vocabulary.train_tokenizer(MINI, RECIPE, size=400, texts=100, seed=0)
RAW = {"vocab_size": TOKENIZER.get_vocab_size(), "n_positions": 64}
RAW |= {"n_embd": 16, "n_layer": 1, "n_head": 2}
TWO = (TextStage(10, 4, 64, RECIPE, (1e-2, 1e-2)), TextStage(6, 2, 48, RECIPE, (1e-2, 0.0)))


def train(tmp_path, stages=TWO, stop_at=None, shared=training.Hyperparameters(warmup=3)):  # noqa: B008
    """A tiny network's weights, the steps of each stage, and what each step said."""
    reports = []

    def report(step_report):
        reports.append(step_report)
        if sum(step_report.steps) == stop_at:
            raise KeyboardInterrupt

    # optax mixes Python floats and integer counts.
    with jax.numpy_dtype_promotion("standard"):
        state = tmp_path / "state.safetensors"
        model, steps = training.train(RAW, MINI, TOKENIZER, stages, shared, 0, state, 4, report)
    paths = jax.tree_util.tree_leaves_with_path(nnx.state(model))
    weights = {jax.tree_util.keystr(path): np.asarray(leaf) for path, leaf in paths}
    return weights, steps, reports


def gated(nats, steps=70, later=5):
    recipe = Recipe((("mnli", 1.0),), shots=1, hardest=1)
    first = TextStage(steps, 2, 64, recipe, (1e-2, 1e-2), (("mnli",), nats))
    return first, TextStage(later, 2, 64, RECIPE, (1e-2, 1e-3))


@pytest.mark.slow
def test_a_stage_ends_when_its_gate_opens_and_a_later_one_does_not_notice(tmp_path):
    _, steps, reports = train(tmp_path / "open", gated(50.0))
    assert steps == [50, 5] and reports[0].size == 2 * 64
    assert reports[49].loss < reports[0].loss - 0.3
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path / "torn", gated(50.0), stop_at=52)
    resumed = train(tmp_path / "torn", gated(50.0))
    assert resumed[1] == steps and resumed[2] == reports[50:]


def test_a_gate_asks_for_the_mean_over_the_labels_of_fifty_steps():
    stage = TWO[0]._replace(steps=200, gate=(("mnli",), 0.75))
    over = training._stage(0, stage, 0, list(MINI)).over
    recent = np.zeros((50, 2, 2), np.float32)
    recent[:, :, 0] = 0.9, 1
    recent[10, :, 0] = 0.0, 20  # steps weigh as their labels are many: 0.639 a label, 0.882 a step
    assert over(50, recent) and over(61, recent) and not over(49, recent)
    recent[10, :, 0] = 0.0, 5
    assert not over(50, recent) and not over(199, recent)
    assert training._stage(0, TWO[0], 0, list(MINI)).over(10, recent)


@pytest.mark.slow
def test_a_gate_that_stays_shut_keeps_the_state_and_says_what_to_do(tmp_path):
    with pytest.raises(InputError, match=r"stage 1: after 8 steps .* mnli \d\.\d+, expected below "
                       r"0\.01; the state is saved: raise the stage's steps"):  # fmt: skip
        train(tmp_path, gated(0.01, steps=8))
    with pytest.raises(InputError, match="after 8 steps"):
        train(tmp_path, gated(0.01, steps=8))
    _, steps, reports = train(tmp_path, gated(50.0, steps=70))
    assert steps == [50, 5] and reports[0].steps == (9,)


@pytest.mark.slow
def test_rates_are_of_the_stage_alone():
    begin, later = (training._stage(k, TWO[k], 4, list(MINI)) for k in (0, 1))
    np.testing.assert_allclose([begin.rate(i) for i in range(5)], np.array([1, 2, 3, 4, 4]) / 400)
    np.testing.assert_allclose([later.rate(i) for i in (0, 3)], [1e-2, 5e-3])


@pytest.mark.slow
@pytest.mark.parametrize("lost", ["shape", "steps", "stage"])
def test_the_state_of_another_run_is_refused(tmp_path, lost, refuses):
    path = tmp_path / "state.safetensors"
    if lost == "shape":
        safetensors.numpy.save_file({"00000": np.zeros(3, np.float32)}, path, {"steps": "[8]"})
    else:
        train(tmp_path)
        arrays = safetensors.numpy.load_file(path)
        metadata = {"step": "8"} if lost == "steps" else {"steps": "[8, 8, 8]"}
        safetensors.numpy.save_file(arrays, path, metadata)
    assert refuses(train, tmp_path).where == str(path)


def test_stages_that_cannot_be(tmp_path, monkeypatch, refuses):
    monkeypatch.setattr(jax, "device_count", lambda: 2)
    assert refuses(train, tmp_path, (TWO[0]._replace(rows=3),)).got == "rows = 3"


GROWN = (
    TextStage(5, 2, 64, RECIPE, (1e-2, 1e-2)),
    TextStage(6, 2, 64, RECIPE, grown_to=3, guidance=1.0, frozen="all but the added layers"),
    TextStage(4, 2, 64, RECIPE, frozen="words"),
)


@pytest.mark.slow
def test_added_layers_leave_the_rest_as_it_was_and_frozen_arrays_stay(tmp_path):
    """After each stage the arrays that it was to leave alone are unchanged, to the bit."""
    trained = [train(tmp_path / str(count), GROWN[:count]) for count in (1, 2, 3)]
    assert [steps for _, steps, _ in trained] == [[5], [5, 6], [5, 6, 4]]
    first, second, third = (state for state, *_ in trained)
    assert not set(first) - set(second) and len(second) == len(first) + 2 * 12
    for name, array in first.items():
        np.testing.assert_array_equal(second[name], array)
    assert any((first[name] != third[name]).any() for name in first)
    unchanged = {name for name in second if (second[name] == third[name]).all()}
    assert {name for name in second if "['embed']" in name} == unchanged


@pytest.mark.slow
def test_a_stopped_training_goes_on_to_the_very_same_weights(tmp_path):
    expected, steps, reports = train(tmp_path / "whole", GROWN)
    assert steps == [5, 6, 4] and [progress.step for progress in reports] == list(range(1, 16))
    assert "attention to the label" in reports[5].metrics and reports[6].steps == (5, 2)
    for stop_at in (3, 8, 13):
        with pytest.raises(KeyboardInterrupt):
            train(tmp_path / "torn", GROWN, stop_at=stop_at)
    torn, _, later = train(tmp_path / "torn", GROWN)
    assert later == reports[11:] and set(reports[0].metrics) <= set(MINI)
    assert expected.keys() == torn.keys()
    for name, array in expected.items():
        np.testing.assert_array_equal(array, torn[name])


@pytest.mark.parametrize(
    ("why", "stages"),
    [
        ("got 4", (GROWN[0], GROWN[1]._replace(grown_to=4))),
        ("got 5", (*GROWN, GROWN[1]._replace(grown_to=5))),
        ("grown_to=3", (GROWN[0], GROWN[0]._replace(guidance=1.0))),
        ("attention to", (TWO[0]._replace(gate=(("attention to the label",), 1.0)),)),
        ("'word'", (TWO[0]._replace(frozen="word"),)),
        ("reach = 65", (TextStage(1, 2, 64, RECIPE._replace(reach=65)),)),
        ("'trec'", (TextStage(1, 2, 64, RECIPE._replace(mix=(("trec", 1.0),))),)),
        ("anli_r3", (TextStage(1, 2, 64, RECIPE._replace(mix=(("anli_r3", 1.0),), hardest=2)),)),
    ],
)
def test_stages_that_cannot_be_are_refused_before_anything_is_made(why, stages, refuses):
    assert why in str(refuses(training.check_stages, stages, RAW, 1))


def made_batch():
    source = documents.documents(MINI, RECIPE, TOKENIZER, random.Random(1))
    return documents.pack(source, rows=2, length=64)


@pytest.mark.slow
def test_the_loss_of_all_positions_is_the_plain_one():
    batch, config = made_batch(), gpt2.Config(**RAW)
    model = gpt2.Model(config, rngs=nnx.Rngs(3))
    same_document = batch.document[:, :, None] == batch.document[:, None, :]
    seen = jnp.asarray(same_document & np.tri(64, dtype=bool))  # [b, t, s]

    def attend(layer, heads):
        return self_attention(heads, seen)[0]

    logits = model.unembed(model.hidden(batch.tokens, batch.positions, attend))[:, :-1]
    nll = optax.softmax_cross_entropy_with_integer_labels(logits, batch.tokens[:, 1:])
    nll = np.asarray(nll)
    within_document = batch.document[:, 1:] == batch.document[:, :-1]
    weight = np.where(batch.label[:, 1:] >= 0, 10.0, 1.0) * within_document
    full_batch = training.make_train_batch(batch, 1.0, 10.0, np.random.default_rng(0))
    loss, labels = training.loss(model, full_batch, 2)
    np.testing.assert_allclose(loss, (nll * weight).sum() / weight.sum(), rtol=1e-5)
    for task in (0, 1):
        of_task = within_document & (batch.label[:, 1:] == task)
        expected = [(nll * of_task).sum(), of_task.sum()]
        np.testing.assert_allclose(labels[:, task], expected, rtol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.05, 1 / 3])
def test_what_is_read_counts_for_what_is_not(share):
    """Summed over many choices, each position weighs as it does where all are read."""
    batch, rng = made_batch(), np.random.default_rng(0)
    full_batch = training.make_train_batch(batch, 1.0, 10.0, rng)
    expected, got = np.zeros((2, 64)), np.zeros((2, 64))
    row = np.arange(2)[:, None]
    np.add.at(expected, (row, full_batch.read), full_batch.weight)
    for _ in range(4000):
        partial_batch = training.make_train_batch(batch, share, 10.0, rng)
        assert partial_batch.read.shape == (2, np.ceil(share * 63))
        np.testing.assert_allclose(partial_batch.weight.sum(1), full_batch.weight.sum(1), rtol=1e-5)
        np.add.at(got, (row, partial_batch.read), partial_batch.weight / 4000)
    assert abs(got - expected).max() < (1.5 if share < 0.1 else 0.15)


@pytest.mark.slow
def test_four_devices_learn_as_one_does(tmp_path):
    code = (
        "import sys; sys.path[:0] = ['tests', 'tests/experiments']; from pathlib import Path; "
        "import jax; "
        "import test_train_mini as t; stages = tuple(s._replace(rows=4) for s in t.TWO); "
        f"print(jax.device_count(), *[s.loss for s in t.train(Path({str(tmp_path)!r}) / "
        "str(jax.device_count()), stages)[2]])"
    )
    losses = {}
    for devices in (1, 4):
        forced = f"--xla_force_host_platform_device_count={devices}"
        done = python("-c", code, env={"XLA_FLAGS": forced})
        count, *losses[devices] = map(float, done.stdout.split())
        assert count == devices
    np.testing.assert_allclose(losses[1], losses[4], atol=1e-5, rtol=0)


@pytest.mark.slow
def test_the_smoke_run_writes_a_directory_that_scores(tmp_path, program):
    flags = f"--out={tmp_path / 'out'}", f"--workdir={tmp_path / 'w'}"
    process = program("train_mini", "--config=configs/train_mini.py:smoke", *flags, process=True)
    assert "stage 1: 50 steps" in process.stdout and "mnli" in process.stdout
    curve = read_curve(tmp_path / "w/curve.jsonl")
    assert curve[-11]["loss"] < curve[0]["loss"] - 0.5
    assert "attention to the label" in curve[-1] and "attention to the label" not in curve[-11]
    assert (tmp_path / "w/curve.png").is_file()
    flags = f"--config.model={tmp_path / 'out'}", f"--workdir={tmp_path / 'w'}"
    program("score", "--config=configs/mini.py:smoke", *flags)
    assert list((tmp_path / "w/scores").glob("*.safetensors"))


def test_the_curve_has_a_line_for_each_task():
    rows = [{"step": i, "loss": 2.0} | ({"mnli": 1.0 + i % 2} if i % 3 else {}) for i in range(90)]
    figure = draw_curve(rows, [40, 90], tasks=["mnli", "sst2"])
    lines = {line.get_label(): line for line in figure.axes[0].get_lines()}
    assert len(lines["mnli"].get_xdata()) == 60 - 24 and len(lines["sst2"].get_xdata()) == 0
    assert len([line for line in lines.values() if line.get_linestyle() == ":"]) == 1


def test_the_curve_of_a_stopped_run_has_each_step_once(tmp_path):
    path = tmp_path / "curve.jsonl"
    path.write_text('\n{"step": 1, "loss": 3}\n{"step": 2, "loss": 2}\n{"step": 3, "lo\n'
                    '{"step": 2, "loss": 2.5}\n{"step": 3, "loss": 1}\n')  # fmt: skip
    assert [(r["step"], r["loss"]) for r in read_curve(path)] == [(1, 3), (2, 2.5), (3, 1)]


def test_progress_keeps_every_step_and_prints_means(tmp_path, capsys):
    with TrainingProgress(tmp_path / "curve.jsonl", 2, "tokens") as progress:
        for step, loss in enumerate((4.0, 2.0, 1.0), 1):
            progress.step(step, {"loss": loss}, done=10 * step, left=30 - 10 * step)
    rows = read_curve(tmp_path / "curve.jsonl")
    assert [(row["step"], row["loss"]) for row in rows] == [(1, 4.0), (2, 2.0), (3, 1.0)]
    stdout = capsys.readouterr().out
    assert "step 2  loss 3.000" in stdout and "step 3  loss 1.000" in stdout
