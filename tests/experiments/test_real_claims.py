"""The paper's claims on real models: each difference by hand, and the parts of a prompt."""

import numpy as np
import pytest
from making import make_record
from scipy.stats import ttest_1samp

from batch_calibration.reporting.frame import Frame
from batch_calibration.scores import ScoreTable, make_block
from batch_calibration.studies.records import ScorerInfo
from experiments.evidence import claims

ACCURACY = {"icl": 0.5, "cc": 0.55, "dc": 0.6, "pc": 0.65, "bc": 0.7}
MORE = {"sst2": 0.0, "rte": 0.1, "cb": -0.6}
"""Task -> change of the accuracy of BC."""


class Scores:
    """A store with one table, in which a bias of the first label hides 60 % of right answers."""

    def table_of(self, record):
        margins = np.where(np.arange(100) % 5 < 3, -1.0, 3.0)[:, None] * [0.0, 1.0]
        gold = np.where(np.arange(100) % 5 < 3, 0, 1)
        return ScoreTable({"task": "t"}, ("no", "yes"), {"test": make_block(margins, gold)})


def records(model="m", shots=claims.SHOTS, draws=3, tasks=MORE):
    made = []
    for task in tasks:
        for number in shots:
            for seed in range(draws if number else 1):
                methods = dict(ACCURACY)
                for place, name in enumerate(methods):  # ICL varies by 10 points, BC by 2
                    methods[name] += (seed - 1) * (0.10 - 0.02 * place) * bool(number)
                methods["bc"] += MORE[task]
                context = {"model": model, "shots": number, "seed": seed}
                made.append(make_record(task, methods, rows=100, context=context))
    return made


def test_each_claim_is_a_mean_over_tasks_with_the_interval_of_student():
    models = claims.measure(Frame(records()), Scores())
    cells = claims.claim_cells(models)
    assert cells[0] == ["claim", "difference in points", "m", "tasks that agree"]
    by_claim = {row[0]: row[2:] for row in cells[1:]}
    gains = 100 * (0.2 + np.array([*MORE.values()]))
    low, high = ttest_1samp(gains, 0).confidence_interval()
    said = f"{gains.mean():+.1f} [{low:+.1f}, {high:+.1f}]"
    assert by_claim["BC is better than ICL"] == [said, "2 of 3"]
    assert by_claim["BC is better than PC"][0].startswith("-11.7 [")
    assert by_claim["accuracy varies less over draws"] == ["-8.0 [-8.0, -8.0]", "3 of 3"]
    assert by_claim["BC helps without demonstrations"] == [said, "2 of 3"]
    # With the true shares the scores of `Scores` are all right.
    assert by_claim["bound: BC with the true label shares"] == ["+50.0 [+50.0, +50.0]", "3 of 3"]


def test_the_mean_over_models_needs_three():
    for names, columns in (("ab", 6), ("abc", 9)):
        made = [record for name in names for record in records(name)]
        cells = claims.claim_cells(claims.measure(Frame(made), Scores()))
        assert set(map(len, cells)) == {columns}
        assert (cells[0][-1] == "mean over models") == (len(names) == 3)


def test_losses_are_named():
    models = claims.measure(Frame(records(tasks=("rte", "cb"))), Scores())
    (sentence,) = claims.findings(models)
    assert sentence.endswith("gains beyond noise: RTE; losses beyond noise: CB; lower on CB -40.0.")
    rows = claims.task_cells(models, ("icl", "bc"))
    assert [row[:4] for row in rows[1:]] == [
        ["CB", "100", "50 %", "m"],
        ["RTE", "100", "50 %", "m"],
    ]
    assert rows[1][6:8] == ["50.0 ± 10.0", "10.0 ± 2.0"]  # one shot, icl and bc
    assert len(claims.draw(models).axes) == 1


def test_a_study_without_all_shots_is_a_sentence(refuses):
    for made in (records(shots=(0, 1)), records(draws=1)):
        error = refuses(claims.measure, Frame(made), Scores())
        assert error.where == "m on sst2" and "configs/real_paper.py" in error.remedy


def test_runs_that_differ_otherwise_are_not_pooled(refuses):
    other = {"model": "m", "shots": 1, "seed": 0}
    scorer = ScorerInfo("causal_lm", "1" * 16)
    for more, factor in (({"limit": 16}, "limit"), ({"scorer": scorer}, "scorer")):
        made = [*records(), make_record("sst2", ACCURACY, rows=100, context=other | more)]
        error = refuses(claims.measure, Frame(made), Scores())
        assert error.where == "m" and error.got == f"several levels of {factor}"
        assert error.remedy == "score each in a workdir of its own"


def test_the_default_template_is_no_further_prompt():
    made = records(tasks=("sst2",))
    for number in range(1, 5):
        context = {"model": "m", "shots": 1, "options": {"template": str(number)}}
        made.append(make_record("sst2", ACCURACY | {"bc": 0.6 + number / 100}, context=context))
    frame = Frame(made)
    (row,) = claims.prompt_cells(frame)[1:]
    assert row[:6] == ["template", "SST-2", "m", "4", "50.0 ± 0.0", "62.5 ± 1.3"]
    # The draws are read without the varied prompts.
    assert len(claims.measure(frame, Scores())["m"]["SST-2"].accuracy[1, "bc"]) == 3


@pytest.mark.slow
def test_the_program_prints_and_writes_each_table(tmp_path, program):
    workdir, flags = f"--workdir={tmp_path / 'W'}", ("--tasks=rte", "--limit=30", "--seeds=2")
    config = ("--config=configs/real_paper.py", "--model=mini", "--data=mini", "--dtype=auto")
    program("score", *config, *flags, workdir)
    program("calibrate", workdir)
    page = tmp_path / "page.md"
    marks = [
        f"<!-- evidence claims {part}: {end} -->"
        for part in claims.page.PARTS
        for end in ("begin", "end")
    ]
    page.write_text("\n".join(marks))
    stdout = program("evidence.claims", workdir, f"--page={page}").stdout
    for heading in list(claims.HEADINGS.values())[:2]:
        assert heading in stdout and f"### {heading}" in page.read_text()
    assert (tmp_path / "evidence" / "real_paper_methods.csv").is_file()
    assert (tmp_path / "figures" / "real_paper_gains.png").is_file()
