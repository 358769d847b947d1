"""Writes what was found in paragraphs, computed from the numbers: a setting, a study."""

import re
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from batch_calibration.artifacts import controls, curves, demonstration_labels, gains, robustness
from batch_calibration.artifacts.grouping import REFERENCES, SettingRecords, joined, title
from batch_calibration.artifacts.learned import MARGIN, learned
from batch_calibration.methods import METHODS
from batch_calibration.metrics import Estimate, deviation, over_tasks
from batch_calibration.store import Record
from batch_calibration.tasks import TASKS

FEW = 3
"""Tasks that are named one by one; of more the number is said."""
MANY = 13
"""The paper's tasks; of more than these, five are named."""


def paragraph(group: SettingRecords) -> str:
    """ICL and BC, where BC gains and loses, what is not learned, the best method, the spread."""
    if not gains.compared(group, REFERENCES):
        return (
            f"In this setting ({group.setting}), icl and bc were not both run, so there is nothing "
            "to compare; run experiments.calibrate with all methods."
        )
    tasks = list(group.records)
    where = _join([title(t) for t in tasks]) if len(tasks) <= FEW else f"{len(tasks)} tasks"
    each = {task: gains.gain(group, task, "bc") for task in tasks}
    parts = [
        f"In this setting ({group.setting}), the uncalibrated scores are right on "
        f"{_average(group, 'icl', tasks)} % of the rows and Batch Calibration on "
        f"{_average(group, 'bc', tasks)} %, on average over {where}: "
        f"{_gained(each.values(), gains.seeds(group))}.",
        _gains(each),
        _not_learned(group, tasks),
        _two_fields(group, tasks),
        _best(group),
        _spread(group, tasks),
        _preference(group, tasks),
    ]
    return " ".join(part for part in parts if part)


def studies(records: Iterable[Record], groups: Sequence[SettingRecords]) -> dict[str, str]:
    """A paragraph for each study of prompts, demonstrations and shots, by its figure's slug."""
    axes = robustness.by_study(robustness.axes(records))
    said = {f"{slug}-prompts": robustness.paragraph(one) for slug, one in axes.items()}
    said |= {one.slug: demonstration_labels.paragraph(one) for one in controls.controls(records)}
    said |= {f"{one.slug}-curve": curves.paragraph(one) for one in curves.by_shots(groups)}
    return {slug: paragraph for slug, paragraph in said.items() if paragraph}


def _average(group: SettingRecords, method: str, tasks: Sequence[str]) -> str:
    return f"{100 * np.mean([group.values(task, method).mean() for task in tasks]):.1f}"


def _gained(each: Iterable[Estimate], seeds: int) -> str:
    """The average gain with its interval, of what chance this is, and what noise is."""
    points = over_tasks(list(each)).points.replace(" ", " points ", 1)
    over = "rows and seeds" if seeds > 1 else "rows alone"
    return f"{points} (95 % interval over {over}; noise where it holds 0)"


def _gains(each: Mapping[str, Estimate]) -> str:
    """On how many tasks BC gains, and on how many by more than noise; every task it loses on."""
    order = sorted(each, key=lambda task: each[task].value)
    more = [task for task in order if each[task].value >= 0.0005]
    less = [task for task in order if each[task].value < -0.0005]
    points = {task: f"{title(task)} ({100 * each[task].value:+.1f})" for task in order}
    said = f"BC gains on {len(more)} of {len(each)} tasks" if len(each) > 1 else "BC gains"
    if more:
        said += f", {_beyond([each[task] for task in more])}"
        said += f", most on {points[more[-1]]}" if len(more) > 1 else f", on {points[more[0]]}"
    elif len(each) == 1:
        said = "BC does not gain"
    if not less:
        return f"{said}; it loses on none."
    lost = f"{_join([points[task] for task in less])}, {_beyond([each[task] for task in less])}"
    return f"{said}; it loses on {lost}: calibration does not help everywhere."


def _beyond(some: Sequence[Estimate]) -> str:
    """How many of these are more than noise."""
    sure = sum(one.beyond_noise != 0 for one in some)
    if len(some) == 1:
        return "by more than noise" if sure else "by no more than noise"
    return f"on {sure or 'none'} of them by more than noise"


def _not_learned(group: SettingRecords, tasks: Sequence[str]) -> str:
    """Tasks the model has not learned, and the averages without them."""
    known = learned(group)
    rest = [title(task) for task in tasks if task not in known]
    if not rest:
        return ""
    rule = (
        f"the better of ICL and BC is less than {MARGIN:.0f} points above chance, or its interval "
        "holds chance or the most frequent label's share"
    )
    if not known:
        return f"No task is learned ({rule})."
    return (
        f"Not learned ({rule}): {_join(rest)}; over the other {len(known)} ICL has "
        f"{_average(group, 'icl', known)} % and BC {_average(group, 'bc', known)} %."
    )


def _two_fields(group: SettingRecords, tasks: Sequence[str]) -> str:
    """CC and DC where a row has more than one field."""
    several = [task for task in tasks if _fields(group, task) > 1]
    methods = group.among(["cc", "dc"])
    if not several or not methods:
        return ""
    have = _join([f"{name.upper()} has {_average(group, name, several)} %" for name in methods])
    many = f"the {len(several)} tasks" if len(several) > 1 else "the task"
    return (
        f"On {many} whose rows are more than one text {have} beside ICL's "
        f"{_average(group, 'icl', several)} %."
    )


def _fields(group: SettingRecords, task: str) -> int:
    """Fields of a row: the task's, or those in the template of a task file's."""
    if task in TASKS:
        return len(TASKS[task].fields)
    template = group.records[task][0].context.template
    return len(set(re.findall(r"\{(\w+)\}", template)) - {"label"})


def _best(group: SettingRecords) -> str:
    """The method with the best average, and where it reads labels the best that does not."""
    best = max(group.methods, key=group.average)
    said = f"The best average is {best}'s, {100 * group.average(best):.1f} %"
    others = [name for name in group.methods if "labeled" not in METHODS[name].probe.blocks]
    if best in others or not others:
        return said + "."
    other = max(others, key=group.average)
    return (
        f"{said} (it reads labeled rows; of the others {other}'s, "
        f"{100 * group.average(other):.1f} %)."
    )


def _spread(group: SettingRecords, tasks: Sequence[str]) -> str:
    """How far the seeds are apart, mean over the tasks."""
    if any(len(records) < 2 for records in group.records.values()):
        return ""
    icl, bc = (
        np.mean([deviation(100 * group.values(t, method)) for t in tasks])
        for method in ("icl", "bc")
    )
    return (
        "From one draw of demonstrations to the next, accuracy moves by "
        f"{icl:.1f} points (one standard deviation) without calibration and by {bc:.1f} with it."
    )


def _preference(group: SettingRecords, tasks: Sequence[str]) -> str:
    """The largest bias BC found: which label, over which, by how many nats."""
    found = []
    for task in tasks:
        for record in group.records[task]:
            if "bc" not in record.bias:
                continue
            bias = np.asarray(record.bias["bc"])
            low, high = int(bias.argmin()), int(bias.argmax())
            found.append((bias[high] - bias[low], task, record, high, low))
    if not found:
        return ""
    size, task, record, high, low = max(found, key=lambda item: item[0])
    labels, seed = record.label_names, record.context.seed
    where = title(task) if seed is None else f"{title(task)} (seed {seed})"
    return (
        f"The strongest preference was on {where}: "
        f"averaged over the batch, the scores favor {labels[high]!r} over {labels[low]!r} by "
        f"{size:.1f} nats, which BC takes for bias."
    )


def _join(items: Sequence[str]) -> str:
    """The items in a sentence; of many the first five."""
    return joined([*items[:5], f"{len(items) - 5} others"] if len(items) > MANY else items)
