"""Makes content-free and random-word inputs: what CC and DC learn their bias from."""

from collections.abc import Sequence

import numpy as np

from batch_calibration.settings import RandomWordPreset
from batch_calibration.tasks.base import Row

CONTENT_FREE = ("N/A", "", "[MASK]")


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
    preset: RandomWordPreset = "paper",
) -> list[Row]:
    """DC's rows: random in-domain words, per field, at the field's mean length in words.

    The bag holds every white-space word of the field in `rows`, so frequent words are drawn often
    (Fei et al. 2023; Zhou et al. 2024, app. D: 20 texts from the test inputs). The preset
    `original` is lower-cased, of floor(mean) + 1 words, and ends in " .".
    """
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
