"""MNLI, matched: does a premise entail a hypothesis, contradict it, or neither."""

from batch_calibration.tasks import inference
from batch_calibration.tasks.base import Task

MNLI = Task(
    name="mnli",
    title="MNLI",
    objective="NLI",
    fields=inference.FIELDS,
    label_names=("entailment", "neutral", "contradiction"),
    verbalizer={"entailment": "yes", "neutral": "maybe", "contradiction": "no"},
    few_shot=inference.FEW_SHOT,
    zero_shot=inference.ZERO_SHOT,
    statement=inference.STATEMENT,
    statement_words={
        "entailment": "a consequence",
        "neutral": "independent",
        "contradiction": "a contradiction",
    },
    statement_fields=inference.FIELDS,
    tfds=("glue/mnli",),
    test_rows=9815,
    stand_ins={"validation": "validation_matched"},
    source=inference.SOURCE,
)
