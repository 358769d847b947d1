"""Averages over orders of options, flips with the order, and what answering surely alone costs."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from rendering import rendered

from batch_calibration import calibrate, cli
from batch_calibration.methods import METHODS
from batch_calibration.methods.run import find_skipped
from batch_calibration.metrics import aurc, coverage_at_5, order_flip_rate
from batch_calibration.scores import ScoreTable, make_block
from batch_calibration.studies import Record
from batch_calibration.studies.calibration import run_calibration

pytestmark = pytest.mark.filterwarnings("ignore:.*which is rough:UserWarning")
ORDER_METHODS = ["order_average", "order_average_bc", "order_average_prior"]


def asked_in_orders(contents, places, orders):
    """Scores of contents[n, k] by a model that prefers places[k], in each order, [n o, k]."""
    k = len(places)
    rows = []
    for content in contents:
        for r in range(orders):
            # The content of each place in this order.
            order = [(j + r) % k for j in range(k)]
            if orders == 2 and r == 1:
                order = [k - 1 - j for j in range(k)]
            rows.append([content[order[j]] + places[j] for j in range(k)])
    return np.array(rows, np.float32)


@pytest.fixture(scope="module", params=[2, 3, 5])
def planted_orders(request):
    k = request.param
    random = np.random.default_rng(k)
    contents, places = random.normal(size=(12, k)), 3.0 * np.arange(k)[::-1] / k
    return contents, places, asked_in_orders(contents, places, k)


def test_a_planted_preference_for_places_is_gone_from_every_row(planted_orders):
    contents, places, scores = planted_orders
    k = len(places)
    first_order = scores[::k]
    averages = calibrate(first_order, "order_average", probe=scores)
    np.testing.assert_allclose(averages, contents + places.mean(), atol=1e-5)
    assert (first_order.argmax(1) != contents.argmax(1)).any()
    corrected = calibrate(first_order, "order_average_bc", probe=scores)
    np.testing.assert_allclose(corrected, contents - contents.mean(0), atol=1e-5)
    target = tuple(np.arange(1, k + 1) / (k * (k + 1) / 2))
    matched = calibrate(first_order, "order_average_prior", probe=scores, target_prior=target)
    shares = np.exp(matched) / np.exp(matched).sum(1, keepdims=True)
    np.testing.assert_allclose(shares.mean(0), target, atol=1e-4)


def test_two_orders_are_the_row_and_its_reverse():
    contents, places = np.random.default_rng(0).normal(size=(6, 4)), np.array([2.0, 0.5, 0.0, -1.0])
    scores = asked_in_orders(contents, places, 2)
    averages = calibrate(scores[::2], "order_average", probe=scores)
    # A preference that falls along the places becomes one for neither end.
    np.testing.assert_allclose(averages, contents + (places + places[::-1]) / 2, atol=1e-5)


def test_the_swap_pair_of_a_judge_is_half_the_difference_of_its_log_odds():
    scores = np.log(np.random.default_rng(1).dirichlet([1.0, 1.0], size=20)).astype(np.float32)
    log_odds = scores[:, 0] - scores[:, 1]
    averages = calibrate(scores[::2], "order_average", probe=scores)
    expected = (log_odds[::2] - log_odds[1::2]) / 2
    np.testing.assert_allclose(averages[:, 0] - averages[:, 1], expected, atol=1e-5)


@pytest.mark.parametrize("name", ORDER_METHODS)
def test_a_question_that_lacks_an_order_keeps_its_scores_and_teaches_nothing(name):
    scores = asked_in_orders(np.random.default_rng(2).normal(size=(8, 3)), np.array([1, 0, -1]), 3)
    fit, apply = METHODS[name].make()
    weight = jnp.ones(24).at[4].set(0.0)  # of the second question
    poisoned = jnp.asarray(scores).at[4].set(jnp.nan)
    corrected = np.asarray(apply(fit(poisoned, None, weight), scores[::3]))
    complete = np.delete(scores, [3, 4, 5], axis=0)
    expected = apply(fit(complete), complete[::3])
    np.testing.assert_allclose(np.delete(corrected, 1, axis=0), expected, atol=1e-5)
    if name == "order_average":
        np.testing.assert_allclose(corrected[1], scores[3], atol=1e-6)


def test_rows_that_are_no_orders_are_refused_and_pure_functions_leave_the_scores(refuses):
    rows = np.log(np.random.default_rng(3).dirichlet(np.ones(3), size=12)).astype(np.float32)
    assert "each of the 12 rows" in str(refuses(calibrate, rows, "order_average", probe=rows))
    fit, apply = METHODS["order_average"].make()
    np.testing.assert_array_equal(apply(fit(rows), rows), rows)


def table(scores, orders, gold, option_orders="all", seed=0):
    spec = {"options": {"option_orders": option_orders}}
    asked, test = make_block(scores, spec=spec), make_block(scores[::orders], gold)
    blocks = {"test": test, "permutations": asked}
    return ScoreTable({"task": "mine", "seed": seed}, tuple("abcde"[: scores.shape[1]]), blocks)


def test_contexts_of_other_lengths_and_orders_stand_in_one_study():
    random, places = np.random.default_rng(4), np.array([2.0, 0.0, -1.0])
    tables, expected = [], []
    for seed, (rows, orders) in enumerate([(20, 3), (17, 3), (18, 2)]):
        contents = random.normal(size=(rows, 3))
        scores, gold = asked_in_orders(contents, places, orders), random.integers(3, size=rows)
        choice = "all" if orders == 3 else "two"
        tables.append(table(scores, orders, gold, choice, seed))
        averages = contents if orders == 3 else contents + (places + places[::-1]) / 2
        expected.append((averages.argmax(1) == gold).mean())
    records = run_calibration(tables, ["icl", "pride", "order_average"])
    accuracies = [record.methods["order_average"].metrics["accuracy"] for record in records]
    assert accuracies == pytest.approx(expected)
    # Two orders of three options bring none into each place.
    assert ["pride" in record.methods for record in records] == [True, True, False]
    assert "two orders (option_orders)" in records[2].skipped["pride"]


def test_a_sample_of_permuted_rows_is_no_orders_of_all_rows():
    scores = asked_in_orders(np.zeros((1, 3)), np.array([1.0, 0.0, 0.0]), 3)
    sampled = table(np.tile(scores, (4, 1)), 1, None)
    sampled.blocks["permutations"] = make_block(scores)
    skipped = find_skipped(sampled, ["pride", "order_average"])
    assert set(skipped) == {"order_average"}
    assert "has 3 rows, not 2 or all 3 rows" in skipped["order_average"]


@pytest.mark.parametrize("choice", ["two", "all"])
def test_every_row_is_asked_in_the_orders_that_the_setting_names(choice):
    context = rendered("mini.py:smoke", "copa", model="", limit=7, option_orders=choice)
    block, test = context.blocks["permutations"], context.blocks["test"]
    assert block.size == 14 and block.together == 2
    assert list(block.inputs[::2]) == list(test.inputs)
    assert [row_id.rsplit("/", 1)[0] for row_id in block.row_ids[1::2]] == list(test.row_ids)
    assert block.spec["options"] == {"option_orders": choice}
    assert rendered("mini.py:smoke", "copa", model="", limit=7).context == context.context


def test_the_flip_rate_counts_questions_with_more_than_one_answer(planted_orders, refuses):
    contents, places, scores = planted_orders
    k = len(places)
    flips = 0
    for question in range(len(contents)):
        answers = set()
        for r in range(k):
            answers.add((int(scores[question * k + r].argmax()) + r) % k)
        flips += len(answers) > 1
    rate = order_flip_rate(scores, len(contents))
    assert rate.value == pytest.approx(flips / len(contents)) and flips
    assert rate.low < rate.value < rate.high or rate.value == 1.0
    assert order_flip_rate(asked_in_orders(contents, 0 * places, k), len(contents)).value == 0.0
    assert refuses(order_flip_rate, scores[:-1], len(contents)).got == f"{len(scores) - 1} rows"


def test_a_record_has_the_flip_rate_where_all_questions_have_several_orders(planted_orders):
    contents, places, scores = planted_orders
    k, gold = len(places), contents.argmax(axis=1)
    blocks = {"test": make_block(scores[::k], gold), "permutations": make_block(scores)}
    table = ScoreTable({"task": "t"}, tuple("ABCDEFGH"[:k]), blocks)
    fewer = table._replace(blocks={**blocks, "permutations": make_block(scores[:-k])})
    records = run_calibration([table, fewer], ["icl"])
    rate = order_flip_rate(scores, len(contents))
    assert records[0].order_flips == (rate.value, rate.low, rate.high)
    assert records[1].order_flips == ()
    assert Record.from_json(records[0].to_json()).order_flips == records[0].order_flips


def curve(scores, gold):
    """Risk and coverage at each confidence, by loops."""
    probabilities = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
    confidence, right = probabilities.max(1), scores.argmax(1) == gold
    points = []
    for threshold in confidence:
        answered = confidence >= threshold
        points.append((1 - right[answered].mean(), answered.mean()))
    return points


def test_risk_and_coverage_are_those_of_the_loops():
    random = np.random.default_rng(5)
    scores = random.normal(size=(60, 3)).astype(np.float32)
    scores[20:40] = scores[:20]  # equal confidences
    gold = np.where(random.random(60) < 0.9, scores.argmax(1), random.integers(3, size=60))
    points = curve(scores, gold)
    assert aurc(scores, gold) == pytest.approx(np.mean([risk for risk, _ in points]), abs=1e-6)
    accepted = [coverage for risk, coverage in points if risk <= 0.05 + 1e-9]
    assert coverage_at_5(scores, gold) == pytest.approx(max(accepted, default=0.0), abs=1e-6)
    # Neither the order of the rows nor that of equally sure ones matters; a row may be there twice.
    mixed = random.permutation(60)
    assert aurc(scores[mixed], gold[mixed]) == pytest.approx(float(aurc(scores, gold)), abs=1e-6)
    repeated = np.r_[np.arange(60), 7]
    doubled = np.ones(60, np.float32)
    doubled[7] = 2.0
    for metric in (aurc, coverage_at_5):
        expected = float(metric(scores[repeated], gold[repeated]))
        assert float(metric(scores, gold, doubled)) == pytest.approx(expected, abs=1e-6)
    stacked = jax.vmap(aurc)(jnp.stack([scores, scores]), jnp.stack([gold, gold]))
    np.testing.assert_allclose(stacked, float(aurc(scores, gold)), atol=1e-6)


def test_all_right_is_covered_and_all_wrong_is_not():
    scores = np.array([[2.0, 0.0], [1.0, 0.0], [0.0, 3.0]], np.float32)
    assert coverage_at_5(scores, [0, 0, 1]) == 1.0 and aurc(scores, [0, 0, 1]) == 0.0
    assert coverage_at_5(scores, [1, 1, 0]) == 0.0 and aurc(scores, [1, 1, 0]) == 1.0


def test_the_program_takes_orders_as_a_probe_and_says_how_often_answers_flip(tmp_path, capsys):
    contents, places = np.random.default_rng(6).normal(size=(30, 3)), np.array([1.5, 0.0, -1.0])
    scores = asked_in_orders(contents, places, 3)
    logs = scores - np.log(np.exp(scores).sum(1, keepdims=True))
    for name, rows in (("test", logs[::3]), ("orders", logs)):
        lines = [",".join(f"{score:.8f}" for score in row) for row in rows]
        (tmp_path / f"{name}.csv").write_text("\n".join(["A,B,C", *lines]))
    output = tmp_path / "out.npz"
    flags = "--method=order_average", f"--probe={tmp_path / 'orders.csv'}", f"--output={output}"
    cli.run(["calibrate", str(tmp_path / "test.csv"), *flags])
    expected = calibrate(logs[::3], "order_average", probe=logs)
    with np.load(output) as archive:
        np.testing.assert_allclose(archive["scores"], expected, atol=1e-4)
    stderr = " ".join(capsys.readouterr().err.split())
    assert f"{order_flip_rate(logs, 30)} % of 30 questions get another answer" in stderr
