"""QQP: do two questions, asked on a public site, ask for the same."""

from batch_calibration.tasks.base import Task

FORM = "Question 1: {question1}\nQuestion 2: {question2}\nDuplicate: {label}"
QQP = Task(
    name="qqp",
    title="QQP",
    objective="paraphrasing",
    fields=("question1", "question2"),
    label_names=("not_duplicate", "duplicate"),
    verbalizer={"not_duplicate": "no", "duplicate": "yes"},
    few_shot=FORM,
    zero_shot=FORM,
    statement="The two questions {label}.",
    statement_words={
        "not_duplicate": "ask different things",
        "duplicate": "ask the same thing",
    },
    statement_fields=("question1", "question2"),
    tfds=("glue/qqp",),
    test_rows=40430,
    stand_ins={"validation": "validation_proxy"},
    source="Zhou et al. 2024, app. F, Tables 8 and 11 (templates)",
)
