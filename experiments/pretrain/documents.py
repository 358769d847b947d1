"""Generates the pretraining text: few-shot documents with statistics that cause label bias.

Label words differ in frequency, labels come in runs, a document prefers some of its labels, some
labels are wrong, and templates and label words vary. A model that predicts this text well prefers
some labels for any input. The bias comes from the text only; no score is modified.
"""

import math
import random
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from tokenizers import Tokenizer

from batch_calibration.scoring.embedded import label_words
from batch_calibration.scoring.prompts import template as templates
from batch_calibration.scoring.tasks.base import Task
from experiments.pretrain import prose
from experiments.pretrain.grammar.sampling import categorical
from experiments.pretrain.grammar.suite import labeled
from experiments.pretrain.prose import Span

END = "<|endoftext|>"

_INFERENCE = (
    "{premise}\nHypothesis: {hypothesis}\nAnswer: {label}",
    "{premise}\nQuestion: {hypothesis}\nAnswer: {label}",
    "Sentence 1: {premise}\nSentence 2: {hypothesis}\nLabel: {label}",
)
_THREE = (("true", "unclear", "false"), ("correct", "unknown", "incorrect"))
_NO_YES = (("false", "true"), ("incorrect", "correct"))
_YES_NO = (("true", "false"), ("correct", "incorrect"))
# Templates and label words of each task in addition to its own; words are in label order.
TEMPLATES = {
    "sst2": (
        "{sentence}\nSentiment: {label}",
        "Text: {sentence}\nLabel: {label}",
        "Review: {sentence}\nAnswer: {label}",
    ),
    **dict.fromkeys(("mnli", "cb", "anli_r1", "anli_r2", "anli_r3"), _INFERENCE),
    # RTE has ten templates in the paper. Training uses its own and these four; the other five are
    # held out.
    "rte": (
        "{sentence1}\nHypothesis: {sentence2}\nAnswer: {label}",
        "{sentence1}\nQuestion: {sentence2}\nAnswer: {label}",
        "Sentence 1: {sentence1}\nSentence 2: {sentence2}\nAnswer: {label}",
        "Premise: {sentence1}\nHypothesis: {sentence2}\nLabel: {label}",
    ),
    "qnli": (
        "{question}\n{sentence}\nAnswered: {label}",
        "Sentence: {sentence}\nQuestion: {question}\nAnswer: {label}",
    ),
    "mrpc": (
        "{sentence1}\n{sentence2}\nSame: {label}",
        "Text 1: {sentence1}\nText 2: {sentence2}\nAnswer: {label}",
    ),
    "qqp": (
        "{question1}\n{question2}\nSame: {label}",
        "Text 1: {question1}\nText 2: {question2}\nAnswer: {label}",
    ),
    "boolq": (
        "Passage: {passage}\nQuestion: {question}\nLabel: {label}",
        "{passage}\n{question}\nAnswer: {label}",
    ),
    "copa": (
        "{premise}\n1: {choice1}\n2: {choice2}\nLabel: {label}",
        "Text: {premise}\nChoice1: {choice1}\nChoice2: {choice2}\nChoice: {label}",
    ),
    "wic": (
        "{sentence1}\n{sentence2}\nWord: {word}\nSame: {label}",
        "Word: {word}\nText 1: {sentence1}\nText 2: {sentence2}\nAnswer: {label}",
    ),
}
VERBALIZERS = {
    "sst2": (("bad", "good"), ("terrible", "great")),
    "cb": (("true", "false", "unclear"), ("correct", "incorrect", "unknown")),
    **dict.fromkeys(("mnli", "anli_r1", "anli_r2", "anli_r3"), _THREE),
    **dict.fromkeys(("rte", "qnli"), _YES_NO),
    **dict.fromkeys(("mrpc", "qqp", "boolq"), _NO_YES),
    "copa": (("first", "second"), ("A", "B")),
    "wic": (("no", "yes"), ("incorrect", "correct")),
}
# Relative frequency of each label over all documents, the cause of common token bias.
FREQUENCIES = {
    "sst2": (0.35, 0.65),
    "cb": (0.45, 0.35, 0.2),
    **dict.fromkeys(("mnli", "anli_r1", "anli_r2", "anli_r3"), (0.45, 0.2, 0.35)),
    **dict.fromkeys(("rte", "qnli", "copa"), (0.6, 0.4)),
    **dict.fromkeys(("mrpc", "qqp", "boolq", "wic"), (0.4, 0.6)),
}


class Recipe(NamedTuple):
    """The distribution of the pretraining text, with the parameters that cause label bias.

    Attributes:
        mix: Names of tasks and of kinds of `prose`, with their shares of the documents.
        shots: A document of a task has at most `shots * labels + 1` examples; a document of prose
            has at most `4 * shots + 1` lines.
        hardest: The highest difficulty grade of an example.
        own_template: Probability of the task's own template.
        own_words: Probability of the task's own label words.
        concentration: Concentration of the Dirichlet distribution that gives each document its
            label preference: low values make strong preferences, infinity makes no preference
            beyond `FREQUENCIES` (majority label bias).
        skew: Exponent of `FREQUENCIES`: higher values make label frequencies more unequal
            (common token bias).
        sticky: Probability that a label repeats the one before it (recency bias).
        noise: Probability that a text is drawn independently of its label.
        likelier: Share of documents in which every text gets its more probable label.
        permuted_words: Probability that the label words are permuted, so that only the
            demonstrations show the label of each word.
        drawn_words: Probability that label words are drawn from `label_words.TRAINING` for the
            document. The first occurrence of a drawn word cannot be predicted, so it has no loss.
        reach: Number of positions. Half of the documents start at a random position within them, so
            that late positions are trained as well as early ones. 0: every document starts at the
            first position.
    """

    mix: tuple[tuple[str, float], ...]
    shots: int
    hardest: int = 3
    own_template: float = 0.65
    own_words: float = 0.75
    concentration: float = 2.0
    skew: float = 1.0
    sticky: float = 0.3
    noise: float = 0.0
    likelier: float = 0.0
    permuted_words: float = 0.0
    drawn_words: float = 0.0
    reach: int = 0


UNKNOWABLE = -2
"""Marks a token that cannot be predicted from the text before it, and so has no loss."""


class Document(NamedTuple):
    """A tokenized document, with the task and label of each label token.

    Attributes:
        tokens: Token ids.
        label: For each token of a label word, the number of the task or `UNKNOWABLE`; -1 for other
            tokens.
        named: For the first token of a label word, the label; -1 for other tokens.
        start: Position of the first token.
    """

    tokens: list[int]
    label: list[int]
    named: list[int]
    start: int = 0


def preference(task: str, recipe: Recipe, rng: random.Random) -> list[float]:
    """Draws a document's preference for each label, as weights that need not sum to one."""
    shares = [share**recipe.skew for share in FREQUENCIES[task]]
    if math.isinf(recipe.concentration):
        return shares
    total = sum(shares)
    # Gamma draws with shapes that sum to `concentration` are an unnormalized Dirichlet draw.
    return [rng.gammavariate(recipe.concentration * s / total, 1) + 1e-3 for s in shares]


def rename(
    label_texts: Sequence[str], recipe: Recipe, rng: random.Random
) -> tuple[Sequence[str], bool]:
    """Returns the document's label words, drawn, permuted or as given, and whether drawn."""
    # Without these options no random number is drawn, so that other draws do not change.
    kind = rng.random() if recipe.drawn_words or recipe.permuted_words else 1.0
    if kind < recipe.drawn_words:
        return rng.sample(label_words.TRAINING, len(label_texts)), True
    if kind < recipe.drawn_words + recipe.permuted_words:
        moved = rng.randrange(1, len(label_texts))  # a rotation: no word keeps its label
        return [*label_texts[moved:], *label_texts[:moved]], False
    return label_texts, False


def text(task: Task, recipe: Recipe, rng: random.Random) -> tuple[str, list[Span]]:
    """Generates one document, and returns its text and the spans of its labels."""
    # The demonstrations and the query, which is the last example.
    count = rng.randint(1, recipe.shots * len(task.label_names) + 1)
    template = rng.choice(TEMPLATES[task.name])
    label_words: Sequence[str] = rng.choice(VERBALIZERS[task.name])
    if zero := count == 1 and rng.random() < 0.7:
        template = task.zero_shot
    if rng.random() < recipe.own_template:
        template = task.zero_shot if zero else task.few_shot
    if rng.random() < recipe.own_words:
        label_words = task.label_words
    label_words, drawn = rename(label_words, recipe, rng)
    weights = preference(task.name, recipe, rng)
    likelier = recipe.likelier > 0 and rng.random() < recipe.likelier
    texts, spans, length, label = [], list[Span](), 0, categorical(weights, rng)
    for _ in range(count):
        if rng.random() >= recipe.sticky:  # else the previous label is repeated
            label = categorical(weights, rng)
        # The label that the text supports; noise makes it independent of the shown label.
        text_label = categorical(weights, rng) if rng.random() < recipe.noise else label
        example = labeled(task.name, rng, text_label, recipe.hardest, likelier)
        ask = templates.query(template, example.row)
        answer = templates.continuation(template, label_words[label])
        # A drawn label word can be predicted only after the document has shown it once.
        is_known = not drawn or any(span.label == label for span in spans)
        at = length + len(ask)
        spans.append(Span(at, at + len(answer), label, is_known))
        texts.append(ask + answer)
        length += len(texts[-1]) + 2  # the blank line between examples
    return "\n\n".join(texts), spans


class Written(NamedTuple):
    """A document: its task or kind of prose, its text, and the spans of its labels.

    In prose, the label spans are the words that follow from the text before them.
    """

    name: str
    text: str
    spans: list[Span]


def written(tasks: dict[str, Task], recipe: Recipe, rng: random.Random) -> Written:
    """Generates one document of the mix."""
    kinds, shares = zip(*recipe.mix, strict=True)
    (name,) = rng.choices(kinds, shares)
    if name in prose.GENERATORS:
        return Written(name, *prose.GENERATORS[name](rng, 4 * recipe.shots + 1))
    return Written(name, *text(tasks[name], recipe, rng))


def names(tasks: Iterable[str]) -> list[str]:
    """Lists the tasks, then the kinds of prose; `Document.label` holds indices into this list."""
    return [*tasks, *prose.GENERATORS]


def documents(
    tasks: dict[str, Task], recipe: Recipe, tokenizer: Tokenizer, rng: random.Random
) -> Iterator[Document]:
    """Yields an endless stream of tokenized documents, each with an end token."""
    end = tokenizer.token_to_id(END)
    assert end is not None, "train_tokenizer() gives every vocabulary an end mark"
    numbers = {name: index for index, name in enumerate(names(tasks))}
    while True:
        document = written(tasks, recipe, rng)
        encoded = tokenizer.encode(document.text, add_special_tokens=False)
        begins, ends = np.array(encoded.offsets).T  # character offsets
        label, named = np.full((2, len(begins)), -1)
        for span in document.spans:
            # Only tokens that lie entirely within the span.
            inside = (begins >= span.begin) & (ends <= span.stop)
            label[inside] = numbers[document.name] if span.known else UNKNOWABLE
            named[np.flatnonzero(inside)[:1]] = span.label  # the first token, if any
        free = max(0, recipe.reach - len(begins) - 1)  # 1 for the end token
        start = rng.randint(0, free) if rng.random() < 0.5 else 0
        yield Document([*encoded.ids, end], [*label.tolist(), -1], [*named.tolist(), -1], start)


class PackedBatch(NamedTuple):
    """Packed sequences `int32 [b, t]` of documents.

    Attributes:
        tokens: Token ids.
        positions: Positions, consecutive within a document.
        document: The document's number within the sequence.
        label: For each token of a label word, the index into `names` or `UNKNOWABLE`; -1 for
            other tokens.
        named: For the first token of a label word, the label; -1 for other tokens.
    """

    tokens: np.ndarray
    positions: np.ndarray
    document: np.ndarray
    label: np.ndarray
    named: np.ndarray


def pack(source: Iterator[Document], rows: int, length: int) -> PackedBatch:
    """Fills `rows` sequences of `length` tokens with documents, and cuts the last of each."""
    batch = PackedBatch(*(np.full((rows, length), empty, np.int32) for empty in (0, 0, -1, -1, -1)))
    for row in range(rows):
        at = number = 0
        while at < length:
            document = next(source)
            size = min(len(document.tokens), length - at)
            columns = slice(at, at + size)
            batch.tokens[row, columns] = document.tokens[:size]
            batch.positions[row, columns] = document.start + np.arange(size)
            batch.document[row, columns] = number
            batch.label[row, columns] = document.label[:size]
            batch.named[row, columns] = document.named[:size]
            at, number = at + size, number + 1
    return batch
