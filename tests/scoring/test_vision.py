"""Images from a folder to the tables, as a person types it; broken ones on the way."""

import json

import numpy as np
import pytest
from made_images import encoded, noise
from rendering import rendered, settings_of
from tiny import CLIP, byte_level, write

from batch_calibration.studies import Store, run_calibration, run_scoring
from batch_calibration.studies.loading import load_scorer

VISION = "--config=configs/vision.py"
CLASSES = ("banded", "dotted", "polka-dotted", "zigzagged")


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A tiny random CLIP."""
    directory = write(tmp_path_factory.mktemp("tiny") / "clip", CLIP, byte_level())
    (directory / "preprocessor_config.json").write_text('{"size": 32, "crop_size": 32}')
    return directory


@pytest.fixture
def images(tmp_path):
    """Ten drawn images of each class, two of which are broken: one of train, one of test."""
    root = tmp_path / "data" / "dtd"
    for seed, name in enumerate(CLASSES):
        for split, count in (("train", 3), ("test", 7)):
            (root / split / name).mkdir(parents=True)
            for i in range(count):
                data = encoded(noise((40 + i, 33), seed=100 * seed + 10 * count + i))
                (root / split / name / f"{i}.png").write_bytes(data)
    (root / "test" / "dotted" / "3.png").write_bytes(b"")
    (root / "train" / "banded" / "1.png").write_bytes(encoded(noise())[:60])
    return root.parent


@pytest.mark.parametrize("template", ["", "ensemble"])
def test_what_cannot_be_read_is_left_out_and_not_asked_again(template, model, images, tmp_path):
    values = {"data": str(images), "model": str(model), "template": template}
    values["labeled_per_class"] = 3
    planned, settings = rendered("vision.py", "dtd", **values), settings_of("vision.py", **values)
    store, scorer = Store(tmp_path / "w", create=True), load_scorer(settings)

    def ask():
        report = run_scoring(settings, [settings.cell("dtd")], store, scorer=scorer)
        ((table,), _) = store.tables()
        return table, report.scored

    table, requests = ask()
    assert requests == 28 + 12 and len(scorer.notes) == 1
    for name, rows in (("test", 27), ("labeled", 11)):
        block, plan = table.blocks[name], planned.blocks[name]
        assert block.spec == plan.spec | {"unreadable": 1}
        assert len(block.row_ids) == len(block.labels) == len(block.tokens) == rows
        gold = dict(zip(plan.row_ids, plan.labels, strict=True))
        assert [gold[row] for row in block.row_ids] == block.labels.tolist()
        assert block.log_probs.shape == (rows, 47) and np.isfinite(block.log_probs).all()
    reread, requests = ask()
    assert requests == 0
    for name, block in table.blocks.items():
        np.testing.assert_array_equal(reread.blocks[name].labels, block.labels)
        assert reread.blocks[name].row_ids == block.row_ids
    (record,) = run_calibration([reread], ("icl", "cc", "dc", "pc", "bc"))
    assert record.unreadable == {"test": 1, "labeled": 1}
    assert {"cc", "dc", "pc"} <= set(record.skipped) and {"icl", "bc"} <= set(record.methods)


def through(program, model, data, workdir, *flags):
    """From the folder to the tables and figures; what each program said."""
    path = f"--workdir={workdir}"
    asked = [f"--config.model={model}", "--config.tasks=('dtd',)", f"--config.data={data}"]
    processes = [program("score", VISION, *asked, path, *flags)]
    processes.append(program("calibrate", "--methods=icl,cc,dc,bc,bcl", path))
    processes += [program(name, path) for name in ("tables", "figures", "report")]
    return [done.stdout for done in processes]


def test_from_folder_to_page(program, model, images, tmp_path):
    workdir = tmp_path / "w"
    labeled = "--config.labeled_per_class=3"
    scored, calibrated, tables, figures, page = through(program, model, images, workdir, labeled)
    assert "40 rows scored" in scored and "2 of 40 images could not be read" in scored
    assert "3.png" in scored
    assert "left out of some contexts: " in calibrated and "left_out.csv" in calibrated
    reasons = (workdir / "left_out.csv").read_text()
    assert "cc,no block 'cc'" in reasons and "dc,no block 'dc'" in reasons
    assert "dtd, block 'test': 1 of 28 inputs are left out" in calibrated
    assert "DTD" in tables and " cc " not in tables and " dc " not in tables
    (table,) = (workdir / "tables").glob("*methods.md")
    assert "27 test rows." in table.read_text()
    assert "files of figures" in figures
    assert "report.html" in page
    (record,) = [json.loads(path.read_text()) for path in (workdir / "records").iterdir()]
    assert record["unreadable"] == {"labeled": 1, "test": 1}
    second, *_ = through(program, model, images, workdir, labeled)
    assert "0 rows scored" in second and "could not be read" not in second


@pytest.mark.slow
def test_real_images(program, model, shared, tmp_path):
    data = shared / "data" / "extra_dtd10"
    flags = "--config.limit=40", "--config.labeled_per_class=2", "--config.classes=present"
    scored, calibrated, tables, *_ = through(program, model, data, tmp_path, *flags)
    assert "60 rows scored" in scored and "could not be read" not in scored
    assert "left out of some contexts" in calibrated and "DTD" in tables
    (table,) = (tmp_path / "tables").glob("*methods.md")
    assert "40 test rows." in table.read_text()
