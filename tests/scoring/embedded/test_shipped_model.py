"""The shipped language model knows its tasks and reads its demonstrations; others do not."""

import shutil

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from batch_calibration.scoring.data.task_file import load_task
from batch_calibration.scoring.data.texts import RowReader
from batch_calibration.scoring.embedded import CHECKPOINTS
from batch_calibration.scoring.prompts.render import render
from batch_calibration.settings import Settings
from batch_calibration.studies.loading import load_scorer

pytestmark = pytest.mark.slow  # the shipped weights, which change by intention only

SETTINGS = Settings.of(model="mini", data="mini", labeled_per_class=0, dc_texts=1, shots=0)
TASKS = ("sst2", "cb", "copa", "rte", "mrpc")
READ = ("rte", "mrpc", "boolq", "qqp")
ERRORS = 5
"""Standard errors of a binomial: by chance one accuracy in millions is so far off."""


@pytest.fixture(scope="module")
def random_weights(tmp_path_factory):
    """The shipped checkpoint with every tensor drawn anew at its own scale."""
    folder = tmp_path_factory.mktemp("random") / "model"
    shutil.copytree(CHECKPOINTS["mini"], folder)
    (path,) = folder.glob("*.safetensors")
    rng = np.random.default_rng(0)
    drawn = {
        name: rng.normal(0, tensor.std() + 1e-3, tensor.shape).astype(tensor.dtype)
        for name, tensor in load_file(path).items()
    }
    save_file(drawn, path)
    return str(folder)


def right(scorer, name, change=lambda label, k: label, shots=0, seed=0, label_words="own"):
    """Of each row whether ICL is right; `change` says the labels that demonstrations show."""
    task, reader = load_task(name), RowReader()
    test, train = (reader.texts(task, "mini", split, 400) for split in ("validation", "train"))
    k = len(task.label_names)
    shown = train._replace(labels=tuple(change(label, k) for label in train.labels))
    cell = SETTINGS.cell(name, seed=seed, shots=shots, label_words=label_words)
    context = render(task, cell, test, shown)
    scores = scorer.score(context.blocks["test"].inputs, context.label_texts).log_probs
    return scores.argmax(axis=1) == np.array(test.labels), k


def above_chance(scorer, name):
    """By how many standard errors of a guess the accuracy is above chance."""
    hits, k = right(scorer, name)
    return (hits.mean() - 1 / k) / np.sqrt((1 / k) * (1 - 1 / k) / len(hits))


@pytest.mark.parametrize("name", TASKS)
def test_the_shipped_model_has_learned_its_tasks(name):
    assert above_chance(load_scorer(SETTINGS), name) > ERRORS


@pytest.mark.parametrize("name", ["rte", "boolq"])
def test_the_small_model_has_learned_to_compare_two_texts(name):
    assert above_chance(load_scorer(SETTINGS.replace(model="mini_small")), name) > ERRORS


def test_a_model_of_random_weights_has_not(random_weights):
    scorer = load_scorer(SETTINGS.replace(model=random_weights))
    assert max(above_chance(scorer, name) for name in TASKS) < ERRORS


def flipped(label, k):
    """The next label."""
    return (label + 1) % k


def read(scorer, name, label_words, seeds=2):
    """Of which share more rows it is right with gold demonstrations than with flipped ones."""
    shares = []
    for change in (lambda label, k: label, flipped):
        options = {"shots": 1, "label_words": label_words}
        hits = [right(scorer, name, change, seed=seed, **options)[0] for seed in range(seeds)]
        shares.append(np.mean(hits))
    return shares[0] - shares[1]


@pytest.mark.parametrize("label_words", ["own", "held_out"])
@pytest.mark.parametrize("name", READ)
def test_the_shipped_model_reads_its_demonstrations(name, label_words):
    """docs/mini.md: it follows the labels that are shown, also words that it never met as labels.

    One that knows its answers from training alone is as often right with flipped labels.
    """
    assert read(load_scorer(SETTINGS), name, label_words) > 0.2


def test_the_small_model_reads_nothing():
    """It never saw drawn label words: the same test would fail of it."""
    assert abs(read(load_scorer(SETTINGS.replace(model="mini_small")), "rte", "own")) < 0.1
