"""The suite: rows of each task, drawn from the grammar, train and test sharing no word pair."""

import random
from collections.abc import Callable
from functools import cache, partial
from typing import Any, NamedTuple

from batch_calibration.embedded import causes, inference, likeness, senses, sentiment
from batch_calibration.embedded.chance import Example, draw
from batch_calibration.embedded.inference import CONTRADICTION, ENTAILMENT, NEUTRAL
from batch_calibration.errors import InputError
from batch_calibration.tasks.base import Rows


class Grammar(NamedTuple):
    """How a task's rows are made: how many labels, a shape, an example of label and shape.

    `make` takes label, shape, a generator and whether the words are those of the test split.
    """

    labels: int
    kind: Callable[..., Any]
    make: Callable[[int, Any, random.Random, bool], Example]


ENC, ECN = (ENTAILMENT, NEUTRAL, CONTRADICTION), (ENTAILMENT, CONTRADICTION, NEUTRAL)


def _nli(extra: float, other: float) -> Callable[..., Any]:
    return partial(inference.kind, extra, other)


GRAMMARS = {
    "sst2": Grammar(2, sentiment.kind, sentiment.sentence),
    "mnli": Grammar(3, _nli(0.5, 0.0), partial(inference.three, ENC)),
    "cb": Grammar(3, inference.committed, partial(inference.three, ECN)),
    "anli_r1": Grammar(3, _nli(0.0, 1.0), partial(inference.three, ENC)),
    "anli_r2": Grammar(3, _nli(0.5, 1.0), partial(inference.three, ENC)),
    "anli_r3": Grammar(3, _nli(1.0, 1.0), partial(inference.three, ENC)),
    "rte": Grammar(2, _nli(0.5, 0.0), inference.rte),
    "qnli": Grammar(2, _nli(0.5, 0.3), likeness.qnli),
    "mrpc": Grammar(2, likeness.retelling, likeness.mrpc),
    "qqp": Grammar(2, likeness.retelling, likeness.qqp),
    "boolq": Grammar(2, _nli(0.5, 0.3), inference.boolq),
    "copa": Grammar(2, causes.kind, causes.copa),
    "wic": Grammar(2, senses.kind, senses.wic),
}
SIZES = {"train": 2000, "validation": 500}
SEED = 2309


def example(task: str, rng: random.Random, test: bool) -> Example:
    """One example of a split; its labels, once drawn, are equally frequent.

    Label and shape are drawn before the words, so the words held out change neither's share.
    """
    grammar = GRAMMARS[task]
    label, kind = rng.randrange(grammar.labels), grammar.kind(rng)
    return grammar.make(label, kind, rng, test)


def labeled(task: str, rng: random.Random, label: int, hardest: int) -> Example:
    """One training example no harder than grade `hardest` whose *drawn* label is `label`.

    So an ambiguous text comes with the label its document prefers: by Bayes' rule a reader of such
    documents must weigh a text's own chances with the preference.
    """
    while True:
        made = example(task, rng, False)
        if made.grade <= hardest and draw(made.chances, rng) == label:
            return made


def _examples(task: str, split: str, seed: int) -> tuple[random.Random, list[Example]]:
    """The examples of a split, and the generator that draws their labels next."""
    if task not in GRAMMARS:
        raise InputError.unknown("task of the mini suite", task, GRAMMARS)
    if split not in SIZES:
        raise InputError.unknown(f"split of the mini suite's {task}", split, SIZES)
    rng = random.Random(f"{seed}/{task}/{split}")
    return rng, [example(task, rng, test=split == "validation") for _ in range(SIZES[split])]


@cache
def rows(task: str, split: str, seed: int = SEED) -> Rows:
    """The rows of a split; the same seed gives the same rows, on any machine."""
    rng, examples = _examples(task, split, seed)
    return Rows(
        tuple(made.row for made in examples),
        tuple(draw(made.chances, rng) for made in examples),
        tuple(f"mini/{task}/{split}/{i}" for i in range(len(examples))),
        f"the mini suite's {task}, split {split}, seed {seed}",
    )


def best_accuracy(task: str, split: str, seed: int = SEED) -> float:
    """Accuracy of a reader who knows the grammar: the mean chance of the likelier label."""
    _, examples = _examples(task, split, seed)
    return sum(max(made.chances) for made in examples) / len(examples)


def easiest(task: str) -> int:
    """The lowest grade that a task's examples have."""
    rng = random.Random(0)
    return min(example(task, rng, test=False).grade for _ in range(200))
