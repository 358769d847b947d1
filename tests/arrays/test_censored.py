"""Labels that a list of the most probable tokens lacks: filled, refused, and what depends on it."""

import csv
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from batch_calibration import calibrate
from batch_calibration.arrays import missing_scores
from batch_calibration.arrays.missing_scores import BELOW, check_missing, fill_scores, find_missing
from batch_calibration.diagnosis.diagnose import DISTANCES, prediction_range
from experiments.evidence import top_k

GONE = (-math.inf, math.nan, -9999.0, -3e38)
NATS = st.floats(-20.0, 0.0)


@st.composite
def lists(draw):
    """Scores [n, k] of which some are missing, each row with one at least, and bounds or None."""
    k = draw(st.integers(2, 5))
    cell = st.one_of(NATS, NATS, st.sampled_from(GONE))
    row = st.lists(cell, min_size=k, max_size=k).filter(lambda r: any(v > -21 for v in r))
    rows = draw(st.lists(row, min_size=1, max_size=8))
    assume(missing_scores.find_lowest(np.array(rows)).filler == -math.inf)  # fillers: below
    bound = draw(st.none() | st.lists(NATS, min_size=len(rows), max_size=len(rows)))
    return np.array(rows), None if bound is None else np.array(bound)


def gone(value):
    return math.isnan(value) or value < -1e6 or value == -9999.0


@given(lists(), st.sampled_from(("least", -5.0, -30.0)))
def test_fill_is_the_loop(case, missing):
    scores, bound = case
    filled, is_kept = fill_scores(scores, missing, bound)
    assert is_kept.all()
    for i, row in enumerate(scores.tolist()):
        smallest = min(value for value in row if not gone(value))
        if bound is not None:
            smallest = min(smallest, bound[i])
        for j, value in enumerate(row):
            if not gone(value):
                assert filled[i, j] == value
            elif missing == "least":
                assert filled[i, j] == smallest - BELOW
            else:
                assert filled[i, j] == min(missing, smallest - BELOW)


@given(lists())
def test_filled_labels_are_the_least_of_their_row(case):
    scores, bound = case
    filled = missing_scores.fill_every_row(scores, "least", bound)
    for row, hid in zip(filled, find_missing(scores), strict=True):
        assert np.isfinite(row).all()
        if hid.any():
            assert row[hid].max() < row[~hid].min()


@pytest.mark.parametrize("filler", [-11.6, -23.0259, -50.0, -100.0, -1000.0])
@pytest.mark.parametrize("parts", [1, 2, 7])
def test_a_low_number_in_place_of_many_scores_is_missing(filler, parts):
    scores = np.round(np.log(np.random.default_rng(0).dirichlet([3, 2, 1], 60)), 4)
    scores[::7, 1] = scores[3::20, 2] = filler
    lowest = missing_scores.Lowest()
    for part in np.array_split(scores, parts):
        lowest = lowest.plus(missing_scores.find_lowest(part))
    assert lowest == missing_scores.find_lowest(scores) and lowest.filler == filler
    empty = np.where(scores == filler, np.nan, scores)
    for missing in ("least", -30.0):
        of_filler, of_empty = (
            missing_scores.fill_every_row(rows, missing) for rows in (scores, empty)
        )
        np.testing.assert_array_equal(of_filler, of_empty)


@pytest.mark.parametrize(
    "scores",
    [
        [[-0.1, -9.0], [-0.2, -9.0], [-0.3, -9.0]],  # near
        [[-0.1, -30.5], [-0.2, -30.5], [-0.3, -1.0]],  # twice
        [[-9.0, -30.0], [-20.0, -30.0], [-0.3, -30.0]],  # -20 is near
        [[0.1, -30.0], [0.2, -30.0], [0.3, -30.0]],  # no log-probabilities
        [[-20.0, -20.0]],  # no other scores
    ],
)
def test_low_scores_are_scores(scores):
    assert missing_scores.find_lowest(np.array(scores)).filler == -np.inf


@given(lists())
def test_the_range_is_that_of_all_distances(case):
    scores, bound = case
    gold = np.arange(len(scores)) % scores.shape[1]
    picks = []
    for below in DISTANCES:
        filled = fill_scores(scores, "least", bound, below=below)[0]
        picks.append((filled - filled.mean(axis=0)).argmax(axis=1).tolist())
    seen = prediction_range(np.array(picks), scores.shape[1], gold)
    assert seen.rows == len(scores)
    assert seen.same == sum(len(set(predictions)) == 1 for predictions in zip(*picks, strict=True))
    right = [np.mean([a == b for a, b in zip(choice, gold, strict=True)]) for choice in picks]
    np.testing.assert_allclose(seen.accuracy, (min(right), max(right)))
    for j, (low, high) in enumerate(seen.shares):
        shares = [choice.count(j) / len(choice) for choice in picks]
        np.testing.assert_allclose((low, high), (min(shares), max(shares)))


def test_a_range_without_missing_labels_is_one_point_and_without_gold_has_no_accuracy():
    picks = np.random.default_rng(0).integers(3, size=20)
    seen = prediction_range(np.stack(2 * [picks]), 3, np.full(20, -1))
    assert seen.same == seen.rows == 20 and seen.accuracy is None
    np.testing.assert_array_equal(seen.shares[:, 0], seen.shares[:, 1])


def test_calibrate_fills_and_corrects():
    scores = np.random.default_rng(0).normal(-3.0, 1.0, (30, 4))
    cut = np.where(scores < np.sort(scores, axis=1)[:, 1:2], -np.inf, scores)
    bound = cut.copy()
    bound[np.isinf(bound)] = np.inf
    filled = np.where(np.isinf(cut), bound.min(axis=1, keepdims=True) - BELOW, cut)
    expected = filled - filled.mean(axis=0)
    np.testing.assert_allclose(calibrate(cut, missing="least"), expected, atol=1e-5)
    far = calibrate(cut, missing="least", bound=bound.min(axis=1) - 3.0)
    filled = np.where(np.isinf(cut), filled - 3.0, cut)
    np.testing.assert_allclose(far, filled - filled.mean(axis=0), atol=1e-5)
    two = calibrate(np.stack([cut, cut]), missing=-30.0)
    np.testing.assert_allclose(two[0], calibrate(cut, missing=-30.0), atol=1e-6)


def test_a_probe_with_missing_labels_is_filled_too():
    rows = [[-1.0, -2.0], [-2.0, -1.0]]
    corrected = calibrate(rows, "cc", probe=[[-1.0, -np.inf]], missing="least")
    expected = calibrate(rows, "cc", probe=[[-1.0, -1.0 - BELOW]])
    np.testing.assert_allclose(corrected, expected, atol=1e-6)


@pytest.mark.parametrize(
    ("scores", "options", "why"),
    [
        (10 * [[-1.0, -9999.0]], {}, "-9999 in row 0, label 1 (10 in all)"),
        (10 * [[-1.0, -np.inf]], {"missing": "drop"}, "got missing='drop': drop rows"),
        (10 * [[-1.0, -np.inf]], {"missing": "last"}, "got 'last'"),
        (10 * [[-1.0, -np.inf]], {"missing": 3}, "got 3"),
        (10 * [[-1.0, -np.inf]], {"missing": "nan"}, "got 'nan'"),
        (10 * [[-1.0, -2.0], [-np.inf] * 2], {"missing": "least"}, "row 1 has no score"),
        ([[-1.0, -np.inf]], {"missing": "least", "bound": [1, 2]}, "shape (2,), 0 not finite"),
        ([[-1.0, -np.inf]], {"missing": "least", "bound": [-np.inf]}, "shape (1,), 1 not finite"),
        ([[-1.0, -np.inf]], {"missing": "least", "bound": ["x"]}, "list of <U1"),
        ([[-1.0, -np.inf]], {"bound": [-2.0]}, "bound: it is used only with missing="),
        ([[np.inf, -np.inf], [-1.0, -2.0]], {"missing": "least"}, "+inf in row 0, label 0"),
        ([[np.inf, -np.inf], [-1.0, -2.0]], {"missing": -30.0}, "+inf in row 0, label 0"),
    ],
)
def test_missing_labels_that_cannot_be_filled_are_a_sentence(scores, options, why, refuses):
    assert why in str(refuses(calibrate, scores, **options))


@pytest.mark.parametrize("missing", ["least", "drop", -30, "-30", -1e6])
def test_what_missing_may_be(missing):
    assert check_missing(missing) in ("least", "drop", -30.0, -1e6)


def test_the_evidence_is_reproduced(shared, monkeypatch):
    """Two cells of docs/evidence/missing_labels.csv: MMLU cut to the best 3 of 4 labels."""
    ways = ("least (0.5 below)", "-100")
    monkeypatch.setattr(top_k, "WAYS", {way: top_k.WAYS[way] for way in ways})
    _, measured = top_k.measure("MMLU", list(top_k.contexts_of("mmlu")), 3)
    page = Path(__file__).resolve().parents[2] / "docs/evidence/missing_labels.csv"
    with page.open(encoding="utf-8", newline="") as file:
        rows = {row["scores, length of the list"]: row for row in csv.DictReader(file)}
    row = rows["MMLU, 3"]
    assert [row[f"same predictions, %: {way}"] for way in ways] == [
        cell.strip() for cell in measured.split("|")[2:-1]
    ]
