"""Times our scorer beside the limit: the floating point operations of each distinct beginning once.

    python -m benchmarks.limit            # FLAGS=--quick for one network; --full for all layers

Random networks in the shapes that people use; tasks of 0 to 16 shots, 2 to 60 labels of 1 to 4
tokens. Beside it a plain transformers loop that keeps the prefix's cache, llama.cpp with a kept
prefix where it knows the network (and prompts there that share nothing), and
lm-evaluation-harness where that is affordable. Writes the lines to docs/evidence/limit.csv and
their summary to benchmarks/RESULTS.md; with --networks only those are measured anew.
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
Each side scores the same rows in turn, tokenization included and loading not, in processes of \
their own on the same cores; rates are rows a second, of a second call (--full: the median of \
three more); first is the first call, which compiles what earlier cases had not. Of peak: the \
operations of every distinct beginning once (weights, attention as far as masks let it see, \
unembedding of what is read) over time and over the best rate of large matrix products right \
before and after each call. The plain loop is `config.scorer=transformers`; it and llama.cpp run \
the shared beginning once, then rows in batches of {batches}, whichever is the fastest, and \
unembed only what is read. The harness has its `hf` backend at batch 32."""


def record(path: Path, lines: Sequence[dict[str, str]]) -> list[dict[str, str]]:
    """Put lines in the place of those of the same networks and cases; all lines of the file."""
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
    """A table with a row for each network: the least and the most of each of its ratios."""
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
    """A network's name without its layers, and the case."""
    return line[NETWORK].partition(" (")[0], line["case"]


NETWORKS = flags.DEFINE_list("networks", list(SHAPES), "which networks")
BATCHES = (1, 8, 32)
"""Batch sizes of the plain loop and of llama.cpp, of which the best counts."""
LLAMA_CPP = ("gpt2", "llama", "qwen2", "qwen3")
"""Networks that tests/reference/to_gguf.py writes for llama.cpp."""
PRECISIONS = ("float32", "float16")
"""Of llama.cpp's weights and cache."""

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
"""Prompts that share nothing, beside llama.cpp."""
AGREE = {"float32": 5e-3, "float16": 0.1}
"""Most nats between a score of ours and llama.cpp's, which looks gelu up in a float16 table."""


class Peer(NamedTuple):
    """A peer's speed on a case, at its best batch size."""

    rate: float  # rows/s
    batch: int
    memory: int
    gap: float  # nats, from ours


class Line(NamedTuple):
    """One case of one network, as measured."""

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
                print(*cells(line), sep=" | ", flush=True)
                lines.append(line)
                measured = [dict(zip(COLUMNS, cells(line), strict=True)) for line in lines]
                if not run.quick:  # a run that ends early loses no line
                    measured = record(scoring.ROOT / "docs/evidence/limit.csv", measured)
    rates = list(chain.from_iterable(line.peaks for line in lines))
    report.publish(
        "limit", "beside the limit",
        f"`python -m benchmarks.limit`: random networks in float32, fewer layers where said; the "
        f"least and the most of each network's lines, which stand in `docs/evidence/limit.csv`. "
        f"Matmul peak {min(rates) / 1e9:.0f} to {max(rates) / 1e9:.0f} GFLOP/s.",
        summary(measured), LEGEND.format(batches=", ".join(map(str, BATCHES))),
        device=lines[0].first, threads=run.threads, began=began, quick=run.quick,
    )  # fmt: skip


def layers(shape: Shape, config: dict[str, Any]) -> str:
    """Numbers of layers run, and of all."""
    key = "n_layer" if "n_layer" in config else "num_hidden_layers"
    return f"{config[key]} of {shape.config[key]}"


def measure(
    run: scoring.Run, network: str, directory: Path, config: dict[str, Any]
) -> Iterator[Line]:
    """All cases of one network, the sides in turn."""
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
                        f"{answer.gap:.2g} nats; no time is worth reading."
                    )
            yield line._replace(network=network, work=work)


def write_gguf(directory: Path, precision: str) -> Path:
    """The checkpoint as a file of llama.cpp, beside its tokenizer."""
    path = directory / f"{precision}.gguf"
    script = scoring.ROOT / "tests" / "reference" / "to_gguf.py"
    subprocess.run([sys.executable, script, directory, path, precision], check=True)
    return path


def time_case(
    case: Case, content: dict[str, Any], ours: Worker, peers: dict[str, Worker], harness: Worker
) -> Line:
    """One case, the sides in turn."""
    texts, labels = content["texts"], content["labels"]
    first = ours.ask(texts=texts, labels=labels)
    batches = {side: best_batch(peer, texts, labels) for side, peer in peers.items()}
    warm, peaks = [], []
    answers: dict[str, list[dict[str, Any]]] = {side: [] for side in peers}
    for _ in range(3 if scoring.FULL.value else 1):
        before = ours.ask(peak=True)["peak"]
        warm.append(ours.ask(texts=texts, labels=labels))
        # The higher of two peaks, as others may use the machine between them.
        peaks.append(max(before, ours.ask(peak=True)["peak"]))
        for side, peer in peers.items():
            answers[side].append(peer.ask(texts=texts, labels=labels, batch=batches[side]))
    harness_rate = None
    if case.peer_rows:
        peer_texts = texts[: case.peer_rows]
        harness.ask(texts=peer_texts[:1], labels=labels)  # its first call is not timed
        seconds = harness.ask(texts=peer_texts, labels=labels, batch=32)["seconds"]
        harness_rate = case.peer_rows / seconds
    # Ours sends no more than 128 rows.
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
    """The batch size at which a peer is the fastest on a few of the rows."""
    few = texts[: max(8, len(texts) // 6)]
    peer.ask(texts=few[:4], labels=labels, batch=BATCHES[0])  # its first call is not timed
    seconds = {}
    for size in BATCHES:
        if size <= len(few):
            answer = peer.ask(texts=few, labels=labels, batch=size)
            seconds[size] = answer["seconds"]
    return min(seconds, key=seconds.__getitem__)


def cells(line: Line) -> list[str]:
    """A line as cells under `COLUMNS`."""
    rate = line.rows / median(answer["seconds"] for answer in line.warm)
    taken = np.array([answer["seconds"] for answer in line.warm])
    share = median(line.work.flops / taken / line.peaks)  # of the measured matmul peak
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
