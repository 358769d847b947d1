"""What a task is: a value that names its fields, labels, templates and words."""

from collections.abc import Mapping
from typing import NamedTuple

from batch_calibration.errors import InputError

Row = dict[str, str]
Words = str | tuple[str, ...]
"""How a label is written: one surface form, or several of which the first is shown."""
NUMBERS, NAMES = "numbers", "names"
"""How rows give a label: its place in `label_names`, or its name."""
IMAGE = "image"
"""The one field of an image task: a reference to an image, never its pixels."""


class Task(NamedTuple):
    """A classification task as the paper states it; words are bound to label *names*.

    `label_names` stand in the order of the data's integer labels; `verbalizer` maps each name to
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

    `objective` is what a row asks, as Table 4 of Zhou et al. 2024 has it; tasks outside that table
    have none.

    An image task (`tasks.image.image_task`) has the one field `image` and no prompts; `statements`
    are the numbered choices of its statement, the first of them the usual one.
    """

    name: str
    title: str
    fields: tuple[str, ...]
    label_names: tuple[str, ...]
    verbalizer: Mapping[str, Words]
    few_shot: str
    zero_shot: str
    statement: str
    statement_words: Mapping[str, str]
    statement_fields: tuple[str, ...]
    tfds: tuple[str, ...] = ()
    test_rows: int | None = None
    source: str = ""
    zero_shot_verbalizer: Mapping[str, Words] = {}
    templates: Mapping[str, str] = {}
    verbalizers: Mapping[str, Mapping[str, Words]] = {}
    columns: tuple[Mapping[str, str], ...] = ({},)
    stand_ins: Mapping[str, str] = {}
    files: Mapping[str, str] = {}
    labels_are: str = NUMBERS
    statements: tuple[str, ...] = ()
    folder: str = ""
    options: tuple[str, ...] = ()
    objective: str = ""

    @property
    def is_image(self) -> bool:
        """Whether its rows are images."""
        return self.fields == (IMAGE,)

    @property
    def words(self) -> tuple[str, ...]:
        """Few-shot label words in the order of the integer labels, the first form of each."""
        return tuple(one if isinstance(one, str) else one[0] for one in self.words_for(1))

    @property
    def own_words(self) -> set[str]:
        """Every word of every verbalizer and of the label names, in small letters."""
        choices = (self.verbalizer, self.zero_shot_verbalizer, *self.verbalizers.values())
        given = [form for choice in choices for form in choice.values()]
        texts = [text for form in given for text in ((form,) if isinstance(form, str) else form)]
        return {word.lower() for text in (*texts, *self.label_names) for word in text.split()}

    def words_for(self, shots: int, choice: str = "") -> tuple[Words, ...]:
        """Label words with that many demonstrations, or those of the verbalizer `choice`.

        >>> from batch_calibration.tasks import TASKS
        >>> TASKS["wic"].words_for(shots=1), TASKS["wic"].words_for(shots=0)
        (('false', 'true'), ('no', 'yes'))
        """
        if choice:
            if choice not in self.verbalizers:
                raise InputError.unknown(f"verbalizer of {self.name}", choice, self.verbalizers)
            words = self.verbalizers[choice]
        else:
            words = self.verbalizer if shots else self.zero_shot_verbalizer or self.verbalizer
        return tuple(words[name] for name in self.label_names)

    def template(self, shots: int, choice: str = "") -> str:
        """The template with or without demonstrations, or the one numbered `choice`."""
        if choice:
            if choice not in self.templates:
                raise InputError.unknown(f"template of {self.name}", choice, self.templates)
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

    def first(self, limit: int) -> "Rows":
        """The first `limit` rows, all where it is 0."""
        cut = slice(limit or None)
        return self._replace(rows=self.rows[cut], labels=self.labels[cut], ids=self.ids[cut])
