"""Says which tasks a model has learned: the one rule, and what its mark means."""

from batch_calibration.artifacts.cells import MARK
from batch_calibration.artifacts.grouping import REFERENCES, SettingRecords

MARGIN = 10.0
"""Points above chance."""


def judged(group: SettingRecords) -> bool:
    """Whether the records have the two methods that the rule looks at, icl and bc."""
    return set(REFERENCES) <= set(group.methods)


def learned(group: SettingRecords) -> list[str]:
    """Tasks where the better of icl and bc, mean over the seeds, is `MARGIN` points above chance.

    Chance is 100 % / number of labels. Nothing is learned where icl or bc was not run.
    """
    return [task for task in group.records if judged(group) and _above(group, task) >= MARGIN]


def note(group: SettingRecords) -> str:
    """The sentence under a table of marked tasks; nothing where none can be marked."""
    if not judged(group):
        return ""
    return (
        f"{MARK} learned ({len(learned(group))} of {len(group.records)}): the better of icl and "
        f"bc, mean over seeds, is {MARGIN:.0f} points or more above chance (100 % / number of "
        "labels)."
    )


def _above(group: SettingRecords, task: str) -> float:
    """Points by which the better of icl and bc is above chance."""
    better = max(group.values(task, name).mean() for name in REFERENCES)
    # Rounded: 60 % of two labels is learned, whatever the last bit says.
    return round(float(100 * (better - 1 / len(group.records[task][0].label_names))), 6)
