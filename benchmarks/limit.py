"""Compares our scorer with the limit: each distinct prefix of the prompts computed exactly once.

    python -m benchmarks.limit            # FLAGS=--quick for one network; --full for all layers

The networks have popular shapes and random weights; the cases have 0 to 16 shots and 2 to 60 labels
of 1 to 4 tokens. The peers are a plain transformers loop with a prefix cache, llama.cpp with a
prefix cache for the networks that it supports (also on prompts that share nothing), and
lm-evaluation-harness on the cases that it can run in time. The results go to
docs/evidence/limit.csv and their summary to benchmarks/RESULTS.md; --networks measures only some
networks and keeps the stored results of the others.
"""

import csv
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from datetime import date
from itertools import chain
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np
from absl import app, flags

from batch_calibration.scoring.embedded.label_words import HELD_OUT
from benchmarks import cases, report, scoring
from benchmarks.cases import Case
from benchmarks.shapes import SHAPES, Shape, Work, least_work, random_checkpoint
from benchmarks.worker import Worker
from experiments.guard import guarded, parse_flags

NETWORK, SHARE = "network (layers run)", "of peak"
RATIOS = (
    "times the plain loop", "times llama.cpp float32", "times llama.cpp float16",
    "times the harness",
)  # fmt: skip
COLUMNS = (
    f"date; {NETWORK}; case; rows/s; first; compiled at first; {SHARE}; tokens/row: least, run; "
    f"reads/row: least, run; plain loop/s (batch); {RATIOS[0]}; llama.cpp float32/s (batch); "
    f"{RATIOS[1]}; llama.cpp float16/s (batch); {RATIOS[2]}; harness/s; {RATIOS[3]}; "
    "memory, GB: plain, ours; max difference, nats"
).split("; ")
LEGEND = """\
The sides score the same rows in turn, each in its own process on the same cores; times include \
tokenization but not loading. Rates are rows per second of the second call (with --full the median \
of three calls); first is the first call, which compiles programs that earlier cases did not need. \
Of peak: the operations of each distinct prefix once (weights, unmasked attention, unembedding of \
the positions that are read) over time and over the best rate of large matrix products right \
before and after each call. The plain loop is `config.scorer=transformers`; it and llama.cpp run \
the shared prefix once, then the rows at the fastest batch size of {batches}, and unembed only the \
positions that are read. The harness runs its `hf` backend at batch 32."""


def record(path: Path, lines: Sequence[dict[str, str]]) -> list[dict[str, str]]:
    """Replaces the lines of the same networks and cases in a CSV file; returns all its lines."""
    old: list[dict[str, str]] = []
    if path.exists():
        with path.open(encoding="utf-8", newline="") as file:
            old = list(csv.DictReader(file))
    measured = set(map(_key, lines))
    all_lines = [*[line for line in old if _key(line) not in measured], *lines]
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(all_lines)
    return all_lines


def summary(lines: Sequence[dict[str, str]]) -> str:
    """Makes a table with one row per network: the smallest and largest value of each ratio."""
    rows = [[NETWORK, "measured", "lines", SHARE, *RATIOS]]
    for network in dict.fromkeys(line[NETWORK] for line in lines):
        own = [line for line in lines if line[NETWORK] == network]
        shares = [float(line[SHARE].rstrip("%")) for line in own]
        row = [
            network,
            ", ".join(dict.fromkeys(line["date"] for line in own)),
            str(len(own)),
            f"{min(shares):.0f} to {max(shares):.0f} %",
        ]
        for name in RATIOS:
            ratios = [float(line[name]) for line in own if line[name]]
            row.append(f"{min(ratios):.3g} to {max(ratios):.3g}" if ratios else "")
        rows.append(row)
    return report.table(rows)


def _key(line: dict[str, str]) -> tuple[str, str]:
    """Returns the network's name without its number of layers, and the case."""
    return line[NETWORK].partition(" (")[0], line["case"]


NETWORKS = flags.DEFINE_list("networks", list(SHAPES), "which networks")
BATCHES = (1, 8, 32)
"""Batch sizes for the plain loop and llama.cpp; the fastest one counts."""
LLAMA_CPP = ("gpt2", "llama", "qwen2", "qwen3")
"""Model types that tests/reference/to_gguf.py can convert for llama.cpp."""
PRECISIONS = ("float32", "float16")
"""Dtypes of llama.cpp's weights and cache."""

FIVE = tuple(f" {word} kind" for word in ("red", "blue", "green", "gold", "pink"))
ENDINGS = ("", " of", " of the", " of the same")
SIXTY = tuple(f" {word}{ENDINGS[i % 4]}" for i, word in enumerate(HELD_OUT[:60]))
CASES = (
    Case("0 shots", "sst2", 0, 192, 16),
    Case("1 shot", "sst2", 1, 192, 0),
    Case("4 shots", "sst2", 4, 192, 8),
    Case("16 shots", "sst2", 16, 192, 0),
    Case("1 shot, 5 labels of 2 tokens", "sst2", 1, 192, 0, labels=FIVE),
    Case("1 shot, 60 labels of 1 to 4 tokens", "sst2", 1, 32, 0, labels=SIXTY),
)
DISTINCT = (
    Case("250 tokens, nothing shared", "sst2", 0, 32, 0, tokens=250),
    Case("500 tokens, nothing shared", "sst2", 0, 16, 0, tokens=500),
    Case("950 tokens, nothing shared", "sst2", 0, 8, 0, tokens=950),
)
"""Prompts without a shared prefix, for the comparison with llama.cpp."""
AGREE = {"float32": 5e-3, "float16": 0.1}
"""Tolerance in nats between our scores and llama.cpp's, which has a float16 table for gelu."""


class Peer(NamedTuple):
    """A peer's results on a case at its best batch size."""

    rate: float  # rows/s
    batch: int
    memory: int
    gap: float  # largest difference from our scores, nats


class Line(NamedTuple):
    """The measurements of one case of one network."""

    network: str
    case: str
    rows: int
    work: Work
    first: dict[str, Any]
    warm: list[dict[str, Any]]
    peaks: list[float]
    peers: dict[str, Peer]
    harness: float | None  # rows/s


def main() -> None:
    """Measures all networks and cases, prints the table and stores it."""
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
                print(*cells(line), sep=" | ", flush=True)
                lines.append(line)
                measured = [dict(zip(COLUMNS, cells(line), strict=True)) for line in lines]
                if not run.quick:  # stored line by line, in case the run is stopped
                    measured = record(scoring.ROOT / "docs/evidence/limit.csv", measured)
    rates = list(chain.from_iterable(line.peaks for line in lines))
    report.publish(
        "limit", "scoring compared with its limit",
        f"`python -m benchmarks.limit`: random networks in float32, some with fewer layers; the "
        f"range over each network's lines, which are in `docs/evidence/limit.csv`. "
        f"Matmul peak {min(rates) / 1e9:.0f} to {max(rates) / 1e9:.0f} GFLOP/s.",
        summary(measured), LEGEND.format(batches=", ".join(map(str, BATCHES))),
        device=lines[0].first, threads=run.threads, began=began, quick=run.quick,
    )  # fmt: skip


def layers(shape: Shape, config: dict[str, Any]) -> str:
    """Returns the number of layers that are run, and of all layers, as a text."""
    key = "n_layer" if "n_layer" in config else "num_hidden_layers"
    return f"{config[key]} of {shape.config[key]}"


def measure(
    run: scoring.Run, network: str, directory: Path, config: dict[str, Any]
) -> Iterator[Line]:
    """Yields the measurements of all cases of one network."""
    is_in_llama_cpp = config["model_type"] in LLAMA_CPP
    measured_cases = list(CASES[:: 2 if run.quick else 1])  # quick: every other case
    if is_in_llama_cpp and not run.quick:
        measured_cases += DISTINCT
    with ExitStack() as stack:
        ours = stack.enter_context(run.start("benchmarks.ours", directory))
        harness = stack.enter_context(run.start("benchmarks.harness", directory))
        peers = {"plain": stack.enter_context(run.start("benchmarks.plain", directory))}
        for precision in PRECISIONS if is_in_llama_cpp else ():
            path = write_gguf(directory, precision)
            peers[precision] = stack.enter_context(run.start("benchmarks.llama_cpp_loop", path))
        for case in measured_cases:
            content = cases.render(case, run.data, case.rows, directory / "tokenizer.json")
            work = least_work(directory, config, content["texts"], content["labels"])
            line = time_case(case, content, ours, peers, harness)
            for side, answer in line.peers.items():
                if answer.gap > AGREE.get(side, scoring.AGREE[line.first["backend"]]):
                    sys.exit(
                        f"error: {network}, {case.name}: ours and {side}'s scores differ by "
                        f"{answer.gap:.2g} nats; their times cannot be compared."
                    )
            yield line._replace(network=network, work=work)


def write_gguf(directory: Path, precision: str) -> Path:
    """Writes the checkpoint as a GGUF file into its folder; returns the path."""
    path = directory / f"{precision}.gguf"
    script = scoring.ROOT / "tests" / "reference" / "to_gguf.py"
    subprocess.run([sys.executable, script, directory, path, precision], check=True)
    return path


def time_case(
    case: Case, content: dict[str, Any], ours: Worker, peers: dict[str, Worker], harness: Worker
) -> Line:
    """Measures one case with all sides in turn."""
    texts, labels = content["texts"], content["labels"]
    first = ours.ask(texts=texts, labels=labels)
    batches = {side: best_batch(peer, texts, labels) for side, peer in peers.items()}
    warm, peaks = [], []
    answers: dict[str, list[dict[str, Any]]] = {side: [] for side in peers}
    for _ in range(3 if scoring.FULL.value else 1):
        before = ours.ask(peak=True)["peak"]
        warm.append(ours.ask(texts=texts, labels=labels))
        # The higher of two peaks, because other programs may slow one of them down.
        peaks.append(max(before, ours.ask(peak=True)["peak"]))
        for side, peer in peers.items():
            answers[side].append(peer.ask(texts=texts, labels=labels, batch=batches[side]))
    harness_rate = None
    if case.peer_rows:
        peer_texts = texts[: case.peer_rows]
        harness.ask(texts=peer_texts[:1], labels=labels)  # the first call warms up
        seconds = harness.ask(texts=peer_texts, labels=labels, batch=32)["seconds"]
        harness_rate = case.peer_rows / seconds
    # Our worker returns at most 128 rows of scores.
    own = np.array(warm[-1]["log_probs"])
    measured_peers = {}
    for side, of_peer in answers.items():
        rate = case.rows / median(answer["seconds"] for answer in of_peer)
        gap = float(np.abs(np.array(of_peer[-1]["log_probs"])[:128] - own).max())
        measured_peers[side] = Peer(rate, batches[side], of_peer[-1]["memory"], gap)
    return Line(
        "", case.name, case.rows, Work(0, 0, 0), first, warm, peaks, measured_peers, harness_rate
    )


def best_batch(peer: Worker, texts: list[str], labels: list[str]) -> int:
    """Finds the batch size with a peer's highest rate on a few of the rows."""
    few = texts[: max(8, len(texts) // 6)]
    peer.ask(texts=few[:4], labels=labels, batch=BATCHES[0])  # the first call warms up
    seconds = {}
    for size in BATCHES:
        if size <= len(few):
            answer = peer.ask(texts=few, labels=labels, batch=size)
            seconds[size] = answer["seconds"]
    return min(seconds, key=seconds.__getitem__)


def cells(line: Line) -> list[str]:
    """Formats a line as cells in the order of `COLUMNS`."""
    rate = line.rows / median(answer["seconds"] for answer in line.warm)
    taken = np.array([answer["seconds"] for answer in line.warm])
    share = median(line.work.flops / taken / line.peaks)  # share of the measured matmul peak
    ratios = []
    for side in ("plain", *PRECISIONS):
        peer = line.peers.get(side)
        ratios += (
            [f"{peer.rate:.1f} ({peer.batch})", f"{rate / peer.rate:.2f}"] if peer else ["", ""]
        )
    tokens, reads = (line.warm[-1][what] / line.rows for what in ("tokens", "read"))
    return [
        str(date.today()),
        line.network,
        line.case,
        f"{rate:.1f}",
        f"{line.rows / line.first['seconds']:.1f}",
        f"{line.first['compilations']} in {line.first['compile_seconds']:.1f} s",
        f"{share:.0%}",
        f"{line.work.tokens / line.rows:.1f}, {tokens:.1f}",
        f"{line.work.reads / line.rows:.1f}, {reads:.1f}",
        *ratios,
        f"{line.harness:.2f}" if line.harness else "",
        f"{rate / line.harness:.1f}" if line.harness else "",
        f"{line.peers['plain'].memory / 1e9:.2f}, {line.warm[-1]['memory'] / 1e9:.2f}",
        f"{max(line.peers[side].gap for side in line.peers if side != 'float16'):.1e}",
    ]


if __name__ == "__main__":
    app.run(guarded(main, loads=()), flags_parser=parse_flags)
