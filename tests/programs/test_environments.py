"""JAX's settings in the environment change no answer: the same numbers, or one sentence."""

import json

import pytest
from processes import python

PROGRAM = """
import contextlib, io, json, sys
import jax, numpy as np
import batch_calibration as bc
from batch_calibration import cli
from batch_calibration.arrays.numbers import usual_jax
from batch_calibration.methods import METHODS
from batch_calibration.methods.fitting import correct

draws = np.random.default_rng(0)
scores = np.log(draws.dirichlet([3, 2, 1], 64)).astype(np.float32)
gold = draws.integers(0, 3, 64).astype(np.int32)
found = {}

def keep(name, function):
    try:
        found[name] = function()
    except bc.InputError as error:
        found[name] = f"InputError {error}"

for name, method in METHODS.items():
    blocks = {block: (scores, gold, None) for block in ("test", *method.probe.blocks)}
    keep(name, lambda: np.asarray(
        correct(method, blocks, scores, key=usual_jax(jax.random.key)(0)).scores).tolist())
    keep(f"{name} of arrays", lambda: np.asarray(bc.calibrate(scores, name)).tolist())
keep("in double", lambda: np.asarray(bc.calibrate(scores.astype(np.float64))).tolist())
for metric in (bc.accuracy, bc.balanced_accuracy, bc.brier, bc.ece, bc.macro_f1, bc.nll, bc.rsd,
               bc.bias_score, bc.total_variation):
    keep(metric.__name__, lambda: float(metric(scores, gold)))
keep("diagnose", lambda: str(bc.diagnose(scores, gold)))
keep("compare", lambda: str(bc.compare(scores, gold)))
keep("recommend", lambda: str(bc.recommend(scores)))
keep("together", lambda: str(bc.recommend_together([scores, scores + 1])))
estimator = __import__("batch_calibration.estimator").estimator.LabelBiasCorrector
keep("estimator", lambda: estimator().fit(scores).transform(scores).tolist())
with open("scores.csv", "w") as file:
    file.write("a,b,c\\n" + "".join(",".join(f"{x:.6f}" for x in row) + "\\n" for row in scores))
for command in ("diagnose", "recommend", "calibrate"):
    error, output = io.StringIO(), io.StringIO()
    with contextlib.redirect_stderr(error), contextlib.redirect_stdout(output):
        with contextlib.suppress(SystemExit):
            cli.run([command, "scores.csv"])
    found[f"the command {command}"] = output.getvalue() or error.getvalue()
print(json.dumps(found))
"""


def run(folder, **environment):
    words, env = ("-W", "ignore", "-c", PROGRAM), {"JAX_PLATFORMS": "cpu", "COLUMNS": "100"}
    return json.loads(python(*words, cwd=folder, env=env | environment, timeout=500).stdout)


@pytest.fixture(scope="module")
def usual(tmp_path_factory):
    found = run(tmp_path_factory.mktemp("usual"))
    assert sum(not str(outcome).startswith("InputError") for outcome in found.values()) > 60
    return found


STRICT = {"JAX_NUMPY_RANK_PROMOTION": "raise", "JAX_TRANSFER_GUARD": "disallow"}
STRICT |= {"JAX_DEBUG_NANS": "1"}


@pytest.mark.parametrize("settings", [{"JAX_ENABLE_X64": "1"}, STRICT], ids=["X64", "strict"])
def test_every_method_and_command_gives_the_same(settings, usual, tmp_path):
    found = run(tmp_path, **settings)
    assert [outcome for outcome in usual if found[outcome] != usual[outcome]] == []


@pytest.mark.parametrize("platform", ["nowhere", "rocm"])
def test_a_platform_that_is_not_there_is_a_sentence(platform, usual, tmp_path):
    for name, outcome in run(tmp_path, JAX_PLATFORMS=platform).items():
        sentence = f"JAX_PLATFORMS: expected a platform that is available to JAX; got '{platform}'"
        assert outcome == usual[name] or sentence in outcome, name
