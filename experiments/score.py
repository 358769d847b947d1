"""Ask a model for label scores, context by context, and keep them.

python -m experiments.score --config=configs/mini.py --workdir=W
"""

import time
from functools import partial

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

from batch_calibration import pipeline, plan
from batch_calibration.store import Store
from experiments import study
from experiments.door import enter

CONFIG = config_flags.DEFINE_config_file("config", None, "the study to score", lock_config=True)
WORKDIR = flags.DEFINE_string("workdir", None, "folder for the scores", required=True)
flags.mark_flag_as_required("config")


class Rate(ProgressColumn):
    """Examples per second."""

    def render(self, task: Task) -> Text:
        """The speed so far."""
        return Text(f"{task.finished_speed or task.speed or 0:,.0f} examples/s")


def show(bar: Progress, line: TaskID, before: int, rows: int) -> None:
    """Move the bar to the rows of earlier contexts and those done of this one."""
    bar.update(line, completed=before + rows)


def main() -> None:
    """Score every context of the sweep that the workdir does not hold yet."""
    config = CONFIG.value
    store = Store(WORKDIR.value, create=True)
    path = config_flags.get_config_filename(flags.FLAGS["config"])
    plans = [plan.plan(cell) for cell in study.cells(path, config)]
    scorer = pipeline.make_scorer(config.to_dict())
    began, asked = time.monotonic(), 0
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), Rate(),
               TimeRemainingColumn())  # fmt: skip
    with Progress(*columns) as bar:
        total = sum(len(b.texts) for planned in plans for b in planned.blocks.values())
        line = bar.add_task("scoring", total=total)
        for planned in plans:
            about = planned.context
            bar.update(line, description=f"{about['task']}, seed {about['seed']}")
            done = int(bar.tasks[0].completed)
            _, rows = pipeline.score(
                planned,
                scorer,
                store,
                config.model,
                partial(show, bar, line, done),
            )
            asked += rows
            size = sum(len(block.texts) for block in planned.blocks.values())
            bar.update(line, completed=done + size)
    seconds = time.monotonic() - began
    print(
        f"{len(plans)} contexts: {asked:,} rows scored in {seconds:.1f} s, "
        f"{total - asked:,} were there already; the scores are in {store.workdir / 'scores'}"
    )


if __name__ == "__main__":
    enter(main)
