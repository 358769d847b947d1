"""Whole sentences of refusals in one golden file: tests/sentences.json, by test.

    SENTENCES=write pytest tests/test_scores.py     # writes those of these tests anew

A test calls `refuses(function, arguments)`: an `InputError` has to come and say what the file
holds. Paths, ports, ids and messages of other libraries have placeholders.
"""

import json
import os
import re
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from batch_calibration.errors import InputError

FILE = Path(__file__).with_suffix(".json")
IS_WRITING = os.environ.get("SENTENCES") == "write"
# What a cause says is another library's, and changes with its version, but of these types.
OURS = InputError, ValueError, TypeError, KeyError, IndexError, FileNotFoundError, type(None)
PLACEHOLDERS = {
    r"(127\.0\.0\.1):\d+": r"\1:PORT",
    r"\b[0-9a-f]{12,}\b": "ID",
    # A list of names grows with each new method, task or format.
    r"((?:Known|format=): (?:[\w.-]+, ){2}).*": r"\1...",
    r"((?:[\w.-]+, ){2})(?:[\w.-]+, ){6,}[\w.-]+": r"\1...",
    r"\d+ of (\d+ requests have)": r"N of \1",
    r"[\d.,]+ GB are free": "SIZE are free",
    r"\S+(/batch-calibration/real)": r"CACHE\1",
}


def key_of(name: str) -> str:
    """A test's name, short."""
    return name if len(name) <= 100 else f"{name[:80]}~{zlib.crc32(name.encode()):08x}"


def read() -> dict[str, list[str]]:
    """The golden file: test -> its sentences in the order of its refusals."""
    return json.loads(FILE.read_text(encoding="utf-8"))


def write(said: dict[str, list[str]]) -> None:
    """The golden file with the sentences of the tests that ran."""
    lines = json.dumps(read() | said, indent=1, sort_keys=True, ensure_ascii=False)
    FILE.write_text(f"{lines}\n", encoding="utf-8")


def stable(error: InputError, folder: Path, root: Path) -> str:
    """A sentence that is the same in each run."""
    sentence = re.sub(rf"{folder}/\w+", "FOLDER", str(error)).replace(str(root), "ROOT")
    if type(cause := error.__context__) not in OURS and len(str(cause)) > 8:
        sentence = sentence.replace(str(cause), "CAUSE")
    for pattern, placeholder in PLACEHOLDERS.items():
        sentence = re.sub(pattern, placeholder, sentence)
    return sentence


class Refusals:
    """Checks the refusals of one test against the golden file."""

    def __init__(self, expected: list[str], folder: Path, root: Path):
        self.expected, self.said = expected, []
        self.places = folder, root

    def __call__(self, function: Callable, *arguments: object, **options: object) -> InputError:
        with pytest.raises(InputError) as caught:
            function(*arguments, **options)
        sentence = stable(caught.value, *self.places)
        if self.said[-1:] != [sentence]:  # of several alike in a row the file holds one
            self.said.append(sentence)
        if not IS_WRITING:
            assert self.said == self.expected[: len(self.said)]
        return caught.value
