"""PMI, LOOC, PriDe: what is their own about the rows they learn from."""

import json

import jax.numpy as jnp
import numpy as np
import pytest

from batch_calibration import calibrate
from batch_calibration.calibration.order_average import option_prior
from batch_calibration.cli import run
from batch_calibration.methods import METHODS, run_methods
from batch_calibration.methods.run import find_skipped
from batch_calibration.scores import ScoreTable, make_block
from batch_calibration.scoring import LabelScores
from batch_calibration.scoring.prompts.rendered import RenderedBlock
from batch_calibration.studies import run_calibration
from batch_calibration.studies.context_scores import _block

pytestmark = pytest.mark.filterwarnings("ignore:.*which is rough:UserWarning")

NAMES = ("a", "b", "c")


@pytest.fixture(scope="module")
def rows(planted):
    return np.asarray(planted(12, 3)[0])


@pytest.fixture(scope="module")
def premises(planted):
    return np.asarray(planted(12, 3, 7)[0])


def table(seed, **blocks):
    return ScoreTable({"task": "mine", "seed": seed}, NAMES, blocks)


class TestPmi:
    def test_one_premise_serves_all_rows(self, rows, premises):
        corrected = calibrate(rows, "pmi", probe=premises[:1])
        np.testing.assert_allclose(corrected, rows - premises[:1], atol=1e-6)

    def test_as_many_premises_as_rows_are_taken_off_row_by_row(self, rows, premises):
        corrected = calibrate(rows, "pmi", probe=premises, target_prior=(0.5, 0.3, 0.2))
        np.testing.assert_allclose(corrected, rows - premises + np.log([0.5, 0.3, 0.2]), atol=1e-6)

    def test_another_number_of_premises_is_refused(self, rows, premises, refuses):
        assert "12 rows" in str(refuses(calibrate, rows, "pmi", probe=premises[:4]))
        lost = table(0, test=make_block(rows), pmi=make_block(premises[:9]))
        why = "the block 'pmi' has 9 rows, not one row, or one for each of the 12 rows of scores"
        assert find_skipped(lost, ["pmi"]) == {"pmi": why}

    def test_absent_premises_are_nothing(self, rows, premises):
        fit, apply = METHODS["pmi"].make()
        poisoned = np.where(np.arange(12)[:, None] > 0, np.nan, premises)
        corrected = apply(fit(poisoned, None, jnp.eye(12)[0]), rows)
        np.testing.assert_allclose(corrected, rows - premises[:1], atol=1e-6)
        weight = jnp.arange(12) < 8
        partial = apply(fit(np.where(weight[:, None], premises, np.nan), None, weight), rows)
        np.testing.assert_allclose(partial[:8], (rows - premises)[:8], atol=1e-6)

    def test_contexts_of_both_kinds_stand_in_one_study(self, rows, premises):
        gold = np.arange(12) % 3
        tables = [
            table(0, test=make_block(rows, gold), pmi=make_block(premises)),
            table(1, test=make_block(rows, gold), pmi=make_block(premises[:1])),
            table(2, test=make_block(rows[:9], gold[:9]), pmi=make_block(premises[:9])),
        ]
        expected = [rows - premises, rows - premises[:1], (rows - premises)[:9]]
        for corrected, right in zip(run_methods(tables, ["pmi"]).results, expected, strict=True):
            np.testing.assert_allclose(corrected["pmi"].scores, right, atol=1e-5)
        accuracy = [
            made.methods["pmi"].metrics["accuracy"] for made in run_calibration(tables, ["pmi"])
        ]
        shares = [float((e.argmax(1) == gold[: len(e)]).mean()) for e in expected]
        assert accuracy == pytest.approx(shares)


class TestLooc:
    LABELS = (0, 0, 0, 1, 2, -1)

    def test_each_label_weighs_alike(self, rows, premises):
        corrected = calibrate(rows, "looc", probe=premises[:6], labels=self.LABELS)
        probs = np.exp(premises[:5]) / np.exp(premises[:5]).sum(axis=1, keepdims=True)
        prior = np.mean([probs[:3].mean(axis=0), probs[3], probs[4]], axis=0)
        moved = corrected - (rows - np.log(prior))
        np.testing.assert_allclose(moved, moved[0, 0], atol=1e-5)

    def test_labels_that_do_not_come_are_asked_for(self, rows, premises, refuses):
        assert "labels is missing" in str(refuses(calibrate, rows, "looc", probe=premises))

    def test_a_block_without_a_right_label_is_left_out(self, rows, premises):
        unlabeled = table(0, test=make_block(rows), looc=make_block(premises))
        reason = "no row of the block 'looc' has a right label"
        assert find_skipped(unlabeled, ["looc"]) == {"looc": reason}
        labeled = table(0, test=make_block(rows), looc=make_block(premises, [0] * 12))
        assert find_skipped(labeled, ["looc"]) == {}

    def test_a_probe_file_keeps_its_right_labels(self, tmp_path, rows, premises):
        for name, scores in (("test", rows), ("probe", premises)):
            lines = [json.dumps(dict(zip(NAMES, map(float, row), strict=True)) | {"right": i % 3})
                     for i, row in enumerate(scores)]  # fmt: skip
            (tmp_path / f"{name}.jsonl").write_text("\n".join(lines))
        arguments = [str(tmp_path / "test.jsonl"), "--labels=a,b,c", "--gold=right"]
        probe = f"--probe=looc={tmp_path / 'probe.jsonl'}"
        out = tmp_path / "out.npz"
        run(["calibrate", *arguments, "--method=looc", probe, f"--output={out}"])
        expected = calibrate(rows, "looc", probe=premises, labels=np.arange(12) % 3)
        with np.load(out) as archive:
            np.testing.assert_allclose(archive["scores"], expected, atol=1e-4)


class TestPride:
    def test_a_planted_preference_is_recovered_whatever_the_contents_say(self):
        rng = np.random.default_rng(0)
        contents, letters = rng.normal(size=(5, 4)), np.array([0.9, 0.1, -0.4, -0.6])
        turned = [np.roll(content, -shift) for content in contents for shift in range(4)]
        scores = np.stack(turned) + letters + rng.normal(size=(20, 1))
        bias = np.asarray(option_prior(jnp.asarray(scores, jnp.float32)))
        np.testing.assert_allclose(bias - bias.mean(), letters - letters.mean(), atol=1e-5)

    def test_the_order_of_questions_is_nothing_and_that_of_rows_is_much(self, premises):
        order = np.array([6, 7, 8, 0, 1, 2, 9, 10, 11, 3, 4, 5])
        bias = option_prior(jnp.asarray(premises))
        np.testing.assert_allclose(option_prior(jnp.asarray(premises[order])), bias, atol=1e-6)
        mixed = np.random.default_rng(0).permutation(12)
        assert np.abs(option_prior(jnp.asarray(premises[mixed])) - bias).max() > 1e-3

    def test_a_question_that_lacks_a_permutation_is_absent(self, premises):
        poisoned = np.where(np.arange(12)[:, None] == 4, np.nan, premises)
        bias = option_prior(jnp.asarray(poisoned), jnp.ones(12).at[4].set(0.0))
        complete = np.delete(premises, [3, 4, 5], axis=0)
        np.testing.assert_allclose(bias, option_prior(jnp.asarray(complete)), atol=1e-6)

    def test_a_question_of_weight_two_is_there_twice(self, premises):
        weight = jnp.ones(12).at[3:6].set(2.0)
        twice = np.concatenate([premises, premises[3:6]])
        bias = option_prior(jnp.asarray(premises), weight)
        np.testing.assert_allclose(bias, option_prior(jnp.asarray(twice)), atol=1e-6)

    def test_rows_that_are_no_whole_questions_are_refused(self, rows, premises, refuses):
        assert refuses(calibrate, rows, "pride", probe=premises[:4]).got == "4 rows"

    def test_a_row_without_scores_takes_its_question_with_it(self, premises):
        ids = [f"{i // 3}/{i % 3}" for i in range(12)]
        block_asked = RenderedBlock(["?"] * 12, [-1] * 12, ids, {"texts": "x"}, together=3)
        log_probs = np.concatenate([np.zeros((5, 3), np.float32), premises])
        answer = LabelScores(log_probs, np.ones(17, np.int32), {2: "no", 9: "no answer"})
        block = _block(block_asked, answer, 5)
        assert block.row_ids == tuple(ids[:3] + ids[6:]) and block.spec["unreadable"] == 3
        np.testing.assert_array_equal(block.log_probs, np.delete(premises, [3, 4, 5], axis=0))
