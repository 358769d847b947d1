"""Deviation of accuracy along a factor: the jackknife, its table and its figure."""

from itertools import product

import numpy as np
import pytest
from making import make_record
from scipy.stats import norm, t

from batch_calibration.metrics import OF_GAIN, over_rows, over_tasks
from batch_calibration.metrics.intervals import change_of_deviation, gain_over_prompts
from batch_calibration.reporting import tables, writing
from batch_calibration.reporting.cells import gain_cell
from batch_calibration.reporting.figures import studies
from batch_calibration.reporting.frame import Frame
from batch_calibration.reporting.items import Results


def outcomes(p, n, deviations, seed=0):
    """Right or not [p 1 n] before and after, prompts apart by `deviations`, of about 75 %."""
    rng = np.random.default_rng(seed)
    row, draws = rng.normal(size=n), []
    for sd in deviations:
        share = 0.75 + sd * rng.normal(size=(p, 1))
        draws.append(norm.cdf(0.8 * row + 0.6 * rng.normal(size=(p, n))) < share)
    return [np.asarray(right, float)[:, None] for right in draws]


def test_the_change_of_a_deviation_is_the_jackknife_in_loops():
    before, after = outcomes(6, 40, (0.1, 0.02))

    def change(keep_prompts, keep_rows):
        means = [side[keep_prompts][:, 0, keep_rows].mean(axis=1) for side in (before, after)]
        return np.std(means[1], ddof=1) - np.std(means[0], ddof=1)

    p, n = np.arange(6), np.arange(40)
    of_prompts = np.array([change(p[p != i], n) for i in p])
    of_rows = np.array([change(p, n[n != i]) for i in n])
    spread = np.sqrt(
        t.ppf(0.975, 5) ** 2 * 5 / 6 * ((of_prompts - of_prompts.mean()) ** 2).sum()
        + norm.ppf(0.975) ** 2 * 39 / 40 * ((of_rows - of_rows.mean()) ** 2).sum()
    )
    value = change(p, n)
    expected = (value, value - spread, value + spread)
    assert tuple(change_of_deviation(before, after)) == pytest.approx(expected)


def test_seeds_count_in_the_change_of_a_deviation():
    """The jackknife in loops leaves out a seed, too; the same seeds again add nothing."""
    draws = [outcomes(5, 30, (0.1, 0.03), seed) for seed in range(4)]
    sides = [np.concatenate(side, axis=1) for side in zip(*draws, strict=True)]

    def change(prompts, seeds, rows):
        means = [side[prompts][:, seeds][:, :, rows].mean(axis=(1, 2)) for side in sides]
        return np.std(means[1], ddof=1) - np.std(means[0], ddof=1)

    full, square = [list(range(size)) for size in (5, 4, 30)], 0.0
    for axis, factor in enumerate((t.ppf(0.975, 4), t.ppf(0.975, 3), norm.ppf(0.975))):
        without = []
        for i in full[axis]:
            kept_rows = list(full)
            kept_rows[axis] = [j for j in full[axis] if j != i]
            without.append(change(*kept_rows))
        square += factor**2 * (len(without) - 1) * np.var(without)
    value, spread = change(*full), np.sqrt(square)
    expected = (value, value - spread, value + spread)
    assert tuple(change_of_deviation(*sides)) == pytest.approx(expected)
    lone = [side[:, :1] for side in sides]
    twice = [np.repeat(side, 3, axis=1) for side in lone]
    assert tuple(change_of_deviation(*twice)) == pytest.approx(tuple(change_of_deviation(*lone)))


def test_seeds_count_in_the_gain_over_prompts():
    """By hand: two templates, two seeds of gains 0.1 and 0.3; the rows agree with one another."""
    gains = np.zeros((2, 2, 1000))
    gains[:, 0, :100], gains[:, 1, :300] = 1.0, 1.0
    gain, of_rows = gain_over_prompts(gains), over_rows(gains.mean(axis=1), OF_GAIN)
    assert gain.value == pytest.approx(0.2)
    # Student's t of one degree of freedom is 12.706; the seeds' deviation is 0.1414, of two 0.1.
    assert gain.high == pytest.approx(min(0.2 + np.hypot(of_rows.high - 0.2, 1.2706), 1.0))
    assert tuple(gain_over_prompts(gains[:, :1])) == tuple(over_rows(gains[:, 0], OF_GAIN))


@pytest.mark.parametrize(("p", "n", "after"), [(10, 500, 0.02), (10, 56, 0.1), (24, 200, 0.1)])
def test_the_interval_holds_the_change(p, n, after):
    """Of few rows it is wide: what rows and prompts have together is counted on both sides."""
    changes = [change_of_deviation(*outcomes(p, n, (0.1, after), seed)) for seed in range(150)]
    mean = np.mean([change.value for change in changes])
    assert np.mean([change.low <= mean <= change.high for change in changes]) > 0.9
    if after == 0.1:
        assert np.mean([change.beyond_noise != 0 for change in changes]) < 0.09


def test_too_few_prompts_tell_of_no_change():
    assert change_of_deviation(*outcomes(2, 40, (0.1, 0.1))) is None
    assert change_of_deviation(*outcomes(3, 1, (0.1, 0.1))) is None


def test_the_table_of_spread_has_the_change_over_levels_and_rows():
    """Two tasks: of each the jackknife over its templates; the table has their mean."""
    records, changes = [], []
    for task in ("rte", "sst2"):
        before, after = outcomes(6, 100, (0.1, 0.02), len(task))
        changes.append(change_of_deviation(before, after))
        for i, (icl, bc) in enumerate(zip(before[:, 0] > 0, after[:, 0] > 0, strict=True)):
            context = {"options": {"template": i}}
            records.append(make_record(task, {"icl": icl, "bc": bc}, rows=100, context=context))
    _, of_tasks, of_templates = tables.spread(Frame(records), ["icl", "bc"])
    assert of_templates[-1] == gain_cell(over_tasks(changes)) and of_tasks[-1] == "-"
    # Contexts with unlike rows have no interval, and their deviations are known.
    unlike = [*records[1:6], make_record("rte", {"icl": 0.5, "bc": 0.6}, rows=50)]
    header, row = tables.spread(Frame(unlike), ["icl"])
    assert row[0] == "template" and float(row[2]) > 0 and header[-1] == "icl"


def test_the_figure_of_robustness_has_a_dot_for_each_level_that_is_matched():
    """Template 3 has one task only, so that it is no level of the comparison."""
    cells = [(task, i, 0.5 + 0.1 * i) for task in ("rte", "sst2", "cb") for i in range(3)]
    records = []
    for task, template, icl in [*cells, ("rte", 3, 0.9)]:
        context = {"options": {"template": template}}
        records.append(make_record(task, {"icl": icl, "bc": 0.8}, rows=100, context=context))
    drawn = studies.draw_robustness(Frame(records), ["template"])
    rows = [row for row in drawn.cells[1:] if row[0] == "icl"]
    assert [row[3] for row in rows] == ["0", "1", "2"]
    assert [float(row[2]) for row in rows] == pytest.approx([50, 60, 70])
    (drawing,) = (d for d in writing.make_figures(Results(records)) if "robustness" in d.slug)
    assert drawing.number == "Figure 8" and drawing.draw().cells == drawn.cells


@pytest.mark.parametrize(("levels", "boxes"), [(4, 0), (5, 2)])
def test_a_box_has_five_dots_or_more(levels, boxes):
    records = []
    for task, template in product(("rte", "sst2"), range(levels)):
        context = {"options": {"template": template}}
        right = {"icl": 0.5 + template / 20, "bc": 0.8}
        records.append(make_record(task, right, rows=100, context=context))
    (axes,) = studies.draw_robustness(Frame(records), ["template"]).figure.axes
    assert len(axes.patches) == boxes
    assert [len(dots.get_offsets()) for dots in axes.collections] == [levels, levels]
