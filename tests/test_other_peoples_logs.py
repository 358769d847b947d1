"""Logs that were cut, mixed or marked in their own way: the right number, or a sentence."""

import json

import pytest

from batch_calibration.errors import InputError
from batch_calibration.importers import Reading, read

LABELS = ("no", "yes")


@pytest.fixture
def saved(tmp_path):
    """Writes a text, bytes, or values as JSON Lines."""

    def write(content, name="a.jsonl"):
        path = tmp_path / name
        if not isinstance(content, str | bytes):
            content = "".join(f"{json.dumps(line)}\n" for line in content)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


def refused(path, **reading):
    with pytest.raises(InputError) as error:
        read(path, Reading(**reading))
    return error.value


# Keys that stand twice


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("a.jsonl", '{"no": -1.0, "yes": -2.0, "no": -9.0}'),
        ("samples_t.jsonl", '{"doc_id": 0, "doc": {}, "target": 0, "target": 1, "arguments": 1}'),
        ("a.jsonl", '{"choices": [{"logprobs": {"top_logprobs": [{"no": -1, "no": -2}]}}]}'),
        ("a.json", '{"version": 2, "status": "success", "eval": {"task": "a", "task": "b"}}'),
        ("a.json", '{"adapter_spec": {"method": "a"}, "adapter_spec": {"method": "b"}}'),
    ],
)
def test_a_key_that_stands_twice_is_refused(saved, name, line):
    """Python keeps the last of the two without a word."""
    error = refused(saved(line, name), labels=LABELS)
    assert error.expected == "each key of a JSON object once" and error.got.endswith(" twice")


@pytest.mark.parametrize("space", ["", "\n"])
def test_a_key_that_stands_twice_in_a_row_of_a_list_is_refused(saved, space):
    rows = ['{"no": -1.0, "yes": -2.0}', '{"no": -3.0, "yes": -2.0, "yes": -1.0}']
    rows = f"[{f',{space}'.join(rows)}]"
    assert refused(saved(rows, "a.json")).got == "'yes' twice"
