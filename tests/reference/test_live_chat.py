"""Chats as transformers and lm-evaluation-harness make them: the same text, the same token ids."""

import json
from datetime import date

import pytest

pytest.importorskip("lm_eval", reason="needs lm-evaluation-harness: run `make reference`")

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
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "chat_template": TEMPLATES[request.param],
    }
    config |= {"bos_token": "<s>", "eos_token": "</s>"}
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
    expected = theirs.apply_chat_template(
        messages, tokenize=False, add_generation_prompt=not start,
        continue_final_message=bool(start), enable_thinking=False,
    )  # fmt: skip
    assert ModelFiles(directory).chat_template.render(messages, date.today()) == expected


@pytest.mark.parametrize("start", [None, "It is"])
@pytest.mark.parametrize("is_turns", [True, False])
def test_ids_are_the_harness_s(directory, is_turns, start, tmp_path):
    for split, rows in {"train": TRAIN, "validation": [(text, 0) for text in TEST]}.items():
        with (tmp_path / f"{split}.jsonl").open("w") as file:
            for text, label in rows:
                query = templates.query(FORM, {"text": text})
                file.write(json.dumps({"text": query, "label": label}) + "\n")
    files = {split: str(tmp_path / f"{split}.jsonl") for split in ("train", "validation")}
    task = ConfigurableTask(
        config={
            "task": "chat", "dataset_path": "json", "dataset_kwargs": {"data_files": files},
            "output_type": "multiple_choice", "training_split": "train",
            "validation_split": "validation", "fewshot_split": "train",
            "fewshot_config": {"sampler": "first_n"}, "num_fewshot": 2, "doc_to_text": "{{text}}",
            "doc_to_target": "label", "doc_to_choice": list(WORDS), "gen_prefix": start,
            "metric_list": [{"metric": "acc"}],
        }
    )  # fmt: skip
    system = None if name_of(directory) in NO_SYSTEM else "Be brief."
    model = HFLM(pretrained=str(directory), device="cpu", enable_thinking=False, dtype="float32")
    task.build_all_requests(
        limit=None, rank=0, world_size=1, apply_chat_template=True,
        fewshot_as_multiturn=is_turns, chat_template=model.apply_chat_template,
        system_instruction=system, tokenizer_name="tiny",
    )  # fmt: skip
    expected = [model._encode_pair(*request.args) for request in task.instances]

    settings = PromptSettings(
        chat="turns" if is_turns else "one_message", system=system or "", answer_start=start or "",
        chat_date=date.today().isoformat(),
    )  # fmt: skip
    checkpoint = ModelFiles(directory)
    compose = chat(FORM, settings, checkpoint.chat_template)
    shown = [
        Shown(templates.query(FORM, {"text": text}), WORDS[label]) for text, label in TRAIN[:2]
    ]
    prompts = [compose(shown)(templates.query(FORM, {"text": text})) for text in TEST]
    labels = [label_text(FORM, settings, label) for label in WORDS]
    info = checkpoint.tokenizer_info
    ours = encode(info.tokenizer, prompts, labels, info.bos, prefix=info.prefix)
    got = []
    for prompt, label_ids in zip(ours.prompts, ours.labels, strict=True):
        got += [(prompt, list(ids)) for ids in label_ids]
    assert got == expected
    assert all(prompt.count(info.bos) >= 1 and prompt[0] == info.bos for prompt in ours.prompts)
