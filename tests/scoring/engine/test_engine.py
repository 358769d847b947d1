"""Promises of the engine other than its numbers: memory, prefixes, bare logits, packing."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from naive_scoring import LABELS, SHOTS, naive, queries
from tiny import GPT2, write

from batch_calibration import calibrate
from batch_calibration.scoring.causal_lm import CausalLM
from batch_calibration.scoring.engine import forward, programs
from batch_calibration.scoring.engine.batches import group_prompts
from batch_calibration.scoring.engine.forward import Forward
from batch_calibration.scoring.engine.packing import SHORTEST, lay_out, pack_prompts
from batch_calibration.scoring.engine.tokens import encode
from batch_calibration.scoring.engine.trie import build_trie
from batch_calibration.scoring.models.attention import AttentionOptions, Heads, append_cache
from batch_calibration.scoring.models.files.checkpoint import load_checkpoint

LONG = GPT2 | {"n_positions": 800}


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    return load_checkpoint(write(tmp_path_factory.mktemp("engine"), LONG))


def test_sequences_hold_every_row_once_and_waste_little():
    lengths = np.random.default_rng(0).integers(1, 200, 500).tolist()
    prompts = [[row] * length for row, length in enumerate(lengths)]
    sequences = pack_prompts(range(500), prompts, 0, [0] * 500, 64)
    assert sorted(row for packed in sequences for row in packed.rows) == list(range(500))
    for packed in sequences:
        assert sum(lengths[row] for row in packed.rows) <= packed.length
        assert packed.length in (128, 256) and len(packed.rows) <= 64
    assert sum(lengths) > 0.95 * sum(packed.length for packed in sequences)
    alone = pack_prompts(range(500), prompts, 0, [0] * 500, 1)
    assert all(len(packed.rows) == 1 for packed in alone)


def test_rows_of_one_passage_lie_together_where_others_begin_alike():
    """Passages with a few questions each, of which several begin with the same word."""
    random = np.random.default_rng(0)
    prompts, distinct = [], 0
    for passage in range(40):
        length, questions = random.integers(20, 70), random.integers(1, 5)
        distinct += length
        for question in range(questions):
            ending = [100 + question, *[9] * random.integers(3, 40)]
            prompts.append([passage % 3, *[50 + passage] * length, *ending])
            distinct += len(ending)
    sequences = pack_prompts(range(len(prompts)), prompts, 0, [0] * len(prompts), 64)
    slots = sum(packed.length for packed in sequences)
    assert sum(map(len, prompts)) > 1.5 * slots and distinct > 0.85 * slots


def test_a_layout_lets_each_slot_see_its_own_tokens():
    trie = build_trie(((5, 6, 7), (5, 8), (9,), (5, 6, 3)))
    prompts = [[1, 2, 3], [1, 4]]
    (packed,) = pack_prompts([0, 1], prompts, 1, [2, 2], 8)
    layout = lay_out([packed], 1, 1, prompts, [trie, trie])
    slot = np.arange(packed.length)
    sees = (slot <= slot[:, None]) & (slot[:, None] < layout.ends[0])
    # 2 3 (5 (5 6)) and 4 (5 (5 6)), then padding that sees itself alone
    assert layout.tokens[0, :8].tolist() == [2, 3, 5, 6, 4, 5, 6, 0]
    assert layout.positions[0, :7].tolist() == [1, 2, 3, 4, 1, 2, 3]
    expected = np.zeros((8, 8), bool)
    for first, last in ((0, 3), (4, 6)):
        for i in range(first, last + 1):
            expected[i, first : i + 1] = True
    expected[7, 7] = True
    np.testing.assert_array_equal(sees[:8, :8], expected)
    assert layout.slots.tolist() == [1, 2, 3, 4, 5, 6]


@given(
    st.lists(st.lists(st.integers(0, 2), min_size=3, max_size=70), min_size=1, max_size=30),
    st.integers(0, 2),
    st.integers(1, 40),
)
# A prompt that all others begin with, in a sequence that they fill to the last slot.
@example(
    prompts=[
        [1] * 4,
        *([1] * 4 + [mark] + [0] * 26 for mark in (0, 2, 3)),
        [1] * 4 + [4, *[0] * 27],
    ],
    shared=0,
    most=40,
)
def test_each_row_sees_its_prompt_alone_and_reads_after_it(prompts, shared, most):
    """Whatever rows begin alike: what a read slot sees is the row's prompt, then label tokens."""
    prompts = [[9] * shared + prompt for prompt in prompts]
    trie = build_trie(((5, 6), (7, 8), (7, 9, 1)))  # three inner nodes: 5, 7 and 7 9
    extra = [len(trie.tokens)] * len(prompts)
    rows = range(len(prompts))
    sequences = pack_prompts(rows, prompts, shared, extra, most)
    assert sorted(row for packed in sequences for row in packed.rows) == list(rows)
    assert all(len(packed.rows) <= most for packed in sequences)
    for packed in sequences:
        layout = lay_out([packed], 1, shared, prompts, [trie] * len(prompts))
        reads = layout.slots.reshape(len(packed.rows), 1 + len(trie.tokens))
        for row, slots in zip(packed.rows, reads, strict=True):
            for slot, label in zip(slots, [[], [5], [7], [7, 9]], strict=True):
                seen = np.flatnonzero(slot < layout.ends[0, : slot + 1])
                assert layout.tokens[0, seen].tolist() == prompts[row][shared:] + label
                places = range(shared, len(prompts[row]) + len(label))
                assert layout.positions[0, seen].tolist() == list(places)


def test_rows_that_begin_alike_lie_together():
    """Three questions on each passage take the slots of one passage and three questions."""
    random = np.random.default_rng(0)
    passages = random.integers(10, 1000, (40, 80)).tolist()
    prompts = []
    for passage in passages:
        prompts += [[1, 2, *passage, 3, question] for question in random.integers(9, 99, 3)]
    random.shuffle(prompts)
    sequences = pack_prompts(range(120), prompts, 0, [0] * 120, 64)
    assert sum(packed.length for packed in sequences) <= 40 * 128
    unlike = random.integers(10, 1000, (120, 84)).tolist()
    sequences = pack_prompts(range(120), unlike, 0, [0] * 120, 64)
    assert sum(rows.length for rows in sequences) > 100 * 84


def test_a_short_beginning_of_all_rows_is_run_once_a_sequence():
    random = np.random.default_rng(0)
    prompts = [[1, 2, 3, 4, *random.integers(10, 99, 20).tolist()] for _ in range(102)]
    (only,) = group_prompts(prompts, SHORTEST)
    assert only.shared == 0
    sequences = pack_prompts(range(102), prompts, 0, [0] * 102, 64)
    assert len(sequences) <= 17  # six rows of 20 tokens and the four of all in each


def test_prefixes_longer_than_a_chunk(checkpoint, monkeypatch):
    texts = [SHOTS * 4 + query for query in queries(3)]
    expected = naive(checkpoint, texts, LABELS)
    np.testing.assert_allclose(CausalLM(checkpoint).score(texts, LABELS)[0], expected, atol=1e-4)
    monkeypatch.setattr(forward, "PREFIX_CHUNK", 256)
    np.testing.assert_allclose(CausalLM(checkpoint).score(texts, LABELS)[0], expected, atol=1e-4)


def test_a_prefix_grows_from_what_it_shares_with_the_last(checkpoint, monkeypatch):
    ran = []
    prefill = programs.prefill
    monkeypatch.setattr(
        programs, "prefill", lambda *args: ran.append((args[5], args[7])) or prefill(*args)
    )
    contexts = [SHOTS * 2, SHOTS * 2 + SHOTS[:80], SHOTS * 2 + SHOTS[150:], SHOTS * 2]
    texts = [[context + query for query in queries(4)] for context in contexts]
    scorer = CausalLM(checkpoint)
    for group_of_texts in texts:
        got = scorer.score(group_of_texts, LABELS).log_probs
        np.testing.assert_allclose(got, naive(checkpoint, group_of_texts, LABELS), atol=1e-4)
    assert ran[0][0] == 0
    assert all(start >= forward.STEP and count < ran[0][1] for start, count in ran[1:])
    before = len(ran)
    scorer.score(texts[-1], LABELS)
    assert len(ran) == before


def test_one_call_with_nested_prefixes(checkpoint):
    texts = [SHOTS * 2 + query for query in queries(20)]
    texts += [SHOTS * 3 + query for query in queries(20, seed=1)]
    texts += [query for query in queries(3, seed=2)]
    order = np.random.default_rng(0).permutation(len(texts))
    texts = [texts[i] for i in order]
    prompts, _ = encode(checkpoint.tokenizer, texts, LABELS)
    shared = sorted(node.shared for node in group_prompts(prompts, SHORTEST))
    assert len(shared) == 3 and shared[0] == 0 and shared[1] > 100
    got = CausalLM(checkpoint).score(texts, LABELS).log_probs
    np.testing.assert_allclose(got, naive(checkpoint, texts, LABELS), atol=1e-4)


@pytest.mark.usefixtures("standard_promotion")
@pytest.mark.parametrize("dtype, precision", [("float32", "HIGHEST"), ("bfloat16", "DEFAULT")])
def test_products_of_float32_are_of_float32_on_every_device(
    dtype, precision, monkeypatch, checkpoint
):
    lowered = []
    for name in ("prefill", "forward_packed", "read"):
        program = getattr(programs, name)

        def run(*args, program=program):
            lowered.extend(program.lower(*args).as_text().splitlines())
            return program(*args)

        monkeypatch.setattr(programs, name, run)
    scorer = CausalLM(load_checkpoint(checkpoint.directory, dtype))
    scorer.score([SHOTS + query for query in queries(9)], LABELS)
    products = [line for line in lowered if "dot_general" in line]
    assert len(products) > 20
    assert all(f"precision = [{precision}, {precision}]" in line for line in products)


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("on_threads", [False, True])
def test_out_of_memory_halves_the_batches_and_loses_no_row(
    checkpoint, monkeypatch, late, on_threads
):
    texts = [SHOTS + query for query in queries(150)]
    expected = CausalLM(checkpoint).score(texts, LABELS).log_probs
    run = programs.forward_packed
    full = jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory")
    monkeypatch.setattr(Forward, "_on_threads", on_threads)

    class Late:
        """A result whose computation turns out not to fit."""

        def copy_to_host_async(self):
            pass

        def __array__(self, *args, **kwargs):
            raise full

    def small(*args):
        if args[4].shape[0] <= 2:
            return run(*args)
        if late:
            return Late()
        raise full

    monkeypatch.setattr(programs, "forward_packed", small)
    take = programs.take
    monkeypatch.setattr(programs, "take", lambda h, i: h if isinstance(h, Late) else take(h, i))
    read = programs.read
    monkeypatch.setattr(
        programs, "read", lambda *args: args[5] if isinstance(args[5], Late) else read(*args)
    )
    scorer = CausalLM(checkpoint)
    heard: list[int] = []
    got = scorer.score(texts, LABELS, progress=heard.append).log_probs
    np.testing.assert_allclose(got, expected, atol=2e-5)
    assert heard[-1] == 150 and heard == sorted(set(heard))
    assert len(scorer.notes) == 2 and "halved to 256 token positions" in scorer.notes[-1]


def test_a_batch_is_sent_before_the_one_before_it_is_awaited(checkpoint, monkeypatch):
    events = []

    class Result:
        """Log-probabilities that say when their copy begins and when they are awaited."""

        def __init__(self, values):
            self.values = values
            events.append("sent")

        def copy_to_host_async(self):
            events.append("copied")

        def __array__(self, *args, **kwargs):
            events.append("awaited")
            return np.asarray(self.values)

    read = programs.read
    monkeypatch.setattr(programs, "read", lambda *args: Result(read(*args)))
    monkeypatch.setattr(Forward, "_on_threads", False)
    CausalLM(checkpoint, batch_size=8).score(queries(32), LABELS)
    batches = events.count("sent")
    assert batches >= 3
    sent = ["sent", "copied"]
    assert events == sent + [*sent, "awaited"] * (batches - 1) + ["awaited"]


def test_memory_for_nothing_is_said_and_other_errors_go_on(checkpoint, monkeypatch, refuses):
    def fail(*_):
        raise jax.errors.JaxRuntimeError(message)

    monkeypatch.setattr(programs, "forward_packed", fail)
    message = "RESOURCE_EXHAUSTED: Out of memory"
    assert "sequence of 128 tokens" in str(refuses(CausalLM(checkpoint).score, ["a"], LABELS))
    message = "INTERNAL: something else"
    with pytest.raises(jax.errors.JaxRuntimeError, match="something else"):
        CausalLM(checkpoint).score(["a"], LABELS)


def test_bare_logits_differ_by_a_constant_of_each_row(checkpoint, refuses):
    texts = [SHOTS + query for query in queries(40)]
    labels = ["\n", " ", "."]
    normalized = CausalLM(checkpoint).score(texts, labels).log_probs
    scorer = CausalLM(checkpoint, logits_only=True)
    bare = scorer.score(texts, labels).log_probs
    difference = normalized - bare
    np.testing.assert_allclose(difference, difference[:, :1] + 0 * difference, atol=1e-4)
    assert np.ptp(difference[:, 0]) > 1e-3
    for method in ("icl", "bc"):
        complete, two = (np.asarray(calibrate(scores, method)) for scores in (normalized, bare))
        first, second = np.sort(complete)[:, -1], np.sort(complete)[:, -2]
        clear = first - second > 1e-3  # else the last bits decide
        assert clear.mean() > 0.8
        np.testing.assert_array_equal(complete.argmax(1)[clear], two.argmax(1)[clear])
    assert scorer.identity != CausalLM(checkpoint).identity
    error = refuses(scorer.score, texts, [" positive journey", " a"])
    assert error.where == "row 0" and "omit logits_only" in error.remedy


def test_unembedding_in_parts(checkpoint, monkeypatch):
    texts, labels = queries(20), [f" {a}{b}" for a in "pqrst" for b in "wxyz"]
    expected = CausalLM(checkpoint).score(texts, labels).log_probs
    for name, value in (("MAX_READS", 16), ("READ_STEP", 4), ("VOCABULARY_SPAN", {"cpu": 48})):
        monkeypatch.setattr(forward, name, value)
    got = CausalLM(checkpoint).score(texts, labels).log_probs
    np.testing.assert_allclose(got, expected, atol=2e-5)


def test_padding_of_a_cache_is_never_the_largest():
    """Padding repeats the first key; a query that looks past that key must not see it again."""
    random = np.random.default_rng(0)
    k, v = (jnp.asarray(-random.random(size=(1, 4, 1, 2)), jnp.float32) for _ in "kv")
    k = k.at[0, 0].set(100.0)
    q = jnp.ones((1, 1, 1, 2))
    new = jnp.zeros((1, 1, 1, 2))
    positions, ends = jnp.full((1, 1), 4), jnp.ones((1, 1), int)

    def answer(size):
        cache = tuple(array[None] for array in append_cache(None, k, v, 0, 4, size))  # one layer
        attend = programs._attention(cache, positions, ends, programs.Attention("in turn"))
        return attend(0, Heads(q, new, new, AttentionOptions(window=3)))

    # The window holds the last two keys and the query's own, whose key and value are zeros.
    weights = np.exp(np.append(k[0, 2:, 0].sum(axis=-1) / np.sqrt(2), 0.0))
    expected = weights[:2] @ v[0, 2:, 0] / weights.sum()
    for size in (9, 4):
        np.testing.assert_allclose(np.ravel(answer(size)), expected, atol=1e-6)
