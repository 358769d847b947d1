"""Generates documents outside the tasks, from which a model learns which words are synonyms.

Prose has paraphrases, questions with answers, events with consequences, and pairs of uses of a word
in one sense. A thesaurus lists pairs of words or phrases with a label that shows whether they mean
the same, about every six tokens. Topics show labeled facts with drawn label words. Copies repeat
lists of words.
"""

import random
from collections.abc import Callable
from typing import NamedTuple

from batch_calibration.scoring.embedded import label_words
from experiments.pretrain.grammar import world
from experiments.pretrain.grammar.copa import SCRIPTS
from experiments.pretrain.grammar.sampling import allowed
from experiments.pretrain.grammar.wic import SENSES


class Span(NamedTuple):
    """The character range of a label, or of words that follow from the text before them.

    Attributes:
        begin: Index of the first character.
        stop: Index after the last character.
        label: The label's index in the document, or -1 for a span without a label.
        known: True if the span can be predicted from the text before it.
    """

    begin: int
    stop: int
    label: int = -1
    known: bool = True


def passage(rng: random.Random, most: int) -> tuple[str, list[Span]]:
    """Generates at most `most` lines of one kind, and the spans of their predictable endings."""
    line = rng.choices((retold, answered, asked_again, followed, used), (4, 2, 1, 2, 2))[0]
    text, spans = "", list[Span]()
    for _ in range(rng.randint(1, most)):
        opening, ending = line(rng)
        text += ("\n" if text else "") + opening
        spans.append(Span(len(text), len(text) + len(ending)))  # the opening is not predictable
        text += ending
    return text, spans


def retold(rng: random.Random) -> tuple[str, str]:
    """Generates one or two facts and their paraphrase, or (one time in four) their repetition."""
    person, (first_form, other_form, _) = rng.choice(world.PEOPLE), world.forms(rng)
    # Without the word pairs that are held out for the test rows.
    topics = rng.sample(world.topics(person, test=False), rng.randint(1, 2))
    facts = world.facts_of(person, topics, rng)
    link, form = ("Again", first_form) if rng.random() < 0.25 else ("In other words", other_form)
    first, repeated = world.phrases(facts, first_form), world.phrases(facts, form)
    return f"The {person} {first}. {link}: the {person}", f" {repeated}."


def answered(rng: random.Random) -> tuple[str, str]:
    """Generates a question and its answer."""
    person = rng.choice(world.PEOPLE)
    fact = world.fact(person, rng.choice(world.topics(person, test=False)), rng)
    question = world.question(person, [fact.topic], rng.randrange(world.FORMS))
    return f"{question} The {person}", f" {world.phrase(fact, rng.randrange(world.FORMS))}."


def asked_again(rng: random.Random) -> tuple[str, str]:
    """Generates a question and its paraphrase."""
    person, (first_form, other_form, _) = rng.choice(world.PEOPLE), world.forms(rng)
    topics = rng.sample(world.topics(person, test=False), rng.randint(1, 2))
    return (
        f"{world.question(person, topics, first_form)} In other words:",
        f" {world.question(person, topics, other_form)}",
    )


def followed(rng: random.Random) -> tuple[str, str]:
    """Generates an event and its consequence."""
    person = rng.choice(world.PEOPLE)
    events, outcomes = SCRIPTS[rng.choice(allowed(person, sorted(SCRIPTS), test=False))]
    return f"The {person} {rng.choice(events)}. So the {person}", f" {rng.choice(outcomes)}."


def used(rng: random.Random) -> tuple[str, str]:
    """Generates two uses of a word in one sense."""
    ambiguous = rng.choice(sorted(SENSES))
    first_person, second_person = rng.sample(allowed(ambiguous, world.PEOPLE, test=False), 2)
    first_use, second_use = rng.sample(rng.choice(SENSES[ambiguous]), 2)
    return f"{ambiguous}: The {first_person} {first_use}. The {second_person}", f" {second_use}."


SAME, OTHER, APART = "same", "different", "unrelated"


def thesaurus(rng: random.Random, most: int) -> tuple[str, list[Span]]:
    """Generates at most `most` entries, and the character spans of their relations."""
    draw_entry = rng.choices((_words, _uses, _events), (6, 1, 1))[0]
    text, spans = "", list[Span]()
    for _ in range(rng.randint(1, most)):
        (left_term, right_term), relation = draw_entry(rng)
        text += ("\n" if text else "") + f"{left_term} , {right_term} :"
        spans.append(Span(len(text), len(text) + len(relation) + 1))  # 1 for the space
        text += " " + relation
    return text, spans


def _words(rng: random.Random) -> tuple[tuple[str, str], str]:
    relation = rng.choices((SAME, OTHER, APART), (2, 1, 1))[0]
    topics = rng.sample(sorted(world.TOPICS), 2)
    meaning_a, *other_meanings = rng.sample(range(world.VALUES), world.VALUES)
    meaning_b = meaning_a if relation == SAME else rng.choice(other_meanings)
    # Unrelated words come from two topics.
    left_term = rng.choice(world.TOPICS[topics[0]].words[meaning_a])
    right_term = rng.choice(world.TOPICS[topics[relation == APART]].words[meaning_b])
    return (left_term, right_term), relation


def _uses(rng: random.Random) -> tuple[tuple[str, str], str]:
    relation = rng.choice((SAME, OTHER))
    senses = rng.sample(rng.choice(sorted(SENSES.values())), 2)
    left_use, right_use = rng.sample(senses[0], 2) if relation == SAME else map(rng.choice, senses)
    return (left_use, right_use), relation


def _events(rng: random.Random) -> tuple[tuple[str, str], str]:
    relation = rng.choice((SAME, OTHER))
    first, second = rng.sample(sorted(SCRIPTS), 2)
    outcome = SCRIPTS[first if relation == SAME else second][1]
    return (rng.choice(SCRIPTS[first][0]), rng.choice(outcome)), relation


ASK = ("Text: {}\nLabel:", "Sentence: {}\nAnswer:", "{}\nWord:", "Review: {}\nAnswer:")


def topics(rng: random.Random, most: int) -> tuple[str, list[Span]]:
    """Generates at most `2 * most` facts, each labeled with a word drawn for its topic."""
    kinds = rng.sample(sorted(world.TOPICS), rng.randint(2, len(world.TOPICS)))
    label_names = rng.sample(label_words.TRAINING, len(kinds))
    ask, seen_labels = rng.choice(ASK), set[int]()
    text, spans = "", list[Span]()
    for _ in range(rng.randint(1, 2 * most)):
        label = rng.randrange(len(kinds))
        person = rng.choice(world.PEOPLE)
        fact = world.fact(person, kinds[label], rng)
        line = f"The {person} {world.phrase(fact, rng.randrange(world.FORMS))}."
        text += ("\n\n" if text else "") + ask.format(line)
        stop = len(text) + len(label_names[label]) + 1
        spans.append(Span(len(text), stop, label, label in seen_labels))  # known after first use
        text += " " + label_names[label]
        seen_labels.add(label)
    return text, spans


def copies(rng: random.Random, most: int) -> tuple[str, list[Span]]:
    """Generates at most `most` lists of words, each written twice."""
    text, spans = "", list[Span]()
    for _ in range(rng.randint(1, most)):
        listed = rng.sample(label_words.TRAINING, rng.randint(3, 10))
        text += "\n\n" if text else ""
        for is_repeated in (False, True):
            for label, listed_word in enumerate(listed):
                text_of_word = f" {listed_word}"
                is_known = is_repeated and label > 0
                spans.append(Span(len(text), len(text) + len(text_of_word), label, is_known))
                text += text_of_word
            text += "" if is_repeated else "\n"
    return text, spans


Write = Callable[[random.Random, int], tuple[str, list[Span]]]
GENERATORS: dict[str, Write] = {
    "prose": passage, "thesaurus": thesaurus, "topics": topics, "copies": copies,
}  # fmt: skip
"""Name in a mix -> generator of the text: `(generator, most)` -> text and spans."""
