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
    """The work of each worker of a sweep: score the contexts that no other worker has.

    It holds plain values alone, so that it can be sent to another process or machine.

    Attributes:
        studies: what is scored.
        workdir: the folder that all workers share.
        command: what a user typed, as in `run_scoring`.
        spelling: how sentences spell keys: of the door by which the sweep was started.
    """

    studies: tuple[Study, ...]
    workdir: Path
    command: str = ""
    spelling: Spelling = field(default_factory=current_spelling)

    @property
    def logs(self) -> Path:
        """The folder of what workers say."""
        return self.workdir / "work" / "logs"

    def __call__(self, notify: Callable[[str], None] | None = None) -> ScoringReport:
        """Work until every context is stored, by this worker or by others.

        Raises:
            InputError: as in `run_scoring`.
        """
        total, errors = ScoringReport((), 0, 0, 0, ()), dict[str, None]()
        for study in self.studies:
            try:
                with doors_spelling(self.spelling):  # a worker's process opened no door
                    report = run_scoring(*study, self.workdir, notify=notify, command=self.command)
            except InputError as error:
                # The other studies are scored first; several often fail for one reason.
                errors[str(error)] = None
                continue
            total = ScoringReport(*map(add, total, report))
        if errors:
            raise InputError(" ".join(errors))
        return total._replace(notes=tuple(dict.fromkeys(total.notes)))

    def check(self) -> None:
        """Render every context, so that a wrong setting is refused before a cluster is asked.

        Raises:
            InputError: as in `run_scoring`.
        """
        for study in self.studies:
            render_contexts(*study)


class Launcher(Protocol):
    """Starts workers and waits for them, in processes or on a cluster."""

    def __call__(self, work: Work, notify: Callable[[str], None], /) -> list[ScoringReport | str]:
        """The report of each worker, or a sentence on its end."""
        ...


class SweepReport(NamedTuple):
    """The outcome of a sweep.

    Attributes:
        contexts: how many it has.
        inputs: how many these have.
        seconds: from the start of the launcher to its end.
        workers: what each worker reports of its own part.
        lost: a sentence on each worker that ended early; the others did its contexts.
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
    """Score studies with several workers; what a workdir holds already is not scored again.

    Workers know nothing of each other but the workdir: each claims a context before it scores it.
    A sweep that is stopped, or whose launcher dies, goes on when it is started again.

    Args:
        studies: what to score, such as `grid(settings, shots=(1, 2, 4))`.
        workdir: a folder that all workers can write.
        launch: starts the workers; None works in this process alone.
        notify: called with sentences on what the launcher does.
        command: what a user typed, as in `run_scoring`.

    Raises:
        InputError: as in `run_scoring`; no worker could go on to the end.

    Example:
        settings = Settings.of(model="mini", data="mini", tasks="sst2", limit=40)
        sweep(grid(settings, shots=(1, 2, 4)), "runs/shots")
    """
    Store(workdir, create=True)  # refused here where it cannot be written, not in each worker
    work = Work(tuple(studies), Path(workdir).absolute(), command)
    began = time.monotonic()
    endings = launch(work, notify) if launch else [work(notify)]
    reports = tuple(ending for ending in endings if not isinstance(ending, str))
    lost = tuple(dict.fromkeys(ending for ending in endings if isinstance(ending, str)))
    if not reports:
        raise InputError(" ".join(lost) or f"the sweep has no workers; give {spell('workers', 2)}.")
    first = reports[0]  # every worker goes through all contexts
    return SweepReport(len(first.ids), first.inputs, time.monotonic() - began, reports, lost)
