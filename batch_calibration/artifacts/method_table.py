"""The paper's table of methods (Table 1): cost, form, boundary, and where each gains here."""

from collections.abc import Callable, Sequence

from batch_calibration.artifacts import gains
from batch_calibration.artifacts.cells import Cells
from batch_calibration.artifacts.grouping import SettingRecords
from batch_calibration.artifacts.method_display import FORMULAS
from batch_calibration.methods import METHODS
from batch_calibration.metrics import over_tasks
from batch_calibration.tasks import TASKS

NOTE = (
    "s are log-probabilities, p probabilities of the labels. Forward passes are those for a batch "
    "beyond its own. The columns of gains are points over ICL in this workdir, averaged over the "
    "tasks of one text, of several texts and of three labels or more: where the paper crosses a "
    "method out by hand, these are measured."
)
KINDS: dict[str, Callable[[str], bool]] = {
    "one text": lambda task: len(TASKS[task].fields) == 1,
    "several texts": lambda task: len(TASKS[task].fields) > 1,
    "three labels or more": lambda task: len(TASKS[task].label_names) > 2,
}
"""What tasks a column of gains is of."""


def cells(measured: SettingRecords | None = None) -> Cells:
    """A row for each method that has formulas; gains where a setting of text was measured."""
    named = list(filter(FORMULAS.__contains__, METHODS))
    rows: Cells = [
        ["method", "probe", "forward passes", "learning costs", "scores after", "learned",
         "decides where"],
        *map(_formulas_row, named),
    ]  # fmt: skip
    if measured is None:
        return rows
    known = gains.compared(measured, named)
    for heading, holds in KINDS.items():
        tasks = [task for task in measured.records if task in TASKS and holds(task)]
        if tasks and known:
            gained = [_gained(measured, tasks, name) if name in known else "-" for name in named]
            for row, cell in zip(rows, [f"gain, {heading}", *gained], strict=True):
                row.append(cell)
    return rows


def _formulas_row(name: str) -> list[str]:
    probe = METHODS[name].probe
    passes = f"{probe.forwards} + 1" if probe.forwards else "1"
    return [name, probe.name, passes, *FORMULAS[name]]


def _gained(group: SettingRecords, tasks: Sequence[str], method: str) -> str:
    return gains.marked(over_tasks([gains.gain(group, task, method) for task in tasks]))
