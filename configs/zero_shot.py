r"""The paper's zero-shot table (Table 5): 13 tasks, zero-shot templates, one context each.

python -m experiments.score --config=configs/zero_shot.py \
    --config.model=DIR --config.data=DATA --workdir=W

The paper's table has zero-shot accuracies only of PaLM 2-S: ICL 63.03, BC 64.09 on average. The
other half of the table, 67.62 and 72.52, is PaLM 2-M with one shot: `--config.shots=1`.

`--config=configs/zero_shot.py:mini` scores 13 contexts with the embedded model, without seeds,
because nothing is drawn. Expect lower accuracy than at 1 shot: for SST-2 ICL 76.4 and BC 78.4, for
MNLI 68.6 and 78.8 %.
"""

from ml_collections import ConfigDict

from configs import base

sweep = base.sweep
MINI: dict[str, object] = base.MINI | {"over_long": "error"}
SMALL: dict[str, object] = {"tasks": ("sst2", "mnli"), "limit": 40}


def get_config(preset: str = "") -> ConfigDict:
    """Configures the study on real rows, or with `:mini` on the embedded suite.

    `:smoke` and `:mini_smoke` are small runs.
    """
    presets = {"smoke": base.FEW_ROWS, "mini": MINI, "mini_smoke": SMALL}
    return base.config(preset, presets, tasks=base.LANGUAGE, shots=0, over_long="drop_shots")
