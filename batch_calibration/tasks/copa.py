"""COPA: which of two choices is the likelier cause or effect of a premise."""

from batch_calibration.tasks.base import Task

FORM = "Premise: {premise}\nChoice1: {choice1}\nChoice2: {choice2}\nAnswer: {label}"
# The paper's template leaves out whether a cause or an effect is asked for.
COPA = Task(
    name="copa",
    title="COPA",
    objective="commonsense reasoning",
    fields=("premise", "choice1", "choice2"),
    label_names=("choice1", "choice2"),
    verbalizer={"choice1": "1", "choice2": "2"},
    few_shot=FORM,
    zero_shot=FORM,
    statement="The {label} sentence fits the premise.",
    statement_words={"choice1": "first", "choice2": "second"},
    statement_fields=("premise", "choice1", "choice2"),
    tfds=("super_glue/copa",),
    test_rows=100,
    source="Zhou et al. 2024, app. F, Tables 8 and 11 (templates)",
    options=("choice1", "choice2"),
)
