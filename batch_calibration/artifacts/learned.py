"""Says which tasks a model has learned: the one rule, and what its mark means."""

from batch_calibration.artifacts import gains
from batch_calibration.artifacts.cells import MARK
from batch_calibration.artifacts.grouping import REFERENCES, SettingRecords

MARGIN = 10.0
"""Points above chance."""


def judged(group: SettingRecords) -> bool:
    """Whether the records have what the rule looks at, icl's and bc's answers."""
    return bool(gains.compared(group, REFERENCES))


def learned(group: SettingRecords) -> list[str]:
    """Tasks where the better of icl and bc, mean over the seeds, is clearly above chance.

    `MARGIN` points above 100 % / number of labels, and its 95 % interval over seeds and rows above
    that and above the share of the most frequent label. Each of the two has one chance in 40 to
    pass by luck. Nothing is learned where icl or bc was not run.
    """
    return [task for task in group.records if judged(group) and _learned(group, task)]


def note(group: SettingRecords) -> str:
    """The sentence under a table of marked tasks; nothing where none can be marked."""
    if not judged(group):
        return ""
    return (
        f"{MARK} learned ({len(learned(group))} of {len(group.records)}): the better of icl and "
        f"bc, mean over seeds, is {MARGIN:.0f} points or more above chance (100 % / number of "
        "labels), and its 95 % interval over seeds and rows excludes chance and the share of the "
        "most frequent label, which are below it."
    )


def _learned(group: SettingRecords, task: str) -> bool:
    records = group.records[task]
    chance = 1 / len(records[0].label_names)
    better = max(REFERENCES, key=lambda name: group.values(task, name).mean())
    # Rounded: 60 % of two labels is learned, whatever the last bit says.
    above = round(float(100 * (group.values(task, better).mean() - chance)), 6)
    low = gains.accuracy(group, task, better).low
    frequent = max(max(one.classes) / sum(one.classes) for one in records)
    return above >= MARGIN and low > max(chance, frequent)
