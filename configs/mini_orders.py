"""The paper's choices and orders of demonstrations, on three tasks of the embedded suite.

python -m experiments.score --config=configs/mini_orders.py --workdir=W

Ten draws of one training row in all as the context, and the 24 orders of one draw of four rows in
all, as in the paper. `config.seeds` is the number of draws. Expect BC to vary less than ICL in all
but the orders of SST-2 (docs/mini.md); 102 contexts.
"""

from ml_collections import ConfigDict

from configs import base

sweep = base.sweep_orders


def get_config(preset: str = "") -> ConfigDict:
    """The whole study, or with `:smoke` a small run."""
    return base.config(
        preset,
        {"limit": 40},
        tasks=("sst2", "mnli", "rte"),
        labeled_per_class=0,
        **base.MINI | {"seeds": 10},
    )
