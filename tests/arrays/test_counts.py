"""Counts of sampled answers as scores: the estimate, its doors, and refused numbers."""

import jax
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import digamma, softmax

from batch_calibration import InputError, calibrate, compare, diagnose, recommend
from batch_calibration.arrays.score_scale import find_scale, note_counts, to_nats
from batch_calibration.cli import run
from batch_calibration.estimator import LabelBiasCorrector
from batch_calibration.importers import Reading, tables_of

RANDOM = np.random.default_rng(0)
COUNTS = RANDOM.multinomial(10, RANDOM.dirichlet([3, 1, 1], 60)).astype(float)
GOLD = RANDOM.integers(0, 3, 60)


def by_hand(counts):
    """Krichevsky and Trofimov's estimate, row by row."""
    scores = np.empty(counts.shape)
    for i, row in enumerate(np.nan_to_num(counts).tolist()):
        for j, count in enumerate(row):
            scores[i, j] = np.log((count + 0.5) / (sum(row) + len(row) / 2))
    return scores


@st.composite
def some_counts(draw):
    k, n = draw(st.integers(2, 6)), draw(st.integers(1, 20))
    random = np.random.default_rng(draw(st.integers(0, 2**16)))
    sizes = random.integers(2, 60, n)  # another number of answers in each row
    return random.multinomial(sizes, random.dirichlet(np.ones(k), n)).astype(float)


@given(some_counts(), st.randoms())
def test_the_estimate_is_that_of_jeffreys_prior(counts, random):
    nats = to_nats(counts, "scores", "counts")
    np.testing.assert_allclose(nats, by_hand(counts))
    np.testing.assert_allclose(np.exp(nats).sum(axis=1), 1)
    order = random.sample(range(counts.shape[1]), counts.shape[1])
    np.testing.assert_array_equal(to_nats(counts[:, order], "scores", "counts"), nats[:, order])
    twice = to_nats(2 * counts, "scores", "counts")
    spread, more = (s[:, :, None] - s[:, None] for s in (nats, twice))
    assert (np.abs(more) >= np.abs(spread) - 1e-12).all()  # surer of the same order
    assert (np.sign(more.round(9)) == np.sign(spread.round(9))).all()
    stacked = to_nats(np.stack([counts, counts]), "scores", "counts")
    np.testing.assert_array_equal(stacked[1], nats)
    # The logarithm of the mean is above the mean of the logarithm (Jensen), and near it.
    mean_log = digamma(counts + 0.5) - digamma(counts.sum(1, keepdims=True) + counts.shape[1] / 2)
    assert (nats >= mean_log).all()


def test_an_empty_cell_is_a_count_of_0_and_a_row_without_answers_has_no_scores():
    counts = np.array([[7, np.nan, 3], [0, 0, 0], [np.nan] * 3, [4, 0, 0]])
    nats = to_nats(counts, "scores", "counts")
    assert np.isnan(nats[[1, 2]]).all()
    np.testing.assert_allclose(nats[[0, 3]], by_hand(counts[[0, 3]]))


def test_every_door_takes_counts():
    nats = by_hand(COUNTS).astype(np.float32)
    bc = np.asarray(calibrate(nats))
    frame = pd.DataFrame(COUNTS, columns=["a", "b", "c"])
    for scores in (COUNTS, COUNTS.astype(int), frame, COUNTS.tolist(), jax.numpy.array(COUNTS)):
        np.testing.assert_allclose(calibrate(scores, from_probs="counts"), bc, atol=1e-6)
    found = diagnose(COUNTS, labels=GOLD, from_probs="counts")
    assert str(found) == str(diagnose(nats, labels=GOLD))
    assert str(recommend(COUNTS, from_probs="counts")) == str(recommend(nats))
    corrector = LabelBiasCorrector(from_probs="counts").fit(COUNTS)
    np.testing.assert_array_equal(corrector.predict(COUNTS), bc.argmax(axis=1))
    of_counts = compare(COUNTS, GOLD, methods=["icl", "bc"], from_probs="counts")
    assert str(of_counts) == str(compare(nats, GOLD, methods=["icl", "bc"]))
    for scores in (COUNTS, frame, {name: frame[name].to_numpy() for name in frame}):
        (table,) = tables_of(scores, Reading(from_probs="counts"))
        np.testing.assert_allclose(table.blocks["test"].log_probs, nats, atol=1e-6)
        (note,) = (n for n in table.blocks["test"].spec["notes"] if "answers a row" in n)
        assert note == note_counts(COUNTS)[0]


@pytest.mark.parametrize(
    ("numbers", "names", "kind"),
    [
        (COUNTS, (), "counts"),
        (COUNTS, ("p_a", "p_b", "p_c"), "counts"),
        (COUNTS + 1, ("logit_a", "logit_b", "logit_c"), "others"),
        (COUNTS, ("nll_a", "nll_b", "nll_c"), "losses"),
        (RANDOM.integers(1, 6, (30, 2)), ("mine", "theirs"), "counts"),  # or ratings
        (10 * COUNTS, (), "counts"),  # or percentages: the sentence names both
        (np.tile([[33.0, 33, 33], [50, 25, 25]], (20, 1)), (), "percentages"),
        (np.eye(3)[GOLD], (), "hard answers"),
        (COUNTS - 2, (), "others"),
        (COUNTS + 0.25, (), "unclear"),
        (-COUNTS, (), "log-probabilities"),
    ],
)
def test_whole_numbers_are_asked_about(numbers, names, kind):
    found = find_scale(np.asarray(numbers, float), names)
    assert found.kind == kind
    if kind in ("counts", "hard answers"):
        with pytest.raises(InputError) as error:
            calibrate(np.asarray(numbers, float))
        assert error.value.got == found.evidence
        for flag in ("from_probs='counts'", "from_probs=True", "from_probs=False"):
            assert flag in error.value.remedy


@pytest.mark.parametrize(
    "numbers", [COUNTS - 1, COUNTS + 0.5, np.where(COUNTS > 5, np.inf, 1.0), np.log(COUNTS + 1)]
)
def test_other_numbers_are_no_counts(numbers, refuses):
    with np.errstate(invalid="ignore"):
        error = refuses(to_nats, np.asarray(numbers), "scores", "counts")
    assert error.expected.startswith("counts") and "from_probs='counts'" in error.remedy


@pytest.mark.parametrize("numbers", [np.eye(3)[GOLD], np.zeros((5, 2)), np.zeros((0, 2))])
def test_one_answer_a_row_is_refused(numbers, refuses):
    assert refuses(to_nats, numbers, "scores", "counts").got == "at most one answer a row"


def test_rows_that_agree_keep_their_label_up_to_the_bias_that_the_note_names():
    counts = np.array([[10.0, 0]] * 9 + [[0, 10]])
    scores = by_hand(counts)
    most = np.log(2 * 10 + 1)
    for bias, label in ((most - 0.01, 0), (most + 0.01, 1)):
        assert (scores - [bias, 0])[0].argmax() == label
    (note,) = note_counts(counts)
    assert "(10 of 10) keep their label unless its bias exceeds another label's by " in note
    assert f"= {most:.1f} nats" in note
    (note,) = note_counts(np.array([[4.0, 4], [2, 1], [0, 0], [np.nan, 12]]))
    assert "n = 3 to 12 answers" in note and "(1 of 3)" in note
    assert "a tie (1)" in note and "without an answer (1)" in note


def test_a_planted_bias_is_removed_from_counts():
    """BC on 50 answers a row predicts as BC on the scores does, in most rows."""
    random = np.random.default_rng(1)
    logits = random.normal([1.5, 0], 2, (2000, 2))
    counts = random.multinomial(50, softmax(logits, axis=1)).astype(float)
    corrected = [np.asarray(calibrate(counts, from_probs="counts")), logits - logits.mean(axis=0)]
    answers = [scores.argmax(axis=1) for scores in (logits, *corrected)]
    assert (answers[1] == answers[2]).mean() > 0.94 > (answers[0] == answers[2]).mean() + 0.1


def test_the_console_reads_counts(tmp_path, capsys):
    frame = pd.DataFrame(COUNTS.astype(int), columns=["a", "b", "c"]).assign(id=range(60))
    path, output = tmp_path / "counts.csv", tmp_path / "corrected.csv"
    frame.assign(gold=np.array(["a", "b", "c"])[GOLD]).to_csv(path, index=False)
    for flags in ([], ["--labels=a,b,c"]):
        with pytest.raises(SystemExit):
            run(["diagnose", str(path), "--gold=gold", *flags])
        assert "pass --counts if they count" in " ".join(capsys.readouterr().err.split())
    run(["calibrate", str(path), "--gold=gold", "--counts", f"--output={output}"])
    expected = by_hand(COUNTS) - by_hand(COUNTS).mean(axis=0)
    np.testing.assert_allclose(pd.read_csv(output)[["a", "b", "c"]], expected, atol=1e-5)
    assert "n = 10 answers a row" in " ".join(capsys.readouterr().err.split())
