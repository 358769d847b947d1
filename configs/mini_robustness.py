"""The paper's robustness study (Table 7, Fig. 8) on the embedded suite: RTE, four choices.

python -m experiments.score --config=configs/mini_robustness.py --workdir=W

The contexts of configs/mini_orders.py, mini_templates.py and mini_verbalizers.py on RTE: 54, scored
once in one workdir. Expect BC to vary less than ICL over choices and orders (docs/mini.md).
"""

from ml_collections import ConfigDict

from configs import base, robustness

sweep = robustness.sweep


def get_config(preset: str = "") -> ConfigDict:
    """The whole study, or with `:smoke` a small run."""
    return base.config(
        preset, {"limit": 40}, tasks=("rte",), labeled_per_class=0, **base.MINI | {"seeds": 10}
    )
