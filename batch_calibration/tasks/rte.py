"""RTE: does a text entail a sentence; with the ten templates and verbalizers of the paper."""

from batch_calibration.tasks.base import Task

TEMPLATES = {
    "1": "Premise: {sentence1}\nHypothesis: {sentence2}\nAnswer: {label}",
    "2": "{sentence1}\nHypothesis: {sentence2}\nAnswer: {label}",
    "3": "{sentence1}\nQuestion: {sentence2}\nAnswer: {label}",
    "4": "{sentence1}\nQuestion: {sentence2}\n{label}",
    "5": "{sentence1}\nQuestion: {sentence2}\nyes or no? Answer: {label}",
    "6": "Sentence 1: {sentence1}\nSentence 2: {sentence2}\nAnswer: {label}",
    "7": "Premise: {sentence1}\nHypothesis: {sentence2}\nLabel: {label}",
    "8": "Sentence 1: {sentence1}\nSentence 2: {sentence2}\nLabel: {label}",
    "9": (
        "Determine if the sentence 2 is true based on the Sentence 1 below\n"
        "Sentence 1: {sentence1}\nSentence 2: {sentence2}\nAnswer: {label}"
    ),
    "10": (
        "Determine if the sentence 2 is true or false based on the Sentence 1 below\n"
        "Sentence 1: {sentence1}\nSentence 2: {sentence2}\nAnswer: {label}"
    ),
}
# Emoji as code points: a face that looks the same can be another sequence.
VERBALIZERS = {
    "1": {"entailment": "yes", "not_entailment": "no"},
    "2": {"entailment": "true", "not_entailment": "false"},
    "3": {"entailment": "correct", "not_entailment": "incorrect"},
    "4": {"entailment": "positive", "not_entailment": "negative"},
    "5": {"entailment": "good", "not_entailment": "bad"},
    "6": {"entailment": "great", "not_entailment": "terrible"},
    "7": {"entailment": "it was true", "not_entailment": "it was false"},
    "8": {"entailment": "\U0001f44d", "not_entailment": "\U0001f44e"},
    "9": {
        "entailment": "\U0001f646\u200d\u2642\ufe0f",
        "not_entailment": "\U0001f645\u200d\u2642\ufe0f",
    },
    "10": {"entailment": "\u2714\ufe0f", "not_entailment": "\u274c"},
}
RTE = Task(
    name="rte",
    title="RTE",
    objective="NLI",
    fields=("sentence1", "sentence2"),
    label_names=("entailment", "not_entailment"),
    verbalizer=VERBALIZERS["1"],
    few_shot=TEMPLATES["1"],
    zero_shot="{sentence1}\nQuestion: {sentence2} yes or no?\nAnswer: {label}",
    statement="The second sentence {label} the first.",
    statement_words={"entailment": "follows from", "not_entailment": "does not follow from"},
    statement_fields=("sentence1", "sentence2"),
    tfds=("super_glue/rte", "glue/rte"),
    test_rows=277,
    templates=TEMPLATES,
    verbalizers=VERBALIZERS,
    # SuperGLUE's schema and GLUE's.
    columns=({"sentence1": "premise", "sentence2": "hypothesis"}, {}),
    source="Zhou et al. 2024, app. F, Tables 8 to 11 (templates, verbalizers)",
)
