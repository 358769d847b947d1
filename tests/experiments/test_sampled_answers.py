"""The evidence of sampled answers: its lines on a few contexts, and the figures of the page."""

from pathlib import Path

import numpy as np
import pytest

from experiments.evidence import sampled_answers
from experiments.evidence.sampled_answers import compare, count_hard_answers, measure, read_groups

PAGE = Path(__file__).resolve().parents[2] / "docs" / "asking-an-api.md"


@pytest.fixture(scope="module")
def groups():
    return read_groups()


def test_more_answers_keep_more_of_the_gain(groups):
    tables, unit = groups["SST-2"]
    lines = [line.split(" | ") for line in compare("SST-2", tables[:12], unit)]
    assert [line[1] for line in lines] == ["scores", "10", "20", "50"]
    kept = [float(line[-1].split()[0]) for line in lines]
    assert 20 < kept[1] < kept[2] < kept[3] < kept[0] == 100
    test = tables[0].blocks["test"]
    by_hand = [test.log_probs, test.log_probs - test.log_probs.mean(axis=0)]
    expected = [100 * (scores.argmax(axis=1) == test.labels).mean() for scores in by_hand]
    np.testing.assert_allclose(measure(test.log_probs, test.labels)[:2], expected)


def test_labeled_rows_correct_the_shares_of_hard_answers(groups):
    tables, unit = groups["SST-2"]
    cells = count_hard_answers("SST-2", tables[:12], unit).split(" | ")
    answered, alone, corrected, held, of_sample, _ = map(float, cells[2:])
    assert corrected < answered and of_sample < answered and alone < answered and held > 80


@pytest.mark.slow
def test_the_page_has_the_figures_of_the_command(capsys):
    sampled_answers.main()
    page = PAGE.read_text(encoding="utf-8")
    rows = [line.strip("| ").split(" | ") for line in capsys.readouterr().out.splitlines()]
    for title, *cells in (row for row in rows if row[0] in ("MMLU", "SST-2", "11 tasks")):
        if len(cells) == 9 and cells[0] != "20":
            size, uncorrected, bc, *_, advised, _, kept = cells
            assert f"| {size} | {uncorrected} | {bc} | {advised} | {kept} |" in page, title
        elif len(cells) < 9:
            contexts, answered, alone, corrected, _, of_sample, _ = cells
            shown = f"| {contexts} | {answered} | {alone} | {corrected} | {of_sample} |"
            assert f"| {title} {shown}" in page
