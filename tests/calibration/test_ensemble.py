"""Several prompts as one: an oracle in float64, laws, and what Python and the console make."""

import jax
import numpy as np
import pandas as pd
import pytest
from making import by_method
from scipy.special import log_softmax, softmax

from batch_calibration import calibrate, cli, ensemble
from batch_calibration.calibration.ensemble import average_contexts
from batch_calibration.cli import commands, options
from batch_calibration.methods import run_methods
from batch_calibration.methods.run import jit_quickly
from batch_calibration.scores import ScoreTable, make_block
from batch_calibration.studies.calibration import run_calibration

average = jit_quickly(average_contexts)


def draw(contexts: int, rows: int, k: int = 3, seed: int = 0):
    """Scores [c n k] of the same rows with a bias of each context, and the rows' labels."""
    generator = np.random.default_rng(seed)
    gold = generator.integers(0, k, rows)
    told = 1.2 * (1.2 * np.eye(k)[gold] + generator.normal(size=(contexts, rows, k)))
    bias = generator.normal(scale=0.7, size=(contexts, 1, k))
    return (told + bias - 9.0).astype(np.float32), gold


def oracle(corrected: np.ndarray, gate: float = 0.05) -> np.ndarray:
    """The mean over the contexts that tell enough, in loops."""
    normalized = [log_softmax(context.astype(float), axis=1) for context in corrected]
    told = []
    for rows in normalized:
        after = softmax(rows - rows.mean(axis=0), axis=1)
        told.append(np.mean(np.sum(after * np.log(after / after.mean(axis=0)), axis=1)))
    chosen = [rows for rows, nats in zip(normalized, told, strict=True) if nats >= gate]
    return np.mean(chosen or normalized, axis=0)


def test_it_is_the_mean_over_contexts_that_tell_enough():
    rows, _ = draw(4, 50)
    rows[2] *= 0.01
    weight = np.ones(rows.shape[:2], np.float32)
    np.testing.assert_allclose(average(rows, weight), oracle(rows), atol=1e-5)
    np.testing.assert_allclose(average(rows, weight), oracle(rows[[0, 1, 3]]), atol=1e-5)
    nothing = rows * 0.001  # none tells enough: all are averaged
    np.testing.assert_allclose(average(nothing, weight), oracle(nothing), atol=1e-5)


def test_order_labels_and_constants_of_rows_are_nothing():
    rows, _ = draw(4, 40)
    usual = average(rows, np.ones((4, 40), np.float32))
    for turned, expected in (
        (rows[::-1], usual),
        (rows[:, ::-1], usual[::-1]),
        (rows[:, :, ::-1], usual[:, ::-1]),
    ):
        other = average(turned, np.ones((4, 40), np.float32))
        np.testing.assert_allclose(other, expected, atol=1e-5)
    rows[1] += np.linspace(-3, 3, 40)[:, None]
    np.testing.assert_allclose(average(rows, np.ones((4, 40), np.float32)), usual, atol=1e-5)


def test_absent_rows_and_contexts_are_nothing():
    rows, _ = draw(3, 40)
    usual = average(rows, np.ones((3, 40), np.float32))
    padded, weight = np.full((5, 64, 3), np.nan, np.float32), np.zeros((5, 64), np.float32)
    padded[:3, :40], weight[:3, :40] = rows, 1.0
    other = average(padded, weight)
    np.testing.assert_allclose(other[:40], usual, atol=1e-5)
    assert not np.asarray(other[40:]).any()
    weight[0, 0] = 0.0  # a row that one context lacks is the mean of the others'
    expected = log_softmax(rows[1:, 0].astype(float), axis=-1).mean(axis=0)
    np.testing.assert_allclose(average(padded, weight)[0], expected, atol=1e-5)


def test_it_runs_under_vmap():
    rows = np.stack([draw(3, 40, seed=seed)[0] for seed in (0, 1)])
    weight = np.ones(rows.shape[:3], np.float32)
    both = jax.vmap(average)(rows, weight)
    for place in (0, 1):
        np.testing.assert_allclose(both[place], average(rows[place], weight[place]), atol=1e-5)


def test_one_context_is_itself():
    rows, _ = draw(1, 60)
    alone = calibrate(rows[0], "bc_empirical_bayes")
    np.testing.assert_allclose(ensemble(rows), log_softmax(alone, axis=-1), atol=1e-5)


def tables_of(scores_of: np.ndarray, gold: np.ndarray, **context: str) -> list[ScoreTable]:
    tables = []
    for seed, scores in enumerate(scores_of):
        block = make_block(scores, gold)
        facts = {"task": "mine", "seed": seed, **context}
        tables.append(ScoreTable(facts, ("a", "b", "c"), {"test": block}))
    return tables


def test_python_and_a_study_average_the_contexts_that_pooled_shares_correct():
    rows, gold = draw(5, 60)
    tables = tables_of(rows, gold, rows="d")
    found = run_methods(tables, ["bc_pooled_shares", "ensemble"], groups=["mine"] * 5)
    results = list(found.results)
    corrected = np.stack([methods["bc_pooled_shares"].scores for methods in results])
    for methods in results:
        np.testing.assert_allclose(methods["ensemble"].scores, oracle(corrected), atol=1e-4)
    np.testing.assert_allclose(ensemble(list(rows)), results[0]["ensemble"].scores, atol=1e-6)
    records = run_calibration(tables, ["icl", "ensemble"])
    accuracies = {record.methods["ensemble"].metrics["accuracy"] for record in records}
    assert accuracies == {(oracle(corrected).argmax(axis=-1) == gold).mean()}
    assert not by_method(records[0], "bias")


def test_contexts_of_other_rows_have_no_ensemble():
    rows, gold = draw(2, 30)
    found = run_methods(tables_of(rows, gold), ["ensemble"], groups=["mine"] * 2)
    why = "no other context of the task is known to have the same rows"
    assert found.skipped == 2 * [{"ensemble": why}]


def test_frames_are_aligned_by_index_and_come_back_as_frames():
    rows, _ = draw(3, 30)
    index = [f"q{i}" for i in range(30)]
    frames = [pd.DataFrame(scores, index, ["a", "b", "c"]) for scores in rows]
    frames[1] = frames[1].iloc[::-1][["c", "a", "b"]]
    averaged = ensemble(frames)
    assert list(averaged.columns) == ["a", "b", "c"] and list(averaged.index) == index
    np.testing.assert_allclose(averaged.to_numpy(), ensemble(rows), atol=1e-6)


def test_bad_contexts_are_answered_in_a_sentence(refuses):
    assert refuses(ensemble, []).where == "contexts"
    assert refuses(ensemble, [-1.0 - np.eye(n, 2) for n in (3, 4)]).where == "contexts[1]"


def files_of(folder, rows, gold):
    names = []
    for number, scores in enumerate(rows):
        frame = pd.DataFrame(scores, columns=["a", "b", "c"])
        frame.insert(0, "id", [f"q{i}" for i in range(len(frame))])
        frame["gold"] = np.array(["a", "b", "c"])[gold]
        names.append(folder / f"prompt{number}.csv")
        frame.iloc[:: -1 if number else 1].to_csv(names[-1], index=False)
    return names


def test_the_console_matches_rows_by_id(tmp_path, capsys):
    rows, gold = draw(3, 60)
    names = files_of(tmp_path, rows, gold)
    out = tmp_path / "one.csv"
    cli.run(["ensemble", *map(str, names), "--ids=id", "--gold=gold", f"--output={out}", "--quiet"])
    written = pd.read_csv(out)
    assert list(written["row"]) == [f"q{i}" for i in range(60)]
    averaged = ensemble(rows)
    np.testing.assert_allclose(written[["a", "b", "c"]], averaged, atol=1e-4)
    said = " ".join(capsys.readouterr().out.split())
    right = (averaged.argmax(axis=-1) == gold).mean()
    assert f"60 rows, from 3 contexts. {100 * right:.1f} % of the 60 labeled" in said


ODD = {"id": "'q7'", "label": "'a'", "gold": "'q8'", "alone": "no other"}


@pytest.mark.parametrize("odd", ODD)
def test_the_console_refuses_other_questions(odd, tmp_path, refuses):
    rows, gold = draw(2, 20)
    names = files_of(tmp_path, rows, gold)
    text = names[1].read_text()
    changes = {"id": ("q7,", "q99,"), "label": ("id,a,", "id,z,"), "gold": (",a\n", ",b\n")}
    if odd in changes:
        text = text.replace(*changes[odd], 1)
        names[1].write_text(text.replace(",a\n", ",z\n") if odd == "label" else text)
    files = [str(name) for name in (names[:1] if odd == "alone" else names)]
    words = ["ensemble", *files, "--ids=id", "--gold=gold", "--quiet"]
    assert ODD[odd] in refuses(commands.ensemble_files, options.parse(words)).got
