"""What the image tasks share: one field that refers to an image, statements instead of prompts."""

from collections.abc import Mapping

from batch_calibration.tasks.base import IMAGE, NAMES, Task

COLUMNS: tuple[Mapping[str, str], ...] = (
    {},
    {IMAGE: "path"},
    {IMAGE: "file"},
    {IMAGE: "file_name"},
    {IMAGE: "filename"},
)
"""What a table of images may call the column of their paths."""


def image_task(
    name: str,
    title: str,
    words: Mapping[str, str],
    statements: tuple[str, ...],
    **others: object,
) -> Task:
    """An image task: `words` maps each label name, in the data's order, to what statements say.

    Args:
      name: what a user types.
      title: what tables print.
      words: label name -> words.
      statements: texts that hold `{label}` once; the first is the usual one, and all of them
        together are the prompt ensemble.
      **others: further fields of `Task`, such as `tfds`.

    >>> image_task("pets", "Pets", {"cat": "cat", "dog": "dog"}, ("a photo of a {label}.",)).fields
    ('image',)
    """
    fields: dict[str, object] = {
        "name": name,
        "title": title,
        "fields": (IMAGE,),
        "label_names": tuple(words),
        "verbalizer": words,
        "few_shot": "",
        "zero_shot": "",
        "statement": statements[0],
        "statement_words": words,
        "statement_fields": (IMAGE,),
        "statements": statements,
        "columns": COLUMNS,
        "labels_are": NAMES,
        "stand_ins": {"test": "validation"},
    }
    return Task(**(fields | others))  # type: ignore[arg-type]
