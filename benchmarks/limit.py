"""Times our scorer beside the limit: the floating point operations of each distinct beginning once.

    python -m benchmarks.limit            # FLAGS=--quick for one network; --full for all layers

Random networks in the shapes that people use; tasks of 0 to 16 shots, 2 to 60 labels of 1 to 4
tokens. Beside it a plain transformers loop that keeps the prefix's cache, and
lm-evaluation-harness where that is affordable. Writes the table to benchmarks/RESULTS.md.
"""

import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np
from absl import flags

from batch_calibration.embedded.label_words import HELD_OUT
from benchmarks import cases, report, scoring
from benchmarks.cases import Case
from benchmarks.shapes import SHAPES, Shape, Work, least_work, random_checkpoint
from experiments.cli import enter

NETWORKS = flags.DEFINE_list("networks", list(SHAPES), "which networks")
GOAL = {"cpu": 0.7, "gpu": 0.5}
"""The share of the measured matmul peak that we mean to reach."""
BATCHES = (8, 32)
"""Batch sizes of the plain loop, of which the best counts."""

FIVE = tuple(f" {word} kind" for word in ("red", "blue", "green", "gold", "pink"))
ENDINGS = ("", " of", " of the", " of the same")
SIXTY = tuple(f" {word}{ENDINGS[i % 4]}" for i, word in enumerate(HELD_OUT[:60]))
CASES = (
    Case("0 shots", "sst2", 0, 192, 32),
    Case("1 shot", "sst2", 1, 192, 0),
    Case("4 shots", "sst2", 4, 192, 16),
    Case("16 shots", "sst2", 16, 192, 0),
    Case("1 shot, 5 labels of 2 tokens", "sst2", 1, 192, 0, labels=FIVE),
    Case("1 shot, 60 labels of 1 to 4 tokens", "sst2", 1, 32, 0, labels=SIXTY),
)
COLUMNS = (
    "network (layers)", "case", "ours/s", "first", "compiled at first", "of peak",
    "tokens/row: least, run", "reads/row: least, run", "plain loop/s (batch)", "times as fast",
    "harness/s", "times as fast", "memory, GB: plain, ours", "max Δ, nats",
)  # fmt: skip
LEGEND = """\
Each side scores the same rows in turn, tokenization included and loading not, in processes of \
their own on the same cores; rates are rows a second, of a second call (--full: the median of \
three more); first is the first call, which compiles what earlier cases had not. Of peak: the \
operations of every distinct beginning once (weights, attention as far as masks let it see, \
unembedding of what is read) over time and over the best rate of large matrix products right \
before and after each call. The plain loop runs the shared beginning once, then rows of like \
length in batches of {batches}, whichever is the faster, and unembeds only what it reads. The \
harness has its `hf` backend at batch 32."""


class Line(NamedTuple):
    """One case of one network, as measured."""

    network: str
    case: Case
    work: Work
    first: dict[str, Any]
    warm: list[dict[str, Any]]
    peaks: list[float]
    plain: list[dict[str, Any]]
    batch: int
    harness: dict[str, Any] | None
    gap: float


def main() -> None:
    """Measure every network and case, print the table, record it."""
    data, tokenizer = scoring.check()
    began = time.monotonic()
    lines: list[Line] = []
    with tempfile.TemporaryDirectory() as name:
        run = scoring.Run(Path(name), data, scoring.THREADS.value, scoring.QUICK.value)
        for network in NETWORKS.value[:1] if run.quick else NETWORKS.value:
            shape = SHAPES[network]
            config = shape.cut(scoring.FULL.value)
            directory = random_checkpoint(run.folder / network, tokenizer, config)
            for line in measure(run, f"{network} ({layers(shape, config)})", directory, config):
                print(report.table([cells(line)]).splitlines()[0], flush=True)
                lines.append(line)
    device = lines[0].first
    rates = [peak for line in lines for peak in line.peaks]
    text = report.section(
        "beside the limit",
        f"`python -m benchmarks.limit`: random networks in float32, fewer layers where said. "
        f"Matmul peak {min(rates) / 1e9:.0f} to {max(rates) / 1e9:.0f} GFLOP/s.",
        report.table([list(COLUMNS), *map(cells, lines)]),
        LEGEND.format(batches=" and ".join(map(str, BATCHES))),
        device=device, threads=run.threads, minutes=(time.monotonic() - began) / 60,
    )  # fmt: skip
    print("\n" + text)
    if not run.quick:
        report.record(scoring.ROOT / "benchmarks" / "RESULTS.md", text, "limit")


def layers(shape: Shape, config: dict[str, Any]) -> str:
    """How many layers of how many were run."""
    key = "n_layer" if "n_layer" in config else "num_hidden_layers"
    return f"{config[key]} of {shape.config[key]}"


def measure(
    run: scoring.Run, network: str, directory: Path, config: dict[str, Any]
) -> Iterator[Line]:
    """All cases of one network, the sides in turn."""
    with ExitStack() as stack:
        ours, plain, harness = (
            stack.enter_context(run.start(f"benchmarks.{side}", directory))
            for side in ("ours", "plain", "harness")
        )
        for case in CASES[::2] if run.quick else CASES:  # quick: every other case
            rows, turns = case.rows, 3 if scoring.FULL.value else 1
            content = cases.render(case, run.data, rows)
            texts, labels = content["texts"], content["labels"]
            first = ours.ask(texts=texts, labels=labels)
            few = texts[: max(BATCHES)]
            plain.ask(texts=few[:4], labels=labels, batch=BATCHES[0])  # its first call is not timed
            batch = BATCHES[0]
            if len(few) < rows:  # else no large batch is full
                tried = {
                    size: plain.ask(texts=few, labels=labels, batch=size)["seconds"]
                    for size in BATCHES
                }
                batch = min(tried, key=tried.__getitem__)
            warm, theirs, peaks = [], [], []
            for _ in range(turns):
                before = ours.ask(peak=True)["peak"]
                warm.append(ours.ask(texts=texts, labels=labels))
                # The higher of two peaks, as others may use the machine between them.
                peaks.append(max(before, ours.ask(peak=True)["peak"]))
                theirs.append(plain.ask(texts=texts, labels=labels, batch=batch))
            peer = None
            if case.peer_rows:
                peer_texts = texts[: case.peer_rows]
                harness.ask(texts=peer_texts[:1], labels=labels)  # its first call is not timed
                peer = harness.ask(texts=peer_texts, labels=labels, batch=32)
            gap = max(
                # Ours sends no more than 128 rows.
                float(np.abs(np.array(a["log_probs"]) - np.array(b["log_probs"])[:128]).max())
                for a, b in zip(warm, theirs, strict=True)
            )
            if gap > scoring.AGREE[first["backend"]]:
                sys.exit(
                    f"error: {network}, {case.name}: ours and the plain loop's scores differ by "
                    f"{gap:.2g} nats; no time is worth reading."
                )
            work = least_work(directory, config, texts, labels)
            yield Line(network, case, work, first, warm, peaks, theirs, batch, peer, gap)


def cells(line: Line) -> list[str]:
    """A line as cells under `COLUMNS`."""
    rows = line.case.rows
    rate = rows / median(answer["seconds"] for answer in line.warm)
    share = median(  # of the measured matmul peak
        line.work.flops / answer["seconds"] / peak
        for answer, peak in zip(line.warm, line.peaks, strict=True)
    )
    goal = GOAL[line.first["backend"]]
    plain = rows / median(answer["seconds"] for answer in line.plain)
    peer = line.harness and line.case.peer_rows / line.harness["seconds"]
    return [
        line.network,
        line.case.name,
        f"{rate:.1f}",
        f"{rows / line.first['seconds']:.1f}",
        f"{line.first['compilations']} in {line.first['compile_seconds']:.1f} s",
        f"{share:.0%} (≥ {goal:.0%}: {report.verdict(share >= goal)})",
        f"{line.work.tokens / rows:.1f}, {line.warm[-1]['tokens'] / rows:.1f}",
        f"{line.work.reads / rows:.1f}, {line.warm[-1]['read'] / rows:.1f}",
        f"{plain:.1f} ({line.batch})",
        f"{rate / plain:.2f}",
        f"{peer:.2f}" if peer else "",
        f"{rate / peer:.1f}" if peer else "",
        f"{line.plain[-1]['memory'] / 1e9:.2f}, {line.warm[-1]['memory'] / 1e9:.2f}",
        f"{line.gap:.1e}",
    ]


if __name__ == "__main__":
    enter(main)
