"""Something that happened and two things that may follow, in the schema of copa."""

import random

from batch_calibration.embedded import world
from batch_calibration.embedded.chance import Example, partners
from batch_calibration.embedded.world import Kind

CHANCE = {"": world.SURE, "strangely , ": 0.78, "in a dream , ": 0.64}
"""Openings, and how likely the usual thing follows; else the other does."""
SCRIPTS = {
    "hunger": (
        ("was hungry", "had missed lunch", "wanted food"),
        ("cooked dinner", "ordered pizza", "ate soup"),
    ),
    "thirst": (
        ("was thirsty", "had a dry throat", "ran out of water"),
        ("drank juice", "filled a glass", "bought lemonade"),
    ),
    "rain": (
        ("got caught in a storm", "heard thunder", "saw dark clouds"),
        ("opened an umbrella", "put on boots", "ran for shelter"),
    ),
    "cold": (
        ("began to freeze", "sat in the snow", "came out without a scarf"),
        ("lit the stove", "wrapped up in a blanket", "turned the heating up"),
    ),
    "night": (
        ("yawned at midnight", "had worked until late", "was sleepy"),
        ("went to bed", "lay down on the pillow", "switched off the lamp"),
    ),
    "dirt": (
        ("fell into the mud", "spilled ink", "stained the carpet"),
        ("took a bath", "fetched soap", "washed the clothes"),
    ),
    "illness": (
        ("caught the flu", "had a fever", "coughed badly"),
        ("called the clinic", "swallowed a pill", "saw the nurse"),
    ),
    "birthday": (
        ("turned thirty", "was invited to a party", "remembered an anniversary"),
        ("blew out candles", "wrapped a present", "bought balloons"),
    ),
    "crash": (
        ("hit a tree with the car", "had a flat tire", "heard the engine smoke"),
        ("called a mechanic", "waited for a tow truck", "paid for repairs"),
    ),
    "money": (
        ("won the lottery", "inherited a fortune", "found gold"),
        ("became rich", "moved into a mansion", "retired early"),
    ),
}


def kind(rng: random.Random) -> Kind:
    """The shape: how usual a world it is. Grade 2 is one in which the unusual may happen."""
    opening, trust = world.doubt(rng, CHANCE)
    return Kind(opening, trust)


def copa(label: int, kind: Kind, rng: random.Random, test: bool) -> Example:
    """A premise and two choices, of which number `label` usually follows."""
    person = rng.choice(world.PEOPLE)
    script, wrong = rng.sample(partners(person, sorted(SCRIPTS), test), 2)
    first, second = (wrong, script) if label else (script, wrong)
    event = rng.choice(SCRIPTS[script][0])
    choices = [rng.choice(SCRIPTS[name][1]) for name in (first, second)]
    row = {
        "premise": world.sentence(kind.opening, f"the {person} {event}"),
        "choice1": world.sentence(f"the {person} {choices[0]}"),
        "choice2": world.sentence(f"the {person} {choices[1]}"),
    }
    pairs = ((person, script), (person, wrong))
    return Example(row, world.believed(label, 2, kind.trust), pairs, kind.grade)
