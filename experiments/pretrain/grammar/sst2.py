"""Generates review sentences in the schema of sst2: degrees of praise, negation, contrast.

Each word carries evidence in nats. The probability of the label *positive* is the logistic function
of a sentence's total evidence. With weak words, a model's bias can decide the answer.
"""

import math
import random

from experiments.pretrain.grammar.sampling import Example, allowed

CAP = 3.0  # nats; no label is more probable than 95 %
THINGS = [
    "film", "movie", "plot", "cast", "script", "acting", "dialogue", "story", "ending",
    "soundtrack", "director", "pacing", "humor", "camera", "performance", "score", "romance",
    "thriller", "comedy", "drama", "hero", "villain", "finale", "opening",
]  # fmt: skip
GOOD = (  # evidence in nats, and words that carry it
    (2.8, ["wonderful", "brilliant", "superb", "delightful", "stunning", "thrilling", "gripping",
           "inspired"]),
    (1.6, ["charming", "moving", "clever", "funny", "lovely", "witty", "elegant", "touching"]),
    (0.7, ["warm", "fresh", "honest", "graceful", "smart", "tender", "rich", "vivid", "simple",
           "serious", "wild"]),
)  # fmt: skip
BAD = (
    (2.8, ["awful", "dreadful", "terrible", "stupid", "pointless", "lifeless", "painful", "ugly"]),
    (1.6, ["boring", "dull", "clumsy", "shallow", "silly", "stale", "lazy", "tedious"]),
    (0.7, ["flat", "tired", "messy", "weak", "empty", "bland", "hollow", "strange", "long",
           "slow", "odd", "familiar"]),
)  # fmt: skip
# Degree word -> factor of the next word's evidence.
DEGREES = {"": 1.0, "very ": 1.4, "truly ": 1.4, "rather ": 0.6, "almost ": 0.6}
PRAISE = ["loved", "enjoyed", "admired", "adored"]
BLAME = ["hated", "disliked", "regretted", "endured"]


def sample_structure(rng: random.Random) -> str:
    """Samples the pattern of a sentence."""
    return rng.choices(("plain", "verb", "two", "not", "but", "though"), (5, 1, 2, 2, 2, 2))[0]


def sentence(label: int, structure: str, rng: random.Random, test: bool) -> Example:
    """Generates a review of this structure with the intended polarity `label`, 1 for positive."""
    good = label == 1
    noun, other_noun = rng.sample(THINGS, 2)
    # A negated sentence needs a word of the other polarity.
    weight, adjective = _word(good != (structure == "not"), noun, rng, test)
    pairs: tuple[tuple[str, str], ...] = ((noun, adjective),)
    degree = rng.choice(list(DEGREES)) if rng.random() < 0.5 else ""
    if structure == "plain":
        text = rng.choice((
            f"the {noun} is {degree}{adjective}", f"a {degree}{adjective} {noun}",
            f"this {noun} was {degree}{adjective}", f"what a {adjective} {noun}",
        ))  # fmt: skip
        evidence, grade = weight * DEGREES[degree], 1
    elif structure == "verb":
        verb = rng.choice(PRAISE if good else BLAME)
        text = rng.choice(
            (f"i {verb} the {adjective} {noun}", f"we {verb} this {adjective} {noun}")
        )
        evidence, grade = weight + 2.0, 1  # 2.0: the verb's evidence
    elif structure == "two":
        more, second = _word(good, other_noun, rng, test)
        text = f"the {noun} is {degree}{adjective} and the {other_noun} is {second}"
        pairs, evidence, grade = (*pairs, (other_noun, second)), weight * DEGREES[degree] + more, 1
    elif structure == "not":
        text = rng.choice((f"the {noun} is not {adjective}", f"the {noun} is never {adjective}"))
        evidence, grade = 0.7 * weight, 2  # negation weakens the evidence
    else:
        less, against = _word(not good, other_noun, rng, test)
        text = (
            f"the {other_noun} is {against} , but the {noun} is {degree}{adjective}"
            if structure == "but"
            else f"the {noun} is {degree}{adjective} , though the {other_noun} is {against}"
        )
        pairs, grade = (*pairs, (other_noun, against)), 3
        # The main clause outweighs the subordinate clause.
        evidence = weight * DEGREES[degree] + 0.8 - 0.5 * less
    likely = 1 / (1 + math.exp(-min(evidence, CAP)))
    probabilities = (1 - likely, likely) if good else (likely, 1 - likely)
    return Example({"sentence": text + " ."}, probabilities, pairs, grade)


def _word(good: bool, noun: str, rng: random.Random, test: bool) -> tuple[float, str]:
    """Draws the evidence and a word of this polarity; the three strengths are equally frequent."""
    weight, adjectives = rng.choice(GOOD if good else BAD)
    # One pair in four is held out for the test rows.
    return weight, rng.choice(allowed(noun, adjectives, test, share=4))
