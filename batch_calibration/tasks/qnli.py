"""QNLI: does a sentence hold the answer to a question."""

from batch_calibration.tasks.base import Task

QNLI = Task(
    name="qnli",
    title="QNLI",
    objective="question-answering NLI",
    fields=("question", "sentence"),
    label_names=("entailment", "not_entailment"),
    verbalizer={"entailment": "yes", "not_entailment": "no"},
    few_shot="Question: {question}\nSentence: {sentence}\nLabel: {label}",
    zero_shot="{question}\nQuestion: {sentence} yes or no?\nAnswer: {label}",
    statement="The sentence {label} the question.",
    statement_words={"entailment": "answers", "not_entailment": "does not answer"},
    statement_fields=("question", "sentence"),
    tfds=("glue/qnli",),
    test_rows=5463,
    source="Zhou et al. 2024, app. F, Tables 8 and 11 (templates)",
)
