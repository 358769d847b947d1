"""Progress of runs, contexts that cannot be scored, and records of scores that change."""

import pytest
from workers import SIZES, FakeScorer, render, score

from batch_calibration.errors import InputError
from batch_calibration.scores import ScoreTable, make_block
from batch_calibration.scoring import NoAnswer
from batch_calibration.settings import Cell, Settings
from batch_calibration.studies import Store, calibrate_store, calibration, scoring
from batch_calibration.studies import store as stores
from batch_calibration.studies.claims import Claims
from batch_calibration.studies.store import read_status

CELLS = [Cell("fake", seed) for seed in range(4)]
ROWS = sum(SIZES.values())


@pytest.fixture(autouse=True)
def rendering(monkeypatch):
    """Contexts of workers.py in place of rendered ones."""
    monkeypatch.setattr(scoring, "render_contexts", render)


class Refuses(FakeScorer):
    """Cannot score the contexts of these seeds."""

    def __init__(self, log, *seeds, error=InputError):
        super().__init__(log)
        self.seeds, self.error = seeds, error

    def score(self, inputs, labels, **options):
        seed = int(inputs[0].split()[1])
        if seed in self.seeds:
            raise self.error(f"seed {seed}: expected another one; choose it.")
        return super().score(inputs, labels, **options)


def lines(workdir):
    return list(read_status(Store(workdir)).lines())


def test_a_context_that_cannot_be_scored_leaves_the_others(tmp_path, refuses):
    work, log = tmp_path / "w", tmp_path / "log"
    assert "2 of 4" in str(refuses(score, work, log, CELLS, scorer=Refuses(log, 1, 2)))
    status = lines(work)
    assert status[0] == "2 done, 0 running, 2 failed, 0 left"
    said = "failed: fake, seed {0}, 1 shots: seed {0}: expected another one; choose it."
    assert status[1:] == [said.format(seed) for seed in (1, 2)]
    # A later run tries again what an earlier one could not do.
    assert score(work, log, CELLS).scored == 2 * ROWS
    assert lines(work) == ["4 done, 0 running, 0 failed, 0 left"]


def test_what_another_worker_finds_to_fail_while_this_one_runs_is_not_tried_again(
    tmp_path, refuses
):
    work, log = tmp_path / "w", tmp_path / "log"

    class Meanwhile(FakeScorer):
        def score(self, inputs, labels, **options):
            if inputs[0].startswith("fake 0 "):
                with pytest.raises(InputError, match="seed 3"):
                    score(work, log, CELLS[3:], scorer=Refuses(log, 3))
            return super().score(inputs, labels, **options)

    assert "1 of 4 contexts" in str(refuses(score, work, log, CELLS, scorer=Meanwhile(log)))
    assert lines(work)[0] == "3 done, 0 running, 1 failed, 0 left"


def test_a_server_without_answers_ends_the_run_and_is_no_contexts_fault(tmp_path):
    work, log = tmp_path / "w", tmp_path / "log"
    with pytest.raises(NoAnswer, match=r"^seed 1: expected another"):
        score(work, log, CELLS, scorer=Refuses(log, 1, error=NoAnswer))
    status = lines(work)
    assert status[0] == "1 done, 0 running, 0 failed, 3 left"
    assert status[1].startswith("time left: about 0:00:0") and status[1].endswith(" with 1 worker")


def test_who_scores_what_since_when(tmp_path):
    work, log, seen = tmp_path / "w", tmp_path / "log", []

    class Watched(FakeScorer):
        def score(self, inputs, labels, **options):
            seen.append(lines(work))
            return super().score(inputs, labels, **options)

    score(work, log, CELLS[:2], scorer=Watched(log))
    first, second = seen
    assert first[0] == "0 done, 1 running, 0 failed, 1 left"
    assert first[1].startswith(f"running: fake, seed 0, 1 shots: 0 of {ROWS} rows, by ")
    assert ", process " in first[1] and ", since 20" in first[1] and first[1].endswith("+00:00")
    assert first[2] == "time left: not known before a context is finished"
    assert second[0] == "1 done, 1 running, 0 failed, 0 left" and "with 1 worker" in second[2]


def test_what_a_plan_asks_for_that_a_table_lacks_is_left(tmp_path):
    score(tmp_path / "w", tmp_path / "log", CELLS[:1])
    store = Store(tmp_path / "w")
    (planned,) = store.progress.read_plans(store.progress.plan_names()).values()
    assert planned.rows == ROWS
    more = Cell("fake", 0, prompt=Settings.of(template="pmi").prompt)
    scorer = Refuses(tmp_path / "log", 0, error=NoAnswer)
    with pytest.raises(NoAnswer):
        score(tmp_path / "w", tmp_path / "log", [more], scorer=scorer)
    name = scoring.plan_name(Settings(), [more])
    assert next(read_status(store, name).lines()) == "0 done, 0 running, 0 failed, 1 left"


def test_a_later_plan_of_a_model_replaces_an_earlier_one(tmp_path, refuses):
    work, log = tmp_path / "w", tmp_path / "log"
    with pytest.raises(NoAnswer):  # Seed 0 is stored.
        score(work, log, CELLS[:3], scorer=Refuses(log, 1, error=NoAnswer))
    assert lines(work)[0] == "1 done, 0 running, 0 failed, 2 left"
    assert score(work, log, CELLS[3:]).scored == ROWS
    assert lines(work) == ["2 done, 0 running, 0 failed, 0 left"]
    # A failure of the earlier plan does not concern the later one.
    refuses(score, work, log, CELLS[1:2], scorer=Refuses(log, 1))
    assert lines(work)[0] == "2 done, 0 running, 1 failed, 0 left"
    assert score(work, log, CELLS[3:]).scored == 0
    assert lines(work) == ["2 done, 0 running, 0 failed, 0 left"]
    # The plan of another model stays, and an earlier plan is read by its name.
    other = Refuses(log, 0, error=NoAnswer)
    other.identity = {"kind": "causal_lm", "version": "other"}
    with pytest.raises(NoAnswer):
        scoring.run_scoring(Settings.of(model="other"), CELLS, work, scorer=other)
    score(work, log, CELLS[3:])
    assert lines(work)[0] == "2 done, 0 running, 0 failed, 4 left"
    earlier = read_status(Store(work), scoring.plan_name(Settings(), CELLS[:3]))
    assert next(earlier.lines()) == "1 done, 0 running, 1 failed, 1 left"


def test_a_workdir_in_which_nothing_was_planned(tmp_path, program):
    Store(tmp_path, create=True)
    stderr = program("status", f"--workdir={tmp_path}", code=2).stderr
    assert "list of contexts of a run; got none: run batch-calibration sc" in stderr
    config = "--config=configs/mini.py:smoke"
    stderr = program("status", f"--workdir={tmp_path}", config, code=2).stderr
    assert "got none of this config: run batch-calibration score first" in stderr


def test_a_claim_of_another_kind_is_no_heartbeat(tmp_path):
    """Torn while it is rewritten, or of a process that has ended."""
    with Claims(tmp_path).take("a") as claim:
        claim._path.write_text('{"context": "a", ')
        assert not Claims(tmp_path).heartbeats() and Claims(tmp_path).take("a") is None


def table(score):
    rows = make_block([[score, -2.0], [-3.0, -1.0]], [0, 1])
    return ScoreTable({"task": "rte", "seed": 2, "model": "m"}, ("a", "b"), {"test": rows})


@pytest.mark.parametrize("when", [(calibration, "run_calibration"), (stores, "write_whole")])
def test_scores_that_change_while_they_are_calibrated_have_no_record(tmp_path, monkeypatch, when):
    store = Store(tmp_path, create=True)
    store.put(table(-1.0))

    def change(*_):
        store.put(table(-1.5))

    module, name = when
    plain = getattr(module, name)
    monkeypatch.setattr(module, name, lambda *a, **k: change() or plain(*a, **k))
    report = calibrate_store(store, ["icl"])
    assert not report.records and not list((tmp_path / "records").glob("*"))
    said = "1 score table changed during calibration, so no record was kept: calibrate again"
    assert report.notes[0] == said
    monkeypatch.undo()
    assert len(calibrate_store(store, ["icl"]).records) == 1 and not store.unmatched()
