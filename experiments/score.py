"""Ask a model for label scores, context by context, and keep them.

python -m experiments.score --config=configs/mini.py --workdir=W
"""

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from absl import flags
from ml_collections import config_flags
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from batch_calibration import pipeline
from batch_calibration.prompts import render as plan
from batch_calibration.prompts.length_limit import TokenBudget
from batch_calibration.store import Store
from experiments import machine, study
from experiments.cli import enter

CONFIG = config_flags.DEFINE_config_file("config", None, "the study to score", lock_config=True)
WORKDIR = flags.DEFINE_string("workdir", None, "folder for the scores", required=True)
flags.mark_flag_as_required("config")


class Rate(ProgressColumn):
    """Examples per second."""

    def render(self, task: Task) -> Text:
        """The speed so far."""
        return Text(f"{task.finished_speed or task.speed or 0:,.0f} examples/s")


def measure(cells: Sequence[Mapping[str, Any]], room: TokenBudget | None) -> list[int]:
    """Rows of each context; printed are a plan's notes, each once, and which prompts were cut."""
    sizes, dropped, truncated, noted = [], Counter[str](), Counter[str](), set[str]()
    for cell in cells:
        planned = plan.plan(cell, room)
        blocks = planned.blocks.values()
        for note in planned.notes:
            if note not in noted:
                print(note)
        noted |= set(planned.notes)
        sizes.append(sum(len(block.texts) for block in blocks))
        dropped[cell["task"]] += sum(block.spec.get("dropped", 0) for block in blocks)
        truncated[cell["task"]] += sum(block.spec.get("truncated", 0) for block in blocks)
    for task in dropped:
        if dropped[task] or truncated[task]:
            rows = sum(s for s, cell in zip(sizes, cells, strict=True) if cell["task"] == task)
            print(
                f"{task}: of {rows:,} prompts {dropped[task]:,} lost demonstrations and "
                f"{truncated[task]:,} were cut on the left, to fit the model's positions"
            )
    return sizes


def show(bar: Progress, line: TaskID, before: int, rows: int) -> None:
    """Move the bar to the rows of earlier contexts and those done of this one."""
    bar.update(line, completed=before + rows)


def main() -> None:
    """Score every context of the sweep that the workdir does not hold yet."""
    machine.set_up()
    config = CONFIG.value
    path = config_flags.get_config_filename(flags.FLAGS["config"])
    cells = study.cells(path, config)
    store = Store(WORKDIR.value, create=True)
    room = pipeline.make_room(config.to_dict())
    # Planned once for its errors, counts and size, and again, one at a time, to be scored.
    sizes = measure(cells, room)
    scorer = pipeline.make_scorer(config.to_dict())
    began, asked = time.monotonic(), 0
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), Rate(),
               TimeRemainingColumn())  # fmt: skip
    with Progress(*columns) as bar:
        total = sum(sizes)
        line = bar.add_task("scoring", total=total)
        for cell, size in zip(cells, sizes, strict=True):
            planned = plan.plan(cell, room)
            varied = planned.context.get("options", {}).items()
            name = ", ".join(f"{k} {v}" for k, v in varied if k != "over_long")
            name = name or f"{cell['shots']} shots"
            bar.update(line, description=f"{cell['task']}, seed {cell['seed']}, {name}")
            done = int(bar.tasks[0].completed)
            _, rows = pipeline.score(
                planned,
                scorer,
                store,
                config.model,
                partial(show, bar, line, done),
            )
            asked += rows
            bar.update(line, completed=done + size)
    for note in scorer.notes:
        print(note)
    seconds = time.monotonic() - began
    print(
        f"{len(cells)} contexts: {asked:,} rows scored in {seconds:.1f} s, "
        f"{total - asked:,} were there already; the scores are in {store.workdir / 'scores'}"
    )


if __name__ == "__main__":
    enter(main)
