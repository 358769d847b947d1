"""A task: a value that names its fields, labels, templates and words."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from batch_calibration.errors import InputError, refuse_unknown

Row = dict[str, str]
LabelWords = str | tuple[str, ...]
"""The writing of a label: one surface form, or several of which the first is shown."""
NUMBERS, NAMES = "numbers", "names"
"""The form of a label in rows: its place in `label_names`, or its name."""
IMAGE = "image"  # the one field of an image task: a reference to an image, never its pixels


def first_form(words: LabelWords) -> str:
    """The surface form that demonstrations show."""
    return words if isinstance(words, str) else words[0]


class Task(NamedTuple):
    """A classification task as the paper states it; words are bound to label *names*.

    `label_names` have the order of the data's integer labels; `verbalizer` maps each name to
    its label words, so that a data set with another order cannot be scored wrongly in silence.
    `few_shot` and `zero_shot` hold `{field}` for each field and end in `{label}`;
    `zero_shot_verbalizer` has the words of the zero-shot prompt where they differ. `templates` and
    `verbalizers` are the numbered choices of a robustness study. `statement` holds one `{label}`
    and serves dual encoders; `statement_words` are its words, `statement_fields` what they read.

    `tfds` names the data set in TensorFlow Datasets (more than one where it was published twice),
    `columns` says which columns hold the fields and the label: each entry is one schema and lists
    what has another name there. `stand_ins` gives, for a split that some data lack, the split that
    serves in its place. `files` holds a task file's own files, by split, or `folder` its images,
    and `labels_are` says whether their labels are numbers or names.

    `options` are the fields that hold the options of a multiple-choice question, in the order of
    the labels, where the label words are their names ("A", "1") and not their contents.

    `balanced` is True of a data set whose makers gave each label about as many rows, so that BC is
    right about its labels.

    `objective` is what rows ask, as Table 4 of Zhou et al. 2024 has it; tasks outside that table
    have none.

    An image task has the one field `image` and no prompts; `statements` are the numbered choices of
    its statement, the first of them the usual one. `text_task` and `image_task` fill in the rest.
    """

    name: str
    title: str
    fields: tuple[str, ...]
    label_names: tuple[str, ...]
    verbalizer: Mapping[str, LabelWords]
    few_shot: str
    zero_shot: str
    statement: str
    statement_words: Mapping[str, str]
    statement_fields: tuple[str, ...]
    tfds: tuple[str, ...] = ()
    test_rows: int | None = None
    source: str = ""
    zero_shot_verbalizer: Mapping[str, LabelWords] = {}
    templates: Mapping[str, str] = {}
    verbalizers: Mapping[str, Mapping[str, LabelWords]] = {}
    columns: tuple[Mapping[str, str], ...] = ({},)
    stand_ins: Mapping[str, str] = {}
    files: Mapping[str, str] = {}
    labels_are: str = NUMBERS
    statements: tuple[str, ...] = ()
    folder: str = ""
    options: tuple[str, ...] = ()
    objective: str = ""
    balanced: bool = False

    @property
    def is_image(self) -> bool:
        """True where its rows are images."""
        return self.fields == (IMAGE,)

    @property
    def label_words(self) -> tuple[str, ...]:
        """Few-shot label words in the order of the integer labels, the first form of each."""
        return tuple(map(first_form, self.words_for(1)))

    @property
    def own_words(self) -> set[str]:
        """Every word of every verbalizer and of the label names, in small letters."""
        # Label names too: a reader would take a drawn word of that name for the label.
        texts = list(self.label_names)
        for verbalizer in (self.verbalizer, self.zero_shot_verbalizer, *self.verbalizers.values()):
            for forms in verbalizer.values():
                texts += [forms] if isinstance(forms, str) else forms
        return set(" ".join(texts).lower().split())

    def words_for(self, shots: int, choice: str = "") -> tuple[LabelWords, ...]:
        """Label words with that many demonstrations, or the words of the verbalizer `choice`.

        >>> from batch_calibration.scoring.tasks import TASKS
        >>> TASKS["wic"].words_for(shots=1), TASKS["wic"].words_for(shots=0)
        (('false', 'true'), ('no', 'yes'))
        """
        if choice:
            refuse_unknown(f"verbalizer of {self.name}", choice, self.verbalizers)
            verbalizer = self.verbalizers[choice]
        else:
            verbalizer = self.verbalizer if shots else self.zero_shot_verbalizer or self.verbalizer
        return tuple(verbalizer[name] for name in self.label_names)

    def template(self, shots: int, choice: str = "") -> str:
        """The template with or without demonstrations, or the one numbered `choice`."""
        if choice:
            refuse_unknown(f"template of {self.name}", choice, self.templates)
            return self.templates[choice]
        return self.few_shot if shots else self.zero_shot

    def check_label_names(self, names: tuple[str, ...], where: str) -> None:
        """Refuse rows whose label names are not this task's, in this order."""
        if tuple(names) != self.label_names:
            raise InputError(
                f"{where}: task {self.name} has labels {list(self.label_names)} in this order, "
                f"the data has {list(names)}; renumber the data or bind the words by hand."
            )


class Rows(NamedTuple):
    """Rows of one split: texts by field, integer labels (-1 unknown), ids that lead back.

    `where` says in words where they were read, `split` which split they are: the one that was
    asked for or its stand-in.
    """

    rows: tuple[Row, ...]
    labels: tuple[int, ...]
    ids: tuple[str, ...]
    where: str
    split: str = ""

    def limited(self, limit: int, which: str = "sample") -> "Rows":
        """`limit` rows, all where it is 0: a sample in the rows' order, or the "first"."""
        size = len(self.rows)
        if not 0 < limit < size:
            return self
        # Files are often sorted by class; smaller samples are part of larger ones.
        order = np.random.default_rng([0, 8]).permutation(size).tolist()
        return self.pick(range(limit) if which == "first" else sorted(order[:limit]))

    def pick(self, numbers: Sequence[int]) -> "Rows":
        """The rows of these numbers, in the order of the numbers."""
        return self._replace(
            rows=tuple(map(self.rows.__getitem__, numbers)),
            labels=tuple(map(self.labels.__getitem__, numbers)),
            ids=tuple(map(self.ids.__getitem__, numbers)),
        )


PATHS = ("path", "file", "file_name", "filename")
COLUMNS: tuple[Mapping[str, str], ...] = ({}, *({IMAGE: name} for name in PATHS))
"""Names that a table of images may have for the column of their paths."""


def text_task(
    name: str,
    title: str,
    fields: tuple[str, ...],
    verbalizer: Mapping[str, LabelWords],
    few_shot: str,
    **settings: object,
) -> Task:
    """A task of texts: labels in the order of `verbalizer`, one template with and without shots.

    Args:
      name: what a user types.
      title: what tables print.
      fields: the columns that make a row.
      verbalizer: label name -> label words, in the order of the data's integer labels.
      few_shot: the template, which ends in `{label}`.
      **settings: further fields of `Task`, and those whose default is not right: `zero_shot` (the
        template), `statement_words` (the verbalizer's first forms), `statement_fields` (`fields`).

    >>> text_task("mood", "Mood", ("text",), {"n": "bad", "y": "good"}, "{text}: {label}").zero_shot
    '{text}: {label}'
    """
    defaults: dict[str, object] = {
        "label_names": tuple(verbalizer),
        "zero_shot": few_shot,
        "statement": "{label}",
        "statement_words": {label: first_form(verbalizer[label]) for label in verbalizer},
        "statement_fields": fields,
    }
    # What the caller names goes before a default.
    named = {"name": name, "title": title, "fields": fields, "verbalizer": verbalizer}
    return Task(**(defaults | named | {"few_shot": few_shot} | settings))  # type: ignore[arg-type]


def image_task(
    name: str, title: str, words: Mapping[str, str], statements: tuple[str, ...], **settings: object
) -> Task:
    """An image task: `words` maps each label name, in the data's order, to what statements say.

    Args:
      name: what a user types.
      title: what tables print.
      words: label name -> words.
      statements: texts that hold `{label}` once; the first is the usual one, and all of them
        together are the prompt ensemble.
      **settings: further fields of `Task`, such as `tfds`.

    >>> image_task("pets", "Pets", {"cat": "cat", "dog": "dog"}, ("a photo of a {label}.",)).fields
    ('image',)
    """
    defaults: dict[str, object] = {
        "statement": statements[0],
        "statements": statements,
        "columns": COLUMNS,
        "labels_are": NAMES,
        "stand_ins": {"test": "validation"},
    }
    return text_task(name, title, (IMAGE,), words, "", **(defaults | settings))
