"""Compares the speed of our scorer with lm-evaluation-harness's `hf` backend.

    python -m benchmarks.scoring      # --quick for a sample; --full for every case and sweep

Needs lm-evaluation-harness, torch and transformers, which `make bench` sets up. Both sides run in
turn. Prints one table and, unless quick, writes it to benchmarks/RESULTS.md.
"""

import importlib.util
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np
from absl import app, flags

from batch_calibration.errors import InputError
from benchmarks import cases, report
from benchmarks.cases import CASES, FEW, ZERO, Case
from benchmarks.report import Line
from benchmarks.shapes import GPT2, least_work, random_checkpoint
from benchmarks.worker import Worker
from experiments.guard import guarded, parse_flags

ROOT = Path(__file__).resolve().parents[1]
SHARED = flags.DEFINE_string("shared", str(ROOT.parent / "shared"), "folder of data and tokenizers")
THREADS = flags.DEFINE_integer("threads", 2, "cores that both sides run on", lower_bound=1)
FULL = flags.DEFINE_bool("full", False, "all layers, cases and sizes")
QUICK = flags.DEFINE_bool("quick", False, "a sample in two minutes; nothing is recorded")

NEEDS = ("lm_eval", "torch", "transformers")
BATCHES = (1, 8, 32, 64)
"""Batch sizes of the harness that `--full` tries; our scorer has its default."""
COPIES = 3
"""Number of float32 arrays `[batch, tokens, vocabulary]` that the harness holds at once."""
AGREE = {"cpu": 1e-3, "gpu": 0.1}
"""Tolerance in nats between our scores and the harness's: float32 on CPUs, bfloat16 on GPUs."""
QUICK_CASES = (FEW, ZERO)


class Run(NamedTuple):
    """Settings of all measurements of one run."""

    folder: Path
    data: Path
    threads: int
    quick: bool
    backend: str = "cpu"
    peered: bool = True

    @property
    def checkpoint(self) -> Path:
        """The folder of the network of both sides."""
        return self.folder / "small"

    def start(self, module: str, checkpoint: Path, threads: int = 0) -> Worker:
        """Starts a worker with empty caches on `threads` cores, by default the run's."""
        caches = Path(tempfile.mkdtemp(dir=self.folder))
        return Worker(module, caches, threads or self.threads, checkpoint)


class Turns(NamedTuple):
    """The answers of both sides to one case, our cold call, and the peak rate at each warm call."""

    cold: dict[str, Any]
    warm: list[dict[str, Any]]
    theirs: list[dict[str, Any]]
    peaks: list[float]


def main() -> None:
    """Measures all cases, prints the table and stores it."""
    data, tokenizer = check()
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        run = Run(Path(name), data, THREADS.value, QUICK.value)
        shape = GPT2 | ({"n_layer": 2} if run.quick else {})  # quick: two layers
        random_checkpoint(run.checkpoint, tokenizer, shape)
        device = peak(run)
        # If only jax has an accelerator, the rates cannot be compared.
        run = run._replace(backend=device["backend"], peered=device["backend"] == "cpu" or cuda())
        if not run.peered:
            print("torch sees no accelerator here: lm-evaluation-harness is left out.")
        names = [case.name for case in CASES] if FULL.value else QUICK_CASES
        lines = [compare(run, case, shape) for case in CASES if case.name in names]
        lines += sweeps(run) if FULL.value else []
    cut = " QUICK: two layers, few rows, one call each, no goals." if run.quick else ""
    report.publish(
        "scoring", "scoring compared with lm-evaluation-harness",
        f"`python -m benchmarks.scoring`: a random network of GPT-2-small's shape, its tokenizer, "
        f"real rows.{cut}",
        report.table([report.COLUMNS, *map(report.cells, lines)]), report.LEGEND,
        device=device, threads=run.threads, began=began, quick=run.quick,
    )  # fmt: skip


def check(needs: Sequence[str] = NEEDS, *folders: str) -> list[Path]:
    """Checks packages, folders and cores; returns the shared folders, by default data and GPT-2."""
    for module in needs:
        if importlib.util.find_spec(module) is None:
            raise InputError(f"{module} is not installed; run `make bench`, which installs it.")
    paths = [Path(SHARED.value, name) for name in folders or ("data", "tokenizers/gpt2")]
    for folder in paths:
        if not folder.is_dir():
            raise InputError(f"--shared={SHARED.value}: the folder {folder} does not exist.")
    cores = len(os.sched_getaffinity(0))
    if THREADS.value > cores:
        raise InputError(f"--threads={THREADS.value}: only {cores} cores are available.")
    return paths


def cuda() -> bool:
    """Checks whether torch sees an accelerator."""
    return bool(importlib.import_module("torch").cuda.is_available())


def peak(run: Run, network: str = "small") -> dict[str, Any]:
    """Measures the peak rate of matrix products, and returns it with the device."""
    with run.start("benchmarks.ours", run.folder / network) as ours:
        return ours.ask(peak=True)


def compare(run: Run, case: Case, shape: dict[str, Any]) -> Line:
    """Measures one case with both sides."""
    rows, peers = case.rows, case.peer_rows
    if run.quick:
        rows, peers = 32, 4 if case.shots else 32
    repeats = 1 if run.quick else 3
    content = cases.render(case, run.data, rows * (repeats + 1))  # each call scores new rows
    batch = 0
    if run.peered:
        batch = best_batch(run, case, shape, content) if FULL.value else case.batch
    turns = in_turn(run, content, rows, repeats, peers, batch)
    gap, spread = difference(turns, peers) if run.peered else (0.0, 0.0)
    if gap > AGREE[run.backend]:
        sys.exit(
            f"error: {case.name}: ours and the harness's scores differ by {gap:.2g} nats, which is "
            f"more than {AGREE[run.backend]:g}; their times cannot be compared."
        )
    work = least_work(run.checkpoint, shape, content["texts"][-rows:], content["labels"])
    taken = np.array([answer["seconds"] for answer in turns.warm])
    line = Line(
        case.name,
        rows=rows,
        rate=rows / median(taken),
        cold_rate=rows / turns.cold["seconds"],
        compiled=compiled(turns.cold),
        again=compiled(*turns.warm),
        memory=turns.warm[-1]["memory"],
        goal=None if run.quick else case.goal,
        tokens=turns.warm[-1]["tokens"] / rows,
        least=work.tokens / rows,
        share=median(work.flops / taken / turns.peaks),
    )
    if run.peered:
        line = line._replace(
            peer_rows=peers,
            peer_rate=peers / median(t["seconds"] for t in turns.theirs),
            batch=batch,
            peer_tokens=turns.theirs[-1]["tokens"] / peers,
            peer_memory=turns.theirs[-1]["memory"],
            gap=gap,
            spread=spread,
        )
    print(report.summary(line), flush=True)
    return line


def in_turn(
    run: Run, content: dict[str, Any], rows: int, repeats: int, peers: int, batch: int
) -> Turns:
    """Runs both sides in turn on the same rows; each repetition has new rows."""
    turns = Turns({}, [], [], [])
    texts, labels = content["texts"], content["labels"]
    with (
        run.start("benchmarks.ours", run.checkpoint) as ours,
        run.start("benchmarks.harness", run.checkpoint) if batch else nullcontext() as peer,
    ):
        turns = turns._replace(cold=ours.ask(texts=texts[:rows], labels=labels))
        if peer:
            peer.ask(texts=texts[:1], labels=labels)  # the first call warms up
        for start in range(rows, (repeats + 1) * rows, rows):
            before = ours.ask(peak=True)["peak"]
            turns.warm.append(ours.ask(texts=texts[start : start + rows], labels=labels))
            # The higher of the peaks before and after: other programs may slow one of them down.
            turns.peaks.append(max(before, ours.ask(peak=True)["peak"]))
            if peer:
                peer_texts = texts[start : start + peers]
                turns.theirs.append(peer.ask(texts=peer_texts, labels=labels, batch=batch))
    return turns


def difference(turns: Turns, peers: int) -> tuple[float, float]:
    """Returns the largest difference between the sides, and the deviation of a label's scores."""
    ours = np.array([answer["log_probs"][:peers] for answer in turns.warm])
    theirs = np.array([answer["log_probs"][:peers] for answer in turns.theirs])
    # The deviation is over calls and rows; the label with the largest one counts.
    return float(np.abs(ours - theirs).max()), float(theirs.std(axis=(0, 1)).max())


def compiled(*answers: dict[str, Any]) -> tuple[int, float]:
    """Returns the number of programs compiled in these calls, and the compile seconds."""
    return sum(a["compilations"] for a in answers), sum(a["compile_seconds"] for a in answers)


def best_batch(run: Run, case: Case, shape: dict[str, Any], content: dict[str, Any]) -> int:
    """Finds the harness's fastest batch size, with one full batch of each size that fits memory."""
    texts, labels = content["texts"], content["labels"]
    length = least_work(run.checkpoint, shape, texts[:1], labels[:1]).tokens
    memory = Path("/proc/meminfo").read_text().partition("MemAvailable:")[2].split()[0]  # KiB
    rates: dict[int, float] = {}
    with run.start("benchmarks.harness", run.checkpoint) as peer:
        peer.ask(texts=texts[:1], labels=labels)
        for batch in BATCHES:
            needed = COPIES * 4 * batch * length * shape["vocab_size"]  # bytes of float32
            if needed > 0.9 * 1024 * int(memory):  # a tenth stays free
                print(f"{case.name}: harness at batch {batch} left out: {needed / 1e9:.0f} GB")
                continue
            # With one-token labels a row is one request to the network.
            first_texts = texts[: max(batch, 8)]
            seconds = peer.ask(texts=first_texts, labels=labels, batch=batch)["seconds"]
            rates[batch] = len(first_texts) / seconds
            print(f"{case.name}: harness at batch {batch}: {rates[batch]:.2f}/s", flush=True)
    return max(rates, key=rates.__getitem__)


def sweeps(run: Run) -> list[Line]:
    """Measures only our scorer: batch sizes, thread counts, and a start with cached programs."""
    case, rows = CASES[0], 64
    content = cases.render(case, run.data, 2 * rows)
    lines = []
    with run.start("benchmarks.ours", run.checkpoint) as ours:
        for batch in (256, 1, 8, 32, 64):
            name = f"{case.name}, ours at batch {batch}"
            lines.append(alone(name, ours, content, rows, batch))
        folder = ours.log.parent  # holds its caches
    with Worker("benchmarks.ours", folder, run.threads, run.checkpoint) as ours:
        lines.append(alone(f"{case.name}, a second process", ours, content, rows, 256))
    # 1, 2, 4 ... below the number of threads of the run
    for threads in (1 << i for i in range((run.threads - 1).bit_length())):
        with run.start("benchmarks.ours", run.checkpoint, threads) as ours:
            lines.append(alone(f"{case.name}, threads: {threads}", ours, content, rows, 256))
    return lines


def alone(name: str, ours: Worker, content: dict[str, Any], rows: int, batch: int) -> Line:
    """Measures our scorer without a peer: a cold call on `rows` rows, then a warm one on others."""
    texts, labels = content["texts"], content["labels"]
    cold = ours.ask(texts=texts[:rows], labels=labels, batch=batch)
    warm = ours.ask(texts=texts[rows : 2 * rows], labels=labels, batch=batch)
    line = Line(
        name,
        rows=rows,
        rate=rows / warm["seconds"],
        cold_rate=rows / cold["seconds"],
        compiled=compiled(cold),
        again=compiled(warm),
        memory=warm["memory"],
    )
    print(report.summary(line), flush=True)
    return line


if __name__ == "__main__":
    app.run(guarded(main, loads=()), flags_parser=parse_flags)
