"""Training of the mini language model.

python -m experiments.train_mini --config=configs/train_mini.py --out=DIR --workdir=W
"""

from ml_collections import ConfigDict

MATCHING = {"mnli": 2.0, "rte": 1.0, "cb": 1.0, "qnli": 1.0, "boolq": 1.0}
ALL = MATCHING | dict.fromkeys(
    ("sst2", "anli_r1", "anli_r2", "anli_r3", "mrpc", "qqp", "copa", "wic"), 1.0
)


def phase(
    steps: int, rows: int, length: int, mix: dict[str, float], shots: int, hardest: int,
    rate: tuple[float, float], gate: tuple[tuple[str, ...], float] | None = None, **knobs: float,
) -> dict[str, object]:  # fmt: skip
    """One phase, as `training.Phase` says; knobs are those of the text that differ in it.

    `mix` gives tasks and their shares, `shots` and `hardest` are as `documents.Recipe` says.
    """
    return {"steps": steps, "rows": rows, "length": length, "mix": mix, "shots": shots,
            "hardest": hardest, "rate": rate, "gate": gate, **knobs}  # fmt: skip


# Matching a hypothesis to its premise comes first and alone: it is learned abruptly, and only
# where nothing easier pays.
PHASES = (
    phase(3000, 24, 128, {"mnli": 1.0}, 1, 1, (1e-3, 1e-3), (("mnli",), 0.75)),
    phase(2000, 24, 128, MATCHING, 1, 3, (1e-3, 8e-4)),
    phase(2500, 24, 128, ALL, 1, 3, (8e-4, 5e-4)),
    phase(2500, 8, 384, ALL, 4, 3, (5e-4, 5e-5)),
)
SMOKE = (
    phase(60, 4, 64, {"mnli": 1.0}, 1, 1, (2e-3, 2e-3), (("mnli",), 100.0)),
    phase(20, 2, 128, {"mnli": 1.0, "sst2": 1.0}, 2, 3, (2e-3, 1e-3)),
)


def get_config(preset: str = "") -> ConfigDict:
    """The full run, or with `:smoke` a few seconds of it."""
    if preset not in ("", "smoke"):
        raise ValueError(f"configs/train_mini.py has no preset {preset!r}; there is: smoke")
    config = ConfigDict()
    config.seed = 0
    config.cpu_devices = 2
    config.vocabulary = 2400
    config.vocabulary_texts = 4000
    config.positions = 640
    config.width = 128
    config.layers = 4
    config.heads = 4
    config.phases = SMOKE if preset == "smoke" else PHASES
    config.repeat = 0.0
    config.own_template = 0.65
    config.own_words = 0.75
    config.concentration = 2.0
    config.skew = 1.0
    config.sticky = 0.3
    config.noise = 0.0
    config.warmup = 10 if preset == "smoke" else 150
    config.weight_decay = 0.01
    config.b2 = 0.98
    config.clip = 1.0
    config.label_weight = 10.0
    config.read = 1 / 3
    config.log_every = 20
    config.save_every = 200
    config.lock()
    return config
