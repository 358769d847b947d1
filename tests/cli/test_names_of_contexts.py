"""Contexts of a workdir at the console: their names, and the page of both doors."""

import re

import numpy as np
import pytest

from batch_calibration.scores import ScoreTable, make_block
from batch_calibration.studies import Store, calibrate_store


@pytest.fixture(scope="module")
def workdir(tmp_path_factory):
    """A workdir of one task with two templates and two seeds, whose rows are the same."""
    folder, random = tmp_path_factory.mktemp("templates"), np.random.default_rng(0)
    store, gold = Store(folder, create=True), random.integers(0, 2, 60)
    for template in ("1", "2"):
        for seed in (0, 1):
            rows = random.normal(size=(60, 2)) + 2 * np.eye(2)[gold] - 4
            rows[:, 0] += int(template)
            about = {"task": "mine", "model": "m", "shots": 1, "seed": seed, "rows": "same"}
            about["options"] = {"template": template}
            block = make_block(rows.astype(np.float32), gold)
            store.put(ScoreTable(about, ("no", "yes"), {"test": block}))
    calibrate_store(store, ["icl", "bc", "ensemble"])
    return folder


def test_contexts_of_one_name_are_called_by_their_options(program, workdir):
    shown = program("recommend", str(workdir)).stdout
    for template in (1, 2):
        assert len(re.findall(rf"^mine template {template}, m, 1-shot, seed", shown, re.M)) == 2


def test_a_workdir_has_the_same_page_as_a_study_and_as_a_file(program, workdir, tmp_path):
    of_study = program("report", f"--workdir={workdir}").stdout
    flags = ["--methods=icl,bc,ensemble", f"--output={tmp_path / 'f.html'}"]
    of_file = program("report", str(workdir), *flags).stdout
    lines = of_study.split("report:")[0].splitlines()
    assert of_file.split("report:")[0].splitlines()[: len(lines) - 1] == lines[:-1]
    pages = [(workdir / "report.html").read_text(), (tmp_path / "f.html").read_text()]
    for page in pages:
        assert "Label bias of m on mine: 2 templates × 2 seeds" in page
        table = page[page.index('data-file="m-by-template"') :].split("</table>")[0]
        assert "ensemble" not in table and "gain of bc" in table
    card = [page[page.index('class="card"') : page.index('id="details"')] for page in pages]
    assert card[0] == card[1].replace("f.html", "report.html")
