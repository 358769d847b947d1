"""Generates questions and sentences that answer them or not, in the schema of qnli."""

import random

from experiments.pretrain.grammar import world
from experiments.pretrain.grammar.sampling import Example
from experiments.pretrain.grammar.world import Structure


def qnli(label: int, structure: Structure, rng: random.Random, test: bool) -> Example:
    """A question and a sentence that answers it, label 0, or speaks of something else."""
    person, witness = rng.sample(world.PEOPLE, 2)
    topic, second, absent = rng.sample(world.topics(person, test), 3)
    stated_topics = (topic, second)[: 1 + structure.extra_fact]  # one or two
    facts = [world.fact(person, stated, rng) for stated in stated_topics]
    asked_topic = absent if label else topic
    rng.shuffle(facts)  # so that the answer's place tells nothing
    phrases = [world.phrase(stated, rng.randrange(world.FORMS)) for stated in facts]
    clauses = [f"the {world.adjective(rng)}{person} {' and '.join(phrases)}"]
    if structure.other_person:
        facts.append(world.distractor(witness, person, rng, test))
        witness_phrase = world.phrase(facts[-1], rng.randrange(world.FORMS))
        clauses.insert(rng.randrange(2), f"the {witness} {witness_phrase}")
    row = {"question": world.question(person, [asked_topic], rng.randrange(world.FORMS)),
           "sentence": world.sentence(structure.hedge, " and ".join(clauses))}  # fmt: skip
    pairs = (*world.pairs(*facts), (person, asked_topic))
    return world.example(row, label, 2, structure, pairs)
