"""Which tasks a model has learned: the one rule, its mark in tables and what the mark means."""

from batch_calibration.artifacts.study import Study

MARK = "✓"
MARGIN = 10.0
"""Points above chance."""


def judged(study: Study) -> bool:
    """Whether the study has the two methods that the rule looks at, icl and bc."""
    return {"icl", "bc"} <= set(study.methods)


def learned(study: Study) -> list[str]:
    """Tasks where the better of icl and bc, mean over the seeds, is `MARGIN` points above chance.

    Chance is 100 % / number of labels. Nothing is learned where icl or bc was not run.
    """
    return [task for task in study.records if judged(study) and _above(study, task) >= MARGIN]


def note(study: Study) -> str:
    """The sentence under a table of marked tasks; nothing where none can be marked."""
    if not judged(study):
        return ""
    return (
        f"{MARK} learned ({len(learned(study))} of {len(study.records)}): the better of icl and "
        f"bc, mean over seeds, is {MARGIN:.0f} points or more above chance (100 % / number of "
        "labels)."
    )


def _above(study: Study, task: str) -> float:
    """Points by which the better of icl and bc is above chance."""
    better = max(study.values(task, name).mean() for name in ("icl", "bc"))
    # Rounded: 60 % of two labels is learned, whatever the last bit says.
    above = 100 * (better - 1 / len(study.records[task][0]["label_names"]))
    return round(float(above), 6)
