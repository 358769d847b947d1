"""What was learned, in one plain paragraph computed from the numbers."""

import numpy as np

from batch_calibration.artifacts.study import Study, title


def paragraph(study: Study) -> str:
    """Accuracy of ICL and BC, where BC loses, which method is best, how far the seeds spread."""
    if not {"icl", "bc"} <= set(study.methods):
        return (
            f"In this setting ({study.setting}), icl and bc were not both run, so there is nothing "
            "to compare; run experiments.calibrate with all methods."
        )
    tasks = list(study.records)
    names = {task: f"{title(task)}" for task in tasks}
    parts = [f"In this setting ({study.setting}), "]
    gains = {t: 100 * (study.values(t, "bc") - study.values(t, "icl")).mean() for t in tasks}
    parts.append(
        "the uncalibrated scores are right on "
        f"{100 * study.average('icl'):.1f} % of the rows and Batch Calibration on "
        f"{100 * study.average('bc'):.1f} %, on average over {_join(list(names.values()))}: "
    )
    parts.append(_join([f"{gains[t]:+.1f} points on {names[t]}" for t in tasks]) + ". ")
    losses = [names[t] for t in tasks if gains[t] < -0.05]
    if losses:
        parts.append(f"On {_join(losses)} it loses: calibration does not help everywhere. ")
    best = max(study.methods, key=study.average)
    parts.append(
        f"The best average is {best}'s, {100 * study.average(best):.1f} %"
        + (" (it reads labeled rows, the others do not). " if best == "bcl" else ". ")
    )
    if all(len(records) > 1 for records in study.records.values()):
        spread = {
            method: np.mean([100 * study.values(t, method).std(ddof=1) for t in tasks])
            for method in ("icl", "bc")
        }
        parts.append(
            "From one draw of demonstrations to the next, accuracy moves by "
            f"{spread['icl']:.1f} points (one standard deviation) without calibration and by "
            f"{spread['bc']:.1f} with it. "
        )
    parts.append(_preference(study, tasks))
    return "".join(parts).strip()


def _preference(study: Study, tasks: list[str]) -> str:
    """The largest bias BC found: which label, over which, by how many nats."""
    found = []
    for task in tasks:
        for record in study.records[task]:
            bias = np.asarray(record["bias"]["bc"])
            low, high = int(bias.argmin()), int(bias.argmax())
            found.append((bias[high] - bias[low], task, record, high, low))
    size, task, record, high, low = max(found, key=lambda item: item[0])
    labels = record["label_names"]
    return (
        f"The strongest preference was on {title(task)} (seed {record['context']['seed']}): "
        f"averaged over the batch, the scores favor {labels[high]!r} over {labels[low]!r} by "
        f"{size:.1f} nats; where the labels are equally frequent, that is bias."
    )


def _join(items: list[str]) -> str:
    return items[0] if len(items) == 1 else ", ".join(items[:-1]) + " and " + items[-1]
