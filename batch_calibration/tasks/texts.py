"""Tasks of one text, and tasks that ask about a text: sentiment, topics, questions, choices."""

from batch_calibration.tasks.base import text_task

PAPER = "Zhou et al. 2024, app. F, Tables 8 and 11 (templates)"
"""Where the templates and words of most language tasks are printed."""

# Is a movie review's sentence negative or positive?
SST2 = text_task(
    "sst2",
    "SST-2",
    objective="sentence classification",
    fields=("sentence",),
    verbalizer={"negative": "negative", "positive": "positive"},
    few_shot="Review: {sentence}\nSentiment: {label}",
    statement="A {label} movie review.",
    tfds=("glue/sst2",),
    test_rows=872,
    source=PAPER,
)
# The same of Pang and Lee 2005.
MR = text_task(
    "mr",
    "MR",
    fields=("text",),
    verbalizer={"negative": "negative", "positive": "positive"},
    few_shot="Review: {text}\nSentiment: {label}",
    statement="A {label} movie review.",
    source="template of SST-2, whose sentences come from the same reviews",
)
# Which of four sections does a news item belong to?
AGNEWS = text_task(
    "agnews",
    "AG News",
    fields=("title", "description"),
    verbalizer={"World": "World", "Sports": "Sports", "Business": "Business",
                "Sci/Tech": "Technology"},
    few_shot="Article: {title} {description}\nAnswer: {label}",
    statement="This is news about {label}.",
    statement_words={"World": "World", "Sports": "Sports", "Business": "Business",
                     "Sci/Tech": "Science and technology"},
    statement_fields=("title",),
    tfds=("ag_news_subset",),
    stand_ins={"validation": "test"},
    source="template style of Zhao et al. 2021 (contextual calibration), appendix",
)  # fmt: skip
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
QNLI = text_task(
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
    source=PAPER,
)
# Is the answer to a question about a passage yes?
BOOLQ = text_task(
    "boolq",
    "BoolQ",
    objective="commonsense reasoning",
    fields=("passage", "question"),
    verbalizer={"False": "no", "True": "yes"},
    few_shot="{passage}\nQuestion: {question}\nAnswer: {label}",
    statement="The answer to the question is {label}.",
    tfds=("super_glue/boolq",),
    test_rows=3270,
    source=PAPER,
)
# Which of two choices is the likelier cause or effect of a premise? The paper's template leaves out
# which of the two is asked for.
COPA = text_task(
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
    source=PAPER,
    options=("choice1", "choice2"),
)
