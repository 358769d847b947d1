"""Chat templates: messages, started answers, the sandbox, and contexts of a study in a chat."""

import json
from datetime import date

import numpy as np
import pytest
from chat_templates import HEADERS, STRICT, TEMPLATES, THINKING
from tiny import GPT2, byte_level, write

from batch_calibration.scoring.causal_lm import CausalLM
from batch_calibration.scoring.models.files import chat_template
from batch_calibration.scoring.models.files.chat_template import ChatTemplate
from batch_calibration.scoring.models.files.checkpoint import load_checkpoint
from batch_calibration.scoring.prompts.template import Shown, chat, plain_text
from batch_calibration.settings import PromptSettings, Settings
from batch_calibration.studies import run_scoring
from batch_calibration.studies.scoring import render_contexts

DAY = date(2024, 7, 26)
TOKENS = {"bos_token": "<s>", "eos_token": "</s>"}
FORM = "Review: {text}\nSentiment: {label}"
SHOWN = [Shown("Review: a\nSentiment:", "good"), Shown("Review: b\nSentiment:", "bad")]
QUERY = "Review: c\nSentiment:"
USER = [{"role": "user", "content": "hi"}]
SAYS = "{{ messages[0].content }}"


class Listing:
    """A renderer that lists roles and contents."""

    def render(self, messages, day):
        return [(message["role"], message["content"]) for message in messages]


def settings(**changes):
    return PromptSettings(**{"chat": "turns", **changes})


def template_of(source, tmp_path):
    return ChatTemplate(source, TOKENS, tmp_path)


def test_demonstrations_are_turns():
    compose = chat(FORM, settings(system="Be brief.", answer_start="It is"), Listing())
    contents = ["Review: a\nSentiment:", "It is good", "Review: b\nSentiment:", "It is bad", QUERY]
    roles = ["system", *["user", "assistant"] * 3]
    expected = [*zip(roles, ["Be brief.", *contents, "It is"], strict=True)]
    assert compose(SHOWN)(QUERY) == expected


def test_one_message_is_what_a_base_model_reads():
    compose = chat(FORM, settings(chat="one_message"), Listing())
    assert compose(SHOWN)(QUERY) == [("user", plain_text(FORM)(SHOWN)(QUERY))]


@pytest.mark.parametrize("name", TEMPLATES)
def test_the_text_ends_where_the_label_begins(name, tmp_path):
    template = template_of(TEMPLATES[name], tmp_path)
    text = template.render(USER, DAY)
    started = template.render([*USER, {"role": "assistant", "content": "It is"}], DAY)
    assert "hi" in text and started.endswith("It is")
    assert chat_template.CONTINUED.strip() not in started


def test_thinking_is_switched_off(tmp_path):
    text = template_of(THINKING, tmp_path).render(USER, DAY)
    assert text.endswith("<|im_start|>assistant\n<think>\n\n</think>\n\n")


def test_the_date_is_that_of_the_setting(tmp_path, refuses):
    assert "Today: 26 Jul 2024" in template_of(HEADERS, tmp_path).render(USER, DAY)
    assert refuses(chat, FORM, settings(chat_date="x"), Listing()).key == "chat_date"


def test_which_file_has_the_template(tmp_path, refuses):
    assert chat_template.read(tmp_path) is None
    named = [{"name": "tool_use", "template": "a"}, {"name": "default", "template": SAYS}]
    path = tmp_path / "tokenizer_config.json"
    path.write_text(json.dumps({"chat_template": named, "bos_token": {"content": "<x>"}}))
    assert chat_template.read(tmp_path).render(USER, DAY) == "hi"
    path.write_text(json.dumps({"chat_template": named[:1]}))
    assert refuses(chat_template.read, tmp_path).got == "tool_use"
    (tmp_path / "chat_template.jinja").write_text("{{ bos_token }}" + SAYS)
    path.write_text(json.dumps({"chat_template": "a", "bos_token": {"content": "<x>"}}))
    assert chat_template.read(tmp_path).render(USER, DAY) == "<x>hi"


@pytest.fixture(scope="module")
def instruct(tmp_path_factory):
    """A model with a chat template that begins with the beginning token."""
    directory = tmp_path_factory.mktemp("instruct")
    tokenizer = byte_level()
    tokenizer.add_special_tokens(["<s>", "</s>", "<start_of_turn>", "<end_of_turn>"])
    write(directory, {**GPT2, "n_positions": 600}, tokenizer)
    config = {"chat_template": STRICT, "bos_token": "<s>", "eos_token": "</s>"}
    (directory / "tokenizer_config.json").write_text(json.dumps(config))
    return directory


BASE = {"data": "mini", "tasks": "rte", "limit": 3, "labeled_per_class": 0, "dc_texts": 2}


def test_a_study_asks_in_the_chat(instruct, tmp_path):
    settings = Settings.of(model=str(instruct), shots=1, chat="turns", answer_start="It is", **BASE)
    (context,) = render_contexts(settings)
    prompts = {name: block.inputs for name, block in context.blocks.items()}
    assert {"test", "cc", "dc", "pmi", "looc"} <= set(prompts)
    for texts in prompts.values():
        for text in texts:
            assert text.startswith("<s><start_of_turn>user\n")
            assert text.endswith("<end_of_turn>\n<start_of_turn>model\nIt is")
    assert prompts["test"][0].count("<start_of_turn>user") == 3  # two demonstrations, one a class
    assert all(text.startswith(" ") for texts in context.label_texts for text in texts)
    assert context.context["options"] == {"chat": "turns", "answer_start": "It is"}
    assert run_scoring(settings, store=tmp_path / "W").scored == context.size

    # Without a started answer the label begins the answer, without a space.
    (bare,) = render_contexts(Settings.of(model=str(instruct), chat="one_message", **BASE))
    assert not any(text.startswith(" ") for texts in bare.label_texts for text in texts)
    scorer = CausalLM(load_checkpoint(instruct))
    assert np.isfinite(scorer.score(bare.blocks["test"].inputs, ["yes", "no"]).log_probs).all()


@pytest.mark.parametrize(
    "changes",
    [{"chat": "turns", "model": "mini"}, {"system": "x"}, {"answer_start": "x"}, {"chat": "on"}],
)
def test_settings_that_do_not_go_together(changes, instruct, refuses):
    values = {"model": str(instruct), **BASE, **changes}
    assert refuses(lambda: render_contexts(Settings.of(**values))).key == next(iter(changes))


DOUBLING = "{% set ns = namespace(x='aa') %}{% for i in range(60) %}{% set ns.x = ns.x ~ ns.x %}"
DOUBLING += "{% endfor %}{{ ns.x }}"


@pytest.mark.parametrize(
    ("words", "source"),
    [
        ("system, user (System role not supported)", STRICT),
        ("'endfor'", "{% for x in messages %}"),
        ("'append' of 'list'", "{{ messages.append(1) }}"),
        ("'__class__' of 'str'", "{{ ''.__class__.__mro__[1].__subclasses__() }}"),
        ("set '__class__'", "{% set ns = namespace(a=1) %}{% set ns.__class__ = 1 %}"),
        ("MAX_RANGE (100000)", "{% for i in range(10**9) %}{% endfor %}"),
        ("division by zero", "{{ 1 / 0 }}"),
        ("recurses without end", "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}"),
        ("too much memory", "{{ 'a' * 10**11 }}"),
        ("too much memory", DOUBLING),
        ("too much memory", "{{ '%10000000000d' % 1 }}"),
        ("20,000,001 characters", "{{ messages[0].content }}{{ 'b' * 20000000 }}"),
        (
            "got a text without 'hi'",
            "A:{% if add_generation_prompt %}{{ messages[0].role }}{% endif %}",
        ),
    ],
)
def test_what_a_template_may_not_do_is_a_sentence(words, source, tmp_path, refuses):
    messages = [{"role": "system", "content": "x"}, *USER]
    assert words in str(refuses(template_of(source, tmp_path).render, messages, DAY))


def test_a_template_without_end_is_stopped_and_the_next_one_renders(tmp_path, refuses, monkeypatch):
    monkeypatch.setattr(chat_template, "MOST_SECONDS", 1.0)
    loops = "{% for i in range(99999) %}" * 4 + "{% endfor %}" * 4
    assert "no result in 1 seconds" in str(refuses(template_of(loops, tmp_path).render, USER, DAY))
    assert "hi" in template_of(THINKING, tmp_path).render(USER, DAY)


def test_rows_with_the_text_of_a_special_token_are_counted(instruct, tmp_path):
    texts = [f"film {i}" + "<end_of_turn>" * (i % 3 == 0) for i in range(6)]
    rows = [{"sentence": text, "label": i % 2} for i, text in enumerate(texts)]
    path = tmp_path / "sst2" / "validation.jsonl"
    path.parent.mkdir()
    path.write_text("\n".join(map(json.dumps, rows)))
    (tmp_path / "sst2" / "train.jsonl").write_text(path.read_text())
    notes = []
    values = BASE | {"model": str(instruct), "data": str(tmp_path), "tasks": "sst2", "limit": 0}
    render_contexts(Settings.of(**values, chat="turns"), notify=notes.append)
    assert any("2 of 6 rows of sst2 contain the text of a special token" in note for note in notes)
    assert any(note.startswith("sst2: some of its test rows are also demon") for note in notes)
