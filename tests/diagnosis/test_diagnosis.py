"""Diagnoses against plain numpy and a bootstrap that draws rows."""

import numpy as np
import pytest

from batch_calibration import calibrate, diagnose
from batch_calibration.diagnosis.diagnose import centered_error
from batch_calibration.metrics import mean_recall_interval


@pytest.fixture(scope="module")
def planted_rows():
    rng = np.random.default_rng(0)
    gold = rng.choice(3, 150, p=[0.5, 0.3, 0.2])
    return rng.normal(-2, 1, (150, 3)) + np.eye(3)[gold] + [0.0, 1.2, 0.0], gold


def test_its_numbers_are_those_of_numpy(planted_rows):
    scores, gold = planted_rows
    new = scores - scores.mean(axis=0)
    diagnosis = diagnose(scores, gold)
    before, after = scores.argmax(axis=1), new.argmax(axis=1)
    hits = (before == gold).astype(float), (after == gold).astype(float)
    assert diagnosis.before.accuracy.value == pytest.approx(hits[0].mean())
    assert diagnosis.after.accuracy.value == pytest.approx(hits[1].mean())
    assert diagnosis.gain.value == pytest.approx(hits[1].mean() - hits[0].mean())
    balanced = np.mean([hits[1][gold == j].mean() for j in range(3)])
    assert diagnosis.after.balanced.value == pytest.approx(balanced)
    recall, counts = diagnosis.after.recall, np.bincount(gold, minlength=3)
    interval = mean_recall_interval(recall, counts, np.random.default_rng(0), draws=2000)
    assert diagnosis.after.balanced[1:] == interval
    assert diagnosis.changed.tolist() == np.flatnonzero(before != after).tolist()
    mean = scores.mean(axis=0)
    np.testing.assert_allclose(diagnosis.preference, mean - mean.mean(), atol=1e-6)
    for shares, labels in ((diagnosis.classes, gold), (diagnosis.predicted, before)):
        np.testing.assert_allclose(shares, np.bincount(labels, minlength=3) / 150)
    drawn = np.random.default_rng(1).integers(0, 150, (4000, 150))
    ends = np.quantile((hits[1] - hits[0])[drawn].mean(axis=1), [0.025, 0.975])
    np.testing.assert_allclose(diagnosis.gain[1:], ends, atol=0.015)


def test_rows_without_a_right_label_are_not_judged(planted_rows):
    scores, gold = planted_rows
    diagnosis = diagnose(scores, np.where(np.arange(150) < 100, gold, -1))
    assert (diagnosis.rows, diagnosis.labeled) == (150, 100)
    right = (scores[:100].argmax(axis=1) == gold[:100]).mean()
    assert diagnosis.before.accuracy.value == pytest.approx(right)
    assert diagnose(scores).gain is None


def test_a_loss_is_called_one(planted_rows):
    scores, gold = planted_rows
    text = " ".join(diagnose(scores, gold, corrected=-scores).sentences())
    assert "a loss: do not use it here" in text


@pytest.fixture(scope="module")
def world_religions(shared):
    """Mistral-7B on one subject of MMLU."""
    with np.load(shared / "scores" / "mmlu_base" / "orig.npz") as file:
        subject = list(file["subjects"]).index("world_religions")
        return file["scores"][3][file["subject"] == subject].astype(np.float64)


def test_standard_errors_are_those_of_the_rows(planted_rows):
    scores = planted_rows[0].astype(np.float32).astype(float)
    diagnosis = diagnose(scores)
    n = len(scores)
    for j in range(3):
        centered = [row[j] - sum(row) / 3 for row in scores]
        middle = sum(centered) / n
        variance = sum((x - middle) ** 2 for x in centered) / (n - 1)
        assert diagnosis.error[j] == pytest.approx((variance / n) ** 0.5)
    high, low = diagnosis.preference.argmax(), diagnosis.preference.argmin()
    more = scores[:, high] - scores[:, low]
    assert diagnosis.pair_error == pytest.approx(np.sqrt(more.var(ddof=1) / n))
    # That many rows of the same spread give 0.1 nats, one row less does not.
    need = diagnosis.rows_needed
    assert np.sqrt(more.var(ddof=1) / need) <= 0.1 < np.sqrt(more.var(ddof=1) / (need - 1))
    assert f"± {diagnosis.pair_error:.2f} nats" in diagnosis.sentences()[0]
    assert f"; {need} rows would give ± 0.1." in diagnosis.sentences()[0]


def test_errors_cover_the_bias_of_other_rows_as_often_as_they_say():
    rng = np.random.default_rng(2)
    population = rng.normal(-2, [1.0, 2.0, 0.5], (20000, 3))
    true = population.mean(axis=0) - population.mean()
    hit = []
    for _ in range(150):
        rows = population[rng.integers(0, len(population), 40)]
        preference = rows.mean(axis=0) - rows.mean()
        hit.append(np.abs(preference - true) < 1.96 * centered_error(rows))
    assert 0.9 < np.mean(hit) < 0.98


def jackknife(scores, strength, prior):
    """Rows whose prediction changes under BC, and the ones that one row left out changes."""

    def predicted(batch):
        return (scores - strength * batch.mean(axis=0) + np.log(prior)).argmax(axis=1)

    after = predicted(scores)
    changed = np.flatnonzero(after != scores.argmax(axis=1))
    without_one = [predicted(np.delete(scores, j, axis=0)) for j in range(len(scores))]
    return changed, [i for i in changed if any(guesses[i] != after[i] for guesses in without_one)]


@pytest.mark.parametrize("strength", [1.0, 0.6, -0.8])
@pytest.mark.parametrize("labels", [2, 3, 7])
def test_flips_hang_on_one_row_as_a_jackknife_by_force_finds(labels, strength):
    rng = np.random.default_rng(labels)
    scores = rng.standard_t(2, (200, labels)) + np.linspace(0, 2, labels)
    scores = scores.astype(np.float32).astype(float)
    prior = rng.dirichlet(np.full(labels, 9.0))
    changed, expected = jackknife(scores, strength, prior)
    new = scores - strength * scores.mean(axis=0) + np.log(prior)
    diagnosis = diagnose(scores, corrected=new, strength=strength)
    assert diagnosis.changed.tolist() == changed.tolist()
    assert diagnosis.hanging.tolist() == expected
    assert bool(expected) >= (strength == 1) and len(expected) < len(changed)
    assert diagnose(scores, corrected=new, method="cc").hanging is None


def test_flips_of_real_scores_hang_on_one_row_as_a_jackknife_by_force_finds(world_religions):
    changed, expected = jackknife(world_religions, 1.0, np.ones(4) / 4)
    diagnosis = diagnose(world_religions)
    assert diagnosis.changed.tolist() == changed.tolist()
    assert diagnosis.hanging.tolist() == expected
    assert 0 < len(expected) < len(changed)
    text = " ".join(diagnosis.sentences())
    assert f"{len(changed)} of 171 rows" in text
    assert f"; {len(expected)} of these would change again if one row were left out" in text


def test_correcting_each_row_by_the_others_predicts_what_bc_predicts(world_religions):
    m, total = len(world_religions), world_religions.sum(axis=0)
    corrected = world_religions - (total - world_religions) / (m - 1)
    assert (corrected.argmax(axis=1) == calibrate(world_religions).argmax(axis=1)).all()


def test_labels_almost_never_predicted_are_named_beside_how_often_they_are_right():
    gold = np.arange(60) % 3
    scores = np.eye(3)[gold] - [2.0, 2.0, 9.0]
    diagnosis = diagnose(scores, gold, label_names=("a", "b", "c"))
    assert diagnosis.rare.tolist() == [2]
    text = " ".join(diagnosis.sentences())
    assert "'c' is predicted for less than 3.3 % of the rows, and right for 33.3 %" in text
    text = " ".join(diagnose(scores, label_names=("a", "b", "c")).sentences())
    assert "'c' is predicted for less than 3.3 % of the rows." in text
    many = diagnose(np.tile(-np.arange(12.0), (200, 1)))
    assert "11 of the 12 labels are predicted for less than 0.8 %" in " ".join(many.sentences())


def test_label_mass_is_said_where_scores_can_be_log_probabilities():
    rows = np.log([[0.5, 0.2], [0.3, 0.4]]).repeat(5, axis=0)
    diagnosis = diagnose(rows)
    assert diagnosis.mass == pytest.approx(0.7)
    assert "Together the labels have 70 % of the probability" in " ".join(diagnosis.sentences())
    low = " ".join(diagnose(rows - 5).sentences())
    assert "the model mostly prefers other answers" in low
    assert diagnose(rows + 3, from_probs=False).mass is None


def test_one_row_says_that_it_shows_nothing():
    with pytest.warns(UserWarning, match="one row to learn from, so all corrected scores are eq"):
        diagnosis = diagnose([[-1.0, -0.5]], [1], label_names=("no", "yes"))
    assert np.isnan(diagnosis.pair_error) and diagnosis.rows_needed is None
    (sentence,) = diagnosis.sentences()
    assert "One row cannot separate bias from the right answer" in sentence
    assert "bc makes its scores equal, so the first label, 'no', wins." in sentence


def test_two_rows_have_no_error_worth_a_number():
    with pytest.warns(UserWarning, match="from 2 rows"):
        text = " ".join(diagnose([[-1.0, -0.5], [-1.0, -2.5]]).sentences())
    assert "two rows do not show how certain this is" in text and "±" not in text
    assert "left out" not in text


def test_one_class_alone_is_said_to_tell_nothing():
    scores = np.random.default_rng(3).normal([0.0, 2.0], 0.1, (40, 2))
    text = " ".join(diagnose(scores, np.ones(40, int), label_names=("no", "yes")).sentences())
    assert "'yes' is predicted for all rows: it may be a bias or the right label of all" in text
    assert "All labeled rows have the right label 'yes'" in text
    equal = diagnose(np.tile([-1.0, -2.0], (12, 1)))
    assert "in 12 of 12 rows all 2 corrected scores are equal" in " ".join(equal.sentences())


def test_a_diagnosis_is_printed_in_its_sentences():
    diagnosis = diagnose(20 * [[-1.0, -3.0], [-2.0, -2.5]], label_names=("a<b", "c"))
    assert str(diagnosis).splitlines() == diagnosis.sentences()
    assert "a&lt;b" in diagnosis._repr_html_() and "a<b" not in diagnosis._repr_html_()


def test_margins_below_the_rounding_of_half_precision_are_counted(refuses):
    """Scores of eight nats: numbers of bfloat16 lie 1/32 apart there, of float16 1/256 and less."""
    margins = np.array([0.001, 0.01, 0.05, 0.2, 1.0])
    margins = np.concatenate([margins, -margins])  # so that BC subtracts nothing
    rows = np.stack([-8 + margins / 2, -8 - margins / 2], axis=1).astype(np.float32)
    by_dtype = {dtype: diagnose(rows, dtype=dtype) for dtype in ("bfloat16", "float16", "float32")}
    assert [len(diagnosis.rounded) for diagnosis in by_dtype.values()] == [6, 4, 0]
    sentence = by_dtype["bfloat16"].sentences()[-1]
    assert sentence.startswith("In 6 of 10 rows") and "bfloat16" in sentence
    assert not any("rounded" in text for text in by_dtype["float32"].sentences())
    assert diagnose(rows).rounded is None  # not known
    # An array of half precision says so itself.
    assert len(diagnose(rows.astype(np.float16)).rounded) >= 4
    assert refuses(diagnose, rows, dtype="bfloat").key == "dtype"


def test_the_rounding_that_flips_predictions_is_counted():
    """Rounding scores to bfloat16 changes no prediction but of the rows that are counted."""
    import jax.numpy as jnp

    rows = np.random.default_rng(0).normal(-8, 0.3, (2000, 3)).astype(np.float32)
    rounded = np.asarray(jnp.asarray(rows, jnp.bfloat16).astype(jnp.float32))
    diagnosis = diagnose(rows, dtype="bfloat16")
    flips = np.flatnonzero(calibrate(rounded).argmax(-1) != calibrate(rows).argmax(-1))
    assert len(flips) > 10 and set(flips) <= set(diagnosis.rounded)
    assert len(diagnosis.rounded) < 1000
