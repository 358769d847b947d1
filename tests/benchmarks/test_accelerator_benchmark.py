"""The program for a day with a GPU runs where there is none, and bfloat16 is near float32."""

import re

import pytest

from benchmarks import accelerator


@pytest.mark.slow
@pytest.mark.usefixtures("standard_promotion")
def test_quick(capsys, monkeypatch):
    # Measuring it takes half a minute.
    monkeypatch.setattr(accelerator, "matmul_peak", lambda: 1e12)
    accelerator.main(["--quick"])
    stdout = capsys.readouterr().out
    for line in ("0 shared, attention joint", "240 shared, attention in turn", "host: "):
        assert line in stdout
    assert stdout.count("% of peak") == 4
    (mean,) = re.findall(r"24 scores: mean (\S+),", stdout)
    assert 0 < float(mean) < 0.02 and "100.00% of predictions agree" in stdout


def test_operations_are_those_of_the_unique_tokens():
    """Ten rows: two for each weight and token, what attention adds, and the unembedding."""
    checkpoint = accelerator.network(accelerator.SMALL)
    width, inner, head = 64, 128, 32
    layer = width * head * (4 + 2 + 2) + 4 * head * width + 3 * width * inner
    alone, shared = (accelerator.operations(checkpoint, 10, tokens) for tokens in (0, 240))
    pairs = {0: 10 * 300 * 301 // 2, 240: 240 * 241 // 2 + 10 * (300 * 301 - 240 * 241) // 2}
    for operations, tokens, count in ((alone, 3000, pairs[0]), (shared, 240 + 600, pairs[240])):
        unembedded = 2 * width * 512 * 10
        assert operations == 2 * 2 * layer * tokens + 4 * 2 * 4 * head * count + unembedded
