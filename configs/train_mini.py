"""Training of the mini language model.

python -m experiments.train_mini --config=configs/train_mini.py --out=DIR --workdir=W
"""

from ml_collections import ConfigDict

INFERENCE = ("mnli", "cb", "anli_r1", "anli_r2", "anli_r3")
PAIRS = ("rte", "qnli", "mrpc", "qqp", "boolq", "copa", "wic")
FIRST = dict.fromkeys(("mnli", *PAIRS, "prose", "thesaurus"), 1.0) | {"sst2": 0.3}
ALL = dict.fromkeys(("sst2", *INFERENCE, *PAIRS, "prose"), 1.0) | {"thesaurus": 0.5}
PLAIN = {"concentration": float("inf"), "skew": 0.0, "sticky": 0.0, "noise": 0.0,
         "own_words": 1.0, "own_template": 1.0}  # fmt: skip


def stage(
    steps: int, rows: int, length: int, mix: dict[str, float], shots: int, hardest: int,
    rate: tuple[float, float], gate: tuple[tuple[str, ...], float] | None = None, **knobs: float,
) -> dict[str, object]:  # fmt: skip
    """One stage, as `TextStage` says; knobs are those of the text that differ in it.

    `mix` gives tasks and their shares, `shots` and `hardest` are as `documents.Recipe` says.
    """
    return {"steps": steps, "rows": rows, "length": length, "mix": mix, "shots": shots,
            "hardest": hardest, "rate": rate, "gate": gate, **knobs}  # fmt: skip


# Whether two texts mean the same is learned abruptly, and only where the loss falls by little else:
# first of two words, then of two sentences in plain examples; then come the harder grades and the
# other tasks, and last the few-shot documents with all that makes them biased.
STAGES = (
    stage(
        2000, 24, 128, {"thesaurus": 1.0, "prose": 1.0}, 1, 1, (2e-3, 2e-3), (("thesaurus",), 0.3)
    ),
    stage(2500, 24, 128, FIRST, 1, 1, (2e-3, 1e-3), (("mnli", "boolq"), 0.45), **PLAIN),
    stage(1000, 24, 128, ALL, 1, 3, (1e-3, 1e-3), own_words=1.0, own_template=1.0, reach=576),
    stage(1500, 24, 128, ALL, 1, 3, (1e-3, 1e-3), reach=576),
    stage(1500, 12, 288, ALL, 4, 3, (1e-3, 5e-4), reach=576),
    stage(1000, 6, 576, ALL, 4, 3, (5e-4, 5e-5), reach=576),
)
SMOKE = (
    stage(60, 4, 64, {"mnli": 1.0}, 1, 1, (2e-3, 2e-3), (("mnli",), 100.0)),
    stage(20, 2, 128, {"mnli": 1.0, "sst2": 1.0}, 2, 3, (2e-3, 1e-3)),
)


def get_config(preset: str = "") -> ConfigDict:
    """The full run, or with `:smoke` a few seconds of it."""
    if preset not in ("", "smoke"):
        raise ValueError(f"configs/train_mini.py has no preset {preset!r}; there is: smoke")
    config = ConfigDict()
    config.seed = 0
    config.cpu_devices = 2
    config.vocabulary = 2000
    config.vocabulary_texts = 4000
    config.positions = 576
    config.width = 128
    config.layers = 4
    config.heads = 4
    config.stages = SMOKE if preset == "smoke" else STAGES
    config.own_template = 0.65
    config.own_words = 0.75
    config.concentration = 2.0
    config.skew = 1.0
    config.sticky = 0.3
    config.noise = 0.05
    config.reach = 0
    config.warmup = 10 if preset == "smoke" else 150
    config.weight_decay = 0.01
    config.b2 = 0.98
    config.clip = 1.0
    config.label_weight = 10.0
    config.spread = 0.06
    config.read = 1 / 3
    config.log_every = 20
    config.save_every = 200
    config.lock()
    return config
