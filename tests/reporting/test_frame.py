"""A frame: factors name contexts, and contexts are matched before their levels are compared."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from making import make_record
from scipy.stats import t

from batch_calibration.metrics import OF_GAIN, over_rows
from batch_calibration.reporting.frame import Frame, factors_of, gain, split_studies
from batch_calibration.studies.records import ScorerInfo


def record(task="rte", template=None, icl=0.5, bc=0.6, rows=100, **context):
    """A context; `template` is an option, any other fact is of the context."""
    options = {} if template is None else {"template": template}
    options |= context.pop("options", {})
    context = {"options": options, **context}
    return make_record(task, {"icl": icl, "bc": bc}, rows=rows, context=context)


def grid(**levels):
    """Contexts of all combinations."""
    combinations = product(*levels.values())
    return [record(**dict(zip(levels, combination, strict=True))) for combination in combinations]


def names(records):
    return Frame(records).names


def test_contexts_are_named_by_the_factors_in_which_they_differ():
    templates = grid(task=["sst2", "rte"], template=[1, 2], shots=[0, 4])
    assert Frame(templates).varying == ["task", "template", "shots"]
    assert names(templates)[:2] == ["SST-2, template 1, 0-shot", "SST-2, template 1, 4-shot"]
    assert names(grid(model=["a", "b"])) == ["a", "b"]
    assert names(grid(template=[1], seed=[0, 1])) == ["seed 0", "seed 1"]
    # A template that is not mentioned is the task's own.
    assert names([record(), record(template=2)]) == ["own template", "template 2"]
    assert Frame(templates).scope == "2 tasks × 2 templates × shots 0, 4"
    assert Frame(templates).heading == "m, validation split"
    assert names([record("sst2")]) == ["m, SST-2, 0-shot, validation split"]


@pytest.mark.parametrize(
    ("fact", "values"),
    [
        ("scorer", (ScorerInfo("causal_lm", "ab" * 8), ScorerInfo("causal_lm", "cd" * 8))),
        ("data", ("one", "other")),
        ("split", ("test", "validation")),
        ("limit", (0, 50)),
        ("options", ({}, {"over_long": "drop_shots"})),
    ],
)
def test_the_circumstances_name_contexts_only_if_nothing_else_does(fact, values):
    (name,) = {fact} - {"options"} or {"over_long"}
    assert Frame(grid(**{fact: values})).varying == [name]
    # Two tasks that were scored under two circumstances are two tasks.
    paired = [record(task, **{fact: value}) for task, value in zip("ab", values, strict=True)]
    assert Frame(paired).varying == ["task"]


def test_a_factor_with_the_partition_of_an_earlier_one_is_left_out():
    """Each template has its verbalizer and its seed: the template names all three."""
    pairs = zip((1, 2, 3), ("a", "b", "c"), strict=True)
    records = [record(template=n, options={"verbalizer": v}, seed=n) for n, v in pairs]
    assert Frame(records).varying == ["template"]
    coarser = [*records, record(template=4, options={"verbalizer": "c"}, seed=3)]
    assert Frame(coarser).varying == ["template", "verbalizer"]


def test_an_option_of_a_block_or_method_that_a_context_lacks_is_no_level():
    records = grid(seed=[0, 1])
    with_block = replace(records[0].context, blocks={"cc": {"cc_texts": ("N/A", "")}})
    changed = scaled(replace(records[0], context=with_block), 2.0)
    assert Frame([replace(records[0], context=with_block), records[1]]).varying == ["seed"]
    # An option that splits the contexts as the seeds do comes before them.
    assert Frame([changed, records[1]]).varying == ["bc scale"]
    # Two levels are a factor. The default is a level, too; without bc there is no level.
    two = [scaled(records[0], 2.0), replace(scaled(records[0], 3.0), id="other")]
    assert Frame(two).varying == ["bc scale"]
    by_default, without = (replace(record(seed=0), id=name) for name in ("default", "without"))
    without.methods.pop("bc")
    assert names([*two, by_default, without])[2:] == ["own bc scale", "bc scale none"]
    assert names([two[0], by_default]) == ["bc scale 2.0", "own bc scale"]
    assert Frame([two[0], replace(without, id=two[0].id)]).varying == []


def scaled(one, scale):
    """The context, with an option of bc."""
    result = replace(one.methods["bc"], options={"scale": scale})
    return replace(one, methods={**one.methods, "bc": result})


def test_a_heading_has_only_levels_that_all_contexts_share():
    apart = Frame([record("sst2", shots=0, limit=50), record("rte", shots=4, split="test")])
    assert apart.varying == ["task"] and apart.heading == "m"
    proxy = Frame([record(split="validation", served="validation_proxy", limit=50)])
    assert proxy.heading == "m, RTE, 0-shot, validation split (validation_proxy), 50 rows"
    explicit = {"options": {"selection": "explicit"}}
    ids = [("sst2/train/0", "sst2/train/1"), ("sst2/train/0", "sst2/train/2")]
    two = [record(demonstrations=rows, **explicit) for rows in ids]
    assert names(two) == ["demonstrations 0 1", "demonstrations 0 2"]
    assert names(grid(seed=[0, 1], demonstrations=ids[:1])) == ["seed 0", "seed 1"]
    assert Frame(grid(seed=[0, 1], template=[2])).options == "In all contexts: template 2."


def test_zero_shots_have_no_seeds_and_unknown_shots_have_a_name():
    four = grid(shots=[4], seed=[0, 1])
    assert names([record(shots=0, seed=None), *four])[0] == "0-shot, seed none"
    assert names([record(shots=None), *four])[0] == "shots unknown, seed 0"
    assert factors_of(record(seed=None)).get("seed") is None


def test_two_records_of_one_context_are_refused(refuses):
    one = record(seed=3)
    error = refuses(split_studies, [one, replace(one, id="again")])
    assert "rte, seed 3" in error.where and "same factors" in error.got
    assert "separate workdirs" in str(error)
    assert len(split_studies([one, replace(record(seed=3, limit=9), id="again")])) == 1


def levels(group, *factors):
    return sorted({tuple(of[name] for name in factors) for of in group.factors})


def test_a_full_factorial_is_matched_whole():
    whole = Frame(grid(task=["sst2", "rte"], template=[1, 2, 3], shots=[0, 1], seed=[0, 1]))
    for name in whole.varying:
        matched = whole.matched(name)
        assert matched.is_fair and len(matched.frame) == len(whole)
    assert len(whole.board) == len(whole)


def test_a_cross_compares_each_factor_where_it_varies():
    """Six tasks with one template; two of them have three more templates."""
    main = grid(task=["sst2", "rte", "cb", "wic", "mr", "boolq"], template=[1], seed=[0, 1])
    more = grid(task=["sst2", "rte"], template=[2, 3, 4], seed=[0])
    cross = Frame([*main, *more])
    templates, tasks = cross.matched("template"), cross.matched("task")
    assert templates.is_fair and tasks.is_fair
    assert levels(templates.frame, "task") == [("rte",), ("sst2",)]
    assert len(templates.frame.levels("template")) == 4
    assert levels(tasks.frame, "task", "template") == sorted((task, "1") for task in cross.tasks)
    assert len(tasks.frame) == 12 and len(tasks.frame.tasks) == 6
    assert levels(cross.matched("seed").frame, "template", "seed") == [("1", "0"), ("1", "1")]


def test_a_part_keeps_the_levels_that_other_parts_give_it():
    """Templates and block options vary with one shot only; zero shots have the task's own."""
    labeled = {"labeled": {"labeled_per_class": 16}}
    cross = Frame([record(shots=0), record(shots=1), record(template=2, shots=1)])
    parts = cross.by("shots")
    assert [part.levels("template") for part in parts.values()] == [["own"], ["own", "2"]]
    assert levels(cross.matched("shots").frame, "template") == [("own",)]
    assert levels(cross.matched("template").frame, "shots") == [("1",)]
    blocks = [{}, labeled, {"labeled": {"labeled_per_class": 4}}]
    grid_of_blocks = Frame([record(seed=i, blocks=of) for i, of in enumerate(blocks)])
    lacking = grid_of_blocks.where(labeled_per_class="none")
    assert [factors["seed"] for factors in lacking.factors] == ["0"]


def test_levels_that_share_no_other_level_are_not_fair():
    apart = Frame([record(template=1, shots=0), record(template=2, shots=4), record(template=3)])
    matched = Frame([*apart.records, record("sst2", template=4, shots=1)]).matched("shots")
    assert not matched.is_fair and len(matched.frame) == 4
    # A factor with one level compares nothing.
    assert Frame([record()]).matched("task").is_fair


def test_the_board_has_every_task_unless_half_of_the_contexts_go():
    uneven = [*grid(task=["sst2", "rte"], template=[1, 2]), record("cb", template=1)]
    assert levels(Frame(uneven).board, "task", "template") == [
        ("cb", "1"), ("rte", "1"), ("sst2", "1"),
    ]  # fmt: skip
    few = [*grid(task=["sst2"], template=range(9)), record("cb", template=1)]
    assert len(Frame(few).board) == 10


def test_studies_are_connected_by_a_model_or_a_task():
    language = grid(task=["sst2", "rte"], model=["gpt", "llama"])
    images = grid(task=["svhn", "eurosat"], model=["clip"])
    studies = split_studies([*images, *language])
    assert [(frame.levels("model"), len(frame)) for frame in studies] == [
        (["gpt", "llama"], 4), (["clip"], 2),
    ]  # fmt: skip
    assert len(split_studies(grid(task=["rte"], model=["gpt", "llama"]))) == 1
    # A chain: gpt on rte, llama on rte and cb, clip on cb.
    chain = [("rte", "gpt"), ("cb", "clip"), ("rte", "llama"), ("cb", "llama")]
    assert len(split_studies([record(task, model=model) for task, model in chain])) == 1
    lone = [record(task, model=model) for task, model in zip("abc", "xyz", strict=True)]
    assert [len(frame) for frame in split_studies(lone)] == [3]


def test_seeds_that_prompts_share_count_once_in_a_gain():
    """Two templates with the same three draws, which gain 10, 20 and 30 points."""
    gains = (0.1, 0.2, 0.3)
    cells = product((1, 2), range(3))
    records = [record(template=n, seed=s, bc=0.5 + gains[s], rows=1000) for n, s in cells]
    estimate = gain(Frame(records), "bc")
    places = np.arange(1000)
    of_rows = np.mean([(places >= 500) & (places < 500 + 1000 * x) for x in gains], axis=0)
    of_rows = over_rows(np.stack([of_rows, of_rows]), OF_GAIN)
    draws = t.ppf(0.975, 2) * np.std(gains, ddof=1) / np.sqrt(3)
    assert estimate.value == pytest.approx(0.2)
    assert estimate.high == pytest.approx(0.2 + np.hypot(of_rows.high - 0.2, draws))
    for order in (records[::-1], records[1::2] + records[::2]):
        assert tuple(gain(Frame(order), "bc")) == pytest.approx(tuple(estimate))
    # Zero shots with one seed are no grid of prompts and seeds.
    uneven = [record(shots=0, bc=0.7, seed=0), *(record(shots=4, seed=seed) for seed in range(3))]
    assert gain(Frame(uneven), "bc").value == pytest.approx(0.125)
