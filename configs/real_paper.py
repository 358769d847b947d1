r"""The paper's study on a small real model: 13 tasks and three more, all variations, 200 rows.

python -m experiments.score --config=configs/real_paper.py --config.data=DATA --workdir=W
python -m experiments.calibrate --config=configs/probe_size.py --tasks=rte,sst2 --shots=1 \
    --workdir=W

`python -m experiments.real` downloads SmolLM2-135M-Instruct. Each task has 0 to 4 shots with five
draws, and one shot as chat; RTE and SST-2 also have the axes of configs/robustness.py. The 516
contexts with about 100,000 prompts take minutes on a GPU and hours on two cores.
docs/results.md has the results at one shot.
"""

from collections.abc import Iterator

from ml_collections import ConfigDict

from configs import base, real, robustness

MORE = ("mr", "agnews", "trec")
VARIED = ("rte", "sst2")


def get_config(preset: str = "") -> ConfigDict:
    """Configures the whole study, or with `:smoke` a small run."""
    return base.config(
        preset,
        {"smoke": base.FEW_ROWS},
        model=real.MODEL,
        tasks=(*base.LANGUAGE, *MORE),
        shots=4,
        seeds=5,
        limit=200,
        over_long="drop_shots",
        dtype="float32",
    )


def sweep(config: ConfigDict) -> Iterator[dict[str, object]]:
    """Yields the shots of each task, one shot as chat, and one choice of the prompt at a time."""
    for cell in base.sweep_shots(config):
        # BCL needs a labeled set; the paper reports it only at one shot.
        yield cell | ({"labeled_per_class": 16} if cell["shots"] == 1 else {})
    for task in config.tasks:
        for seed in range(config.seeds):
            yield {"task": task, "shots": 1, "seed": seed, "chat": "turns"}
    varied = ConfigDict({"tasks": [task for task in VARIED if task in config.tasks], "seeds": 10})
    for cell in robustness.sweep(varied):
        yield {"shots": 1} | cell
