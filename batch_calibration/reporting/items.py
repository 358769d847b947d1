"""Results, a table, a figure: the parts of the catalogue."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from batch_calibration.methods import METHODS
from batch_calibration.reporting.cells import Cells
from batch_calibration.reporting.frame import LABELS, UNCHANGED, Frame, split_studies
from batch_calibration.scores import ScoreTable
from batch_calibration.scoring.tasks import TASKS
from batch_calibration.studies import Record

if TYPE_CHECKING:
    from batch_calibration.reporting.figures.style import Drawn

PROMPT = ("template", "verbalizer", "selection", "order", *LABELS)
"""Options that change the prompt of a task."""


@dataclass(frozen=True)
class Results:
    """Results from which tables and figures are made.

    Attributes:
        records: a record for each context.
        load: record -> its score table, which some figures need; None if it is gone.
        boundary_tasks: the largest number of tasks in the figure of boundaries.
        models: names of models, the smallest first; other models follow by name.
        all_boundaries: True to draw the boundaries of all tasks, too, which takes long.
    """

    records: Sequence[Record]
    load: Callable[[Record], ScoreTable | None] = lambda record: None
    boundary_tasks: int = 2
    models: tuple[str, ...] = ()
    all_boundaries: bool = False

    # Tables, figures and the page use the same studies.
    @cached_property
    def studies(self) -> dict[str, Frame]:
        """The studies by the beginning of their files' names; errors of `split_studies`."""
        studies = dict[str, Frame]()
        for frame in split_studies(self.records):
            models = frame.levels("model")
            name = models[0] if len(models) == 1 else f"{len(models)} models"
            name = (name or "scores").replace(" ", "-")
            # Studies of one model differ in their data.
            while name in studies:
                name = f"{name}-{len(studies) + 1}"
            studies[name] = frame
        return studies

    @cached_property
    def own_prompts(self) -> Frame:
        """The contexts of texts with the tasks' own prompts, as in the paper's main tables."""
        kept = []
        for record in self.records:
            options = record.context.options
            changed = [name for name in PROMPT if options.get(name, _own(name)) != _own(name)]
            task = TASKS.get(record.context.task)
            if not changed and not (task and task.is_image):
                kept.append(record)
        return Frame(kept)

    @cached_property
    def sizes(self) -> list[Frame]:
        """The contexts with own prompts and one shot, by model, the smallest model first."""
        return self.by_model("1")

    def by_model(self, shots: str) -> list[Frame]:
        """Groups the contexts with own prompts and a number of shots by model."""
        models = self.own_prompts.where(shots=shots).by("model") if self.own_prompts.records else {}

        def rank(name: str) -> tuple[int, str]:
            return self.models.index(name) if name in self.models else len(self.models), name

        return [models[key] for key in sorted(models, key=lambda key: rank(key[0]))]

    @property
    def middle(self) -> list[Frame]:
        """The model in the middle of three sizes or more; with fewer sizes, no model."""
        return self.sizes[1:-1][:1]

    @cached_property
    def main(self) -> Frame | None:
        """The model of `sizes` with the most records, which the figures of one model show."""
        counts = Counter(record.context.model for record in self.records)
        return max(self.sizes, key=lambda one: counts[one.records[0].context.model], default=None)


def compared_by_size() -> list[str]:
    """Returns the methods of the paper's tables of sizes, which need no labels."""
    methods = []
    for name, method in METHODS.items():
        if method.group == "paper" and not method.probe.labels and not method.in_order:
            methods.append(name)
    return methods


def _own(name: str) -> str:
    return UNCHANGED.get(name, "")


class Table(NamedTuple):
    """A table; its files are CSV, Markdown and LaTeX.

    Attributes:
        section: the study that it belongs to, a key of `Results.studies`.
        slug: the file's name without its ending.
        heading: the title without the unit.
        cells: header and rows.
        note: a sentence below it.
        unit: the unit of its numbers.
        keys: the number of columns that identify a row; they stand in every part of a wide table.
        number: its number in the paper behind its kind; empty for other tables.
    """

    section: str
    slug: str
    heading: str
    cells: Cells
    note: str = ""
    unit: str = "accuracy in %"
    keys: int = 1
    number: str = ""

    @property
    def title(self) -> str:
        """The heading and the unit."""
        return ", ".join(filter(None, (self.heading, self.unit)))


# A score table -> the texts of its test rows by id, if they can be read.
TextsOf = Callable[[ScoreTable], Mapping[str, str]]


class Drawing(NamedTuple):
    """A figure, drawn on demand.

    Attributes:
        section: the study that it belongs to.
        slug: the file's name without its ending.
        draw: draws the figure of the files.
        number: its number in the paper behind its kind; empty for other figures.
        draw_for_page: draws the page's view of the same numbers; None for the figure of the files.
        is_on_page: False if another figure on the page shows all of it.
    """

    section: str
    slug: str
    draw: "Callable[[], Drawn]"
    number: str = ""
    draw_for_page: "Callable[[TextsOf], Drawn] | None" = None
    is_on_page: bool = True


def notes_of(frame: Frame, *sentences: str) -> str:
    """Joins sentences and the remarks of the records, each once."""
    remarks = chain.from_iterable(record.notes for record in frame.records)
    return " ".join(dict.fromkeys(filter(None, (*sentences, *remarks))))
