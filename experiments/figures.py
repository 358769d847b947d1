"""Figures of a study: gains, prompts, decision boundaries, curves, as PNG and PDF.

python -m experiments.figures --workdir=W
"""

from absl import flags

from experiments import cli, compilation_cache

WORKDIR = cli.folder_flag("folder with scores and records")
TASKS_DRAWN = flags.DEFINE_integer(
    "boundary_tasks", 2, "tasks in the figure of boundaries", lower_bound=0
)


def main() -> None:
    """Draw every figure in the catalogue."""
    from batch_calibration.artifacts import catalogue, writing
    from batch_calibration.store import Store

    compilation_cache.keep_programs()
    store = Store(WORKDIR.value)
    records = store.records()
    results = catalogue.gather(records, store.table_of, TASKS_DRAWN.value)
    writing.write_figures(results, store.workdir / "figures", print)
    for sentence in store.unmatched(records):
        print(sentence)


if __name__ == "__main__":
    cli.enter(main, loads=("jax",))
