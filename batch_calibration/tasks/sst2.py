"""SST-2: is a movie review's sentence negative or positive."""

from batch_calibration.tasks.base import Task

SST2 = Task(
    name="sst2",
    title="SST-2",
    objective="sentence classification",
    fields=("sentence",),
    label_names=("negative", "positive"),
    verbalizer={"negative": "negative", "positive": "positive"},
    few_shot="Review: {sentence}\nSentiment: {label}",
    zero_shot="Review: {sentence}\nSentiment: {label}",
    statement="A {label} movie review.",
    statement_words={"negative": "negative", "positive": "positive"},
    statement_fields=("sentence",),
    tfds=("glue/sst2",),
    test_rows=872,
    source="Zhou et al. 2024, app. F, Tables 8 and 11 (templates)",
)
