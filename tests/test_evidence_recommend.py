"""What recommendations are judged on: draws with uneven shares, demonstrations, stored scores."""

import numpy as np
import pytest

from batch_calibration.errors import InputError
from batch_calibration.scores import ScoreTable, make_block
from batch_calibration.store import Store
from experiments.evidence import sources
from experiments.evidence.sets import ScoreSet


def table_of(model: str, rows: int = 900) -> ScoreTable:
    gold = (np.arange(rows) % 3).astype(np.int32)
    scores = 1000 * len(model) + np.arange(rows)[:, None] + np.zeros(3)
    return ScoreTable(
        {"task": "all", "model": model}, ("a", "b", "c"), {"test": make_block(scores, gold)}
    )


def test_uneven_draws_have_the_drawn_shares_no_row_twice_and_one_for_all_models():
    tables = [table_of("x"), table_of("yy")]
    uneven = sources.draw_uneven(ScoreSet("s", "S, one batch", "two", tables, 2), seed=0)
    assert uneven.shape == (2, sources.UNEVEN_DRAWS) and uneven.name == "s_uneven"
    assert uneven.title == "S, uneven shares"
    for number in range(sources.UNEVEN_DRAWS):
        tests = [uneven.tables[i * sources.UNEVEN_DRAWS + number].blocks["test"] for i in range(2)]
        first, second = (test.log_probs[:, 0] for test in tests)
        np.testing.assert_array_equal(second - first, 1000.0)
        assert len(np.unique(first)) == len(first) <= sources.UNEVEN_ROWS
        shares = np.random.default_rng([0, number]).dirichlet(np.ones(3))
        counted = np.bincount(tests[0].labels, minlength=3) / len(first)
        np.testing.assert_allclose(counted, shares, atol=0.01)


def test_a_workdir_is_a_source_and_what_is_missing_is_a_sentence(tmp_path):
    store = Store(tmp_path, create=True)
    with pytest.raises(InputError, match="expected stored scores"):
        sources.read_workdir(tmp_path)
    store.put(table_of("m", rows=9))
    stored = sources.read_workdir(tmp_path)
    assert (stored.name, stored.shape) == ("m", (1, 1))
