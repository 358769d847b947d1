"""Tables are pivots of a frame: against pandas, and laws that hold for any study."""

import random
import re
from dataclasses import replace
from itertools import product

import numpy as np
import pandas as pd
import pytest
from making import make_record
from scipy import stats

from batch_calibration.metrics import OF_GAIN, over_rows, over_tasks
from batch_calibration.metrics.intervals import over_units
from batch_calibration.reporting import tables, writing
from batch_calibration.reporting.cells import Sums, estimate_cell, show_cells
from batch_calibration.reporting.frame import Frame
from batch_calibration.reporting.items import Results
from batch_calibration.reporting.page import table_html
from batch_calibration.studies.records import unpack

METHODS = ("icl", "cc", "bc")
ROWS = 50


def random_record(task, template, seed, rows=ROWS, methods=METHODS, **context):
    """A context in which each method is right at random rows."""
    key = f"{task} {template} {seed} {sorted(context.items())}"
    draw = np.random.default_rng(list(key.encode()))
    right = {method: draw.random(rows) < draw.uniform(0.3, 0.9) for method in methods}
    options = {} if template is None else {"template": template}
    context = {"seed": seed, "options": options, **context}
    return make_record(task, right, rows=rows, context=context)


TASKS = ("sst2", "rte", "mine")
FULL = [random_record(*cell) for cell in product(TASKS, (1, 2, 3), (0, 1))]
# Two of three tasks have one more template; a task has one seed more.
CROSS = [*FULL, *(random_record(task, 4, s) for task in TASKS[:2] for s in (0, 1))]
CROSS += [random_record("mine", t, 2) for t in (1, 2, 3)]


def long_frame(records):
    lines = []
    for record, method in product(records, METHODS):
        options, context = record.context.options, record.context
        line = {"task": context.task, "template": str(options.get("template")), "id": record.id}
        line |= {"model": context.model, "seed": str(context.seed), "method": method}
        line["accuracy"] = 100 * record.methods[method].metrics["accuracy"]
        lines.append(line)
    return pd.DataFrame(lines)


def numbers(cell):
    return [float(number) for number in re.findall(r"[-+]?\d+\.\d+", cell)]


@pytest.mark.parametrize("records", [FULL, CROSS], ids=["full", "cross"])
@pytest.mark.parametrize("names", [["task"], ["template"], ["seed"], ["task", "template"]], ids=str)
def test_a_pivot_is_the_group_by_of_pandas(records, names):
    group = Frame(records)
    if len(names) == 1:
        group = group.matched(names[0]).frame
    of_pandas = long_frame(group.records)
    _, *rows = tables.pivot(group, names, METHODS)
    groups = {key: part for key, part in of_pandas.groupby(names)}
    titles = {"SST-2": "sst2", "RTE": "rte"}
    assert len(rows) == len(groups)
    for row in rows:
        part = groups[tuple(titles.get(cell, cell) for cell in row[: len(names)])]
        count = str(ROWS) if "task" in names else str(part["id"].nunique())
        assert row[len(names)] == count
        for cell, method in zip(row[len(names) + 1 :], METHODS, strict=True):
            own = part[part["method"] == method]
            mean = own.groupby("task")["accuracy"].mean().mean()
            expected = [mean] if len(own) == 1 else [mean, own["accuracy"].std()]
            assert numbers(cell) == pytest.approx(expected, abs=0.0501)


@pytest.mark.parametrize("records", [FULL, CROSS], ids=["full", "cross"])
def test_the_spread_is_the_deviation_along_one_factor_while_the_others_are_held(records):
    group = Frame(records)
    header, *rows = tables.spread(group, METHODS)
    assert header == ["factor", "levels", *METHODS, "bc - icl"]
    assert [row[0] for row in rows] == group.varying == ["task", "template", "seed"]
    for name, levels, *found, _ in rows:
        of_pandas = long_frame(group.matched(name).frame.records)
        assert int(levels) == of_pandas[name].nunique()
        held = [other for other in group.varying if other != name]
        deviations = of_pandas.groupby(["method", *held])["accuracy"].std().dropna()
        expected = deviations.groupby("method").mean()[list(METHODS)]
        assert [float(cell) for cell in found] == pytest.approx(list(expected), abs=0.0501)


def test_the_change_of_the_spread_rests_on_the_same_contexts_as_the_spread():
    # Without demonstrations there is one seed, so that seed 1 has two levels of shots only.
    shots_and_seeds = [(0, 0), (1, 0), (4, 0), (1, 1), (4, 1)]
    records = [
        random_record(task, None, seed, shots=shots)
        for task in ("sst2", "rte")
        for shots, seed in shots_and_seeds
    ]
    header, *rows = tables.spread(Frame(records), METHODS)
    by_factor = {row[0]: dict(zip(header, row, strict=True)) for row in rows}
    row = by_factor["shots"]
    change = float(row["bc - icl"].split(" [")[0])
    assert change == pytest.approx(float(row["bc"]) - float(row["icl"]), abs=0.101)


def test_gains_are_means_over_tasks_of_means_over_contexts():
    seeds = [record for record in FULL if record.context.options["template"] == 1]
    group, by_task = Frame(seeds), []
    for task in group.tasks.values():
        right = {}
        for method in ("icl", "bc"):
            texts = [record.methods[method].right for record in task.records]
            right[method] = np.array([unpack(text, ROWS) for text in texts], float)
        by_task.append(over_rows(right["bc"] - right["icl"], OF_GAIN))
    _, *rows, average, wins = tables.gains(group)
    shown = [row[-1].rstrip("*") for row in rows]
    assert shown == list(map(estimate_cell, by_task))
    assert average[-1].rstrip("*") == estimate_cell(over_tasks(by_task))
    signs = [int(gain.low > 0) - int(gain.high < 0) for gain in by_task]
    assert wins[-1] == f"{signs.count(1)}, {signs.count(0)}, {signs.count(-1)}"
    assert [row[-1].endswith("*") for row in rows] == [sign != 0 for sign in signs]
    (bc,) = (row for row in tables.overview(group) if row[0] == "bc")
    assert bc[2] == average[-1]
    # The same gain ends the table of tasks.
    assert [row[-1] for row in tables.by_task(group)[-2:]] == [average[-1], wins[-1]]


def test_with_three_models_the_models_are_the_units():
    values = [0.03, -0.01, 0.05, 0.02]
    low, high = stats.t.interval(0.95, 3, loc=np.mean(values), scale=stats.sem(values))
    assert tuple(over_units(values)) == pytest.approx((np.mean(values), low, high))
    assert over_units([0.5]).beyond_noise == 0
    models = [random_record(task, None, 0, model=m) for task in TASKS for m in ("a", "b", "c")]
    group = Frame(models)
    *_, last = tables.by_factor(group, "model", ["icl", "bc"])
    gains = [group.where(model=model).gain("bc").value for model in "abc"]
    low, high = stats.t.interval(0.95, 2, loc=np.mean(gains), scale=stats.sem(gains))
    expected = [100 * np.mean(gains), 100 * low, 100 * high]
    assert last[0] == "mean over models"
    assert numbers(last[-1]) == pytest.approx(expected, abs=0.0501)
    two = tables.by_factor(group.where(model="a"), "model", ["icl", "bc"])
    assert not any(isinstance(row, Sums) for row in two)


def test_models_stand_side_by_side_over_the_tasks_that_both_have():
    records = [random_record(task, None, 0, model="big") for task in TASKS]
    records += [random_record(task, None, 0, model="small") for task in TASKS[:2]]
    header, *rows = tables.side_by_side(Frame(records), ["icl", "bc"])
    assert header == ["task", "rows", "big icl", "big bc", "small icl", "small bc"]
    assert [row[0] for row in rows] == ["SST-2", "RTE", "average"]
    of_pandas = long_frame(records)
    shared = of_pandas[of_pandas["task"] != "mine"]
    means = shared.groupby(["model", "method"])["accuracy"].mean()
    expected = [means[model, method] for model in ("big", "small") for method in ("icl", "bc")]
    assert [float(cell) for cell in rows[-1][2:]] == pytest.approx(expected, abs=0.0501)


def shown(records):
    """Everything that the tables of a study show."""
    made = writing.make_tables(Results(records))
    return [(table.slug, table.title, table.cells, table.note, table.keys) for table in made]


SEVERAL = [
    *CROSS,
    *(random_record("cb", 1, seed, rows=rows) for seed, rows in ((0, 60), (1, 250))),
    *(random_record(task, 1, 0, model="other") for task in TASKS),
]


def test_the_order_of_the_records_changes_no_table():
    expected = shown(SEVERAL)
    for seed in range(5):
        mixed = random.Random(seed).sample(SEVERAL, len(SEVERAL))
        assert shown(mixed) == expected


@pytest.mark.parametrize(("fact", "old", "new"), [("task", "mine", "mint"), ("model", "m", "mm")])
def test_another_name_changes_names_only(fact, old, new):
    renamed = []
    for record in SEVERAL:
        is_named = getattr(record.context, fact) == old
        context = replace(record.context, **{fact: new}) if is_named else record.context
        renamed.append(replace(record, context=context))
    plain = re.compile(rf"\b{old}\b")
    for before, after in zip(shown(SEVERAL), shown(renamed), strict=True):
        assert plain.sub(new, before[1]) == after[1]
        for row, other in zip(before[2], after[2], strict=True):
            assert [plain.sub(new, cell) for cell in row] == other


def test_keys_stand_in_every_part_of_a_wide_table_and_no_value_is_lost(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "60")
    for slug, title, cells, _, keys in shown(SEVERAL):
        show_cells(title, cells, keys=keys)
        out = re.sub(r"(?m)^.*, part \d+ of \d+\n", "", capsys.readouterr().out)
        parts = out.split("\n\n")[1:]
        names = ["  ".join(row[:keys]).split() for row in cells]
        for part in parts:
            lines = part.strip("\n").splitlines()
            for words, line in zip(names, [lines[0], *lines[2:]], strict=True):
                assert line.split()[: len(words)] == words, slug
        headers = " ".join(part.strip("\n").splitlines()[0] for part in parts)
        assert set(" ".join(cells[0]).split()) <= set(headers.split())
        for cell in {cell for row in cells for cell in row}:
            assert cell in out


def test_no_column_of_a_page_is_hidden():
    for table in writing.make_tables(Results(SEVERAL)):
        text = table_html(table)
        assert "hidden" not in text
        assert text.count("<td") + text.count("<th ") == sum(map(len, table.cells))


def test_a_method_that_a_context_lacks_has_a_dash():
    records = [random_record("sst2", None, seed) for seed in range(2)]
    records.append(random_record("rte", None, 0, methods=(*METHODS, "bcl")))
    records.append(random_record("cb", None, 0, methods=(*METHODS, "bcl")))
    (by_task,) = (t for t in writing.make_tables(Results(records)) if t.slug.endswith("by-task"))
    column = by_task.cells[0].index("bcl")
    found = {row[0].split(" ✓")[0]: row[column] for row in by_task.cells[1:]}
    assert found["SST-2"] == "-" and found["average"] == "-" and found["gain over icl"] == ""
    assert numbers(found["RTE"]) and numbers(found["CB"])
    assert not any(row[0] == "bcl" for row in tables.overview(Frame(records)))


def test_contexts_with_unlike_rows_average_and_show_their_range():
    records = [random_record("cb", None, 0, rows=60), random_record("cb", None, 1, rows=250)]
    cells = tables.by_task(Frame([*records, random_record("rte", None, 0)]))
    (of_cb,) = (row for row in cells if row[0].startswith("CB"))
    assert of_cb[1] == "60 to 250"
    values = [100 * record.methods["icl"].metrics["accuracy"] for record in records]
    expected = [np.mean(values), np.std(values, ddof=1)]
    assert numbers(of_cb[2]) == pytest.approx(expected, abs=0.0501)


def test_an_unchanged_study_has_gains_of_zero_without_an_interval():
    records = [random_record(*cell) for cell in product(TASKS, (1, 2, 3), (0, 1))]
    same = []
    for record, model in product(records, "abc"):
        methods = {**record.methods, "bc": record.methods["icl"]}
        context = replace(record.context, model=model)
        same.append(replace(record, context=context, methods=methods))
    for slug, _, cells, _, _ in shown(same):
        header = cells[0]
        for row in cells[1:]:
            for name, cell in zip(header, row, strict=True):
                is_gain = name in ("gain over icl", "gain of bc", "bc - icl")
                is_gain = is_gain or (row[0] == "gain over icl" and name == "bc")
                is_gain = is_gain or (slug.endswith("-gains") and name == "bc" and "," not in cell)
                if is_gain and row[0] not in ("cc", "icl"):
                    # The spread over two seeds has no interval.
                    assert cell in ("0.0", "", "-"), (slug, row)


def test_a_single_context_has_no_average_of_one():
    made = shown([random_record("sst2", None, 0)])
    assert [slug for slug, *_ in made] == ["m-methods"]
    header, *rows = made[0][2]
    assert header == ["method", "accuracy", "gain over icl"] and len(rows) == 3
    # Without icl, the accuracies are still shown.
    ((slug, _, cells, *_),) = shown([make_record("rte", {"bc": 0.5})])
    assert slug == "m-by-task" and cells == [["task", "rows", "bc"], ["RTE", "277", "50.0"]]
    # Several contexts of one task have no table of tasks.
    of_task = shown([random_record("sst2", None, seed) for seed in range(3)])
    assert [slug for slug, *_ in of_task] == ["m-methods", "m-by-seed", "m-spread"]
    assert not any(row[0] == "average" for _, _, cells, *_ in of_task for row in cells)


def test_a_table_says_which_contexts_it_leaves_out():
    notes = {slug: note for slug, _, _, note, _ in shown(CROSS)}
    note = notes["m-by-template"]
    assert "16 of 25 contexts" in note and "9 are left out" in note
    assert "21 of 25 contexts" in notes["m-by-task"] and "21 of" not in notes["m-gains"]
    apart = [random_record(task, t, 0) for t, task in enumerate(("sst2", "sst2", "rte", "rte"))]
    (note,) = (note for slug, _, _, note, _ in shown(apart) if slug.endswith("by-task"))
    assert "Not matched" in note
