"""Which property of the pretraining text causes which bias: one small model per property.

python -m experiments.ablate_mini --config=configs/mini_ablations.py --workdir=W

Expect one cause for each bias: preferred labels for the majority bias (1.12 nats, 0.06 without
them), unequal frequencies for the common-token bias, and runs of labels for the recency bias.
Without all properties, expect ICL 78.1 and BC 78.6 %; with them, 65.1 and 69.5 %. docs/mini.md has
the table.
"""

from ml_collections import ConfigDict

from configs import base

RECIPES = {
    "as shipped": {},
    "no preferred labels": {"concentration": float("inf")},
    "no frequent labels": {"skew": 0.0},
    "no runs of labels": {"sticky": 0.0},
    "no wrong labels": {"noise": 0.0},
    "own label words only": {"own_words": 1.0},
    "own template only": {"own_template": 1.0},
    "none of these": {"concentration": float("inf"), "skew": 0.0, "sticky": 0.0, "noise": 0.0,
                      "own_words": 1.0, "own_template": 1.0},
}  # fmt: skip


def get_config(preset: str = "") -> ConfigDict:
    """Configures one run per recipe; the runs of `:smoke` are too short to learn."""
    smoke = base.is_smoke(preset)
    config = ConfigDict()
    config.base = "configs/train_mini.py"
    config.task = "sst2"
    config.steps = 20 if smoke else 450
    config.rows = 4 if smoke else 24
    config.length = 128
    config.shots = 4
    config.rate = (2e-3, 1e-4)
    config.recipes = tuple(RECIPES.items())[: 2 if smoke else None]
    config.draws = 1 if smoke else 4
    config.test_rows = 20 if smoke else 300
    config.lock()
    return config
