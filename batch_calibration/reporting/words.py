"""Sentences about results: verdicts on contexts, a setting, a study."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from batch_calibration.diagnosis.advice import LEAVE, MANY_NAMES, Advice
from batch_calibration.diagnosis.diagnosis import factor, preference_unit
from batch_calibration.diagnosis.verdicts import (
    IF_BALANCED,
    RECOMMENDED,
    Verdict,
    measured_gain,
    rows_to_settle,
)
from batch_calibration.errors import call
from batch_calibration.methods import METHODS
from batch_calibration.metrics import Estimate, deviation, gain_of, over_tasks
from batch_calibration.reporting import frame
from batch_calibration.reporting.cells import MARK, count_signs, estimate_cell, gain_cell
from batch_calibration.reporting.curves import Curves
from batch_calibration.reporting.frame import BASELINE, CORRECTED, REFERENCES, Frame, task_title
from batch_calibration.reporting.items import Results
from batch_calibration.reporting.prompts import PromptStudy, by_study, describe_study

LEAVE_THEM = "leave the scores as they are"
TWO_DRAWS = "Two draws of demonstrations do not show how others vary."
MAX_LISTED = 3
"""Labels, contexts and tasks that a sentence about many names; of more it gives the number."""
MAX_NAMES = 13
"""Tasks of the paper; of more names than these a sentence gives the first `FIRST_NAMES`."""
FIRST_NAMES = 5
MIN_GAIN = 0.0005
"""Smaller gains are +0.0 or -0.0 in print: neither won nor lost."""


def join_names(names: Iterable[str]) -> str:
    """The names with commas, and `and` before the last."""
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last


def card_lines(verdicts: Sequence[Verdict]) -> list[str]:
    """Three lines: the bias, accuracy before and after, and what to do, commands in backticks."""
    return [_is_biased(verdicts), _effects(verdicts), _advice(verdicts)]


def _is_biased(verdicts: Sequence[Verdict]) -> str:
    before, _, *right = most_predicted(verdicts)
    if len(verdicts) > 1:
        count = sum(verdict.is_biased for verdict in verdicts)
        answer = "yes" if count > len(verdicts) / 2 else "mostly not"
        shares = f"the most predicted label: {_two_shares(before, *right)}"
        return f"Biased: {answer}, {count:,} of {len(verdicts):,} contexts ({shares})."
    found, place = verdicts[0].diagnosis, int(verdicts[0].diagnosis.preference.argmax())
    if found.rows < 3:
        return "Biased: too few rows to judge."
    if not verdicts[0].is_biased:
        return f"Biased: not beyond noise (most predicted: {_two_shares(before, *right)})."
    shares = _two_shares(
        found.predicted[place], *([] if found.classes is None else [found.classes[place]])
    )
    return f"Biased: yes, towards {verdicts[0].preferred!r} ({shares})."


def _two_shares(predicted: float, right: float | None = None) -> str:
    """How often a label is predicted and right; a bias of mean scores may turn no prediction."""
    shares = f"{100 * predicted:.0f} % predicted"
    if right is None:
        return shares
    only = "; the bias is in the scores, not in what is predicted" * bool(predicted <= right)
    return f"{shares}, {100 * right:.0f} % right{only}"


def most_predicted(verdicts: Sequence[Verdict]) -> list[float]:
    """Shares of the label that a context predicts most, means over contexts.

    They are of its predictions before and after, and of right labels where some are known.
    """
    shares: list[list[float]] = [[], [], []]
    for verdict in verdicts:
        found, (_, after) = verdict.diagnosis, verdict.first_answer
        most = int(found.predicted.argmax())
        right = [] if found.classes is None else [found.classes]
        for values, labels in zip(shares, [found.predicted, after, *right], strict=False):
            values.append(float(labels[most]))
    return [float(np.mean(values)) for values in shares if values]


def _effects(verdicts: Sequence[Verdict]) -> str:
    if measured_gain(verdicts) is None:
        expected, name = _expected(verdicts), [*_answers(verdicts)][-1]
        if name == "leave it" or expected is None:
            return "No gain is expected, and no right label is known."
        return f"{name}: {expected.points} points expected; no right label is known."
    texts = list[str]()
    before = 100 * float(np.mean([*accuracy_of_tasks(verdicts).values()]))
    for name, gains_of in _answers(verdicts).items():
        effect = _effect(verdicts, gains_of)
        # The accuracy before is said once.
        effect = effect.removeprefix(f"{before:.1f} → ") if texts else effect
        texts += [] if name == "leave it" else [f"{name}: {effect}"]
    if not texts:
        texts = [f"Accuracy: {before:.1f} %, as the scores are left"]
    # Of two contexts of a task the interval shows nothing.
    counts = Counter(verdict.task for verdict in verdicts if verdict.gains is not None)
    few = f" {TWO_DRAWS}" if counts and min(counts.values()) == 2 else ""
    return f"{'; '.join(texts)}.{few}"


def _advice(verdicts: Sequence[Verdict]) -> str:
    """Returns the commands; an answer that loses accuracy beyond noise is not to be followed."""
    source, actions = "scores" if len(verdicts) == 1 else "contexts", list[str]()
    answers = [*_answers(verdicts).values()]
    for gains_of in answers:
        keys = [keys_of(_answer(verdict, gains_of)) for verdict in verdicts]
        action = f"`{call('recommend', source, {})}`, which advises on each context"
        if all(of_context == keys[0] for of_context in keys) and keys[0] is not None:
            action = f"`{call('calibrate', source, keys[0])}`" if keys[0] else LEAVE_THEM
        gain = measured_gain(verdicts, gains_of)
        if gain is not None and gain.beyond_noise < 0:
            action = f"{LEAVE_THEM}, as accuracy falls beyond noise"
        actions.append(action)
    if len({*actions}) == 1:
        return f"Do: {actions[0]}."
    return f"Do: {actions[0]} if labels are about equally frequent; if not known, {actions[1]}."


def keys_of(advice: Advice) -> dict[str, object] | None:
    """Returns the keys with which `calibrate` follows advice; none if the scores are left.

    Shares are rounded. None: the advice has too many shares for a command.
    """
    if advice.method == LEAVE:
        return {}
    keys: dict[str, object] = {"method": advice.method, **advice.options}
    if METHODS[advice.method].probe.labels:
        keys["labeled"] = "LABELED"
    if isinstance(shares := keys.get("target_prior"), tuple):
        if len(shares) > MANY_NAMES:
            return None
        keys["target_prior"] = tuple(round(share, 4) for share in shares)
    return keys


def _answer(verdict: Verdict, gains_of: Callable[[Verdict], np.ndarray | None]) -> Advice:
    return verdict.advice.balanced if gains_of is IF_BALANCED else verdict.advice


def _effect(verdicts: Sequence[Verdict], gains_of: Callable[[Verdict], np.ndarray | None]) -> str:
    """Accuracy before and after and its measured gain."""
    gain = measured_gain(verdicts, gains_of)
    # Accuracies of tasks, each the mean over its contexts, as the gain is.
    before = 100 * float(np.mean([*accuracy_of_tasks(verdicts).values()]))
    known = [gains for verdict in verdicts if (gains := gains_of(verdict)) is not None]
    if gain is None or not any(gains.any() for gains in known):
        return f"{before:.1f} % as before (no row turns right or wrong)"
    noise = "" if gain.beyond_noise else ", within noise"
    return f"{before:.1f} → {before + 100 * gain.value:.1f} % ({gain.points}{noise})"


def accuracy_of_tasks(verdicts: Sequence[Verdict]) -> dict[str, float]:
    """Task -> accuracy as it is, mean over its contexts."""
    by_task: dict[str, list[float]] = {}
    for verdict in verdicts:
        if before := verdict.diagnosis.before:
            by_task.setdefault(verdict.task, []).append(before.accuracy.value)
    return {task: float(np.mean(accuracies)) for task, accuracies in by_task.items()}


def facts(verdicts: Sequence[Verdict]) -> dict[str, str]:
    """Question -> what is known of it, over contexts of one model and setting."""
    answers = {
        "Biased?": _bias(verdicts),
        "Recommended": _recommended(verdicts),
        "Expected gain": _expected_sentence(verdicts),
        "Measured gain": _measured(verdicts),
        "Safe?": _safety(verdicts),
        "Enough rows?": _rows(verdicts),
    }
    return {question: answer for question, answer in answers.items() if answer}


def _bias(verdicts: Sequence[Verdict]) -> str:
    if len(verdicts) == 1:
        (verdict,) = verdicts
        diagnosis = verdict.diagnosis
        if diagnosis.rows < 3:
            return "Too few rows to judge."
        least = diagnosis.label_names[int(diagnosis.preference.argmin())]
        answer = "Yes, towards" if verdict.is_biased else "Not beyond noise:"
        return (
            f"{answer} {verdict.preferred!r} over {least!r} by {diagnosis.size:.2f} ± "
            f"{diagnosis.pair_error / diagnosis.unit:.2f} {', '.join(preference_unit(diagnosis))}."
        )
    biased = [verdict for verdict in verdicts if verdict.is_biased]
    # NaN where the rows of cosines do not differ.
    strongest = max(verdicts, key=lambda verdict: np.nan_to_num(verdict.diagnosis.size))
    found = strongest.diagnosis
    alike = [v.diagnosis.size for v in verdicts if v.diagnosis.cosines == found.cosines]
    median = float(np.nanmedian(alike))
    means = "" if found.cosines else f" (a factor of {factor(median)})"
    counts = Counter(verdict.preferred for verdict in verdicts).most_common(MAX_LISTED)
    towards = join_names(f"{label!r} in {count:,}" for label, count in counts)
    answer = "Yes" if len(biased) > len(verdicts) / 2 else "Mostly not"
    return (
        f"{answer}: in {len(biased):,} of {len(verdicts):,} contexts by more than two standard "
        f"errors; {median:.2f} {preference_unit(found)[0]} in the median{means}, at most "
        f"{found.size:.2f} ± {found.pair_error / found.unit:.2f} ({strongest.name}). "
        f"Towards {towards}."
    )


def _recommended(verdicts: Sequence[Verdict]) -> str:
    if len(verdicts) == 1:
        return verdicts[0].advice.reason[0]
    advice = [verdict.advice for verdict in verdicts]
    return f"{count_recommended(advice)} of {len(verdicts):,} contexts."


def count_recommended(advice: Iterable[Advice]) -> str:
    """Counts each recommended correction: "estimated shares in 3; leave it in 1"."""
    counts = Counter(one.short for one in advice).most_common()
    return "; ".join(f"{name} in {count:,}" for name, count in counts)


def _expected(verdicts: Sequence[Verdict]) -> Estimate | None:
    """The mean of what is expected of each context, and of the ends of their intervals."""
    gains = [verdict.advice.expected.gain for verdict in verdicts]
    known = [gain for gain in gains if gain is not None]
    return Estimate(*np.mean(known, axis=0).tolist()) if known else None


def _expected_sentence(verdicts: Sequence[Verdict]) -> str:
    expected = _expected(verdicts)
    # Where all scores are left nothing is expected.
    if expected is None or expected == Estimate(0.0, 0.0, 0.0):
        return ""
    average, first = "", verdicts[0].advice.expected
    risk, source = first.risk_in_words, first.source
    if len(verdicts) > 1:
        risk, average = "", " in a context, on average"
        source = "from contexts of real models with similar scores"
    return f"{expected.points} points{average}{risk} ({source})."


def _measured(verdicts: Sequence[Verdict]) -> str:
    """The gain of each answer, and over how many rows."""
    if measured_gain(verdicts) is None:
        return "No right label is known."
    labeled = [verdict for verdict in verdicts if verdict.diagnosis.labeled]
    rows = sum(verdict.diagnosis.labeled for verdict in labeled)
    tasks = len({verdict.task for verdict in labeled})
    over = f"; mean over {tasks:,} tasks" if tasks > 1 else ""
    return f"{_effects(verdicts)} ({rows:,} labeled rows{over}; 95 % intervals.)"


def _answers(verdicts: Sequence[Verdict]) -> dict[str, Callable[[Verdict], np.ndarray | None]]:
    """Maps the name of each answer to its gains; equal shares are first if there are two."""
    names = {verdict.advice.short for verdict in verdicts}
    name = names.pop() if len(names) == 1 else "the recommendations"
    if not any(verdict.advice.if_balanced for verdict in verdicts):
        return {name: RECOMMENDED}
    first = {verdict.advice.balanced.short for verdict in verdicts}
    return {first.pop() if len(first) == 1 else "if balanced": IF_BALANCED, name: RECOMMENDED}


def _safety(verdicts: Sequence[Verdict]) -> str:
    """Yes or no: are there contexts that lose accuracy beyond noise, by each answer?"""
    if measured_gain(verdicts) is None:
        return "Not known without right labels."
    clauses, is_safe = [], True
    for method, gains_of in _answers(verdicts).items():
        judged = [(verdict.name, gains_of(verdict)) for verdict in verdicts]
        known = [(name, gains) for name, gains in judged if gains is not None]
        signs = [gain_of(gains < 0, gains > 0).beyond_noise for _, gains in known]
        harmed = [name for (name, _), sign in zip(known, signs, strict=True) if sign < 0]
        is_safe = is_safe and not harmed
        if len(signs) == 1:
            falls = "falls" if harmed else "does not fall"
            clauses.append(f"accuracy {falls} beyond noise with {method}")
            continue
        named = f" ({join_names(harmed)})" if 0 < len(harmed) <= MAX_LISTED else ""
        clauses.append(
            f"with {method}, {len(harmed) or 'none'} of {len(signs):,} contexts "
            f"{'lose' if len(harmed) > 1 else 'loses'} accuracy beyond noise{named} and "
            f"{signs.count(1):,} {'gains' if signs.count(1) == 1 else 'gain'}"
        )
    return f"{'Yes' if is_safe else 'No'}: {'; '.join(clauses)}."


def _rows(verdicts: Sequence[Verdict]) -> str:
    needed = [v.diagnosis.rows_needed for v in verdicts if v.diagnosis.rows_needed is not None]
    sentences = []
    if needed:
        unit, _ = preference_unit(verdicts[0].diagnosis)
        rows = int(np.median([verdict.diagnosis.rows for verdict in verdicts]))
        of_each = "" if len(verdicts) == 1 else " in the median context"
        sentences.append(
            f"The bias is known to ± 0.1 {unit} from {int(np.median(needed)):,} rows{of_each} "
            f"(there are {rows:,})."
        )
    gain, labeled = measured_gain(verdicts), sum(verdict.diagnosis.labeled for verdict in verdicts)
    if gain is None:
        sentences.append("Label some rows to measure the gain.")
    elif gain.beyond_noise:
        sentences.append(f"These {labeled:,} labeled rows are enough to be sure of the gain.")
    elif settled := rows_to_settle(gain, labeled):
        rounded = float(f"{settled:.2g}")
        sentences.append(
            f"A gain of this size needs about {rounded:,.0f} labeled rows to exceed noise."
        )
    else:
        sentences.append("A gain this small would need more than a million labeled rows.")
    return " ".join(sentences)


def setting_paragraph(group: Frame) -> str:
    """ICL and BC, where BC gains and loses, what is not learned, and the spread."""
    if not group.has_references:
        return (
            f"In this setting ({group.setting}), icl and bc were not both run, so there is nothing "
            "to compare; calibrate with all methods."
        )
    tasks, by_task = list(group.tasks), group.gains(CORRECTED)
    scope = f"{len(tasks)} tasks"
    if len(tasks) <= MAX_LISTED:
        scope = _list_names(list(map(task_title, tasks)))
    number, interval, _ = estimate_cell(over_tasks(list(by_task.values()))).parts
    over = "rows and seeds" if group.max_seeds > 1 else "rows alone"
    seeds = min(len(task.records) for task in group.tasks.values())
    draws = f" {TWO_DRAWS}" if seeds == 2 else ""
    sentences = [
        f"In this setting ({group.setting}), the uncalibrated scores are right on "
        f"{_average(group, BASELINE, tasks)} % of the rows and Batch Calibration on "
        f"{_average(group, CORRECTED, tasks)} %, on average over {scope}: {number} points "
        f"{interval} (95 % interval over {over}; noise where it holds 0).{draws}",
        _describe_gains(by_task),
        _describe_not_learned(group),
        _describe_spread(group),
    ]
    return " ".join(filter(None, sentences))


def study_paragraphs(study: Results) -> dict[str, str]:
    """A paragraph for each study of prompts and shots, by its figure's slug."""
    paragraphs = {}
    for slug, axes in by_study(study.axes).items():
        paragraphs[f"{slug}-prompts"] = prompt_paragraph(axes)
    for curve in study.curves:
        paragraphs[f"{curve.slug}-curve"] = curve_paragraph(curve)
    return {slug: paragraph for slug, paragraph in paragraphs.items() if paragraph}


def _average(group: Frame, method: str, tasks: Sequence[str]) -> str:
    return f"{100 * np.mean([group.tasks[task].values(method).mean() for task in tasks]):.1f}"


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


def _describe_not_learned(group: Frame) -> str:
    """Tasks the model has not learned, and the averages without them."""
    learned = frame.learned_tasks(group)
    missing = [task_title(task) for task in group.tasks if task not in learned]
    rule = (
        f"the better of ICL and BC is less than {frame.LEARNED_MARGIN:.0f} points above chance, or "
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


def _describe_spread(group: Frame) -> str:
    """The spread over seeds, mean over the tasks."""
    if min(len(task.records) for task in group.tasks.values()) < 2:
        return ""
    means = []
    for method in REFERENCES:
        deviations = [deviation(100 * task.values(method)) for task in group.tasks.values()]
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


def prompt_paragraph(axes: Sequence[PromptStudy]) -> str:
    """The choice that a study varies, and whether bc makes it matter less."""
    prompts = join_names(dict.fromkeys(axis.count for axis in axes))
    tasks = join_names(task_title(axis.task) for axis in axes)
    gained = join_names(gain_cell(axis.gain) for axis in axes)
    seeds = ", seeds" if any(axis.seeds != "1" for axis in axes) else ""
    return (
        f"{describe_study(axes)} ({prompts} on {tasks}, everything else is fixed: "
        f"{axes[0].setting}){_matters(axes)}. On average over them bc gains {gained} points. In "
        f"brackets 95 % intervals over prompts{seeds} and test rows, {MARK} where 0 is outside."
    )


def _matters(axes: Sequence[PromptStudy]) -> str:
    """On which tasks the choice matters less with bc, on which more, and where that is noise."""
    effects = {
        -1: "it matters less after the correction",
        1: "it matters more after the correction",
        0: "the correction makes no difference beyond noise to how much it matters",
    }
    clauses = []
    for sign, effect in effects.items():
        tasks = [task_title(a.task) for a in axes if a.change and a.change.beyond_noise == sign]
        clauses += [f"on {join_names(tasks)} {effect}"] if tasks else []
    return f": {'; '.join(clauses)}" if clauses else ""


def curve_paragraph(curves: Curves) -> str:
    """Where along the curve bc is ahead of icl, and how sure that is."""
    # Tasks where both methods have a line and their difference is known.
    tasks = [task for task in curves.gains if {*REFERENCES} <= {*curves.tasks.get(task, ())}]
    gained = []
    for task in tasks:
        for number, gain in curves.gains[task].items():
            gained.append((gain.value, gain, task_title(task), number))
    if not gained:
        return ""
    won, _, lost = count_signs(gain for _, gain, _, _ in gained)
    (_, lowest, low_task, low_at), (_, highest, high_task, high_at) = min(gained), max(gained)
    numbers = sorted({number for _, _, _, number in gained})
    return (
        f"{curves.heading} ({numbers[0]} to {numbers[-1]} {curves.axis} on "
        f"{join_names(map(task_title, tasks))}, everything else is fixed): at {won or 'none'} of "
        f"{len(gained)} points Batch Calibration (bc) gains beyond noise over the plain scores "
        f"(icl), at {lost or 'none'} it loses; its gain goes from {gain_cell(lowest)} points "
        f"({low_task} at {low_at}) to {gain_cell(highest)} ({high_task} at {high_at}). In brackets "
        f"95 % intervals over draws of demonstrations and test rows, {MARK} where 0 is outside; "
        "where there is one draw they are over rows alone."
    )
