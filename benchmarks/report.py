"""Formats the measurements as a table and stores it in its section of RESULTS.md."""

import platform
import time
from collections.abc import Sequence
from datetime import date
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

PACKAGES = ("jax", "flax", "lm_eval", "torch", "transformers", "tokenizers")
COLUMNS = (
    "case", "rows: theirs, ours", "harness/s (batch)", "ours/s", "ours/s, cold",
    "compiled: cold; then", "times as fast", "goal", "tokens fewer",
    "tokens/row: theirs, ours, least", "of peak", "memory, GB: theirs, ours", "max Δ, nats",
)  # fmt: skip
LEGEND = """\
Both sides score the same texts in turn, each in its own process on the same cores; times include \
tokenization but not loading. Rates are examples per second, the median of the calls, each on new \
rows. The harness scores fewer rows, because its rate does not depend on their number. Ours cold \
is the first call of a process with its compilation; later calls reuse the programs, and their \
rates include what they still compile. Tokens are the positions that the networks ran, padding \
included; least counts each distinct prefix once. Of peak: floating point operations of the least \
tokens (weights, unmasked attention, unembedding) over time and the best rate of large matrix \
products right before and after. Memory is the peak of the process."""


class Line(NamedTuple):
    """One row of the table. Rates are examples per second; tokens are per example."""

    name: str
    rows: int
    rate: float
    cold_rate: float
    compiled: tuple[int, float]
    again: tuple[int, float]
    memory: int
    peer_rows: int = 0
    peer_rate: float = 0
    batch: int = 0
    goal: float | None = None
    tokens: float = 0
    peer_tokens: float = 0
    least: float = 0
    peer_memory: int = 0
    gap: float = 0
    spread: float = 0
    share: float | None = None


def summary(line: Line) -> str:
    """Formats a line for printing right after its measurement."""
    peer = f", harness {line.peer_rate:.2f}/s" if line.peer_rate else ""
    return f"{line.name}: ours {line.rate:.2f}/s, cold {line.cold_rate:.2f}/s{peer}"


def cells(line: Line) -> list[str]:
    """Formats a line as cells in the order of `COLUMNS`; a cell without a measurement is empty."""
    peered = line.peer_rate > 0
    goals = (
        [f"≥ {line.goal:g}: {verdict(line.rate / line.peer_rate >= line.goal)}"]
        if (line.goal and peered)
        else []
    )
    share = "" if line.share is None else f"{line.share:.0%}"
    return [
        line.name,
        (f"{line.peer_rows}, " if peered else "") + f"{line.rows:,}",
        f"{line.peer_rate:.2f} ({line.batch})" if peered else "",
        f"{line.rate:.2f}",
        f"{line.cold_rate:.2f}",
        "; ".join(f"{n} in {t:.1f} s" for n, t in (line.compiled, line.again)),
        f"{line.rate / line.peer_rate:.1f}" if peered else "",
        "; ".join(goals),
        f"{line.peer_tokens / line.tokens:.1f}" if peered and line.tokens else "",
        (f"{line.peer_tokens:.0f}, " if peered else "") + f"{line.tokens:.1f}, {line.least:.1f}"
        if line.tokens
        else "",
        share,
        (f"{line.peer_memory / 1e9:.2f}, " if peered else "") + f"{line.memory / 1e9:.2f}",
        f"{line.gap:.1e} (scores spread {line.spread:.2f})" if peered else "",
    ]


def verdict(met: bool) -> str:
    """Names a goal's outcome in one word."""
    return "met" if met else "missed"


def table(rows: Sequence[Sequence[str]]) -> str:
    """Formats rows as a Markdown table with aligned columns."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    rows = [rows[0], ["-" * width for width in widths], *rows[1:]]
    lines = [f"| {' | '.join(map(str.ljust, row, widths))} |" for row in rows]
    return "\n".join(lines)


def publish(
    mark: str, what: str, *parts: str, device: dict[str, Any], began: float,
    threads: int = 2, quick: bool = False, packages: Sequence[str] = PACKAGES,
) -> None:  # fmt: skip
    """Prints the report and, unless quick, stores it in RESULTS.md.

    Args:
        mark: name of the report's section in the file.
        what: title of the measurement.
        parts: the start of the first paragraph, the table, and its legend.
        device: `backend` and `device`, as jax names them.
        began: `time.monotonic()` at the start.
        threads: number of cores in use.
        quick: whether the run was only a sample.
        packages: packages to list with their versions.
    """
    # jax calls every processor "cpu".
    where = processor() if device["backend"] == "cpu" else device["device"]
    first, *paragraphs = parts
    versions = ", ".join(f"{name} {version(name)}" for name in packages)
    minutes = (time.monotonic() - began) / 60
    text = "\n\n".join((
        f"## {date.today()}, {what}, {threads} cores of {where}",
        f"{first} {versions}, Python {platform.python_version()}; {minutes:.0f} minutes.",
        *paragraphs,
    ))  # fmt: skip
    print("\n" + text)
    if not quick:
        record(Path(__file__).with_name("RESULTS.md"), text, mark)


def processor() -> str:
    """Returns the processor's name."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    names = [line for line in lines if "model name" in line]
    # On ARM the file has no model name.
    return names[0].partition(": ")[2] if names else platform.processor() or "an unnamed processor"


def record(path: Path, text: str, what: str) -> None:
    """Replaces the section `what` of a file, or adds it above all others."""
    begin, end = f"<!-- {what}: begin -->", f"<!-- {what}: end -->"
    old = path.read_text(encoding="utf-8")
    block = f"{begin}\n{text}\n{end}\n"
    if begin in old:
        head, _, after = old.partition(begin)
        # The new block has its own final newline.
        new = head + block + after.partition(end)[2].removeprefix("\n")
    else:
        # Before the first section, including the begin mark of a generated one.
        head, mark, after = old.partition("\n<!--" if "\n<!--" in old else "\n## ")
        new = f"{head}\n{block}{mark}{after}"
    path.write_text(new, encoding="utf-8")
    print(f"\nrecorded in {path}")
