"""Keeps the lines of `benchmarks.limit` in docs/evidence/limit.csv and sums them up by network."""

import csv
from collections.abc import Sequence
from pathlib import Path

from benchmarks import report

NETWORK, SHARE = "network (layers run)", "of peak"
RATIOS = (
    "times the plain loop", "times llama.cpp float32", "times llama.cpp float16",
    "times the harness",
)  # fmt: skip
COLUMNS = (
    "date", NETWORK, "case", "rows/s", "first", "compiled at first", SHARE,
    "tokens/row: least, run", "reads/row: least, run", "plain loop/s (batch)", RATIOS[0],
    "llama.cpp float32/s (batch)", RATIOS[1], "llama.cpp float16/s (batch)", RATIOS[2],
    "harness/s", RATIOS[3], "memory, GB: plain, ours", "max difference, nats",
)  # fmt: skip
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
    """Put lines in the place of those of the same networks; all lines of the file."""
    old: list[dict[str, str]] = []
    if path.exists():
        with path.open(encoding="utf-8", newline="") as file:
            old = list(csv.DictReader(file))
    measured = {_name(line) for line in lines}
    kept = [line for line in old if _name(line) not in measured]
    all_lines = [*kept, *lines]
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


def _name(line: dict[str, str]) -> str:
    """A network's name without its layers."""
    return line[NETWORK].partition(" (")[0]
