"""Training of the mini language model.

python -m experiments.train_mini --config=configs/train_mini.py --out=DIR --workdir=W
"""

from ml_collections import ConfigDict

# steps, sequences a step, tokens a sequence, task mix, most examples in a document (by task),
# hardest grade. Matching a hypothesis to its premise comes first and alone: it is learned
# abruptly, and only where nothing easier pays.
PHASES = (
    (1600, 24, 128, ("mnli",), (4, 4), 1),
    (800, 24, 128, ("mnli",), (4, 4), 3),
    (900, 24, 128, ("mnli", "mnli", "sst2"), (4, 4), 3),
    (1400, 8, 384, ("mnli", "mnli", "sst2"), (9, 13), 3),
)
SMOKE = (
    (8, 4, 64, ("mnli",), (2, 2), 1),
    (8, 2, 128, ("mnli", "sst2"), (4, 4), 3),
)


def get_config(preset: str = "") -> ConfigDict:
    """The full run, or with `:smoke` a few seconds of it."""
    if preset not in ("", "smoke"):
        raise ValueError(f"configs/train_mini.py has no preset {preset!r}; there is: smoke")
    config = ConfigDict()
    config.seed = 0
    config.vocabulary = 2000
    config.vocabulary_texts = 4000
    config.positions = 512
    config.width = 128
    config.layers = 4
    config.heads = 4
    config.tasks = ("sst2", "mnli")
    config.phases = SMOKE if preset == "smoke" else PHASES
    config.own_template = 0.65
    config.own_words = 0.75
    config.concentration = 2.0
    config.sticky = 0.3
    config.peak = 1e-3
    config.final = 5e-5
    config.warmup = 150
    config.weight_decay = 0.01
    config.b2 = 0.98
    config.clip = 1.0
    config.label_weight = 10.0
    config.log_every = 20
    config.save_every = 200
    config.lock()
    return config
