"""People, topics and phrases of which the tasks with two texts are made.

A person has a value of every topic. A value can be said in three forms, and a topic asked for in
three. Two forms share no word, and form by form all values are built of the same small words: a
text and its restatement therefore have exactly as many words in common as a text and its denial.
"""

import random
from collections.abc import Sequence
from typing import NamedTuple

from experiments.pretrain.grammar.sampling import Example, allowed

PEOPLE = [
    "man", "woman", "boy", "girl", "teacher", "doctor", "farmer", "singer", "painter", "nurse",
    "driver", "student", "baker", "sailor", "tailor", "lawyer", "pilot", "writer", "dancer",
    "guard",
]  # fmt: skip
ADJECTIVES = ["old", "young", "tall", "quiet", "busy", "friendly", "tired", "clever"]
FORMS = 3


class Topic(NamedTuple):
    """A topic's names in questions, and how its values are said, form by form.

    `frames[form]` is a frame, `words[value][form]` what is filled into it.
    """

    names: tuple[str, str, str]
    frames: tuple[str, str, str]
    words: tuple[tuple[str, str, str], ...]


TOPICS = {
    "deed": Topic(
        ("activity", "pastime", "occupation"), ("is {}", "enjoys a {}", "keeps {}"),
        (("sleeping", "nap", "dozing"), ("running", "jog", "racing"),
         ("eating", "meal", "dining"), ("reading", "novel", "studying")),
    ),
    "home": Topic(
        ("nationality", "origin", "homeland"), ("is {}", "rents a {} flat", "comes from {}"),
        (("French", "Paris", "Lyon"), ("Italian", "Rome", "Naples"),
         ("Japanese", "Tokyo", "Kyoto"), ("Egyptian", "Cairo", "Luxor")),
    ),
    "mood": Topic(
        ("mood", "emotion", "temper"), ("is {}", "shows a {}", "feels {}"),
        (("happy", "smile", "glad"), ("sad", "tear", "gloomy"),
         ("angry", "scowl", "furious"), ("afraid", "shiver", "scared")),
    ),
    "pet": Topic(
        ("pet", "animal", "companion"), ("is fond of {}", "owns a {}", "feeds {}"),
        (("dogs", "puppy", "hounds"), ("cats", "kitten", "felines"),
         ("horses", "pony", "mares"), ("birds", "parrot", "pigeons")),
    ),
    "travel": Topic(
        ("vehicle", "transport", "journey"), ("is on {}", "books a {}", "travels by {}"),
        (("trains", "sleeper", "rail"), ("ships", "cabin", "sea"),
         ("planes", "flight", "air"), ("buses", "coach", "road")),
    ),
    "color": Topic(
        ("color", "shade", "hue"), ("is dressed in {}", "wears a {} coat", "likes {} shirts"),
        (("red", "crimson", "scarlet"), ("blue", "navy", "azure"),
         ("green", "lime", "olive"), ("white", "cream", "snowy")),
    ),
}  # fmt: skip
VALUES = 4
QUESTIONS = ("Which {topic} does the {person} have?", "What is known of {topic} for the {person}?",
             "Tell us about the {person} and {topic}?")  # fmt: skip
CERTAIN = 0.94  # less than 1: every label is drawn
HEDGES = {"": CERTAIN, "they say ": 0.78, "perhaps ": 0.64}
"""Openings, and how often a label is what the words after them say."""


class Fact(NamedTuple):
    """A value of a topic that holds for a person."""

    person: str
    topic: str
    value: int


def topics(person: str, test: bool) -> tuple[str, ...]:
    """Topics of a person in this split; the other split has the other half."""
    return allowed(person, sorted(TOPICS), test)


def fact(person: str, topic: str, rng: random.Random) -> Fact:
    """A fact about a person, every value with the same chance."""
    return Fact(person, topic, rng.randrange(VALUES))


def facts_of(person: str, topics: Sequence[str], rng: random.Random) -> list[Fact]:
    """A fact about a person for each topic."""
    return [fact(person, topic, rng) for topic in topics]


def contradict(fact: Fact, rng: random.Random) -> Fact:
    """Another value of the same topic."""
    other_values = [number for number in range(VALUES) if number != fact.value]
    return fact._replace(value=rng.choice(other_values))


def distractor(person: str, main_person: str, rng: random.Random, test: bool) -> Fact:
    """A fact about another person, of a topic both may have if there is one.

    Which of them it is does not depend on what is claimed or asked: else it would tell the label.
    """
    own_topics = topics(person, test)
    shared_topics = [topic for topic in own_topics if topic in topics(main_person, test)]
    return fact(person, rng.choice(shared_topics or own_topics), rng)  # else they share none


def phrase(fact: Fact, form: int) -> str:
    """A statement on the person: `is sleeping`, `enjoys a nap` or `keeps dozing`."""
    topic = TOPICS[fact.topic]
    return topic.frames[form].format(topic.words[fact.value][form])


def phrases(facts: Sequence[Fact], form: int) -> str:
    """Statements of several facts on the person, all in one form."""
    return " and ".join(phrase(fact, form) for fact in facts)


def question(person: str, topics: Sequence[str], form: int) -> str:
    """A question for a person's values of one or two topics."""
    names = " and ".join(TOPICS[topic].names[form] for topic in topics)
    return QUESTIONS[form].format(person=person, topic=names)


def forms(rng: random.Random) -> list[int]:
    """The forms in random order: texts that are compared take different ones."""
    return rng.sample(range(FORMS), FORMS)


class Structure(NamedTuple):
    """The plan of an example, drawn before its words and independently of its label.

    Attributes:
        hedge: The words it opens with, which tell how reliable the text is.
        reliability: How often the label is what the words say.
        extra_fact: Whether there is a second fact.
        other_person: Whether there is a second person.
    """

    hedge: str = ""
    reliability: float = CERTAIN
    extra_fact: bool = False
    other_person: bool = False

    @property
    def grade(self) -> int:
        """The difficulty, 1 to 3."""
        # Each difficulty adds one.
        return min(3, 1 + self.extra_fact + self.other_person + (self.reliability < CERTAIN))


def example(
    row: dict[str, str],
    label: int,
    labels: int,
    structure: Structure,
    pairs: tuple[tuple[str, str], ...],
) -> Example:
    """An example whose label is as intended as often as its structure is reliable.

    The other labels share the rest.
    """
    other_share = (1 - structure.reliability) / (labels - 1)
    probabilities = [other_share] * labels
    probabilities[label] = structure.reliability
    return Example(row, tuple(probabilities), pairs, structure.grade)


def sentence(*texts: str) -> str:
    """Words put together, with a capital and a full stop."""
    text = "".join(texts)
    return text[0].upper() + text[1:] + "."


def adjective(rng: random.Random) -> str:
    """A word about somebody, three times in ten."""
    return rng.choice(ADJECTIVES) + " " if rng.random() < 0.3 else ""


def pairs(*facts: Fact) -> tuple[tuple[str, str], ...]:
    """The word pairs of these facts: a person and a topic, with all that is said of it."""
    return tuple((fact.person, fact.topic) for fact in facts)


def sample_hedge(rng: random.Random, hedges: dict[str, float]) -> tuple[str, float]:
    """A hedge and its reliability; two in five are less than certain."""
    certain, *uncertain = hedges  # the plain opening stands first
    chosen = rng.choice(uncertain) if rng.random() < 0.4 else certain
    return chosen, hedges[chosen]
