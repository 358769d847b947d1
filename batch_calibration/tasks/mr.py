"""MR: is a movie review's sentence negative or positive (Pang and Lee 2005)."""

from batch_calibration.tasks.base import Task

MR = Task(
    name="mr",
    title="MR",
    fields=("text",),
    label_names=("negative", "positive"),
    verbalizer={"negative": "negative", "positive": "positive"},
    few_shot="Review: {text}\nSentiment: {label}",
    zero_shot="Review: {text}\nSentiment: {label}",
    statement="A {label} movie review.",
    statement_words={"negative": "negative", "positive": "positive"},
    statement_fields=("text",),
    source="template of SST-2, whose sentences come from the same reviews",
)
