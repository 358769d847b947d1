"""Kinds of numbers: probabilities, percentages and losses never pass for nats."""

import json

import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from batch_calibration import METHODS, InputError, calibrate, diagnose, read, recommend
from batch_calibration.arrays.score_scale import find_scale, keep_differences, to_nats
from batch_calibration.cli import run
from batch_calibration.estimator import LabelBiasCorrector
from batch_calibration.importers import Reading, tables_of
from batch_calibration.integrations.streams import correct_stream

PROBS = np.random.default_rng(0).dirichlet([4, 2, 2], 60)
LOGS = np.log(PROBS)
LOGITS = LOGS + np.linspace(-4, 9, 60)[:, None]
NATS = "log-probabilities in nats"


def refused(call):
    """The fields of the sentence that a call is refused with."""
    with pytest.raises(InputError) as error:
        call()
    return error.value


def from_top(rows):
    """Differences from the highest score of each row."""
    return rows - rows.max(-1, keepdims=True)


def softmax_of(dtype, probs):
    return np.asarray(jnp.asarray(probs, dtype), np.float64)


@st.composite
def prob_rows(draw):
    """Probabilities [n, k] of 2 to 20 labels, as other programs write them."""
    k, n = draw(st.integers(2, 20)), draw(st.integers(1, 40))
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    probs = rng.dirichlet(np.full(k, draw(st.sampled_from([0.3, 1.0, 8.0]))), n)
    written = draw(st.sampled_from([2, 3, 4, jnp.bfloat16, jnp.float16]))
    rounded = probs.round(written) if isinstance(written, int) else softmax_of(written, probs)
    return np.maximum(probs, 1e-30), rounded


@given(prob_rows())
@settings(max_examples=60)
def test_probabilities_however_they_are_rounded_are_recognized_and_taken(pair):
    probs, rounded = pair
    for numbers in (probs, rounded, np.minimum(rounded, 0.5)):
        kinds = ("probabilities", "small probabilities", "unclear", "hard answers")
        assert find_scale(numbers).kind in kinds
        assert refused(lambda: to_nats(numbers, "scores")).expected == NATS  # noqa: B023
    taken = np.exp(to_nats(rounded, "scores", from_probs=True))
    np.testing.assert_allclose(taken, np.minimum(rounded, 1), atol=1e-12)


@given(prob_rows())
@settings(max_examples=60)
def test_percentages_and_losses_are_never_nats_nor_probabilities(pair):
    probs, rounded = pair
    for percent in (100 * probs, 100 * rounded, (100 * probs).round(1)):
        for from_probs in (None, True):
            error = refused(lambda: to_nats(percent, "scores", from_probs))  # noqa: B023
            assert "100" in error.remedy
    # A single row of losses from 0 to 1 that is said to be of probabilities may be one.
    if len(probs) > 1:
        for losses in (-np.log(probs), -np.log(probs).round(3), -np.log(probs) + 3.0):
            for from_probs in (None, True):
                error = refused(lambda: to_nats(losses, "scores", from_probs))  # noqa: B023
                assert "negatives" in error.remedy or "from_probs=True" in error.remedy


@given(prob_rows())
def test_log_probabilities_and_logits_are_never_refused(pair):
    logs = np.log(pair[0])
    offsets = np.linspace(-3, 3, len(logs))[:, None]
    logits = logs - logs.mean() + offsets
    variants = [logits] if (logits < -1).any() and (logits > 1.1).any() else []
    for numbers in (logs, logs.round(2), logs * 1e-6, 0 * logs, logs.astype(np.float32), *variants):
        assert to_nats(numbers, "scores") is numbers


def test_real_log_probabilities_and_logits_by_their_name_are_never_refused(shared):
    folder = shared / "scores"
    for path in sorted((folder / "mmlu_base").glob("*.npz")):
        with np.load(path) as file:
            for scores in file["scores"]:
                assert to_nats(scores, "scores") is scores
    with np.load(folder / "llama13b_demonstrations/mmlu16_1shot_10prompts.npz") as file:
        for name in file.files:
            if name.endswith("_scores"):
                assert to_nats(file[name], "scores") is file[name] or find_scale(file[name])
                assert find_scale(file[name]).kind == "log-probabilities"
    for name in ("mmbench", "oodcv"):
        with np.load(folder / f"vlm/{name}.npz") as file:
            assert all(find_scale(scores, ["logits"]).kind == "others" for scores in file["logits"])
            assert all(find_scale(scores).kind == "unclear" for scores in file["logits"])


ONE_OFF = PROBS.round(2)
ONE_OFF[7] = [0.34, 0.33, 0.34]


def beside(*row):
    return np.concatenate([PROBS, [row]])


def labeled(scores):
    return {"labeled": scores, "labels": [0] * len(scores)}


def both_in(first, second):
    said = f"probabilities in row {first} and log-probabilities in row {second}"
    return said, "numbers of one kind"


SHARES = ("which are probabilities", "from_probs=True")
KINDS = {
    "two decimals": (PROBS.round(2), *SHARES),
    "a row of 1.01": (ONE_OFF, *SHARES),
    "a probability of 1.0001": (beside(1.0001, 0, 0), *SHARES),
    "a dust of -1e-17": (beside(1.0, -1e-17, 0), *SHARES),
    "an odd row": (beside(-9.0, 4, 0), "sum to about 1 (not row 60), which are", "from_probs=True"),
    "bfloat16": (softmax_of(jnp.bfloat16, PROBS), *SHARES),
    "percentages": (100 * PROBS, "which are percentages", "divide them by 100"),
    "rounded percentages": ((100 * PROBS).round(), "which are percentages", "divide them by 100"),
    "losses": (-LOGS, "which are losses", "give their negatives"),
    "losses of a whole vocabulary": (2 - LOGS, "none below 0", "give their negatives if"),
    "independent probabilities": (1 - PROBS, "none below 0", "from_probs=True if they are prob"),
    "logits above 0": (LOGITS + 30, "none below 0", "from_probs=False if they are logits"),
    "half and half": (np.concatenate([PROBS[:30], LOGS[30:]]), *both_in(0, 30)),
    "some and most": (np.concatenate([LOGS[:50], PROBS[50:]]), *both_in(50, 0)),
}
CALLS = {
    "calibrate": calibrate,
    "diagnose": diagnose,
    "recommend": recommend,
    "estimator": lambda scores: LabelBiasCorrector().fit(scores),
    "probe": lambda scores: calibrate(LOGS, "cc", probe=scores),
    "labeled": lambda scores: calibrate(LOGS, "vector", **labeled(scores)),
    "recommend labeled": lambda scores: recommend(LOGS, **labeled(scores)),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("kind", KINDS)
def test_what_are_no_log_probabilities_is_refused_with_the_call_that_says_it(kind, call):
    scores, got, remedy = KINDS[kind]
    error = refused(lambda: CALLS[call](scores))
    assert error.expected == NATS and got in error.got and remedy in error.remedy


@pytest.mark.parametrize("kind", KINDS)
def test_told_as_scores_of_another_kind_all_are_taken(kind):
    scores = KINDS[kind][0]
    corrected = calibrate(scores, from_probs=False)
    np.testing.assert_allclose(corrected, scores - scores.mean(axis=0), atol=1e-4)


def test_told_as_probabilities_scores_probe_and_labeled_are_read_so():
    gold = np.arange(60) % 3
    for method, given_rows, logs in (
        ("cc", {"probe": PROBS[:5]}, {"probe": LOGS[:5]}),
        ("vector", {"labeled": PROBS, "labels": gold}, {"labeled": LOGS, "labels": gold}),
    ):
        corrected = calibrate(PROBS, method, from_probs=True, **given_rows)
        np.testing.assert_allclose(corrected, calibrate(LOGS, method, **logs), atol=1e-5)
        mixed = {name: rows for name, rows in logs.items() if name != "labels"}
        for name in mixed:  # logs beside probabilities
            error = refused(lambda: calibrate(PROBS, method, from_probs=True, **logs))  # noqa: B023
            assert error.where == name and error.expected == "probabilities from 0 to 1"
    recommendation = recommend(PROBS, labeled=PROBS, labels=gold, from_probs=True)
    assert recommendation.method == recommend(LOGS, labeled=LOGS, labels=gold).method
    assert diagnose(PROBS, gold, from_probs=True).sentences() == diagnose(LOGS, gold).sentences()


def test_logits_above_0_in_few_rows_beside_other_logits_are_no_surprise():
    fitted = LabelBiasCorrector().fit(LOGITS)
    assert fitted.predict([[9.5, 8.0, 9.0]]).shape == (1,)
    assert fitted.predict([[0.2, 0.1, 0.3]]).shape == (1,)
    assert refused(lambda: fitted.predict([[0.5, 0.2, 0.3]])).expected == NATS
    assert refused(lambda: LabelBiasCorrector().fit(LOGS).predict([[9.5, 8.0, 9.0]])).where == "X"
    calibrate(LOGITS, "cc", probe=[[9.5, 8.0, 9.0]])
    assert refused(lambda: calibrate(LOGS, "cc", probe=[[9.5, 8.0, 9.0]])).where == "probe"


@pytest.mark.parametrize(
    ("names", "scores", "kind"),
    [
        (("p_no", "p_yes"), [[0.9, 0.3], [0.8, 0.9]], "probabilities"),
        (("no_prob", "yes_prob"), [[0.9, 0.3], [0.8, 0.9]], "probabilities"),
        (("no", "yes"), [[0.9, 0.3], [0.8, 0.9]], "unclear"),
        (("loss_no", "loss_yes"), [[2.0, 3.0], [4.0, -0.1]], "losses"),
        (("nll",), [[2.0, 3.0], [4.0, 0.1]], "losses"),
        (("no_ppl", "yes_ppl"), [[20.0, 3.0], [4.0, 1.1]], "losses"),
        (("win", "loss"), [[2.0, -3.0], [-4.0, 0.1]], "others"),
        (("logits",), [[2.0, 3.0], [4.0, 0.1]], "others"),
        (("cosine_no", "cosine_yes"), [[0.2, 0.3], [0.1, 0.3]], "others"),
        (("logits",), [[0.5, 0.5], [0.9, 0.1]], "probabilities"),
        (("log_prob_no", "log_prob_yes"), [[-2.0, 3.0], [-4.0, -0.1]], "above 0"),
        (("log_probs",), [[-2.0, 1e-6], [-4.0, -0.1]], "log-probabilities"),
        (("p_no", "p_yes"), [[-2.0, -0.1], [-4.0, -0.1]], "log-probabilities"),
    ],
)
def test_names_of_columns_are_evidence(names, scores, kind):
    assert find_scale(np.array(scores), names).kind == kind


def test_names_in_frames_and_files_are_read(tmp_path):
    loose = {"p_no": [0.9, 0.3, 0.5], "p_yes": [0.8, 0.9, 0.1]}
    assert "under 'p_no', 'p_yes'" in refused(lambda: calibrate(pd.DataFrame(loose))).got
    assert "under 'p_no', 'p_yes'" in refused(lambda: tables_of(loose)).got
    lines = [json.dumps({"losses": [2.5 + i, -0.1]}) for i in range(3)]
    (tmp_path / "t.jsonl").write_text("\n".join(lines))
    assert "under 'losses', which are losses" in refused(lambda: read(tmp_path / "t.jsonl")).got
    np.savez(tmp_path / "t.npz", logits=LOGITS + 30)
    read(tmp_path / "t.npz")
    np.savez(tmp_path / "u.npz", scores=LOGITS + 30)
    assert refused(lambda: read(tmp_path / "u.npz")).expected == NATS
    read(tmp_path / "u.npz", Reading(from_probs=False))


def test_log_probabilities_above_0_are_refused_with_a_row_of_each(tmp_path):
    lines = [json.dumps({"log_probs": [3.5 if i == 4 else -0.5 - i, -7.0]}) for i in range(9)]
    (tmp_path / "t.jsonl").write_text("\n".join(lines))
    error = refused(lambda: read(tmp_path / "t.jsonl"))
    assert error.got == "+3.5 in row 4 and -8.5 in row 8 under 'log_probs'"
    assert "at most 0" in error.remedy
    (tmp_path / "t.jsonl").write_text("\n".join(lines).replace("3.5", "0.05"))
    read(tmp_path / "t.jsonl")


@pytest.mark.parametrize("base", [2, 10])
def test_logarithms_to_another_base_are_known_by_their_sums(base):
    for logs in (LOGS / np.log(base), (LOGS / np.log(base)).round(4)):
        error = refused(lambda logs=logs: calibrate(logs))
        assert error.expected == NATS and f"logarithms to base {base}" in error.got
        calibrate(logs, from_probs=False)
    for nats in (LOGS, LOGS - 0.5, np.log([[0.9999, 0.0001]] * 60), LOGS[:10] / np.log(base)):
        calibrate(nats)


def test_numbers_in_place_of_missing_scores_are_noted(tmp_path):
    filled = LOGS.copy()
    filled[:3, 0] = -100
    with pytest.warns(UserWarning, match="Scores of -100, far below all others, may"):
        diagnose(filled)
    zeros = LOGS.copy()
    zeros[:2, 0] = 0
    np.save(tmp_path / "t.npy", zeros)
    (table,) = read(tmp_path / "t.npy", Reading())
    (note,) = table.blocks["test"].spec["notes"]
    assert note.startswith("Scores of 0 next to likely labels may mean labels that were")
    for plain in (LOGS, LOGS.round(), 40 * LOGS, LOGITS - 30, LOGS - LOGS.max(1, keepdims=True)):
        calibrate(plain)  # warnings are errors


def test_a_stream_decides_by_all_batches(tmp_path):
    def write(name, scores):
        pd.DataFrame(scores, columns=list("abc")).to_parquet(tmp_path / name / "t.parquet")

    def stream(name):
        return correct_stream(tmp_path / name, tmp_path / "out.parquet")

    for name, first, second in (
        ("rounded", PROBS.round(2), PROBS.round(2)),
        ("glued", LOGS, PROBS),
        ("logits", LOGITS, np.full((1, 3), [0.2, 0.3, 0.1])),
    ):
        for folder, scores in (("1", first), ("2", second)):
            (tmp_path / name / folder).mkdir(parents=True)
            write(f"{name}/{folder}", scores)
    assert "which are probabilities" in refused(lambda: stream("rounded")).got
    assert refused(lambda: stream("glued")).expected == NATS
    assert stream("logits").rows == 61


FAR = np.array([-9e5, -8e5, -20_000.0])[np.arange(60) % 3][:, None]


@pytest.mark.parametrize("method", METHODS)
def test_scores_far_below_0_keep_differences_of_a_hundredth(method):
    rows = 0.01 * LOGS.round(0) - 0.5
    shifted = keep_differences(rows + FAR)
    np.testing.assert_allclose(from_top(shifted), from_top(rows), atol=1e-9)
    chosen, gold = METHODS[method], np.arange(60) % 3
    options = {"key": 0, "starts": 2} if chosen.needs_key else {}

    def calibrated(rows):
        given_rows = {}
        if set(chosen.probe.blocks) - {"test", "labeled"}:
            given_rows["probe"] = np.tile(rows, (3 if chosen.probe.in_orders else 1, 1))
        if "labeled" in chosen.probe.blocks:
            given_rows["labeled"] = rows
        if chosen.probe.labeled:
            given_rows["labels"] = gold
        return calibrate(rows, method, **given_rows, **options)

    if chosen.needs_log_probs:
        assert "log-probabilities" in str(refused(lambda: calibrated(rows + FAR)))
        return
    near, far = calibrated(rows), calibrated(rows + FAR)
    np.testing.assert_allclose(from_top(far), from_top(near), atol=2e-4)


def test_scores_that_float32_holds_stay_as_they_are_to_the_bit():
    for scores in (LOGS, LOGS - 16_000, (LOGS - 9e5).astype(np.float32), LOGS - 2e6):
        assert keep_differences(scores) is scores


def test_a_file_of_scores_far_below_0_keeps_its_differences_with_a_note(tmp_path):
    rows = 0.01 * LOGS.round(0) - 0.5
    pd.DataFrame(rows + FAR, columns=list("abc")).to_csv(tmp_path / "t.csv", index=False)
    (table,) = read(tmp_path / "t.csv")
    test = table.blocks["test"]
    np.testing.assert_allclose(from_top(test.log_probs), from_top(rows), atol=1e-6)
    assert "60 of 60 rows lie so far from 0" in test.spec["notes"][-1]


GOLD = PROBS.argmax(axis=1)


def test_right_labels_that_speak_against_the_scores_raise_a_question():
    against = -LOGS - 20
    question = "Are these losses, where the lowest is the best"
    assert question in diagnose(against, GOLD).sentences()[-1]
    assert question in recommend(against, labeled=against, labels=GOLD).reason[-1]
    with pytest.warns(UserWarning, match="labels: The highest score is right for"):
        calibrate(against, "bcl", labeled=against, labels=GOLD)
    with pytest.warns(UserWarning, match="y: The highest score is right for"):
        LabelBiasCorrector("vector").fit(against, GOLD)
    sharp = np.log(np.random.default_rng(1).dirichlet([1, 1, 1], 200))
    assert "or are the right labels shifted" in diagnose(sharp, (sharp.argmax(1) + 1) % 3).doubt
    for scores, gold in (
        (LOGS, GOLD),
        (against[:19], GOLD[:19]),  # few rows
        (np.log([0.9, 0.05, 0.05]) + 0 * LOGS, 1 + GOLD % 2),  # a bias alone
        (-LOGS, np.zeros(60, int)),  # one class tells nothing of the order
    ):
        assert not diagnose(scores, gold, from_probs=False).doubt


def test_models_whose_first_letter_is_never_right_raise_no_question(shared):
    for order in ("orig", "neverA", "neverB"):
        with np.load(shared / f"scores/mmlu_base/{order}.npz") as file:
            for scores in file["scores"]:
                assert not diagnose(scores[::5], file["gold"].astype(int)[::5]).doubt


@pytest.mark.parametrize("command", ["diagnose", "calibrate", "compare", "recommend"])
def test_programs_ask_once_whether_these_are_losses(tmp_path, capsys, command):
    frame = pd.DataFrame(-LOGS - 20, columns=list("abc"))
    frame["gold"] = np.array(list("abc"))[GOLD]
    frame.to_csv(tmp_path / "t.csv", index=False)
    flags = [f"--output={tmp_path / 'o.csv'}"] if command == "calibrate" else []
    run([command, str(tmp_path / "t.csv"), "--gold=gold", *flags])
    captured = capsys.readouterr()
    assert " ".join((captured.out + captured.err).split()).count("Are these losses,") == 1
