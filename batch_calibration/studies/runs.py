"""The scoring runs of a workdir: the command, config, versions, device and date of each."""

import dataclasses
import json
import platform
import secrets
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cache
from importlib import metadata
from pathlib import Path

from batch_calibration.errors import InputError
from batch_calibration.files import parse_json, read_as, remove, write_whole
from batch_calibration.version import __version__

FOLDER = "runs"
"""Where a workdir keeps them, a file each: several processes may score into it at once."""
LIBRARIES = ("jax", "jaxlib", "flax", "numpy", "safetensors", "tokenizers")
"""Libraries whose versions may change a score."""


@dataclass(frozen=True)
class Run:
    """The facts of one scoring run.

    Attributes:
        began: date and time in UTC.
        command: what was typed; of a program that is none of ours its name alone.
        config: settings that differ from their defaults.
        contexts: how many it was to score.
        device: what scored, and how many of it.
        commit: of the checkout that the code lay in, "-dirty" behind it where files differed; empty
            where it lay in none.
        versions: name -> version, Python's among them.
        rows: how many were scored; None where the run did not come to its end.
        seconds: what that took.
    """

    began: str
    command: str
    config: Mapping[str, object]
    contexts: int
    device: str
    commit: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)
    rows: int | None = None
    seconds: float | None = None


class RunFile:
    """A run that has begun, and its file."""

    def __init__(self, workdir: Path, run: Run):
        # Written before anything is scored: a run may be killed.
        stamp = run.began.replace(":", "").replace(" ", "T")
        self._run = run
        # Random digits: several processes may begin in one second.
        self._path = workdir / FOLDER / f"{stamp}-{secrets.token_hex(4)}.json"
        self._write()

    def end(self, rows: int, seconds: float) -> None:
        """Add what was done; of a run that found everything scored nothing is kept."""
        if not rows:
            remove(self._path)
            return
        self._run = replace(self._run, rows=rows, seconds=round(seconds, 1))
        self._write()

    def _write(self) -> None:
        fields = dataclasses.asdict(self._run)
        fields = {name: field for name, field in fields.items() if field is not None}
        write_whole(self._path, json.dumps(fields, indent=1, sort_keys=True).encode())


def begin(
    workdir: Path, config: Mapping[str, object], contexts: int, device: str, command: str = ""
) -> RunFile:
    """Keep that a run began, and with what; of a program without a command its name alone."""
    # What others pass to their programs may hold keys.
    command = command or Path(sys.argv[0]).name
    began = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S")
    versions = {"batch-calibration": __version__, "Python": platform.python_version()}
    for name in LIBRARIES:  # some are optional
        with suppress(metadata.PackageNotFoundError):
            versions[name] = metadata.version(name)
    run = Run(began, command, dict(config), contexts, device, _commit(), versions)
    return RunFile(workdir, run)


def read(workdir: Path) -> tuple[list[Run], list[str]]:
    """Every run, the earliest first, and a sentence on each file that cannot be read."""
    runs, broken = list[Run](), list[str]()
    for path in sorted((workdir / FOLDER).glob("*.json")):
        try:
            runs.append(read_as(Run, parse_json(path.read_text(encoding="utf-8")), "run"))
        except (OSError, ValueError) as error:
            expected = "the facts of a scoring run"
            sentence = InputError.at(path, expected, error, "remove the file")
            broken.append(str(sentence))
    return runs, broken


def copy_runs(source: Path, workdir: Path) -> None:
    """Copy what another workdir keeps of its runs: each file has a name of its own."""
    for path in sorted((source / FOLDER).glob("*.json")):
        target, run = workdir / FOLDER / path.name, path.read_bytes()
        # Of one run the file says more once it has come to its end.
        if not target.exists() or len(target.read_bytes()) < len(run):
            write_whole(target, run)


@cache
def _commit() -> str:
    """The commit of this file's checkout; empty where this file is in none."""
    source = Path(__file__)

    def git(*arguments: str) -> str:
        command_line = ["git", "-C", str(source.parent), *arguments]
        process = subprocess.run(command_line, capture_output=True, text=True, check=False)
        return "" if process.returncode else process.stdout.strip()

    try:
        # An installed package may lie below the checkout of something else.
        is_tracked = git("ls-files", "--error-unmatch", source.name)
        return is_tracked and git("describe", "--always", "--dirty", "--abbrev=12", "--exclude=*")
    except OSError:  # there is no git
        return ""
