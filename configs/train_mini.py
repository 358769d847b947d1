"""Trains the mini language model.

python -m experiments.train_mini --config=configs/train_mini.py --out=DIR --workdir=W

The eleven stages have about 10,700 steps and take an hour on two cores. The shipped checkpoint
reaches ICL 77.1 and BC 79.4 % at 1 shot. docs/mini.md has all results.
"""

from ml_collections import ConfigDict

from configs import base

INFERENCE = ("mnli", "cb", "anli_r1", "anli_r2", "anli_r3")
PAIRS = ("rte", "qnli", "mrpc", "qqp", "boolq", "copa", "wic")
FIRST = dict.fromkeys(("mnli", *PAIRS, "prose", "thesaurus"), 1.0) | {"sst2": 0.3}
ALL = dict.fromkeys(("sst2", *INFERENCE, *PAIRS, "prose"), 1.0) | {"thesaurus": 0.5}
PLAIN: dict[str, object] = {"concentration": float("inf"), "skew": 0.0, "sticky": 0.0, "noise": 0.0,
         "own_words": 1.0, "own_template": 1.0}  # fmt: skip


def stage(
    steps: int, rows: int, length: int, mix: dict[str, float], shots: int, hardest: int,
    rate: tuple[float, float], gate: tuple[tuple[str, ...], float] | None = None, **knobs: object,
) -> dict[str, object]:  # fmt: skip
    """Returns one stage in the form of `TextStage`.

    `mix` maps tasks to their shares, `documents.Recipe` explains `shots` and `hardest`, and `knobs`
    are settings of the text that differ in this stage.
    """
    return {"steps": steps, "rows": rows, "length": length, "mix": mix, "shots": shots,
            "hardest": hardest, "rate": rate, "gate": gate, **knobs}  # fmt: skip


# The model learns abruptly whether two texts mean the same, and only if little else lowers the
# loss. The stages therefore begin with two words and continue with two sentences in plain examples.
# Harder grades and other tasks follow. Few-shot documents with all causes of bias come last.
STAGES: tuple[dict[str, object], ...] = (
    stage(
        2000, 24, 128, {"thesaurus": 1.0, "prose": 1.0}, 1, 1, (2e-3, 2e-3), (("thesaurus",), 0.3)
    ),
    stage(2500, 24, 128, FIRST, 1, 1, (2e-3, 1e-3), (("mnli", "boolq"), 0.45), **PLAIN),
    stage(1000, 24, 128, ALL, 1, 3, (1e-3, 1e-3), own_words=1.0, own_template=1.0, reach=576),
    stage(1500, 24, 128, ALL, 1, 3, (1e-3, 1e-3), reach=576),
    stage(1500, 12, 288, ALL, 4, 3, (1e-3, 5e-4), reach=576),
    stage(1000, 6, 576, ALL, 4, 3, (5e-4, 5e-5), reach=576),
)
# From here on, the network has two more layers and learns from the demonstrations which word means
# which label. A loss on attention first guides the heads of these layers; the last stages omit it.
MATCHED = dict.fromkeys(("sst2", "boolq", "rte", "mrpc", "qnli", "mnli"), 1.0)
OTHERS = dict.fromkeys((*INFERENCE[1:], "qqp", "copa", "wic", "prose"), 0.5)
EVERY = dict.fromkeys(("sst2", *INFERENCE, *PAIRS, "topics"), 1.0) | {"prose": 0.7}
LAST = EVERY | {"sst2": 3.0, "mnli": 2.0, "wic": 2.0, "topics": 0.5, "thesaurus": 0.3}
CLEAR = PLAIN | {"likelier": 1.0}
STAGES += (
    stage(
        600, 8, 288, MATCHED, 2, 3, (2e-3, 2e-3), (("attention to the label",), 0.25), grown_to=6,
        frozen="all but the added layers", guidance=1.0, label_weight=20.0, drawn_words=0.6,
        permuted_words=0.15, **CLEAR,
    ),
    stage(
        400, 8, 288, MATCHED | OTHERS, 2, 3, (1e-3, 1e-3), None, frozen="words", guidance=0.3,
        label_weight=100.0, drawn_words=0.5, permuted_words=0.2, **CLEAR,
    ),
    stage(
        500, 6, 384, EVERY | {"copies": 0.5, "thesaurus": 0.5}, 4, 3, (7e-4, 7e-4), None,
        frozen="words", guidance=0.1, label_weight=100.0, drawn_words=0.4, permuted_words=0.15,
        **CLEAR,
    ),
    stage(
        500, 4, 576, EVERY | {"copies": 0.3, "thesaurus": 0.5}, 4, 3, (7e-4, 5e-5), frozen="words",
        label_weight=30.0, likelier=0.3, drawn_words=0.3, permuted_words=0.12,
    ),
    stage(
        900, 4, 576, LAST, 4, 3, (5e-4, 2e-5), frozen="words", label_weight=30.0, likelier=0.5,
        drawn_words=0.25, permuted_words=0.06,
    ),
)  # fmt: skip
SMOKE = (
    stage(60, 4, 64, {"mnli": 1.0}, 1, 1, (2e-3, 2e-3), (("mnli",), 100.0)),
    stage(20, 2, 128, {"mnli": 1.0, "sst2": 1.0}, 2, 3, (2e-3, 1e-3)),
    stage(10, 2, 128, {"sst2": 1.0}, 2, 3, (2e-3, 1e-3), grown_to=6, guidance=1.0, drawn_words=0.5),
)


def get_config(preset: str = "") -> ConfigDict:
    """Configures the full run, or with `:smoke` a few seconds of it."""
    smoke = base.is_smoke(preset)
    config = ConfigDict()
    config.seed = 0
    config.cpu_devices = 2
    config.vocabulary = 2000
    config.vocabulary_texts = 4000
    config.positions = 576
    config.width = 128
    config.layers = 4
    config.heads = 4
    config.stages = SMOKE if smoke else STAGES
    config.own_template = 0.65
    config.own_words = 0.75
    config.concentration = 2.0
    config.skew = 1.0
    config.sticky = 0.3
    config.noise = 0.05
    config.likelier = 0.0
    config.permuted_words = 0.0
    config.drawn_words = 0.0
    config.grown_to = 0
    config.guidance = 0.0
    config.frozen = ""
    config.reach = 0
    config.warmup = 10 if smoke else 150
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
