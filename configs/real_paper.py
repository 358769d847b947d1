r"""The paper's study on small real models: ten tasks with 0, 1 and 4 shots, and SST-2's prompts.

python -m experiments.score --config=configs/real_paper.py --config.model=FILE.gguf \
    --config.data=DATA --workdir=W
python -m experiments.calibrate --workdir=W
python -m experiments.evidence.claims --workdir=W

`make real` downloads SmolLM2, `make real MODEL=gemma3` Gemma 3; run the first command for each.
Each context has 100 rows. One shot per class has five draws of demonstrations, four have three.
SST-2 also varies its choice, order, template and verbalizer. docs/results-real.md has the results
and the minutes.
"""

from collections.abc import Iterator

from ml_collections import ConfigDict

from configs import base, real, robustness

TASKS = ("sst2", "mr", "agnews", "trec", "cb", "rte", "wic", "mnli", "copa", "boolq")
DRAWS = {0: 1, 1: 5, 4: 3}
"""Shots per class -> number of draws, at most `config.seeds`."""
VARIED = "sst2"


def get_config(preset: str = "") -> ConfigDict:
    """Configures the whole study, or with `:smoke` a small run."""
    return base.config(
        preset,
        {"smoke": base.FEW_ROWS},
        model=real.MODEL,
        tasks=TASKS,
        shots=4,
        seeds=5,
        limit=100,
        over_long="drop_shots",
        dtype="float32",
    )


def sweep(config: ConfigDict) -> Iterator[dict[str, object]]:
    """Yields 0, 1 and 4 shots of each task, then one choice of SST-2's prompt at a time."""
    for task in config.tasks:
        for shots in (number for number in DRAWS if number <= config.shots):
            for seed in range(min(DRAWS[shots], config.seeds)):
                yield {"task": task, "shots": shots, "seed": seed}
    if VARIED in config.tasks:
        varied = ConfigDict({"tasks": [VARIED], "seeds": 10})
        for cell in robustness.sweep(varied):
            yield {"shots": 1} | cell
