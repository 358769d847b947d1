"""Our token ids against AutoTokenizer's: every class, post-processor, add_bos_token, hostile text.

The 21 tokenizers are made here as the files of known checkpoints have them (their normalizer,
pre-tokenizer and special tokens); their vocabulary is learned from a few generated lines.
"""

import json
import random

import pytest

pytest.importorskip("transformers", reason="needs torch and transformers: run `make reference`")

from tiny import POST, tokenizer_of
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, trainers
from tokenizers.processors import TemplateProcessing
from transformers import AutoTokenizer

from batch_calibration.scoring.engine.tokens import encode
from batch_calibration.scoring.models import FAMILIES
from batch_calibration.scoring.models.files.tokenizer_files import read_causal

TEXT = "very fine"
CLASSES = """
    GPT2Tokenizer GPT2TokenizerFast GPTNeoXTokenizer GPTNeoXTokenizerFast PreTrainedTokenizerFast
    Qwen2Tokenizer TokenizersBackend LlamaTokenizer LlamaTokenizerFast CodeLlamaTokenizer
    GemmaTokenizer
"""
CLASSES = [None, *CLASSES.split()]
CAUSAL = [name for name, family in FAMILIES.items() if family.kind == "causal_lm"]


def both(directory, model_type, options):
    """What transformers and we read of a directory with these options, but for those of None."""
    options = {"bos_token": "<s>", "eos_token": "</s>"} | options
    options = {key: option for key, option in options.items() if option is not None}
    (directory / "tokenizer_config.json").write_text(json.dumps(options))
    (directory / "config.json").write_text(json.dumps({"model_type": model_type}))
    ours = read_causal(directory, {"model_type": model_type})
    return AutoTokenizer.from_pretrained(directory), ours


@pytest.mark.parametrize("name", CLASSES)
@pytest.mark.parametrize("model_type", CAUSAL)
def test_ids(model_type, name, tmp_path):
    for single in POST.values():
        tokenizer_of(single).save(str(tmp_path / "tokenizer.json"))
        for add in (None, True, False):
            options = {"unk_token": "<|end|>", "tokenizer_class": name, "add_bos_token": add}
            theirs, (tokenizer, start, _) = both(tmp_path, model_type, options)
            expected = [token for token in theirs(TEXT).input_ids if token != theirs.eos_token_id]
            plain = tokenizer.encode(TEXT, add_special_tokens=False).ids
            begin = [] if start.id is None else [start.id]
            assert expected == begin + plain, (single, add)


WORDS = "fine Fine slow it's 2024 ünïcödé 東京 🙂 <s> </s> <|end|> don't x1 ▁ \u00e9 e\u0301 .. --"
WORDS = WORDS.split()
SPACES = ["", " ", "  ", "\n", "\n\n", "\t", "\u00a0", " \n ", "\u3000"]
GPT2_WORDS = {"pre_tokenizer": lambda: pre_tokenizers.ByteLevel(add_prefix_space=False)}
SPACED = {"pre_tokenizer": lambda: pre_tokenizers.ByteLevel(add_prefix_space=True)}
DIGITS = pre_tokenizers.Split(Regex(r"\p{N}{1,3}| ?[^\s\p{N}]+|\s+"), "isolated")
BYTES = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
LLAMA3 = {"pre_tokenizer": lambda: pre_tokenizers.Sequence([DIGITS, BYTES])}
SIGNS = [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
PREPENDED = {"normalizer": lambda: normalizers.Sequence(SIGNS)}
METASPACE = {"pre_tokenizer": lambda: pre_tokenizers.Metaspace(prepend_scheme="first", split=False)}
ALWAYS = {"pre_tokenizer": lambda: pre_tokenizers.Metaspace(prepend_scheme="always", split=False)}
REPLACED = {"normalizer": lambda: normalizers.Replace(" ", "▁")}
# model type, class, parts of tokenizer.json, options of tokenizer_config.json
TOKENIZERS = [
    ("gpt2", "GPT2Tokenizer", GPT2_WORDS, {}),
    ("gpt2", None, SPACED, {}),
    ("gpt2", "GPT2TokenizerFast", GPT2_WORDS, {"add_prefix_space": True}),
    ("opt", "GPT2Tokenizer", GPT2_WORDS, {"add_bos_token": True}),
    ("gptj", "GPT2Tokenizer", LLAMA3, {}),
    ("gpt_neox", "GPTNeoXTokenizerFast", GPT2_WORDS, {}),
    ("gpt_neox", "PreTrainedTokenizerFast", LLAMA3, {}),
    ("llama", "PreTrainedTokenizerFast", LLAMA3, {}),
    ("llama", "LlamaTokenizer", LLAMA3, {}),
    ("llama", "LlamaTokenizer", PREPENDED, {}),
    ("llama", "LlamaTokenizerFast", PREPENDED, {"legacy": True}),
    ("llama", "LlamaTokenizer", PREPENDED, {"legacy": False, "add_prefix_space": False}),
    ("llama", "LlamaTokenizer", ALWAYS, {"add_bos_token": True, "add_eos_token": False}),
    ("llama", "CodeLlamaTokenizer", PREPENDED, {}),
    ("mistral", "LlamaTokenizer", PREPENDED, {"legacy": False}),
    ("mistral", "LlamaTokenizerFast", METASPACE, {}),
    ("phi3", "LlamaTokenizer", PREPENDED, {}),
    ("qwen2", "Qwen2Tokenizer", LLAMA3, {}),
    ("qwen3", "Qwen2Tokenizer", GPT2_WORDS, {}),
    ("gemma2", "GemmaTokenizer", REPLACED, {}),
    ("gemma3_text", "GemmaTokenizerFast", PREPENDED, {}),
]


def write_tokenizer(directory, components, begins):
    """A tokenizer.json with these parts; characters beyond its bytes or letters are byte tokens."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))
    for component, make in components.items():
        setattr(tokenizer, component, make())
    is_byte_level = "ByteLevel" in str(tokenizer.pre_tokenizer)
    special = ["<unk>", "<s>", "</s>", "<|end|>"]
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet()) if is_byte_level else []
    special += [] if is_byte_level else [f"<0x{byte:02X}>" for byte in range(256)]
    options = {"special_tokens": special, "initial_alphabet": alphabet, "show_progress": False}
    trainer = trainers.BpeTrainer(vocab_size=560, **options)
    lines = ["it is fine and slow 2024 x1", "Fine fine slow -- don't ..", "the film is fine"]
    tokenizer.train_from_iterator(3 * lines, trainer)
    raw = json.loads(tokenizer.to_str())
    # The byte tokens are of the model, and no special ones.
    raw["added_tokens"] = [token for token in raw["added_tokens"] if token["id"] < 4]
    raw["model"] |= {"byte_fallback": not is_byte_level, "fuse_unk": not is_byte_level}
    raw["decoder"] = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True,
                      "use_regex": True} if is_byte_level else None  # fmt: skip
    (directory / "tokenizer.json").write_text(json.dumps(raw))
    tokenizer = Tokenizer.from_file(str(directory / "tokenizer.json"))
    if begins:
        special = [("<s>", tokenizer.token_to_id("<s>"))]
        tokenizer.post_processor = TemplateProcessing(single="<s> $A", special_tokens=special)
        tokenizer.save(str(directory / "tokenizer.json"))


@pytest.mark.parametrize("begins", [None, True, False])
@pytest.mark.parametrize("name", ["GPT2Tokenizer", "Qwen2Tokenizer"])
def test_a_vocabulary_and_its_merges(name, begins, tmp_path):
    tokenizer_of(None).model.save(str(tmp_path))
    options = {"tokenizer_class": name, "bos_token": "</s>", "unk_token": "</s>"}
    options |= {"pad_token": "<pad>", "add_bos_token": begins}
    theirs, (ours, start, _) = both(tmp_path, "opt", options)
    for prompt, _ in hostile_pairs(7):
        plain = ours.encode(prompt, add_special_tokens=False).ids
        begin = [] if start.id is None or prompt.startswith("</s>") else [start.id]
        assert theirs(prompt, add_special_tokens=not prompt.startswith("</s>")).input_ids == (
            begin + plain
        ), prompt


def hostile_pairs(seed):
    """200 prompts and continuations: special tokens, odd spaces, other scripts, no words at all."""
    source = random.Random(seed)

    def text(most):
        count = source.randint(0, most)
        return "".join(source.choice(SPACES) + source.choice(WORDS) for _ in range(count))

    pairs = []
    while len(pairs) < 200:
        prompt = text(6) + source.choice(SPACES)
        label = source.choice(SPACES) + (text(2) or "fine")
        pairs.append((prompt, label))
    return pairs


@pytest.mark.parametrize("number", range(len(TOKENIZERS)))
@pytest.mark.parametrize("begins", [False, True])
def test_hostile_text(number, begins, tmp_path):
    model_type, name, components, options = TOKENIZERS[number]
    write_tokenizer(tmp_path, components, begins)
    options = {"unk_token": "<unk>", "tokenizer_class": name, **options}
    theirs, (tokenizer, start, _) = both(tmp_path, model_type, options)

    def their_ids(text):
        # As the harness encodes: no second beginning token before a text that has one.
        return theirs(text, add_special_tokens=not text.startswith("<s>")).input_ids

    wrong = []
    for prompt, label in hostile_pairs(number):
        stem = prompt.rstrip()
        prefix = theirs.bos_token_id if theirs.bos_token_id is not None else theirs.eos_token_id
        before = their_ids(stem) or [prefix]
        # Nothing comes before an empty prompt's label, and the harness encodes it alone.
        all_ids = their_ids(stem + prompt[len(stem) :] + label)
        expected = before, all_ids[len(their_ids(stem)) :]
        if not expected[1]:
            continue  # a label that joins the prompt's last token is refused
        encoded = encode(tokenizer, [prompt], [label], start.id, prefix=start.prefix)
        got = encoded.prompts[0], list(encoded.labels[0][0])
        if got != expected:
            wrong.append((prompt, label, got, expected))
    assert not wrong, (len(wrong), wrong[0])
