"""Writes what was found in paragraphs, computed from the numbers: a setting, a study."""

import re
from collections.abc import Mapping, Sequence

import numpy as np

from batch_calibration.diagnosis.findings import join_names
from batch_calibration.methods import METHODS
from batch_calibration.metrics import Estimate, deviation, over_tasks
from batch_calibration.reporting import curves, demonstration_labels, gains, robustness
from batch_calibration.reporting.cells import estimate_cell
from batch_calibration.reporting.grouping import (
    BASELINE,
    CORRECTED,
    REFERENCES,
    SettingRecords,
    task_title,
)
from batch_calibration.reporting.items import Results
from batch_calibration.scoring.tasks import TASKS

MAX_TASKS_NAMED = 3  # of more tasks the number is told in place of the names
MAX_NAMES = 13  # the paper's tasks; of more names than these, `FIRST_NAMES` are told
FIRST_NAMES = 5
MIN_GAIN = 0.0005  # smaller gains are +0.0 or -0.0 in print: neither won nor lost


def paragraph(group: SettingRecords) -> str:
    """ICL and BC, where BC gains and loses, what is not learned, the best method, the spread."""
    if not gains.compared(group, REFERENCES):
        return (
            f"In this setting ({group.setting}), icl and bc were not both run, so there is nothing "
            "to compare; run experiments.calibrate with all methods."
        )
    tasks, by_task = list(group.records), gains.gain_by_task(group, CORRECTED)
    scope = f"{len(tasks)} tasks"
    if len(tasks) <= MAX_TASKS_NAMED:
        scope = _list_names(list(map(task_title, tasks)))
    number, interval, _ = estimate_cell(over_tasks(list(by_task.values()))).parts
    over = "rows and seeds" if gains.max_seeds(group) > 1 else "rows alone"
    sentences = [
        f"In this setting ({group.setting}), the uncalibrated scores are right on "
        f"{_average(group, BASELINE, tasks)} % of the rows and Batch Calibration on "
        f"{_average(group, CORRECTED, tasks)} %, on average over {scope}: {number} points "
        f"{interval} (95 % interval over {over}; noise where it holds 0).",
        _describe_gains(by_task),
        _describe_not_learned(group),
        _describe_two_fields(group),
        _describe_best(group),
        _describe_spread(group),
    ]
    return " ".join(filter(None, sentences))


def study_paragraphs(study: Results) -> dict[str, str]:
    """A paragraph for each study of prompts, demonstrations and shots, by its figure's slug."""
    paragraphs = {}
    for slug, axes in robustness.by_study(study.axes).items():
        paragraphs[f"{slug}-prompts"] = robustness.paragraph(axes)
    for control in study.controls:
        paragraphs[control.slug] = demonstration_labels.paragraph(control)
    for curve in study.curves:
        paragraphs[f"{curve.slug}-curve"] = curves.paragraph(curve)
    return {slug: paragraph for slug, paragraph in paragraphs.items() if paragraph}


def _average(group: SettingRecords, method: str, tasks: Sequence[str]) -> str:
    return f"{100 * np.mean([group.values(task, method).mean() for task in tasks]):.1f}"


def _describe_gains(gain_by_task: Mapping[str, Estimate]) -> str:
    """On how many tasks BC gains, and on how many by more than noise; every task it loses on."""
    order = sorted(gain_by_task, key=lambda task: gain_by_task[task].value)
    won = [task for task in order if gain_by_task[task].value >= MIN_GAIN]
    lost = [task for task in order if gain_by_task[task].value < -MIN_GAIN]

    def points(task: str) -> str:
        return f"{task_title(task)} ({100 * gain_by_task[task].value:+.1f})"

    def noise(tasks: Sequence[str]) -> str:
        count = sum(gain_by_task[task].beyond_noise != 0 for task in tasks)
        if len(tasks) == 1:
            return "by more than noise" if count else "by no more than noise"
        return f"on {count or 'none'} of them by more than noise"

    sentence = "BC gains"
    if len(order) > 1:
        sentence += f" on {len(won)} of {len(order)} tasks"
    if won:
        sentence += f", {noise(won)}, {'most ' * (len(won) > 1)}on {points(won[-1])}"
    elif len(order) == 1:
        sentence = "BC does not gain"
    if not lost:
        return f"{sentence}; it loses on none."
    losses = f"{_list_names(list(map(points, lost)))}, {noise(lost)}"
    return f"{sentence}; it loses on {losses}: calibration does not help everywhere."


def _describe_not_learned(group: SettingRecords) -> str:
    """Tasks the model has not learned, and the averages without them."""
    learned = gains.learned_tasks(group)
    missing = [task_title(task) for task in group.records if task not in learned]
    rule = (
        f"the better of ICL and BC is less than {gains.LEARNED_MARGIN:.0f} points above chance, or "
        "its interval holds chance or the most frequent label's share"
    )
    if not missing:
        return ""
    if not learned:
        return f"No task is learned ({rule})."
    return (
        f"Not learned ({rule}): {_list_names(missing)}; over the other {len(learned)} ICL has "
        f"{_average(group, BASELINE, learned)} % and BC {_average(group, CORRECTED, learned)} %."
    )


def _describe_two_fields(group: SettingRecords) -> str:
    """CC and DC where a row has more than one field: the task's, or those in its template."""
    several, methods = [], group.among(["cc", "dc"])
    for task, records in group.records.items():
        fields = set(re.findall(r"\{(\w+)\}", records[0].context.template)) - {"label"}
        if len(TASKS[task].fields if task in TASKS else fields) > 1:
            several.append(task)
    if not several or not methods:
        return ""
    shares = [f"{name.upper()} has {_average(group, name, several)} %" for name in methods]
    subject = f"the {len(several)} tasks" if len(several) > 1 else "the task"
    return (
        f"On {subject} whose rows are more than one text {_list_names(shares)} beside ICL's "
        f"{_average(group, BASELINE, several)} %."
    )


def _describe_best(group: SettingRecords) -> str:
    """The method with the best average, and where it reads labels the best that does not."""
    best = max(group.methods, key=group.average)
    sentence = f"The best average is {best}'s, {100 * group.average(best):.1f} %"
    unlabeled = [name for name in group.methods if "labeled" not in METHODS[name].probe.blocks]
    if best in unlabeled or not unlabeled:
        return sentence + "."
    second = max(unlabeled, key=group.average)
    return (
        f"{sentence} (it reads labeled rows; of the others {second}'s, "
        f"{100 * group.average(second):.1f} %)."
    )


def _describe_spread(group: SettingRecords) -> str:
    """How far the seeds are apart, mean over the tasks."""
    if min(map(len, group.records.values())) < 2:
        return ""
    means = []
    for method in REFERENCES:
        deviations = [deviation(100 * group.values(task, method)) for task in group.records]
        means.append(float(np.mean(deviations)))
    icl, bc = means
    return (
        f"From one draw of demonstrations to the next, accuracy moves by {icl:.1f} points (one "
        f"standard deviation) without calibration and by {bc:.1f} with it."
    )


def _list_names(names: Sequence[str]) -> str:
    """The names in a sentence; of many the first few."""
    if len(names) > MAX_NAMES:
        names = [*names[:FIRST_NAMES], f"{len(names) - FIRST_NAMES} others"]
    return join_names(names)
