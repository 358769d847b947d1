"""Two texts that mean the same or not, in the schemas of mrpc, qqp and qnli."""

import random

from batch_calibration.embedded import world
from batch_calibration.embedded.chance import Example
from batch_calibration.embedded.world import Kind

VAGUE = {"": world.SURE, "roughly put: ": 0.78, "in a way: ": 0.64}


def retelling(rng: random.Random) -> Kind:
    """The shape of two sentences."""
    opening, trust = world.doubt(rng, VAGUE)
    return Kind(opening, trust, rng.random() < 0.5)


def mrpc(label: int, kind: Kind, rng: random.Random, test: bool) -> Example:
    """A sentence and its retelling: all of it in other words, label 1, or one fact another."""
    person = rng.choice(world.PEOPLE)
    *topics, strange = rng.sample(world.topics(person, test), 2 + kind.extra)
    facts = [world.fact(person, topic, rng) for topic in topics]
    told = list(facts)
    if not label:
        at = rng.randrange(len(told))
        told[at] = rng.choice((world.fact(person, strange, rng), world.denied(told[at], rng)))
    said, other, _ = world.forms(rng)
    rng.shuffle(told)
    first = " and ".join(world.phrase(one, said) for one in facts)
    again = " and ".join(world.phrase(one, other) for one in told)
    row = {
        "sentence1": world.sentence(f"the {world.look(rng)}{person} {first}"),
        "sentence2": world.sentence(kind.opening, f"the {person} {again}"),
    }
    chances = world.believed(label, 2, kind.trust)
    return Example(row, chances, world.pairs(*facts, *told), kind.grade)


def qqp(label: int, kind: Kind, rng: random.Random, test: bool) -> Example:
    """Two questions about a person that ask for the same topics, label 1, or not."""
    person = rng.choice(world.PEOPLE)
    topics = world.topics(person, test)
    asked = rng.sample(topics, 1 + kind.extra)
    again = list(asked)
    if not label:
        again[rng.randrange(len(again))] = rng.choice([t for t in topics if t not in asked])
    rng.shuffle(again)
    said, other, _ = world.forms(rng)
    second = world.question(person, again, other)
    if kind.opening:
        second = kind.opening[0].upper() + kind.opening[1:] + second[0].lower() + second[1:]
    row = {"question1": world.question(person, asked, said), "question2": second}
    pairs = tuple((person, topic) for topic in (*asked, *again))
    return Example(row, world.believed(label, 2, kind.trust), pairs, kind.grade)


def qnli(label: int, kind: Kind, rng: random.Random, test: bool) -> Example:
    """A question and a sentence that answers it, label 0, or speaks of something else."""
    person, witness = rng.sample(world.PEOPLE, 2)
    topic, second, absent = rng.sample(world.topics(person, test), 3)
    facts = [world.fact(person, one, rng) for one in (topic, second)[: 1 + kind.extra]]
    asked = absent if label else topic
    rng.shuffle(facts)
    phrases = [world.phrase(one, rng.randrange(world.FORMS)) for one in facts]
    clauses = [f"the {world.look(rng)}{person} {' and '.join(phrases)}"]
    if kind.other:
        facts.append(world.aside(witness, person, rng, test))
        told = world.phrase(facts[-1], rng.randrange(world.FORMS))
        clauses.insert(rng.randrange(2), f"the {witness} {told}")
    row = {"question": world.question(person, [asked], rng.randrange(world.FORMS)),
           "sentence": world.sentence(kind.opening, " and ".join(clauses))}  # fmt: skip
    chances = world.believed(label, 2, kind.trust)
    pairs = (*world.pairs(*facts), (person, asked))
    return Example(row, chances, pairs, kind.grade)
