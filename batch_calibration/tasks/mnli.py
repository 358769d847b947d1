"""MNLI: does a premise entail a hypothesis, contradict it, or neither."""

from batch_calibration.tasks.base import Task

MNLI = Task(
    name="mnli",
    title="MNLI",
    fields=("premise", "hypothesis"),
    label_names=("entailment", "neutral", "contradiction"),
    verbalizer={"entailment": "yes", "neutral": "maybe", "contradiction": "no"},
    few_shot="Premise: {premise}\nHypothesis: {hypothesis}\nAnswer: {label}",
    zero_shot="{premise}\nQuestion: {hypothesis} yes, no, or maybe?\nAnswer: {label}",
    statement="The second sentence is {label} of the first.",
    statement_words={
        "entailment": "a consequence",
        "neutral": "independent",
        "contradiction": "a contradiction",
    },
    statement_fields=("premise", "hypothesis"),
    tfds="glue/mnli",
    test_rows=9815,
    source="Zhou et al. 2024, appendix, few-shot and zero-shot template tables",
)
