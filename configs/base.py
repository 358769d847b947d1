"""Shared parts of all configs: common settings, presets and sweeps.

All other settings have the defaults of `batch_calibration.settings`; the file
`batch_calibration/settings/__init__.py` explains each key and when to change it.
"""

from collections.abc import Collection, Iterator, Mapping

from ml_collections import ConfigDict

from batch_calibration.scoring.tasks import PAPER_LANGUAGE, TASKS
from batch_calibration.settings import Settings

LANGUAGE = PAPER_LANGUAGE
"""The paper's text tasks."""
MINI = {"model": "mini", "data": "mini", "seeds": 5}
"""The embedded language model on the embedded suite."""
IMAGES = {
    "scorer": "dual_encoder", "split": "test", "shots": 0, "scale": 0.0, "max_tokens": 77,
    "batch_size": 64,
}  # fmt: skip
"""Zero-shot CLIP, with the scale that the checkpoint learned and its 77 positions."""
FEW_ROWS: dict[str, object] = {"limit": 16, "seeds": 1, "dc_texts": 4}
"""A small run on real rows."""
SMOKE = {"smoke": FEW_ROWS | {"labeled_per_class": 4}}
"""The presets of a study on real rows with a labeled set, and without other presets."""

FLIPPED, HELD_OUT = {"demonstration_labels": "flipped"}, {"label_words": "held_out"}
CONDITIONS: tuple[dict[str, str], ...] = (
    {}, {"demonstration_labels": "random"}, FLIPPED, {"label_words": "training"}, HELD_OUT,
    FLIPPED | HELD_OUT,
)  # fmt: skip
"""Labels and label words of demonstrations, as in docs/results.md."""


def config(
    preset: str, presets: Mapping[str, Mapping[str, object]], /, **chosen: object
) -> ConfigDict:
    """Returns a locked config: the defaults, changed by `chosen` and then by the preset.

    A preset "mini_smoke" is the small run of "mini": it changes the keys of "mini" further.
    """
    settings = Settings.of(**chosen)
    for name in _chain(preset, presets):
        settings = settings.replace(**presets[name])
    # Locked before overrides are applied, because an unlocked config accepts misspelled keys.
    return ConfigDict(settings.flat()).lock()


def is_smoke(preset: str) -> bool:
    """Checks whether a preset is the small run, in a config without other presets."""
    return bool(_chain(preset, ("smoke",)))


def _chain(preset: str, presets: Collection[str]) -> list[str]:
    """Returns the presets to apply in turn for one preset; an empty list for ""."""
    if preset not in ("", *presets):
        names = ", ".join(sorted(presets))
        raise ValueError(f"the config has no preset {preset!r}; there are: {names}")
    whole = preset.removesuffix("_smoke")
    return [name for name in dict.fromkeys((whole, preset)) if name]


def sweep(config: ConfigDict) -> Iterator[dict[str, object]]:
    """Yields one flat dict per context, in the default sweep of `Settings.grid`."""
    for cell in Settings.of(**config.to_dict()).grid():
        yield {"task": cell.task, "seed": cell.seed}


def sweep_shots(config: ConfigDict) -> Iterator[dict[str, object]]:
    """Yields each task with 0 to `config.shots` shots per class, each with each seed."""
    for task in config.tasks:
        for shots in range(config.shots + 1):
            for seed in range(config.seeds if shots else 1):  # Without shots, nothing is drawn.
                yield {"task": task, "shots": shots, "seed": seed}


def sweep_orders(config: ConfigDict) -> Iterator[dict[str, object]]:
    """Yields `config.seeds` draws of one row in total, then 24 orders of a draw of four rows."""
    for task in config.tasks:
        for seed in range(config.seeds):
            yield {"task": task, "seed": seed, "selection": "total"}
        for order in range(24):
            yield {"task": task, "seed": 0, "selection": "total", "shots": 4, "order": order}


def sweep_demonstration_labels(config: ConfigDict) -> Iterator[dict[str, object]]:
    """Yields 0 shots, then each condition with 1, 2 and 4 shots, at most `config.shots`."""
    for task in config.tasks:
        yield {"task": task, "seed": 0, "shots": 0}
        for shots in (n for n in (1, 2, 4) if n <= config.shots):
            for seed in range(config.seeds):
                for condition in CONDITIONS:
                    yield {"task": task, "seed": seed, "shots": shots, **condition}


def sweep_named(config: ConfigDict, key: str) -> Iterator[dict[str, object]]:
    """Yields the numbered templates or verbalizers of each task, if any; RTE has ten of each."""
    for task in config.tasks:
        for name in getattr(TASKS[task], f"{key}s") if task in TASKS else ():
            yield {"task": task, "seed": 0, key: name}
