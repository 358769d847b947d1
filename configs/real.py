"""A real language model on real text: four domains of sentiment, 0, 1 and 4 shots, 5 draws.

python -m experiments.score --config=configs/real.py --workdir=runs/real

SmolLM2-135M-Instruct scores 200 rows per domain; `make real` (experiments/real.py) downloads both
and runs all steps. The model scores only the test rows and the probe inputs of CC and DC. Expect BC
to exceed ICL and to vary less between draws.
"""

from collections.abc import Iterator

from ml_collections import ConfigDict

from configs import base

FOLDER = "runs/real/inputs"
MODEL = f"{FOLDER}/SmolLM2-135M-Instruct.Q4_1.gguf"
DOMAINS = ("movie_reviews", "product_reviews", "tweets", "editorials")
SHOTS = (0, 1, 4)
METHODS = (
    "icl", "cc", "dc", "pc", "bc", "bc_running", "bc_mean_prob", "bc_prob_shift", "bc_loo",
    "pc_raw", "bc_shrunk", "bc_empirical_bayes", "bc_pooled_shares", "ensemble", "prior_matching",
    "otter", "sld_em",
)  # fmt: skip
"""Methods that learn from the test rows or from the probe inputs of CC and DC."""


def get_config(preset: str = "") -> ConfigDict:
    """Configures the four domains, or with `:smoke` a few rows of one."""
    tasks = tuple(f"{FOLDER}/{name}.toml" for name in DOMAINS)
    smoke = base.FEW_ROWS | {"tasks": tasks[:1], "shots": 1}
    return base.config(
        preset,
        {"smoke": smoke},
        model=MODEL,
        tasks=tasks,
        methods=METHODS,
        shots=4,
        seeds=5,
    )


def sweep(config: ConfigDict) -> Iterator[dict[str, object]]:
    """Yields each task and seed with 0, 1 and 4 shots per class, at most `config.shots`."""
    for task in config.tasks:
        for shots in (number for number in SHOTS if number <= config.shots):
            for seed in range(config.seeds if shots else 1):
                yield {"task": task, "shots": shots, "seed": seed}
