"""Advice: `apply` and `calibrate` agree, and both give the numbers of the methods behind it."""

import json

import numpy as np
import pandas as pd
import pytest

from batch_calibration import calibrate, load_advice, recommend, recommend_together, save_advice
from batch_calibration.diagnosis.advice import list_shares
from batch_calibration.methods import run_methods
from batch_calibration.scores import ScoreTable, make_block

NAMES = ("a", "b", "c")
SHARES = (0.6, 0.3, 0.1)


def draw(contexts=1, rows=120, seed=0):
    """Draws scores [c n 3] of the same rows, with a bias of each context."""
    random = np.random.default_rng(seed)
    gold = random.choice(3, rows, p=SHARES)
    told = 2.5 * np.eye(3)[gold] + random.normal(size=(contexts, rows, 3))
    return (told + random.normal(size=(contexts, 1, 3)) - 5).astype(np.float32), gold


def assert_same(scores, others, tolerance=2e-3):
    """Checks scores [n k] that may differ by a constant of each row, and their predictions."""
    gaps = np.asarray(scores, np.float64) - np.asarray(others)
    np.testing.assert_allclose(np.ptp(gaps, axis=1), 0, atol=tolerance)


KNOWN = {
    "nothing": {},
    "balanced": {"share": "balanced"},
    "about balanced": {"share": "balanced:12"},
    "ranges": {"share": [(0.4, 0.8), (0.2, 0.4), (0, 0.2)]},
    "stated": {"target_prior": SHARES},
    "counted": {"counts": (20, 9, 3)},
}


@pytest.mark.parametrize("known", KNOWN)
def test_apply_is_calibrate_with_the_advised_options(known):
    (scores,), _ = draw()
    for advice in (found := recommend(scores, label_names=NAMES, **KNOWN[known]), found.balanced):
        corrected = calibrate(scores, advice.method, **advice.options)
        np.testing.assert_array_equal(advice.apply(scores), corrected)
        assert advice.method == "prior_matching"
        assert [*advice.shares] == [*NAMES] and sum(advice.shares.values()) == pytest.approx(1)


def test_advice_finds_its_labels_among_the_columns_of_a_frame():
    (scores,), _ = draw()
    frame = pd.DataFrame(scores, columns=NAMES)
    advice = recommend(frame)
    wide = frame.assign(id=[f"row {row}" for row in range(len(frame))])[["id", *NAMES[::-1]]]
    corrected = advice.apply(wide)
    assert [*corrected.columns] == [*NAMES]
    pd.testing.assert_frame_equal(corrected, advice.apply(frame))


def test_scores_that_are_left_stay():
    (scores,), _ = draw(rows=12)
    advice = recommend(scores, label_names=NAMES)
    assert advice.short == "leave it" and advice.shares is None
    np.testing.assert_array_equal(advice.apply(scores), scores)


def test_estimated_shares_give_the_correction_of_bc_empirical_bayes():
    for seed in range(3):
        (scores,), _ = draw(seed=seed)
        advice = recommend(scores)
        expected = calibrate(scores, "bc_empirical_bayes")
        corrected = advice.apply(scores)
        np.testing.assert_array_equal(corrected.argmax(axis=1), expected.argmax(axis=1))
        if min(advice.shares.values()) > 1e-4:  # smaller ones count as that
            assert_same(corrected, expected)


@pytest.mark.parametrize("same_rows", [True, False])
def test_pooled_shares_give_the_correction_of_bc_pooled_shares(same_rows):
    scores, gold = draw(4)
    advice = recommend_together(scores, same_rows=same_rows, label_names=NAMES).contexts
    tables = []
    for seed, rows in enumerate(scores):
        context = {"seed": seed} | ({"rows": "same"} if same_rows else {})
        tables.append(ScoreTable(context, NAMES, {"test": make_block(rows, gold)}))
    found = run_methods(tables, ["bc_pooled_shares"], groups=["one"] * 4)
    for rows, one, methods in zip(scores, advice, found.results, strict=True):
        assert one.source == "pooled"
        assert_same(one.apply(rows), methods["bc_pooled_shares"].scores)


def test_known_balance_pools_contexts_of_the_same_rows_only():
    scores, _ = draw(4)
    together = recommend_together(scores, same_rows=True, share="balanced", label_names=NAMES)
    (listed,) = {tuple(one.shares.items()) for one in together.contexts}
    assert {one.source for one in together.contexts} == {"pooled"}
    assert dict(listed) == together.shares
    alone = recommend_together(scores, share="balanced", label_names=NAMES)
    assert {one.short for one in alone.contexts} == {"equal shares"} and alone.shares == {}
    away = np.abs(np.array([*together.shares.values()]) - 1 / 3).max()
    free = recommend_together(scores, same_rows=True, label_names=NAMES).shares
    assert away < np.abs(np.array([*free.values()]) - 1 / 3).max()


def test_frames_are_corrected_by_the_names_of_their_columns():
    (scores,), _ = draw()
    frame = pd.DataFrame(scores, columns=NAMES)
    for known in KNOWN.values():
        advice = recommend(frame, **known)
        usual = advice.apply(frame)
        turned = advice.apply(frame[["c", "a", "b"]])
        pd.testing.assert_frame_equal(turned[[*NAMES]], usual, atol=1e-4)
        assert_same(usual.to_numpy(), advice.apply(scores))
    beside = frame.assign(id=range(len(frame)))
    with_id = recommend(beside, columns=NAMES).apply(beside, columns=NAMES)
    np.testing.assert_allclose(with_id[[*NAMES]], recommend(frame).apply(frame), atol=1e-4)


def test_a_file_keeps_advice_for_labels_in_any_order(tmp_path, refuses):
    scores, _ = draw(2)
    path = tmp_path / "advice.json"
    advice = {f"c{i}": recommend(rows, label_names=NAMES) for i, rows in enumerate(scores)}
    save_advice(path, advice)
    for name, one in advice.items():
        for found in (
            load_advice(path, NAMES, context=name),
            load_advice(one, NAMES),
            load_advice(path, k=3, context=name),
        ):
            assert (found.method, found.options) == (one.method, one.options)
        turned = load_advice(path, NAMES[::-1], context=name)
        assert turned.options["target_prior"] == one.options["target_prior"][::-1]
    assert "different advice for" in refuses(load_advice, path, NAMES).got
    assert "advice on" in refuses(load_advice, path, ("a", "b")).got
    path.write_text(json.dumps({"contexts": []}))
    assert refuses(load_advice, path, NAMES).where == str(path)
    assert refuses(load_advice, tmp_path / "none.json", NAMES).where == str(tmp_path / "none.json")


def test_a_list_of_shares_names_the_largest_of_many():
    assert list_shares(dict.fromkeys("abcd", 0.25)) == "a 25 %, b 25 %, c 25 %, d 25 %"
    many = {str(i): (8 - i) / 36 for i in range(8)}
    assert list_shares(many) == "0 22.2 %, 1 19.4 %, 2 16.7 % and 5 others"
