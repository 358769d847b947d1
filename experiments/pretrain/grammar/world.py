"""People, topics and phrases, from which the tasks with two texts are generated.

A person has a value of every topic. There are three forms to state a value, and three to ask for a
topic. Two forms share no word, and in one form all values of a topic differ in a single word. So a
text shares as many words with its paraphrase as with its contradiction.
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
    """A topic's names in questions and phrases for its values, by form.

    `frames[form]` is a template, and `words[value][form]` is the word to insert.
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
CERTAIN = 0.94  # below 1, so that every label has a positive probability
HEDGES = {"": CERTAIN, "they say ": 0.78, "perhaps ": 0.64}
"""Opening -> probability that the label agrees with the words after the opening."""


class Fact(NamedTuple):
    """A value of a topic that holds for a person."""

    person: str
    topic: str
    value: int


def topics(person: str, test: bool) -> tuple[str, ...]:
    """Returns the topics of a person in this split; the other split has the other half."""
    return allowed(person, sorted(TOPICS), test)


def fact(person: str, topic: str, rng: random.Random) -> Fact:
    """Draws a fact about a person; all values are equally probable."""
    return Fact(person, topic, rng.randrange(VALUES))


def facts_of(person: str, topics: Sequence[str], rng: random.Random) -> list[Fact]:
    """Draws a fact about a person for each topic."""
    return [fact(person, topic, rng) for topic in topics]


def contradict(fact: Fact, rng: random.Random) -> Fact:
    """Draws another value of the same topic."""
    other_values = [number for number in range(VALUES) if number != fact.value]
    return fact._replace(value=rng.choice(other_values))


def distractor(person: str, main_person: str, rng: random.Random, test: bool) -> Fact:
    """Draws a fact about another person, on a topic that both people have if possible.

    The topic does not depend on the claim or question, because it would reveal the label otherwise.
    """
    own_topics = topics(person, test)
    shared_topics = [topic for topic in own_topics if topic in topics(main_person, test)]
    return fact(person, rng.choice(shared_topics or own_topics), rng)


def phrase(fact: Fact, form: int) -> str:
    """Formats a fact as a statement: `is sleeping`, `enjoys a nap` or `keeps dozing`."""
    topic = TOPICS[fact.topic]
    return topic.frames[form].format(topic.words[fact.value][form])


def phrases(facts: Sequence[Fact], form: int) -> str:
    """Joins the statements of several facts, all in one form."""
    return " and ".join(phrase(fact, form) for fact in facts)


def question(person: str, topics: Sequence[str], form: int) -> str:
    """Formats a question for a person's values of one or two topics."""
    names = " and ".join(TOPICS[topic].names[form] for topic in topics)
    return QUESTIONS[form].format(person=person, topic=names)


def forms(rng: random.Random) -> list[int]:
    """Shuffles the forms, so that compared texts get different forms."""
    return rng.sample(range(FORMS), FORMS)


class Structure(NamedTuple):
    """The plan of an example, drawn before its words and independently of its label.

    Attributes:
        hedge: The opening, which signals how reliable the text is.
        reliability: Probability that the label agrees with the words.
        extra_fact: Whether the text has a second fact.
        other_person: Whether the text has a second person.
    """

    hedge: str = ""
    reliability: float = CERTAIN
    extra_fact: bool = False
    other_person: bool = False

    @property
    def grade(self) -> int:
        """The difficulty from 1 to 3."""
        # Each source of difficulty adds one.
        return min(3, 1 + self.extra_fact + self.other_person + (self.reliability < CERTAIN))


def example(
    row: dict[str, str],
    label: int,
    labels: int,
    structure: Structure,
    pairs: tuple[tuple[str, str], ...],
) -> Example:
    """Builds an example; the intended label has the probability `structure.reliability`.

    The other labels share the rest equally.
    """
    other_share = (1 - structure.reliability) / (labels - 1)
    probabilities = [other_share] * labels
    probabilities[label] = structure.reliability
    return Example(row, tuple(probabilities), pairs, structure.grade)


def sentence(*texts: str) -> str:
    """Joins texts to a sentence with a capital letter and a period."""
    text = "".join(texts)
    return text[0].upper() + text[1:] + "."


def adjective(rng: random.Random) -> str:
    """Draws an adjective for a person with probability 0.3, else returns an empty text."""
    return rng.choice(ADJECTIVES) + " " if rng.random() < 0.3 else ""


def pairs(*facts: Fact) -> tuple[tuple[str, str], ...]:
    """Returns the word pair of each fact: the person and the topic (with all of its words)."""
    return tuple((fact.person, fact.topic) for fact in facts)


def sample_hedge(rng: random.Random, hedges: dict[str, float]) -> tuple[str, float]:
    """Draws a hedge and its reliability; with probability 0.4 it is less than certain."""
    certain, *uncertain = hedges  # the plain opening is first
    chosen = rng.choice(uncertain) if rng.random() < 0.4 else certain
    return chosen, hedges[chosen]
