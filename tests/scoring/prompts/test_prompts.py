"""Prompts by golden text; demonstrations and probes by their laws."""

from collections import Counter
from itertools import permutations

import numpy as np
import pytest

from batch_calibration.scoring.inputs import LazyTexts, joined
from batch_calibration.scoring.prompts import demonstrations, length_limit, render, template
from batch_calibration.scoring.prompts.template import Shown, plain_text
from batch_calibration.scoring.tasks import TASKS

NLI = {"premise": "A dog runs.", "hypothesis": "An animal moves."}


def test_golden_few_shot_prompt():
    task = TASKS["mnli"]
    query = template.query(task.few_shot, NLI)
    said = "Premise: A dog runs.\nHypothesis: An animal moves.\nAnswer:"
    assert plain_text(task.few_shot)([Shown(query, "yes")])(query) == f"{said} yes\n\n{said}"


@pytest.mark.parametrize(
    "task", [task for task in TASKS.values() if not task.is_image], ids=lambda t: t.name
)
def test_no_prompt_ends_in_white_space(task):
    row = dict.fromkeys(task.fields, "")
    for shots in (0, 1):
        prompt = plain_text(task.template(shots))([])(template.query(task.template(shots), row))
        assert prompt == prompt.rstrip()
        assert template.continuation(task.template(shots), "word") == " word"


def test_braces_in_a_text_are_text():
    form = "Review: {sentence}\nSentiment: {label}"
    row = {"sentence": "{sentence} {label} {0.__class__}"}
    assert template.query(form, row) == "Review: {sentence} {label} {0.__class__}\nSentiment:"


@pytest.mark.parametrize(
    ("form", "words"),
    [
        ("Review: {text}\nSentiment: {label}", "names text"),
        ("Review: {sentence}", "end in {label}"),
        ("{label}: {sentence} {label}", "end in {label}"),
    ],
)
def test_bad_templates(form, words, refuses):
    assert words in str(refuses(template.check_fields, form, ("sentence",)))


LABELS = [0, 1, 2] * 20 + [-1] * 5
NAMES = ("a", "b", "c")


@pytest.mark.parametrize("shots", [0, 1, 2, 4])
def test_shots_are_per_class_distinct_and_seeded(shots):
    chosen = demonstrations.per_class(LABELS, NAMES, shots, seed=3)
    assert Counter(LABELS[i] for i in chosen) == ({c: shots for c in range(3)} if shots else {})
    assert len(set(chosen)) == len(chosen)
    assert chosen == demonstrations.per_class(LABELS, NAMES, shots, seed=3)


def test_shots_are_shuffled_across_classes():
    chosen = [demonstrations.per_class(LABELS, NAMES, 1, seed) for seed in range(40)]
    orders = {tuple(LABELS[i] for i in rows) for rows in chosen}
    assert len(orders) == 6


def test_too_few_rows_of_a_class(refuses):
    error = refuses(demonstrations.per_class, [0, 0, 1], ("a", "b"), 2, seed=0)
    assert (error.key, error.got) == ("shots", "1") and "class 'b'" in error.expected


def test_round_robin_takes_the_classes_in_turn():
    chosen = demonstrations.round_robin(LABELS, NAMES, 2, seed=3)
    assert [LABELS[i] for i in chosen] == [0, 1, 2, 0, 1, 2]
    assert sorted(chosen) == sorted(demonstrations.per_class(LABELS, NAMES, 2, seed=3))
    assert demonstrations.round_robin(LABELS, NAMES, 0, seed=3) == []


def test_total_counts_shots_in_all(refuses):
    draws = [demonstrations.total(LABELS, 4, seed) for seed in range(30)]
    assert all(len(set(draw)) == 4 and min(LABELS[i] for i in draw) >= 0 for draw in draws)
    assert len({tuple(draw) for draw in draws}) == 30
    assert demonstrations.total(LABELS, 4, 7) == draws[7]
    assert {LABELS[demonstrations.total(LABELS, 1, seed)[0]] for seed in range(30)} == {0, 1, 2}
    assert refuses(demonstrations.total, LABELS, 61, 0).got == "60"


IDS = [f"t/{i}" for i in range(len(LABELS))]


def test_explicit_rows_by_id_and_by_number_in_the_order_given():
    assert demonstrations.explicit(LABELS, IDS, ("t/7", 3, "t/0"), "t") == [7, 3, 0]


@pytest.mark.parametrize(
    ("rows_asked", "got"),
    [((), ""), (("t/99",), "'t/99'"), ((65,), "65"), ((-1,), "-1"), ((60,), "60 without one")],
)
def test_explicit_rows_that_cannot_be_shown(rows_asked, got, refuses):
    error = refuses(demonstrations.explicit, LABELS, IDS, rows_asked, "t")
    assert (error.key, error.got) == ("demonstrations", got)


def test_orders_of_four_are_the_24_permutations(refuses):
    chosen = [9, 4, 7, 1]
    orders = [tuple(demonstrations.reorder(chosen, i)) for i in range(24)]
    assert orders == list(permutations(chosen))
    assert refuses(demonstrations.reorder, chosen, 24).got == "24"
    assert refuses(demonstrations.reorder, chosen, -2).got == "-2"


def test_labeled_set_leaves_demonstrations_and_unknown_rows_out():
    chosen = demonstrations.labeled_set(LABELS, 3, 128, exclude=[0, 1, 2], seed=0)
    assert sorted(chosen) == list(range(3, 60))
    assert len(demonstrations.labeled_set(LABELS, 3, 5, [], seed=0)) == 15
    assert chosen != sorted(chosen)


def test_content_free_rows_fill_every_field():
    fields = ["premise", "hypothesis"]
    expected = [dict.fromkeys(fields, fill) for fill in ("N/A", "", "[MASK]")]
    assert render.content_free(fields) == expected


def test_whole_input_leaves_what_frames_it(refuses):
    forms = {
        "Premise: {a}\nHypothesis: {b}\nAnswer: {label}": "Premise: {input}\nAnswer: {label}",
        "{a}\n{b}\nIs '{c}' used alike?\nAnswer: {label}": "{input}\nAnswer: {label}",
        "{a}\nQuestion: {b}\n{label}": "{input}\n{label}",
        "Is {a} {label}": "Is {input} {label}",
    }
    for form, expected in forms.items():
        assert template.whole_input(form) == expected
    assert "'Answer: {label}'" in refuses(template.whole_input, "Answer: {label}").where


def test_random_words_as_the_original_code_makes_them():
    rows = [{"s": "One two THREE"}, {"s": "Four five six seven eight nine"}]
    drawn_texts = render.original_random_words([row["s"] for row in rows], seed=1)
    assert len(drawn_texts) == 20
    for text in drawn_texts:
        *text_words, last = text.split(" ")
        assert len(text_words) == 5 and last == "."
        assert set(text_words) <= {w.lower() for r in rows for w in r["s"].split()}
    assert render.original_random_words(["", ""]) == [" ."] * 20


def test_options_move_round_so_that_each_stands_once_in_each_place():
    row = {"q": "?", "a": "1", "b": "2", "c": "3", "d": "4"}
    moved = render.cyclic_permutations(row, ("a", "b", "c", "d"))
    assert ["".join(row[x] for x in "abcd") for row in moved] == ["1234", "2341", "3412", "4123"]
    assert all(row["q"] == "?" for row in moved)
    assert [len(render.permuted_rows(n)) for n in (1, 19, 40, 500)] == [1, 1, 2, 25]


def test_random_words_are_in_domain_of_mean_length_and_seeded():
    rows = [{"s": "one two three"}, {"s": "four five six seven eight"}]
    texts = render.random_words(rows, ["s"], texts=20, seed=1)
    row_words = {row_word for row in rows for row_word in row["s"].split()}
    assert len(texts) == 20
    assert all(len(row["s"].split()) == 4 and set(row["s"].split()) <= row_words for row in texts)
    assert texts == render.random_words(rows, ["s"], 20, 1)
    assert texts != render.random_words(rows, ["s"], 20, 2)


def test_random_words_of_empty_texts():
    assert render.random_words([{"s": ""}], ["s"], texts=2) == [{"s": ""}] * 2


class Words:
    """A budget of eight words: a prompt needs its own and the longest label's but one."""

    positions = 8

    def positions_needed(self, texts, labels):
        return [len(t.split()) + max(len(label.split()) for label in labels) - 1 for t in texts]

    def truncate_left(self, text, tokens):
        return " ".join(text.split()[tokens:])


def fit(policy, queries, labels=("yes",), budget=None):
    shown = ["d1 d1", "d2 d2"]

    def render(row, skip):
        return " ".join([*shown[skip:], queries[row]])

    rest = (render, len(queries), len(shown), labels)
    fitted = length_limit.fit_prompts(policy, budget or Words(), *rest)
    return fitted._replace(texts=list(fitted.texts))


def test_texts_are_a_sequence():
    chunks = [LazyTexts(n, f"{n}/{{}}".format) for n in (2, 0, 3)]
    texts = joined(chunks)
    assert len(texts) == 5 and list(texts) == ["2/0", "2/1", "3/0", "3/1", "3/2"]
    assert texts[-1] == "3/2" and texts[1:3] == ["2/1", "3/0"] and texts[9:] == []
    with pytest.raises(IndexError):
        texts[5]
    assert list(joined([])) == []


SHORT, MIDDLE, LONG = "a b c d", "a b c d e", "a b c d e f g h i"


def test_dropping_shots_from_the_front_row_by_row_until_each_fits():
    fitted = ["d1 d1 d2 d2 a b c d", "d2 d2 a b c d e", "b c d e f g h i"]
    assert fit("drop_shots", [SHORT, MIDDLE, LONG]) == (fitted, 2, 1)


def test_truncation_on_the_left_leaves_room_for_the_longest_label():
    fitted = fit("truncate_left", [SHORT, MIDDLE], ["yes", "it was true"])
    assert fitted == (["d2 d2 a b c d", "d2 a b c d e"], 0, 2)


def test_cutting_goes_on_where_the_rest_has_more_tokens_than_before():
    class Unlucky(Words):
        def truncate_left(self, text, tokens):
            return super().truncate_left(text, max(1, tokens - 1))

    assert fit("truncate_left", [LONG], budget=Unlucky()).texts == ["b c d e f g h i"]


@pytest.mark.parametrize("seed", range(20))
def test_one_context_for_all_leaves_out_as_few_as_let_every_prompt_fit(seed):
    """Tried one by one: the fewest demonstrations left out of every row of every block."""
    random = np.random.default_rng(seed)
    lengths = [int(n) for n in random.integers(1, 10, 7)]
    shown = ["d " * int(n) for n in random.integers(1, 4, 5)]

    def render(row, skip):
        return "".join(shown[skip:]) + "x " * lengths[row]

    def fit(skip):
        return all(len(render(row, skip).split()) <= Words.positions for row in range(7))

    fits = [skip for skip in range(6) if fit(skip)]
    renderers = [(render, 4), (lambda row, skip: render(4 + row, skip), 3)]
    assert length_limit.common_skip(Words(), renderers, 5, ["yes"]) == min(fits, default=5)


def test_error_renders_what_is_too_long_and_asks_no_budget():
    fitted = length_limit.fit_prompts("error", None, lambda row, _: LONG, 1, 0, ["yes"])
    assert (list(fitted.texts), *fitted[1:]) == ([LONG], 0, 0)


def test_over_long_sentences(refuses):
    fitting = "drop_shots", None, lambda row, _: SHORT, 1, 0, ["yes"]
    assert "'drop_shots'" in str(refuses(length_limit.fit_prompts, *fitting))
    assert "'same_context'" in str(refuses(length_limit.common_skip, None, [], 1, ["yes"]))
    error = refuses(fit, "truncate_left", [SHORT], ["a b c d e f g h i j"])
    assert "row 0: " in str(error) and "the 8 positions" in str(error)
