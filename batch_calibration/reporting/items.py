"""Results, a table, a figure: the parts of the catalogue."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from batch_calibration.methods import METHODS
from batch_calibration.reporting import curves, prompts
from batch_calibration.reporting.cells import Cells
from batch_calibration.reporting.frame import Frame, axis_name, by_setting, group_by
from batch_calibration.scores import ScoreTable
from batch_calibration.scoring.tasks import TASKS
from batch_calibration.studies import Record

if TYPE_CHECKING:
    from batch_calibration.reporting.figures.style import Drawn

ACROSS = "Across settings"  # the section of what varies from one setting to the next


@dataclass(frozen=True)
class Results:
    """Results of which tables and figures are made."""

    records: Sequence[Record]  # all of them
    # The score table of a record, for the figures that need it; None where it is gone.
    load: Callable[[Record], ScoreTable | None] = lambda record: None
    boundary_tasks: int = 2  # how many tasks the figure of boundaries shows, at most
    # Names, smallest first, in the order of tables of several models; others come behind, by name.
    models: tuple[str, ...] = ()
    # Whether the figure of boundaries of all tasks, which takes longest, is drawn, too.
    all_boundaries: bool = False

    # Tables, figures and the page walk the same studies: each is grouped once.
    @cached_property
    def groups(self) -> list[Frame]:
        """The records by setting, without those of robustness studies; errors of `by_setting`."""
        return by_setting(self.records)

    @cached_property
    def varies_prompts(self) -> bool:
        """True if some records belong to a study of the prompt."""
        return any(map(axis_name, self.records))

    @cached_property
    def sections(self) -> list[Frame]:
        """Settings with a section of their own: all but those whose tasks a wider setting has.

        Where shots alone differ they are points of a curve, and the curve shows them.
        """

        def is_widest(group: Frame) -> bool:
            tasks, setting = group.tasks.keys(), group.setting._replace(shots=0)
            rivals = [rival for rival in self.groups if rival.setting._replace(shots=0) == setting]
            return not any(tasks < rival.tasks.keys() for rival in rivals)

        return list(filter(is_widest, self.groups))

    @cached_property
    def axes(self) -> list[prompts.PromptStudy]:
        """Studies in which one choice of the prompt varies, task by task."""
        return prompts.find_axes(self.records) if self.varies_prompts else []

    @cached_property
    def grids(self) -> list[prompts.Grid]:
        """Every two choices of the prompt that were varied together."""
        return prompts.find_grids(self.records) if self.varies_prompts else []

    @cached_property
    def curves(self) -> list[curves.Curves]:
        """Accuracy against a number: shots, rows that a bias is learned from, rows seen."""
        by_size, by_rows = curves.by_probe_size(self.sections), curves.by_rows_seen(self.sections)
        return [*curves.by_shots(self.groups), *by_size, *by_rows]

    @cached_property
    def sizes(self) -> list[Frame]:
        """Settings of text with one shot that differ in the model alone, smallest first."""
        return next(iter(self.families(1)), [])

    def families(self, shots: int) -> list[list[Frame]]:
        """Settings of text that differ in the model alone, those with the most tasks first."""
        compared = []
        for group in self.groups:
            of_images = any(task in TASKS and TASKS[task].is_image for task in group.tasks)
            is_compared = len(group.among(compared_by_size())) > 1 and group.setting.has_own_labels
            if group.setting.shots == shots and not of_images and is_compared:
                compared.append(group)

        def rank(group: Frame) -> tuple[int, str]:
            name, models = group.setting.model, self.models
            return models.index(name) if name in models else len(models), name

        by_setting = group_by(compared, lambda group: group.setting._replace(model="", variant=""))
        families = [sorted(family, key=rank) for family in by_setting.values()]
        return sorted(
            families, key=lambda family: -len(family) * max(len(group.tasks) for group in family)
        )

    @property
    def middle(self) -> list[Frame]:
        """Of three sizes or more the one in the middle, of fewer none."""
        return self.sizes[1:-1][:1]

    @cached_property
    def main(self) -> Frame | None:
        """Of these the one whose model has the most records: figures of one model show it."""
        counts = Counter(record.context.model for record in self.records)
        return max(self.sizes, key=lambda group: counts[group.setting.model], default=None)


def compared_by_size() -> list[str]:
    """The methods that the paper's tables of sizes compare: those that need no labels."""
    methods = []
    for name, method in METHODS.items():
        if method.group == "paper" and not method.probe.labels and not method.in_order:
            methods.append(name)
    return methods


class Table(NamedTuple):
    """One table."""

    section: str  # the setting that it belongs to, or `ACROSS`
    slug: str  # the file's name without its ending
    heading: str  # what it shows
    cells: Cells  # header and rows
    note: str = ""  # a sentence below it
    csv: Cells | None = None  # rows of its CSV file, None for no such file
    shown: bool = True  # whether it is printed and in the report, or only written
    unit: str = "accuracy in %"  # of its numbers
    number: str = ""  # its number in the paper behind its kind; empty for what is not in it

    @property
    def title(self) -> str:
        """The heading, and the unit."""
        return ", ".join(filter(None, (self.heading, self.unit)))


# A score table -> the texts of its test rows by id, where they can be read.
TextsOf = Callable[[ScoreTable], Mapping[str, str]]


class Drawing(NamedTuple):
    """One figure, drawn when it is asked for."""

    section: str  # the setting that it belongs to, or `ACROSS`
    slug: str  # the file's name without its ending
    draw: "Callable[[], Drawn]"  # for files
    number: str = ""  # its number in the paper behind its kind; empty for what is not in it
    # For a page, where that is another view of the same numbers; None for the figure of files.
    draw_for_page: "Callable[[TextsOf], Drawn] | None" = None
    is_on_page: bool = True  # whether no other figure shows all of it


def setting_slug(group: Frame, kind: str) -> tuple[str, str]:
    """The section and the slug of a table or figure of one setting."""
    return str(group.setting), f"{group.setting.slug}-{kind}"
