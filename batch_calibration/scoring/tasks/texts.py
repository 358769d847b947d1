"""Tasks of texts: sentiment, topics, questions, choices; of two texts, entailment, paraphrases."""

from batch_calibration.scoring.tasks.base import text_task

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
# Does a premise entail a hypothesis, contradict it, or neither? The matched half of the data. The
# paper prints one row of templates and words for MNLI, CB and ANLI.
MNLI = text_task(
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
    source=PAPER,
)  # fmt: skip
# Does a text commit its author to a clause inside it? CB has its own order of the labels.
CB = MNLI._replace(
    name="cb",
    title="CB",
    label_names=("entailment", "contradiction", "neutral"),
    tfds=("super_glue/cb",),
    test_rows=56,
    stand_ins={},
)
# Texts chosen to deceive models, in three rounds of growing difficulty.
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
# Where a round's training rows cannot be had, its test rows are the pool of demonstrations.
ANLI_R2 = ANLI_R1._replace(
    name="anli_r2", title="ANLI-R2", tfds=("anli/r2",), stand_ins={"train": "test"}
)
ANLI_R3 = ANLI_R2._replace(name="anli_r3", title="ANLI-R3", tfds=("anli/r3",), test_rows=1200)
# Does a text entail a sentence? With the ten templates and verbalizers of the paper.
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
# Emoji as code points: a face that looks the same can be another sequence.
RTE_WORDS = (
    ("yes", "no"), ("true", "false"), ("correct", "incorrect"), ("positive", "negative"),
    ("good", "bad"), ("great", "terrible"), ("it was true", "it was false"),
    ("\U0001f44d", "\U0001f44e"),
    ("\U0001f646\u200d\u2642\ufe0f", "\U0001f645\u200d\u2642\ufe0f"),
    ("\u2714\ufe0f", "\u274c"),
)  # fmt: skip
VERBALIZERS = {}
for number, (follows, does_not) in enumerate(RTE_WORDS, 1):
    VERBALIZERS[str(number)] = {"entailment": follows, "not_entailment": does_not}
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
    # SuperGLUE's schema and GLUE's.
    columns=({"sentence1": "premise", "sentence2": "hypothesis"}, {}),
    source="Zhou et al. 2024, app. F, Tables 8 to 11 (templates, verbalizers)",
)
# Do two sentences from the news mean the same?
MRPC = text_task(
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
    source=PAPER,
)
# Do two questions, asked on a public site, ask for the same?
QQP = text_task(
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
    source=PAPER,
)
# Is a word used in the same sense in two sentences? Its label words depend on the shots.
WIC = text_task(
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
    source=PAPER,
)
