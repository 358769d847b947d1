"""A stopped run goes on where it was: the very same bytes, and no batch is scored twice."""

import numpy as np
import pytest
from made_images import encoded, noise
from tiny import CLIP, byte_level, write

from batch_calibration.scoring.engine import forward
from batch_calibration.settings import Settings
from batch_calibration.studies import Store, run_scoring
from batch_calibration.studies.journal import BlockPlan, Journal, remove_stored
from batch_calibration.studies.loading import load_scorer


class Stopped(Exception):
    """A worker dies here."""


@pytest.fixture(scope="module")
def clip(tmp_path_factory):
    """A tiny random CLIP, and drawn images of which some cannot be read."""
    directory = write(tmp_path_factory.mktemp("tiny") / "clip", CLIP, byte_level())
    (directory / "preprocessor_config.json").write_text('{"size": 32, "crop_size": 32}')
    for number, name in enumerate(("banded", "dotted")):
        for split, count in (("train", 3), ("test", 17)):
            folder = directory / "dtd" / split / name
            folder.mkdir(parents=True)
            for i in range(count):
                broken = (i, split) in ((4, "test"), (16, "test"))
                data = b"" if broken else encoded(noise((40, 33), seed=100 * number + i))
                (folder / f"{i}.png").write_bytes(data)
    return directory


MINI = {"model": "mini", "data": "mini", "tasks": "sst2", "limit": 30, "seeds": 2, "dc_texts": 4}
MINI |= {"labeled_per_class": 128}
DUAL = {"scorer": "dual_encoder", "shots": 0, "scale": 0.0}
IMAGES = DUAL | {"tasks": "dtd", "split": "test", "max_tokens": 77, "batch_size": 4}
IMAGES |= {"labeled_per_class": 3}
TEXTS = DUAL | MINI | {"model": "mini_clip", "batch_size": 8, "seeds": 5}


@pytest.mark.parametrize("values", [MINI, IMAGES, TEXTS], ids=["labels", "images", "texts"])
def test_a_run_that_was_stopped_gives_the_bytes_of_one_that_was_not(
    values, clip, tmp_path, monkeypatch
):
    if values is IMAGES:
        values = {"data": str(clip), "model": str(clip)} | values
    monkeypatch.setattr(forward, "READ_AFTER", 512)
    settings = Settings.of(**values)
    scorer, plain, added = load_scorer(settings), Journal.add, []

    def add(journal, rows, values, failed=None, /):
        if len(added) in stops:
            stops.remove(len(added))
            raise Stopped
        plain(journal, rows, values, failed or {})
        added.append(len(rows) + len(failed or {}))

    monkeypatch.setattr(Journal, "add", add)
    stops = []
    expected = run_scoring(settings, store=tmp_path / "whole", scorer=scorer)
    batches, rows = len(added), sum(added)
    assert rows == expected.scored == expected.inputs and batches > 5
    added.clear()
    stops = [1, 2, batches // 2, batches - 1]
    store, scored = Store(tmp_path / "stopped", create=True), 0
    while stops:
        with pytest.raises(Stopped):
            run_scoring(settings, store=store, scorer=scorer)
    scored = run_scoring(settings, store=store, scorer=scorer).scored
    assert sum(added) == rows and 0 < scored < rows
    for path in (tmp_path / "whole" / "scores").iterdir():
        assert path.read_bytes() == (store.workdir / "scores" / path.name).read_bytes()
    work = store.workdir / "work"
    assert not [*work.glob("journal/*"), *work.glob("claims/*")]
    # A second context is scored after the first or alone: the same bytes.
    if values is MINI:
        run_scoring(settings, [settings.cell("sst2", 1)], tmp_path / "last", scorer=scorer)
        (path,) = (tmp_path / "last" / "scores").iterdir()
        assert path.read_bytes() == (store.workdir / "scores" / path.name).read_bytes()


TEST, DC = BlockPlan("test", "a", 4), BlockPlan("dc", "b", 2)


def kept(folder, plans, *batches):
    """A worker's journal of these rows, each with its number as values."""
    with Journal(folder, plans) as journal:
        for rows in batches:
            journal.add(rows, np.array([[row, -row] for row in rows], np.float32))


def rows_of(folder, plans):
    return {row: value.tolist() for row, value in Journal(folder, plans).rows.items()}


def test_finished_rows_are_found_by_their_block_whatever_else_is_asked(tmp_path):
    kept(tmp_path, [TEST, DC], [0, 5], [2])
    kept(tmp_path, [DC], [0])
    assert rows_of(tmp_path, [DC, TEST]) == {1: [5, -5], 0: [0, 0], 2: [0, 0], 4: [2, -2]}
    assert rows_of(tmp_path, [BlockPlan("test", "c", 4)]) == {}


def test_what_a_killed_worker_wrote_last_is_ignored_from_any_byte_on(tmp_path):
    kept(tmp_path, [TEST], [0, 1], [2])
    (path,) = tmp_path.iterdir()
    content = path.read_bytes()
    for end in range(len(content)):
        path.write_bytes(content[:end])
        assert set(rows_of(tmp_path, [TEST])) in (set(), {0, 1})
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    assert set(rows_of(tmp_path, [TEST])) == {0, 1}


def test_a_journal_is_kept_while_one_of_its_parts_is_not_stored(tmp_path):
    folder = tmp_path / "journal"
    kept(folder, [TEST, DC], [0])
    kept(folder, [TEST], [1])
    remove_stored(folder, [TEST])
    assert set(rows_of(folder, [TEST])) == {0}
    remove_stored(folder, [TEST, DC])
    assert not folder.exists()
