"""AG News: which of four sections a news item belongs to."""

from batch_calibration.tasks.base import Task

AGNEWS = Task(
    name="agnews",
    title="AG News",
    fields=("title", "description"),
    label_names=("World", "Sports", "Business", "Sci/Tech"),
    verbalizer={
        "World": "World",
        "Sports": "Sports",
        "Business": "Business",
        "Sci/Tech": "Technology",
    },
    few_shot="Article: {title} {description}\nAnswer: {label}",
    zero_shot="Article: {title} {description}\nAnswer: {label}",
    statement="This is news about {label}.",
    statement_words={
        "World": "World",
        "Sports": "Sports",
        "Business": "Business",
        "Sci/Tech": "Science and technology",
    },
    statement_fields=("title",),
    tfds=("ag_news_subset",),
    stand_ins={"validation": "test"},
    source="template style of Zhao et al. 2021 (contextual calibration), appendix",
)
