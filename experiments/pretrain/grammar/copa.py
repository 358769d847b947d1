"""Generates premises, each with two possible effects, in the schema of copa."""

import random

from experiments.pretrain.grammar import world
from experiments.pretrain.grammar.sampling import Example, allowed
from experiments.pretrain.grammar.world import Structure

HEDGES = {"": world.CERTAIN, "strangely , ": 0.78, "in a dream , ": 0.64}
"""Opening -> probability that the usual effect follows; otherwise the other effect follows."""
SCRIPTS = {
    "hunger": (("was hungry", "had missed lunch", "wanted food"),
               ("cooked dinner", "ordered pizza", "ate soup")),
    "thirst": (("was thirsty", "had a dry throat", "ran out of water"),
               ("drank juice", "filled a glass", "bought lemonade")),
    "rain": (("got caught in a storm", "heard thunder", "saw dark clouds"),
             ("opened an umbrella", "put on boots", "ran for shelter")),
    "cold": (("began to freeze", "sat in the snow", "came out without a scarf"),
             ("lit the stove", "wrapped up in a blanket", "turned the heating up")),
    "night": (("yawned at midnight", "had worked until late", "was sleepy"),
              ("went to bed", "lay down on the pillow", "switched off the lamp")),
    "dirt": (("fell into the mud", "spilled ink", "stained the carpet"),
             ("took a bath", "fetched soap", "washed the clothes")),
    "illness": (("caught the flu", "had a fever", "coughed badly"),
                ("called the clinic", "swallowed a pill", "saw the nurse")),
    "birthday": (("turned thirty", "was invited to a party", "remembered an anniversary"),
                 ("blew out candles", "wrapped a present", "bought balloons")),
    "crash": (("hit a tree with the car", "had a flat tire", "heard the engine smoke"),
              ("called a mechanic", "waited for a tow truck", "paid for repairs")),
    "money": (("won the lottery", "inherited a fortune", "found gold"),
              ("became rich", "moved into a mansion", "retired early")),
}  # fmt: skip


def sample_structure(rng: random.Random) -> Structure:
    """Samples a hedge and its reliability; with a hedge, the grade is 2."""
    hedge, reliability = world.sample_hedge(rng, HEDGES)
    return Structure(hedge, reliability)


def copa(label: int, structure: Structure, rng: random.Random, test: bool) -> Example:
    """Generates a premise and two choices; the choice at index `label` is its usual effect."""
    person = rng.choice(world.PEOPLE)
    # Only scripts that the split allows for this person.
    script, wrong = rng.sample(allowed(person, sorted(SCRIPTS), test), 2)
    # Label 1: the second choice follows.
    first, second = (wrong, script) if label else (script, wrong)
    event = rng.choice(SCRIPTS[script][0])
    choices = [rng.choice(SCRIPTS[name][1]) for name in (first, second)]
    row = {
        "premise": world.sentence(structure.hedge, f"the {person} {event}"),
        "choice1": world.sentence(f"the {person} {choices[0]}"),
        "choice2": world.sentence(f"the {person} {choices[1]}"),
    }
    # The wrong script is a word pair, too, because it also reveals the label.
    pairs = ((person, script), (person, wrong))
    return world.example(row, label, 2, structure, pairs)
