"""Words without a label's meaning that may replace label words: a training and a held-out list.

Training of the embedded model draws label words from `TRAINING` and never from `HELD_OUT`. For
other checkpoints, both lists are ordinary words. `experiments/pretrain/label_words.py` has the
selection rule.
"""

from pathlib import Path

import numpy as np

from batch_calibration.errors import InputError
from batch_calibration.scoring.tasks.base import Task

FOLDER = Path(__file__).parent / "words"
TRAINING = tuple((FOLDER / "training.txt").read_text().split())
HELD_OUT = tuple((FOLDER / "held_out.txt").read_text().split())
POOLS = {"training": TRAINING, "held_out": HELD_OUT}
"""The word lists, keyed by the values of `config.label_words`."""


def draw_words(pool: str, task: Task, seed: int) -> tuple[str, ...]:
    """Draws a word for each label of a task.

    The words depend only on the seed and the number of labels: tasks, templates and shots with the
    same seed share them. Words of the task's verbalizers and label names are skipped.

    >>> from batch_calibration.scoring.tasks import TASKS
    >>> draw_words("held_out", TASKS["sst2"], 0) == draw_words("held_out", TASKS["rte"], 0)
    True
    """
    own_words = task.own_words
    order = np.random.default_rng([seed, 6]).permutation(len(POOLS[pool]))
    # The whole pool is shuffled first, so that skipped words change nothing for other tasks.
    shuffled = [POOLS[pool][i] for i in order]
    drawn = [word for word in shuffled if word not in own_words]
    if len(drawn) < len(task.label_names):
        expected = f"a list with words for {len(task.label_names)} labels of {task.name}"
        got, remedy = f"{len(drawn)} in {pool!r}", "give 'own' for the task's own"
        raise InputError.at("", expected, got, remedy, "label_words")
    return tuple(drawn[: len(task.label_names)])
