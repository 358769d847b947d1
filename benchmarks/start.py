"""Times a study from its command to the first scored rows, and the parts of this time.

    python -m benchmarks.start [--repeats=5]
    python -m benchmarks.start --programs

A cold start has an empty compilation cache; a warm start has the cache of an earlier run. The table
shows the fastest of several repeats. `--programs` instead counts the programs that the score
commands of `make run` compile in sequence, from an empty cache.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from functools import wraps
from importlib import import_module
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
CONFIGS = ("mini.py", "shots.py:mini", "vision.py:mini")  # the configs of `make run`
IMPORTS = {
    "import jax": ("jax",),
    "import flax": ("flax.nnx",),
    "import the rest": (
        "batch_calibration.cli",
        "batch_calibration.cli.progress",
        "batch_calibration.scoring.causal_lm",
        "batch_calibration.studies.scoring",
    ),
}
CALLS = {
    "config": ("batch_calibration.cli.studies", "chosen_studies"),
    "tokenizer": ("batch_calibration.studies.scoring", "load_token_budget"),
    "rows and prompts": ("batch_calibration.studies.scoring", "_render"),
    "checkpoint": ("batch_calibration.studies.scoring", "load_scorer"),
    "tokens": ("batch_calibration.scoring.causal_lm", "encode"),
}
EVENTS = {
    "/jax/core/compile/jaxpr_trace_duration": "trace programs",
    "/jax/core/compile/jaxpr_to_mlir_module_duration": "lower programs",
    "/jax/core/compile/backend_compile_duration": "compile programs, or read them",
}
COMPILED = list(EVENTS)[-1]  # occurs once for each compiled program


def inside(began: float, report_path: Path, flags: list[str]) -> None:
    """Runs `batch-calibration score`, and writes the times of its parts up to the first rows."""
    spent = Counter({"interpreter": time.monotonic() - began})
    programs = Counter[str]()

    def timed(step: str, call: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(call)
        def measured(*args: Any, **keywords: Any) -> Any:
            start = time.monotonic()
            answer = call(*args, **keywords)
            spent[step] += time.monotonic() - start
            return answer

        return measured

    for step, names in IMPORTS.items():
        for name in names:
            timed(step, import_module)(name)
    for step, (name, call) in CALLS.items():
        module = import_module(name)
        # The calling module has its own reference, so the function is replaced there.
        setattr(module, call, timed(step, getattr(module, call)))
    jax, cli = import_module("jax"), import_module("batch_calibration.cli")
    journal = import_module("batch_calibration.studies.journal")

    def heard(event: str, duration_secs: float, **details: Any) -> None:
        if event in EVENTS:
            spent[EVENTS[event]] += duration_secs
        if event == COMPILED:
            programs[str(details.get("fun_name"))] += 1

    jax.monitoring.register_event_duration_secs_listener(heard)
    first, add = dict[str, float](), journal.Journal.add

    def added(*args: Any) -> None:
        if not first:
            first.update(spent, programs=sum(programs.values()))
            first.update(all=time.monotonic() - began, processor=time.process_time())
        add(*args)

    journal.Journal.add = added  # its first call marks the first scored rows
    sys.argv = ["batch-calibration", "score", *flags]
    try:
        cli.main()
    finally:
        report_path.write_text(json.dumps({"first": first, "programs": programs}))


def run(folder: Path, cache: str, *flags: str) -> dict[str, Any]:
    """Runs `batch-calibration score FLAGS` in a new process, and returns its measurements."""
    report_path = folder / "told.json"
    environment = {**os.environ, "XDG_CACHE_HOME": str(folder / cache)}
    environment.pop("JAX_COMPILATION_CACHE_DIR", None)  # it would override XDG_CACHE_HOME
    environment.setdefault("JAX_PLATFORMS", "cpu")
    subprocess.run(
        [sys.executable, "-m", "benchmarks.start", f"--began={time.monotonic()}",
         f"--told={report_path}", *flags],
        cwd=ROOT, env=environment, check=True, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    answer: dict[str, Any] = json.loads(report_path.read_text())
    return answer


def starts(folder: Path, repeats: int) -> None:
    """Prints the parts of a cold start and of a warm start."""
    best = dict[str, dict[str, float]]()
    for turn in range(repeats):
        # The cold run fills the cache for the warm run of the same turn.
        for kind in ("cold", "warm"):
            flags = "--config=configs/mini.py:smoke", f"--workdir={folder / f'{kind}{turn}'}"
            times = run(folder, f"cache{turn}", *flags)["first"]
            # The fastest run, with its own parts.
            best[kind] = min(best.get(kind, times), times, key=lambda run_times: run_times["all"])
    steps = ["interpreter", *IMPORTS, *CALLS, *EVENTS.values()]
    print("| until the first rows are scored | cold | warm |\n|---|---|---|")
    for step in steps:
        print(f"| {step} | " + " | ".join(f"{best[k].get(step, 0):.2f}" for k in best) + " |")
    remaining = []
    for times in best.values():
        listed = sum(times.get(step, 0) for step in steps)
        remaining.append(times["all"] - listed)
    print("| the rest: flags, weights to the device, the network itself | "
          + " | ".join(f"{seconds:.2f}" for seconds in remaining) + " |")  # fmt: skip
    print("| **seconds in all** | " + " | ".join(f"{best[k]['all']:.2f}" for k in best) + " |")
    print("| processor time | " + " | ".join(f"{best[k]['processor']:.2f}" for k in best) + " |")
    print("| programs | " + " | ".join(f"{best[k]['programs']}" for k in best) + " |")


def count(folder: Path) -> None:
    """Prints the number of programs that each score command compiles."""
    print("| command | programs | of them |\n|---|---|---|")
    for config in CONFIGS:
        flags = f"--config=configs/{config}", f"--workdir={folder / 'work'}"
        programs = Counter(run(folder, "cache", *flags)["programs"])
        named = ", ".join(f"{number} {name}" for name, number in programs.most_common())
        print(f"| {config} | {sum(programs.values())} | {named} |", flush=True)


def main() -> None:
    """Measures starts or, with `--programs`, counts programs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5, help="runs of each kind")
    parser.add_argument("--programs", action="store_true", help="count programs of whole studies")
    parser.add_argument("--began", type=float, help=argparse.SUPPRESS)
    parser.add_argument("--told", type=Path, help=argparse.SUPPRESS)
    args, flags = parser.parse_known_args()  # other flags go to batch-calibration score
    if args.told:
        inside(args.began, args.told, flags)
        return
    with tempfile.TemporaryDirectory() as folder:
        count(Path(folder)) if args.programs else starts(Path(folder), args.repeats)


if __name__ == "__main__":
    main()
