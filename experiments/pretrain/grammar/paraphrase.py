"""Generates pairs of texts that are paraphrases or not, in the schemas of mrpc and qqp."""

import random

from experiments.pretrain.grammar import world
from experiments.pretrain.grammar.sampling import Example
from experiments.pretrain.grammar.world import Structure

HEDGES = {"": world.CERTAIN, "roughly put: ": 0.78, "in a way: ": 0.64}


def sample_structure(rng: random.Random) -> Structure:
    """Samples the structure of two sentences."""
    hedge, reliability = world.sample_hedge(rng, HEDGES)
    return Structure(hedge, reliability, rng.random() < 0.5)


def mrpc(label: int, structure: Structure, rng: random.Random, test: bool) -> Example:
    """Generates a sentence and its paraphrase (label 1), or a sentence with a different fact."""
    person = rng.choice(world.PEOPLE)
    # One or two topics, and another one for a wrong fact.
    *topics, strange = rng.sample(world.topics(person, test), 2 + structure.extra_fact)
    facts = world.facts_of(person, topics, rng)
    restated_facts = list(facts)
    if not label:
        at = rng.randrange(len(restated_facts))
        # Another topic, or another value of the same topic.
        wrong = world.fact(person, strange, rng), world.contradict(restated_facts[at], rng)
        restated_facts[at] = rng.choice(wrong)
    first_form, second_form, _ = world.forms(rng)
    rng.shuffle(restated_facts)  # so that the order of facts is not informative
    first_phrase = world.phrases(facts, first_form)
    second_phrase = world.phrases(restated_facts, second_form)
    row = {
        "sentence1": world.sentence(f"the {world.adjective(rng)}{person} {first_phrase}"),
        "sentence2": world.sentence(structure.hedge, f"the {person} {second_phrase}"),
    }
    return world.example(row, label, 2, structure, world.pairs(*facts, *restated_facts))


def qqp(label: int, structure: Structure, rng: random.Random, test: bool) -> Example:
    """Generates two questions about a person that ask for the same topics (label 1) or not."""
    person = rng.choice(world.PEOPLE)
    topics = world.topics(person, test)
    first_topics = rng.sample(topics, 1 + structure.extra_fact)
    second_topics = list(first_topics)
    if not label:
        unasked = [topic for topic in topics if topic not in first_topics]
        # Two lines fix the order of the random draws: the topic first, then its index.
        wrong_topic = rng.choice(unasked)
        second_topics[rng.randrange(len(second_topics))] = wrong_topic
    rng.shuffle(second_topics)
    first_form, second_form, _ = world.forms(rng)
    second = world.question(person, second_topics, second_form)
    if structure.hedge:
        second = structure.hedge[0].upper() + structure.hedge[1:] + second[0].lower() + second[1:]
    row = {"question1": world.question(person, first_topics, first_form), "question2": second}
    pairs = tuple((person, topic) for topic in (*first_topics, *second_topics))
    return world.example(row, label, 2, structure, pairs)
