"""Joint tokenization and the label trie."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from real_tokenizers import gpt2
from tiny import byte_level, whole_text
from tokenizers import Regex, normalizers, pre_tokenizers

from batch_calibration.scoring.engine import tokens, trie
from batch_calibration.scoring.engine.batches import batches, bucket, group_prompts
from batch_calibration.scoring.engine.tokens import encode, splits_at_spaces
from batch_calibration.scoring.models.files import tokenizer_files

WORDS = st.text(st.sampled_from(" \n.,'sta1é👍"), max_size=12)


def joint(tokenizer, text, label):
    """lm-evaluation-harness's rule, one pair at a time."""
    stem = text.rstrip()
    ids = tokenizer.encode(text + label, add_special_tokens=False).ids
    prompt = tokenizer.encode(stem, add_special_tokens=False).ids
    return prompt, tuple(ids[len(prompt) :])


def agree(tokenizer, texts, labels, bos=None):
    encoded = encode(tokenizer, texts, labels, bos)
    for row, text in enumerate(texts):
        pairs = [joint(tokenizer, text, label) for label in labels]
        assert encoded.prompts[row] == [bos][: bos is not None] + pairs[0][0]
        assert encoded.labels[row] == tuple(ids for _, ids in pairs)


@pytest.mark.parametrize("make", [byte_level, whole_text])
@given(st.lists(WORDS, min_size=1, max_size=5), WORDS)
def test_equals_joint_encoding_of_each_pair(make, tails, head):
    tokenizer = TOKENIZERS.setdefault(make, make())
    texts = [f"{head} a: {tail}." for tail in tails]
    agree(tokenizer, texts, [" positive", " negative", "\nso so"])


TOKENIZERS: dict = {}


def test_real_gpt2_tokenizer(shared):
    assert splits_at_spaces(gpt2(shared))
    shots = "Review: don't\n\n  even 12 -- bother!!\nSentiment: bad\n\n"
    texts = [shots + f"Review: {x}\nSentiment:" for x in ("a  b", "it's\t é", "👍 \n", "")]
    agree(gpt2(shared), texts, [" positive", " negative", "\U0001f44d", "\nok"], bos=50256)


def test_trailing_space_moves_to_the_label():
    a, b = byte_level(), ["Sentiment:"]
    assert encode(a, ["Sentiment: "], ["positive"]) == encode(a, b, [" positive"])


def test_sentences(refuses):
    tokenizer = byte_level()
    assert refuses(encode, tokenizer, ["a"], []).where == "labels"
    assert refuses(encode, tokenizer, ["a"], [" b", ""]).where == "label ''"
    assert "' b' and ' b'" in str(refuses(encode, tokenizer, ["a"], [" b", " c", " b"]))
    assert refuses(encode, tokenizer, ["a", "  "], [" b", " c"], first=7).where == "row 8"


@pytest.mark.parametrize(("wrong", "shown"), [("half \ud800", "half"), (3, "3"), (None, "None")])
def test_the_first_that_is_no_text_is_named(refuses, wrong, shown):
    error = refuses(tokens.token_ids, byte_level(), ["fine", wrong, "also fine"])
    assert error.where == "a text" and shown in error.got and "fine" not in error.got


def test_trie_shares_beginnings():
    built = trie.build_trie(((7, 8, 9), (7, 8), (7, 6, 5), (4,)))
    # nodes in preorder: 7, 7 6, 7 8
    assert built.tokens.tolist() == [7, 6, 8]
    assert built.depths.tolist() == [0, 1, 1]
    assert built.ends.tolist() == [3, 2, 3]
    assert built.slots.tolist() == [0, 0, 1, 1, 2, 3]
    assert built.targets.tolist() == [4, 7, 6, 8, 5, 9]
    assert built.paths.tolist() == [[1, 3, 5], [1, 3, -1], [1, 2, 4], [0, -1, -1]]


LABELS = st.lists(st.integers(0, 2), min_size=1, max_size=5).map(tuple)


@given(st.lists(LABELS, min_size=1, max_size=12, unique=True).map(tuple))
def test_trie_reads_each_label_along_its_own_path(labels):
    built = trie.build_trie(labels)
    slots = 1 + len(built.tokens)
    assert set(built.slots.tolist()) == set(range(slots))
    assert built.slots.tolist() == sorted(built.slots)
    for label, path in zip(labels, built.paths, strict=True):
        places = [node for node in path.tolist() if node >= 0]
        assert [built.targets[node] for node in places] == list(label)
        read = [int(built.slots[node]) for node in places]
        # slot 0 is the prompt; each slot lies in the subtree of all before it, and holds its token
        assert read[0] == 0
        for depth, (slot, token) in enumerate(zip(read[1:], label, strict=False)):
            assert built.tokens[slot - 1] == token and built.depths[slot - 1] == depth
            assert all(s <= slot < built.ends[s - 1] + 1 for s in read[1 : depth + 1])
            assert slot - 1 < built.ends[slot - 1] <= slots - 1


@given(st.lists(st.lists(st.integers(0, 1), min_size=1, max_size=30), min_size=1, max_size=40))
def test_groups_share_what_they_say(prompts):
    groups = group_prompts(prompts, 128)
    assert sorted(row for g in groups for row in g.rows) == list(range(len(prompts)))
    for shared, rows in groups:
        assert len({tuple(prompts[row][:shared]) for row in rows}) == 1
        assert all(len(prompts[row]) > shared for row in rows)


@given(st.lists(st.lists(st.integers(0, 1), min_size=1, max_size=4), min_size=2, max_size=30))
def test_long_prefixes_that_groups_share_are_theirs(choices):
    # 80 tokens for each choice, so that what rows share is worth a run of its own.
    prompts = [[bit for bit in row for _ in range(80)] + [7] for row in choices]
    for shared, rows in group_prompts(prompts, 128):
        assert len({tuple(prompts[row][:shared]) for row in rows}) == 1


def test_contexts_of_their_own_are_run_once_each():
    long, short = list(range(200)), list(range(50, 150))
    prompts = [(long if row % 3 else short) + [200 + row, 7] for row in range(30)]
    groups = sorted((g.shared, len(g.rows)) for g in group_prompts(prompts, 128))
    assert groups == [(100, 10), (200, 20)]


def test_batches_cover_rows_in_few_shapes():
    lengths = np.random.default_rng(0).integers(1, 300, 257).tolist()
    all_batches = list(batches(range(257), lengths, size=32, budget=2048, step=16))
    assert sorted(row for batch in all_batches for row in batch.rows) == list(range(257))
    assert all(lengths[row] <= batch.length for batch in all_batches for row in batch.rows)
    assert all(batch.size * batch.length <= 2048 for batch in all_batches)
    assert len({(batch.size, batch.length) for batch in all_batches}) < 12
    assert [bucket(n, 16) for n in (1, 16, 65, 97, 129)] == [16, 16, 96, 128, 192]


def test_a_regular_expression_without_end_is_a_sentence(monkeypatch, refuses):
    tokenizer = byte_level()
    pattern = Regex(r"^(([a-z ])+.)+[A-Z]([a-z ])+$")
    tokenizer.pre_tokenizer = pre_tokenizers.Split(pattern, "isolated")
    # We give up before the library, and it does after a while.
    for seconds, words in ((0.0, "does not finish"), (30.0, "retry-limit-in-match")):
        monkeypatch.setattr(tokens, "MOST_SECONDS", seconds)
        assert words in str(refuses(tokens.token_ids, tokenizer, ["hello " * 6]))


def test_normalizers_that_grow_without_end_are_refused(tmp_path, refuses):
    tokenizer = byte_level()
    tokenizer.normalizer = normalizers.Sequence([normalizers.Replace("a", "aa")] * 40)
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    assert refuses(tokenizer_files.read, tmp_path, "causal_lm").got == "1.1e+12 times"
    tokenizer.normalizer = normalizers.Sequence([normalizers.Replace(" ", "▁"), normalizers.NFC()])
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    assert tokenizer_files.read(tmp_path, "causal_lm").encode("a a").ids
