"""BoolQ: is the answer to a question about a passage yes."""

from batch_calibration.tasks.base import Task

FORM = "{passage}\nQuestion: {question}\nAnswer: {label}"
BOOLQ = Task(
    name="boolq",
    title="BoolQ",
    objective="commonsense reasoning",
    fields=("passage", "question"),
    label_names=("False", "True"),
    verbalizer={"False": "no", "True": "yes"},
    few_shot=FORM,
    zero_shot=FORM,
    statement="The answer to the question is {label}.",
    statement_words={"False": "no", "True": "yes"},
    statement_fields=("passage", "question"),
    tfds=("super_glue/boolq",),
    test_rows=3270,
    source="Zhou et al. 2024, app. F, Tables 8 and 11 (templates)",
)
