"""Options of methods in studies: read from texts, checked, kept in records, never mixed."""

import jax.numpy as jnp
import numpy as np
import pytest
from making import by_method

from batch_calibration.methods import METHODS, compare, correct, read_options
from batch_calibration.methods.options import check_chosen
from batch_calibration.scores import ScoreTable, make_block
from batch_calibration.settings import Settings
from batch_calibration.studies import Record, Store, calibrate_store
from batch_calibration.studies.calibration import run_calibration

pytestmark = pytest.mark.filterwarnings("ignore:.*which is rough:UserWarning")


@pytest.fixture(scope="module")
def table(planted):
    scores, labels, _ = planted(30, 2)
    details = {"task": "rte", "seed": 0, "shots": 1, "scorer": {"kind": "causal_lm"}}
    return ScoreTable(details, ("a", "b"), {"test": make_block(scores, labels)})


BC = {"target_prior": (0.8, 0.2), "strength": 1}


@pytest.mark.parametrize(
    ("text", "means"),
    [
        ([], {}),
        (["bc.strength=0.5"], {"bc": {"strength": 0.5}}),
        (["pc.features=raw", "pc.starts=9"], {"pc": {"features": "raw", "starts": 9}}),
        (["bc_running.per_batch=true"], {"bc_running": {"per_batch": True}}),
        (["bc_running.per_batch=False"], {"bc_running": {"per_batch": False}}),
        (["bc.target_prior=0.8", "0.2", "bc.strength=1"], {"bc": BC}),
        (["bcl.metric='macro_f1'"], {"bcl": {"metric": "macro_f1"}}),
    ],
)
def test_texts_are_options(text, means):
    assert read_options(text) == means


@pytest.mark.parametrize("text", ["bc", "bc=1", "bc.=1", ".strength=1", "bc.strength", "=", ""])
def test_texts_of_another_form_are_a_sentence(text, refuses):
    assert refuses(read_options, [text]).got == repr(text)


def test_what_is_the_default_is_left_out():
    options = {"bc_running": {"batch_size": 32, "per_batch": True}, "bc": {"strength": 1}}
    assert check_chosen(options, list(METHODS), [2]) == {"bc_running": {"per_batch": True}}
    priors = check_chosen({"bc": {"target_prior": [0.8, 0.2]}}, ["bc"], [2])
    assert priors == {"bc": {"target_prior": (0.8, 0.2)}}


WRONG = {
    "options: pc": {"pc": {"starts": 2}},
    "There is no option of bc named 'strenght'": {"bc": {"strenght": 1}},
    "batch_size: expected a whole number; got 'few'": {"bc_running": {"batch_size": "few"}},
    "batch_size: expected at least 1": {"bc_running": {"batch_size": 0}},
    "target_prior: expected 2 shares": {"bc": {"target_prior": (0.5, 0.3, 0.2)}},
    "options: target_prior of bc is ndarray": {"bc": {"target_prior": np.ones(2) / 2}},
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_options_are_a_sentence(case, table, refuses):
    named = {"methods": ["icl", "bc", "bc_running"], "options": WRONG[case]}
    assert str(refuses(run_calibration, [table], **named)).startswith(case)


def test_compare_takes_options(table):
    rows = jnp.asarray(table.blocks["test"].log_probs)
    chosen = {"bc_running": {"batch_size": 8}}
    by_method = compare({"test": (rows[None],)}, methods=("bc", "bc_running"), options=chosen)
    for name in ("bc", "bc_running"):
        alone = correct(METHODS[name], {"test": (rows, None)}, rows, **chosen.get(name, {}))
        np.testing.assert_allclose(by_method[name].scores[0], alone.scores, atol=1e-6)


def test_a_record_says_which_options_differ(table):
    methods = ["icl", "bc", "bc_running"]
    chosen = {"bc_running": {"batch_size": 1}, "bc": {"strength": 0.0}}
    (plain,) = run_calibration([table], methods)
    (record,) = run_calibration([table], methods, options=chosen, probe_sizes=[2], draws=2)
    assert by_method(plain, "options") == {} and by_method(record, "options") == chosen
    of_bc = record.methods["bc"].metrics
    usual = {name: x for name, x in of_bc.items() if not name.startswith("gain")}
    assert usual == pytest.approx(plain.methods["icl"].metrics) and of_bc["gain"] == 0
    assert record.methods["bc_running"] != plain.methods["bc_running"]
    # Strength 0 is plain ICL, from any number of rows.
    reached = [x for draws in record.methods["bc"].probe_size.accuracy for x in draws]
    assert reached == pytest.approx([plain.methods["icl"].metrics["accuracy"]] * 3)
    assert Record.from_json(record.to_json()) == record


def test_pc_on_raw_scores_is_left_out_where_they_are_no_log_probs(table):
    logits = table._replace(context=table.context | {"scorer": {"logits_only": True}})
    options = {"pc": {"features": "raw", "starts": 2}}
    (record,) = run_calibration([logits], ["icl", "pc"], options=options)
    assert "logits without the softmax" in record.skipped["pc"] and not by_method(record, "options")


def test_earlier_methods_keep_their_options_and_what_they_found(table, tmp_path):
    store = Store(tmp_path, create=True)
    store.put(table)
    sizes = {"probe_sizes": [2], "draws": 2}
    options = {"bc": {"strength": 0.5}}, {"bc_running": {"batch_size": 8}}
    (first,) = calibrate_store(store, ["icl", "bc", "pc"], options=options[0], **sizes).records
    (second,) = calibrate_store(store, ["bc_running"], options=options[1]).records
    assert by_method(second, "options") == {
        "bc": {"strength": 0.5},
        "bc_running": {"batch_size": 8},
    }
    assert second.methods["bc"] == first.methods["bc"]
    (third,) = calibrate_store(store, ["bc"]).records
    assert by_method(third, "options") == {"bc_running": {"batch_size": 8}}
    assert third.methods["bc"].metrics != first.methods["bc"].metrics
    assert set(by_method(third, "probe_size")) == {"pc"}


def test_a_config_s_words_are_options():
    calibration = Settings.of(method_options="bc.target_prior=0.8,0.2,pc.features=raw").calibration
    expected = {"bc": {"target_prior": (0.8, 0.2)}, "pc": {"features": "raw"}}
    assert read_options(calibration.method_options) == expected


def test_flags_and_configs_reach_the_records(program, table, tmp_path):
    Store(tmp_path / "w", create=True).put(table)
    config = tmp_path / "mine.py"
    config.write_text(
        "from ml_collections import ConfigDict\n\n\ndef get_config():\n    return ConfigDict({"
        "'methods': ('icl', 'bc', 'bc_running'), 'stream_orders': 3, "
        "'method_options': ('bc_running.batch_size=8',)})\n"
    )
    workdir = f"--workdir={tmp_path / 'w'}"
    program("calibrate", workdir, f"--config={config}")
    (record,) = Store(tmp_path / "w").records()
    assert by_method(record, "options") == {"bc_running": {"batch_size": 8}}
    assert set(record.methods) == {"icl", "bc", "bc_running"}
    assert len(record.methods["bc_running"].over_stream.accuracy[0]) == 3
    changed = "--config.stream_orders=2", "--method_options=bc_running.batch_size=9,bc.strength=0.5"
    program("calibrate", workdir, f"--config={config}", *changed)
    (record,) = Store(tmp_path / "w").records()
    assert by_method(record, "options") == {
        "bc_running": {"batch_size": 9},
        "bc": {"strength": 0.5},
    }
    assert len(record.methods["bc_running"].over_stream.accuracy[0]) == 2
