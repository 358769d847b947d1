"""Columns that separate contexts are factors; a task is a set of questions."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from batch_calibration import importers
from batch_calibration.importers import Reading
from batch_calibration.reporting.frame import Frame
from batch_calibration.reporting.items import Results
from batch_calibration.reporting.tables import spread
from batch_calibration.studies import Record, run_calibration
from batch_calibration.studies.records import ContextInfo

ROWS = 12


def write(path, contexts, ids, gold):
    """A table of the contexts: columns of the prompt, the seed, the row, scores, and the answer."""
    random = np.random.default_rng(0)
    lines = ["prompt,seed,id,no,yes,answer"]
    for i, (prompt, seed) in enumerate(contexts):
        for row_id, label in zip(ids(i), gold(i), strict=True):
            scores = ",".join(f"{score:.3f}" for score in -np.exp(random.normal(0, 0.5, 2)))
            lines.append(f"{prompt},{seed},{row_id},{scores},{label}")
    path.write_text("\n".join([*lines, ""]))
    return path


CONTEXTS = list(product(("short", "long"), (0, 1)))


def same(context):
    return [f"q{row}" for row in range(ROWS)]


def other(context):
    return [f"q{context}-{row}" for row in range(ROWS)]


def answers(context):
    return ["no", "yes"] * (ROWS // 2)


def read(path):
    tables = importers.read(path, Reading(by=("prompt", "seed"), ids="id", gold="answer"))
    return tables, [ContextInfo.from_table(table) for table in tables]


def test_contexts_with_the_same_rows_are_one_task_with_the_columns_as_factors(tmp_path):
    tables, contexts = read(write(tmp_path / "log.csv", CONTEXTS, same, answers))
    expected = [{"task": "log", "prompt": prompt, "seed": str(seed)} for prompt, seed in CONTEXTS]
    assert [dict(context.factors) for context in contexts] == expected
    # Programs that name a context by its task keep the full name.
    assert contexts[0].task == "log short, 0"
    (study,) = Results(run_calibration(tables, ["icl", "bc"])).studies.values()
    assert list(study.tasks) == ["log"] and study.varying == ["prompt", "seed"]
    assert study.names[3] == "prompt long, seed 1"
    assert study.draws == 4


def test_groups_of_a_task_do_not_average_their_errors_out(tmp_path):
    """The interval of the spread is that of records with one task, not with a task a context."""
    contexts = list(product("abc", (0, 1)))
    tables, _ = read(write(tmp_path / "log.csv", contexts, same, answers))
    records = run_calibration(tables, ["icl", "bc"])
    renamed = [replace(one, context=replace(one.context, task="log")) for one in records]
    found, expected = (spread(Frame(some), ["icl", "bc"]) for some in (records, renamed))
    assert found == expected and found[1][-1].startswith(("+", "-"))


def test_contexts_with_other_rows_are_other_tasks(tmp_path):
    tables, contexts = read(write(tmp_path / "log.csv", CONTEXTS, other, answers))
    names = [f"log {prompt}, {seed}" for prompt, seed in CONTEXTS]
    assert [context.factors["task"] for context in contexts] == names
    (study,) = Results(run_calibration(tables, ["icl", "bc"])).studies.values()
    assert sorted(study.tasks) == sorted(names) and study.varying == ["prompt", "seed"]


def test_one_column_may_change_the_rows_and_the_other_one_not(tmp_path):
    """Each seed draws its own questions, and both prompts ask them."""

    def by_seed(context):
        return [f"q{CONTEXTS[context][1]}-{row}" for row in range(ROWS)]

    _, contexts = read(write(tmp_path / "log.csv", CONTEXTS, by_seed, answers))
    assert [context.factors["task"] for context in contexts] == ["log 0", "log 1"] * 2


@pytest.mark.parametrize("is_known", [True, False])
def test_numbers_of_rows_are_the_same_rows_only_with_the_same_answers(tmp_path, is_known):
    """Ids 0, 1, ... name no question: without right labels, prompts may ask anything."""

    def numbers(context):
        return range(ROWS)

    def own(context):
        return ["no"] * context + ["yes"] * (ROWS - context)

    path = write(tmp_path / "log.csv", CONTEXTS, numbers, answers if is_known else own)
    _, contexts = read(path)
    assert len({context.factors["task"] for context in contexts}) == (1 if is_known else 4)


def test_a_record_without_methods_has_the_factors_too(tmp_path):
    tables, _ = read(write(tmp_path / "log.csv", CONTEXTS, same, answers))
    records = [Record.without_methods(table) for table in tables]
    (study,) = Results(records).studies.values()
    assert study.names[0] == "prompt short, seed 0" and not study.methods
