"""Tasks of two texts: does one follow from the other, do both mean the same."""

from batch_calibration.tasks.base import text_task
from batch_calibration.tasks.texts import PAPER

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
