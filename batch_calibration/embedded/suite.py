"""Generates the rows of each language task; train and test share no word pair."""

import random
from collections.abc import Callable
from functools import cache, partial
from typing import NamedTuple, TypeVar

from batch_calibration.embedded import copa, nli, paraphrase, qnli, sst2, wic
from batch_calibration.embedded.nli import CONTRADICTION, ENTAILMENT, NEUTRAL
from batch_calibration.embedded.sampling import Example, categorical
from batch_calibration.embedded.world import Structure
from batch_calibration.errors import InputError
from batch_calibration.tasks.base import Rows

S = TypeVar("S")
Sample = Callable[[int, random.Random, bool], Example]
"""`(label, generator, whether of the test split)` -> an example."""


class Grammar(NamedTuple):
    """How many labels a task has, and how an example of a label is sampled."""

    labels: int
    sample: Sample


def _sampler(
    structure: Callable[[random.Random], S], make: Callable[[int, S, random.Random, bool], Example]
) -> Sample:
    """Draws the structure before the words, so the words held out do not change its share."""

    def sample(label: int, rng: random.Random, test: bool) -> Example:
        return make(label, structure(rng), rng, test)

    return sample


ENC, ECN = (ENTAILMENT, NEUTRAL, CONTRADICTION), (ENTAILMENT, CONTRADICTION, NEUTRAL)


def _structure(extra_fact: float, other_person: float) -> Callable[[random.Random], Structure]:
    return partial(nli.sample_structure, extra_fact, other_person)


GRAMMARS = {
    "sst2": Grammar(2, _sampler(sst2.sample_structure, sst2.sentence)),
    "mnli": Grammar(3, _sampler(_structure(0.5, 0.0), partial(nli.three, ENC))),
    "cb": Grammar(3, _sampler(nli.sample_commitment, partial(nli.three, ECN))),
    "anli_r1": Grammar(3, _sampler(_structure(0.0, 1.0), partial(nli.three, ENC))),
    "anli_r2": Grammar(3, _sampler(_structure(0.5, 1.0), partial(nli.three, ENC))),
    "anli_r3": Grammar(3, _sampler(_structure(1.0, 1.0), partial(nli.three, ENC))),
    "rte": Grammar(2, _sampler(_structure(0.5, 0.0), nli.rte)),
    "qnli": Grammar(2, _sampler(_structure(0.5, 0.3), qnli.qnli)),
    "mrpc": Grammar(2, _sampler(paraphrase.sample_structure, paraphrase.mrpc)),
    "qqp": Grammar(2, _sampler(paraphrase.sample_structure, paraphrase.qqp)),
    "boolq": Grammar(2, _sampler(_structure(0.5, 0.3), nli.boolq)),
    "copa": Grammar(2, _sampler(copa.sample_structure, copa.copa)),
    "wic": Grammar(2, _sampler(wic.sample_structure, wic.wic)),
}
SIZES = {"train": 2000, "validation": 500}
SEED = 2309


def example(task: str, rng: random.Random, test: bool) -> Example:
    """One example of a split; its labels, once drawn, are equally frequent."""
    grammar = GRAMMARS[task]
    return grammar.sample(rng.randrange(grammar.labels), rng, test)


def labeled(
    task: str, rng: random.Random, label: int, hardest: int, likelier: bool = False
) -> Example:
    """One training example no harder than grade `hardest` whose *drawn* label is `label`.

    With `likelier` its likelier label is `label`; without,

    So an ambiguous text comes with the label its document prefers: by Bayes' rule a model of such
    documents must weigh a text's own probabilities by the preference.
    """
    while True:
        made = example(task, rng, False)
        if made.grade > hardest:
            continue
        found = categorical(made.probabilities, rng) if not likelier else _likelier(made)
        if found == label:
            return made


def _likelier(made: Example) -> int:
    return made.probabilities.index(max(made.probabilities))


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
        tuple(categorical(made.probabilities, rng) for made in examples),
        tuple(f"mini/{task}/{split}/{i}" for i in range(len(examples))),
        f"the mini suite's {task}, split {split}, seed {seed}",
    )


def best_accuracy(task: str, split: str, seed: int = SEED) -> float:
    """Accuracy to expect of one who knows the grammar: the likelier label's mean probability.

    Over all draws of the labels; on the labels as drawn it is `realized_accuracy`.
    """
    _, examples = _examples(task, split, seed)
    return sum(max(made.probabilities) for made in examples) / len(examples)


@cache
def likelier(task: str, split: str, seed: int = SEED) -> tuple[int, ...]:
    """The likelier label of each row: what one who knows the grammar answers."""
    _, examples = _examples(task, split, seed)
    return tuple(_likelier(made) for made in examples)


def realized_accuracy(task: str, split: str, seed: int = SEED) -> float:
    """Accuracy on the rows as drawn of one who knows the grammar and answers the likelier label."""
    pairs = zip(likelier(task, split, seed), rows(task, split, seed).labels, strict=True)
    return sum(a == b for a, b in pairs) / SIZES[split]


def easiest(task: str) -> int:
    """The lowest grade that a task's examples have."""
    rng = random.Random(0)
    return min(example(task, rng, test=False).grade for _ in range(200))
