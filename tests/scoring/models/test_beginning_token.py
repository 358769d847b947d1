"""The beginning token is what transformers 5 puts: facts as tests/reference measures them."""

import hashlib
import json

import numpy as np
import pytest
from tiny import GPT2, POST, byte_level, tokenizer_of, write
from tokenizers import Tokenizer, normalizers, pre_tokenizers
from tokenizers.models import BPE

from batch_calibration.scoring.causal_lm import CausalLM
from batch_calibration.scoring.engine.tokens import encode
from batch_calibration.scoring.models.files import beginning_token
from batch_calibration.scoring.models.files.checkpoint import (
    ModelFiles,
    load_checkpoint,
    load_tokenizer,
)
from batch_calibration.scoring.models.files.tokenizer_files import read_causal
from batch_calibration.settings import Settings
from batch_calibration.studies.scoring import render_contexts

FACTS = {
    # model type and tokenizer class: beginning token by post-processor, whatever add_bos_token says
    ("llama", None): "as the file",
    ("llama", "LlamaTokenizerFast"): "as the file",
    ("llama", "PreTrainedTokenizerFast"): "as the file",
    ("llama", "GPTNeoXTokenizerFast"): "never",
    ("llama", "CodeLlamaTokenizer"): "always",
    ("mistral", "GPTNeoXTokenizerFast"): "as the file",
    ("qwen2", "CodeLlamaTokenizer"): "as the file",
    ("qwen3", "GPTNeoXTokenizer"): "never",
    ("gpt2", "GPT2TokenizerFast"): "as the file",
    ("gpt2", "GPTNeoXTokenizer"): "never",
    ("gpt_neox", None): "never",
    ("gpt_neox", "GPTNeoXTokenizerFast"): "never",
    ("gpt_neox", "PreTrainedTokenizerFast"): "as the file",
    ("gemma2", "GemmaTokenizer"): "as the file",
    ("opt", "GPT2Tokenizer"): "as the file",
}


def with_spaces(normalizer=None, pre_tokenizer=None):
    """A byte-pair tokenizer of a SentencePiece model, with these parts."""
    vocabulary = {"<unk>": 0, "<s>": 1, "▁": 2, "a": 3, "▁a": 4, "▁▁": 5}
    tokenizer = Tokenizer(BPE(vocabulary, [("▁", "a"), ("▁", "▁")], unk_token="<unk>"))
    tokenizer.normalizer, tokenizer.pre_tokenizer = normalizer, pre_tokenizer
    tokenizer.add_special_tokens(["<s>"])
    return tokenizer


def told(directory, **config):
    (directory / "tokenizer_config.json").write_text(json.dumps(config))
    return directory


@pytest.mark.parametrize("add", [None, True, False])
@pytest.mark.parametrize(("model_type", "name"), FACTS)
def test_as_transformers(model_type, name, add, tmp_path):
    config = {"bos_token": {"content": "<s>"}, "tokenizer_class": name, "add_bos_token": add}
    # A token that the byte-level vocabulary has; Gemma's class asks for one.
    told(tmp_path, unk_token="<|end|>", **config)
    for post, single in POST.items():
        tokenizer = tokenizer_of(single)
        tokenizer.save(str(tmp_path / "tokenizer.json"))
        _, token, _ = read_causal(tmp_path, {"model_type": model_type})
        written = post in ("<s>", "both")
        begins = {"as the file": written, "never": False, "always": True}[FACTS[model_type, name]]
        assert token.id == (tokenizer.token_to_id("<s>") if begins else None)
        assert token.disputed == (begins != written or add not in (None, begins))


@pytest.mark.parametrize(
    ("config", "single", "note"),
    [
        ({}, "<s> $A", "<s> (id 330), from tokenizer.json's post-processor"),
        ({}, "$A </s>", "none, from tokenizer.json's post-processor"),
        (
            {"add_bos_token": False},
            "<s> $A",
            "<s> (id 330), from tokenizer.json's post-processor; this contradicts add_bos_token in "
            "tokenizer_config.json, which transformers 5 ignores",
        ),
        (
            {"tokenizer_class": "GPTNeoXTokenizer"},
            "<s> $A",
            "none, from the tokenizer class GPTNeoXTokenizer; this contradicts tokenizer.json's "
            "post-processor, which transformers 5 ignores",
        ),
    ],
)
def test_the_note_says_which_file_decided(config, single, note, tmp_path):
    told(write(tmp_path, GPT2, tokenizer_of(single)), **config)
    assert load_tokenizer(tmp_path).notes == (f"beginning token: {note}",)
    assert load_checkpoint(tmp_path).bos == load_tokenizer(tmp_path).bos


def test_a_run_says_it_once(tmp_path):
    told(write(tmp_path, GPT2, tokenizer_of("<s> $A")), add_bos_token=False)
    settings = Settings.of(model=str(tmp_path), data="mini", tasks="sst2", limit=2, seeds=2)
    heard = []
    assert len(render_contexts(settings, notify=heard.append)) == 2
    assert [note for note in heard if "beginning token: <s>" in note] == heard[:1]


def test_the_class_of_a_config_that_names_it(tmp_path):
    tokenizer_of("<s> $A").save(str(tmp_path / "tokenizer.json"))
    raw = {"model_type": "llama", "tokenizer_class": "GPTNeoXTokenizer"}
    assert read_causal(tmp_path, raw)[1].id is None


def test_a_dispute_is_part_of_the_digest(tmp_path, monkeypatch):
    """Scores from before the rule, with another beginning token, are not taken for these."""
    told(write(tmp_path, GPT2, tokenizer_of("<s> $A")), add_bos_token=False)
    digest = load_checkpoint(tmp_path).digest
    obeyed = beginning_token.BeginningToken(None, "", disputed=False)
    monkeypatch.setattr(beginning_token, "read", lambda *_: obeyed)
    assert load_checkpoint(tmp_path).digest != digest


@pytest.mark.parametrize(
    ("config", "single", "got"),
    [
        ({}, "<s> </s> $A", "['<s>', '</s>']"),
        ({"tokenizer_class": "CodeLlamaTokenizer", "bos_token": "<x>"}, "$A", "'<x>'"),
        ({"tokenizer_class": "CodeLlamaTokenizer", "bos_token": ["<s>"]}, "$A", "['<s>']"),
    ],
)
def test_sentences(config, single, got, tmp_path, refuses):
    told(write(tmp_path, GPT2, tokenizer_of(single)), **config)
    for load in (load_tokenizer, load_checkpoint):
        assert got in str(refuses(load, tmp_path))


PREPENDED = [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
# Token ids as transformers 5.23 gives them (tests/reference has 24 tokenizers beside it).
BY_CLASS = [
    ("llama", None, {}, [2, 4], [4, 1, 4]),
    ("llama", "PreTrainedTokenizerFast", {}, [2, 4], [4, 1, 4]),
    ("llama", "LlamaTokenizer", {}, [4], [4, 1, 3]),
    ("llama", "LlamaTokenizerFast", {"legacy": True}, [4], [4, 1, 4]),
    ("llama", "LlamaTokenizer", {"add_prefix_space": False}, [4], [3, 1, 3]),
    ("llama", "CodeLlamaTokenizer", {}, [4], [4, 1, 3]),
    ("mistral", "LlamaTokenizer", {}, [2, 4], [4, 1, 4]),
    ("gemma2", None, {}, [4], [3, 1, 3]),
]


@pytest.mark.parametrize(("model_type", "name", "options", "spaced", "special"), BY_CLASS)
def test_text_is_split_as_the_class_splits_it(model_type, name, options, spaced, special, tmp_path):
    with_spaces(normalizers.Sequence(PREPENDED)).save(str(tmp_path / "tokenizer.json"))
    told(tmp_path, tokenizer_class=name, bos_token="<s>", **options)
    tokenizer, _, splits_as = read_causal(tmp_path, {"model_type": model_type})
    assert tokenizer.encode(" a", add_special_tokens=False).ids == spaced
    assert tokenizer.encode("a<s>a", add_special_tokens=False).ids == special
    is_of_the_file = model_type == "mistral" or (model_type, name) in OF_THE_FILE
    assert bool(splits_as) != is_of_the_file


OF_THE_FILE = (("llama", None), ("llama", "PreTrainedTokenizerFast"))


def test_a_class_that_splits_otherwise_is_part_of_the_digest(tmp_path):
    raw = {**GPT2, "vocab_size": 400}
    spaced = tokenizer_of(None)
    spaced.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    told(write(tmp_path, raw, spaced), tokenizer_class="GPT2Tokenizer")
    # GPT-2's class makes words without a space before the first.
    checkpoint = load_checkpoint(tmp_path)
    assert checkpoint.tokenizer.encode("fine").ids == tokenizer_of(None).encode("fine").ids
    files = ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json")
    digests = {name: hashlib.sha256((tmp_path / name).read_bytes()).hexdigest() for name in files}
    plain = hashlib.sha256(json.dumps(digests, sort_keys=True).encode()).hexdigest()
    assert checkpoint.digest != plain


def test_a_class_that_is_not_followed_or_lacks_its_unknown_token_is_a_sentence(tmp_path, refuses):
    told(write(tmp_path, GPT2, tokenizer_of(None)), tokenizer_class="T5TokenizerFast")
    assert refuses(load_tokenizer, tmp_path).got == "T5Tokenizer"
    options = {"tokenizer_class": "CodeLlamaTokenizer", "bos_token": "<s>", "unk_token": "<none>"}
    told(tmp_path, **options)
    assert "'<none>'" in refuses(load_tokenizer, tmp_path).expected


def test_a_text_that_begins_with_the_beginning_token_gets_no_second_one():
    tokenizer = tokenizer_of("<s> $A")
    begin = tokenizer.token_to_id("<s>")
    encoded = encode(tokenizer, ["<s>fine", "fine", "fine <s>"], [" a"], begin)
    assert [ids.count(begin) for ids in encoded.prompts] == [1, 1, 2]
    assert [ids[0] for ids in encoded.prompts] == 3 * [begin]
    assert encoded.prompts[0] == encoded.prompts[1]


@pytest.mark.parametrize(
    ("config", "token"),
    [
        ({"bos_token": "<s>"}, "<s>"),
        ({"bos_token": None, "eos_token": {"content": "</s>"}}, "</s>"),
        ({"bos_token": "<nothing>"}, None),
    ],
)
def test_an_empty_prompt_is_scored_after_the_harness_s_prefix(config, token, tmp_path, refuses):
    told(write(tmp_path, GPT2, tokenizer_of(None)), **config)
    checkpoint = load_checkpoint(tmp_path)
    assert checkpoint.bos is None
    if token is None:
        assert refuses(CausalLM(checkpoint).score, [""], [" fine"]).where == "row 0"
        return
    prefix = checkpoint.tokenizer.token_to_id(token)
    assert checkpoint.prefix == load_tokenizer(tmp_path).prefix == prefix
    scores = CausalLM(checkpoint).score(["", token], [" fine", " slow"]).log_probs
    np.testing.assert_allclose(scores[0], scores[1], rtol=1e-6)


@pytest.mark.parametrize("begins", [True, False])
def test_a_vocabulary_and_its_merges_are_a_tokenizer(begins, tmp_path, refuses):
    plain = byte_level()
    directory = write(tmp_path, GPT2, plain)
    plain.model.save(str(directory))
    (directory / "tokenizer.json").unlink()
    tokens = {"bos_token": "</s>", "eos_token": {"content": "</s>"}, "pad_token": "<pad>"}
    told(directory, tokenizer_class="GPT2Tokenizer", add_bos_token=begins, **tokens)
    checkpoint = load_checkpoint(directory)
    tokenizer = checkpoint.tokenizer
    assert tokenizer.encode("fine</s>").ids[-1:] == [tokenizer.token_to_id("</s>")]
    text = "it's slow -- very\n\n slow"
    ids = tokenizer.encode(text, add_special_tokens=False).ids
    assert ids == plain.encode(text, add_special_tokens=False).ids
    assert checkpoint.bos == (tokenizer.token_to_id("</s>") if begins else None)
    (directory / "merges.txt").write_text("#version: 0.2\nno such\n")
    assert "Token `such`" in refuses(load_tokenizer, directory).got


def test_an_added_token_that_the_network_lacks_is_refused_where_a_text_has_it(tmp_path, refuses):
    tokenizer = byte_level()
    tokenizer.add_special_tokens([f"<{number}>" for number in range(400 - 330)] + ["<image>"])
    assert tokenizer.token_to_id("<image>") == GPT2["vocab_size"]
    scorer = CausalLM(load_checkpoint(write(tmp_path, GPT2, tokenizer)))
    assert np.isfinite(scorer.score(["fine"], [" a", " b"]).log_probs).all()
    assert refuses(scorer.score, ["a", "a <image> b"], [" a"]).where == "row 1"
    assert refuses(scorer.score, ["a"], [" b", "<image>"]).got == "'<image>', id 400"


def test_unknown_keys_are_accepted_by_name(tmp_path, refuses):
    directory = write(tmp_path, GPT2)
    before = load_checkpoint(directory).digest
    (directory / "config.json").write_text(json.dumps({**GPT2, "some_key": 3, "other": [1]}))
    assert "other = [1], some_key = 3;" in str(refuses(ModelFiles, directory))
    assert "has some_key = 3;" in str(refuses(ModelFiles, directory, ["oth*", "other"]))
    assert ModelFiles(directory, ["some_key", "other"]).load().digest != before
