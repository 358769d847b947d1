"""The evidence's studies by name, and functions that run a study from the keys of a config."""

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from batch_calibration.cli.machine import keep_programs
from batch_calibration.errors import InputError
from experiments.evidence import (
    demonstrations,
    ensemble,
    failure,
    judge,
    law,
    page,
    real,
    recommend,
    rows,
    shares,
)
from experiments.evidence.page import Written


class Study(NamedTuple):
    """A study's function and the type of its options."""

    run: Callable[..., Written]
    options: Callable[..., object]


STUDIES = {
    "real": Study(real.run, real.Options),
    "failure": Study(failure.run, failure.Options),
    "shares": Study(shares.run, shares.Options),
    "rows": Study(rows.run, rows.Options),
    "law": Study(law.run, law.Options),
    "demonstrations": Study(demonstrations.run, demonstrations.Options),
    "judge": Study(judge.run, judge.Options),
    "ensemble": Study(ensemble.run, ensemble.Options),
    "recommend": Study(recommend.run, recommend.Options),
}
"""Name -> study."""


def run(
    config: Mapping[str, object], scores: Path, workdir: Path, filled: Path | None = None
) -> list[Path]:
    """Runs the study of a config, prints its findings, writes its files and returns their paths.

    Raises:
        InputError: the study is unknown, or refuses its options.
    """
    options = {key: _split(setting) for key, setting in config.items()}
    name = str(options.pop("study", ""))  # the other keys are the study's options
    if name not in STUDIES:
        raise InputError.unknown("study", name, STUDIES)
    chosen = STUDIES[name]
    written = chosen.run(scores, chosen.options(**options))
    print("\n".join(written.findings))
    return page.write(written, name, workdir, filled)


def run_timed(
    config: Mapping[str, object], scores: Path, workdir: Path, filled: Path | None = None
) -> None:
    """Calls `run` with the compilation cache, and prints the files and the duration."""
    keep_programs()
    start = time.perf_counter()
    print(*run(config, scores, workdir, filled), sep="\n")
    # The second number is the processor time of all threads since the process began.
    spent = time.perf_counter() - start, time.process_time()
    print("{:.1f} s, {:.1f} s of processor time, compilation included".format(*spent))


def _split(setting: object) -> object:
    """Splits comma-separated texts in a tuple, which come from the command line."""
    if not isinstance(setting, tuple):
        return setting
    members: list[object] = []
    for member in setting:
        members += member.strip("()").split(",") if isinstance(member, str) else [member]
    return tuple(member for member in members if member != "")
