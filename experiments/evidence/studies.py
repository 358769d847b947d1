"""The studies of evidence by name, and what runs one from a config's keys."""

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
"""Each study by its name."""


def run(
    config: Mapping[str, object], scores: Path, workdir: Path, filled: Path | None = None
) -> list[Path]:
    """Run the study that a config names; print what it found, write it, and name the files.

    Raises:
        InputError: the study is unknown; what the study raises.
    """
    options = {key: _split(setting) for key, setting in config.items()}
    name = str(options.pop("study", ""))  # what is left are the study's options
    if name not in STUDIES:
        raise InputError.unknown("study", name, STUDIES)
    chosen = STUDIES[name]
    written = chosen.run(scores, chosen.options(**options))
    print("\n".join(written.findings))
    return page.write(written, name, workdir, filled)


def run_timed(
    config: Mapping[str, object], scores: Path, workdir: Path, filled: Path | None = None
) -> None:
    """`run` with compiled programs kept; print the files, and how long it took."""
    keep_programs()
    start = time.perf_counter()
    print(*run(config, scores, workdir, filled), sep="\n")
    # The second: of all threads, since the process began.
    spent = time.perf_counter() - start, time.process_time()
    print("{:.1f} s, {:.1f} s of processor time, compilation included".format(*spent))


def _split(setting: object) -> object:
    """A tuple of names in which one with commas, as at the command line, is several."""
    if not isinstance(setting, tuple):
        return setting
    members: list[object] = []
    for member in setting:
        members += member.strip("()").split(",") if isinstance(member, str) else [member]
    return tuple(member for member in members if member != "")
