"""The tasks: the paper's language tasks in the order of its tables, three more, then image tasks.

Templates and label words of language tasks come from Tables 8 and 11 of Zhou et al. 2024, if the
task names no other source.
"""

import re
from collections.abc import Iterable, Sequence
from functools import partial
from itertools import product
from pathlib import Path

from batch_calibration.errors import refuse_unknown
from batch_calibration.scoring.tasks.base import Row, Rows, Task, image_task, text_task

PAPER = "Zhou et al. 2024, app. F, Tables 8 and 11 (templates)"
"""The source of most language tasks' templates and words."""
paper_task = partial(text_task, source=PAPER)


def numbered(names: Sequence[str], words: Iterable[Sequence[str]]) -> dict[str, dict[str, str]]:
    """Numbers verbalizers of these label names from 1."""
    return {str(n): dict(zip(names, own, strict=True)) for n, own in enumerate(words, 1)}


def listed(task: str) -> tuple[str, ...]:
    """Lists the classes of an image task from its file, in the order of the data set."""
    return tuple((Path(__file__).parent / "classes" / f"{task}.txt").read_text().splitlines())


# Is a movie review's sentence negative or positive? The paper varies only RTE's prompts; these
# templates and verbalizers are this project's.
SST2_TEMPLATES = {
    "1": "Review: {sentence}\nSentiment: {label}",
    "2": "{sentence}\nSentiment: {label}",
    "3": "Sentence: {sentence}\nLabel: {label}",
    "4": "Review: {sentence}\nAnswer: {label}",
    "5": "{sentence}\nQuestion: is this positive or negative? Answer: {label}",
    "6": "Text: {sentence}\nThe sentiment of the text is {label}",
}
SST2_WORDS = (
    ("negative", "positive"), ("bad", "good"), ("terrible", "great"), ("no", "yes"),
    ("dislike", "like"), ("\U0001f44e", "\U0001f44d"),
)  # fmt: skip
SST2_VERBALIZERS = numbered(("negative", "positive"), SST2_WORDS)
SST2 = paper_task(
    "sst2",
    "SST-2",
    objective="sentence classification",
    fields=("sentence",),
    verbalizer=SST2_VERBALIZERS["1"],
    few_shot=SST2_TEMPLATES["1"],
    templates=SST2_TEMPLATES,
    verbalizers=SST2_VERBALIZERS,
    statement="A {label} movie review.",
    tfds=("glue/sst2",),
    test_rows=872,
    # 444 of 872 validation rows are positive.
    balanced=True,
)
# Is a movie review's sentence negative or positive? (Pang and Lee 2005)
MR = text_task(
    "mr",
    "MR",
    fields=("text",),
    verbalizer={"negative": "negative", "positive": "positive"},
    few_shot="Review: {text}\nSentiment: {label}",
    statement="A {label} movie review.",
    # 5,331 sentences of each label (Pang and Lee 2005).
    balanced=True,
    source="template of SST-2, whose sentences come from the same reviews",
)
# Which of four sections does a news item belong to?
SECTIONS = {"World": "World", "Sports": "Sports", "Business": "Business", "Sci/Tech": "Technology"}
AGNEWS = text_task(
    "agnews",
    "AG News",
    fields=("title", "description"),
    verbalizer=SECTIONS,
    few_shot="Article: {title} {description}\nAnswer: {label}",
    statement="This is news about {label}.",
    statement_words=SECTIONS | {"Sci/Tech": "Science and technology"},
    statement_fields=("title",),
    tfds=("ag_news_subset",),
    stand_ins={"validation": "test"},
    # Each section has 30,000 training rows and 1,900 test rows (Zhang et al. 2015).
    balanced=True,
    source="template style of Zhao et al. 2021 (contextual calibration), appendix",
)
# What kind of answer does a question ask for? Six coarse kinds.
TREC = text_task(
    "trec",
    "TREC",
    fields=("text",),
    verbalizer={"DESC": "Description", "ENTY": "Entity", "ABBR": "Abbreviation",
                "HUM": "Person", "NUM": "Number", "LOC": "Location"},
    few_shot="Question: {text}\nAnswer Type: {label}",
    statement="This question asks about {label}.",
    statement_words={"DESC": "a description", "ENTY": "an entity", "ABBR": "an abbreviation",
                     "HUM": "a person", "NUM": "a number", "LOC": "a location"},
    tfds=("trec",),
    columns=({}, {"label": "label-coarse"}),
    stand_ins={"validation": "test"},
    source="label words and template style of Zhao et al. 2021, appendix",
)  # fmt: skip
# Does a sentence hold the answer to a question?
QNLI = paper_task(
    "qnli",
    "QNLI",
    objective="question-answering NLI",
    fields=("question", "sentence"),
    verbalizer={"entailment": "yes", "not_entailment": "no"},
    few_shot="Question: {question}\nSentence: {sentence}\nLabel: {label}",
    zero_shot="{question}\nQuestion: {sentence} yes or no?\nAnswer: {label}",
    statement="The sentence {label} the question.",
    statement_words={"entailment": "answers", "not_entailment": "does not answer"},
    tfds=("glue/qnli",),
    test_rows=5463,
    # 2,702 of 5,463 validation rows hold the answer.
    balanced=True,
)
# Is the answer to a question about a passage yes?
BOOLQ = paper_task(
    "boolq",
    "BoolQ",
    objective="commonsense reasoning",
    fields=("passage", "question"),
    verbalizer={"False": "no", "True": "yes"},
    few_shot="{passage}\nQuestion: {question}\nAnswer: {label}",
    statement="The answer to the question is {label}.",
    tfds=("super_glue/boolq",),
    test_rows=3270,
)
# Which of two choices is the more probable cause or effect of a premise? The paper's template does
# not mention whether the question is about the cause or the effect.
COPA = paper_task(
    "copa",
    "COPA",
    objective="commonsense reasoning",
    fields=("premise", "choice1", "choice2"),
    verbalizer={"choice1": "1", "choice2": "2"},
    few_shot="Premise: {premise}\nChoice1: {choice1}\nChoice2: {choice2}\nAnswer: {label}",
    statement="The {label} sentence fits the premise.",
    statement_words={"choice1": "first", "choice2": "second"},
    tfds=("super_glue/copa",),
    test_rows=100,
    # The right choice is first in half of the questions (Roemmele et al. 2011).
    balanced=True,
    options=("choice1", "choice2"),
)
# Does a premise entail a hypothesis, contradict it, or neither? The rows are the matched half of
# the data. MNLI, CB and ANLI share templates and words in the paper's tables.
MNLI = paper_task(
    "mnli",
    "MNLI",
    objective="NLI",
    fields=("premise", "hypothesis"),
    verbalizer={"entailment": "yes", "neutral": "maybe", "contradiction": "no"},
    few_shot="Premise: {premise}\nHypothesis: {hypothesis}\nAnswer: {label}",
    zero_shot="{premise}\nQuestion: {hypothesis} yes, no, or maybe?\nAnswer: {label}",
    statement="The second sentence is {label} of the first.",
    statement_words={"entailment": "a consequence", "neutral": "independent",
                     "contradiction": "a contradiction"},
    tfds=("glue/mnli",),
    test_rows=9815,
    stand_ins={"validation": "validation_matched"},
    # Writers gave each premise a hypothesis of each label (Williams et al. 2018).
    balanced=True,
)  # fmt: skip
# Does a text commit its author to a clause inside it? CB has another order of the labels.
CB = MNLI._replace(
    name="cb",
    title="CB",
    label_names=("entailment", "contradiction", "neutral"),
    tfds=("super_glue/cb",),
    test_rows=56,
    balanced=False,
    stand_ins={},
)
# Does a premise entail a hypothesis? Texts chosen to deceive models, in three rounds.
# Test rows are a third of each label (Nie et al. 2020).
ANLI_R1 = MNLI._replace(
    name="anli_r1",
    title="ANLI-R1",
    label_names=("e", "n", "c"),
    verbalizer={"e": "yes", "n": "maybe", "c": "no"},
    statement_words={"e": "a consequence", "n": "independent", "c": "a contradiction"},
    tfds=("anli/r1",),
    test_rows=1000,
    columns=({"premise": "context"},),
    stand_ins={},
)
# If a round's training rows are missing, its test rows are the pool of demonstrations.
ANLI_R2 = ANLI_R1._replace(
    name="anli_r2", title="ANLI-R2", tfds=("anli/r2",), stand_ins={"train": "test"}
)
ANLI_R3 = ANLI_R2._replace(name="anli_r3", title="ANLI-R3", tfds=("anli/r3",), test_rows=1200)
# Does a text entail a sentence? RTE has the paper's ten templates and verbalizers.
TEMPLATES = {
    "1": "Premise: {sentence1}\nHypothesis: {sentence2}\nAnswer: {label}",
    "2": "{sentence1}\nHypothesis: {sentence2}\nAnswer: {label}",
    "3": "{sentence1}\nQuestion: {sentence2}\nAnswer: {label}",
    "4": "{sentence1}\nQuestion: {sentence2}\n{label}",
    "5": "{sentence1}\nQuestion: {sentence2}\nyes or no? Answer: {label}",
    "6": "Sentence 1: {sentence1}\nSentence 2: {sentence2}\nAnswer: {label}",
    "7": "Premise: {sentence1}\nHypothesis: {sentence2}\nLabel: {label}",
    "8": "Sentence 1: {sentence1}\nSentence 2: {sentence2}\nLabel: {label}",
    "9": "Determine if the sentence 2 is true based on the Sentence 1 below\n"
    "Sentence 1: {sentence1}\nSentence 2: {sentence2}\nAnswer: {label}",
    "10": "Determine if the sentence 2 is true or false based on the Sentence 1 below\n"
    "Sentence 1: {sentence1}\nSentence 2: {sentence2}\nAnswer: {label}",
}
# Emoji are written as code points, because different sequences can look the same.
RTE_WORDS = (
    ("yes", "no"), ("true", "false"), ("correct", "incorrect"), ("positive", "negative"),
    ("good", "bad"), ("great", "terrible"), ("it was true", "it was false"),
    ("\U0001f44d", "\U0001f44e"),
    ("\U0001f646\u200d\u2642\ufe0f", "\U0001f645\u200d\u2642\ufe0f"),
    ("\u2714\ufe0f", "\u274c"),
)  # fmt: skip
VERBALIZERS = numbered(("entailment", "not_entailment"), RTE_WORDS)
RTE = text_task(
    "rte",
    "RTE",
    objective="NLI",
    fields=("sentence1", "sentence2"),
    verbalizer=VERBALIZERS["1"],
    few_shot=TEMPLATES["1"],
    zero_shot="{sentence1}\nQuestion: {sentence2} yes or no?\nAnswer: {label}",
    statement="The second sentence {label} the first.",
    statement_words={"entailment": "follows from", "not_entailment": "does not follow from"},
    tfds=("super_glue/rte", "glue/rte"),
    test_rows=277,
    templates=TEMPLATES,
    verbalizers=VERBALIZERS,
    # Half of each challenge's pairs entail (Dagan et al. 2006).
    balanced=True,
    # The schemas of SuperGLUE and GLUE.
    columns=({"sentence1": "premise", "sentence2": "hypothesis"}, {}),
    source="Zhou et al. 2024, app. F, Tables 8 to 11 (templates, verbalizers)",
)
# Do two sentences from the news mean the same?
MRPC = paper_task(
    "mrpc",
    "MRPC",
    objective="paraphrasing",
    fields=("sentence1", "sentence2"),
    verbalizer={"not_equivalent": "no", "equivalent": "yes"},
    few_shot="Sentence 1: {sentence1}\nSentence 2: {sentence2}\nEquivalence: {label}",
    statement="The two sentences {label}.",
    statement_words={"not_equivalent": "say different things", "equivalent": "say the same thing"},
    tfds=("glue/mrpc",),
    test_rows=408,
)
# Do two questions from a public site ask for the same?
QQP = paper_task(
    "qqp",
    "QQP",
    objective="paraphrasing",
    fields=("question1", "question2"),
    verbalizer={"not_duplicate": "no", "duplicate": "yes"},
    few_shot="Question 1: {question1}\nQuestion 2: {question2}\nDuplicate: {label}",
    statement="The two questions {label}.",
    statement_words={"not_duplicate": "ask different things", "duplicate": "ask the same thing"},
    tfds=("glue/qqp",),
    test_rows=40430,
    stand_ins={"validation": "validation_proxy"},
)
# Is a word used in the same sense in two sentences? Its label words depend on the shots.
WIC = paper_task(
    "wic",
    "WiC",
    objective="context comprehension",
    fields=("sentence1", "sentence2", "word"),
    verbalizer={"False": "false", "True": "true"},
    zero_shot_verbalizer={"False": "no", "True": "yes"},
    few_shot="Sentence1: {sentence1}\nSentence2: {sentence2}\nWord: {word}\nAnswer: {label}",
    zero_shot="{sentence1}\n{sentence2}\nQuestion: Is the word '{word}' used in the same way in "
    "the two sentences above?\nAnswer: {label}",
    statement="The word has {label} in the two sentences.",
    statement_words={"False": "different meanings", "True": "the same meaning"},
    tfds=("super_glue/wic",),
    test_rows=638,
    # Half of the pairs are of each label (Pilehvar and Camacho-Collados 2019).
    balanced=True,
)

# Which digit is in the middle of a cropped photo of a house number?

SVHN = image_task(
    "svhn",
    "SVHN",
    {digit: digit for digit in "0123456789"},
    (
        "This is a photo of a {label}",
        'a photo of the number: "{label}".',
        "a photo of the digit {label}.",
    ),
    tfds=("svhn_cropped",),
    source="statement 1: BlackVIP (Oh et al. 2023); 2: CLIP's for MNIST (Radford et al. 2021); "
    "3: ours",
)
# What kind of land does a satellite photo show?
EUROSAT = image_task(
    "eurosat",
    "EuroSAT",
    {"AnnualCrop": "Annual Crop Land", "Forest": "Forest",
     "HerbaceousVegetation": "Herbaceous Vegetation Land", "Highway": "Highway or Road",
     "Industrial": "Industrial Buildings", "Pasture": "Pasture Land",
     "PermanentCrop": "Permanent Crop Land", "Residential": "Residential Buildings",
     "River": "River", "SeaLake": "Sea or Lake"},
    (
        "a centered satellite photo of {label}.",
        "a centered satellite photo of a {label}.",
        "a centered satellite photo of the {label}.",
    ),
    tfds=("eurosat/rgb",),
    source="label words and statement 1: CoOp (Zhou et al. 2022), which BlackVIP keeps; all "
    "statements: CLIP (Radford et al. 2021), prompts.md",
)  # fmt: skip
# Which of 101 actions does the middle frame of a video show? TFDS has only videos, which cannot be
# read without TensorFlow, so users must provide the middle frames.
ACTIONS = listed("ucf101")
VERBS = ("", "using ", "doing ", "during ", "performing ", "practicing ")
PICTURES = ("photo", "video", "example", "demonstration")
USUAL_ACTION = "a photo of a person doing {label}."
ACTION_STATEMENTS = []
for verb, article, picture in product(VERBS, ("a", "the"), PICTURES):
    ACTION_STATEMENTS.append(f"a {picture} of {article} person {verb}{{label}}.")
UCF101 = image_task(
    "ucf101",
    "UCF101",
    # CLIP uses "Walking With Dog" for "WalkingWithDog".
    {name: re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name) for name in ACTIONS},
    # The usual statement comes first, then the others in their order.
    tuple(sorted(ACTION_STATEMENTS, key=lambda statement: statement != USUAL_ACTION)),
    source="names: the data set's classInd.txt (Soomro et al. 2012); statement 1: CoOp (Zhou et "
    "al. 2022), which BlackVIP keeps; all 48: CLIP (Radford et al. 2021), prompts.md",
)
# How many objects, 3 to 10, are in the scene?
CLEVR = image_task(
    "clevr",
    "CLEVR",
    {str(count): str(count) for count in range(3, 11)},
    (
        "This is a photo of {label} objects",
        "a photo of {label} objects.",
        "there are {label} objects in the picture.",
    ),
    tfds=("clevr",),
    source="statement 1: BlackVIP (Oh et al. 2023); 2: CLIP's CLEVRCounts (Radford et al. 2021); "
    "3: ours",
)
# Which of 100 aircraft variants does a photo show (FGVC-Aircraft)?
VARIANTS = listed("aircraft")
AIRCRAFT = image_task(
    "aircraft",
    "Aircraft",
    dict(zip(VARIANTS, VARIANTS, strict=True)),
    ("a photo of a {label}, a type of aircraft.", "a photo of the {label}, a type of aircraft."),
    # 100 photos a variant (Maji et al. 2013).
    balanced=True,
    source="names: the data set's variants.txt (Maji et al. 2013); statement 1: CoOp (Zhou et al. "
    "2022), which BlackVIP keeps; both: CLIP (Radford et al. 2021), prompts.md",
)
# Which of 47 words that people use for a texture describes the image best?
TEXTURES = listed("dtd")
OF_TEXTURES = "texture", "pattern", "thing", "object"
DTD = image_task(
    "dtd",
    "DTD",
    dict(zip(TEXTURES, TEXTURES, strict=True)),
    (
        "{label} texture.",
        *(f"a photo of a {{label}} {noun}." for noun in OF_TEXTURES),
        *(f"a photo of the {{label}} {noun}." for noun in OF_TEXTURES),
    ),
    tfds=("dtd",),
    # 120 images a texture, 40 in each split (Cimpoi et al. 2014).
    balanced=True,
    source="statement 1: CoOp (Zhou et al. 2022), which BlackVIP keeps; the others: CLIP (Radford "
    "et al. 2021), prompts.md",
)

LANGUAGE = (SST2, MNLI, QNLI, MRPC, QQP, BOOLQ, CB, COPA, RTE, WIC, ANLI_R1, ANLI_R2, ANLI_R3)
IN_ORDER = (*LANGUAGE, MR, AGNEWS, TREC, SVHN, EUROSAT, UCF101, CLEVR, AIRCRAFT, DTD)
TASKS = {task.name: task for task in IN_ORDER}
PAPER_LANGUAGE = tuple(name for name, task in TASKS.items() if task.objective)
"""The paper's 13 language tasks (Zhou et al. 2024, Table 4, which lists their numbers of rows)."""


def get_task(name: str) -> Task:
    """Returns the task of that name; an unknown name raises an error with the most similar name."""
    refuse_unknown("task", name, TASKS)
    return TASKS[name]


__all__ = ["PAPER_LANGUAGE", "TASKS", "Row", "Rows", "Task", "get_task"]
