"""Records the scoring runs of a workdir: command, config, versions, device and date."""

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
"""The subfolder of a workdir with one file per run, so that several processes can write at once."""
LIBRARIES = ("jax", "jaxlib", "flax", "numpy", "safetensors", "tokenizers")
"""Libraries that may change a score from one version to the next."""


@dataclass(frozen=True)
class Run:
    """The facts of one scoring run.

    Attributes:
        began: start of the run, date and time in UTC.
        command: the command line; for a program of another project, only its name.
        config: settings that differ from the defaults.
        contexts: number of contexts to score.
        device: number and kind of the devices, or name of the server.
        commit: commit of the checkout with the code, followed by "-dirty" if files differ from it;
            empty outside a checkout.
        versions: name -> version, including Python's.
        rows: number of scored rows; None until the run ends.
        seconds: duration of scoring.
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
        # The file is written before scoring begins, because a run may be killed.
        stamp = run.began.replace(":", "").replace(" ", "T")
        self._run = run
        # Random digits make the name unique if several processes begin in the same second.
        self._path = workdir / FOLDER / f"{stamp}-{secrets.token_hex(4)}.json"
        self._write()

    def end(self, rows: int, seconds: float) -> None:
        """Adds the results of the run to its file; removes the file if no row was scored."""
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
    """Records the start of a run; without a command, only the name of the program."""
    # Command lines of other programs may contain API keys, so only the program's name is stored.
    command = command or Path(sys.argv[0]).name
    began = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S")
    versions = {"batch-calibration": __version__, "Python": platform.python_version()}
    for name in LIBRARIES:  # Some are optional.
        with suppress(metadata.PackageNotFoundError):
            versions[name] = metadata.version(name)
    run = Run(began, command, dict(config), contexts, device, _commit(), versions)
    return RunFile(workdir, run)


def read(workdir: Path) -> tuple[list[Run], list[str]]:
    """Reads all runs, the earliest first; also returns a message on each unreadable file."""
    runs, broken = list[Run](), list[str]()
    for path in sorted((workdir / FOLDER).glob("*.json")):
        try:
            runs.append(read_as(Run, parse_json(path.read_text(encoding="utf-8")), "run"))
        except (OSError, ValueError) as error:
            sentence = InputError.at(path, "the facts of a scoring run", error, "remove the file")
            broken.append(str(sentence))
    return runs, broken


def copy_runs(source: Path, workdir: Path) -> None:
    """Copies the files of another workdir's runs; their names are unique."""
    for path in sorted((source / FOLDER).glob("*.json")):
        target, run = workdir / FOLDER / path.name, path.read_bytes()
        # The file of a run grows when the run ends, so the longer file is the newer one.
        if not target.exists() or len(target.read_bytes()) < len(run):
            write_whole(target, run)


@cache
def _commit() -> str:
    """Returns the commit of the checkout with this file; empty outside a checkout."""
    source = Path(__file__)

    def git(*arguments: str) -> str:
        command_line = ["git", "-C", str(source.parent), *arguments]
        process = subprocess.run(command_line, capture_output=True, text=True, check=False)
        return "" if process.returncode else process.stdout.strip()

    try:
        # An installed package may be inside the checkout of another project.
        is_tracked = git("ls-files", "--error-unmatch", source.name)
        return is_tracked and git("describe", "--always", "--dirty", "--abbrev=12", "--exclude=*")
    except OSError:  # git is not installed.
        return ""
