r"""The paper's figure of shots (Fig. 6): 0 to 4 per class, 5 seeds (one without shots).

python -m experiments.score --config=configs/shots.py \
    --config.model=DIR --config.data=DATA --workdir=W

`config.shots` is the maximum number of shots per class. Expect all methods to gain with more shots,
and the difference between ICL and BC to shrink.

`--config=configs/shots.py:mini` scores three tasks with the embedded model; its contexts with one
shot belong to configs/mini.py. Expect BC to exceed or equal ICL (except for SST-2 at three shots,
0.9 points below), and MNLI to rise up to two shots and then to fall (docs/evidence/mini_shots.csv).
"""

from ml_collections import ConfigDict

from configs import base

sweep = base.sweep_shots
MINI = base.MINI | {"tasks": ("sst2", "mnli", "qnli"), "over_long": "error"}


def get_config(preset: str = "") -> ConfigDict:
    """Configures the study on real rows, or with `:mini` on the embedded suite.

    `:smoke` and `:mini_smoke` are small runs.
    """
    few = base.FEW_ROWS | {"shots": 2, "seeds": 2}
    return base.config(
        preset,
        {"smoke": few, "mini": MINI, "mini_smoke": {"limit": 40, "shots": 2, "seeds": 2}},
        tasks=base.LANGUAGE,
        shots=4,
        seeds=5,
        over_long="drop_shots",
    )
