"""Results, a table, a figure: the parts of the catalogue."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from batch_calibration.reporting.cells import Cells
from batch_calibration.reporting.frame import LABELS, Frame, split_studies
from batch_calibration.scores import ScoreTable
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
        load: record -> its score table, which some figures need; None for a lost file.
        boundary_tasks: the largest number of tasks in the figure of boundaries.
    """

    records: Sequence[Record]
    load: Callable[[Record], ScoreTable | None] = lambda record: None
    boundary_tasks: int = 2

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


class Drawing(NamedTuple):
    """A figure, drawn on demand.

    Attributes:
        section: the study that it belongs to.
        slug: the file's name without its ending.
        draw: draws the figure of the files.
        number: its number in the paper behind its kind; empty for other figures.
        draw_for_page: draws the page's view of the same numbers; None for the figure of the files.
    """

    section: str
    slug: str
    draw: "Callable[[], Drawn]"
    number: str = ""
    draw_for_page: "Callable[[], Drawn] | None" = None


def notes_of(frame: Frame, *sentences: str) -> str:
    """Joins sentences and the remarks of the records, each once."""
    remarks = chain.from_iterable(record.notes for record in frame.records)
    return " ".join(dict.fromkeys(filter(None, (*sentences, *remarks))))
