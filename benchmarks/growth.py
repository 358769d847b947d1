"""Rate and memory of our scorer as rows, labels, shots and prompts grow, drawn log-log.

    python -m benchmarks.growth           # --full for 200,000 and a million rows

Small random networks in GPT-2's and Gemma 3's shape, so that the largest sizes are feasible; each
point in a process of its own. Writes the table to benchmarks/RESULTS.md and the curves to
docs/figures/growth.png.
"""

import json
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib
from absl import app

from batch_calibration.reporting.figures.style import STYLE, Picture
from benchmarks import cases, report, scoring
from benchmarks.cases import Case
from benchmarks.shapes import SHAPES, TINY, random_checkpoint
from experiments.guard import guarded, parse_flags

LONG = SHAPES["Gemma3-270M"].config | {"num_hidden_layers": 6, "vocab_size": 50_257}
"""Layers with a window and one without, as in Gemma 3."""
COLUMNS = ("what grows", "network", "size", "rows/s", "first", "tokens/s", "memory, GB")


class Point(NamedTuple):
    """One measured size of one curve."""

    what: str
    network: str
    size: int
    rate: float
    first: float
    tokens: float
    memory: int


def main() -> None:
    """Measure the four curves, print and record the table, draw them."""
    data, tokenizer = scoring.check()
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        run = scoring.Run(Path(name), data, scoring.THREADS.value, scoring.QUICK.value)
        networks = {"width 64": TINY | {"n_positions": 40_000}, "Gemma 3, 6 layers": LONG}
        for folder, shape in networks.items():
            random_checkpoint(run.folder / folder, tokenizer, shape)
        device = scoring.peak(run, "width 64")
        points = []
        for axis, network, sizes in curves(run.quick, scoring.FULL.value):
            points += [measure(run, axis, network, size) for size in sizes]
    report.publish(
        "growth", "growth",
        "`python -m benchmarks.growth`: random networks, each point a process of its own; rows/s "
        "of a second call.",
        report.table([COLUMNS, *map(cells, points)]),
        device=device, threads=run.threads, began=began, quick=run.quick,
    )  # fmt: skip
    if not run.quick:
        draw(points, scoring.ROOT / "docs" / "figures" / "growth.png")


def curves(quick: bool, full: bool) -> list[tuple[str, str, Sequence[int]]]:
    """The quantity that grows, in which network, and to which sizes."""
    if quick:
        return [("rows", "width 64", (100, 400)), ("labels", "width 64", (2, 40))]
    rows = (1_000, 10_000, 40_000, *((200_000, 1_000_000) if full else ()))
    return [
        ("rows", "width 64", rows),
        ("labels", "Gemma 3, 6 layers", (2, 10, 100, 1_000)),
        ("shots", "Gemma 3, 6 layers", (0, 1, 4, 16, 64)),
        ("prompt tokens", "Gemma 3, 6 layers", (512, 2_048, 8_192, 32_000)),
    ]


def content(run: scoring.Run, axis: str, size: int) -> tuple[dict[str, Any], int]:
    """Texts and labels of one size, and how many rows a call takes."""
    if axis == "rows":  # the first thousand compile the programs
        return cases.many(run.data, 1_000 + size), size
    rows = 32
    shots = {"shots": size, "labels": 1}.get(axis, 64)  # 64 give long prompts enough text
    rendered = cases.render(Case(axis, "sst2", shots, rows, 0), run.data, rows)
    if axis == "labels":
        rendered["labels"] = [f" {number:,} {number}" for number in range(1_000, 1_000 + size)]
    if axis == "prompt tokens":
        head, _, _ = rendered["texts"][0].rpartition("\n\n")
        filler = (head + "\n\n") * 40
        start = filler[: size * 15 // 4]  # not quite four characters a token
        rendered["texts"] = [start + text.rpartition("\n\n")[2] for text in rendered["texts"]]
    return rendered, rows


def measure(run: scoring.Run, axis: str, network: str, size: int) -> Point:
    """One point: a first call, then another; where the rows grow, on all of them."""
    rendered, rows = content(run, axis, size)
    texts, labels = rendered["texts"], rendered["labels"]
    before = 1_000 if axis == "rows" else rows
    path = run.folder / "texts"
    # Where rows grow, none of the first call's.
    path.write_text("".join(json.dumps(text) + "\n" for text in texts[-rows:]))
    with run.start("benchmarks.ours", run.folder / network) as ours:
        first = ours.ask(texts=texts[:before], labels=labels)
        second_answer = ours.ask(file=str(path), labels=labels)
    point = Point(
        axis,
        network,
        size,
        rows / second_answer["seconds"],
        before / first["seconds"],
        second_answer["tokens"] / second_answer["seconds"],
        second_answer["memory"],
    )
    print(f"{axis} {size:,}: {point.rate:.1f} rows/s, {point.memory / 1e9:.2f} GB", flush=True)
    return point


def cells(point: Point) -> list[str]:
    """A point as cells under `COLUMNS`."""
    return [
        point.what,
        point.network,
        f"{point.size:,}",
        f"{point.rate:,.1f}",
        f"{point.first:,.1f}",
        f"{point.tokens:,.0f}",
        f"{point.memory / 1e9:.2f}",
    ]


def draw(points: list[Point], path: Path) -> None:
    """The curves, a column for each thing that grows: rows a second above memory."""
    kinds = list(dict.fromkeys(point.what for point in points))
    with matplotlib.rc_context({**STYLE, "text.parse_math": True}):  # powers of ten
        figure = Picture((2.5 * len(kinds), 4), layout="tight")
        axes = figure.subplots(2, len(kinds), squeeze=False)
        for column, what in enumerate(kinds):
            curve = [point for point in points if point.what == what]
            sizes = [max(point.size, 0.5) for point in curve]  # 0 has no place on a log axis
            rates, memory = (
                [at.rate for at in curve],
                [at.memory / 1e9 for at in curve],
            )
            for row, (name, heights) in enumerate((("rows a second", rates), ("GB", memory))):
                axis = axes[row][column]
                axis.plot(sizes, heights, marker="o")
                axis.set(xscale="log", yscale="log", xlabel=what, ylabel="" if column else name)
                # So that a curve fills the middle third.
                axis.set_ylim(min(heights) / 3, max(heights) * 3)
                axis.minorticks_off()
                axis.grid(alpha=0.3)
        figure.savefig(path, dpi=110)


if __name__ == "__main__":
    app.run(guarded(main, loads=()), flags_parser=parse_flags)
