"""Renders real rows as prompts for the benchmarks."""

from itertools import chain, pairwise
from pathlib import Path
from typing import Any, NamedTuple

from tokenizers import Tokenizer

from batch_calibration.scoring.data.texts import read
from batch_calibration.scoring.prompts.render import render as render_context
from batch_calibration.scoring.prompts.template import query
from batch_calibration.scoring.tasks import TASKS
from batch_calibration.settings import Settings

TWO_TOKENS = {"entailment": "yes indeed", "neutral": "not sure", "contradiction": "no way"}


class Case(NamedTuple):
    """One context to score.

    Attributes:
        name: The name in the table.
        task: The task's name.
        shots: Number of demonstrations of each class.
        rows: Number of rows in one call of our scorer.
        peer_rows: Number of rows that the harness scores; its rate does not depend on it.
        goal: Target speedup over the harness.
        verbalizer: Name of the label words; "" uses the paper's.
        batch: The harness's best batch size, measured with `--full`.
        labels: Continuations that replace the task's labels.
        tokens: Length of each prompt in tokens, cut from running text; 0 renders the task's rows.
    """

    name: str
    task: str
    shots: int
    rows: int
    peer_rows: int
    goal: float | None = None
    verbalizer: str = ""
    batch: int = 32
    labels: tuple[str, ...] = ()
    tokens: int = 0


FEW = "MNLI, 4 shots a class"
ZERO = "MNLI, 0 shots"
CASES = (
    # Shots, rows of our scorer per call, rows of the harness, goal.
    Case(FEW, "mnli", 4, 192, 8, 25),
    Case("MNLI, 4 shots a class, two-token labels", "mnli", 4, 192, 4, 60, "two_tokens"),
    Case("SST-2, 16 shots a class", "sst2", 16, 192, 8),
    Case(ZERO, "mnli", 0, 96, 96, 2, batch=1),
    Case("SST-2, 0 shots", "sst2", 0, 96, 96, 2, batch=1),
    Case("RTE, 0 shots", "rte", 0, 48, 48, 2, batch=1),
)


def render(case: Case, data: Path, rows: int, tokenizer: Path | None = None) -> dict[str, Any]:
    """Renders the first rows of a case as texts with its labels; `tokenizer` cuts by tokens."""
    task = TASKS[case.task]
    if case.verbalizer:
        task = task._replace(verbalizers={case.verbalizer: TWO_TOKENS})
    settings = Settings.of(
        data=str(data), shots=case.shots, limit=rows, verbalizer=case.verbalizer,
        labeled_per_class=0, dc_texts=1,  # only the test rows are used
    )  # fmt: skip
    test, train = read(task, str(data), "validation", rows), read(task, str(data), "train")
    context = render_context(task, settings.cell(case.task), test, train)
    # A label may have several texts.
    label_texts = list(chain.from_iterable(context.label_texts))
    labels = list(case.labels) or label_texts
    if case.tokens and tokenizer:
        sentences = "\n".join(query(task.zero_shot, row) for row in train.rows)
        return {"texts": pieces(sentences, tokenizer, rows, case.tokens), "labels": labels}
    return {"texts": list(context.blocks["test"].inputs), "labels": labels}


def pieces(text: str, tokenizer: Path, count: int, tokens: int) -> list[str]:
    """Cuts the first `count` pieces of `tokens` tokens each from a text."""
    encoding = Tokenizer.from_file(str(tokenizer)).encode(text)
    starts = [encoding.offsets[number * tokens][0] for number in range(count + 1)]
    return [text[start:end] for start, end in pairwise(starts)]
