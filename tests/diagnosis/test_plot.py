"""The figures of what diagnose, recommend and compare return, and a diagnosis as a frame."""

import numpy as np
import pytest

from batch_calibration import Comparison, compare, diagnose, plot, recommend

SCORES = np.array(20 * [[-1.0, -3.0], [-2.0, -2.5]])
GOLD = np.array(20 * [0, 1])
NAMES = ("no", "yes")


def test_a_diagnosis_is_drawn_and_a_frame():
    diagnosis = diagnose(SCORES, GOLD, label_names=NAMES)
    figure = plot(diagnosis, "mine")
    titles = [axes.get_title(loc="left") for axes in figure.axes]
    assert titles == ["mine: preference", "mine: 40 rows", "mine: reliability"]
    heights = [bar.get_height() for bar in figure.axes[0].patches]
    assert heights == pytest.approx([0.625, -0.625])
    frame = diagnosis.to_frame()
    assert list(frame.index) == ["no", "yes"]
    assert frame.loc["no", "preference"] == pytest.approx(0.625)
    assert frame.loc["yes", ["predicted", "corrected", "right"]].tolist() == [0.0, 0.5, 0.5]
    assert diagnose(SCORES).to_frame()["right"].isna().all()


def test_a_comparison_shows_each_gain(refuses):
    comparison = compare(SCORES, GOLD, methods=["icl", "bc", "bc_loo"])
    (axes,) = plot(comparison).axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["bc", "bc_loo"]
    assert refuses(plot, Comparison(comparison.results[:1], 40, 1, {})).got == "icl"


def test_a_recommendation_shows_what_is_measured_or_expected():
    (axes,) = plot(recommend(SCORES)).axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["estimated shares"]
    measured = recommend(SCORES, labeled=SCORES, labels=GOLD)
    (axes,) = plot(measured, "mine").axes
    assert {label.get_text() for label in axes.get_yticklabels()} == {*measured.measured}
    stated = recommend(SCORES[:, :2], target_prior=(0.5, 0.5))
    assert stated.expected.gain is None or plot(stated)


def test_what_cannot_be_drawn_is_said(refuses):
    assert refuses(plot, [1.0]).got == "list"


def test_a_recommendation_becomes_a_frame():
    (row,) = recommend(SCORES).to_frame().itertuples()
    assert row.Index == recommend(SCORES).short and row.recommended and np.isnan(row.accuracy)
    labeled = recommend(SCORES, labeled=SCORES, labels=GOLD)
    frame = labeled.to_frame()
    assert frame.index[0] == labeled.short and frame.recommended.sum() == 1
    assert set(frame.index) == {labeled.short, *labeled.measured}
    first = frame.iloc[0]
    assert first.accuracy == labeled.accuracy.value and first.risk == labeled.expected.risk
    assert (frame.accuracy_low <= frame.accuracy).all() and frame.gain[1:].isna().all()
