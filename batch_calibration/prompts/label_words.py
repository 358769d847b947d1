"""Draws words that stand for a task's labels though they name none."""

import numpy as np

from batch_calibration.embedded.label_words import HELD_OUT, TRAINING
from batch_calibration.errors import InputError
from batch_calibration.tasks import Task

POOLS = {"training": TRAINING, "held_out": HELD_OUT}
"""Lists of words by what `config.label_words` calls them."""


def draw(pool: str, task: Task, seed: int) -> tuple[str, ...]:
    """A word for each label of a task.

    They depend on the seed and the number of labels alone: tasks, templates and shots of one seed
    share them. A word of the task's own labels, in whatever verbalizer, is passed over.

    Args:
        pool: a name of `POOLS`.
        task: whose labels they stand for.
        seed: the same seed gives the same words.

    Raises:
        InputError: more labels than words.

    >>> from batch_calibration.tasks import TASKS
    >>> draw("held_out", TASKS["sst2"], seed=0) == draw("held_out", TASKS["rte"], seed=0)
    True
    """
    words = POOLS[pool]
    order = np.random.default_rng([seed, 6]).permutation(len(words))
    fine = [words[i] for i in order if words[i] not in task.own_words]
    if len(fine) < len(task.label_names):
        raise InputError(
            f"config.label_words: {task.name} has {len(task.label_names)} labels, and the list "
            f"{pool!r} has {len(fine)} words; give 'own', or a list with more."
        )
    return tuple(fine[: len(task.label_names)])
