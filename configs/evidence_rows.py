"""Number of rows that a bias needs: its error in nats, and accuracy, by the number of probe rows.

python -m experiments.evidence --config=configs/evidence_rows.py --scores=../shared/scores \
    --workdir=W --page=docs/evidence.md

The sizes are evenly spaced on a logarithmic axis, with 20 draws for each size and model. Expect the
error of BC's bias to fall with one over the square root of the number of rows.
"""

from ml_collections import ConfigDict

from configs import base


def get_config(preset: str = "") -> ConfigDict:
    """Configures all sizes, or with `:smoke` two of them."""
    smoke = base.is_smoke(preset)
    config = ConfigDict({
        "study": "rows",
        "sets": (("mmlu_batch",), ("mmbench", "oodcv")),
        "labels": 4,
        "sizes": (1, 2, 3, 5, 10, 20, 30, 50, 100, 200, 500, 1000),
        "draws": 20,
        "rows": 1000,
        "methods": (),
        "seed": 0,
    })  # fmt: skip
    if smoke:
        config.update({
            "sets": (("oodcv",),), "sizes": (1, 10), "draws": 2, "rows": 100,
            "methods": ("bc", "bc_mean_prob", "rbcorr"),
        })  # fmt: skip
    return config.lock()
