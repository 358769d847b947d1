"""Scores studies with several workers that share a workdir."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from operator import add
from pathlib import Path
from typing import NamedTuple, Protocol

from batch_calibration.errors import InputError, Spelling, current_spelling, doors_spelling, spell
from batch_calibration.settings import Study
from batch_calibration.studies import Store
from batch_calibration.studies.scoring import ScoringReport, render_contexts, run_scoring


@dataclass(frozen=True)
class Work:
    """The work of each worker of a sweep: it scores the contexts that no other worker claims.

    All attributes are plain values that can be sent to another process or machine.

    Attributes:
        studies: studies to score.
        workdir: the folder that all workers share.
        command: the user's command line, as in `run_scoring`.
        spelling: spelling of keys in messages, as in the interface that started the sweep.
    """

    studies: tuple[Study, ...]
    workdir: Path
    command: str = ""
    spelling: Spelling = field(default_factory=current_spelling)

    @property
    def logs(self) -> Path:
        """The folder of the workers' logs."""
        return self.workdir / "work" / "logs"

    def __call__(self, notify: Callable[[str], None] | None = None) -> ScoringReport:
        """Scores contexts until this worker and others have stored all of them.

        Raises:
            InputError: as in `run_scoring`.
        """
        total, errors = ScoringReport((), 0, 0, 0, ()), dict[str, None]()
        for study in self.studies:
            try:
                with doors_spelling(self.spelling):  # A new process has the default spelling.
                    report = run_scoring(*study, self.workdir, notify=notify, command=self.command)
            except InputError as error:
                # The other studies are scored first; equal messages are shown once.
                errors[str(error)] = None
                continue
            total = ScoringReport(*map(add, total, report))
        if errors:
            raise InputError(" ".join(errors))
        return total._replace(notes=tuple(dict.fromkeys(total.notes)))

    def check(self) -> None:
        """Renders every context, so that a wrong setting raises before workers start.

        Raises:
            InputError: as in `run_scoring`.
        """
        for study in self.studies:
            render_contexts(*study)


class Launcher(Protocol):
    """A function that starts workers, in processes or on a cluster, and waits for them."""

    def __call__(self, work: Work, notify: Callable[[str], None], /) -> list[ScoringReport | str]:
        """Returns the report of each worker, or a message if it ended early."""
        ...


class SweepReport(NamedTuple):
    """The outcome of a sweep.

    Attributes:
        contexts: number of contexts.
        inputs: number of inputs of all contexts.
        seconds: duration of the launcher.
        workers: report of each worker on its part.
        lost: a message on each worker that ended early; the others scored its contexts.
    """

    contexts: int
    inputs: int
    seconds: float
    workers: tuple[ScoringReport, ...]
    lost: tuple[str, ...]


def sweep(
    studies: Sequence[Study],
    workdir: str | Path = "runs/study",
    *,
    launch: Launcher | None = None,
    notify: Callable[[str], None] = print,
    command: str = "",
) -> SweepReport:
    """Scores studies with several workers; contexts in the workdir are not scored again.

    Workers share only the workdir: a worker claims a context before scoring it. A sweep that is
    stopped, or that loses its launcher, continues when it is started again.

    Args:
        studies: studies to score, such as `grid(settings, shots=(1, 2, 4))`.
        workdir: a folder that all workers can write to.
        launch: starts the workers; None scores in this process.
        notify: called with messages of the launcher.
        command: the user's command line, as in `run_scoring`.

    Raises:
        InputError: as in `run_scoring`; no worker finished.

    Example:
        settings = Settings.of(model="mini", data="mini", tasks="sst2", limit=40)
        sweep(grid(settings, shots=(1, 2, 4)), "runs/shots")
    """
    Store(workdir, create=True)  # raises here if it cannot be written, not in each worker
    work = Work(tuple(studies), Path(workdir).absolute(), command)
    began = time.monotonic()
    endings = launch(work, notify) if launch else [work(notify)]
    reports = tuple(ending for ending in endings if not isinstance(ending, str))
    lost = tuple(dict.fromkeys(ending for ending in endings if isinstance(ending, str)))
    if not reports:
        raise InputError(" ".join(lost) or f"the sweep has no workers; give {spell('workers', 2)}.")
    first = reports[0]  # Every worker goes through all contexts.
    return SweepReport(len(first.ids), first.inputs, time.monotonic() - began, reports, lost)
