"""Our token ids against AutoTokenizer's, for every class, post-processor and add_bos_token."""

import json

import pytest

pytest.importorskip("transformers", reason="needs torch and transformers: run `make reference`")

from test_beginning_token import POST, tokenizer_of
from transformers import AutoTokenizer

from batch_calibration.models import FAMILIES, beginning_token

TEXT = "very fine"
CLASSES = (
    None, "GPT2Tokenizer", "GPT2TokenizerFast", "GPTNeoXTokenizer", "GPTNeoXTokenizerFast",
    "PreTrainedTokenizerFast", "Qwen2Tokenizer", "TokenizersBackend", "LlamaTokenizer",
    "LlamaTokenizerFast", "CodeLlamaTokenizer", "GemmaTokenizer", "CohereTokenizer",
)  # fmt: skip
SENTENCEPIECE = {"LlamaTokenizer", "CodeLlamaTokenizer", "GemmaTokenizer", "CohereTokenizer"}
"""Classes that split text their own way, whatever the tokenizer.json here says."""
CAUSAL = [name for name, family in FAMILIES.items() if family.kind == "causal_lm"]


@pytest.mark.parametrize("name", CLASSES)
@pytest.mark.parametrize("model_type", CAUSAL)
def test_ids(model_type, name, tmp_path):
    raw = {"model_type": model_type}
    (tmp_path / "config.json").write_text(json.dumps(raw))
    for single in POST.values():
        ours = tokenizer_of(single)
        ours.save(str(tmp_path / "tokenizer.json"))
        for add in (None, True, False):
            said = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<|end|>"}
            said |= {} if name is None else {"tokenizer_class": name}
            said |= {} if add is None else {"add_bos_token": add}
            (tmp_path / "tokenizer_config.json").write_text(json.dumps(said))
            theirs = AutoTokenizer.from_pretrained(tmp_path)
            begin = beginning_token.read(tmp_path, ours, raw).id
            expected = [token for token in theirs(TEXT).input_ids if token != theirs.eos_token_id]
            assert (begin is not None) == (expected[0] == theirs.bos_token_id), (single, add)
            if type(theirs).__name__ not in SENTENCEPIECE:
                plain = ours.encode(TEXT, add_special_tokens=False).ids
                assert expected == ([] if begin is None else [begin]) + plain, (single, add)
