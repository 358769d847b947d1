"""WiC: is a word used in the same sense in two sentences; its words depend on the shots."""

from batch_calibration.tasks.base import Task

WIC = Task(
    name="wic",
    title="WiC",
    objective="context comprehension",
    fields=("sentence1", "sentence2", "word"),
    label_names=("False", "True"),
    verbalizer={"False": "false", "True": "true"},
    zero_shot_verbalizer={"False": "no", "True": "yes"},
    few_shot="Sentence1: {sentence1}\nSentence2: {sentence2}\nWord: {word}\nAnswer: {label}",
    zero_shot=(
        "{sentence1}\n{sentence2}\nQuestion: Is the word '{word}' used in the same way in the two "
        "sentences above?\nAnswer: {label}"
    ),
    statement="The word has {label} in the two sentences.",
    statement_words={"False": "different meanings", "True": "the same meaning"},
    statement_fields=("sentence1", "sentence2", "word"),
    tfds=("super_glue/wic",),
    test_rows=638,
    source="Zhou et al. 2024, app. F, Tables 8 and 11 (templates)",
)
