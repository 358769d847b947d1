"""Builds CLIP's tokenizer from its list of merges: lower case, byte-level BPE, words with an end.

The vocabulary follows from the merges: 256 bytes, the same at a word's end, a token for each
merge, and the two that begin and end a text (Radford et al. 2021, section 2.4).
"""

import gzip
from pathlib import Path

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

from batch_calibration.errors import InputError, answering

FILES = ("merges.txt", "bpe_simple_vocab_16e6.txt.gz")
"""Names of the list, in Hugging Face directories and in CLIP's own repository."""
MERGES = 49_152 - 256 - 2
START, END, WORD = "<|startoftext|>", "<|endoftext|>", "</w>"
PARTS = (
    r"<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"
)


def load(path: Path) -> Tokenizer:
    """Read a list of merges, a pair a line after the line of its version, plain or gzipped.

    Raises:
        InputError: a file that is no list of merges.
    """
    kinds = (OSError, ValueError, EOFError)
    with answering(kinds, path, "a file that can be read", "fetch the file again"):
        content = path.read_bytes()
        text = (gzip.decompress(content) if path.suffix == ".gz" else content).decode()
    lines = text.splitlines()[1 : 1 + MERGES]  # CLIP's list is longer than what it uses
    merges = []
    for line in lines:
        first, _, second = line.partition(" ")
        merges.append((first, second))
    if not merges or any(" " in second or not second for _, second in merges):
        raise InputError.at(path, "two tokens a line to merge", remedy="fetch the file again")
    return build(merges)


def build(merges: list[tuple[str, str]]) -> Tokenizer:
    """The tokenizer of these merges; it puts the two special tokens around each text.

    >>> build([("c", "a"), ("ca", "t</w>")]).encode("A  CAT").tokens
    ['<|startoftext|>', 'a</w>', 'cat</w>', '<|endoftext|>']
    """
    # The order of bytes in the vocabulary: those that print as themselves, then the others.
    printed = [*range(33, 127), *range(161, 173), *range(174, 256)]
    letters = [*map(chr, printed), *(chr(256 + i) for i in range(256 - len(printed)))]
    tokens = [*letters, *(letter + WORD for letter in letters)]  # 512 in all
    tokens += [first + second for first, second in merges]
    vocabulary = {token: i for i, token in enumerate([*tokens, START, END])}
    model = models.BPE(
        vocabulary, merges, continuing_subword_prefix="", end_of_word_suffix=WORD, unk_token=END
    )
    tokenizer = Tokenizer(model)
    tokenizer.add_special_tokens([START, END])  # so that neither is split
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.NFC(), normalizers.Replace(Regex(r"\s+"), " "), normalizers.Lowercase()]
    )
    words = pre_tokenizers.Split(Regex(PARTS), behavior="removed", invert=True)
    to_bytes = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([words, to_bytes])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{START} $A {END}",
        special_tokens=[(START, vocabulary[START]), (END, vocabulary[END])],
    )
    return tokenizer
