"""Generates texts with claims or questions: mnli, cb, anli, rte, boolq and qnli.

The claim restates a fact of the text in other words (*entailment*), gives the person another value
of the topic (*contradiction*), or is about a topic that the text does not mention for that person
(*neutral*). Every claim is equally likely under all three relations, so a model needs both texts to
predict the label. After a hedge ("Perhaps ...") the label agrees less often with the words.
"""

import random
from typing import NamedTuple

from experiments.pretrain.grammar import world
from experiments.pretrain.grammar.sampling import Example
from experiments.pretrain.grammar.world import Structure

ENTAILMENT, NEUTRAL, CONTRADICTION = range(3)
COMMITMENT = {
    "the {} knows that ": world.CERTAIN, "the {} saw that ": world.CERTAIN,
    "the {} says that ": 0.78, "the {} guesses that ": 0.64,
}  # fmt: skip


class Premise(NamedTuple):
    """A text, a claim, and their word pairs."""

    text: str
    claim: str
    pairs: tuple[tuple[str, str], ...]


def sample_structure(extra_fact: float, other_person: float, rng: random.Random) -> Structure:
    """Samples a structure, with the probabilities of a second fact and of a second person."""
    hedge, reliability = world.sample_hedge(rng, world.HEDGES)
    return Structure(hedge, reliability, rng.random() < extra_fact, rng.random() < other_person)


def sample_commitment(rng: random.Random) -> Structure:
    """Samples a structure with an embedded clause; its verb sets the reliability."""
    certain = rng.random() < 0.6  # the same probability as in `world.sample_hedge`
    hedge = rng.choice(
        [verb for verb, often in COMMITMENT.items() if (often == world.CERTAIN) == certain]
    )
    return Structure(hedge, COMMITMENT[hedge], rng.random() < 0.5)


def premise(relation: int, structure: Structure, rng: random.Random, test: bool) -> Premise:
    """Generates a text of this structure, and a claim in this relation to the text."""
    person, witness, teller = rng.sample(world.PEOPLE, 3)
    # The topic of the main fact, of a second fact, and one that the text does not mention.
    topic, second, absent = rng.sample(world.topics(person, test), 3)
    text_form, other_form, claim_form = world.forms(rng)
    stated = world.fact(person, topic, rng)
    # All three claims are generated, so that the label does not change later random draws.
    claim = {
        ENTAILMENT: stated,
        NEUTRAL: world.fact(person, absent, rng),
        CONTRADICTION: world.contradict(stated, rng),
    }[relation]
    facts, phrases = [stated, claim], [world.phrase(stated, text_form)]
    if structure.extra_fact:
        facts.append(world.fact(person, second, rng))
        # Inserted before or after the first fact.
        phrases.insert(
            rng.randrange(2), world.phrase(facts[-1], rng.choice((text_form, other_form)))
        )
    clauses = [f"the {world.adjective(rng)}{person} {' and '.join(phrases)}"]
    if structure.other_person:
        facts.append(world.distractor(witness, person, rng, test))
        witness_phrase = world.phrase(facts[-1], rng.choice((text_form, other_form)))
        # Inserted before or after the clause of the first person.
        clauses.insert(rng.randrange(2), f"the {witness} {witness_phrase}")
    return Premise(
        world.sentence(structure.hedge.format(teller), " and ".join(clauses)),
        f"the {person} {world.phrase(claim, claim_form)}",
        world.pairs(*facts),  # includes the claim's pair
    )


def three(
    names: tuple[int, int, int], label: int, structure: Structure, rng: random.Random, test: bool
) -> Example:
    """Generates an example of mnli's schema; `names` holds the relation of each label."""
    pair = premise(names[label], structure, rng, test)
    row = {"premise": pair.text, "hypothesis": world.sentence(pair.claim)}
    return world.example(row, label, 3, structure, pair.pairs)


def rte(label: int, structure: Structure, rng: random.Random, test: bool) -> Example:
    """Generates an example of rte; label 1 is contradicted or neutral with equal probability."""
    # Label 0 is entailment.
    pair = premise(rng.choice((CONTRADICTION, NEUTRAL)) if label else 0, structure, rng, test)
    row = {"sentence1": pair.text, "sentence2": world.sentence(pair.claim)}
    return world.example(row, label, 2, structure, pair.pairs)


def boolq(label: int, structure: Structure, rng: random.Random, test: bool) -> Example:
    """Generates a passage and a question with the answer yes (label 1) or no."""
    pair = premise(ENTAILMENT if label else CONTRADICTION, structure, rng, test)
    row = {"passage": pair.text, "question": f"is it true that {pair.claim}"}
    return world.example(row, label, 2, structure, pair.pairs)


def qnli(label: int, structure: Structure, rng: random.Random, test: bool) -> Example:
    """Generates a question and a sentence that answers it (label 0) or is about another topic."""
    person, witness = rng.sample(world.PEOPLE, 2)
    topic, second, absent = rng.sample(world.topics(person, test), 3)
    stated_topics = (topic, second)[: 1 + structure.extra_fact]  # one or two
    facts = world.facts_of(person, stated_topics, rng)
    asked_topic = absent if label else topic
    rng.shuffle(facts)  # so that the position of the answer is not informative
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
