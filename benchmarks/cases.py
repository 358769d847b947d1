"""Makes what benchmarks score: real rows as prompts, and random networks in GPT-2's shape."""

from collections.abc import Sequence
from os.path import commonprefix
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from flax import nnx
from tokenizers import ByteLevelBPETokenizer, Tokenizer

from batch_calibration.data import read
from batch_calibration.models import FAMILIES, weights
from batch_calibration.models.config import read_config
from batch_calibration.prompts.render import render as render_context
from batch_calibration.prompts.template import prompt
from batch_calibration.settings import Settings
from batch_calibration.tasks import TASKS

SMALL: dict[str, Any] = {
    "model_type": "gpt2", "vocab_size": 50257, "n_positions": 1024, "n_embd": 768, "n_layer": 12,
    "n_head": 12,
}  # fmt: skip
"""The shape of GPT-2-small."""
TINY = SMALL | {"n_embd": 64, "n_layer": 2, "n_head": 2}
TWO_TOKENS = {"entailment": "yes indeed", "neutral": "not sure", "contradiction": "no way"}


class Case(NamedTuple):
    """One context to score.

    Attributes:
        name: What the table calls it.
        task: The task's name.
        shots: Demonstrations of each class.
        rows: Rows in one call of ours.
        peer_rows: How many of them the harness scores too; its speed does not depend on it.
        goal: How many times as fast as the harness we mean to be.
        verbalizer: Which label words, where not the paper's.
        batch_of: The case with requests of like length whose best batch size the harness uses
            here; its own are tried where this is empty.
    """

    name: str
    task: str
    shots: int
    rows: int
    peer_rows: int
    goal: float | None = None
    verbalizer: str = ""
    batch_of: str = ""


FEW = "MNLI, 4 shots a class"
ZERO = "MNLI, 0 shots"
CASES = (
    Case(FEW, "mnli", 4, 192, 8, 25),
    Case("MNLI, 4 shots a class, two-token labels", "mnli", 4, 192, 4, 60, "two_tokens", FEW),
    Case("SST-2, 16 shots a class", "sst2", 16, 192, 8, None, "", FEW),
    Case(ZERO, "mnli", 0, 96, 96, 2),
    Case("SST-2, 0 shots", "sst2", 0, 96, 96, 2, "", ZERO),
    Case("RTE, 0 shots", "rte", 0, 48, 48, 2, "", ZERO),
)


def render(case: Case, data: Path, rows: int) -> dict[str, Any]:
    """The first rows of a case as texts, and its labels."""
    task = TASKS[case.task]
    if case.verbalizer:
        task = task._replace(verbalizers={case.verbalizer: TWO_TOKENS})
    settings = Settings.of(
        data=str(data), shots=case.shots, limit=rows, verbalizer=case.verbalizer,
        labeled_per_class=0, dc_texts=1,
    )  # fmt: skip
    test, train = read(task, str(data), "validation", rows), read(task, str(data), "train")
    context = render_context(task, settings.cell(case.task), test, train)
    labels = [text for texts in context.label_texts for text in texts]
    return {"texts": list(context.blocks["test"].inputs), "labels": labels}


def many(data: Path, rows: int) -> dict[str, Any]:
    """As many different zero-shot MNLI prompts as wanted: real premises, each with hypotheses."""
    task = TASKS["mnli"]
    real = read(task, str(data), "validation").rows
    texts = [
        prompt(
            task.zero_shot,
            [],
            real[i % len(real)]
            | {"hypothesis": real[(i + i // len(real)) % len(real)]["hypothesis"]},
        )
        for i in range(rows)
    ]
    return {"texts": texts, "labels": [f" {word}" for word in task.words]}


def random_checkpoint(directory: Path, tokenizer: Path, shape: dict[str, Any]) -> Path:
    """A directory in Hugging Face layout: GPT-2's own tokenizer, weights as GPT-2 begins."""
    directory.mkdir()
    made = ByteLevelBPETokenizer(str(tokenizer / "encoder.json"), str(tokenizer / "vocab.bpe"))
    made.save(str(directory / "tokenizer.json"))
    family, random = FAMILIES["gpt2"], np.random.default_rng(0)
    config = read_config(family, shape, directory)
    graph, state = nnx.split(nnx.eval_shape(lambda: family.Model(config, rngs=nnx.Rngs(0))))

    def draw(path: Any, like: Any) -> np.ndarray:
        ones = "scale" in jax.tree_util.keystr(path)
        noise = np.float32(0.02) * random.standard_normal(like.shape, np.float32)
        return np.ones(like.shape, np.float32) if ones else noise

    drawn = jax.tree_util.tree_map_with_path(draw, state)
    weights.save(directory, nnx.merge(graph, drawn), family, shape)
    return directory


def least_tokens(directory: Path, texts: Sequence[str], labels: Sequence[str]) -> int:
    """Tokens to run where no two requests that begin alike run their common beginning twice."""
    tokenizer = Tokenizer.from_file(str(directory / "tokenizer.json"))
    whole = tokenizer.encode_batch_fast([text + label for text in texts for label in labels])
    ids = sorted(encoding.ids[:-1] for encoding in whole)  # nothing is read after the last token
    pairs = zip([[], *ids], ids, strict=False)
    return sum(len(now) - len(commonprefix([before, now])) for before, now in pairs)  # noqa: RUF071
