"""TREC: what kind of answer a question asks for, six coarse kinds."""

from batch_calibration.tasks.base import Task

TREC = Task(
    name="trec",
    title="TREC",
    fields=("text",),
    label_names=("DESC", "ENTY", "ABBR", "HUM", "NUM", "LOC"),
    verbalizer={
        "DESC": "Description",
        "ENTY": "Entity",
        "ABBR": "Abbreviation",
        "HUM": "Person",
        "NUM": "Number",
        "LOC": "Location",
    },
    few_shot="Question: {text}\nAnswer Type: {label}",
    zero_shot="Question: {text}\nAnswer Type: {label}",
    statement="This question asks about {label}.",
    statement_words={
        "DESC": "a description",
        "ENTY": "an entity",
        "ABBR": "an abbreviation",
        "HUM": "a person",
        "NUM": "a number",
        "LOC": "a location",
    },
    statement_fields=("text",),
    tfds=("trec",),
    columns=({}, {"label": "label-coarse"}),
    stand_ins={"validation": "test"},
    source="label words and template style of Zhao et al. 2021, appendix",
)
