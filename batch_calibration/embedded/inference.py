"""A text and a claim about it, in the schemas of mnli, cb, anli, rte and boolq.

The claim restates a fact of the text in other words (*entailment*), gives the person another
value of its topic (*contradiction*), or speaks of a topic the text leaves out for that person
(*neutral*). Every claim can follow, conflict or stand apart, with equal chances, so neither text
alone tells the label. After hearsay ("Perhaps ...") a label is less often what the words say.
"""

import random
from typing import NamedTuple

from batch_calibration.embedded import world
from batch_calibration.embedded.chance import Example
from batch_calibration.embedded.world import Kind

ENTAILMENT, NEUTRAL, CONTRADICTION = range(3)
COMMITMENT = {
    "the {} knows that ": world.SURE, "the {} saw that ": world.SURE,
    "the {} says that ": 0.78, "the {} guesses that ": 0.64,
}  # fmt: skip


class Premise(NamedTuple):
    """A text, a claim, and the words that meet in them."""

    text: str
    claim: str
    pairs: tuple[tuple[str, str], ...]


def kind(extra: float, other: float, rng: random.Random) -> Kind:
    """The shape of a pair; the chances of a second fact and of a second person are the task's."""
    opening, trust = world.doubt(rng, world.HEARSAY)
    return Kind(opening, trust, rng.random() < extra, rng.random() < other)


def committed(rng: random.Random) -> Kind:
    """The shape of a clause inside a sentence, whose verb says how far to believe it."""
    sure = rng.random() < 0.6
    opening = rng.choice(
        [verb for verb, trust in COMMITMENT.items() if (trust == world.SURE) == sure]
    )
    return Kind(opening, COMMITMENT[opening], rng.random() < 0.5)


def premise(relation: int, kind: Kind, rng: random.Random, test: bool) -> Premise:
    """A text of this shape and a claim that stands in this relation to it."""
    person, witness, teller = rng.sample(world.PEOPLE, 3)
    topic, second, absent = rng.sample(world.topics(person, test), 3)
    said, other, claimed = world.forms(rng)
    stated = world.fact(person, topic, rng)
    claim = {
        ENTAILMENT: stated,
        NEUTRAL: world.fact(person, absent, rng),
        CONTRADICTION: world.denied(stated, rng),
    }[relation]
    facts, phrases = [stated, claim], [world.phrase(stated, said)]
    if kind.extra:
        facts.append(world.fact(person, second, rng))
        phrases.insert(rng.randrange(2), world.phrase(facts[-1], rng.choice((said, other))))
    clauses = [f"the {world.look(rng)}{person} {' and '.join(phrases)}"]
    if kind.other:
        facts.append(world.aside(witness, person, rng, test))
        told = world.phrase(facts[-1], rng.choice((said, other)))
        clauses.insert(rng.randrange(2), f"the {witness} {told}")
    return Premise(
        world.sentence(kind.opening.format(teller), " and ".join(clauses)),
        f"the {person} {world.phrase(claim, claimed)}",
        world.pairs(*facts),
    )


def three(
    names: tuple[int, int, int], label: int, kind: Kind, rng: random.Random, test: bool
) -> Example:
    """A pair in the schema of mnli; `names` are the relations in the task's order of labels."""
    made = premise(names[label], kind, rng, test)
    row = {"premise": made.text, "hypothesis": world.sentence(made.claim)}
    return Example(row, world.believed(label, 3, kind.trust), made.pairs, kind.grade)


def rte(label: int, kind: Kind, rng: random.Random, test: bool) -> Example:
    """A pair of rte: what is not entailed is denied or not spoken of, with equal chances."""
    made = premise(rng.choice((CONTRADICTION, NEUTRAL)) if label else 0, kind, rng, test)
    row = {"sentence1": made.text, "sentence2": world.sentence(made.claim)}
    return Example(row, world.believed(label, 2, kind.trust), made.pairs, kind.grade)


def boolq(label: int, kind: Kind, rng: random.Random, test: bool) -> Example:
    """A passage and a question that it answers with yes, label 1, or no."""
    made = premise(ENTAILMENT if label else CONTRADICTION, kind, rng, test)
    row = {"passage": made.text, "question": f"is it true that {made.claim}"}
    return Example(row, world.believed(label, 2, kind.trust), made.pairs, kind.grade)
