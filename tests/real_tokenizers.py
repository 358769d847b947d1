"""Tokenizers of real models, from the shared data."""

from functools import cache

from tokenizers import ByteLevelBPETokenizer, Tokenizer


@cache
def gpt2(shared):
    """GPT-2's, of its vocabulary and merges."""
    folder = shared / "tokenizers" / "gpt2"
    files = str(folder / "encoder.json"), str(folder / "vocab.bpe")
    return ByteLevelBPETokenizer(*files)._tokenizer


@cache
def neox(shared):
    """GPT-NeoX's."""
    return Tokenizer.from_file(str(shared / "tokenizers" / "gpt-neox" / "20B_tokenizer.json"))


@cache
def t5(shared):
    """T5's, a SentencePiece model."""
    return Tokenizer.from_file(str(shared / "tokenizers" / "t5" / "t5-base-tokenizer.json"))
