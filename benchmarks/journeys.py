"""Counts the package's functions and files that run in four typical uses (journeys).

python -m benchmarks.journeys     # --list also prints the functions of each call, in order

Each journey runs twice, and the second run is counted. Python functions in files below
batch_calibration/ count, unless they run during an import.
"""

import inspect
import io
import json
import sys
import tempfile
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from itertools import count
from pathlib import Path
from types import FrameType

import numpy as np

import batch_calibration
from batch_calibration import calibrate, cli
from batch_calibration.settings import Settings
from batch_calibration.studies import run_scoring

PACKAGE = str(Path(batch_calibration.__file__).parent)


def calls_of(action: Callable[[], object]) -> list[tuple[str, str]]:
    """Returns the file and the name of each call of a package function, in order."""
    calls = []

    def note_call(frame: FrameType | None, event: str, _: object) -> None:
        code = frame.f_code
        # Bodies of modules and classes do not have this flag.
        is_function = code.co_flags & inspect.CO_OPTIMIZED
        if event != "call" or not is_function or not code.co_filename.startswith(PACKAGE):
            return
        while frame is not None:
            if frame.f_code.co_filename.startswith("<frozen importlib"):
                return
            frame = frame.f_back
        calls.append((str(Path(code.co_filename).relative_to(PACKAGE)), code.co_qualname))

    sys.setprofile(note_call)
    try:
        action()
    finally:
        sys.setprofile(None)
    return calls


def write_log(path: Path) -> None:
    """Writes a log of 200 rows and two labels in the format of lm-evaluation-harness 0.4."""
    scores = np.random.default_rng(0).normal((-2.0, -3.0), 0.3, (200, 2))
    with path.open("w") as log:
        for number, row in enumerate(scores):
            gold = number % 2
            line = {"doc_id": number, "doc": {"question": f"Q{number}"}, "target": gold}
            line["arguments"] = [[f"Q{number}\nA:", label] for label in (" no", " yes")]
            line["filtered_resps"] = [[float(score), False] for score in row]
            line["resps"] = [[response] for response in line["filtered_resps"]]
            line["acc"] = float(row.argmax() == gold)
            print(json.dumps(line), file=log)


def main() -> None:
    """Prints the number of calls, functions and files of each journey."""
    scores = np.random.default_rng(0).normal((-2.0, -3.0, -2.5), 0.3, (50, 3))
    with tempfile.TemporaryDirectory() as folder:
        log, page, corrected = (
            Path(folder, name) for name in ("samples_task.jsonl", "p.html", "c")
        )
        write_log(log)
        settings = Settings.of(model="mini", data="mini", tasks="sst2", limit=40)
        number = count()
        journeys: dict[str, Callable[[], object]] = {
            "calibrate(scores)": lambda: calibrate(scores),
            "calibrate LOG": lambda: cli.run(
                ["calibrate", str(log), f"--output={corrected}.csv", "--quiet"]
            ),
            "report LOG, two methods": lambda: cli.run(
                ["report", str(log), "--methods=icl,bc", f"--output={page}"]
            ),
            "run_scoring of 40 rows": lambda: run_scoring(
                settings, store=Path(folder, f"work{next(number)}")
            ),
        }
        for name, journey in journeys.items():
            with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
                journey()
                calls = calls_of(journey)
            functions, files = dict.fromkeys(calls), dict.fromkeys(file for file, _ in calls)
            print(f"{name}: {len(calls):,} calls, {len(functions)} functions, {len(files)} files")
            if "--list" in sys.argv:
                print(*[f"    {file}: {function}" for file, function in functions], sep="\n")


if __name__ == "__main__":
    main()
