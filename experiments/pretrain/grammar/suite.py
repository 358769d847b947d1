"""Generates the rows of each language task; training and test rows share no word pair."""

import random
from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import NamedTuple, TypeVar

from batch_calibration.scoring.embedded.suite import SEED
from experiments.pretrain.grammar import copa, nli, paraphrase, sst2, wic
from experiments.pretrain.grammar.nli import CONTRADICTION, ENTAILMENT, NEUTRAL
from experiments.pretrain.grammar.sampling import Example, categorical
from experiments.pretrain.grammar.world import Structure

S = TypeVar("S")
Sample = Callable[[int, random.Random, bool], Example]
"""`(label, random generator, is test split)` -> an example."""


class Grammar(NamedTuple):
    """A task's number of labels, and its function that samples an example of a given label."""

    labels: int
    sample: Sample


def _sampler(
    structure: Callable[[random.Random], S], make: Callable[[int, S, random.Random, bool], Example]
) -> Sample:
    """Returns a sampler that draws the structure first, independently of the held-out words."""

    def sample(label: int, rng: random.Random, test: bool) -> Example:
        return make(label, structure(rng), rng, test)

    return sample


# The label orders of mnli and cb.
ENC, ECN = (ENTAILMENT, NEUTRAL, CONTRADICTION), (ENTAILMENT, CONTRADICTION, NEUTRAL)


def _structure(extra_fact: float, other_person: float) -> Callable[[random.Random], Structure]:
    return partial(nli.sample_structure, extra_fact, other_person)


GRAMMARS = {
    "sst2": Grammar(2, _sampler(sst2.sample_structure, sst2.sentence)),
    "mnli": Grammar(3, _sampler(_structure(0.5, 0.0), partial(nli.three, ENC))),
    "cb": Grammar(3, _sampler(nli.sample_commitment, partial(nli.three, ECN))),
    # Each round of ANLI is harder: more facts and people.
    "anli_r1": Grammar(3, _sampler(_structure(0.0, 1.0), partial(nli.three, ENC))),
    "anli_r2": Grammar(3, _sampler(_structure(0.5, 1.0), partial(nli.three, ENC))),
    "anli_r3": Grammar(3, _sampler(_structure(1.0, 1.0), partial(nli.three, ENC))),
    "rte": Grammar(2, _sampler(_structure(0.5, 0.0), nli.rte)),
    "qnli": Grammar(2, _sampler(_structure(0.5, 0.3), nli.qnli)),
    "mrpc": Grammar(2, _sampler(paraphrase.sample_structure, paraphrase.mrpc)),
    "qqp": Grammar(2, _sampler(paraphrase.sample_structure, paraphrase.qqp)),
    "boolq": Grammar(2, _sampler(_structure(0.5, 0.3), nli.boolq)),
    "copa": Grammar(2, _sampler(copa.sample_structure, copa.copa)),
    "wic": Grammar(2, _sampler(wic.sample_structure, wic.wic)),
}
SIZES = {"train": 2000, "validation": 500}


def example(task: str, rng: random.Random, test: bool) -> Example:
    """Samples one example of a split; over many examples the labels are equally frequent."""
    grammar = GRAMMARS[task]
    return grammar.sample(rng.randrange(grammar.labels), rng, test)


def labeled(
    task: str, rng: random.Random, label: int, hardest: int, likelier: bool = False
) -> Example:
    """Samples a training example of at most grade `hardest`, conditioned on its drawn label.

    With `likelier`, it conditions on the more probable label instead, and draws no label.

    An ambiguous text therefore appears with the label that its document prefers. By Bayes' rule, a
    model of these documents has to weight the text's probabilities by the document's preference.
    """
    # Rejection sampling: accepted examples keep their conditional distribution.
    while True:
        sampled = example(task, rng, False)
        if sampled.grade > hardest:
            continue
        if (_likelier(sampled) if likelier else categorical(sampled.probabilities, rng)) == label:
            return sampled


def _likelier(sampled: Example) -> int:
    return sampled.probabilities.index(max(sampled.probabilities))


@cache
def examples(task: str, split: str, seed: int = SEED) -> tuple[list[Example], list[int]]:
    """Samples the examples of a split and their labels; a seed gives the same on any machine."""
    rng = random.Random(f"{seed}/{task}/{split}")  # a string seed gives the same on any machine
    sampled = [example(task, rng, test=split == "validation") for _ in range(SIZES[split])]
    # Labels are drawn after all texts, so their draws do not change the texts.
    return sampled, [categorical(text.probabilities, rng) for text in sampled]


def records(task: str, split: str, seed: int = SEED) -> Iterator[dict[str, object]]:
    """Yields the rows of a split as stored: fields, drawn label and more probable label."""
    for sampled, label in zip(*examples(task, split, seed), strict=True):
        yield {**sampled.row, "label": label, "likelier": _likelier(sampled)}


def best_accuracy(task: str, split: str) -> float:
    """Computes the Bayes-optimal accuracy: the mean probability of the more probable label.

    This is the expectation over draws of the labels; `realized_accuracy` uses the drawn labels.
    """
    sampled, _ = examples(task, split)
    return sum(max(text.probabilities) for text in sampled) / len(sampled)


def realized_accuracy(task: str, split: str) -> float:
    """Computes the accuracy of the Bayes-optimal answers on the drawn labels."""
    hits = sum(_likelier(text) == label for text, label in zip(*examples(task, split), strict=True))
    return hits / SIZES[split]


def easiest(task: str) -> int:
    """Finds the lowest grade of a task's examples."""
    rng = random.Random(0)
    # 200 examples contain every grade.
    return min(example(task, rng, test=False).grade for _ in range(200))
