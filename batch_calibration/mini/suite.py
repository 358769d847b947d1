"""The suite: rows of each task, drawn from the grammar, train and test sharing no word pair."""

import random
from collections.abc import Callable
from typing import Any, NamedTuple

from batch_calibration.mini import inference, sentiment
from batch_calibration.mini.chance import Example, belongs, draw
from batch_calibration.tasks.base import Rows
from batch_calibration.typing import InputError


class Grammar(NamedTuple):
    """How a task's rows are made: chances of intended labels, a shape, a row of both."""

    intended: tuple[float, ...]
    kind: Callable[[random.Random], Any]
    make: Callable[[int, Any, random.Random], Example]


GRAMMARS = {
    "sst2": Grammar((0.5, 0.5), sentiment.kind, sentiment.sentence),
    # Hearsay turns a seventh of the others neutral: this makes drawn labels equally frequent.
    "mnli": Grammar((0.39, 0.22, 0.39), inference.kind, inference.pair),
}
SIZES = {"train": 2000, "validation": 500}
SEED = 2309


def example(task: str, rng: random.Random, test: bool) -> Example:
    """One example of a split; its labels, once drawn, are equally frequent.

    Label and shape are drawn before the words, so holding word pairs out changes neither's share.
    """
    grammar = GRAMMARS[task]
    label, kind = draw(grammar.intended, rng), grammar.kind(rng)
    while True:
        made = grammar.make(label, kind, rng)
        if belongs(made, test):
            return made


def labeled(task: str, rng: random.Random, label: int, hardest: int) -> Example:
    """One training example no harder than grade `hardest` whose *drawn* label is `label`.

    So an ambiguous text comes with the label its document prefers: by Bayes' rule a reader of such
    documents must weigh a text's own chances with the preference.
    """
    while True:
        made = example(task, rng, test=False)
        if made.grade <= hardest and draw(made.chances, rng) == label:
            return made


def rows(task: str, split: str, seed: int = SEED) -> Rows:
    """The rows of a split; the same seed gives the same rows, on any machine."""
    if task not in GRAMMARS:
        raise InputError.unknown("task of the mini suite", task, GRAMMARS)
    if split not in SIZES:
        raise InputError.unknown(f"split of the mini suite's {task}", split, SIZES)
    size = SIZES[split]
    rng = random.Random(f"{seed}/{task}/{split}")
    examples = [example(task, rng, test=split == "validation") for _ in range(size)]
    return Rows(
        tuple(made.row for made in examples),
        tuple(draw(made.chances, rng) for made in examples),
        tuple(f"mini/{task}/{split}/{i}" for i in range(size)),
        f"the mini suite's {task}, split {split}, seed {seed}",
    )


def best_accuracy(task: str, split: str, seed: int = SEED) -> float:
    """Accuracy of a reader who knows the grammar: the mean chance of the likelier label."""
    rng = random.Random(f"{seed}/{task}/{split}")
    size = SIZES[split]
    chances = [example(task, rng, test=split == "validation").chances for _ in range(size)]
    return sum(map(max, chances)) / size
