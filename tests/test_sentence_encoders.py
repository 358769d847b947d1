"""Settings of a sentence-transformers directory are followed, or refused in a sentence."""

import json
import shutil

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tiny import BERT, byte_level, write, write_dense, write_sentence_transformer

from batch_calibration.scoring.dual_encoder import DualEncoder
from batch_calibration.scoring.models.attention import masked
from batch_calibration.scoring.models.files.checkpoint import (
    POOLINGS,
    load_checkpoint,
    load_tokenizer,
)
from batch_calibration.scoring.models.files.sentence_config import FLAGS

TEXTS = ["slow", "a zebra is slow", "x " * 11, "very, very slow; the acting is fine"]
ORACLES = {
    "cls": lambda h: h[0],
    "max": lambda h: np.array([max(column) for column in h.T]),
    "mean": lambda h: sum(h) / len(h),
    "mean_sqrt_len_tokens": lambda h: sum(h) / len(h) ** 0.5,
    "weightedmean": lambda h: np.average(h, axis=0, weights=np.arange(len(h)) + 1),
    "lasttoken": lambda h: h[-1],
}


@pytest.fixture(scope="module")
def states(tmp_path_factory):
    """Hidden states `[t, d]` of each text alone, of the encoder that all directories here have."""
    checkpoint = load_checkpoint(write(tmp_path_factory.mktemp("plain"), BERT))

    @jax.jit
    def hidden(model, ids):
        attend = masked(jnp.ones(ids.shape, jnp.bool_))
        return model.hidden(ids, jnp.arange(ids.size)[None], attend)[0]

    ids = (np.array([checkpoint.tokenizer.encode(text).ids]) for text in TEXTS)
    return [np.asarray(hidden(checkpoint.model, of_text)) for of_text in ids]


def unit(vectors):
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


def embeddings(directory):
    return DualEncoder(load_checkpoint(directory)).embed(TEXTS)[0]


SPELLINGS = {flag: {flag: True} for flag in FLAGS} | {
    "none": {"word_embedding_dimension": 16},
    "newer": {"embedding_dimension": 16, "pooling_mode": "lasttoken"},
    "a list": {"pooling_mode": ["cls"], "include_prompt": False},
    "older, all": dict.fromkeys(FLAGS, False) | {"pooling_mode_cls_token": True},
}
MODES = FLAGS | {"none": "mean", "newer": "lasttoken", "a list": "cls", "older, all": "cls"}


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_pooling_as_the_directory_says(spelling, states, tmp_path):
    write_sentence_transformer(tmp_path, SPELLINGS[spelling], "2_Normalize")
    expected = np.stack([ORACLES[MODES[spelling]](h) for h in states])
    np.testing.assert_allclose(embeddings(tmp_path), unit(expected), atol=1e-5)
    said = f"pooling: {MODES[spelling]}, then 2_Normalize, as modules.json says"
    assert load_tokenizer(tmp_path).notes[0].startswith(said)


def test_every_pooling_has_an_oracle():
    assert set(POOLINGS) == set(ORACLES) == set(FLAGS.values())


def test_a_plain_encoder_is_pooled_by_mean_and_says_so(states, tmp_path):
    write(tmp_path, BERT)
    expected = np.stack([h.mean(0) for h in states])
    np.testing.assert_allclose(embeddings(tmp_path), unit(expected), atol=1e-5)
    (note,) = load_tokenizer(tmp_path).notes
    assert note == "pooling: mean, as sentence-transformers does without modules.json"


@pytest.mark.parametrize("between", [(), ("3_Normalize",)])
def test_dense_layers_in_their_order(between, states, tmp_path):
    folders = ("2_Dense", *between, "4_Dense")
    write_sentence_transformer(tmp_path, {"pooling_mode": "cls"}, *folders)
    first = write_dense(tmp_path / "2_Dense", (24, 16), "activation.Tanh", use_residual=False)
    second = write_dense(tmp_path / "4_Dense", (5, 24), "linear.Identity", bias=False)
    e = np.stack([h[0] for h in states])
    e = np.tanh(e @ first["linear.weight"].T + first["linear.bias"])
    expected = unit(unit(e) if between else e) @ second["linear.weight"].T
    np.testing.assert_allclose(embeddings(tmp_path), unit(expected), atol=1e-5)


def test_prompt_case_and_length_as_the_directory_says(tmp_path):
    plain = DualEncoder(load_checkpoint(write(tmp_path / "plain", BERT)), max_tokens=9)
    prompts = {"prompts": {"query": "Review: ", "other": "x"}, "default_prompt_name": "query"}
    files = {TOLD: prompts, "sentence_bert_config": {"max_seq_length": 9, "do_lower_case": True}}
    write_sentence_transformer(tmp_path / "told", {}, **files)
    encoder = DualEncoder(load_checkpoint(tmp_path / "told"))
    texts = ["SLOW and FINE, not even funny", "Fine"]
    vectors, counts = encoder.embed(texts)
    expected, expected_counts = plain.embed(["review: " + text.lower() for text in texts])
    np.testing.assert_allclose(vectors, expected, atol=1e-5)
    np.testing.assert_array_equal(counts, expected_counts)
    assert counts[0] == encoder.identity["max_tokens"] == 9
    info = load_tokenizer(tmp_path / "told")
    assert info.positions == 9 and "'Review: ' precedes each text" in info.notes[0]
    scores = encoder.score(["SLOW"], ["FINE"]).log_probs
    expected = plain.score(["review: slow"], ["review: fine"]).log_probs
    np.testing.assert_allclose(scores, expected, atol=1e-4)


def test_the_tokenizers_own_length_where_none_is_said(tmp_path):
    write(tmp_path, BERT)
    for limit, expected in ((1e30, 40), (12, 12)):
        (tmp_path / "tokenizer_config.json").write_text(json.dumps({"model_max_length": limit}))
        assert DualEncoder(load_checkpoint(tmp_path)).max_tokens == expected


def test_texts_that_are_cut_are_counted_in_a_note(tmp_path):
    scorer = DualEncoder(load_checkpoint(write(tmp_path, BERT)), max_tokens=12)
    texts = [" ".join(count * ["fine"]) for count in range(1, 12)]
    fits = next(x for x in texts if len(scorer.checkpoint.tokenizer.encode(x).ids) == 12)
    scorer.score([fits, fits + " fine", "fine"], ["fine", "slow"])
    limit = "(max_tokens=; 0 is the checkpoint's own limit)"
    assert scorer.notes == [f"1 of 3 texts are longer than 12 tokens and cut there {limit}"]


def change(**files):
    """Write these files of a directory anew, `None` for none; a text stands as it is."""

    def apply(directory):
        for name, value in files.items():
            path = directory / f"{name.replace('__', '/')}.json"
            if value is None:
                path.unlink()
            else:
                path.write_text(value if isinstance(value, str) else json.dumps(value))

    return apply


def one(kind, path="", where="sentence_transformers.models"):
    return {"type": f"{where}.{kind}", "path": path}


BASE = [one("Transformer"), one("Pooling", "1_Pooling")]
TOLD = "config_sentence_transformers"
WRONG = {
    "two modes": {"1_Pooling__config": dict.fromkeys([*FLAGS][:2], True)},
    "two modes, newer": {"1_Pooling__config": {"pooling_mode": ["cls", {}]}},
    "no mode": {"1_Pooling__config": {"pooling_mode": []}},
    "an unknown flag": {"1_Pooling__config": {"pooling_mode_attention": True}},
    "another width": {"1_Pooling__config": {"word_embedding_dimension": 8}},
    "no config": {"1_Pooling__config": None},
    "no modules": {"modules": None},
    "modules of another shape": {"modules": {"a": 1}},
    "not JSON": {"modules": "["},
    "another module": {"modules": [*BASE, one("LSTM", "2_LSTM")]},
    "someone's module": {"modules": [one("Transformer"), one("Pooling", "1_Pooling", "custom")]},
    "no pooling": {"modules": [one("Transformer")]},
    "a network elsewhere": {"modules": [one("Transformer", "0_BERT"), BASE[1]]},
    "a folder outside": {"modules": [BASE[0], one("Pooling", "../1_Pooling")]},
    "a folder above": {"modules": [BASE[0], one("Pooling", "..")]},
    "dot": {TOLD: {"similarity_fn_name": "dot"}},
    "euclidean": {TOLD: {"similarity_fn_name": "euclidean"}},
    "a sparse encoder": {TOLD: {"model_type": "SparseEncoder"}},
    "fewer dimensions": {TOLD: {"truncate_dim": 8}},
    "no such prompt": {TOLD: {"default_prompt_name": "q"}},
    "a prompt left out of the pooling": {
        TOLD: {"default_prompt_name": "q", "prompts": {"q": "Q: "}},
        "1_Pooling__config": {"include_prompt": False},
    },
    "no length": {"sentence_bert_config": {"max_seq_length": "x"}},
    "another reading": {"sentence_bert_config": {"tokenizer_args": {"strip_accents": True}}},
    "a query's length": {"sentence_bert_config": {"query_length": 9}},
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_not_done_is_refused(case, tmp_path, refuses):
    files = WRONG[case]
    write_sentence_transformer(tmp_path, {"pooling_mode": "mean"})
    change(**files)(tmp_path)
    for load in (load_tokenizer, load_checkpoint):
        refuses(load, tmp_path)


DENSE = {
    "another activation": {"activation": "activation.Mish"},
    "someone's activation": {"activation_function": "my.Tanh"},
    "a residual": {"use_residual": True},
    "another input": {"module_input_name": "token_embeddings"},
    "another width": {"shape": (4, 15)},
    "a bias too many": {"out_features": 5},
}


@pytest.mark.parametrize("case", DENSE)
def test_a_dense_layer_that_is_not_done_is_refused(case, tmp_path, refuses):
    write_sentence_transformer(tmp_path, {}, "2_Dense")
    write_dense(tmp_path / "2_Dense", **{"shape": (4, 16)} | DENSE[case])
    refuses(load_checkpoint, tmp_path)
    (tmp_path / "2_Dense/model.safetensors").unlink()
    (tmp_path / "2_Dense/config.json").unlink()
    refuses(load_checkpoint, tmp_path)


def test_a_dot_product_of_embeddings_of_length_one_is_a_cosine(tmp_path):
    write_sentence_transformer(tmp_path, {}, "2_Normalize", **{TOLD: {"similarity_fn_name": "dot"}})
    assert embeddings(tmp_path).shape == (4, 16)


def test_the_digest_depends_on_every_file(tmp_path):
    write_sentence_transformer(tmp_path, {"pooling_mode": "mean"}, "2_Dense")
    write_dense(tmp_path / "2_Dense", (4, 16))
    seen = {load_checkpoint(tmp_path).digest}
    for files in (
        {"1_Pooling__config": {"pooling_mode": "cls"}},
        {"config_sentence_transformers": {"prompts": {}}},
        {"sentence_bert_config": {"max_seq_length": 16}},
        {"2_Dense__config": {"out_features": 4, "bias": True}},
        {"modules": [*BASE, one("Dense", "2_Dense"), one("Normalize", "3_Normalize")]},
    ):
        change(**files)(tmp_path)
        seen.add(load_checkpoint(tmp_path).digest)
    shutil.rmtree(tmp_path / "2_Dense")
    write_dense(tmp_path / "2_Dense", (6, 16))
    seen.add(load_checkpoint(tmp_path).digest)
    assert len(seen) == 7


def test_the_tokenizer_keeps_what_it_had_under_lower_case(tmp_path):
    write_sentence_transformer(tmp_path, {}, sentence_bert_config={"do_lower_case": True})
    ids = load_checkpoint(tmp_path).tokenizer.encode("Slow").ids
    assert ids == byte_level().encode("slow").ids != byte_level().encode("Slow").ids
