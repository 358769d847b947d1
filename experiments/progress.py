"""Shows how far a program is: a bar with its rate and the time left."""

from types import TracebackType

from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text


class RateColumn(ProgressColumn):
    """Units per second."""

    def __init__(self, unit: str):
        super().__init__()
        self.unit = unit

    def render(self, task: Task) -> Text:
        """The rate so far."""
        return Text(f"{task.finished_speed or task.speed or 0:,.0f} {self.unit}/s")


class ProgressBar:
    """A bar in the terminal.

    Example:
        with ProgressBar("scoring", "examples") as bar:
            bar.update(done=3, total=10, description="sst2, seed 0")
    """

    def __init__(self, description: str, unit: str):
        self._bar = Progress(
            TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), RateColumn(unit),
            TimeRemainingColumn(),
        )  # fmt: skip
        self._line = self._bar.add_task(description, total=None)

    def update(self, done: int, total: int, description: str) -> None:
        """Move the bar."""
        self._bar.update(self._line, completed=done, total=total, description=description)

    def __enter__(self) -> "ProgressBar":
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:  # fmt: skip
        self._bar.stop()
