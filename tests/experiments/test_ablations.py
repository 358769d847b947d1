"""Biases of a reader whose biases are known; the program that trains without a knob."""

import re

import numpy as np
import pytest

from batch_calibration.scoring.embedded import suite
from batch_calibration.scoring.tasks import TASKS
from experiments.evidence.label_sequences import DEMONSTRATIONS
from experiments.pretrain import documents
from experiments.pretrain.label_biases import measure

pytestmark = pytest.mark.slow  # trains a network

COMMON, MAJORITY, RECENCY = 0.75, 1.25, -0.5  # sums of powers of two: means are exact


def reader(texts, labels):
    """Sees labels alone: what it prefers follows from theirs by a known rule, and the template."""
    names = [label.strip() for label in labels]
    out = []
    for text in texts:
        shown = [names.index(name) for name in re.findall("|".join(names), text)][:DEMONSTRATIONS]
        balance, last = 2 * np.mean(shown) - 1, 2 * shown[-1] - 1
        odds = COMMON + MAJORITY * balance + RECENCY * last
        odds += 2.0 * ("Text:" in text) + 3.0 * ("good" in names)
        out.append((0.0, odds))
    return np.array(out)


def test_known_biases_are_found_apart():
    effects = measure(TASKS["sst2"], reader, draws=1, rows=8)
    found = effects.common, effects.majority, effects.recency
    assert found == pytest.approx((COMMON, MAJORITY, RECENCY), abs=1e-6)
    own = [COMMON] * (1 + len(documents.TEMPLATES["sst2"]))
    own[2] += 2.0
    assert effects.templates == pytest.approx(np.std(own, ddof=1))
    biases = [COMMON] * (1 + len(documents.VERBALIZERS["sst2"]))
    biases[1] += 3.0
    assert effects.words == pytest.approx(np.std(biases, ddof=1))
    # A reader that never looks at the row has nothing left when its bias is gone: label 0.
    first = np.mean(np.array(suite.read_rows("sst2", "validation").labels[:8]) == 0)
    assert effects.bc == pytest.approx((first, 0.0)) and effects.icl[1] > 0


def test_the_program_trains_measures_and_prints(tmp_path, program):
    words = "ablate_mini", "--config=configs/mini_ablations.py:smoke", f"--workdir={tmp_path}"
    process = program(*words, process=True)
    lines = (tmp_path / "ablations.md").read_text().splitlines()
    assert len(lines) == 4 and "as shipped" in lines[2] and lines[2] in process.stdout
    process_again = program(*words, process=True)
    assert "step" not in process_again.stdout and lines[3] in process_again.stdout
