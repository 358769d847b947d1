"""Plain text, without labels: where a reader of the documents learns what means the same.

Things are said twice in other words, questions are asked and answered, events have consequences,
and a word's uses in one sense stand together.
"""

import random

from batch_calibration.mini import world
from batch_calibration.mini.causes import SCRIPTS
from batch_calibration.mini.chance import partners
from batch_calibration.mini.senses import SENSES

NAME = "prose"


def passage(rng: random.Random, test: bool = False) -> str:
    """Two to six lines of one kind."""
    line = rng.choices((retold, answered, asked_again, followed, used), (4, 2, 1, 2, 2))[0]
    return "\n".join(line(rng, test) for _ in range(rng.randint(2, 6)))


def retold(rng: random.Random, test: bool) -> str:
    """A fact or two, and the same in other words."""
    person, (said, other, _) = rng.choice(world.PEOPLE), world.forms(rng)
    topics = rng.sample(sorted(world.TOPICS), rng.randint(1, 2))
    facts = [world.fact(person, topic, rng, test) for topic in topics]
    first, again = (" and ".join(world.phrase(fact, form) for fact in facts)
                    for form in (said, other))  # fmt: skip
    return f"The {person} {first}. In other words: the {person} {again}."


def answered(rng: random.Random, test: bool) -> str:
    """A question and its answer."""
    fact = world.fact(rng.choice(world.PEOPLE), rng.choice(sorted(world.TOPICS)), rng, test)
    question = world.question(fact.person, [fact.topic], rng.randrange(world.FORMS))
    return f"{question} The {fact.person} {world.phrase(fact, rng.randrange(world.FORMS))}."


def asked_again(rng: random.Random, test: bool) -> str:
    """A question, and the same in other words."""
    person, (said, other, _) = rng.choice(world.PEOPLE), world.forms(rng)
    topics = rng.sample(partners(person, sorted(world.TOPICS), test), rng.randint(1, 2))
    return (
        f"{world.question(person, topics, said)} In other words: "
        f"{world.question(person, topics, other)}"
    )


def followed(rng: random.Random, test: bool) -> str:
    """What happened, and what came of it."""
    person = rng.choice(world.PEOPLE)
    events, outcomes = SCRIPTS[rng.choice(partners(person, sorted(SCRIPTS), test))]
    return f"The {person} {rng.choice(events)}. So the {person} {rng.choice(outcomes)}."


def used(rng: random.Random, test: bool) -> str:
    """Two uses of a word in one sense."""
    word = rng.choice(sorted(SENSES))
    one, other = rng.sample(partners(word, world.PEOPLE, test), 2)
    said, again = rng.sample(rng.choice(SENSES[word]), 2)
    return f"{word}: The {one} {said}. The {other} {again}."
