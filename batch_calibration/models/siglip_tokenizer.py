"""Makes a SigLIP tokenizer read text as its class in transformers does."""

import string
from pathlib import Path

from tokenizers import Regex, Tokenizer, normalizers

from batch_calibration.errors import InputError
from batch_calibration.models.config import read_json

CLASS = "SiglipTokenizer"
AS_IT_STANDS = ("PreTrainedTokenizer", "TokenizersBackend")
"""Classes that take `tokenizer.json` as it is."""


def canonicalize(tokenizer: Tokenizer, directory: Path) -> None:
    """Lower the case, drop ASCII punctuation and join spaces, before what `tokenizer.json` does.

    A file that does so itself loses nothing by it.

    Raises:
        InputError: another class, such as that of SigLIP 2, whose texts are padded otherwise.
    """
    path = directory / "tokenizer_config.json"
    options = read_json(path, "a tokenizer config") if path.is_file() else {}
    name = str(options.get("tokenizer_class", CLASS)).removesuffix("Fast")
    if name in AS_IT_STANDS:
        return
    if name != CLASS:
        raise InputError(
            where=path, expected=f"tokenizer_class {CLASS}", got=name,
            remedy="use a checkpoint of the first SigLIP",
        )  # fmt: skip
    punctuation = "".join(f"\\{mark}" for mark in string.punctuation)
    before = [normalizers.Lowercase()] if options.get("do_lower_case", True) else []
    steps = [
        *before,
        normalizers.Replace(Regex(f"[{punctuation}]"), ""),
        # Python's white space has four control characters more than the regular expressions'.
        normalizers.Replace(Regex(r"[\s\x1c-\x1f]+"), " "),
        normalizers.Strip(),
    ]
    after = [tokenizer.normalizer] if tokenizer.normalizer else []
    tokenizer.normalizer = normalizers.Sequence([*steps, *after])
