"""Charts: what is described once is drawn by matplotlib and by plotly.js, and is its own CSV."""

import json

import numpy as np
import pytest
from matplotlib import pyplot as plt

from batch_calibration.methods import METHODS
from batch_calibration.metrics import Estimate
from batch_calibration.reporting.figures import intervals, render
from batch_calibration.reporting.figures.chart import Axis, Chart, Panel, share_values, shown_marks
from batch_calibration.reporting.figures.marks import Bars, Dots, Field, Heat, Line, Rule, Spans
from batch_calibration.reporting.method_display import PALETTE
from batch_calibration.reporting.report import plots
from batch_calibration.reporting.two_labels import zero_lines

NAMES = ["a", "b <i>", "c $d$"]
MARKS = (
    Line("line", [0.0, 1, 2], [1.0, 3, 2], "#7f7f7f", low=[0.5, 2.5, 1.5], high=[1.5, 3.5, 2.5],
         has_dots=True),
    Dots("dots", [0.0, 1, 2], [2.0, 1, 3], ["#1f77c4", "#d55e00", "#1f77c4"], low=[1.0, 0, 2],
         high=[3.0, 2, 4], extra={"seed": [4, 5, 6]}),
    Dots("", [1.0], [1.0], is_hollow=True, symbol="star", texts=["x"]),
    Spans([0.5], [0.0], [2.0], "x"),
    Bars("bars", [0.0, 1, 2], [1.0, 2, 3], "#00936b", alpha=0.5, has_edge=True),
    Rule(1.0, name="rule"),
    Field(np.linspace(0, 2, 5), np.linspace(-1, 1, 25).reshape(5, 5), ("#d55e00", "#1f77c4")),
)  # fmt: skip
PANEL = Panel("first", MARKS, Axis("across", names=NAMES), Axis("up"))
CHART = Chart("Every mark", [PANEL, PANEL._replace(name="second")],
              ("panel", "mark", "place", "value"), "A note.", together=True)  # fmt: skip


def test_the_csv_is_what_is_drawn():
    header, *rows = CHART.data()
    assert header == ["panel", "mark", "place", "value", "low", "high", "seed"]
    assert len(rows) == 2 * 9 and rows[0] == ["first", "line", "a", "1", "0.5", "1.5", ""]
    assert rows[4] == ["first", "dots", "b <i>", "1", "0", "2", "5"]
    assert rows[8] == ["first", "bars", "c $d$", "3", "", "", ""]
    heat = Heat(np.array([[1.0, np.nan]]), 0, 1, ("#fff", "#000"), "gain")
    panel = Panel("p", [heat], Axis("x", names=["u", "v"]), Axis("y", names=["w"]))
    assert Chart("h", [panel], ("", "", "y", "gain")).data() == [
        ["y", "gain", "x"],
        ["w", "1", "u"],
    ]


def test_both_renderers_draw_the_same_numbers():
    graph_objects = pytest.importorskip("plotly.graph_objects", reason="needs plotly")
    axes = render.draw(CHART).axes[0]
    parts = json.loads(plots.embed_json(CHART))["panels"][0]
    graph_objects.Figure(json.loads(json.dumps(parts["traces"]).replace('"ink"', '"#000"')))
    traces = {trace["name"]: trace for trace in parts["traces"] if trace.get("name")}
    (line,) = (one for one in axes.lines if one.get_label() == "line")
    assert list(line.get_ydata()) == traces["line"]["y"]
    (dots,) = (one for one in axes.collections if one.get_label() == "dots")
    assert dots.get_offsets()[:, 1].tolist() == traces["dots"]["y"]
    heights = [bar.get_height() for bar in axes.patches]
    assert heights == traces["bars"]["y"]
    assert parts["x"]["ticktext"] == ["a", "b &lt;i&gt;", "c $d$"]
    assert [tick.get_text() for tick in axes.get_xticklabels()] == NAMES
    assert "95 % interval 0 to 2" in traces["dots"]["text"][1]
    plt.close("all")


def test_what_lies_beyond_the_axis_is_an_arrow_with_its_number():
    gains = {"near": Estimate(0.01, -0.01, 0.03), "far": Estimate(0.9, 0.2, 0.95)}
    pairs = {name: (gain, gain.beyond_noise) for name, gain in gains.items()}
    rows = [*gains, "missing"]
    chart = intervals.forest({"bc": pairs}, rows, "points", "h", ("panel", "row"))
    (panel,) = chart.panels
    dots = [mark for mark in shown_marks(panel) if isinstance(mark, Dots)]
    right = panel.x.limits[1]
    assert right == intervals.FARTHEST and dots[0].x.tolist() == [1.0, right]
    assert dots[0].texts == ["", "+90"] and dots[1].symbol == "triangle-right"
    assert len(dots) == 2 and [row[2] for row in chart.data()[1:]] == ["1", "90"]


@pytest.mark.parametrize("count", [1, intervals.MAX_NAMED, 1000])
def test_few_contexts_have_a_row_each_and_many_a_strip(count):
    numbers = np.random.default_rng(0).normal(0, 0.1, count)
    gains = {f"context {i}": Estimate(x, x - 0.02, x + 0.02) for i, x in enumerate(numbers)}
    chart = intervals.context_chart(gains, "h")
    dots = next(mark for mark in chart.panels[0].marks if isinstance(mark, Dots))
    values = dots.x if count <= intervals.MAX_NAMED else dots.y
    assert np.all(np.diff(values) <= 0) and len(values) == count
    assert chart.size[1] <= 12  # inches
    assert {row[chart.data()[0].index("context")] for row in chart.data()[1:]} == set(gains)


def test_panels_share_a_range():
    panels = [PANEL._replace(marks=[Line("", [0.0], [y])]) for y in (1.0, 5.0)]
    assert [panel.y.limits for panel in share_values(panels)] == [(0.84, 5.16)] * 2


def test_lines_of_zeros_are_those_of_contourpy():
    from contourpy import contour_generator

    ticks = np.linspace(-2.0, 1.0, 101)
    x, y = np.meshgrid(ticks, ticks)
    for values in (y - x - 0.2, x**2 + y**2 - 0.5, x * y - 0.01, x + 9, np.sin(5 * x) - y):
        expected = contour_generator(ticks, ticks, values).lines(0.0)
        found = zero_lines(ticks, values)
        assert len(found) == len(expected)
        for line in found:
            # Each point lies on a line of the other, and on a step's half at most beside it.
            apart = np.linalg.norm(line[:, None] - np.concatenate(expected)[None], axis=-1)
            assert apart.min(axis=1).max() < 0.02
    assert len(zero_lines(ticks, y - x - 0.2)[0]) == 2


def test_methods_differ_by_more_than_color():
    looks = {(PALETTE.color(name), PALETTE.dash(name)) for name in METHODS}
    assert len(looks) == len(METHODS)
    paper = {(PALETTE.color(name), PALETTE.dash(name)) for name in PALETTE.methods}
    assert len(paper) == len(PALETTE.methods)
    assert len({PALETTE.dash(name) for name in ("icl", "cc", "dc", "pc", "bc")}) == 5
