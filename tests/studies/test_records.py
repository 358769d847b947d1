"""Records: JSON and back, one sentence for each thing that is wrong with it, the tidy table."""

import dataclasses
import json
import sys

import pytest

from batch_calibration.errors import InputError
from batch_calibration.scores import ScoreTable, digest, make_block
from batch_calibration.studies import Record, Records
from batch_calibration.studies.records import (
    VERSION,
    ByRows,
    ContextInfo,
    Curve,
    Result,
    ScorerInfo,
)
from batch_calibration.studies.tidy import KINDS

IDENTITY = {"kind": "causal_lm", "checkpoint": "abc", "version": "1"}
SCORER = ScorerInfo("causal_lm", digest(IDENTITY), {"checkpoint": "abc", "version": "1"})
WHOLE = Record(
    id="0123456789abcdef",
    context=ContextInfo(
        **{"task": "rte", "model": "mini", "data": "mini", "shots": 1, "seed": 3, "limit": 100},
        **{"split": "validation", "served": "test", "template": "{premise}\n{label}"},
        scorer=SCORER,
        options={"order": 2, "template": "plain"},
        blocks={"cc": {}, "dc": {"dc_texts": 4}},
        demonstrations=("rte/train/1", "rte/train/2"),
    ),
    label_names=("yes", "no"),
    rows={"test": 100, "labeled": 20},
    methods={
        "icl": Result({"accuracy": 0.5, "nll": 0.7}, "gA=="),
        "bc": Result(
            {"accuracy": 0.6, "nll": 0.6, "gain": 0.1, "gain_low": -0.3, "gain_high": 0.5},
            "oA==",
            bias=(-1.0, -2.5),
            options={"strength": 0.5},
            probe_size=ByRows((2, 100), ((0.5, 0.4), (0.6,))),
        ),
        "bcl": Result(
            {"accuracy": 0.7}, "4A==", strength=0.9, curve=Curve((0.5,) * 101, (0.4,) * 101)
        ),
    },
    classes=(2, 1),
    skipped={"cc": "no block 'cc' in the table"},
    over_long={"test": {"dropped": 2}},
    unreadable={"test": 1},
    floor=-50.0,
    order_flips=(0.25, 0.2, 0.3),
)
LEAST = Record("f" * 16, ContextInfo(), ("a", "b"), {"test": 2}, {"icl": Result({"accuracy": 1.0})})


@pytest.mark.parametrize("record", [WHOLE, LEAST])
def test_json_and_back_is_the_same(record):
    assert Record.from_json(record.to_json()) == record
    assert json.loads(record.to_json())["version"] == VERSION


def test_fields_without_a_value_are_left_out():
    assert json.loads(LEAST.to_json())["methods"] == {"icl": {"metrics": {"accuracy": 1.0}}}


def sealed(fields):
    """JSON text of a record with these fields, its checksum made anew."""
    unsealed = {name: value for name, value in fields.items() if name != "checksum"}
    return json.dumps(unsealed | {"checksum": digest(unsealed)})


def changed(**fields):
    return sealed(json.loads(WHOLE.to_json()) | fields)


def of_bc(**fields):
    """The record with other fields of BC's result."""
    methods = json.loads(WHOLE.to_json())["methods"]
    return {"methods": methods | {"bc": methods["bc"] | fields}}


def without(name):
    return sealed({k: v for k, v in json.loads(WHOLE.to_json()).items() if k != name})


OUTSIDE = {"gain": 0.1, "gain_low": 0.2, "gain_high": 0.3}
SENTENCES = [
    ("got Expecting property name", "{"),
    ("got none", "[]"),
    ("got version 1", without("version")),
    ("got version 4", changed(version=4)),
    ("got version 99", changed(version=99)),
    ("methods in the record; got none", without("methods")),
    ("id to be str; got 3", changed(id=3)),
    ("seed to be int; got 'x'", changed(context={"seed": "x"})),
    ("ContextInfo; got 'rte'", changed(context="rte")),
    ("float; got 'good'", changed(**of_bc(metrics={"accuracy": "good"}))),
    ("bias to be tuple[float, ...]; got 1.0", changed(**of_bc(bias=1.0))),
    ("checksum", WHOLE.to_json().replace("0.6", "0.7", 1)),
    ("nested too deeply", "[" * 99_999),
    ("5000 digits", "9" * 5000),
    ("surrogates", '"\\ud800"'),
    ("int; got 1180591620717411303424", changed(context={"seed": 2**70})),
    ("float; got nan", changed(**of_bc(metrics={"accuracy": float("nan")}))),
    ("accuracies from 0 to 1", changed(**of_bc(metrics={"nll": 1.0}))),
    ("accuracies from 0 to 1", changed(**of_bc(metrics={"accuracy": 50}))),
    ("test rows, methods", changed(rows={"cc": 3})),
    ("two labels", changed(label_names=["a"])),
    ("gain inside its interval", changed(**of_bc(metrics={"accuracy": 0.5, **OUTSIDE}))),
    ("rows of each of 2 labels", changed(classes=[3])),
    ("an answer for each", changed(classes=[5, 4])),
    ("an answer for each", changed(**of_bc(right="å"))),
    ("biases of 2 labels", changed(**of_bc(bias=[1.0]))),
    ("curves of 101 points", changed(**of_bc(curve={"labeled": [0.5], "test": [0.5]}))),
    ("draws of each probe size", changed(**of_bc(probe_size={"rows": [2], "accuracy": [[]]}))),
    ("each number of rows", changed(**of_bc(probe_size={"rows": [2, 4], "accuracy": [[0.5]]}))),
    ("test in the curve; got none", changed(**of_bc(curve={"labeled": []}))),
]


@pytest.mark.parametrize("case", SENTENCES, ids=lambda case: case[0])
def test_what_is_wrong_is_said_in_a_sentence(case, refuses):
    why, text = case
    sentence = str(refuses(Record.from_json, text, "w/records/x.json"))
    assert sentence.startswith("w/records/x.json: ") and sentence.endswith("calibrate again.")
    assert why in sentence


ODD = (None, True, 7, 0.5, "x", [], ["x"], {}, {"x": "x"})


def parts(value, path=()):
    """Where every value of some JSON stands."""
    if path:
        yield path
    places = range(len(value) if isinstance(value, list) else 0)
    keys = value if isinstance(value, dict) else places
    for key in keys:
        yield from parts(value[key], (*path, key))


def test_any_value_of_another_type_is_refused_or_read_back():
    record = dataclasses.replace(WHOLE, methods={"bc": WHOLE.methods["bc"]})
    for path in parts(json.loads(record.to_json())):
        for odd in ODD:
            changed = json.loads(record.to_json())
            holder = changed
            for key in path[:-1]:
                holder = holder[key]
            holder[path[-1]] = odd
            try:
                record_read = Record.from_json(sealed(changed))
            except InputError as error:
                assert "\n" not in str(error)
            else:
                assert Record.from_json(record_read.to_json()) == record_read


def table(context):
    return ScoreTable(context, ("a", "b"), {"test": make_block([[-1.0, -2.0]], [0])})


def test_a_table_need_say_nothing_of_its_context():
    assert ContextInfo.from_table(table({})) == ContextInfo()
    assert ContextInfo.from_table(table({"mine": 1, "task": None})) == ContextInfo()


def test_context_of_a_table_is_what_it_says(refuses):
    details = {"task": "rte", "scorer": IDENTITY, "shots": 2, "demonstrations": ["x"], "rows": "1"}
    info = ContextInfo.from_table(table(details))
    assert (info.task, info.shots, info.demonstrations) == ("rte", 2, ("x",))
    assert info.scorer == SCORER
    assert "int; got 'many'" in str(refuses(ContextInfo.from_table, table({"shots": "many"})))


def test_records_are_a_sequence():
    records = Records([WHOLE, LEAST])
    assert len(records) == 2 and list(records) == [WHOLE, LEAST]
    assert records[1] is LEAST
    assert isinstance(records[:1], Records) and list(records[:1]) == [WHOLE]


def test_rows_are_one_per_context_method_and_metric():
    rows = Records([WHOLE, LEAST]).rows()
    assert len(rows) == 7
    first, last = rows[0], rows[-1]
    assert (first["method"], first["metric"], first["value"]) == ("icl", "accuracy", 0.5)
    assert (first["task"], first["seed"], first["scorer"]) == ("rte", 3, "causal_lm")
    assert (first["rows"], first["floor"]) == (3, -50.0)  # labeled rows
    assert first["scorer_digest"] == digest(IDENTITY) and first["scorer_checkpoint"] == "abc"
    assert (first["option_order"], last["option_order"]) == (2, None)
    assert (first["option_dc_texts"], last["option_dc_texts"]) == (4, None)
    fields = {field.name for field in dataclasses.fields(ContextInfo)}
    fields -= {"options", "blocks", "factors"}
    assert all(fields | KINDS.keys() <= set(row) for row in rows)
    known = {"id": "f" * 16, "method": "icl", "metric": "accuracy", "value": 1.0, "rows": 2}
    known |= {"limit": 0, "label_names": ["a", "b"], "demonstrations": []}
    assert last == dict.fromkeys(last) | known


def test_an_interval_stands_beside_its_value():
    by_metric = {row["metric"]: row for row in Records([WHOLE]).rows() if row["method"] == "bc"}
    assert set(by_metric) == {"accuracy", "nll", "gain"}
    assert (by_metric["gain"]["low"], by_metric["gain"]["high"]) == (-0.3, 0.5)
    assert (by_metric["nll"]["low"], by_metric["nll"]["high"]) == (None, None)


def test_options_of_a_method_stand_in_its_rows():
    options = {"icl": {"strength": 0.5}, "bc": {"target_prior": (0.8, 0.2), "strength": 2}}
    results = {
        name: Result(WHOLE.methods[name].metrics, options=of) for name, of in options.items()
    }
    table = Records([dataclasses.replace(WHOLE, methods=results), LEAST]).to_arrow()
    methods = table.select(["method", "method_strength", "method_target_prior"]).to_pylist()
    of_icl, of_bc = ("icl", 0.5, None), ("bc", 2.0, "[0.8, 0.2]")
    rows = [of_icl] * 2 + [of_bc] * 3 + [("icl", None, None)]
    assert [tuple(row.values()) for row in methods] == rows


def test_every_form_holds_the_rows_in_their_types():
    records = Records([WHOLE, LEAST])
    rows, arrow, frame = records.rows(), records.to_arrow(), records.to_pandas()
    assert arrow.to_pylist() == rows
    assert list(frame) == arrow.column_names == list(rows[0])
    assert [*map(str, frame.dtypes[["seed", "value", "task"]])] == ["Int64", "float64", "string"]
    for name in ("seed", "low", "option_order", "task"):
        cells = zip(frame[name], frame[name].isna(), strict=True)
        assert [None if lacks else x for x, lacks in cells] == [row[name] for row in rows]
    # The columns of another workdir are of the same types, whatever is None in it.
    least = Records([LEAST]).to_arrow().schema
    assert [arrow.schema.field(name) for name in KINDS] == [least.field(name) for name in KINDS]


def test_no_records_are_a_table_without_rows():
    assert Records().to_arrow().column_names == list(KINDS) == list(Records().to_pandas())


@pytest.mark.parametrize(("library", "call"), [("pandas", "to_pandas"), ("pyarrow", "to_arrow")])
def test_a_library_that_lacks_is_a_sentence(library, call, monkeypatch, refuses):
    monkeypatch.setitem(sys.modules, library, None)
    assert refuses(getattr(Records([WHOLE]), call)).where == call
