"""Labels' scores from lists of the most probable tokens: tokens of a label, and missing labels."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from batch_calibration.errors import InputError
from batch_calibration.responses.top_k import scores_of_top_k


def log(*probs):
    return [math.log(p) for p in probs]


def row(**probs):
    return {token: math.log(p) for token, p in probs.items()}


def taken(tokens, labels, named_tokens=None):
    """Label -> the tokens taken for it, of one row with so many likely tokens."""
    return scores_of_top_k([dict.fromkeys(tokens, -5.0)], labels, named_tokens).tokens


@pytest.mark.parametrize(
    ("labels", "meaning", "tokens"),
    [
        (("yes", "no"), "yes", ["yes", " yes", "Ġyes", "▁Yes", "\nYES.", "**Yes"]),
        (("yes", "no"), None, ["yesterday", "y"]),
        (("A", "B"), "A", ["(A", "A)", " A"]),
        (("A", "B"), None, ["a"]),
        (("A", "A)"), "A)", ["A)"]),
        (("A", "(A)"), "(A)", ["(A"]),
        (("us", "US"), "us", ["us"]),
        (("us", "US"), None, ["Us"]),
        (("us", "US"), "US", [" US"]),
        (("1", "2"), None, ["-1"]),
        (("C", "Java"), None, ["C#"]),
        (("!", "?"), "!", ["!"]),
        ((" yes", " no"), "yes", ["yes"]),
        (("entailment", "contradiction"), "entailment", ["ent", " Ent"]),
        (("entailment", "contradiction"), None, ["e"]),
        (("正面", "负面"), "正面", ["正"]),
        (("not entailment", "entailment"), "not entailment", [" not"]),
        (("negative", "neutral"), "negative", ["neg"]),
    ],
)
def test_tokens_mean_a_label_or_none(labels, meaning, tokens):
    for token in tokens:
        by_label = taken([token], labels)
        named = [name.strip() for name, of_label in by_label.items() if of_label]
        assert named == [meaning] * bool(meaning), token


def lists_of(tokens, least=1):
    """Up to six rows of some of the tokens with their shares."""
    shares = st.dictionaries(st.sampled_from(tokens), st.floats(0.001, 1.0), min_size=1)
    return st.lists(shares, min_size=least, max_size=6)


@given(lists_of(["yes", " yes", "Ġyes", "▁no", "No", "(no", "x", "no way", "maybe"]))
def test_sums_are_those_of_a_loop(rows):
    rows = [{t: p / sum(row.values()) for t, p in row.items()} for row in rows]
    top = scores_of_top_k([{t: math.log(p) for t, p in row.items()} for row in rows], ("yes", "no"))
    for i, row in enumerate(rows):
        for j, forms in enumerate((("yes", " yes", "Ġyes"), ("▁no", "No", "(no"))):
            total = sum(row.get(form, 0.0) for form in forms)
            np.testing.assert_allclose(np.exp(top.log_probs[i, j]), total, rtol=1e-9)


def test_tokens_that_a_person_names_are_the_only_ones_of_a_label():
    by_label = taken([" yes", " sure", "no"], ("yes", "no"), {"yes": (" sure", "token_id:7")})
    assert by_label == {"yes": (" sure",), "no": ("no",)}


def test_the_sampled_token_beyond_the_list_is_no_bound():
    """OpenAI's completions add the sampled token to the k most probable."""
    rows = [row(yes=0.5, no=0.2), row(yes=0.6, no=0.1), row(yes=0.5, maybe=0.3, no=0.01)]
    top = scores_of_top_k(rows, ("yes", "no"))
    np.testing.assert_allclose(top.bound, log(0.2, 0.1, 0.3))
    np.testing.assert_allclose(top.log_probs[2], log(0.5, 0.01))


def test_the_likeliest_beginning_is_taken_and_whole_words_come_first():
    rows = [row(ent=0.5, en=0.01, no=0.2), row(ent=0.3, enter=0.1, no=0.2)]
    assert scores_of_top_k(rows, ("entailment", "no")).tokens["entailment"] == ("ent",)
    rows.append(row(entailment=0.01, ent=0.5))
    assert scores_of_top_k(rows, ("entailment", "no")).tokens["entailment"] == ("entailment",)
    # The first word of a label comes before its parts.
    rows = [row(no=0.4, the=0.1) | {" not": math.log(0.2)}]
    assert scores_of_top_k(rows, ("not sure", "the")).tokens["not sure"] == (" not",)


@given(
    lists_of(["ent", " entail", "entailment", "no", "not", "Not sure", "the", "e"], 2),
    st.integers(1, 6),
)
def test_a_row_that_was_asked_depends_on_no_other_row(rows, asked):
    labels = ("entailment", "not sure", "no")
    rows = [{t: math.log(p / sum(row.values())) for t, p in row.items()} for row in rows]
    try:
        together = scores_of_top_k(rows, labels, asked=asked)
    except InputError:  # a label whose tokens cannot be told from another's is refused
        return
    for number, alone in enumerate(rows):
        top = scores_of_top_k([alone], labels, asked=asked)
        np.testing.assert_array_equal(together.log_probs[[number]], top.log_probs)
        np.testing.assert_array_equal(together.bound[[number]], top.bound)


def test_a_shared_beginning_counts_for_neither_and_is_refused_without_another_token(refuses):
    rows = [row(ag=0.5, of=0.1), row(agree=0.3, again=0.2)]
    top = scores_of_top_k(rows, ("agree", "again"), asked=2)
    np.testing.assert_allclose(top.log_probs, [[-np.inf] * 2, log(0.3, 0.2)])
    error = str(refuses(scores_of_top_k, rows[:1], ("agree", "again"), asked=2))
    assert "'agree' and 'again' both begin with the token 'ag'" in error


def test_a_label_that_is_a_token_leaves_its_longer_rival_missing():
    """ "ne" is no beginning of "neutral" where "negative" is one token and "neutral" may be."""
    by_label = taken(["ne", "negative"], ("negative", "neutral"))
    assert by_label == {"negative": ("negative",), "neutral": ()}


@pytest.mark.parametrize(
    ("rows", "labels", "named_tokens", "got"),
    [
        ([], "ab", None, "top-k: expected at least one row"),
        ([{}], "ab", None, "row 0: expected log-probabilities of top tokens; got none"),
        ([{"a": -9999.0, "b": math.nan}], "ab", None, "of top tokens; got none"),
        ([{"a": 0.0, "b": 0.0}], "ab", None, "2 returned tokens sum to 2"),
        ([{"ne": -1.0}], ("negative", "neutral"), None, "with the token 'ne'"),
        ([{"not": -1.0}], ("not so", "not"), None, "'not so' and 'not' both"),
        ([{"x": -1.0}], ("a", " a"), None, "labels 'a' and ' a'"),
        ([{"x": -1.0}], ("a", " "), None, "got ' '"),
        ([{"x": -1.0}], "ab", {"c": ["x"]}, "named 'c'"),
        ([{"x": -1.0}], "ab", {"a": ["x"], "b": [" x"]}, "token ' x' means both 'a' and 'b'"),
        ([{"x": -1.0}], "ab", {"a": ["b"]}, "token 'b' means both 'b' and 'a'"),
    ],
)
def test_rows_and_labels_that_are_not_plain_are_refused(rows, labels, named_tokens, got, refuses):
    assert got in str(refuses(scores_of_top_k, rows, tuple(labels), named_tokens))
