"""Cases of which the truth is known: *the right number or a sentence, never another number*.

A generator is a function of a source of chance and an empty folder. It makes data at random as
other people have it, and yields a `Case` for each thing to run on it, with the truth. Generators
stand in `fuzz_logs.py`, whose `GENERATORS` lists them; `fuzz.py` runs them all. What a case depends
on is drawn from `chance` alone, so that a seed repeats it.
"""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from random import Random
from typing import NamedTuple

import numpy as np

from batch_calibration.errors import InputError
from batch_calibration.importers import Reading, read


class Case(NamedTuple):
    """A call, and the answer it must give.

    Attributes:
        run: gives numbers, texts, or dicts and lists of these; or raises `InputError`.
        truth: the same, as the generator knows it.
    """

    run: Callable[[], object]
    truth: object


Generator = Callable[[Random, Path], Iterator[Case]]


def check(generator: Generator, chance: Random, folder: Path) -> str:
    """`same` where a case gave the truth, `refused` where all were refused; else it raises."""
    became = "refused"
    for case in generator(chance, folder):
        try:
            answer = case.run()
        except InputError as error:
            assert "\n" not in str(error) and len(str(error)) < 2000, f"no sentence: {error!r:.300}"
            continue
        assert is_same(answer, case.truth), f"another number: {answer} where {case.truth} is right"
        became = "same"
    return became


def is_same(answer: object, truth: object) -> bool:
    """True if an answer is the truth, numbers to within a ten-thousandth."""
    if isinstance(truth, Mapping):
        return (
            isinstance(answer, Mapping)
            and answer.keys() == truth.keys()
            and all(is_same(answer[key], truth[key]) for key in truth)
        )
    truths, answers = np.asarray(truth), np.asarray(answer)
    if truths.shape != answers.shape or {truths.dtype.kind, answers.dtype.kind} - set("fiub"):
        return np.array_equal(answers, truths)
    return np.allclose(answers, truths, rtol=1e-4, atol=1e-4, equal_nan=True)


def read_by_name(path: Path, reading: Reading | None = None) -> dict[str, object]:
    """The only context of a file: row id -> scores by label, and the right label "" if unknown."""
    (table,) = read(path, reading)
    block, names = table.blocks["test"], table.label_names
    rows: dict[str, object] = {}
    for row_id, scores, label in zip(block.row_ids, block.log_probs, block.labels, strict=True):
        gold = names[label] if label >= 0 else ""
        rows[row_id] = {"scores": dict(zip(names, map(float, scores), strict=True)), "gold": gold}
    return rows
