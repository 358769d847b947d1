r"""The paper's figure of shots (Fig. 6): 0 to 4 per class, 5 seeds (one where there is no shot).

python -m experiments.score --config=configs/shots.py \
    --config.model=DIR --config.data=DATA --workdir=W

`config.shots` is the most shots per class. No labeled set: its rows would double the cost, and the
figure has no BCL. Expect all methods to gain with shots, and ICL and BC to come nearer.
"""

from ml_collections import ConfigDict

from configs import base

sweep = base.sweep_shots


def get_config(preset: str = "") -> ConfigDict:
    """The whole study, or with `:smoke` a small run."""
    return base.config(
        preset,
        base.FEW_ROWS | {"shots": 2, "seeds": 2, "labeled_per_class": 0},
        tasks=base.LANGUAGE,
        shots=4,
        seeds=5,
        labeled_per_class=0,
        over_long="drop_shots",
    )
