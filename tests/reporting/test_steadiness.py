"""Deviation of accuracy over prompts: the jackknife, and a study's sentences and figures."""

import numpy as np
import pytest
from making import make_record
from matplotlib.colors import to_hex
from scipy.stats import norm, t

from batch_calibration.metrics import OF_GAIN, over_rows
from batch_calibration.metrics.intervals import change_of_deviation, gain_over_prompts
from batch_calibration.reporting import curves, prompts, words, writing
from batch_calibration.reporting.figures import studies
from batch_calibration.reporting.frame import by_setting
from batch_calibration.reporting.items import Results
from batch_calibration.reporting.palette import VERDICTS


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


def record(icl, bc, template, task="rte", rows=500):
    return of_context(icl, bc, task, rows, options={"template": template})


def of_context(icl, bc, task, rows=500, **context):
    return make_record(task, {"icl": icl, "bc": bc}, rows=rows, context=context)


STEADY = [record(0.5 + 0.04 * i, 0.8 + 0.002 * i, str(i)) for i in range(10)]
ALIKE = [record(0.6 + 0.002 * i, 0.6 + 0.002 * i, str(i), "sst2") for i in range(10)]
WORSE = [record(0.7, 0.5 + 0.03 * i, str(i), "wic") for i in range(10)]


def test_a_study_of_the_prompt_in_words():
    (study,) = prompts.by_study(prompts.find_axes([*STEADY, *ALIKE, *WORSE])).values()
    text = words.prompt_paragraph(study)
    assert text.startswith("The wording around the row (10 templates on SST-2, RTE and WiC, every")
    verdict = text.split("): ")[1].split(". ")[0]
    assert verdict == (
        "on RTE it matters less after the correction; on WiC it matters more after the correction; "
        "on SST-2 the correction makes no difference beyond noise to how much it matters"
    )
    gained = text.split("bc gains ")[1].split(" points.")[0]
    assert gained.startswith("+0.0 [") and "] and -" in gained.replace("]*", "]")


def of_seeds(values):
    """A template a row, a seed a column: accuracy with icl; bc has 80 % always."""
    records = []
    for template, accuracies in enumerate(values):
        for seed, accuracy in enumerate(accuracies):
            context = {"seed": seed, "shots": 2, "options": {"template": str(template)}}
            methods = {"icl": accuracy, "bc": 0.8}
            records.append(make_record("rte", methods, rows=100, context=context))
    return records


def test_seeds_are_averaged_before_prompts_are_compared():
    """By hand: means 50, 60 and 70 % are 10 points apart; all six contexts would be 28.3."""
    (study,) = prompts.find_axes(of_seeds([(0.3, 0.7), (0.3, 0.9), (0.4, 1.0)]))
    np.testing.assert_allclose(study.values("icl"), [50, 60, 70])
    assert study.count == "3 templates, 2 seeds each"
    header, row = prompts.study_cells([study])
    of_study = dict(zip(header, row, strict=True))
    assert [of_study[name] for name in ("shots", "prompts", "seeds each")] == ["2", "3", "2"]
    assert of_study["icl"] == "60.0 ± 10.0" and of_study["icl max - min"] == "20.0"
    cells = prompts.prompt_cells(study)
    assert cells[1][:3] == ["0", "100", "50.0 ± 28.3"] and cells[4][2] == "60.0 ± 10.0"
    assert sum(map(int, of_study["wins, ties, losses"].split(", "))) == 3
    assert "(3 templates, 2 seeds each on RTE, everything" in words.prompt_paragraph([study])
    assert "intervals over prompts, seeds and test rows" in words.prompt_paragraph([study])
    drawn = studies.draw_prompts([study])
    first = dict(zip(drawn.cells[0], drawn.cells[1], strict=True))
    assert [first[x] for x in ("prompt", "accuracy", "shots", "seeds")] == ["0", "50", "2", "0 1"]
    assert "3 templates, 2 seeds each" in drawn.figure.axes[0].get_title(loc="left")
    boxes = studies.draw_boxes([study]).cells
    assert len(boxes) == 1 + 2 * 3 and boxes[0][-3:] == ["choice", "shots", "seeds"]


def test_prompts_may_have_unlike_seeds():
    """A mean is of the seeds that there are; the interval is over prompts and rows."""
    (study,) = prompts.find_axes(of_seeds([(0.3, 0.7), (0.6,), (0.7, 0.7, 0.7)]))
    assert study.count == "3 templates, 1 to 3 seeds each"
    np.testing.assert_allclose(study.values("icl"), [50, 60, 70])
    assert study.outcomes[0].shape == (3, 1, 100) and study.change is not None
    assert study.gain.value == pytest.approx(0.2)


def test_an_order_of_another_draw_is_another_prompt():
    orders = [(seed, {"order": order}) for seed in range(2) for order in range(3)]
    records = [of_context(0.5, 0.6, "rte", seed=seed, options=order) for seed, order in orders]
    (study,) = prompts.find_axes(records)
    assert study.count == "6 orders" and "2, seed 1" in study.prompts
    (lone,) = prompts.find_axes(records[:3])
    assert list(lone.prompts) == ["0", "1", "2"]


def test_prompts_on_unlike_rows_tell_of_no_change():
    axes = [record(0.5, 0.6, "1"), record(0.6, 0.7, "2"), record(0.7, 0.8, "3", rows=300)]
    (axis,) = prompts.find_axes(axes)
    assert axis.change is None and prompts.study_cells([axis])[1][-2:] == ["-", "3, 0, 0"]
    assert "changes" not in words.prompt_paragraph([axis])


def test_a_study_without_icl_or_of_one_prompt_is_not_told():
    contexts = [{"options": {"template": str(i)}} for i in range(3)]
    lone = [make_record("rte", {"bc": 0.5}, context=context) for context in contexts]
    for records in (lone, STEADY[:1]):
        assert prompts.by_study(prompts.find_axes(records)) == {}
        assert "prompts" not in {t.slug for t in writing.make_tables(Results(records))}


def test_the_table_and_the_figure_of_all_prompts():
    results = Results([*STEADY, *ALIKE, *WORSE])
    (table,) = (view for view in writing.make_tables(results) if view.slug == "prompts")
    assert [row[1] for row in table.cells[1:]] == ["SST-2", "RTE", "WiC"]
    of_rte = dict(zip(table.cells[0], table.cells[2], strict=True))
    assert of_rte["icl max - min"] == "36.0" and of_rte["bc"] == "80.9 ± 0.6"
    assert of_rte["change of ±"].startswith("-11.5 [") and of_rte["change of ±"].endswith("]*")
    assert of_rte["wins, ties, losses"] == "8, 1, 1"
    (drawing,) = (view for view in writing.make_figures(results) if view.slug.endswith("-prompts"))
    drawn = drawing.draw()
    header, first = drawn.cells[0], dict(zip(drawn.cells[0], drawn.cells[11], strict=True))
    assert ", ".join(header) == "task, method, prompt, accuracy, shots, seeds, gain, low, high"
    assert [first[name] for name in ("task", "method", "accuracy")] == ["SST-2", "bc", "60"]
    assert [float(first[name]) for name in ("gain", "low")] == pytest.approx([0, -0.5522], abs=1e-4)
    panels = [axes for axes in drawn.figure.axes if axes.axison]
    tasks = [axes.get_title(loc="left").split(",")[0] for axes in panels]
    assert tasks == ["SST-2", "RTE", "WiC"]
    moves = list(map(to_hex, panels[2].collections[0].get_colors()))
    assert moves.count(VERDICTS["loss"]) == 7 and moves.count(VERDICTS["gain"]) == 2
    assert [text.get_text() for text in panels[1].get_yticklabels()] == list("0123456789")
    assert len({axes.get_xlim() for axes in panels}) == 1


def test_many_prompts_are_not_named():
    many = [record(0.5 + 0.01 * i, 0.8, f"{i}") for i in range(studies.MAX_PROMPTS_NAMED + 1)]
    axes = studies.draw_prompts(prompts.find_axes(many)).figure.axes[0]
    assert {text.get_text() for text in axes.get_yticklabels()} == {""}


def shots(number, seed, icl, bc, task="rte"):
    return of_context(icl, bc, task, shots=number, seed=seed)


def test_the_study_of_shots_in_words():
    records = [shots(0, 0, 0.6, 0.6), shots(0, 0, 0.5, 0.4, "cb")]
    for seed, up in enumerate((-0.02, 0.0, 0.02)):
        records += [shots(4, seed, 0.5 + up, 0.7 + up / 10), shots(4, seed, 0.5, 0.5, "cb")]
    (curve,) = curves.by_shots(by_setting(records))
    text = words.curve_paragraph(curve)
    assert text.startswith("Shots: m, validation split, all rows (0 to 4 shots per class on CB and")
    assert "at 1 of 4 points Batch Calibration (bc) gains beyond noise over" in text
    assert "(icl), at 1 it loses; its gain goes from -10.0 [" in text
    assert "]* points (CB at 0) to +20.0 [" in text
    assert words.study_paragraphs(Results(records)) == {f"{curve.slug}-curve": text}
    alone = [make_record("rte", {"bc": 0.5}, context={"shots": n}) for n in (0, 1)]
    assert words.study_paragraphs(Results(alone)) == {}
