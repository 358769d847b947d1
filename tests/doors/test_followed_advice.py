"""Advice and its file give equal scores in every interface, of one context and of several."""

import json

import jax
import numpy as np
import pandas as pd
import pytest
from flax import nnx
from sklearn.base import clone

from batch_calibration import (
    METHODS,
    accuracy,
    calibrate,
    load_advice,
    recommend,
    recommend_together,
    save_advice,
)
from batch_calibration.estimator import LabelBiasCorrector
from batch_calibration.layer import BatchCalibration
from batch_calibration.scores import make_block

NAMES = ("no", "maybe", "yes")
SHARES = (0.5, 0.3, 0.2)
RANDOM = np.random.default_rng(4)
GOLD = RANDOM.choice(3, 80, p=SHARES)
LOGITS = 2.0 * np.eye(3)[GOLD] + RANDOM.normal(size=(3, 80, 3)) + RANDOM.normal(size=(3, 1, 3))
CONTEXTS = np.asarray(jax.nn.log_softmax(LOGITS), np.float32)
"""[3, 80, 3], scores of three prompts, each with a bias of its own."""
KINDS = ("balanced", "stated", "estimated", "pooled")


def advise(kind):
    """The advice for each context."""
    if kind == "pooled":
        return recommend_together(CONTEXTS, label_names=NAMES).contexts
    arguments = {"balanced": {"share": "balanced"}, "stated": {"target_prior": SHARES}}
    known = {"label_names": NAMES, **arguments.get(kind, {})}
    return [recommend(scores, **known) for scores in CONTEXTS]


@pytest.fixture(scope="module", params=KINDS)
def advised(request):
    """The advice for each context, and the scores [3, 80, 3] corrected by it."""
    found = advise(request.param)
    expected = {"balanced": "equal"}.get(request.param, request.param)
    assert {advice.source for advice in found} == {expected}
    corrected = [advice.apply(scores) for advice, scores in zip(found, CONTEXTS, strict=True)]
    return found, np.stack(corrected)


@pytest.fixture
def files(advised, tmp_path):
    """A file of advice for each context."""
    paths = [tmp_path / f"advice_{number}.json" for number in range(3)]
    for path, advice in zip(paths, advised[0], strict=True):
        save_advice(path, {"any": advice})
    return list(map(str, paths))


def close(scores, corrected):
    np.testing.assert_allclose(np.asarray(scores), corrected, atol=1e-5)


def test_calibrate_gives_the_scores_of_advice(advised, files):
    for advice, file, scores, corrected in zip(
        advised[0], files, CONTEXTS, advised[1], strict=True
    ):
        assert np.ptp(scores - corrected, axis=0).max() < 1e-5 < np.ptp((scores - corrected)[0])
        close(calibrate(scores, advice.method, **advice.options), corrected)
        loaded = load_advice(file, NAMES)
        assert (loaded.method, loaded.options) == (advice.method, dict(advice.options))
        assert (loaded.short, loaded.reason) == (advice.short, advice.reason)
        close(loaded.apply(scores), corrected)


def test_one_advice_corrects_several_contexts_one_by_one(advised):
    first = advised[0][0]
    close(first.apply(CONTEXTS), np.stack([first.apply(scores) for scores in CONTEXTS]))


def test_shares_of_a_frame_are_found_by_name(advised, files):
    moved = pd.DataFrame(CONTEXTS[0], columns=list(NAMES))[["yes", "no", "maybe"]]
    for advice in (advised[0][0], load_advice(files[0], NAMES), load_advice(files[0], [*moved])):
        close(advice.apply(moved)[list(NAMES)], advised[1][0])
    fitted = LabelBiasCorrector(advice=files[0]).fit(moved)
    close(fitted.transform(moved)[:, [1, 2, 0]], advised[1][0])
    by_classes = LabelBiasCorrector(advice=files[0], classes=[*moved]).fit(moved.to_numpy())
    close(by_classes.transform(moved.to_numpy())[:, [1, 2, 0]], advised[1][0])


def test_the_estimator(advised, files):
    for advice, file, scores, corrected in zip(
        advised[0], files, CONTEXTS, advised[1], strict=True
    ):
        for source in (advice, file):
            estimator = clone(LabelBiasCorrector(advice=source))
            close(estimator.fit_transform(scores), corrected)
            assert estimator.method_ == advice.method


def test_the_layer(advised, files):
    @nnx.jit
    def call(layer, batch):
        return layer(batch)

    for advice, file, scores, corrected in zip(
        advised[0], files, CONTEXTS, advised[1], strict=True
    ):
        layers = BatchCalibration(3, advice=advice), BatchCalibration(3, advice=file)
        for layer, function in zip(layers, (call, BatchCalibration.__call__), strict=True):
            close(function(layer, scores), corrected)
            layer.eval()
            close(function(layer, scores[:7]), corrected[:7])
            assert int(layer.seen.count) == 80


def test_the_layer_weighs_the_biases_of_batches_by_their_rows(advised):
    advice, layer = advised[0][0], BatchCalibration(3, advice=advised[0][0])
    batches = CONTEXTS[0][:60], CONTEXTS[0][60:]
    biases = [(batch - advice.apply(batch))[0] for batch in batches]
    for batch in batches:
        layer(batch)
    close(layer.mean[...], 0.75 * biases[0] + 0.25 * biases[1])


def write_scores(folder):
    paths = [folder / f"prompt_{number}.csv" for number in range(3)]
    for path, scores in zip(paths, CONTEXTS, strict=True):
        pd.DataFrame(scores, columns=list(NAMES)).to_csv(path, index=False)
    return list(map(str, paths))


def test_the_console(advised, files, program, tmp_path):
    out = str(tmp_path / "out.npz")
    paths, every = write_scores(tmp_path), str(tmp_path / "all.json")
    program("calibrate", paths[0], f"--advice={files[0]}", f"--output={out}")
    close(np.load(out)["scores"], advised[1][0])
    titles = ["prompt_0", "prompt_1", "prompt_2"]
    save_advice(every, dict(zip(titles, advised[0], strict=True)))
    program("calibrate", *paths, f"--advice={every}", f"--output={out}")
    close(np.load(out)["scores"], advised[1].reshape(-1, 3))
    shown = program("diagnose", paths[0], f"--advice={files[0]}", "--json").stdout
    assert json.loads(shown)["method"] == f"matching {advised[0][0].short}"


def test_recommend_and_calibrate_name_contexts_alike(program, tmp_path):
    paths, file, out = write_scores(tmp_path), str(tmp_path / "a.json"), str(tmp_path / "out.npz")
    program("recommend", *paths, f"--output={file}")
    program("calibrate", *paths[::-1], f"--advice={file}", f"--output={out}")
    advice = advise("estimated")[::-1]
    corrected = [one.apply(scores) for one, scores in zip(advice, CONTEXTS[::-1], strict=True)]
    close(np.load(out)["scores"], np.concatenate(corrected))


def test_the_console_leaves_scores_unchanged_with_a_note(program, tmp_path):
    paths, file, out = write_scores(tmp_path), str(tmp_path / "a.json"), str(tmp_path / "out.npz")
    left = recommend(CONTEXTS[0][:12], label_names=NAMES)
    save_advice(file, {"any": left})
    done = program("calibrate", paths[0], f"--advice={file}", f"--output={out}")
    close(np.load(out)["scores"], CONTEXTS[0])
    assert "leave the scores of 1 of 1 contexts" in " ".join(done.stderr.split())
    close(BatchCalibration(3, advice=file)(CONTEXTS[0]), CONTEXTS[0])


def test_the_harness(advised, files):
    pytest.importorskip("lm_eval", reason="needs lm-evaluation-harness (test_live_lm_eval.py)")
    from batch_calibration.integrations import lm_eval as harness

    documents = [{"id": number} for number in range(80) for _ in NAMES]
    documents = [documents[3 * (place // 3)] for place in range(240)]  # one object per document
    for file, scores, corrected in zip(files, CONTEXTS, advised[1], strict=True):
        responses = [(float(score), False) for score in scores.ravel()]
        filtered = harness.BatchCalibration(advice=file).apply(responses, documents)
        close(np.reshape([score for score, _ in filtered], (80, 3)), corrected)
        samples = list(zip(GOLD.tolist(), scores.tolist(), strict=True))
        right = harness.corrected_accuracy(samples, advice=file)
        assert right == pytest.approx(float(accuracy(corrected, GOLD)))


def test_inspect(advised, files):
    pytest.importorskip("inspect_ai", reason="needs Inspect (test_live_inspect.py)")
    from batch_calibration.integrations import inspect_ai as inspect

    for file, scores, corrected in zip(files, CONTEXTS, advised[1], strict=True):
        advice = load_advice(file, k=3)
        options = json.loads(json.dumps({"method": advice.method, **advice.options}))
        close(inspect._corrected(make_block(scores, GOLD), options), corrected)


def test_files_that_do_not_fit_are_refused(refuses, tmp_path):
    advice, file = advise("stated")[0], tmp_path / "a.json"
    save_advice(file, {"one": advice, "two": advice.in_order(NAMES[::-1])})
    assert load_advice(file, NAMES).options == {"target_prior": SHARES}
    assert load_advice(file, NAMES[::-1]).options == {"target_prior": SHARES[::-1]}
    assert load_advice(file, k=3, context="two").options == {"target_prior": SHARES[::-1]}
    assert refuses(load_advice, file, k=3).expected == "the same advice for all contexts"
    wrong = refuses(load_advice, file, ("no", "yes"))
    assert (wrong.where, wrong.expected) == (str(file), "advice on the labels ('no', 'yes')")
    assert refuses(BatchCalibration, 2, advice=file).expected == "advice on 2 labels"
    for text in ("{", "[]", "{}", '{"advice": [{"context": "one"}]}'):
        file.write_text(text)
        assert refuses(load_advice, file, NAMES).where == str(file)
    assert refuses(load_advice, tmp_path / "none.json", k=3).got == "No such file or directory"


def test_other_arguments_for_the_correction_are_refused(refuses):
    advice = advise("stated")[0]
    arguments = {"method": "icl", "options": {"rounds": 1}, "target_prior": SHARES, "strength": 0.0}
    for name, argument in arguments.items():
        fit = LabelBiasCorrector(advice=advice, **{name: argument}).fit
        refused = refuses(fit, CONTEXTS[0])
        assert (refused.key, refused.got) == ("advice", f"{name} too")
    assert not hasattr(LabelBiasCorrector(advice=advice), "partial_fit")


@pytest.mark.parametrize("name", ["vector", "prior_moved", "bc_loo", "bc_prob_shift"])
def test_the_layer_refuses_methods_without_a_bias_from_the_batch(name, refuses):
    advice = advise("stated")[0]._replace(method=name, options={})
    assert refuses(BatchCalibration, 3, advice=advice).got == name
    assert name in METHODS
