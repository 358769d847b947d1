"""The words of a study: its headline, its answers, its outliers; learned tasks; figures."""

from dataclasses import replace

import numpy as np
import pytest
from making import make_curve, make_record

from batch_calibration.reporting import cells as forms
from batch_calibration.reporting import curves, tables, words, writing
from batch_calibration.reporting.figures import intervals
from batch_calibration.reporting.frame import Frame, learned_tasks, sort_records
from batch_calibration.reporting.items import Results, Table
from batch_calibration.reporting.page import Section, make_page
from batch_calibration.scores import ScoreTable, make_block
from batch_calibration.scoring.tasks import TASKS
from batch_calibration.studies import run_calibration
from experiments.evidence import paper_figures

SUITE = list(TASKS)[:13]


def record(task, icl, bc, seed=0, shots=1, labels=2, options=None, **methods):
    """A record of one context; `methods` are the accuracies of further methods."""
    fields = {"rows": 500, "strength": 1.0, "labels": [f"label{i}" for i in range(labels)]}
    fields["context"] = {"seed": seed, "shots": shots, "options": options or {}}
    fields["curve"] = make_curve(0.01 * (i % 7) + icl for i in range(101))
    return make_record(task, {"icl": icl, "bc": bc, **methods}, **fields)


def study(*records):
    return Frame(sort_records(records))


@pytest.mark.parametrize(
    ("icl", "bc", "labels", "is_learned"),
    [
        (0.6, 0.2, 2, True),
        (0.2, 0.6, 2, True),
        (0.599, 0.598, 2, False),
        (0.44, 0.2, 3, True),
        (0.43, 0.2, 3, False),
        (0.2, 0.1, 10, True),
    ],
)
def test_a_task_is_learned_ten_points_above_chance(icl, bc, labels, is_learned):
    assert learned_tasks(study(record("cb", icl, bc, labels=labels))) == ["cb"] * is_learned


def test_the_mean_over_seeds_decides_and_of_it_the_better_method():
    seeds = [record("rte", 0.9, 0.5), record("rte", 0.2, 0.5, seed=1)]
    assert learned_tasks(study(*seeds)) == []
    # 60 % on average, but draws so far apart do not show the accuracy of the next.
    assert learned_tasks(study(*seeds, record("rte", 0.7, 0.5, seed=2))) == []
    near = [record("rte", icl, 0.5, seed) for seed, icl in enumerate((0.7, 0.68, 0.72))]
    assert learned_tasks(study(*near)) == ["rte"]


def test_the_mark_and_its_meaning_are_in_every_kind_of_table():
    group = study(record("sst2", 0.8, 0.85), record("rte", 0.5, 0.55))
    cells, note = tables.by_task(group), tables.task_note(group)
    names = "/".join(row[0] for row in cells)
    assert names == "task/SST-2 ✓/RTE/average/gain over icl/wins, ties, losses"
    assert note.startswith("✓ learned: ") and "10 points" in note
    assert forms.markdown(cells).startswith("| task | rows | icl | bc |")
    latex = forms.latex(cells, note)
    assert r"SST-2 $\checkmark$ &" in latex and r"\footnotesize $\checkmark$ learned" in latex
    assert latex.index(r"\end{tabular}") < latex.index("learned")
    page = make_page([Section("here", [Table("here", "m", "Methods", cells, note)])])
    assert '<th scope="row">SST-2 ✓</th>' in page and f"</table></div>\n<p>{note}</p>" in page
    lone = study(make_record("sst2", {"icl": 0.9}))
    assert tables.by_task(lone)[1][0] == "SST-2" and tables.task_note(lone) == ""


SCORES = np.array(100 * [[-0.2, -3.0], [-0.6, -1.5]], np.float32)
GOLD = np.array(100 * [0, 1])


def card_of(*contexts):
    """The card of contexts (task, seed, scores, right labels), and the methods on them."""
    found = []
    for task, seed, scores, gold in contexts:
        about = {"task": task, "seed": seed, "shots": 1, "model": "m"}
        block = make_block(scores, gold, row_ids=[f"{task}/{i}" for i in range(len(gold))])
        found.append(ScoreTable(about, ("no", "yes"), {"test": block}))
    by_id = {table.id: table for table in found}
    records = run_calibration(found, ["icl", "bc", "ensemble"])
    results = Results(records, lambda one: by_id[one.id])
    verdicts = writing.judge_records(results)
    (card,) = writing.make_cards(results, verdicts).values()
    return card


def test_the_headline_is_about_the_contexts_of_the_table_of_methods():
    noise = np.random.default_rng(0).normal(0, 1.5, (4, *SCORES.shape)).astype(np.float32)
    cells = [
        (task, seed, SCORES + noise[seed], GOLD) for task in ("rte", "sst2") for seed in (0, 1)
    ]
    card = card_of(*cells, ("sst2", 2, SCORES, GOLD))
    gain = card.frame.board.gain("bc")
    before = card.frame.board.average("icl")
    assert f"from {100 * before:.1f} to {100 * (before + gain.value):.1f} %" in words.headline(card)
    rows = {row[0]: row for row in tables.overview(card.frame.board)[1:]}
    assert f"({gain.points})" in words.headline(card) and rows["bc"][2].startswith(gain.points)
    # The same numbers stand beside the advised correction and the ensemble.
    _, *answers = words.answer_cells(card)
    assert answers[0][1] == f"{100 * before:.1f}" and answers[1][2] == rows["bc"][2]
    assert answers[-1][0] == "one answer from all prompts (ensemble)"
    assert answers[-1][2] == rows["ensemble"][2]
    assert sum(isinstance(row[1], forms.Best) for row in answers) >= 1
    assert len(card.verdicts) == 5 and card.verdicts[0].name == "SST-2, seed 0"


def test_the_ensemble_is_an_answer_of_several_prompts_only():
    one = "rte", 0, SCORES, GOLD
    for card in (card_of(one), card_of(one, ("rte", 1, SCORES[:100], GOLD[:100]))):
        assert not any("ensemble" in row[0] for row in words.answer_cells(card))
    assert "ensemble" in words.answer_cells(card_of(one, ("rte", 1, SCORES, GOLD)))[-1][0]


def draws(*accuracies, task="boolq"):
    return [record(task, icl, 0.8, seed) for seed, icl in enumerate(accuracies)]


def test_a_draw_far_from_its_kin_is_named():
    sentence = words.outliers(
        study(*draws(0.82, 0.2, 0.81, 0.83, 0.82), *draws(0.5, 0.5, task="cb"))
    )
    assert sentence == (
        "Far from their kin, without a correction: BoolQ, seed 1 (20.0 %, its other 4 draws 81.0 "
        "to 83.0 %)."
    )
    for spread in ((0.5, 0.6, 0.7, 0.8, 0.9), (0.82, 0.2, 0.81), (0.8, 0.8, 0.8, 0.71)):
        assert words.outliers(study(*draws(*spread))) == ""
    # An accuracy of another task or template is no kin.
    mixed = [*draws(0.8, 0.81, 0.8), *draws(0.2, task="cb")]
    assert words.outliers(study(*mixed)) == ""
    many = [one for task in SUITE[:5] for one in draws(0.8, 0.8, 0.8, 0.8, 0.3, task=task)]
    assert "2 more" in words.outliers(study(*many))
    templates = [replace(one, context=replace(one.context, seed=0, options={"template": i}))
                 for i, one in enumerate(draws(0.82, 0.2, 0.81, 0.83, 0.82))]  # fmt: skip
    assert words.outliers(study(*templates)) == ""


def test_a_lone_point_is_no_curve_and_tasks_may_have_own_shots():
    wide = [record(task, 0.7, 0.8, bcl=0.9) for task in SUITE]
    few = [record("sst2", 0.6, 0.7, shots=shots) for shots in (0, 2)]
    curve = curves.by_shots("m", study(*wide, *few))
    assert list(curve.tasks) == ["sst2"] and sorted(curve.tasks["sst2"]) == ["bc", "icl"]
    assert sorted(curve.tasks["sst2"]["bc"]) == [0, 1, 2]
    assert curves.by_shots("m", study(*wide, record("mr", 0.6, 0.7, shots=0))) is None


def many():
    records = []
    for i, task in enumerate(SUITE):
        for seed in (0, 1):
            bc = 0.7 + 0.01 * i
            records.append(record(task, 0.7 + 0.01 * seed, bc, seed, pc=0.6, bcl=bc + 0.1))
    return study(*records)


def test_figures_of_many_tasks_have_rows_of_panels_or_a_line_a_task():
    drawn = paper_figures.draw_strength(many()).figure.axes
    assert sum(axes.axison for axes in drawn) == 13 + 1 and len(drawn) == 4 * 4
    panels = intervals.draw_gains(many(), ["pc", "bc"]).figure.axes
    assert [axes.get_title(loc="left") for axes in panels] == ["pc", "bc"]
    names = [*(TASKS[task].title for task in SUITE), "average"]
    assert [text.get_text() for text in panels[0].get_yticklabels()] == names
    # One range for all, with 0 in its middle.
    (limits,) = {axes.get_xlim() for axes in panels}
    assert limits[0] == -limits[1]
