"""Premise and hypothesis in the schema of mnli: a fact restated, denied, or not mentioned.

Every hypothesis can follow, conflict or stand apart, with equal chances, so neither text alone
tells the label: a topic the premise leaves out makes *neutral*, the same value in other words
*entailment*, another value of the same topic *contradiction*. Hearsay ("Perhaps ...") leaves room
for *neutral*.
"""

import random
from typing import NamedTuple

from batch_calibration.mini.chance import Example

NOISE = 0.06
HEARSAY = {"They say the": 0.75, "Perhaps the": 0.55}
PEOPLE = [
    "man",
    "woman",
    "boy",
    "girl",
    "teacher",
    "doctor",
    "farmer",
    "singer",
    "painter",
    "nurse",
    "driver",
    "student",
    "baker",
    "sailor",
    "tailor",
    "lawyer",
    "pilot",
    "writer",
    "dancer",
    "guard",
]
LOOKS = ["old", "young", "tall", "quiet", "busy", "friendly", "tired", "clever"]
TOPICS = {
    "deed": (
        ("is sleeping", "is asleep", "is taking a nap"),
        ("is running", "is jogging", "is out for a run"),
        ("is eating", "is having a meal", "is at lunch"),
        ("is reading", "is reading a book", "is studying a novel"),
    ),
    "place": (
        ("is at the beach", "is by the sea", "is near the ocean"),
        ("is in the kitchen", "is inside a kitchen", "is next to the stove"),
        ("is in the park", "is among the trees", "is in a garden"),
        ("is at school", "is in a classroom", "is inside the school"),
    ),
    "clothes": (
        ("wears a red coat", "is dressed in red", "has a red coat on"),
        ("wears a blue coat", "is dressed in blue", "has a blue coat on"),
        ("wears a green coat", "is dressed in green", "has a green coat on"),
        ("wears a white coat", "is dressed in white", "has a white coat on"),
    ),
    "mood": (
        ("looks happy", "is smiling", "seems glad"),
        ("looks sad", "is crying", "seems unhappy"),
        ("looks angry", "is shouting", "seems furious"),
        ("looks afraid", "is shaking", "seems scared"),
    ),
    "travel": (
        ("came by bus", "took the bus", "arrived on a bus"),
        ("came by train", "took the train", "arrived on a train"),
        ("came by boat", "took the boat", "arrived on a boat"),
        ("came by bike", "took the bike", "arrived on a bike"),
    ),
}
ENTAILMENT, NEUTRAL, CONTRADICTION = range(3)


class Kind(NamedTuple):
    """The shape of a pair: how it opens, whether a second fact stands by, whether words repeat."""

    opening: str
    extra: bool
    same_words: bool


def kind(rng: random.Random) -> Kind:
    """The shape of a pair; two in five are hearsay."""
    opening = rng.choice(list(HEARSAY)) if rng.random() < 0.4 else "The"
    return Kind(opening, rng.random() < 0.5, rng.random() < 0.5)


def pair(label: int, kind: Kind, rng: random.Random) -> Example:
    """One premise and hypothesis of this shape whose intended label is `label`."""
    person = rng.choice(PEOPLE)
    topic, second, absent = rng.sample(sorted(TOPICS), 3)
    stated, other = rng.sample(range(4), 2)
    said = rng.choice(TOPICS[topic][stated])
    if label == NEUTRAL:
        claim = rng.choice(rng.choice(TOPICS[absent]))
    elif label == ENTAILMENT:
        claim = said if kind.same_words else rng.choice(TOPICS[topic][stated])
    else:
        claim = rng.choice(TOPICS[topic][other])
    facts = [said]
    if kind.extra:
        facts.insert(rng.randrange(2), rng.choice(rng.choice(TOPICS[second])))
    look = rng.choice(LOOKS) + " " if rng.random() < 0.3 else ""
    chances = [NOISE / 2] * 3
    chances[label] = 1 - NOISE
    if kind.opening in HEARSAY and label != NEUTRAL:
        moved = (1 - HEARSAY[kind.opening]) * chances[label]
        chances[label] -= moved
        chances[NEUTRAL] += moved
    row = {
        "premise": f"{kind.opening} {look}{person} {' and '.join(facts)}.",
        "hypothesis": f"The {person} {claim}.",
    }
    pairs = tuple((person, phrase) for phrase in (*facts, claim))
    return Example(row, tuple(chances), pairs, 1 + kind.extra + (kind.opening in HEARSAY))
