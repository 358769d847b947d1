"""The type of a task: its fields, labels, templates and words as plain values."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from batch_calibration.errors import InputError, refuse_unknown

Row = dict[str, str]
LabelWords = str | tuple[str, ...]
"""The words of a label: one surface form, or several with the shown one first."""
NUMBERS, NAMES = "numbers", "names"
"""The form of a label in rows: its index in `label_names`, or its name."""
IMAGE = "image"  # the only field of an image task: a reference to an image, never its pixels


def first_form(words: LabelWords) -> str:
    """Returns the surface form that demonstrations show."""
    return words if isinstance(words, str) else words[0]


class Task(NamedTuple):
    """A classification task as in the paper; label *names* map to label words.

    Attributes:
        name: the name that a user types.
        title: the name in tables.
        fields: the columns that make up a row; for an image task only `image`.
        label_names: names of the labels, in the order of the data's integer labels.
        verbalizer: label name -> label words. Names prevent wrong scores if data have another
            order.
        few_shot: template with `{field}` for each field and `{label}` at the end.
        zero_shot: the same without demonstrations.
        statement: text with one `{label}`, for dual encoders.
        statement_words: label name -> words in the statement.
        statement_fields: fields that dual encoders read.
        tfds: names in TensorFlow Datasets; several if the data set was published more than once.
        test_rows: number of test rows.
        source: publication of the templates and words, or the path of the task file.
        zero_shot_verbalizer: the words without demonstrations if they differ.
        templates: numbered templates of a robustness study.
        verbalizers: numbered verbalizers of a robustness study.
        columns: possible schemas; each maps fields and `label` to columns with another name.
        stand_ins: split -> the split that replaces it if data lack it.
        files: a task file's own files by split.
        labels_are: whether the labels in rows are "numbers" or "names".
        statements: numbered statements of an image task, the usual one first.
        folder: a task file's folder of images.
        options: fields with the options of a multiple-choice question, in label order, if the label
            words are their names ("A", "1") and not their contents.
        objective: the kind of task in Table 4 of Zhou et al. 2024; empty for other tasks.
        balanced: True if the data set's authors gave each label about equally many rows.

    An image task has no prompts. `text_task` and `image_task` set the defaults.
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

    def is_balanced_in(self, data: str) -> bool:
        """Checks whether labels are about equally frequent; embedded images are drawn so."""
        return self.balanced or (self.is_image and data == "mini")

    @property
    def is_image(self) -> bool:
        """True if the rows are images."""
        return self.fields == (IMAGE,)

    @property
    def label_words(self) -> tuple[str, ...]:
        """The few-shot label words in the order of the integer labels, the first form of each."""
        return tuple(map(first_form, self.words_for(1)))

    @property
    def own_words(self) -> set[str]:
        """Collects the lower-case words of all verbalizers and label names."""
        # Label names are included, because a drawn word equal to one would suggest the label.
        texts = list(self.label_names)
        for verbalizer in (self.verbalizer, self.zero_shot_verbalizer, *self.verbalizers.values()):
            for forms in verbalizer.values():
                texts += [forms] if isinstance(forms, str) else forms
        return set(" ".join(texts).lower().split())

    def words_for(self, shots: int, choice: str = "") -> tuple[LabelWords, ...]:
        """Returns the label words for this number of shots, or of the verbalizer `choice`.

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
        """Returns the template with or without demonstrations, or the one numbered `choice`."""
        if choice:
            refuse_unknown(f"template of {self.name}", choice, self.templates)
            return self.templates[choice]
        return self.few_shot if shots else self.zero_shot

    def check_label_names(self, names: tuple[str, ...], where: str) -> None:
        """Raises if the data's label names differ from this task's names or their order."""
        if tuple(names) != self.label_names:
            expected = f"labels {list(self.label_names)} of task {self.name} in this order"
            remedy = "renumber the data or change the task's words"
            raise InputError.at(where, expected, list(names), remedy)


class Rows(NamedTuple):
    """Rows of one split: texts by field, integer labels (-1 if unknown), and ids.

    `where` describes the source. `split` is the split that was read: the requested one or its
    stand-in.
    """

    rows: tuple[Row, ...]
    labels: tuple[int, ...]
    ids: tuple[str, ...]
    where: str
    split: str = ""

    def limited(self, limit: int, which: str = "sample") -> "Rows":
        """Returns `limit` rows, or all for 0: a random sample in row order, or the "first"."""
        size = len(self.rows)
        if not 0 < limit < size:
            return self
        # Files are often sorted by class, so rows are drawn. Larger samples contain smaller ones.
        order = np.random.default_rng([0, 8]).permutation(size).tolist()
        return self.pick(range(limit) if which == "first" else sorted(order[:limit]))

    def pick(self, numbers: Sequence[int]) -> "Rows":
        """Returns the rows with these numbers, in the order of the numbers."""
        return self._replace(
            rows=tuple(map(self.rows.__getitem__, numbers)),
            labels=tuple(map(self.labels.__getitem__, numbers)),
            ids=tuple(map(self.ids.__getitem__, numbers)),
        )


PATHS = ("path", "file", "file_name", "filename")
COLUMNS: tuple[Mapping[str, str], ...] = ({}, *({IMAGE: name} for name in PATHS))
"""Possible names for the column of paths in a table of images."""


def text_task(
    name: str,
    title: str,
    fields: tuple[str, ...],
    verbalizer: Mapping[str, LabelWords],
    few_shot: str,
    **settings: object,
) -> Task:
    """Makes a task of texts, with labels in the order of `verbalizer`.

    The template is the same with and without shots by default.

    Args:
      name: the name that a user types.
      title: the name in tables.
      fields: the columns that make up a row.
      verbalizer: label name -> label words, in the order of the data's integer labels.
      few_shot: the template, which ends in `{label}`.
      **settings: further fields of `Task`. Their defaults include `zero_shot` (the template),
        `statement_words` (the verbalizer's first forms) and `statement_fields` (`fields`).

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
    # The caller's settings override the defaults.
    named = {"name": name, "title": title, "fields": fields, "verbalizer": verbalizer}
    return Task(**(defaults | named | {"few_shot": few_shot} | settings))  # type: ignore[arg-type]


def image_task(
    name: str, title: str, words: Mapping[str, str], statements: tuple[str, ...], **settings: object
) -> Task:
    """Makes an image task.

    Args:
      name: the name that a user types.
      title: the name in tables.
      words: label name -> words in the statements, in the order of the data's labels.
      statements: texts that hold `{label}` once. The first is the usual one; all of them together
        are the prompt ensemble.
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
