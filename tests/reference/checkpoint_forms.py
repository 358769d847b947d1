"""Writes a section of docs/your-checkpoint.md: which checkpoints load, tried on shrunken ones.

PYTHONPATH=.:tests .venv-reference/bin/python tests/reference/checkpoint_forms.py

Each form has random weights, small sizes, and the `model_type` and the particular keys of a known
checkpoint's config.json. The network of transformers is saved, loaded here where there is a network
of ours, and both score the same prompts; otherwise transformers scores them.
"""

import json
import logging
import shutil
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
import transformers
from cases import moved, write_tokenizer
from tiny import CORPUS
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSeq2SeqLM

from batch_calibration.errors import InputError
from batch_calibration.scoring.causal_lm import CausalLM
from batch_calibration.scoring.models import FAMILIES
from batch_calibration.scoring.models.files.checkpoint import load_checkpoint
from batch_calibration.scoring.models.files.transformers_files import TransformersFiles
from batch_calibration.scoring.transformers_lm import TransformersLM

PAGE = Path(__file__).resolve().parents[2] / "docs" / "your-checkpoint.md"
FALCON = {"vocab_size": 400, "hidden_size": 32, "num_hidden_layers": 4, "num_attention_heads": 4}
FALCON |= {"max_position_embeddings": 256}
UNGROUPED = FALCON | {"intermediate_size": 48}
GROUPED = UNGROUPED | {"num_key_value_heads": 2}
BASES = {"grouped": GROUPED, "ungrouped": UNGROUPED, "falcon": FALCON, None: {}}
# Name, model type, base sizes and others, keys of the file that are no sizes (a name that begins
# with + is written into the file alone: transformers reads no such key).
FORMS = json.loads(Path(__file__).with_suffix(".json").read_text())
TEXTS = [
    f"{''.join(CORPUS)[:120]}Review: {text}\nSentiment:" for text in ("slow", "fine", "so so é")
]
LABELS = [" positive", " negative", " so"]
BEGIN = "<!-- written by tests/reference/checkpoint_forms.py: begin -->\n"
END = "<!-- written by tests/reference/checkpoint_forms.py: end -->\n"
HEAD = """The networks here run the first list, and `--config.scorer=transformers` (`pip install 'batch-calibration[torch]'`) runs both. Each checkpoint was built from its `config.json` with small sizes and random weights (`PYTHONPATH=.:tests .venv-reference/bin/python tests/reference/checkpoint_forms.py`, transformers {version}). Neither the tokenizers ([decision 11](decisions.md#11-token-ids-are-as-in-transformers-5)) nor the memory of the weights were tried.
"""  # noqa: E501

ALONE = "transformers alone"
EQUAL = "A network here, less than 0.0001 nats plus 0.001 % of the score from transformers"
REFUSED = ValueError, KeyError, ImportError, AttributeError, TypeError, AssertionError


def write(directory: Path, model_type: str, sizes: dict, keys: dict) -> None:
    """A checkpoint of this form with random weights."""
    read = {key: setting for key, setting in keys.items() if not key.startswith("+")}
    torch.manual_seed(0)
    tokens = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
    config = AutoConfig.for_model(model_type, **(tokens | sizes | read))
    is_pair = config.is_encoder_decoder
    make = AutoModelForSeq2SeqLM if is_pair else AutoModelForCausalLM
    moved(make.from_config(config), 0.15).save_pretrained(directory)
    path = directory / "config.json"
    raw = json.loads(path.read_text())
    raw |= {key.removeprefix("+"): setting for key, setting in keys.items()}
    path.write_text(json.dumps(raw))
    write_tokenizer(directory, eos_token="<|end|>")


def outcome(model_type: str, sizes: dict, keys: dict) -> str:
    """The scorer that runs a checkpoint of this form, and the largest difference of scores."""
    directory = Path(tempfile.mkdtemp())
    try:
        try:
            write(directory, model_type, sizes, keys)
        except REFUSED as error:
            return f"not tried: {str(error).splitlines()[0][:100]}"
        theirs = TransformersLM(TransformersFiles(directory).load()).score(TEXTS, LABELS).log_probs
        if model_type not in FAMILIES:
            return ALONE
        try:
            ours = CausalLM(load_checkpoint(directory)).score(TEXTS, LABELS).log_probs
        except InputError as error:
            reason = str(error).replace(f"{directory}: ", "").replace("|", "/")[:160]
            return f"{ALONE}: {reason}"
        # What rounding differs by on another machine is not written down.
        if np.allclose(ours, theirs, atol=1e-4, rtol=1e-5):  # as in test_generated.py
            return EQUAL
        return f"A network here, {np.abs(ours - theirs).max():.4f} nats from transformers"
    finally:
        shutil.rmtree(directory)


def page() -> str:
    """Returns the page with a new section: under each outcome the model types and checkpoints."""
    outcomes: dict[str, dict[str, list[str]]] = {}
    for form in FORMS:
        sizes = BASES[form["base"]] | form["sizes"]
        by_type = outcomes.setdefault(outcome(form["type"], sizes, form["keys"]), {})
        by_type.setdefault(form["type"], []).append(form["name"])
    text = HEAD.format(version=transformers.__version__)
    for heading, by_type in outcomes.items():
        lines = [f"* `{kind}`: {', '.join(names)}" for kind, names in by_type.items()]
        text += "\n".join([f"\n**{heading}**\n", *lines, ""])
    before, _, rest = PAGE.read_text().partition(BEGIN)
    return before + BEGIN + text + END + rest.partition(END)[2]


if __name__ == "__main__":
    logging.disable(logging.WARNING)
    text = page()
    PAGE.write_text(text)
    sys.stdout.write(text)
