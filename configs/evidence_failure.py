"""When BC fails: share of the most frequent label x batch size x bias x separation.

python -m experiments.evidence --config=configs/evidence_failure.py --scores=../shared/scores \
    --workdir=W --page=docs/evidence.md

Real rows with two or four options are from 7 base models on MMLU and 26 vision-language models.
Simulated rows show effects that do not depend on a model. With 20,000 rows in a cell for each model
and most frequent label, the noise of the rows is a tenth of a point. Expect BC's gain on two labels
to turn into a loss at a share between 0.5 and 0.7.
"""

from ml_collections import ConfigDict

from configs import base


def get_config(preset: str = "") -> ConfigDict:
    """Configures the whole grid, or with `:smoke` a corner of it."""
    smoke = base.is_smoke(preset)
    config = ConfigDict({
        "study": "failure",
        "sets": (("mmlu_batch",), ("mmbench", "oodcv")),
        "labels": (2, 4),
        "accuracies": (0.6, 0.75, 0.9),
        "shares": (0.25, 0.3, 0.4, 0.5, 0.55, 0.6, 0.7, 0.8, 0.9, 0.95),
        "sizes": (1, 3, 10, 30, 100, 1000),
        "simulated_sizes": (1, 3, 10, 30, 100, 1000, 10_000),
        "strengths": (0.0, 2.0),
        "simulated_strengths": (0.0, 1.0, 2.0, 4.0),
        "rows": 20_000,
        "simulated_draws": 4,
        "told": 100,  # batch size of the tables and sentences
        # These methods have a closed form; others take an hour with this number of rows.
        "methods": ("bc", "bc_mean_prob", "bc_prob_shift", "bc_shrunk"),
        "seed": 0,
    })  # fmt: skip
    if smoke:
        config.update({
            "sets": (("oodcv",),), "labels": (2,), "accuracies": (0.75,), "shares": (0.5, 0.7, 0.9),
            "sizes": (10, 100), "simulated_sizes": (10, 100), "simulated_strengths": (0.0, 2.0),
            "rows": 200, "simulated_draws": 2, "methods": ("icl", "bc"),
        })  # fmt: skip
    return config.lock()
