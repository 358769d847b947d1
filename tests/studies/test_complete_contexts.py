"""Complete contexts cost a worker no claim; whatever a worker left of one is still removed."""

import numpy as np
import pytest
from workers import CONTEXTS, ROWS, FakeScorer, files, render, score

from batch_calibration.scores import digest
from batch_calibration.settings import Cell, Settings
from batch_calibration.studies import Store, scoring
from batch_calibration.studies.claims import Claims
from batch_calibration.studies.journal import BlockPlan
from batch_calibration.studies.progress import WorkFiles


@pytest.fixture
def study(tmp_path, monkeypatch):
    """A finished workdir, and lists of the ids that are claimed and looked up from now on."""
    monkeypatch.setattr(scoring, "render_contexts", render)
    score(tmp_path / "w", tmp_path / "log")
    claimed, looked_up = [], []
    take, read = Claims.take, WorkFiles.read_failure

    def note_take(claims, context_id, *args):
        claimed.append(context_id)
        return take(claims, context_id, *args)

    def note_read(work, context_id):
        looked_up.append(context_id)
        return read(work, context_id)

    monkeypatch.setattr(Claims, "take", note_take)
    monkeypatch.setattr(WorkFiles, "read_failure", note_read)
    return tmp_path / "w", claimed, looked_up


def test_no_complete_context_is_claimed_and_the_progress_counts_them(study, tmp_path):
    workdir, claimed, looked_up = study
    expected, shown = files(workdir), []
    cells = [Cell("fake", seed) for seed in range(CONTEXTS)]
    report = scoring.run_scoring(
        Settings(), cells, workdir, scorer=FakeScorer(tmp_path / "log"), progress=shown.append
    )
    assert (report.scored, claimed, looked_up) == (0, [], [])
    assert shown[-1].done == shown[-1].total == report.inputs
    assert len(report.ids) == CONTEXTS and files(workdir) == expected


def test_only_the_missing_context_is_claimed(study, tmp_path):
    workdir, claimed, _ = study
    path = next((workdir / "scores").iterdir())
    content = path.read_bytes()
    path.unlink()
    score(workdir, tmp_path / "log")
    assert claimed == [path.stem] and path.read_bytes() == content


@pytest.mark.parametrize("left", ["journal", "failure", "claim"])
def test_the_rest_of_a_complete_context_is_removed(study, tmp_path, left):
    workdir, claimed, _ = study
    store, context_id = Store(workdir), next((workdir / "scores").iterdir()).stem
    if left == "journal":
        block = BlockPlan("test", digest({"texts": "test"}), ROWS)
        with store.journal(context_id, [block]) as journal:
            journal.add([0], np.zeros((1, 2)))
    elif left == "failure":
        store.progress.write_failure(context_id, "the disk was full")
    else:
        # A worker on another machine; its lease ends at once.
        folder = workdir / "work" / "claims" / context_id
        folder.mkdir(parents=True)
        (folder / "000000000000-7-1.json").write_text("{}")
    assert store.has_work(context_id)
    score(workdir, tmp_path / "log", lease=0.05)
    assert set(claimed) == {context_id}
    assert not store.has_work(context_id)
