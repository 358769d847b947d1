"""Prompts by golden text; demonstrations and probes by their laws."""

from collections import Counter

import pytest

from batch_calibration.prompts import demonstrations, probing, template
from batch_calibration.tasks import TASKS
from batch_calibration.typing import InputError

NLI = {"premise": "A dog runs.", "hypothesis": "An animal moves."}


def test_golden_few_shot_prompt():
    task = TASKS["mnli"]
    shown = [template.demonstration(task.few_shot, NLI, "yes")]
    assert template.prompt(task.few_shot, shown, NLI) == (
        "Premise: A dog runs.\nHypothesis: An animal moves.\nAnswer: yes\n\n"
        "Premise: A dog runs.\nHypothesis: An animal moves.\nAnswer:"
    )


def test_golden_zero_shot_prompt():
    task = TASKS["mnli"]
    assert template.prompt(task.template(0), [], NLI) == (
        "A dog runs.\nQuestion: An animal moves. yes, no, or maybe?\nAnswer:"
    )


@pytest.mark.parametrize("task", TASKS.values(), ids=lambda t: t.name)
def test_no_prompt_ends_in_white_space(task):
    row = dict.fromkeys(task.fields, "")
    for shots in (0, 1):
        prompt = template.prompt(task.template(shots), [], row)
        assert prompt == prompt.rstrip()
        assert template.continuation(task.template(shots), "word") == " word"


def test_a_label_on_a_line_of_its_own_takes_the_line_break():
    form = "{sentence}\nQuestion?\n{label}"
    assert template.query(form, {"sentence": "x"}) == "x\nQuestion?"
    assert template.continuation(form, "yes") == "\nyes"


def test_braces_in_a_text_are_text():
    form = "Review: {sentence}\nSentiment: {label}"
    row = {"sentence": "{sentence} {label} {0.__class__}"}
    assert template.query(form, row) == "Review: {sentence} {label} {0.__class__}\nSentiment:"


@pytest.mark.parametrize(
    ("form", "sentence"),
    [
        ("Review: {text}\nSentiment: {label}", "names text, but the rows have only sentence"),
        ("Review: {sentence}", "expected it to end in {label}"),
        ("{label}: {sentence} {label}", "which appears once"),
    ],
)
def test_bad_templates(form, sentence):
    with pytest.raises(InputError, match=sentence):
        template.check(form, ("sentence",))


LABELS = [0, 1, 2] * 20 + [-1] * 5
NAMES = ("a", "b", "c")


@pytest.mark.parametrize("shots", [0, 1, 2, 4])
def test_shots_are_per_class_distinct_and_seeded(shots):
    chosen = demonstrations.per_class(LABELS, NAMES, shots, seed=3)
    assert Counter(LABELS[i] for i in chosen) == ({c: shots for c in range(3)} if shots else {})
    assert len(set(chosen)) == len(chosen)
    assert chosen == demonstrations.per_class(LABELS, NAMES, shots, seed=3)


def test_shots_are_shuffled_across_classes():
    orders = {
        tuple(LABELS[i] for i in demonstrations.per_class(LABELS, NAMES, 1, seed))
        for seed in range(40)
    }
    assert len(orders) == 6


def test_too_few_rows_of_a_class():
    with pytest.raises(InputError, match=r"2 shots of class 'b' were asked for.*hold 1"):
        demonstrations.per_class([0, 0, 1], ("a", "b"), 2, seed=0)


def test_labeled_set_leaves_demonstrations_and_unknown_rows_out():
    chosen = demonstrations.labeled_set(LABELS, 3, 128, exclude=[0, 1, 2], seed=0)
    assert sorted(chosen) == list(range(3, 60))
    assert len(demonstrations.labeled_set(LABELS, 3, 5, [], seed=0)) == 15
    assert chosen != sorted(chosen)


def test_content_free_rows_fill_every_field():
    assert probing.content_free(["premise", "hypothesis"]) == [
        {"premise": fill, "hypothesis": fill} for fill in ("N/A", "", "[MASK]")
    ]


def test_random_words_are_in_domain_of_mean_length_and_seeded():
    rows = [{"s": "one two three"}, {"s": "four five six seven eight"}]
    made = probing.random_words(rows, ["s"], texts=20, seed=1)
    words = {word for row in rows for word in row["s"].split()}
    assert len(made) == 20
    assert all(len(row["s"].split()) == 4 and set(row["s"].split()) <= words for row in made)
    assert made == probing.random_words(rows, ["s"], 20, 1)
    assert made != probing.random_words(rows, ["s"], 20, 2)


def test_random_words_of_empty_texts():
    assert probing.random_words([{"s": ""}], ["s"], texts=2) == [{"s": ""}] * 2
