"""The evidence: its statistics against scipy and hand numbers, its draws, its figures on a page."""

import csv
from itertools import product
from pathlib import Path

import figures
import jax
import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import binomtest, norm, permutation_test

from batch_calibration.cli import study_options
from batch_calibration.methods import METHODS
from batch_calibration.metrics import balanced_accuracy
from batch_calibration.scores import ScoreTable, make_block
from experiments.evidence import (
    batches,
    comparing,
    failure,
    judging,
    law,
    law_tables,
    page,
    pools,
    real,
    rows,
    sets,
    statistics,
    studies,
)
from experiments.evidence.gain import Margins

ROOT = Path(__file__).resolve().parents[2]
NAMES = "real failure shares rows law demonstrations judge ensemble recommend"
NAMES = NAMES.split()


# Statistics.


def test_holm_is_the_textbook_s():
    """Holm 1979: 0.005 x 4, 0.01 x 3, 0.03 x 2, then never below the one before."""
    assert statistics.holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert statistics.holm([0.6, 0.7]) == [1.0, 1.0] and statistics.holm([]) == []


def test_the_sign_flip_test_is_scipy_s():
    values = np.random.default_rng(0).normal(0.5, 1.0, 9)
    expected = permutation_test((values,), np.mean, permutation_type="samples", n_resamples=np.inf)
    random = np.random.default_rng(1)
    assert statistics.sign_flip(values, random) == pytest.approx(expected.pvalue)
    drawn = statistics.sign_flip(values, random, draws=500)
    assert drawn == pytest.approx(expected.pvalue, abs=0.06) and drawn != expected.pvalue
    assert statistics.sign_flip(np.zeros(5), random) == 1.0


@pytest.mark.parametrize(("gained", "lost"), [(5, 0), (7, 3), (0, 0), (40, 41), (200, 150)])
def test_mcnemar_is_the_exact_binomial_test(gained, lost):
    expected = binomtest(gained, gained + lost, 0.5).pvalue if gained + lost else 1.0
    p_value = statistics.mcnemar(np.array([[gained]]), np.array([[lost]]))
    assert p_value.shape == (1, 1) and p_value.item() == pytest.approx(expected)


@pytest.mark.slow
def test_intervals_of_one_factor_are_the_bootstrap_s():
    """With one model the crossed bootstrap draws tasks alone: its deviation is s / sqrt(n)."""
    values = np.random.default_rng(0).normal(2.0, 3.0, (1, 400))
    low, high = statistics.crossed_interval(values)
    half = 1.96 * values.std() / 20
    assert low == pytest.approx(values.mean() - half, abs=0.03)
    assert high == pytest.approx(values.mean() + half, abs=0.03)


@pytest.mark.slow
def test_the_crossed_interval_covers_models_and_tasks():
    """Effects of models alone: tasks add nothing, and n is the number of models."""
    effects = np.random.default_rng(0).normal(0.0, 1.0, 30)
    crossed = statistics.crossed_interval(np.repeat(effects[:, None], 50, axis=1))
    assert crossed == pytest.approx(statistics.crossed_interval(effects[:, None]), abs=0.02)


# Draws.


@pytest.mark.slow
def test_resampled_rows_have_the_wanted_shares_and_are_the_pool_s():
    random = np.random.default_rng(0)
    gold = random.integers(0, 3, 500).astype(np.int32)
    pool = pools.Pool("a", (10.0 * gold[:, None] + np.arange(3)).astype(np.float32), gold)
    rows, labels = pools.draw(pool, pools.uneven(3, 1, 0.7), (40, 500), random)
    assert rows.shape == (40, 500, 3)
    np.testing.assert_allclose(np.bincount(labels.ravel()) / 20_000, [0.15, 0.7, 0.15], atol=0.01)
    np.testing.assert_array_equal(rows[..., 0], 10.0 * labels)


def test_rows_set_apart_are_no_test_rows_and_the_same_for_every_model():
    scores = np.arange(200.0).reshape(100, 2)
    table = ScoreTable({}, ("no", "yes"), {"test": make_block(scores, np.arange(100) % 2)})
    split, copy = (sets.set_apart(table, 32, (0, 3)) for _ in range(2))
    sizes = {name: len(block.labels) for name, block in split.blocks.items()}
    assert sizes == {"test": 75, "labeled": 25}
    scores_apart = [split.blocks[name].log_probs[:, 0] for name in ("test", "labeled")]
    assert sorted(np.concatenate(scores_apart)) == sorted(scores[:, 0])
    np.testing.assert_array_equal(*(stored.blocks["labeled"].log_probs for stored in (split, copy)))
    assert sets.set_apart(table, 0, (0, 3)) is table


# Break-even.


def closed_form(d, bias, share):
    """Two Gaussians: accuracy of ICL and of BC, the mean over which label is the frequent one.

    The margin is d^2 (2 [y = 0] - 1) + bias, of variance 2 d^2; BC takes its mean off.
    """
    sd, gap = np.sqrt(2) * d, d**2

    def right(share, threshold):
        first = norm.cdf((gap + bias - threshold) / sd)
        return share * first + (1 - share) * norm.cdf((gap - bias + threshold) / sd)

    sides = (share, 1 - share)
    plain = np.mean([right(side, 0.0) for side in sides])
    return plain, np.mean([right(side, bias + gap * (2 * side - 1)) for side in sides])


@pytest.mark.slow
def test_break_even_of_two_gaussians_is_the_closed_form_s():
    """75 % right without a bias, and a bias of 1.5 nats."""
    bias = 1.5
    drawn = [pools.gaussian_pool(0.75, 40_000, i)._replace(name=str(i)) for i in range(3)]
    at = (0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9)
    left_out = "sets labels accuracies simulated_sizes simulated_strengths"
    drawn_at = {"shares": at, "sizes": (2000,), "strengths": (bias,), "rows": 20_000}
    nothing = dict.fromkeys(left_out.split(), ())
    options = failure.Options(**nothing, **drawn_at, methods=("icl", "bc"))
    grid = failure.grid("two Gaussians", drawn, options)
    d = np.sqrt(2) * norm.ppf(0.75)
    for index, share in enumerate(at):
        plain, corrected = closed_form(d, bias, share)
        gain = grid.accuracy["bc"][index, 0, 0].mean()
        assert gain == pytest.approx(100 * (corrected - plain), abs=0.6)
    expected = brentq(lambda share: np.subtract(*closed_form(d, bias, share)), 0.5, 0.99)
    value, low, high = statistics.break_even_interval(grid.shares, grid.accuracy["bc"][:, 0, 0])
    assert value == pytest.approx(expected, abs=0.01) and low <= value <= high
    assert 0.7 < expected < 0.85


@pytest.mark.slow
def test_break_even_at_the_ends():
    at = np.array([0.5, 0.7, 0.9])
    assert statistics.break_even(at, np.array([1.0, 1.0, 0.0])) == np.inf
    assert statistics.break_even(at, np.array([-1.0, 1.0, 1.0])) == -np.inf
    assert statistics.break_even(at, np.array([1.0, -1.0, 1.0])) == pytest.approx(0.6)


@pytest.mark.slow
def test_one_row_batches_of_bc_answer_the_first_label():
    random = np.random.default_rng(0)
    rows_ = random.normal(size=(2, 30, 1, 3)).astype(np.float32)
    gold = random.integers(0, 3, (2, 30, 1))
    given = rows_, rows_, gold, np.zeros(3, np.float32), jax.random.key(0)
    right = batches.right_by_label(*given, name="bc")
    np.testing.assert_array_equal(right[:, 0], (gold == 0).sum(axis=(1, 2)))
    assert not np.asarray(right)[:, 1:].any()


# Judging.


def toy(models=2, tasks=3, n=40):
    """A set of small contexts with a bias, without content-free rows."""
    random = np.random.default_rng(0)
    tables = []
    for model in range(models):
        for task in range(tasks):
            gold = random.integers(0, 2, n)
            scores = random.normal(size=(n, 2)) + 1.5 * np.eye(2)[gold] + [model, 0.0]
            context = {"model": f"m{model}", "task": f"t{task}"}
            tables.append(ScoreTable(context, ("a", "b"), {"test": make_block(scores, gold)}))
    return sets.ScoreSet("toy", "Toy", "toys", tables, models)


@pytest.mark.slow
def test_differences_are_those_of_numpy():
    study_set = toy()
    tables = [sets.set_apart(table, 8, (0, i % 3)) for i, table in enumerate(study_set.tables)]
    answers = judging.answers(tables, ["icl", "cc", "bc", "bcl"], knowing=("bc",))
    assert list(answers.by_method) == ["icl", "bc", "bc + true shares", "bcl"]
    assert answers.skipped == {"cc": "no block 'cc' in the table"}
    gold = [table.blocks["test"].labels for table in tables]
    compared = comparing.compare(answers.by_method, gold, 2, draws=500)
    differences = []
    for table, right in zip(tables, gold, strict=True):
        scores = table.blocks["test"].log_probs.astype(np.float64)
        new, old = (rows.argmax(axis=1) == right for rows in (scores - scores.mean(axis=0), scores))
        differences.append(100 * (new.mean() - old.mean()))
    bc = compared["bc"]
    assert bc.accuracy.value == pytest.approx(np.mean(differences))
    assert bc.won.sum() == (np.array(differences) > 0).sum()
    expected = balanced_accuracy(answers.by_method["bc"][0], gold[0])
    assert bc.counts.balanced[0, 0] == pytest.approx(100 * float(expected))
    # What is told the shares of rows is at most as far from them as without.
    assert compared["bc + true shares"].counts.accuracy.mean() >= bc.counts.accuracy.mean() - 2


def test_a_verdict_needs_the_interval_and_the_test():
    verdicts = [
        comparing.Difference(value, value - 1, value + 1, p).verdict
        for value, p in ((2.0, 0.01), (2.0, 0.2), (0.5, 0.01), (-2.0, 0.01), (-6.0, 0.1))
    ]
    expected = ["gain", "gain, not certain", "inside the noise", "loss", "loss, not certain"]
    assert verdicts == expected
    assert str(comparing.Difference(-6.0, -7.0, -5.0, 0.1)) == "-6.0 [-7.0, -5.0]"
    assert str(comparing.Difference(2.0, 1.0, 3.0, 0.01)) == "+2.0 [+1.0, +3.0] *"
    assert str(comparing.Difference(2.0, -1.0, 3.0, 0.01)) == "+2.0 [-1.0, +3.0]"


# Real scores: ../shared/scores/README.md.


WHOLE_SETS = """
    mmlu_batch 42.1 44.2 45.7, mmlu_neverA_batch 33.4 45.1 42.2, mmlu_neverB_batch 46.6 44.3 41.1,
    mmbench 73.6 nan 73.9, mmbench_AF 72.5 nan 66.0, oodcv 63.4 nan 66.6, oodcv_AF 59.1 nan 53.1
"""


@pytest.mark.slow
@pytest.mark.parametrize(("name", "icl", "cc", "bc"), [*map(str.split, WHOLE_SETS.split(","))])
def test_reference_figures_of_whole_sets(shared, name, icl, cc, bc):
    options = real.Options(sets=(name,), methods=("icl", "cc", "bc"), labeled=0, draws=200)
    (score_set,) = sets.read_sets(shared / "scores", options.sets)
    judged = real.judge(score_set, options)
    found = {"icl": judged.plain} | {name: x.counts for name, x in judged.methods.items()}
    expected = {"icl": float(icl), "cc": float(cc), "bc": float(bc)}
    for method, counts in found.items():
        assert counts.accuracy.mean() == pytest.approx(expected.pop(method), abs=0.06)
    assert judged.skipped == dict.fromkeys(expected, "no block 'cc' in the table")


@pytest.mark.slow
def test_reference_figures_by_subject(shared):
    """Accuracy weighted by rows, contexts won and lost of 56, model by model."""
    options = real.Options(sets=("mmlu",), methods=("icl", "bc"), labeled=0, draws=200)
    (score_set,) = sets.read_sets(shared / "scores", options.sets)
    bc = real.judge(score_set, options).methods["bc"]
    counts = bc.counts
    weighted = (counts.accuracy * counts.rows).sum(axis=1) / counts.rows.sum(axis=1)
    np.testing.assert_allclose(weighted, [24.9, 44.8, 36.8, 48.4, 57.0, 50.7, 59.8], atol=0.06)
    assert bc.won.sum(axis=1).tolist() == [38, 24, 38, 51, 21, 55, 40]
    assert bc.lost.sum(axis=1).tolist() == [15, 25, 16, 4, 31, 1, 12]


@pytest.mark.slow
def test_knowing_the_shares_repairs_neverB(shared):
    options = real.Options(sets=(), methods=("icl", "bc"), knowing=("bc",), labeled=0, draws=200)
    (score_set,) = sets.read_sets(shared / "scores", ["mmlu_neverB_batch"])
    with_shares = real.judge(score_set, options).methods["bc" + judging.KNOWN]
    assert with_shares.counts.accuracy.mean() == pytest.approx(54.1, abs=0.3)


@pytest.mark.slow
def test_bear_has_sixty_relations_of_their_own_labels(shared):
    (score_set,) = sets.read_sets(shared / "scores", ("bear",))
    assert score_set.shape == (1, 60) and "5 to 60 labels" in score_set.about


# The program and the page.


def marks():
    places = product(NAMES, page.PARTS, ("begin", "end"))
    return "\n".join(f"<!-- evidence {name} {edge}: {end} -->" for name, edge, end in places)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_study_writes_its_parts_of_the_page(shared, tmp_path, name, capsys):
    config = study_options.read_config(str(ROOT / f"configs/evidence_{name}.py:smoke"))
    target = tmp_path / "docs/evidence.md"
    target.parent.mkdir()
    target.write_text(f"before\n{marks()}\nafter\n")
    files = studies.run(config, shared / "scores", tmp_path / "w", target)
    stdout, text = capsys.readouterr().out, target.read_text()
    assert text.startswith("before\n") and text.endswith("\nafter\n")
    for study in set(NAMES) - {name}:
        begin, end = (f"<!-- evidence {study} section: {mark} -->" for mark in ("begin", "end"))
        assert f"{begin}\n{end}" in text
    findings = text.split(f"evidence {name} findings: begin -->\n")[1].split("\n<!--")[0]
    assert findings
    for line in findings.splitlines():
        assert line.removeprefix("- ") in stdout
    assert all(path.stat().st_size > 100 for path in files)
    pictures = [path for path in files if path.parent == target.parent / "figures"]
    assert pictures
    for picture in pictures:
        assert f"](figures/{picture.name})" in text and picture.stat().st_size < 150_000
    # A second run of the same study fills the same place.
    rerun = studies.run(config, shared / "scores", tmp_path / "w", target)
    assert rerun == files and len(target.read_text()) == pytest.approx(len(text), abs=40)


@pytest.mark.slow
def test_the_page_s_numbers_are_the_program_s(shared):
    """Of one set, run as its config says but with two methods: rows of the page's tables."""
    config = study_options.read_config(str(ROOT / "configs/evidence_real.py"))
    config.pop("study")
    options = real.Options(**config | {"methods": ("icl", "bc"), "knowing": ()})
    (score_set,) = sets.read_sets(shared / "scores", ("oodcv",))
    judged = real.judge(score_set, options)
    text = (ROOT / "docs/evidence.md").read_text()
    assert f"| OOD-CV, A to D | 26 | {judged.plain.accuracy.mean():.1f} |" in text
    bc = judged.methods["bc"].accuracy
    shown = f"{bc.value:+.1f} \\[{bc.low:+.1f}, {bc.high:+.1f}\\]"
    assert shown in text


@pytest.mark.parametrize("name", NAMES)
def test_configs_are_locked_and_their_keys_are_the_study_s(name):
    path = str(ROOT / f"configs/evidence_{name}.py")
    for preset in ("", ":smoke"):
        config = study_options.load_config(path).get_config(preset.removeprefix(":"))
        assert config.is_locked and config.study == name
        expected = studies.STUDIES[name].options._fields
        assert set(config.keys()) == {"study", *expected}
        assert set(config.get("methods", ())) <= set(METHODS)
    with pytest.raises(ValueError, match="no preset 'smok'; there are: smoke"):
        study_options.load_config(path).get_config("smok")
    docstring = study_options.load_config(path).__doc__
    assert f"python -m experiments.evidence --config=configs/evidence_{name}.py" in docstring


@pytest.mark.slow
@pytest.mark.parametrize(
    ("why", "config"),
    [
        ("reel", {"study": "reel"}),
        ("mmlo", {"study": "real", "sets": ("mmlo",)}),
        ("oodcv", {"study": "real", "sets": ("oodcv",)}),
        ("cc", {"study": "shares", "sets": (), "shares": (), "methods": ("cc",)}),
    ],
)
def test_what_a_study_refuses(tmp_path, why, config, refuses):
    assert why in str(refuses(studies.run, config, tmp_path, tmp_path / "w"))
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_pools_are_of_sets_of_one_batch(shared, refuses):
    for labels, name in ((2, "mmlu"), (5, "oodcv")):
        assert name in str(refuses(pools.real_pools, shared / "scores", (name,), labels))


@pytest.mark.parametrize("text", [None, "no marks"])
def test_a_page_without_marks_is_refused_and_left_alone(tmp_path, text, refuses):
    target = tmp_path / "page.md"
    if text is not None:
        target.write_text(text)
    written = page.Written(["a"], "b", {"t": [["x"]]}, {})
    error = refuses(page.write, written, "real", tmp_path / "w", target)
    assert error.got == ("none" if text else "no file")
    assert not (tmp_path / "w").exists() and (text is None or target.read_text() == text)


@pytest.mark.slow
def test_names_at_the_command_line_are_split(program, shared, tmp_path):
    stdout = program(
        "evidence", "--config=configs/evidence_real.py:smoke", "--config.methods=icl,bc_mean_prob",
        f"--scores={shared / 'scores'}", f"--workdir={tmp_path}",
    ).stdout  # fmt: skip
    assert "oodcv: icl and 1 more on 26 contexts\n" in stdout
    with (tmp_path / "evidence_real.csv").open() as file:
        assert [row["method"] for row in csv.DictReader(file)] == ["bc_mean_prob"]


# The law.


def test_the_figure_of_the_law_has_every_pair_at_balanced_labels():
    cells, margins = [], [Margins(bias, 1.0, (1.0, 2.0)) for bias in (0.5, -1.0, 2.0)]
    for name, own in zip("AAB", margins, strict=True):
        gains = np.array([[0.3, 0.2], [-0.1, own.bias / 10], [0.4, 0.3]])  # [shares, sizes]
        cells.append(law_tables.PairCells(name, f"m{own.bias}", own, gains, gains, gains, gains))
    figure = law_tables.draw(cells, (0.2, 0.5, 0.9), (10, 100))
    points = np.concatenate([dots.get_offsets() for dots in figure.axes[0].collections])
    spread = np.sqrt(2.5)
    expected = [(0.5 / spread, 5), (1 / spread, -10), (2 / spread, 20)]
    np.testing.assert_allclose(points, expected, rtol=1e-5)
    figures.check(figure)


def test_the_figure_of_rows_has_the_methods_of_the_page():
    gains = {name: np.array([[-1.0, 1.0], [2.0, 4.0]]) for name in ("bc", "bcl", "rbcorr")}
    curves = [rows.Curves(title, (1, 20), 9, 50.0, gains, {}) for title in "AB"]
    figure = rows.draw(curves)
    for axes in figure.axes:
        lines = {line.get_label(): line for line in axes.lines if line.get_label()[0] != "_"}
        assert set(lines) == {"bc", "bcl"}
        assert lines["bc"].get_xydata().tolist() == [[1, 0], [20, 3]]
    figures.check(figure)


@pytest.mark.slow
def test_a_fit_is_numpy_s_and_its_interval_draws_units():
    random = np.random.default_rng(0)
    cells = []
    for unit in ("a", "b", "c", "a"):
        measured = random.normal(0, 0.1, (4, 3))
        expected = measured + random.normal(0, 0.05, (4, 3))
        cells.append(law_tables.GainCells("S", unit, measured, expected))
    y, x = (np.concatenate([cell[i].ravel() for cell in cells]) for i in (2, 3))
    fit = law_tables.judge_fit(cells)
    assert fit.r2.value == pytest.approx(1 - ((y - x) ** 2).sum() / ((y - y.mean()) ** 2).sum())
    assert fit.slope.value == pytest.approx(np.polyfit(x, y, 1)[0])
    is_large = np.abs(y) > 0.01
    assert fit.signs.value == pytest.approx(100 * (np.sign(x) == np.sign(y))[is_large].mean())
    assert fit.error.value == pytest.approx(100 * np.abs(x - y).mean())
    for estimate in fit:
        assert estimate.low < estimate.value < estimate.high
    # One unit says nothing of others: no width.
    alone = law_tables.judge_fit(cells[:1])
    assert alone.r2.low == pytest.approx(alone.r2.high)


@pytest.mark.slow
def test_labels_that_no_row_has_keep_the_share_0():
    """A pool whose first label is never right: the cells of the other three, and no NaN."""
    random = np.random.default_rng(0)
    gold = (np.arange(6000) % 3 + 1).astype(np.int32)
    rows = random.normal(-3, 1, (6000, 4)) + 2 * np.eye(4)[gold]
    pool = pools.Pool("m", rows.astype(np.float32), gold)
    options = law.Options((), (), (), (), shares=(0.5,), sizes=(30,), draws=200)
    cells = law.measure_labels("S", pool, pool, options, random)
    assert cells.measured.shape == (1 + 3 * len(law.LABEL_SHARES), 2)
    assert np.isfinite(cells.measured).all() and np.isfinite(cells.expected).all()
    np.testing.assert_allclose(cells.measured, cells.expected, atol=0.04)


@pytest.mark.slow
def test_a_context_s_unit_is_its_model_or_its_task(shared):
    demonstrations, models = sets.read_sets(shared / "scores", ["demonstrations", "mmlu"])
    units = {pool.name for pool in pools.context_pools(demonstrations)}
    assert len(units) == 16 and "anatomy" in units
    assert len({pool.name for pool in pools.context_pools(models)}) == 7
