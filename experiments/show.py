"""Show what a model will be asked, where its labels begin and what that costs; no weights needed.

python -m experiments.show --config=configs/mini.py --rows=3
"""

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from absl import flags
from ml_collections import config_flags
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from batch_calibration import pipeline
from batch_calibration.methods import METHODS
from batch_calibration.prompts import render as plan
from batch_calibration.scoring.token_budget import TokenBudget
from experiments import study
from experiments.cli import enter

CONFIG = config_flags.DEFINE_config_file("config", None, "the study to show", lock_config=True)
ROWS = flags.DEFINE_integer("rows", 3, "rows of each block to show", lower_bound=1)
COST = flags.DEFINE_boolean("cost", True, "count the tokens of the whole sweep")
flags.mark_flag_as_required("config")

NOTES = {
    "causal_lm": "asked: what prompts share is run once, labels as a trie",
    "dual_encoder": "asked: what is left of texts longer than config.max_tokens",
}


def blocks(planned: plan.Plan, room: TokenBudget | None, rows: int) -> None:
    """Print the first rows of every block, and the tokens at the first one's boundary."""
    about = planned.context
    print(f"=== {about['task']}, seed {about['seed']}, {about['shots']} shots"
          + "".join(f", {k} {v}" for k, v in about.get("options", {}).items()))  # fmt: skip
    if "served" in about:
        print(f"the data have no split {about['split']!r}; {about['served']!r} stands in for it")
    print(f"demonstrations: {', '.join(about['demonstrations']) or 'none'}")
    labels = iter(planned.label_texts)
    for name, forms in zip(planned.label_names, planned.forms, strict=True):
        print(f"label {name}: {', '.join(repr(next(labels)) for _ in range(forms))}")
    for name, block in planned.blocks.items():
        readers = [method for method, row in METHODS.items() if name in row.probe.blocks]
        shortened = "".join(
            f", {block.spec[what]} {what}" for what in ("dropped", "truncated")
            if block.spec.get(what)
        )  # fmt: skip
        print(f"\n--- block {name}: {len(block.texts)} rows{shortened}; "
              f"learned from by {', '.join(readers)}")  # fmt: skip
        for text, label, row in list(zip(block.texts, block.labels, block.row_ids, strict=True))[
            :rows
        ]:
            gold = planned.label_names[label] if label >= 0 else "unknown"
            print(f"[{row}, label {gold}]\n{text}|\n")
    if room:
        boundary(room, planned)


def boundary(room: TokenBudget, planned: plan.Plan) -> None:
    """Print the last tokens of the first test row and those of each label."""
    prompt, labels = room.boundary(planned.blocks["test"].texts[0], planned.label_texts)
    print(f"--- tokens of the first test row: {len(prompt)}, beginning token "
          f"{'included' if room.tokenizer_info.bos is not None else 'none'}, "
          f"of {room.positions} positions")  # fmt: skip
    for text, label in zip(planned.label_texts, labels, strict=True):
        print(f"... {' '.join(map(repr, prompt[-6:]))} | {' '.join(map(repr, label))}  ({text!r})")
    print()


def cost(cells: Sequence[Mapping[str, Any]], room: TokenBudget | None) -> None:
    """Print what the sweep asks: rows and tokens, task by task."""
    table = Table(title="the whole sweep", title_justify="left", box=SIMPLE_HEAD)
    for name in ("task", "contexts", "rows", "tokens in the prompts", "positions asked for"):
        table.add_column(name, justify="left" if name == "task" else "right")
    sums = [0, 0, 0, 0]
    for task, group in groupby(cells, key=lambda cell: str(cell["task"])):
        counts = [0, 0, 0, 0]
        for cell in group:
            planned = plan.plan(cell, room)
            texts = [text for block in planned.blocks.values() for text in block.texts]
            read_texts = texts if planned.inputs == "text" else []
            read, asked = tokens(cell, room, read_texts, planned.label_texts) if room else (0, 0)
            for i, value in enumerate((1, len(texts), read, asked)):
                counts[i] += value
        table.add_row(task, *(f"{count:,}" for count in counts))
        sums = [a + b for a, b in zip(sums, counts, strict=True)]
    table.add_row("all", *(f"{count:,}" for count in sums))
    Console(width=max(100, Console().width)).print(table)
    print(NOTES[cells[0]["scorer"]] if room else "no tokens are counted without config.model")


def tokens(
    cell: Mapping[str, Any], room: TokenBudget, texts: list[str], labels: list[str]
) -> tuple[int, int]:
    """Tokens in the texts and token positions asked for."""
    if cell["scorer"] == "causal_lm":
        return room.cost(texts, labels)
    counts = room.token_counts(texts + labels)
    most = min(cell["max_tokens"], room.positions)
    return sum(counts), sum(min(count, most) for count in counts)


def main() -> None:
    """Show the first context of each task, then the cost of all."""
    config = CONFIG.value
    path = config_flags.get_config_filename(flags.FLAGS["config"])
    room = pipeline.make_room(config.to_dict())
    cells = study.cells(path, config)
    if not room:
        # Without a tokenizer no prompt can be measured: show each as it is before it is fitted.
        cells = [{**cell, "over_long": "error"} for cell in cells]
        print("config.model is empty: texts only, no tokens, over-long prompts left as they are.\n")
    for _, group in groupby(cells, key=lambda cell: str(cell["task"])):
        first = next(group)
        planned = plan.plan(first, room)
        blocks(planned, room if first["scorer"] == "causal_lm" else None, ROWS.value)
    if COST.value:
        cost(cells, room)


if __name__ == "__main__":
    enter(main)
