"""A class as folders, tables and data sets spell it, bound to a label by name."""

import difflib

from batch_calibration.errors import InputError
from batch_calibration.tasks.base import Task


def plain(name: str) -> str:
    """A name without case, spaces and signs, so that spellings of one class are the same.

    >>> plain("Apply_Eye_Makeup") == plain("ApplyEyeMakeup"), plain("polka-dotted")
    (True, 'polkadotted')
    """
    return "".join(letter for letter in name.casefold() if letter.isalnum())


def labels_by_name(task: Task) -> dict[str, int]:
    """Plain spelling -> label: of each label's name, and of its words in statements.

    Raises:
      InputError: two labels are the same name in plain spelling.
    """
    found: dict[str, int] = {}
    for label, name in enumerate(task.label_names):
        for spelling in {plain(name), plain(task.statement_words[name])}:
            if found.setdefault(spelling, label) != label:
                other = task.label_names[found[spelling]]
                raise InputError(
                    f"task {task.name}: {other!r} and {name!r} are the same name without case, "
                    "spaces and signs; rename one."
                )
    return found


def label_of(task: Task, name: str, where: str) -> int:
    """The label that a class name means.

    Raises:
      InputError: it is none of the task's, with the nearest one.
    """
    found = labels_by_name(task)
    if plain(name) not in found:
        raise InputError(f"{where}: {_unknown(task, name)}")
    return found[plain(name)]


def _unknown(task: Task, name: str) -> str:
    spelled = {plain(known): known for known in task.label_names}
    near = difflib.get_close_matches(plain(name), spelled, n=1, cutoff=0.6)
    hint = f"; did you mean {spelled[near[0]]!r}?" if near else ";"
    few = ", ".join(task.label_names[:8]) + (", ..." if len(task.label_names) > 8 else "")
    return (
        f"task {task.name} has no class {name!r}{hint} it has {len(task.label_names)}: {few}. "
        "Rename it, take it out, or describe a task of your own in a task file."
    )
