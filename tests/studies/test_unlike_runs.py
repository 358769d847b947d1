"""Contexts scored with unlike settings have unlike names: every key of the settings is tried."""

import json
from dataclasses import replace

import pytest
from chat_templates import TEMPLATES

from batch_calibration.reporting.frame import Frame, split_studies
from batch_calibration.scores import ScoreTable, make_block
from batch_calibration.scoring.embedded import CHECKPOINTS
from batch_calibration.settings import Settings, keys
from batch_calibration.studies import Record
from batch_calibration.studies.context_scores import identify
from batch_calibration.studies.loading import load_scorer
from batch_calibration.studies.records import ContextInfo, Result
from batch_calibration.studies.scoring import render_contexts

TEXTS = {"model": "mini", "data": "mini", "limit": 4, "labeled_per_class": 2, "dc_texts": 2}
IMAGES = {"model": "mini_clip", "data": "mini", "scorer": "dual_encoder", "limit": 4, "shots": 0}
IMAGES |= {"split": "test", "labeled_per_class": 2}
CHAT = TEXTS | {"model": "CHAT", "chat": "turns"}
API = TEXTS | {"scorer": "api", "model": "m", "server": "http://127.0.0.1:1/v1"}
TOP_K, SCORE = (API | {"api_scores": how} for how in ("top_k", "score"))
EXPLICIT = TEXTS | {"selection": "explicit"}
NO_NUMBER = {
    "tasks": "an average is over tasks",
    "seeds": "an average is over seeds",
    "batch_size": "how many rows are asked at once",
    "mesh": "on how many devices",
    "in_flight": "how many requests at once",
    "per_minute": "how many requests a minute",
    "timeout": "how long an answer is waited for",
    "price": "for the estimate alone",
    "key_variable": "where the key stands",
    "methods": "each has numbers of its own",
    "method_options": "with the scores; see test_other_options_of_a_method_have_a_name",
    "label_shares": "with the scores; tests/diagnosis/test_balanced_tasks.py",
    "probe_sizes": "a study of its own",
    "draws": "how often its rows are drawn",
    "stream_orders": "a study of its own",
}
"""Keys that decide no number, and why."""
DECIDE = {
    "data": ("sst2", TEXTS, {"data": "FOLDER"}),
    "split": ("sst2", TEXTS, {"split": "train"}),
    "train_split": ("sst2", TEXTS, {"train_split": "validation"}),
    "limit": ("sst2", TEXTS, {"limit": 5}),
    "limit_rows": ("sst2", TEXTS | {"limit": 5}, {"limit_rows": "first"}),
    "labeled_per_class": ("sst2", TEXTS, {"labeled_per_class": 3}),
    "classes": ("dtd", IMAGES, {"classes": "present"}),
    "shots": ("sst2", TEXTS, {"shots": 2}),
    "selection": ("sst2", TEXTS | {"selection": "total"}, {"selection": "round_robin"}),
    "demonstrations": ("sst2", EXPLICIT | {"demonstrations": (0, 1)}, {"demonstrations": (0, 2)}),
    "order": ("sst2", TEXTS, {"order": 1}),
    "template": ("rte", TEXTS, {"template": "3"}),
    "verbalizer": ("rte", TEXTS, {"verbalizer": "2"}),
    "demonstration_labels": ("sst2", TEXTS, {"demonstration_labels": "flipped"}),
    "label_words": ("sst2", TEXTS, {"label_words": "held_out"}),
    "over_long": ("sst2", TEXTS, {"over_long": "truncate_left"}),
    "chat": ("sst2", CHAT | {"chat": "turns", "shots": 1}, {"chat": "one_message"}),
    "system": ("sst2", CHAT, {"system": "Be brief."}),
    "answer_start": ("sst2", CHAT, {"answer_start": "It is"}),
    "chat_date": ("sst2", CHAT, {"chat_date": "2026-01-01"}),
    "cc_fill": ("mnli", TEXTS, {"cc_fill": "whole_input"}),
    "dc_texts": ("sst2", TEXTS, {"dc_texts": 3}),
    "option_orders": ("copa", TEXTS, {"option_orders": "all"}),
    "scorer": ("sst2", TEXTS | {"shots": 0}, {"scorer": "dual_encoder", "model": "mini_clip"}),
    "model": ("sst2", TEXTS | {"shots": 0}, {"model": "mini_clip", "scorer": "dual_encoder"}),
    "dtype": ("sst2", TEXTS, {"dtype": "bfloat16"}),
    "accept_keys": ("sst2", TEXTS, {"accept_keys": ("some_key",)}),
    "logits_only": ("sst2", TEXTS, {"logits_only": True}),
    "scale": ("eurosat", IMAGES, {"scale": 30.0}),
    "max_tokens": ("eurosat", IMAGES, {"max_tokens": 20}),
    "server": ("sst2", API, {"server": "http://127.0.0.1:2/v1"}),
    "api_scores": ("sst2", API, {"api_scores": "top_k"}),
    "tokenizer": ("sst2", SCORE | {"tokenizer": "mini"}, {"tokenizer": "mini_clip"}),
    "top_logprobs": ("sst2", TOP_K, {"top_logprobs": 5}),
    "missing": ("sst2", TOP_K, {"missing": "drop"}),
}
"""Of each other key a task, settings, and the same with another value of the key."""


def tables(task, settings):
    """The score table that a run would store, without asking the model."""
    (context,) = render_contexts(settings, [settings.cell(task)])
    rows, blocks = [[-1.0] * len(context.label_names)], {}
    for name, block in context.blocks.items():
        blocks[name] = make_block(rows * block.size, spec=block.spec)
    details = identify(context, load_scorer(settings), settings.model.model)
    return ScoreTable(details, context.label_names, blocks)


def record(table, **fields):
    methods = {name: Result({"accuracy": 0.5}, "AA==") for name in ("icl", "bc")}
    rows = {name: len(block.row_ids) for name, block in table.blocks.items()}
    context = ContextInfo.from_table(table)
    return Record(table.id, context, table.label_names, rows, methods, **fields)


def test_every_key_decides_a_number_or_is_listed_with_its_reason():
    assert set(DECIDE) | set(NO_NUMBER) == set(keys()) and not set(DECIDE) & set(NO_NUMBER)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A few rows of SST-2 in files."""
    where = tmp_path_factory.mktemp("rows") / "files" / "sst2"
    where.mkdir(parents=True)
    rows = [{"sentence": f"a film {i}", "label": i % 2} for i in range(12)]
    for split in ("train", "validation"):
        (where / f"{split}.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return where.parent


@pytest.fixture(scope="module")
def chat_model(tmp_path_factory):
    """The embedded language model with a chat template that writes the date."""
    directory = tmp_path_factory.mktemp("chat")
    for path in CHECKPOINTS["mini"].iterdir():
        (directory / path.name).symlink_to(path)
    (directory / "chat_template.jinja").write_text(TEMPLATES["headers"])
    return directory


@pytest.mark.parametrize("key", DECIDE)
def test_a_key_that_decides_a_number_is_in_the_name_of_a_context(key, folder, chat_model):
    task, usual, changed = DECIDE[key]
    usual = usual | ({"model": str(chat_model)} if usual["model"] == "CHAT" else {})
    changed = changed | ({"data": str(folder)} if key == "data" else {})
    first_tables, two = (tables(task, Settings.of(**values)) for values in (usual, usual | changed))
    specs = [{name: block.spec for name, block in t.blocks.items()} for t in (first_tables, two)]
    assert first_tables.id != two.id or specs[0] != specs[1]
    (study,) = split_studies([record(first_tables), record(two)])
    assert len({*study.names}) == 2 and "id" not in study.varying


def test_a_models_name_does_not_depend_on_how_its_path_is_spelt(tmp_path, monkeypatch):
    folder = tmp_path / "encoder" / "model"
    folder.mkdir(parents=True)
    (tmp_path / "link").symlink_to(folder)
    monkeypatch.chdir(tmp_path)
    settings = Settings.of(**TEXTS)
    (context,) = render_contexts(settings, [settings.cell("sst2")])
    scorer = load_scorer(settings)
    spelt = (str(folder), "encoder/model", "./encoder/../encoder/model/", "link")
    names = [identify(context, scorer, name)["model"] for name in spelt]
    assert names == ["encoder-model"] * 4
    given = ("mini", "org/name", "", "/models/a/Small-Q4_1.gguf")
    names = [identify(context, scorer, name)["model"] for name in given]
    assert names == ["mini", "org-name", "", "Small-Q4_1"]


def blocks(**options_of):
    """A record of one task whose blocks were made so; a block that is None is not there."""

    def one(task, **context):
        rows = make_block([[-1.0, -2.0]] * 2, [0, 1])
        specs = {k: {"options": v} if v else {} for k, v in options_of.items() if v is not None}
        details = {"task": task, "model": "m", "shots": 1, **context}
        extra = {name: make_block([[-1.0, -2.0]], spec=spec) for name, spec in specs.items()}
        return record(ScoreTable(details, ("a", "b"), {"test": rows} | extra))

    return one


def names(*records):
    return Frame([*records]).names


@pytest.mark.parametrize(
    ("block", "option"),
    [
        ("cc", {"cc_fill": "whole_input"}),
        ("dc", {"dc_texts": 4}),
        ("labeled", {"labeled_per_class": 16}),
        ("labeled", {"train_split": "extra"}),
    ],
)
def test_blocks_made_in_two_ways_are_a_factor(block, option):
    ways = option, {name: f"{level}0" for name, level in option.items()}
    first, second, none = (blocks(**{block: way}) for way in (*ways, None))
    ((name, level),) = option.items()
    name = name.replace("_", " ")
    assert names(first("rte"), second("rte")) == [f"{name} {level}", f"{name} {level}0"]
    # A context without the block is apart from both; beside one way it is not.
    assert names(first("rte"), second("rte"), none("rte"))[2] == f"{name} none"
    assert names(first("rte"), none("wic")) == ["RTE", "WiC"]
    mixed = [first("rte"), first("cb"), second("cb"), second("wic")]
    assert names(*mixed)[0] == f"RTE, {name} {level}"


def small(**context):
    rows = make_block([[-1.0, -2.0]], [0])
    return ScoreTable({"task": "rte", **context}, ("a", "b"), {"test": rows})


def test_another_floor_has_a_name():
    assert names(record(small()), record(small(), floor=-100.0)) == ["floor none", "floor -100.0"]


def test_other_options_of_a_method_have_a_name():
    table = small()
    several = [{}, {"batch_size": 8}, {"batch_size": 9}, {"target_prior": (0.8, 0.2)}]
    records = []
    for options in several:
        results = {"bc_running": Result({"accuracy": 0.5}, options=options)}
        records.append(replace(record(table), methods=results))
    assert len({*names(*records)}) == 4
    assert names(*records[1:3]) == ["bc running batch size 8", "bc running batch size 9"]
    with_default = names(records[0], records[1])
    assert len({*with_default}) == 2 and with_default[1] == "bc running batch size 8"
