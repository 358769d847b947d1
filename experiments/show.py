"""Show what a model will be asked, where its labels begin and what that costs; no weights needed.

python -m experiments.show --config=configs/mini.py --rows=3
"""

from absl import flags

from batch_calibration.cli import studies
from experiments import cli

CONFIG = cli.config_flag("the study to show")
ROWS = flags.DEFINE_integer("rows", 3, "rows of each block to show", lower_bound=1)
COST = flags.DEFINE_boolean("cost", True, "count the tokens of the whole sweep")


def main() -> None:
    """Show the first context of each task, then the cost of all."""
    studies.show(cli.configured_study(), rows=ROWS.value, cost=COST.value)


if __name__ == "__main__":
    cli.enter(main, loads=("jax",))
