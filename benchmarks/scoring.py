"""Times our scorer beside lm-evaluation-harness's `hf` backend, in turn, in one run.

    make bench                 # FLAGS=--quick for a sample; at most 15 minutes on two cores
    python -m benchmarks.scoring --quick

Needs lm-evaluation-harness, torch and transformers: `make bench` sets them up. Prints one table
and, unless quick, writes it to benchmarks/RESULTS.md.
"""

import importlib.util
import json
import os
import sys
import tempfile
import time
from contextlib import nullcontext
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np
from absl import flags

from batch_calibration.errors import InputError
from benchmarks import cases, report
from benchmarks.cases import CASES, FEW, SMALL, TINY, ZERO, Case
from benchmarks.report import Line
from benchmarks.worker import Worker
from experiments.cli import enter

ROOT = Path(__file__).resolve().parents[1]
SHARED = flags.DEFINE_string("shared", str(ROOT.parent / "shared"), "folder of data and tokenizers")
THREADS = flags.DEFINE_integer("threads", 2, "cores that both sides run on", lower_bound=1)
QUICK = flags.DEFINE_bool("quick", False, "a sample in two minutes; nothing is recorded")

NEEDS = {"lm_eval": "lm-evaluation-harness", "torch": "torch", "transformers": "transformers"}
BATCHES = (1, 8, 32, 64)
"""Batch sizes of the harness, of which the best counts; ours has its default."""
COPIES = 3
"""Arrays `[batch, tokens, vocabulary]` of float32 that the harness holds at once."""
AGREE = {"cpu": 1e-3, "gpu": 0.1}
"""Most nats between a score of ours and the harness's: float32, and bfloat16."""
QUICK_CASES = (FEW, CASES[1].name, ZERO)


class Run(NamedTuple):
    """What all measurements of this run share."""

    folder: Path
    data: Path
    threads: int
    quick: bool
    backend: str = "cpu"
    peered: bool = True

    @property
    def checkpoint(self) -> Path:
        """The network that both sides score with."""
        return self.folder / "small"

    def write(self, case: dict[str, Any]) -> Path:
        """A case as the file that workers read."""
        path = self.folder / "case.json"
        path.write_text(json.dumps(case))
        return path

    def start(self, module: str, texts: Path, threads: int = 0, network: str = "small") -> Worker:
        """A worker with empty caches, on our cores or fewer."""
        caches = Path(tempfile.mkdtemp(dir=self.folder))
        return Worker(module, caches, threads or self.threads, self.folder / network, texts)


class Turns(NamedTuple):
    """The answers of both sides to one case: ours first cold, at last its work and peak."""

    cold: dict[str, Any]
    warm: list[dict[str, Any]]
    theirs: list[dict[str, Any]]
    counted: dict[str, Any]


def main() -> None:
    """Measure every case, print the table, record it."""
    data, tokenizer = check()
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        run = Run(Path(name), data, THREADS.value, QUICK.value)
        shape = SMALL | ({"n_layer": 2} if run.quick else {})
        cases.random_checkpoint(run.checkpoint, tokenizer, shape)
        cases.random_checkpoint(run.folder / "tiny", tokenizer, TINY)
        device = peak(run)
        run = run._replace(backend=device["backend"], peered=device["backend"] == "cpu" or cuda())
        if not run.peered:
            print("torch sees no accelerator here: lm-evaluation-harness is left out.")
        batches: dict[str, int] = {}
        chosen = [case for case in CASES if not run.quick or case.name in QUICK_CASES]
        lines = [compare(run, case, batches) for case in chosen]
        best = max(device["peak"], *(line.peak for line in lines))
        goal = None if run.quick else report.PEAK[run.backend]
        lines = [report.with_peak(line, best, shape, goal) for line in lines]
        lines += [] if run.quick else sweeps(run)
        lines += growth(run)
    minutes = (time.monotonic() - began) / 60
    text = report.section(lines, best, device, run.threads, minutes, run.quick)
    print("\n" + text)
    if not run.quick:
        report.record(ROOT / "benchmarks" / "RESULTS.md", text)


def check() -> tuple[Path, Path]:
    """The folders of rows and of GPT-2's tokenizer, once all that the run needs is there."""
    for module, name in NEEDS.items():
        if importlib.util.find_spec(module) is None:
            raise InputError(f"{name} is not installed here; `make bench` sets everything up.")
    shared = Path(SHARED.value)
    data, tokenizer = shared / "data", shared / "tokenizers" / "gpt2"
    for place in (data, tokenizer):
        if not place.is_dir():
            raise InputError(f"--shared={shared}: expected the folder {place}, found none.")
    cores = len(os.sched_getaffinity(0))
    if THREADS.value > cores:
        raise InputError(f"--threads={THREADS.value}: this machine gives us {cores} cores.")
    return data, tokenizer


def cuda() -> bool:
    """Whether torch sees an accelerator."""
    return bool(importlib.import_module("torch").cuda.is_available())


def peak(run: Run) -> dict[str, Any]:
    """The device and its measured matmul peak."""
    with run.start("benchmarks.ours", run.write({"texts": [], "labels": []})) as ours:
        return ours.ask(peak=True)


def compare(run: Run, case: Case, batches: dict[str, int]) -> Line:
    """One case with both sides; `batches` learns the harness's best sizes."""
    rows, peers = case.rows, case.peer_rows
    if run.quick:
        rows, peers = 32, 4 if case.shots else 32
    repeats = 1 if run.quick else 3
    content = cases.render(case, run.data, rows * (repeats + 1))
    path = run.write(content)
    if run.peered:
        known = batches.get(case.batch_of) or best_batch(run, case, path, content)
        batches[case.name] = known
    turns = in_turn(run, path, rows, repeats, peers, batches.get(case.name, 0))
    gap, spread = difference(turns, peers) if run.peered else (0.0, 0.0)
    if gap > AGREE[run.backend]:
        sys.exit(
            f"error: {case.name}: ours and the harness's scores differ by {gap:.2g} nats, which is "
            f"more than {AGREE[run.backend]:g}; no time is worth reading."
        )
    last = content["texts"][-rows:]
    line = Line(
        case.name,
        rows=rows,
        rate=rows / median(w["seconds"] for w in turns.warm),
        cold_rate=rows / turns.cold["seconds"],
        compiled=compiled(turns.cold),
        again=compiled(*turns.warm),
        memory=turns.warm[-1]["memory"],
        goal=None if run.quick else case.goal,
        tokens=turns.counted["tokens"] / rows,
        least=cases.least_tokens(run.checkpoint, last, content["labels"]) / rows,
        work={key: turns.counted[key] / rows for key in ("tokens", "read", "pairs")},
        peak=turns.counted["peak"],
    )
    if run.peered:
        line = line._replace(
            peer_rows=peers,
            peer_rate=peers / median(t["seconds"] for t in turns.theirs),
            batch=batches[case.name],
            peer_tokens=turns.theirs[-1]["tokens"] / peers,
            peer_memory=turns.theirs[-1]["memory"],
            gap=gap,
            spread=spread,
        )
    print(report.summary(line), flush=True)
    return line


def in_turn(run: Run, texts: Path, rows: int, repeats: int, peers: int, batch: int) -> Turns:
    """Both sides on the same rows, one after the other, each time on other rows."""
    turns = Turns({}, [], [], {})
    with (
        run.start("benchmarks.ours", texts) as ours,
        run.start("benchmarks.harness", texts) if batch else nullcontext() as peer,
    ):
        turns = turns._replace(cold=ours.ask(rows=(0, rows)))
        if peer:
            peer.ask(rows=(0, 1))
        for start in range(rows, (repeats + 1) * rows, rows):
            turns.warm.append(ours.ask(rows=(start, start + rows)))
            if peer:
                turns.theirs.append(peer.ask(rows=(start, start + peers), batch=batch))
        best = ours.ask(peak=True)
        return turns._replace(counted=best | ours.ask(rows=(start, start + rows), count=True))


def difference(turns: Turns, peers: int) -> tuple[float, float]:
    """The largest gap between the sides' scores, and how far scores of a label lie apart."""
    ours, theirs = (
        np.array([answer["log_probs"][:peers] for answer in answers])
        for answers in (turns.warm, turns.theirs)
    )
    return float(np.abs(ours - theirs).max()), float(theirs.std(axis=(0, 1)).max())


def compiled(*answers: dict[str, Any]) -> tuple[int, float]:
    """How many programs were compiled in these calls, and in how many seconds."""
    return sum(a["compilations"] for a in answers), sum(a["compile_seconds"] for a in answers)


def best_batch(run: Run, case: Case, texts: Path, content: dict[str, Any]) -> int:
    """The harness's fastest batch size: one full batch of each size that memory holds."""
    length = cases.least_tokens(run.checkpoint, content["texts"][:1], content["labels"][:1])
    memory = Path("/proc/meminfo").read_text().partition("MemAvailable:")[2].split()[0]
    rates: dict[int, float] = {}
    with run.start("benchmarks.harness", texts) as peer:
        peer.ask(rows=(0, 1))
        for batch in BATCHES[1:2] if run.quick else BATCHES:
            needed = COPIES * 4 * batch * length * SMALL["vocab_size"]
            if needed > 0.9 * 1024 * int(memory):
                print(f"{case.name}: harness at batch {batch} left out: {needed / 1e9:.0f} GB")
                continue
            # One-token labels: a row is one request to the network.
            rows = max(batch, 8)
            rates[batch] = rows / peer.ask(rows=(0, rows), batch=batch)["seconds"]
            print(f"{case.name}: harness at batch {batch}: {rates[batch]:.2f}/s", flush=True)
    return max(rates, key=rates.__getitem__)


def sweeps(run: Run) -> list[Line]:
    """Ours alone: batch sizes, one thread, and the first case again with programs on disk."""
    case, rows = CASES[0], 64
    path = run.write(cases.render(case, run.data, 2 * rows))
    lines = []
    with run.start("benchmarks.ours", path) as ours:
        for batch in (256, 1, 8, 32, 64):
            name = f"{case.name}, ours at batch {batch}"
            lines.append(alone(name, ours, rows, batch))
        folder = ours.log.parent
    with Worker("benchmarks.ours", folder, run.threads, run.checkpoint, path) as ours:
        lines.append(alone(f"{case.name}, a second process", ours, rows, 256))
    for threads in (1 << i for i in range((run.threads - 1).bit_length())):
        with run.start("benchmarks.ours", path, threads) as ours:
            lines.append(alone(f"{case.name}, threads: {threads}", ours, rows, 256))
    return lines


def growth(run: Run) -> list[Line]:
    """Memory and speed by the number of rows, with a tiny network so that 40,000 are feasible."""
    sizes = (1_000, 2_000) if run.quick else (1_000, 10_000, 40_000)
    path = run.write(cases.many(run.data, 1_000 + sizes[-1]))
    lines: list[Line] = []
    for rows in sizes:
        with run.start("benchmarks.ours", path, network="tiny") as ours:
            line = alone(f"{rows:,} rows, 0 shots, network of width 64", ours, rows, 256, 1_000)
            first = lines[0].memory if lines and not run.quick else None
            lines.append(line._replace(first_memory=first))
    return lines


def alone(name: str, ours: Worker, rows: int, batch: int, first: int = 0) -> Line:
    """Ours without a peer: a call on the `first` rows, then one on others, which counts."""
    first = first or rows
    cold = ours.ask(rows=(0, first), batch=batch)
    warm = ours.ask(rows=(first, first + rows), batch=batch)
    line = Line(
        name,
        rows=rows,
        rate=rows / warm["seconds"],
        cold_rate=first / cold["seconds"],
        compiled=compiled(cold),
        again=compiled(warm),
        memory=warm["memory"],
    )
    print(report.summary(line), flush=True)
    return line


if __name__ == "__main__":
    enter(main)
