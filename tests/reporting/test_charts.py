"""Figures: every function that draws: its texts, colors, numbers and files."""

import importlib
import inspect
import re
from itertools import product

import figures
import numpy as np
import pytest
from making import make_by_rows, make_curve, make_record
from processes import python

from batch_calibration import diagnose
from batch_calibration.methods import METHODS
from batch_calibration.metrics import Estimate
from batch_calibration.reporting import curves, palette
from batch_calibration.reporting.figures import intervals, preferences, scores, style
from batch_calibration.reporting.figures import studies as study_figures
from batch_calibration.reporting.frame import Frame
from batch_calibration.reporting.two_labels import zero_lines
from batch_calibration.scores import ScoreTable, make_block
from batch_calibration.studies import run_calibration
from experiments.evidence import paper_figures

LABELS = {"sst2": ("negative", "positive"), "qnli": ("entailment", "not_entailment")}
ROWS = {"test": 24, "cc": 3, "dc": 5, "labeled": 24}
TASKS = ("sst2", "rte", "wic")
GAINS = {"near": Estimate(0.01, -0.01, 0.03), "far": Estimate(0.9, 0.2, 0.95)}


def record(task, icl, bc, **others):
    about = {"shots": 1, "seed": 0, "options": {}}
    about = {name: others.pop(name, usual) for name, usual in about.items()}
    return make_record(task, {"icl": icl, "bc": bc}, context=about, **others)


@pytest.fixture(scope="module")
def tables(planted):
    found = []
    for number, (task, names) in enumerate(LABELS.items()):
        blocks = {}
        for name, rows in ROWS.items():
            values, labels, _ = planted(rows, 2, number)
            blocks[name] = make_block(np.asarray(values), np.asarray(labels))
        about = {"task": task, "seed": 0, "shots": 1, "model": "m", "split": "validation"}
        found.append(ScoreTable(about, names, blocks))
    return found


@pytest.fixture(scope="module")
def shifted(tables):
    records = run_calibration(tables, ("icl", "cc", "dc", "bc"))
    return [paper_figures.shift_scores(*pair) for pair in zip(records, tables, strict=True)]


@pytest.fixture(scope="module")
def drawn(tables, shifted):
    """A figure of each function, by its name."""
    random = np.random.default_rng(0)
    own, varied, shots = [], [], []
    for (i, task), seed in product(enumerate(TASKS), range(2)):
        curve = make_curve(0.5 + random.normal(0, 0.02, 101))
        own.append(record(task, 0.5 + i / 10, 0.6, seed=seed, strength=0.5 + seed, curve=curve))
        shots += [record(task, 0.5 + n / 20, 0.7, shots=n, seed=seed) for n in range(5)]
    group, over_shots = Frame(own), curves.by_shots("m", Frame(shots))
    for task, name in product(TASKS[:2], "012345678"):
        varied.append(record(task, 0.4 + int(name) / 30, 0.7, options={"template": name}))
    sizes = make_by_rows([2, 8, 277], bc=[[0.5, 0.6], [0.6, 0.6], [0.7]])
    (by_size,) = curves.find_curves("m", Frame([record("rte", 0.5, 0.7, probe_size=sizes)]))
    rows, labels = np.asarray(tables[0].blocks["test"].log_probs), tables[0].blocks["test"].labels
    found = [diagnose(rows + shift, labels, label_names=LABELS["sst2"]) for shift in (0, 1)]
    signs = {name: (gain, gain.beyond_noise) for name, gain in GAINS.items()}
    names = [f"context {i}" for i in range(1000)]
    numbers = random.normal(0, 0.1, (1000, 1)) + np.array([0, -0.02, 0.02])
    estimates = {"icl": GAINS["near"], "bc": GAINS["near"], "bcl": GAINS["far"]}
    forest = [*GAINS, "missing"], "points", "h", ("panel", "row")
    return {
        "draw_curves": study_figures.draw_curves(over_shots),
        "draw_curves of rows": study_figures.draw_curves(by_size),
        "draw_strength": paper_figures.draw_strength(group),
        "draw_gains": intervals.draw_gains(group, ["bc"]),
        "draw_forest": intervals.draw_forest({"bc": signs, "pc": signs}, *forest),
        "draw_contexts": intervals.draw_contexts(GAINS, "h"),
        "draw_strip": intervals.draw_strip("gain", names, numbers, "#1f77c4", ("x", "y"), "h", ""),
        "draw_estimates": intervals.draw_estimates({"SST-2": estimates}, "h"),
        "draw_preferences": preferences.draw_preferences(found, ["one", "the other"]),
        "draw_reliability": preferences.draw_reliability(found, ["one", "the other"]),
        "draw_preferences of many": preferences.draw_preferences(2 * found, list("abcd")),
        "draw_planes": scores.draw_planes(tables, "m"),
        "draw_distributions": paper_figures.draw_distributions(shifted[0], "m"),
        "draw_correction": paper_figures.draw_correction(shifted[:1], "m"),
        "draw_robustness": study_figures.draw_robustness(Frame(varied), ["template"]),
    }


MODULES = ("intervals", "preferences", "scores", "studies")


def test_every_function_that_draws_is_tested(drawn):
    found = set()
    modules = [f"batch_calibration.reporting.figures.{name}" for name in MODULES]
    for name in [*modules, "experiments.evidence.paper_figures"]:
        module = importlib.import_module(name)
        for function, value in inspect.getmembers(module, inspect.isfunction):
            if function.startswith("draw_") and value.__module__ == module.__name__:
                found.add(function)
    assert found == {name.split()[0] for name in drawn}


def test_no_two_texts_overlap_and_no_color_has_two_meanings(drawn):
    wrong = {}
    for name, one in drawn.items():
        try:
            figures.check(one.figure)
        except AssertionError as error:
            wrong[name] = str(error)
    assert wrong == {}


def test_a_page_has_each_figure_as_text_in_its_own_colors(drawn):
    for name, one in drawn.items():
        svg = style.page_svg(one, name.replace(" ", "-"))
        assert svg.startswith("<svg ") and "<text" in svg and "currentColor" in svg
        wrong = re.findall("#000000|#ffffff|#eeeeee|font-family|<style|<metadata", svg)
        assert not wrong, (name, wrong)
        assert not [text for text in re.findall("<text[^>]*>([^<]*)", svg) if "Lines are" in text]
        ids, used = set(re.findall(' id="([^"]+)"', svg)), set(re.findall(r'#(\w+)[")]', svg))
        assert ids <= used, (name, ids - used)


MARKS = """
forest: far: +90.0 [+20.0, +95.0]
estimates: icl: 1.0 %
curves: bc, 4, shots per class:\x20
preferences: negative, predicted:\x20
planes: bc:\x20
strip: context\x20
robustness: 0, bc: 70.0 %
"""


def test_marks_say_their_numbers(drawn):
    for line in MARKS.strip().splitlines():
        name, said = line.split(": ", 1)
        svg = style.page_svg(drawn[f"draw_{name}"], "f")
        texts = re.findall("<title>([^<]*)</title>", svg)
        # A layer of very many dots is an image.
        is_found = any(said in text for text in texts) or ("<image" in svg and name == "strip")
        assert is_found, (name, texts[:9])


def test_the_numbers_are_what_is_drawn(drawn):
    found = figures.columns(drawn["draw_forest"].cells)
    assert list(found) == ["panel", "row", "gain", "low", "high"]
    assert found["gain"] == ["1", "90", "1", "90"] and found["row"] == 2 * ["near", "far"]
    axes = drawn["draw_forest"].figure.axes[0]
    assert [text.get_text() for text in axes.texts] == ["+90"]
    assert axes.get_xlim() == (-1.08 * intervals.FARTHEST, 1.08 * intervals.FARTHEST)
    found = figures.columns(drawn["draw_robustness"].cells)
    assert list(found) == ["method", "factor", "accuracy", "level"]
    assert found["level"] == 2 * list("012345678") and found["accuracy"][9:] == 9 * ["70"]
    bars = drawn["draw_preferences"].figure.axes[1].patches
    found = figures.columns(drawn["draw_preferences"].cells)
    numbers = zip(found["what"], found["value"], strict=True)
    values = [float(value) for what, value in numbers if what == "predicted"]
    assert [bar.get_height() for bar in bars[:2]] == pytest.approx(values[:2])


@pytest.mark.parametrize("count", [1, intervals.MAX_NAMED, 1000])
def test_few_contexts_have_a_row_each_and_many_a_strip(count):
    numbers = np.random.default_rng(0).normal(0, 0.1, count)
    gains = {f"context {i}": Estimate(x, x - 0.02, x + 0.02) for i, x in enumerate(numbers)}
    found = intervals.draw_contexts(gains, "h")
    values = figures.columns(found.cells)
    assert set(values["context"]) == set(gains) and len(values["gain"]) == count
    assert np.all(np.diff(list(map(float, values["gain"]))) <= 0)
    assert found.figure.get_size_inches()[1] <= 13


def test_files_are_the_same_each_time_and_pyplot_knows_no_figure(tmp_path):
    """In a fresh process: other tests import pyplot."""
    code = (
        "import sys; from batch_calibration import diagnose, plot; import hashlib\n"
        "from batch_calibration.reporting.figures.style import to_file\n"
        "found = diagnose(20 * [[-1.0, -3.0], [-2.0, -2.5]], label_names=('no', 'yes'))\n"
        "for form in ('png', 'pdf', 'svg'):\n"
        "    one, other = (to_file(plot(found), form) for _ in range(2))\n"
        "    assert one == other, form\n"
        "assert plot(found)._repr_png_().startswith(b'\\x89PNG')\n"
        "assert 'matplotlib.pyplot' not in sys.modules\n"
    )
    python("-c", code, cwd=tmp_path)


def test_lines_of_zeros_are_those_of_contourpy():
    from contourpy import contour_generator

    ticks = np.linspace(-2.0, 1.0, 101)
    x, y = np.meshgrid(ticks, ticks)
    for values in (y - x - 0.2, x**2 + y**2 - 0.5, x * y - 0.01, x + 9, np.sin(5 * x) - y):
        expected = contour_generator(ticks, ticks, values).lines(0.0)
        lines = zero_lines(ticks, values)
        assert len(lines) == len(expected)
        for line in lines:
            # Each point lies on a line of the other, and on a step's half at most beside it.
            distances = np.linalg.norm(line[:, None] - np.concatenate(expected)[None], axis=-1)
            assert distances.min(axis=1).max() < 0.02
    assert len(zero_lines(ticks, y - x - 0.2)[0]) == 2


def test_methods_differ_by_more_than_color():
    looks = {(palette.color(name), palette.dash(name)) for name in METHODS}
    assert len(looks) == len(METHODS)
    paper = {(palette.color(name), palette.dash(name)) for name in palette.METHOD_COLORS}
    assert len(paper) == len(palette.METHOD_COLORS)
    assert len({palette.dash(name) for name in ("icl", "cc", "dc", "pc", "bc")}) == 5
