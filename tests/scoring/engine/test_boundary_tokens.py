"""Real tokenizers on real rows: a prompt's tokens and its label's make the tokens of both together.

By default a sample of each validation split; BOUNDARY_ROWS=0 takes every row.
"""

import os
import random

import pytest
from real_tokenizers import gpt2, neox, t5
from rendering import label_texts, rendered, settings_of

from batch_calibration.scoring.engine.tokens import encode
from batch_calibration.scoring.tasks import TASKS

ROWS = int(os.environ.get("BOUNDARY_ROWS", "200"))
PAPER = settings_of("main_table.py").tasks


@pytest.fixture(scope="module")
def context(shared):
    """Renders one context of the main table."""

    def make(**values):
        usual = {"data": str(shared / "data"), "over_long": "error", "labeled_per_class": 0}
        return rendered("main_table.py", **usual | values)

    return make


def sample(texts):
    return texts if not ROWS or len(texts) <= ROWS else random.Random(0).sample(texts, ROWS)


def together(tokenizer, texts):
    return [e.ids for e in tokenizer.encode_batch_fast(texts, add_special_tokens=False)]


@pytest.mark.slow_except("0-sst2-*", "0-mnli-*", "0-wic-*", "0-copa-*", "1-sst2-*", "1-mnli-*")
@pytest.mark.parametrize("make", [gpt2, neox])
@pytest.mark.parametrize("task", PAPER)
@pytest.mark.parametrize("shots", [0, 1])
def test_context_and_label_make_the_tokens_of_both_together(shared, context, task, make, shots):
    tokenizer = make(shared)
    planned = context(task=task, shots=shots)
    texts = sample(planned.blocks["test"].inputs)
    prompts, labels = encode(tokenizer, texts, label_texts(planned))
    counted = 0
    for j, label in enumerate(label_texts(planned)):
        # No prompt ends in white space, so nothing moves from it to the label.
        joint_ids = together(tokenizer, [text + label for text in texts])
        for prompt, row, ids in zip(prompts, labels, joint_ids, strict=True):
            assert [*prompt, *row[j]] == ids
            counted += 1
    assert counted == len(texts) * len(planned.label_names)


@pytest.mark.parametrize("choice", ["8", "9", "10"])
def test_emoji_pairs_are_distinct_except_under_t5(shared, context, choice, refuses):
    planned = context(task="rte", verbalizer=choice, limit=5)
    texts, labels = planned.blocks["test"].inputs, label_texts(planned)
    for make in (gpt2, neox):
        assert all(first != second for first, second in encode(make(shared), texts, labels)[1])
    error = refuses(encode, t5(shared), texts, labels)
    assert "labels {!r} and {!r}".format(*labels) in str(error)


@pytest.mark.parametrize("choice", [*TASKS["rte"].templates, ""])
def test_no_template_of_rte_changes_what_a_label_is(shared, context, choice):
    planned = context(task="rte", template=choice, limit=5)
    _, labels = encode(gpt2(shared), planned.blocks["test"].inputs, label_texts(planned))
    assert len(set(labels)) == 1
