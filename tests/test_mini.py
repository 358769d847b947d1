"""The embedded world: fair rows, honest hold-out, text with statistics, training that resumes."""

import json
import random
import subprocess
import sys
from collections import Counter
from itertools import pairwise
from pathlib import Path

import jax
import numpy as np
import pytest
import safetensors.numpy
from flax import nnx

from batch_calibration.mini import chance, documents, suite, training, vocabulary
from batch_calibration.mini.documents import Recipe
from batch_calibration.tasks import TASKS
from batch_calibration.typing import InputError

MINI = {name: TASKS[name] for name in suite.GRAMMARS}
RECIPE = Recipe(tuple(MINI), {"sst2": 9, "mnli": 13})


def examples(task, test, count=1500):
    rng = random.Random(0)
    return [suite.example(task, rng, test) for _ in range(count)]


@pytest.mark.parametrize("task", MINI)
def test_train_and_test_share_no_word_pair(task):
    pairs = [{p for made in examples(task, test) for p in made.pairs} for test in (False, True)]
    assert pairs[0] and pairs[1] and not pairs[0] & pairs[1]
    texts = [{str(row) for row in suite.rows(task, split).rows} for split in suite.SIZES]
    assert not texts[0] & texts[1]


@pytest.mark.parametrize("task", MINI)
def test_chances_are_a_distribution_and_labels_are_balanced(task):
    made = examples(task, test=True)
    assert all(abs(sum(one.chances) - 1) < 1e-9 for one in made)
    shares = np.mean([one.chances for one in made], axis=0)
    np.testing.assert_allclose(shares, 1 / len(shares), atol=0.03)


@pytest.mark.parametrize("task", MINI)
def test_best_accuracy_is_known_and_below_one(task):
    best = suite.best_accuracy(task, "validation")
    assert 0.7 < best < 0.95
    rows = suite.rows(task, "validation")
    assert len(rows.rows) == suite.SIZES["validation"]
    assert {one.grade for one in examples(task, test=True)} == {1, 2, 3}


def test_one_text_alone_does_not_tell_the_inference():
    """Predicting each hypothesis's commonest label in train stays near chance on held-out rows."""
    seen: dict[str, Counter] = {}
    rng = random.Random(1)
    for one in examples("mnli", test=False, count=6000):
        claim = one.row["hypothesis"].split(" ", 2)[2]
        seen.setdefault(claim, Counter())[chance.draw(one.chances, rng)] += 1
    right = []
    for one in examples("mnli", test=True):
        claim = one.row["hypothesis"].split(" ", 2)[2]
        right.append(seen[claim].most_common(1)[0][0] == chance.draw(one.chances, rng))
    assert np.mean(right) < 0.40


def test_rows_are_the_same_on_every_machine():
    assert suite.rows("sst2", "validation") == suite.rows("sst2", "validation")
    assert suite.rows("sst2", "validation", seed=1) != suite.rows("sst2", "validation")


def test_documents_carry_the_sources_of_bias():
    rng = random.Random(0)
    words, runs, again = Counter(), 0, 0
    for _ in range(1500):
        text, spans = documents.text(MINI["sst2"], RECIPE, rng)
        labels = [text[start:stop].strip() for start, stop in spans]
        words.update(labels)
        runs += len(labels) - 1
        again += sum(a == b for a, b in pairwise(labels))
        assert all(text[stop : stop + 2] in ("\n\n", "") for _, stop in spans)
    assert words["positive"] > 1.4 * words["negative"]
    assert set(words) == {"positive", "negative", "good", "bad", "great", "terrible"}
    assert again / runs > 0.65


def test_tokens_of_labels_are_marked_and_any_text_encodes():
    tokenizer = vocabulary.learn(MINI, RECIPE, size=600, texts=200, seed=0)
    source = documents.documents(MINI, RECIPE, tokenizer, random.Random(2))
    made = next(source)
    marked = tokenizer.decode([t for t, label in zip(*made, strict=True) if label])
    assert set(marked.split()) <= {w for t in MINI for w in MINI[t].words} | {
        w for sets in documents.VERBALIZERS.values() for words in sets for w in words
    }
    packed = documents.batch(source, rows=3, length=64)
    assert packed.tokens.shape == (3, 64) and packed.document.min() == 0
    starts = packed.positions == 0
    np.testing.assert_array_equal(np.cumsum(starts, axis=1) - 1, packed.document)
    for text in ("👍🏽 ✔️", "naïve café", "\x00\t", "日本語"):
        assert tokenizer.decode(tokenizer.encode(text).ids, skip_special_tokens=False) == text


def train(tmp_path, stop_at=None):
    """Sixteen steps of a tiny network; its weights and losses, in the order of the steps."""
    tokenizer = vocabulary.learn(MINI, RECIPE, size=400, texts=100, seed=0)
    raw = {"vocab_size": tokenizer.get_vocab_size(), "n_positions": 64, "n_embd": 16,
           "n_layer": 1, "n_head": 2}  # fmt: skip
    losses = []

    def report(now):
        losses.append(now.loss)
        if now.step == stop_at:
            raise KeyboardInterrupt

    # optax's schedules mix Python floats and integer counts.
    with jax.numpy_dtype_promotion("standard"):
        model = training.train(
            raw, MINI, tokenizer, (training.Phase(16, 2, 64, RECIPE),),
            training.Optimizer(peak=1e-2), 0, tmp_path / "state.safetensors", 8, report,
        )  # fmt: skip
    return [np.asarray(leaf) for leaf in jax.tree.leaves(nnx.state(model))], losses


def test_a_stopped_training_goes_on_to_the_very_same_weights(tmp_path):
    whole, losses = train(tmp_path / "whole")
    assert losses[-1] < losses[0] - 0.3
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path / "torn", stop_at=11)
    torn, rest = train(tmp_path / "torn")
    assert rest == losses[8:]
    for one, other in zip(whole, torn, strict=True):
        np.testing.assert_array_equal(one, other)


def test_state_of_another_shape_is_refused(tmp_path):
    (tmp_path / "w").mkdir()
    safetensors.numpy.save_file(
        {"00000": np.zeros(3, np.float32)}, tmp_path / "w/state.safetensors", {"step": "8"}
    )
    with pytest.raises(InputError, match=r"a run of another shape .* delete the file"):
        train(tmp_path / "w")


def test_the_smoke_run_writes_a_directory_that_scores(tmp_path, program):
    program("train_mini", "--config=configs/train_mini.py:smoke", f"--out={tmp_path / 'out'}",
            f"--workdir={tmp_path / 'w'}")  # fmt: skip
    curve = [
        json.loads(line) for line in (tmp_path / "w/curve.jsonl").read_text().split("\n") if line
    ]
    assert curve[-1]["loss"] < curve[0]["loss"] - 0.5
    program("score", "--config=configs/mini.py:smoke", f"--config.model={tmp_path / 'out'}",
            f"--workdir={tmp_path / 'w'}")  # fmt: skip
    assert len(list((tmp_path / "w/scores").glob("*.safetensors"))) == 2


def test_the_curve_of_a_stopped_run_has_each_step_once(tmp_path):
    """Read in a process of its own: a program's flags are defined once."""
    path = tmp_path / "curve.jsonl"
    path.write_text('\n{"step": 1, "loss": 3}\n{"step": 2, "loss": 2}\n{"step": 3, "lo\n'
                    '{"step": 2, "loss": 2.5}\n{"step": 3, "loss": 1}\n')  # fmt: skip
    code = (
        "from pathlib import Path; from experiments.train_mini import read_curve; "
        f"print([(r['step'], r['loss']) for r in read_curve(Path({str(path)!r}))])"
    )
    root = Path(__file__).resolve().parents[1]
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[(1, 3), (2, 2.5), (3, 1)]"
