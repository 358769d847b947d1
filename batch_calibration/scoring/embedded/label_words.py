"""Words that may replace labels though they name none: words of training, and words held out.

Training of the embedded model draws label words from `TRAINING` and never from `HELD_OUT`; to any
other checkpoint both are ordinary words. `experiments/pretrain/label_words.py` has the rule that
chose them.
"""

from pathlib import Path

import numpy as np

from batch_calibration.errors import InputError
from batch_calibration.scoring.tasks.base import Task

FOLDER = Path(__file__).parent / "words"
TRAINING = tuple((FOLDER / "training.txt").read_text().split())
HELD_OUT = tuple((FOLDER / "held_out.txt").read_text().split())
POOLS = {"training": TRAINING, "held_out": HELD_OUT}
"""Lists of words by what `config.label_words` calls them."""


def draw_words(pool: str, task: Task, seed: int) -> tuple[str, ...]:
    """A word for each label of a task.

    They depend on the seed and the number of labels alone: tasks, templates and shots of one seed
    share them. A word of the task's own labels, in any verbalizer, is skipped.

    >>> from batch_calibration.scoring.tasks import TASKS
    >>> draw_words("held_out", TASKS["sst2"], 0) == draw_words("held_out", TASKS["rte"], 0)
    True
    """
    own_words = task.own_words
    order = np.random.default_rng([seed, 6]).permutation(len(POOLS[pool]))
    # The pool is shuffled whole, so that skipped words change nothing for other tasks.
    shuffled = [POOLS[pool][i] for i in order]
    drawn = [word for word in shuffled if word not in own_words]
    if len(drawn) < len(task.label_names):
        raise InputError(
            f"{task.name} has {len(task.label_names)} labels, and the list "
            f"{pool!r} has {len(drawn)} words; give 'own', or a list with more.",
            key="label_words",
        )
    return tuple(drawn[: len(task.label_names)])
