"""Summaries of many tasks: the mark of a learned task, the paragraph, lone studies."""

import textwrap
from itertools import product

import pytest
from making import make_curve, make_record

from batch_calibration.reporting import cells as forms
from batch_calibration.reporting import curves, prompts, tables, words
from batch_calibration.reporting.cells import Best
from batch_calibration.reporting.figures import intervals
from batch_calibration.reporting.figures import studies as study_figures
from batch_calibration.reporting.frame import by_setting, learned_tasks
from batch_calibration.reporting.items import Results, Table
from batch_calibration.reporting.page import Section, make_page
from batch_calibration.scoring.tasks import TASKS

SUITE = list(TASKS)[:13]


def record(task, icl, bc, seed=0, shots=1, labels=2, template="", options=None, **methods):
    """A record of one context; `others` are the accuracies of further methods."""
    fields = {"rows": 500, "strength": 1.0, "labels": [f"label{i}" for i in range(labels)]}
    fields["context"] = {"seed": seed, "shots": shots, "template": template}
    fields["context"]["options"] = options or {}
    fields["bias"] = {"bc": tuple(0.5 * (i + seed) for i in range(labels))}
    fields["curve"] = make_curve(0.01 * (i % 7) + icl for i in range(101))
    return make_record(task, {"icl": icl, "bc": bc, **methods}, **fields)


def study(*records):
    (group,) = by_setting(records)
    return group


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
    # 60 % on average, but draws so far apart say little of the next.
    assert learned_tasks(study(*seeds, record("rte", 0.7, 0.5, seed=2))) == []
    near = [record("rte", icl, 0.5, seed) for seed, icl in enumerate((0.7, 0.68, 0.72))]
    assert learned_tasks(study(*near)) == ["rte"]


def test_the_mark_and_its_meaning_are_in_every_kind_of_table(tmp_path):
    group = study(record("sst2", 0.8, 0.85), record("rte", 0.5, 0.55))
    cells, note = tables.accuracy_cells(group, ["icl", "bc"]), tables.accuracy_note(group, [])
    names = "/".join(row[0] for row in cells)
    assert names == "task/SST-2 ✓/RTE/average/gain over icl/wins, ties, losses"
    assert note.startswith("✓ learned (1 of 2)") and "10 points" in note
    assert forms.markdown(cells, note).endswith(f"\n\n{note}\n")
    latex = forms.latex(cells, note)
    assert r"SST-2 $\checkmark$ &" in latex and r"\footnotesize $\checkmark$ learned" in latex
    assert r"100 \% / number" in latex and latex.index(r"\end{tabular}") < latex.index("learned")
    page = make_page([Section("here", "said", [Table("here", "m", "Methods", cells, note)])])
    assert '<th scope="row">SST-2 ✓</th>' in page and f"</table></div>\n<p>{note}</p>" in page


def test_nothing_is_marked_where_icl_or_bc_was_not_run():
    g = study(make_record("sst2", {"icl": 0.9}))
    assert tables.accuracy_cells(g, ["icl"])[1][0] == "SST-2" and tables.accuracy_note(g, []) == ""
    assert "nothing to compare" in words.setting_paragraph(g)


def many(icl=0.7, gain=0.02):
    """Thirteen tasks, two seeds; the first loses 3 points, the last is at chance."""
    records = []
    for i, task in enumerate(SUITE):
        base = 0.5 if i == 12 else icl
        bc = base + (-0.03 if i == 0 else gain * (i + 1) / 13)
        for seed in (0, 1):
            others = {"cc": 0.4, "dc": 0.45, "pc": 0.9 * icl, "bcl": bc + 0.1}
            records.append(record(task, base + 0.01 * seed, bc, seed, **others))
    return study(*records)


def test_the_paragraph_of_many_tasks():
    text = words.setting_paragraph(many())
    assert "on average over 13 tasks: +0.3 points [" in text and "noise where it holds 0" in text
    assert "BC gains on 10 of 13 tasks, on none of them by more than noise, most on " in text
    assert "most on ANLI-R3 (+1.5); it loses on SST-2 (-3.5), MNLI (-0.1) and QNLI" in text
    assert "on none of them by more than noise: calibration does not help" in text
    assert "most frequent label's share): ANLI-R3; over the other 12 ICL" in text
    assert "ICL has 70.5 % and BC 70.7 %." in text
    assert "moves by 0.7 points" in text and "by 0.0 with it" in text


@pytest.mark.parametrize("loss", [-0.022, -0.302])
def test_every_loss_is_named_and_the_paragraph_stays_short(loss):
    draws = product(SUITE, (0, 1))
    group = study(*(record(task, 0.5, 0.5 + loss, i, cc=0.4, dc=0.4) for task, i in draws))
    paragraph = words.setting_paragraph(group)
    assert paragraph.count(f"({100 * loss:+.1f})") == 13
    assert "BC gains on 0 of 13 tasks; it loses on" in paragraph
    assert "(-2.2), on 13 of them by more than noise" in paragraph or loss < -0.3
    assert "No task is learned" in paragraph
    assert len(textwrap.wrap(paragraph, 100)) <= 12


def test_the_paragraph_of_one_task():
    for bc, said in (
        (0.75, "BC gains, by more than noise, on SST-2 (+5.0); it loses on none."),
        (0.706, "BC gains, by no more than noise, on SST-2 (+0.6)"),
        (0.6, "BC does not gain; it loses on SST-2 (-10.0), by more than noise: calib"),
        (0.7, "BC does not gain; it loses on none."),
    ):
        paragraph = words.setting_paragraph(study(record("sst2", 0.7, bc)))
        assert said in paragraph and "learned" not in paragraph


def test_a_point_of_a_curve_is_not_shown_apart_and_a_lone_point_is_no_curve():
    wide = [record(task, 0.7, 0.8, bcl=0.9) for task in SUITE]
    few = [record("sst2", 0.6, 0.7, shots=shots) for shots in (0, 2)]
    settings = by_setting([*wide, *few])
    assert [section.setting.shots for section in Results([*wide, *few]).sections] == [1]
    (curve,) = curves.by_shots(settings)
    assert list(curve.tasks) == ["sst2"] and sorted(curve.tasks["sst2"]) == ["bc", "icl"]
    assert sorted(curve.tasks["sst2"]["bc"]) == [0, 1, 2]
    # Equally wide settings are all shown; tasks of different settings make no curve.
    assert len(Results([*few, record("sst2", 0.7, 0.8)]).sections) == 3
    assert curves.by_shots(by_setting([*wide, record("mr", 0.6, 0.7, shots=0)])) == []


def test_an_axis_ends_with_its_spread():
    records = []
    for i, accuracy in enumerate((0.5, 0.6, 0.52)):
        records.append(record("rte", accuracy, 0.7, options={"template": str(i)}))
    (axis,) = prompts.find_axes(records)
    cells = prompts.prompt_cells(axis)
    assert cells[-2] == ["all", "500", "54.0 ± 5.3", "70.0 ± 0.0"]
    assert cells[-1] == ["max - min", "", "10.0", "0.0"]
    assert isinstance(cells[-2][-1], Best) and not isinstance(cells[-2][-2], Best)
    latex = forms.latex(cells)
    assert "\\midrule\nall & 500" in latex and latex.count("midrule") == 2


def test_figures_of_many_tasks_have_rows_of_panels_or_a_line_a_task():
    drawn = study_figures.draw_strength(many()).figure.axes
    assert sum(axes.axison for axes in drawn) == 13 + 1 and len(drawn) == 4 * 4
    panels = intervals.draw_gains(many(), ["pc", "bc"]).figure.axes
    assert [axes.get_title(loc="left") for axes in panels] == ["pc", "bc"]
    names = [*(TASKS[task].title for task in SUITE), "average"]
    assert [text.get_text() for text in panels[0].get_yticklabels()] == names
    # One range for all, with 0 in its middle.
    (limits,) = {axes.get_xlim() for axes in panels}
    assert limits[0] == -limits[1]
