"""What a task is: a value that names its fields, labels, templates and words."""

from typing import NamedTuple

from batch_calibration.typing import InputError

Row = dict[str, str]


class Task(NamedTuple):
    """A classification task as the paper states it; words are bound to label *names*.

    `label_names` stand in the order of the data's integer labels; `verbalizer` maps each name to
    its label words, so that a data set with another order cannot be scored wrongly in silence.
    `few_shot` and `zero_shot` hold `{field}` for each field and end in `{label}`. `statements`
    holds one `{label}` and serves dual encoders; `names` are its words where they differ.
    """

    name: str
    title: str
    fields: tuple[str, ...]
    label_names: tuple[str, ...]
    verbalizer: dict[str, str]
    few_shot: str
    zero_shot: str
    statement: str
    statement_words: dict[str, str]
    statement_fields: tuple[str, ...]
    tfds: str | None = None
    test_rows: int | None = None
    source: str = ""

    @property
    def words(self) -> tuple[str, ...]:
        """Label words in the order of the integer labels."""
        return tuple(self.verbalizer[name] for name in self.label_names)

    def template(self, shots: int) -> str:
        """The few-shot template, or the zero-shot one where there are no demonstrations."""
        return self.few_shot if shots else self.zero_shot

    def check_label_names(self, names: tuple[str, ...], where: str) -> None:
        """Refuse rows whose label names are not this task's, in this order."""
        if tuple(names) != self.label_names:
            raise InputError(
                f"{where}: task {self.name} has labels {list(self.label_names)} in this order, "
                f"the data has {list(names)}; renumber the data or bind the words by hand."
            )


class Rows(NamedTuple):
    """Rows of one split: texts by field, integer labels (-1 unknown), ids that lead back."""

    rows: tuple[Row, ...]
    labels: tuple[int, ...]
    ids: tuple[str, ...]
    where: str
