"""MRPC: do two sentences from the news mean the same."""

from batch_calibration.tasks.base import Task

FORM = "Sentence 1: {sentence1}\nSentence 2: {sentence2}\nEquivalence: {label}"
MRPC = Task(
    name="mrpc",
    title="MRPC",
    objective="paraphrasing",
    fields=("sentence1", "sentence2"),
    label_names=("not_equivalent", "equivalent"),
    verbalizer={"not_equivalent": "no", "equivalent": "yes"},
    few_shot=FORM,
    zero_shot=FORM,
    statement="The two sentences {label}.",
    statement_words={
        "not_equivalent": "say different things",
        "equivalent": "say the same thing",
    },
    statement_fields=("sentence1", "sentence2"),
    tfds=("glue/mrpc",),
    test_rows=408,
    source="Zhou et al. 2024, app. F, Tables 8 and 11 (templates)",
)
