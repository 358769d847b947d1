"""Echoed prompts are compared whole with what was sent, however a server writes its tokens."""

import json
import math
import random
from itertools import islice

import pytest
from real_tokenizers import gpt2, neox, t5

from batch_calibration.errors import InputError
from batch_calibration.responses.servers import PromptTokens
from batch_calibration.scoring.api.protocols import label_log_probs

FORMS = (" positive", " not entailment", " 8", " I'd say so!")
ODD = (
    "Review: \u201cna\u00efve\u201d caf\u00e9 \u2014 it\u2019s good \U0001f600\U0001f44d\nSo:",
    "\u8fd9\u90e8\u7535\u5f71\u5f88\u597d\u770b\u3002\n\u60c5\u611f\uff1a",
    "  Two  spaces ,\ta tab , and n't .\r\n\r\nAnswer:",
    "A <s> in brackets [CLS] and <0x41> too\nLabel:",
    "Is it ?",
)


# How servers write the tokens of a prompt


def as_vocabulary(tokenizer, ids):
    return list(map(tokenizer.id_to_token, ids))


def one_by_one(tokenizer, ids):
    """As vLLM and transformers decode a token alone; half a letter is U+FFFD."""
    return [tokenizer.decode([i], skip_special_tokens=False) for i in ids]


def without_halves(tokenizer, ids):
    """As llama-cpp-python, which leaves out bytes that are no letter alone."""
    return [text.replace("\ufffd", "") for text in one_by_one(tokenizer, ids)]


def in_turn(tokenizer, ids):
    """As streaming servers: a letter comes with its last byte."""
    texts, before = [], ""
    for end in range(1, len(ids) + 1):
        text = tokenizer.decode(ids[:end], skip_special_tokens=False)
        text = before if text.endswith("\ufffd") else text
        texts.append(text[len(before) :])
        before = text
    return texts


def as_openai(tokenizer, ids):
    """Half a letter as "bytes:\\xe2\\x80"."""
    texts = []
    for i, text in zip(ids, one_by_one(tokenizer, ids), strict=True):
        if "\ufffd" in text:
            text = "bytes:" + "".join(f"\\x{ALPHABET[x]:02x}" for x in tokenizer.id_to_token(i))
        texts.append(text)
    return texts


PRINTED = [*range(33, 127), *range(161, 173), *range(174, 256)]
ALPHABET = {chr(byte): byte for byte in PRINTED}
for byte in range(256):
    if byte not in PRINTED:
        ALPHABET[chr(256 + len(ALPHABET) - len(PRINTED))] = byte


def real_texts(shared, size):
    texts = []
    for task, names in (("sst2", ("sentence",)), ("boolq", ("passage", "question"))):
        with (shared / "data" / task / "train.jsonl").open(encoding="utf-8") as lines:
            for line in islice(lines, size):
                row = json.loads(line)
                texts.append("\n".join(f"{name}: {row[name]}" for name in names) + "\nAnswer:")
    return texts


def score(tokens, text, form, hides_first=False):
    """Number of the label's tokens; None where the answer is refused."""
    prompt = PromptTokens(tuple(tokens), (math.nan, *map(float, range(-len(tokens) + 1, 0))))
    try:
        return len(label_log_probs(prompt, text, form, "the answer", hides_first))
    except InputError:
        return None


WRITERS = {
    "GPT-2, vocabulary": (gpt2, as_vocabulary),
    "GPT-2, one by one": (gpt2, one_by_one),
    "GPT-2, without halves": (gpt2, without_halves),
    "GPT-2, in turn": (gpt2, in_turn),
    "GPT-2, as OpenAI": (gpt2, as_openai),
    "GPT-NeoX, one by one": (neox, one_by_one),
    "T5, vocabulary": (t5, as_vocabulary),
    "T5, one by one": (t5, one_by_one),
}


@pytest.mark.parametrize("name", WRITERS)
def test_the_prompt_that_was_sent_is_known_in_every_writing_and_others_are_not(name, shared):
    make, write = WRITERS[name]
    tokenizer, draws = make(shared), random.Random(0)
    accepted = refused = 0
    texts = [*ODD, *real_texts(shared, 2)]
    for text in texts:
        # Where the first letter is several tokens, nothing tells that none stood before.
        is_plain = text[0].isascii()
        for form in FORMS:
            prompt = tokenizer.encode(text, add_special_tokens=False).ids
            ids = tokenizer.encode(text + form, add_special_tokens=False).ids
            if ids[: len(prompt)] != prompt or "<unk>" in as_vocabulary(tokenizer, ids):
                continue
            tokens, size = write(tokenizer, ids), len(ids) - len(prompt)
            for beginning in ([], ["<s>"], ["<|begin_of_text|>"], ["[gMASK]", "<sop>"], [""]):
                echoed = score([*beginning, *tokens], text, form)
                assert echoed == size or (echoed is None and not is_plain)
            # vLLM's prompt_logprobs show no first token, be it one of the prompt or not.
            for shown in (["", *tokens], ["", *tokens[1:]]):
                prompted = score(shown, text, form, True)
                assert prompted == size or (prompted is None and not is_plain)
            accepted += 1
            # Cut, changed, or another prompt: never a number.
            middle = draws.randrange(1, len(prompt) - 1)
            changed = [*tokens[:middle], " changed", *tokens[middle + 1 :]]
            other_ids = write(tokenizer, tokenizer.encode(draws.choice(texts) + form).ids)
            parts = tokens[2:], tokens[middle:], tokens[:-1], tokens[:1] + tokens[middle:]
            more = ["<|user|>", *tokens], ["A", *tokens]
            for wrong in (*parts, changed, other_ids, *more):
                if "".join(wrong).split() != "".join(tokens).split():
                    assert score(wrong, text, form) is None, (wrong, text, form)
                    refused += 1
            assert score(["", *tokens[len(prompt) // 2 + 1 :]], text, form, True) is None
    assert accepted > 20 and refused > 120


@pytest.mark.parametrize(
    ("tokens", "text", "form", "size"),
    [
        # A lone space before a label is part of it, as it was sent with it.
        (["Q", ":", " ", "\u597d"], "Q:", " \u597d", 2),
        (["Q", ":", " ", "yes"], "Q: ", "yes", 1),
        (["Q", ":", " yes"], "Q: ", "yes", 1),
        (["Q", ":", "\n", "yes"], "Q:\n", "yes", 1),
        # Of a letter of several tokens all count, also those that come without a text ...
        (["Q", ":", " ", "", "", "\u597d"], "Q:", " \u597d", 4),
        (["Q", ":", "", "yes"], "Q:", " yes", 2),
        # ... unless they may be a space of the prompt.
        (["Q", ":", "", "yes"], "Q: ", "yes", None),
        (["Q", ":yes"], "Q:", "yes", None),
        ([], "Q:", " yes", None),
    ],
)
def test_which_tokens_are_the_labels(tokens, text, form, size):
    assert score(tokens, text, form) == size


def test_a_prompt_that_was_cut_is_a_sentence(refuses):
    tokens = ("film", " 3", "\n", "Answer", ":", " yes")
    prompt = PromptTokens(tokens, (math.nan, *[-1.0] * 5))
    error = refuses(label_log_probs, prompt, "Review: a film 3\nAnswer:", " yes", "the answer")
    assert error.where == "the answer" and error.got == "only its last 18 letters"
