"""ANLI: entailment over texts chosen to deceive models, in three rounds of growing difficulty."""

from batch_calibration.tasks import inference
from batch_calibration.tasks.base import Task

ANLI_R1 = Task(
    name="anli_r1",
    title="ANLI-R1",
    objective="NLI",
    fields=inference.FIELDS,
    label_names=("e", "n", "c"),
    verbalizer={"e": "yes", "n": "maybe", "c": "no"},
    few_shot=inference.FEW_SHOT,
    zero_shot=inference.ZERO_SHOT,
    statement=inference.STATEMENT,
    statement_words={"e": "a consequence", "n": "independent", "c": "a contradiction"},
    statement_fields=inference.FIELDS,
    tfds=("anli/r1",),
    test_rows=1000,
    columns=({"premise": "context"},),
    source=inference.SOURCE,
)
# Where a round's training rows cannot be had, its test rows are the pool of demonstrations.
ANLI_R2 = ANLI_R1._replace(
    name="anli_r2", title="ANLI-R2", tfds=("anli/r2",), stand_ins={"train": "test"}
)
ANLI_R3 = ANLI_R2._replace(name="anli_r3", title="ANLI-R3", tfds=("anli/r3",), test_rows=1200)
