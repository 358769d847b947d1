"""Generates pairs of sentences that use a word in the same sense or not, in the schema of wic."""

import random

from experiments.pretrain.grammar import world
from experiments.pretrain.grammar.sampling import Example, allowed
from experiments.pretrain.grammar.world import Structure

HEDGES = {"": world.CERTAIN, "in a riddle , ": 0.78, "as a joke , ": 0.64}
"""Opening -> probability that the label agrees with the senses of the two phrases."""
SENSES = {
    "bank": (("fished from the muddy bank", "rowed to the far bank", "rested on the grassy bank"),
             ("robbed the bank", "got a loan from the bank", "opened an account at the bank")),
    "bat": (("saw a bat fly at dusk", "found a bat in the cave", "feared the furry bat"),
            ("swung the bat", "hit the ball with a bat", "bought a wooden bat")),
    "spring": (("waited for spring after winter", "planted tulips in spring",
                "loved a warm spring"),
               ("bent the metal spring", "oiled the spring of the clock",
                "replaced a mattress spring")),
    "star": (("named a distant star", "watched a star through a telescope",
              "saw the brightest star"),
             ("met a movie star", "asked the star for an autograph", "photographed a rock star")),
    "nail": (("hammered a nail", "hung the picture on a nail", "stepped on a rusty nail"),
             ("painted a nail pink", "broke a nail on the left thumb", "filed the nail")),
    "match": (("struck a match", "burned the match", "lit the candle with a match"),
              ("won the match", "lost the final match", "bought tickets to a match")),
    "ring": (("wore a gold ring", "lost the wedding ring", "chose a ring with diamonds"),
             ("boxed in the ring", "was knocked out in the ring", "left the ring as champion")),
    "trunk": (("patted the elephant on its trunk", "drew a long trunk",
               "saw the trunk spray water"),
              ("packed the trunk", "locked a leather trunk", "loaded suitcases into the trunk")),
    "letter": (("mailed a letter", "put a stamp on the letter", "read the letter from home"),
               ("spelled the first letter", "wrote a capital letter", "typed the letter q")),
    "crane": (("saw a crane nest by the lake", "fed a white crane", "heard the crane call"),
              ("lifted beams with a crane", "drove the crane", "repaired the harbor crane")),
}  # fmt: skip


def sample_structure(rng: random.Random) -> Structure:
    """Samples a hedge, its reliability, and whether the sentences are about two people."""
    hedge, reliability = world.sample_hedge(rng, HEDGES)
    return Structure(hedge, reliability, other_person=rng.random() < 0.5)


def wic(label: int, structure: Structure, rng: random.Random, test: bool) -> Example:
    """Generates two uses of a word: in the same sense (label 1), or in two; never one use twice."""
    ambiguous = rng.choice(sorted(SENSES))
    person, witness = rng.sample(allowed(ambiguous, world.PEOPLE, test), 2)
    second = witness if structure.other_person else person
    sense = rng.randrange(2)  # either sense may come first
    first_use, second_use = rng.sample(range(3), 2)  # three uses of a sense
    second_phrase = SENSES[ambiguous][sense if label else 1 - sense][second_use]
    row = {
        "sentence1": world.sentence(f"the {person} {SENSES[ambiguous][sense][first_use]}"),
        "sentence2": world.sentence(structure.hedge, f"the {second} {second_phrase}"),
        "word": ambiguous,
    }
    pairs = ((ambiguous, person), (ambiguous, second))
    return world.example(row, label, 2, structure, pairs)
