"""Inputs without content: what CC and DC ask the model instead of a question."""

from collections.abc import Sequence

import numpy as np

from batch_calibration.errors import InputError
from batch_calibration.tasks.base import Row

CONTENT_FREE = ("N/A", "", "[MASK]")
FILLS = ("per_field", "whole_input")
"""CC fills every field of the template, or what `template.whole_input` leaves of it."""
PRESETS = ("paper", "original")
"""DC's texts as Zhou et al. 2024 describe them, or as the code of Fei et al. 2023 makes them."""


def content_free(fields: Sequence[str]) -> list[Row]:
    """CC's rows: each content-free text in every field (Zhao et al. 2021, section 5).

    >>> content_free(["sentence"])
    [{'sentence': 'N/A'}, {'sentence': ''}, {'sentence': '[MASK]'}]
    """
    return [dict.fromkeys(fields, fill) for fill in CONTENT_FREE]


def random_words(
    rows: Sequence[Row],
    fields: Sequence[str],
    texts: int = 20,
    seed: int = 0,
    preset: str = "paper",
) -> list[Row]:
    """DC's rows: random in-domain words, per field, at the field's mean length in words.

    The bag holds every white-space word of the field in `rows`, so frequent words are drawn often
    (Fei et al. 2023, section 3; Zhou et al. 2024, appendix: 20 texts from the test inputs). The
    preset `original` is lower-cased, of floor(mean) + 1 words, and ends in " .".
    """
    if preset not in PRESETS:
        raise InputError.unknown("config.dc_preset", preset, PRESETS)
    if texts < 1:
        raise InputError(f"config.dc_texts: expected 1 or more texts, got {texts}; 20 is usual.")
    original = preset == "original"
    rng = np.random.default_rng([seed, 3])
    columns: dict[str, list[str]] = {}
    for field in fields:
        split = [(row[field].lower() if original else row[field]).split() for row in rows]
        bag = [word for words in split for word in words] or [""]
        mean = sum(map(len, split)) / len(split)
        length = int(mean) + 1 if original else max(1, round(mean))
        draws = rng.integers(len(bag), size=(texts, length))
        columns[field] = [
            " ".join(bag[i] for i in draw) + (" ." if original else "") for draw in draws
        ]
    return [{field: columns[field][i] for field in fields} for i in range(texts)]
