"""The path of a reader: calls of our functions in `calibrate`, our files that a report runs.

python -m benchmarks.journeys     # --list: and the functions and the files, in order

Counted are Python functions of files below batch_calibration/, not while a module is imported: in
the second `calibrate(scores)` of a process, in `batch-calibration report` on a samples log, and in
the second `run_scoring` of 40 rows.
"""

import inspect
import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import numpy as np

import batch_calibration
from batch_calibration import calibrate, cli
from batch_calibration.settings import Settings
from batch_calibration.studies import run_scoring

PACKAGE = str(Path(batch_calibration.__file__).parent)


def calls_of(action: Callable[[], object]) -> list[tuple[str, str]]:
    """File and name of each function of ours that is called, in order."""
    calls = []

    def note_call(frame: FrameType | None, event: str, _: object) -> None:
        code = frame.f_code
        # The bodies of modules and classes are no functions.
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
    """200 rows of two labels, as lm-evaluation-harness 0.4 writes them."""
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
    """Print both numbers."""
    scores = np.random.default_rng(0).normal((-2.0, -3.0, -2.5), 0.3, (100, 3))
    calibrate(scores)
    functions = calls_of(lambda: calibrate(scores))
    with tempfile.TemporaryDirectory() as folder:
        log, page = Path(folder, "samples_task.jsonl"), Path(folder, "report.html")
        write_log(log)
        of_report = calls_of(lambda: cli.run(["report", str(log), f"--output={page}"]))
        settings = Settings.of(model="mini", data="mini", tasks="sst2", limit=40)
        run_scoring(settings, store=Path(folder, "first"))
        of_scoring = calls_of(lambda: run_scoring(settings, store=Path(folder, "second")))
    files = list(dict.fromkeys(file for file, _ in of_report))
    print(f"calibrate(scores): {len(functions)} calls of our functions")
    print(f"a samples log becomes a report: functions of {len(files)} of our files")
    print(f"run_scoring of 40 rows: {len(of_scoring):,} calls of our functions")
    if "--list" in sys.argv:
        print(*[f"{file}: {name}" for file, name in functions], *files, sep="\n")


if __name__ == "__main__":
    main()
