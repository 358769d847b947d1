"""Losses that show heads where to look, against loops; text that cannot be known is not learned."""

import random

import numpy as np
import pytest

from batch_calibration.scoring.embedded import label_words
from batch_calibration.scoring.tasks import TASKS
from experiments.pretrain import documents, objective, prose, vocabulary
from experiments.pretrain.documents import UNKNOWABLE, Recipe
from experiments.pretrain.grammar import suite
from experiments.pretrain.grammar.suite import GRAMMARS

MINI = {name: TASKS[name] for name in ("mnli", "sst2")}
MIX = (("mnli", 1.0), ("sst2", 1.0), ("topics", 1.0), ("copies", 1.0))
PLAIN = Recipe(MIX, shots=2, concentration=float("inf"), skew=0.0, sticky=0.0)
RECIPE = PLAIN._replace(drawn_words=0.5, permuted_words=0.2)
TOKENIZER = vocabulary.train_tokenizer(MINI, RECIPE, size=1200, texts=400, seed=0)


@pytest.fixture(scope="module")
def packed():
    source = documents.documents(MINI, RECIPE, TOKENIZER, random.Random(1))
    return documents.pack(source, rows=3, length=96)


def attention(rng, mask, heads=4):
    """Random logarithms of attention `[b, h, t, t]` that are proper where the mask allows."""
    logits = np.where(mask[:, None], rng.normal(0, 2, (len(mask), heads, *mask.shape[1:])), -1e9)
    return (logits - np.log(np.exp(logits).sum(-1, keepdims=True))).astype(np.float32)


@pytest.fixture(scope="module")
def mask(packed):
    same_document = packed.document[:, :, None] == packed.document[:, None, :]
    return same_document & np.tri(packed.tokens.shape[1], dtype=bool)


def test_the_token_before_is_where_a_document_has_one(packed, mask):
    seen = attention(np.random.default_rng(0), mask)
    b, t = np.nonzero(packed.document[:, 1:] == packed.document[:, :-1])
    terms = -seen[b, :, t + 1, t].ravel()
    total, count = objective.to_the_token_before(seen, mask)
    np.testing.assert_allclose([total, count], [sum(terms) / 4, len(terms) / 4], rtol=1e-5)


def test_a_label_is_due_where_its_word_stands_already(packed, mask):
    seen = attention(np.random.default_rng(1), mask)
    terms = []
    for b, (document, named) in enumerate(zip(packed.document, packed.named, strict=True)):
        for t in range(len(named) - 1):
            own, due = document[: t + 1] == document[t], named[t + 1]
            places = np.flatnonzero(own & (named[: t + 1] == due)) if due >= 0 else ()
            if len(places):
                shares = np.exp(seen[b, : objective.HEADS, t, places]).sum(axis=0)
                terms += (-np.log(shares)).tolist()
    total, count = objective.to_the_label(seen, mask, packed.named)
    assert len(terms) > 40
    expected = np.array([sum(terms), len(terms)]) / objective.HEADS
    np.testing.assert_allclose([total, count], expected, rtol=1e-4)


def test_what_cannot_be_known_has_no_weight(packed):
    batch = objective.make_train_batch(packed, 1.0, 10.0, np.random.default_rng(0))
    following = np.take_along_axis(packed.label, batch.read + 1, axis=1)
    assert (packed.label == UNKNOWABLE).any()
    assert not ((following == UNKNOWABLE) & (batch.weight > 0)).any()


def told(name, recipe, count=300):
    rng = random.Random(0)
    for _ in range(count):
        text, spans = documents.text(TASKS[name], recipe, rng)
        yield [(text[span.begin : span.stop].strip(), span) for span in spans]


@pytest.mark.parametrize("name", GRAMMARS)
def test_drawn_words_are_known_once_they_were_said(name):
    for spans in told(name, RECIPE._replace(drawn_words=1.0), 40):
        drawn = dict[int, str]()
        for label_word, span in spans:
            assert label_word in label_words.TRAINING and label_word not in label_words.HELD_OUT
            assert span.known == (span.label in drawn)
            assert drawn.setdefault(span.label, label_word) == label_word


@pytest.mark.parametrize("name", ["sst2", "mnli"])
def test_permuted_words_are_the_tasks_own_and_none_is_where_it_was(name):
    own = TASKS[name].label_words
    recipe = RECIPE._replace(drawn_words=0.0, permuted_words=1.0, own_words=1.0)
    for spans in told(name, recipe, 60):
        assert all(span.known and name in own and name != own[span.label] for name, span in spans)


@pytest.mark.parametrize("likelier", [0.0, 1.0])
def test_likelier_labels_are_those_that_the_grammar_gives(likelier, monkeypatch):
    """With the knob every example's label is its more probable one; drawn labels are not always."""
    right = []

    def labeled(task, rng, label, *more):
        example = suite.labeled(task, rng, label, *more)
        right.append(example.probabilities[label] == max(example.probabilities))
        return example

    monkeypatch.setattr(documents, "labeled", labeled)
    rng = random.Random(0)
    for _ in range(100):
        documents.text(TASKS["sst2"], RECIPE._replace(likelier=likelier), rng)
    assert all(right) == (likelier == 1.0) and len(right) > 100


@pytest.mark.parametrize("kind", ["topics", "copies"])
def test_drawn_prose_names_its_labels(kind):
    rng = random.Random(0)
    for _ in range(100):
        text, spans = prose.GENERATORS[kind](rng, 5)
        seen = set()
        for span in spans:
            label_word = text[span.begin : span.stop]
            assert label_word[0] == " " and label_word[1:] in label_words.TRAINING
            if kind == "topics":
                assert span.known == (label_word in seen)
            elif span.known:
                assert label_word in seen
            seen.add(label_word)


def test_a_label_stands_at_the_first_token_of_its_word(packed):
    names = documents.names(MINI)
    assert packed.named.max() >= 2 and set(np.unique(packed.label)) >= {-1, UNKNOWABLE}
    assert packed.label.max() < len(names)
    assert (packed.named[packed.label == -1] == -1).all()
