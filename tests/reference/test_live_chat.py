"""Chats as transformers and lm-evaluation-harness make them: the same text, the same token ids."""

import json
from datetime import date

import pytest

pytest.importorskip("lm_eval", reason="needs lm-evaluation-harness: run `make reference`")

from cases import harness_task
from chat_templates import TEMPLATES
from lm_eval.api.task import ConfigurableTask
from lm_eval.models.huggingface import HFLM
from tiny import GPT2, byte_level, write
from tokenizers.processors import TemplateProcessing
from transformers import AutoTokenizer

from batch_calibration.scoring.engine.tokens import encode
from batch_calibration.scoring.models.files.checkpoint import ModelFiles
from batch_calibration.scoring.prompts import template as templates
from batch_calibration.scoring.prompts.template import Shown, chat, label_text
from batch_calibration.settings import PromptSettings

SPECIAL = ["<s>", "</s>", "<|im_start|>", "<|im_end|>", "<start_of_turn>", "<end_of_turn>"]
SPECIAL += ["<|start|>", "<|stop|>", "<|eot|>"]
FORM = "Review: {text}\nSentiment: {label}"
TRAIN = [("a fine film", 1), ("slow  and bleak", 0), ("so so", 0)]
TEST = ["not even funny", " it's <s> odd ", "fine\n"]
WORDS = ("negative", "positive")
NO_SYSTEM = ("strict",)


@pytest.fixture(scope="module", params=TEMPLATES)
def directory(request, tmp_path_factory):
    """A tiny model with one of the templates, and a beginning token of its post-processor."""
    folder = tmp_path_factory.mktemp(request.param)
    tokenizer = byte_level()
    tokenizer.add_special_tokens(SPECIAL)
    begin = tokenizer.token_to_id("<s>")
    tokenizer.post_processor = TemplateProcessing(single="<s> $A", special_tokens=[("<s>", begin)])
    write(folder, {**GPT2, "n_positions": 600}, tokenizer)
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>"}
    config |= {"chat_template": TEMPLATES[request.param], "eos_token": "</s>"}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return folder


def name_of(directory):
    return next(name for name in TEMPLATES if directory.name.startswith(name))


def messages_of(directory, start):
    system = [] if name_of(directory) in NO_SYSTEM else [{"role": "system", "content": "Be brief."}]
    chat = [{"role": "user", "content": " a "}, {"role": "assistant", "content": "b"}]
    chat.append({"role": "user", "content": "Is it\n<s>?"})
    return [*system, *chat, *([{"role": "assistant", "content": start}] if start else [])]


@pytest.mark.parametrize("start", ["", "It is", "It is "])
def test_the_text_is_apply_chat_template_s(directory, start):
    messages = messages_of(directory, start)
    theirs = AutoTokenizer.from_pretrained(directory)
    how = {"add_generation_prompt": not start, "continue_final_message": bool(start)}
    how |= {"tokenize": False, "enable_thinking": False}
    expected = theirs.apply_chat_template(messages, **how)
    assert ModelFiles(directory).chat_template.render(messages, date.today()) == expected


@pytest.mark.parametrize("start", [None, "It is"])
@pytest.mark.parametrize("is_turns", [True, False])
def test_ids_are_the_harness_s(directory, is_turns, start, tmp_path):
    rows = {"train": TRAIN, "validation": [(text, 0) for text in TEST]}
    for split, pairs in rows.items():
        rows[split] = [(templates.query(FORM, {"text": text}), label) for text, label in pairs]
    more = {"gen_prefix": start, "metric_list": [{"metric": "acc"}]}
    task = ConfigurableTask(config=harness_task("chat", tmp_path, rows, list(WORDS), **more))
    system = None if name_of(directory) in NO_SYSTEM else "Be brief."
    model = HFLM(pretrained=str(directory), device="cpu", enable_thinking=False, dtype="float32")
    how = {"apply_chat_template": True, "fewshot_as_multiturn": is_turns}
    how |= {"chat_template": model.apply_chat_template, "system_instruction": system}
    task.build_all_requests(limit=None, rank=0, world_size=1, tokenizer_name="tiny", **how)
    expected = [model._encode_pair(*request.args) for request in task.instances]

    values = {"chat": "turns" if is_turns else "one_message", "answer_start": start or ""}
    values |= {"system": system or "", "chat_date": date.today().isoformat()}
    settings = PromptSettings(**values)
    checkpoint = ModelFiles(directory)
    compose = chat(FORM, settings, checkpoint.chat_template)
    shown = [Shown(query, WORDS[label]) for query, label in rows["train"][:2]]
    prompts = [compose(shown)(query) for query, _ in rows["validation"]]
    labels = [label_text(FORM, settings, label) for label in WORDS]
    info = checkpoint.tokenizer_info
    ours = encode(info.tokenizer, prompts, labels, info.bos, prefix=info.prefix)
    got = []
    for prompt, label_ids in zip(ours.prompts, ours.labels, strict=True):
        got += [(prompt, list(ids)) for ids in label_ids]
    assert got == expected
    assert all(prompt.count(info.bos) >= 1 and prompt[0] == info.bos for prompt in ours.prompts)
