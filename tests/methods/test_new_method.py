"""A method is a file and a line: one that is added here is found in every table and figure."""

import json
from functools import partial
from itertools import product

import jax.numpy as jnp
import numpy as np
import pytest

from batch_calibration import METHODS, calibrate
from batch_calibration.calibration.shift import shift
from batch_calibration.methods import Method, probes
from batch_calibration.reporting import two_labels, writing
from batch_calibration.reporting.items import Results
from batch_calibration.scores import ScoreTable, make_block
from batch_calibration.studies import Store, calibrate_store, write_results

SCORER = {"kind": "causal_lm"}
# Of each group that has a table of its own, and the new one.
CALIBRATED = "icl cc dc bc bcl bc_mean_prob prior_matching vector toy".split()  # noqa: SIM905


def median_log_prob(log_probs, weight=None):
    """A bias that no method of the table learns: the median of present rows."""
    present = log_probs if weight is None else jnp.where(weight[:, None] > 0, log_probs, jnp.nan)
    return jnp.nanmedian(present, axis=0)


@pytest.fixture(scope="module", autouse=True)
def toy():
    """The table of methods with one line more."""
    make, shows = partial(shift, estimate=median_log_prob), ("keeps_bias", "over_probe_sizes")
    row = Method(probes.BATCH, make, "this test", **dict.fromkeys(shows, True))
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(METHODS, "toy", row)
        yield


@pytest.fixture(scope="module")
def workdir(toy, planted, tmp_path_factory):
    """Score tables of two tasks, two shots and two templates, calibrated."""
    store = Store(tmp_path_factory.mktemp("toy"), create=True)
    contexts = [{"shots": 0}, {"shots": 1}, *({"options": {"template": name}} for name in "23")]
    for task, seed, context in product(("rte", "sst2"), range(2), contexts):
        scores, labels = map(np.asarray, planted(24, 2, seed)[:2])
        blocks = {name: make_block(scores, labels) for name in ("test", "labeled")}
        for name, rows in {"cc": 3, "dc": 5, "cc_original": 3}.items():
            blocks[name] = make_block(scores[:rows])
        usual = {"shots": 1, "split": "validation", "limit": 0, "model": "m", "scorer": SCORER}
        details = {**usual, "task": task, "seed": seed, **context}
        store.put(ScoreTable(details, ("yes", "no"), blocks))
    calibrate_store(store, CALIBRATED, probe_sizes=(4, 8), draws=2)
    return store


def test_calibrate_takes_it(refuses):
    rows = np.array(4 * [[-1.0, -3.0], [-2.0, -2.5], [-4.0, -2.0]], np.float32)
    np.testing.assert_allclose(calibrate(rows, "toy"), rows - np.median(rows, axis=0))
    assert refuses(calibrate, rows, "toy", strenght=1.0).key == "option of toy"


def test_every_table_names_it(workdir, tmp_path):
    results = Results(workdir.records(), workdir.table_of)
    tables = writing.write_tables(results, tmp_path / "tables")
    kinds = {table.slug.removeprefix("m-"): table.cells for table in tables}
    assert set(kinds) == {
        "methods", "by-task", "gains", "by-template", "by-shots", "by-seed", "spread", "contexts",
        "probabilities", "probe-size",
    }  # fmt: skip
    for kind, cells in kinds.items():
        is_row = kind in ("methods", "probabilities")
        assert "toy" in ([row[0] for row in cells] if is_row else cells[0]), kind
    write_results(workdir.records(), tmp_path)
    assert ",toy,accuracy," in (tmp_path / "results.csv").read_text()


def test_every_figure_draws_it(workdir, tmp_path):
    results = Results(workdir.records(), workdir.table_of)
    drawn = {d.slug.removeprefix("m-"): d for d in writing.make_figures(results)}
    assert two_labels.drawn_methods() == ("icl", "cc", "dc", "pc", "bc", "pc_raw", "toy")
    for axes in drawn["boundaries"].draw().figure.axes:
        names = [text.get_text().split()[0] for text in axes.get_legend().get_texts()]
        assert tuple(names[2:]) == two_labels.drawn_methods()  # behind two labels
    text_of = {}
    for name, drawing in drawn.items():
        panels = drawing.draw().figure.axes
        names = []
        for axes in panels:
            names += axes.get_legend_handles_labels()[1]
            legend = axes.get_legend()
            names += [text.get_text() for text in legend.get_texts()] if legend else []
        text_of[name] = " ".join([*names, *(axes.get_title(loc="left") for axes in panels)])
    for name in ("gains", "boundaries", "probe-size"):
        assert "toy" in text_of[name], name


def test_the_report_and_the_records_hold_it(workdir, tmp_path):
    results = Results(workdir.records(), workdir.table_of)
    writing.write_report(results, tmp_path / "report.html")
    assert ">toy</th>" in (tmp_path / "report.html").read_text()
    record = json.loads(next((workdir.workdir / "records").iterdir()).read_text())
    assert {"metrics", "bias", "probe_size"} <= record["methods"]["toy"].keys()
