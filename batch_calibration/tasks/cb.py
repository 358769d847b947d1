"""CB: does a text commit its author to a clause inside it; the label names stand in CB's order."""

from batch_calibration.tasks import inference
from batch_calibration.tasks.base import Task

CB = Task(
    name="cb",
    title="CB",
    objective="NLI",
    fields=inference.FIELDS,
    label_names=("entailment", "contradiction", "neutral"),
    verbalizer={"entailment": "yes", "contradiction": "no", "neutral": "maybe"},
    few_shot=inference.FEW_SHOT,
    zero_shot=inference.ZERO_SHOT,
    statement=inference.STATEMENT,
    statement_words={
        "entailment": "a consequence",
        "contradiction": "a contradiction",
        "neutral": "independent",
    },
    statement_fields=inference.FIELDS,
    tfds=("super_glue/cb",),
    test_rows=56,
    source=inference.SOURCE,
)
