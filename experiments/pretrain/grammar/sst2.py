"""Generates review sentences in the schema of sst2: degrees of praise, negation, contrast.

Each word carries evidence in nats; a sentence adds it up, and the probability that its label is
*positive* is the logistic of the sum. Weak words leave much to what a model expects.
"""

import math
import random

from experiments.pretrain.grammar.sampling import Example, allowed

CAP = 3.0
THINGS = [
    "film",
    "movie",
    "plot",
    "cast",
    "script",
    "acting",
    "dialogue",
    "story",
    "ending",
    "soundtrack",
    "director",
    "pacing",
    "humor",
    "camera",
    "performance",
    "score",
    "romance",
    "thriller",
    "comedy",
    "drama",
    "hero",
    "villain",
    "finale",
    "opening",
]
GOOD = (
    (
        2.8,
        [
            "wonderful",
            "brilliant",
            "superb",
            "delightful",
            "stunning",
            "thrilling",
            "gripping",
            "inspired",
        ],
    ),
    (1.6, ["charming", "moving", "clever", "funny", "lovely", "witty", "elegant", "touching"]),
    (
        0.7,
        [
            "warm",
            "fresh",
            "honest",
            "graceful",
            "smart",
            "tender",
            "rich",
            "vivid",
            "simple",
            "serious",
            "wild",
        ],
    ),
)
BAD = (
    (2.8, ["awful", "dreadful", "terrible", "stupid", "pointless", "lifeless", "painful", "ugly"]),
    (1.6, ["boring", "dull", "clumsy", "shallow", "silly", "stale", "lazy", "tedious"]),
    (
        0.7,
        [
            "flat",
            "tired",
            "messy",
            "weak",
            "empty",
            "bland",
            "hollow",
            "strange",
            "long",
            "slow",
            "odd",
            "familiar",
        ],
    ),
)
DEGREES = {"": 1.0, "very ": 1.4, "truly ": 1.4, "rather ": 0.6, "almost ": 0.6}
PRAISE = ["loved", "enjoyed", "admired", "adored"]
BLAME = ["hated", "disliked", "regretted", "endured"]


def sample_structure(rng: random.Random) -> str:
    """The pattern of a sentence."""
    return rng.choices(("plain", "verb", "two", "not", "but", "though"), (5, 1, 2, 2, 2, 2))[0]


def sentence(label: int, structure: str, rng: random.Random, test: bool) -> Example:
    """One review of this structure whose intended polarity is `label`, 1 for positive."""
    good = label == 1
    thing, other = rng.sample(THINGS, 2)
    weight, word = _word(good != (structure == "not"), thing, rng, test)
    pairs: tuple[tuple[str, str], ...] = ((thing, word),)
    degree = rng.choice(list(DEGREES)) if rng.random() < 0.5 else ""
    if structure == "plain":
        text = rng.choice((
            f"the {thing} is {degree}{word}", f"a {degree}{word} {thing}",
            f"this {thing} was {degree}{word}", f"what a {word} {thing}",
        ))  # fmt: skip
        evidence, grade = weight * DEGREES[degree], 1
    elif structure == "verb":
        verb = rng.choice(PRAISE if good else BLAME)
        text = rng.choice((f"i {verb} the {word} {thing}", f"we {verb} this {word} {thing}"))
        evidence, grade = weight + 2.0, 1
    elif structure == "two":
        more, second = _word(good, other, rng, test)
        text = f"the {thing} is {degree}{word} and the {other} is {second}"
        pairs, evidence, grade = (*pairs, (other, second)), weight * DEGREES[degree] + more, 1
    elif structure == "not":
        text = rng.choice((f"the {thing} is not {word}", f"the {thing} is never {word}"))
        evidence, grade = 0.7 * weight, 2
    else:
        less, against = _word(not good, other, rng, test)
        text = (
            f"the {other} is {against} , but the {thing} is {degree}{word}"
            if structure == "but"
            else f"the {thing} is {degree}{word} , though the {other} is {against}"
        )
        pairs, grade = (*pairs, (other, against)), 3
        evidence = weight * DEGREES[degree] + 0.8 - 0.5 * less
    likely = 1 / (1 + math.exp(-min(evidence, CAP)))
    probabilities = (1 - likely, likely) if good else (likely, 1 - likely)
    return Example({"sentence": text + " ."}, probabilities, pairs, grade)


def _word(good: bool, thing: str, rng: random.Random, test: bool) -> tuple[float, str]:
    """A word of this polarity and its evidence, the three degrees equally frequent."""
    weight, words = rng.choice(GOOD if good else BAD)
    return weight, rng.choice(allowed(thing, words, test, share=4))
