"""Accuracy by rows seen: what a stream in numpy gives, in tables and figures."""

import numpy as np
import pytest
from making import make_by_rows, make_record

from batch_calibration.methods import Evidence
from batch_calibration.reporting import curves
from batch_calibration.reporting.figures import studies as study_figures
from batch_calibration.reporting.frame import Frame
from batch_calibration.scores import ScoreTable, make_block
from batch_calibration.studies.accuracy_by_rows import accuracy_over_stream
from batch_calibration.studies.calibration import run_calibration


def in_numpy(scores, gold, orders, size, seed):
    """Share of right predictions between the numbers of rows seen, [number][order]."""
    n = len(scores)
    base = np.random.default_rng([seed, 7]).permutation(n)
    accuracies = []
    for o in range(orders):
        order = np.roll(base, -(o * n // orders))
        right = []
        for i, row in enumerate(order):
            seen = scores[order[: min((i // size + 1) * size, n)]]
            right.append(gold[row] >= 0 and (scores[row] - seen.mean(0)).argmax() == gold[row])
        judged = [gold[row] >= 0 for row in order]
        slices = [slice(0, 10), slice(10, 20), slice(20, n)]
        accuracies.append([sum(right[span]) / sum(judged[span]) for span in slices])
    return np.transpose(accuracies)


@pytest.mark.parametrize("size", [1, 8, 32])
def test_it_is_the_stream_s_accuracy_part_by_part(size, planted):
    scores, gold, _ = planted(45, 3)
    gold = np.asarray(gold).copy()
    gold[[3, 9]] = -1
    rows, weight = np.pad(scores, ((0, 19), (0, 0))), np.pad(np.ones(45, np.float32), (0, 19))
    padded = Evidence(rows, np.pad(gold, (0, 19), constant_values=-1), weight)
    options = {"bc_running": {"batch_size": size}}
    stream = accuracy_over_stream(padded, 5, ["bc_running"], seed=2, options=options)["bc_running"]
    assert stream.rows == (10, 20, 45)
    expected = in_numpy(np.asarray(scores, np.float64), gold, 5, size, 2)
    np.testing.assert_allclose(stream.accuracy, expected, atol=1e-6)


def test_a_stretch_without_labels_has_no_value(planted):
    scores, gold, _ = planted(45, 3)
    few = np.where(np.arange(45) < 1, np.asarray(gold), -1)
    running = ["bc_running"]
    stream = accuracy_over_stream(Evidence(np.asarray(scores), few), 5, running, seed=2)[running[0]]
    accuracies = np.array(stream.accuracy)
    assert len(stream.rows) == len(accuracies) < 3 and not np.isnan(accuracies).any()


def test_a_whole_batch_is_bc_whatever_the_order(planted, refuses):
    scores, gold, _ = planted(40, 2)
    table = ScoreTable({"task": "rte"}, ("a", "b"), {"test": make_block(scores, gold)})
    chosen = {"bc_running": {"batch_size": 40}}
    (record,) = run_calibration([table], ["bc", "bc_running"], options=chosen, stream_orders=8)
    sizes = np.diff((0, *record.methods["bc_running"].over_stream.rows))
    mean = sizes @ np.array(record.methods["bc_running"].over_stream.accuracy) / 40
    np.testing.assert_allclose(mean, record.methods["bc"].metrics["accuracy"], atol=1e-6)
    assert refuses(run_calibration, [table], ["bc"], stream_orders=-1).where == "stream_orders"


def test_table_and_figure_show_it_beside_icl_and_bc():
    stream = make_by_rows([10, 277], bc_running=[[0.5, 0.6], [0.7, 0.7]])
    fields = {"methods": {"icl": 0.5, "bc": 0.8, "bc_running": 0.7}, "over_stream": stream}
    records = [make_record("rte", context={"seed": seed}, **fields) for seed in range(3)]
    (curve,) = curves.find_curves("m", Frame(records))
    cells = curves.curve_cells(curve)
    assert cells[0] == ["task", "rows seen", "bc_running", "icl, all rows", "bc, all rows"]
    assert cells[-1] == ["RTE", "277", "70.0 ± 0.0", "50.0", "80.0"]
    _, *rows = study_figures.draw_curves(curve).cells
    assert ["RTE", "icl, all rows", "10", "50", "", ""] in rows
    assert ["RTE", "bc, all rows", "277", "80", "", ""] in rows
    # The band is the error of the mean of six orders: 5.48 / sqrt(6) around 55.
    low = min(float(row[4]) for row in rows if row[1] == "bc_running")
    assert low == pytest.approx(55 - 5.4772 / 6**0.5, abs=1e-3)
    assert list(curves.find_curves("m", Frame([make_record("rte", {"icl": 0.5})]))) == []
