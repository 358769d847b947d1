"""Generates paraphrases and texts that are none, in the schemas of mrpc and qqp."""

import random

from experiments.pretrain.grammar import world
from experiments.pretrain.grammar.sampling import Example
from experiments.pretrain.grammar.world import Structure

HEDGES = {"": world.CERTAIN, "roughly put: ": 0.78, "in a way: ": 0.64}


def sample_structure(rng: random.Random) -> Structure:
    """Of two sentences."""
    hedge, reliability = world.sample_hedge(rng, HEDGES)
    return Structure(hedge, reliability, rng.random() < 0.5)


def mrpc(label: int, structure: Structure, rng: random.Random, test: bool) -> Example:
    """A sentence and its paraphrase, label 1, or one in which a fact differs."""
    person = rng.choice(world.PEOPLE)
    *topics, strange = rng.sample(world.topics(person, test), 2 + structure.extra_fact)
    facts = [world.fact(person, topic, rng) for topic in topics]
    told = list(facts)
    if not label:
        at = rng.randrange(len(told))
        told[at] = rng.choice((world.fact(person, strange, rng), world.contradict(told[at], rng)))
    said, other, _ = world.forms(rng)
    rng.shuffle(told)
    first = " and ".join(world.phrase(one, said) for one in facts)
    again = " and ".join(world.phrase(one, other) for one in told)
    row = {
        "sentence1": world.sentence(f"the {world.adjective(rng)}{person} {first}"),
        "sentence2": world.sentence(structure.hedge, f"the {person} {again}"),
    }
    return world.example(row, label, 2, structure, world.pairs(*facts, *told))


def qqp(label: int, structure: Structure, rng: random.Random, test: bool) -> Example:
    """Two questions about a person that ask for the same topics, label 1, or not."""
    person = rng.choice(world.PEOPLE)
    topics = world.topics(person, test)
    asked = rng.sample(topics, 1 + structure.extra_fact)
    again = list(asked)
    if not label:
        again[rng.randrange(len(again))] = rng.choice([t for t in topics if t not in asked])
    rng.shuffle(again)
    said, other, _ = world.forms(rng)
    second = world.question(person, again, other)
    if structure.hedge:
        second = structure.hedge[0].upper() + structure.hedge[1:] + second[0].lower() + second[1:]
    row = {"question1": world.question(person, asked, said), "question2": second}
    pairs = tuple((person, topic) for topic in (*asked, *again))
    return world.example(row, label, 2, structure, pairs)
