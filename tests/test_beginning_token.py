"""The beginning token is what transformers 5 puts: facts as tests/reference measures them."""

import json

import pytest
from tiny import GPT2, byte_level, write
from tokenizers.processors import ByteLevel, TemplateProcessing

from batch_calibration.errors import InputError
from batch_calibration.models import beginning_token
from batch_calibration.models.checkpoint import load_checkpoint, load_tokenizer
from batch_calibration.settings import Settings
from batch_calibration.study.scoring import render_contexts

POST = {"none": None, "bytes": "", "<s>": "<s> $A", "</s>": "$A </s>", "both": "<s> $A </s>"}
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


def tokenizer_of(post):
    tokenizer = byte_level()
    tokenizer.add_special_tokens(["<s>", "</s>"])
    special = [(token, tokenizer.token_to_id(token)) for token in ("<s>", "</s>")]
    if post == "":
        tokenizer.post_processor = ByteLevel(trim_offsets=False)
    elif post:
        tokenizer.post_processor = TemplateProcessing(single=post, special_tokens=special)
    return tokenizer


def told(directory, **config):
    (directory / "tokenizer_config.json").write_text(json.dumps(config))
    return directory


@pytest.mark.parametrize("add", [None, True, False])
@pytest.mark.parametrize(("model_type", "name"), FACTS)
def test_as_transformers(model_type, name, add, tmp_path):
    config = {"bos_token": {"content": "<s>"}, "tokenizer_class": name, "add_bos_token": add}
    told(tmp_path, **config)
    for post, single in POST.items():
        tokenizer = tokenizer_of(single)
        found = beginning_token.read(tmp_path, tokenizer, {"model_type": model_type})
        written = post in ("<s>", "both")
        begins = {"as the file": written, "never": False, "always": True}[FACTS[model_type, name]]
        assert found.id == (tokenizer.token_to_id("<s>") if begins else None)
        assert found.disputed == (begins != written or add not in (None, begins))


@pytest.mark.parametrize(
    ("config", "single", "note"),
    [
        ({}, "<s> $A", "<s> (id 330), as tokenizer.json's post-processor says"),
        ({}, "$A </s>", "none, as tokenizer.json's post-processor says"),
        (
            {"add_bos_token": False}, "<s> $A",
            "<s> (id 330), as tokenizer.json's post-processor says; add_bos_token in "
            "tokenizer_config.json says otherwise, and transformers 5 does not obey it",
        ),
        (
            {"tokenizer_class": "GPTNeoXTokenizer"}, "<s> $A",
            "none, as the tokenizer class GPTNeoXTokenizer says; tokenizer.json's post-processor "
            "says otherwise, and transformers 5 does not obey it",
        ),
    ],
)  # fmt: skip
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
    raw = {"model_type": "llama", "tokenizer_class": "GPTNeoXTokenizer"}
    assert beginning_token.read(tmp_path, tokenizer_of("<s> $A"), raw).id is None


def test_a_dispute_is_part_of_the_digest(tmp_path, monkeypatch):
    """Scores from before the rule, with another beginning token, are not taken for these."""
    told(write(tmp_path, GPT2, tokenizer_of("<s> $A")), add_bos_token=False)
    digest = load_checkpoint(tmp_path).digest
    obeyed = beginning_token.BeginningToken(None, "", disputed=False)
    monkeypatch.setattr(beginning_token, "read", lambda *_: obeyed)
    assert load_checkpoint(tmp_path).digest != digest


@pytest.mark.parametrize(
    ("config", "single", "sentence"),
    [
        ({}, "<s> </s> $A", r"puts the tokens \['<s>', '</s>'\] before a text, expected one or"),
        (
            {"tokenizer_class": "CodeLlamaTokenizer", "bos_token": "<x>"}, "$A",
            r"tokenizer_config\.json: bos_token '<x>' is no token of tokenizer\.json",
        ),
        (
            {"tokenizer_class": "CodeLlamaTokenizer", "bos_token": ["<s>"]}, "$A",
            r"bos_token \['<s>'\] is no token",
        ),
    ],
)  # fmt: skip
def test_sentences(config, single, sentence, tmp_path):
    told(write(tmp_path, GPT2, tokenizer_of(single)), **config)
    for load in (load_tokenizer, load_checkpoint):
        with pytest.raises(InputError, match=sentence):
            load(tmp_path)
