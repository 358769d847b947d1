r"""The paper's figure of shots (Fig. 6): 0 to 4 per class, 5 seeds (one where there is no shot).

python -m experiments.score --config=configs/shots.py \
    --config.model=DIR --config.data=DATA --workdir=W

`config.shots` is the most shots per class. No labeled set: its rows would double the cost, and the
figure has no BCL. Expect all methods to gain with shots, and ICL and BC to come nearer.

`--config=configs/shots.py:mini` asks the embedded model about three tasks; contexts of one shot are
those of configs/mini.py. Expect BC ahead of ICL or level with it (SST-2 at three shots is 0.9
points behind), and MNLI to rise up to two shots and to fall beyond; docs/mini.md has the table.
"""

from ml_collections import ConfigDict

from configs import base

sweep = base.sweep_shots
MINI = base.MINI | {"tasks": ("sst2", "mnli", "qnli"), "over_long": "error"}


def get_config(preset: str = "") -> ConfigDict:
    """On real rows, with `:mini` on the embedded suite; `:smoke`, `:mini_smoke`: small runs."""
    few = base.FEW_ROWS | {"shots": 2, "seeds": 2, "labeled_per_class": 0}
    return base.config(
        preset,
        {"smoke": few, "mini": MINI, "mini_smoke": {"limit": 40, "shots": 2, "seeds": 2}},
        tasks=base.LANGUAGE,
        shots=4,
        seeds=5,
        labeled_per_class=0,
        over_long="drop_shots",
    )
