"""Sentences about results: the first screen of a page, and the lines of the console."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import NamedTuple

import numpy as np

from batch_calibration.diagnosis.advice import LEAVE, MANY_NAMES, Advice
from batch_calibration.diagnosis.diagnosis import factor, preference_unit
from batch_calibration.diagnosis.labeling import narrowing
from batch_calibration.diagnosis.verdicts import (
    BY_BC,
    IF_BALANCED,
    RECOMMENDED,
    Verdict,
    measured_gain,
    rows_to_settle,
)
from batch_calibration.errors import call
from batch_calibration.methods import METHODS
from batch_calibration.metrics import Estimate, gain_of, over_tasks
from batch_calibration.reporting.cells import MARK, Best, Cells, count_signs, gain_cell
from batch_calibration.reporting.frame import BASELINE, Frame

ADVICE, CORRECTED_SCORES = "advice.json", "corrected.jsonl"
LEAVE_THEM = "leave the scores as they are"
ENSEMBLE = "ensemble"
"""The method that gives each row one answer from all contexts."""
TWO_DRAWS = "Two draws of demonstrations do not show how others vary."
MAX_LISTED = 3
"""Maximum number of contexts that a sentence names; of more it gives the number."""
FEWEST_KIN = 4  # contexts that differ in the seed only, among which one can be an outlier
OUTLIER, OUTLIER_RANGES = 0.10, 3.0
"""An outlier is 10 points and three ranges of its kin away from the nearest of them."""
Gains = Callable[[Verdict], np.ndarray | None]


class Card(NamedTuple):
    """The contexts of a study, for the first screen of a page.

    Attributes:
        heading: the levels of the factors that the contexts share.
        frame: the contexts.
        verdicts: a verdict for each of them with known scores.
    """

    heading: str
    frame: Frame
    verdicts: Sequence[Verdict]

    @property
    def board(self) -> list[Verdict]:
        """The verdicts on the contexts of the headline, with right labels if some are known."""
        ids = {record.id for record in self.frame.board.records}
        chosen = [verdict for verdict in self.verdicts if verdict.record in ids]
        labeled = [verdict for verdict in chosen if verdict.by_bc is not None]
        return labeled or chosen or [*self.verdicts]


def join_names(names: Iterable[str]) -> str:
    """Joins names with commas, and "and" before the last."""
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last


def headline(card: Card) -> str:
    """Describes accuracy before and after Batch Calibration over the contexts of a card."""
    verdicts = card.board
    gain, count = measured_gain(verdicts, BY_BC), len(verdicts)
    over = f"{count:,} contexts" if count > 1 else f"{verdicts[0].diagnosis.rows:,} rows"
    if gain is None:
        return f"No right label is known for these {over}, so accuracy is not measured."
    before = float(np.mean([*accuracy_of_tasks(verdicts).values()]))
    if not changes(verdicts, BY_BC):
        return (
            f"With Batch Calibration (bc) accuracy stays {100 * before:.1f} % over {over}: no row "
            "turns right or wrong."
        )
    sentence = (
        f"With Batch Calibration (bc) accuracy goes from {100 * before:.1f} to "
        f"{100 * (before + gain.value):.1f} % ({gain.points}) over {over}"
    )
    if count == 1:
        return f"{sentence}{'' if gain.beyond_noise else ', within noise'}."
    won, _, lost = count_signs(gains_of_contexts(verdicts, BY_BC))
    losing = f"{lost or 'none'} {'loses' if lost < 2 else 'lose'}"
    gained = f"{won or 'none'} {'gains' if won < 2 else 'gain'}"
    few = Counter(verdict.task for verdict in verdicts if verdict.gains is not None)
    return f"{sentence}; beyond noise, {gained} and {losing}." + (
        f" {TWO_DRAWS}" if few and max(few.values()) == 2 and _by_seed(card.frame) else ""
    )


def _by_seed(frame: Frame) -> bool:
    return {*frame.varying} <= {"task", "seed"}


def changes(verdicts: Sequence[Verdict], gains_of: Gains) -> bool:
    """Checks whether an answer turns any row right or wrong."""
    known = [gains for verdict in verdicts if (gains := gains_of(verdict)) is not None]
    return any(gains.any() for gains in known)


def gains_of_contexts(verdicts: Sequence[Verdict], gains_of: Gains) -> list[Estimate]:
    """Estimates the gain of each context with right labels."""
    known = [gains for verdict in verdicts if (gains := gains_of(verdict)) is not None]
    return [gain_of(gains < 0, gains > 0) for gains in known]


def answer_cells(card: Card) -> Cells:
    """Makes a row for each answer: as the model answers, with bc, as advised, the ensemble."""
    verdicts = card.board
    if measured_gain(verdicts) is None:
        return []
    before = float(np.mean([*accuracy_of_tasks(verdicts).values()]))
    rows: Cells = [["", "accuracy in %", "gain in points"]]
    rows.append(["as the model answers (icl)", f"{100 * before:.1f}", ""])
    answers: dict[str, Gains] = {"Batch Calibration (bc)": BY_BC}
    for name, gains_of in answers_of(verdicts).items():
        if name != LEAVE_IT:
            answers[f"as advised: {name}"] = gains_of
    for name, gains_of in answers.items():
        gain = measured_gain(verdicts, gains_of)
        if gain is not None:
            cell = gain_cell(gain, is_changed=changes(verdicts, gains_of))
            rows.append([name, f"{100 * (before + gain.value):.1f}", cell])
    board = card.frame.board
    if len(board) > 1 and ENSEMBLE in board.compared:
        gain = over_tasks([*board.gains(ENSEMBLE).values()])
        cell = gain_cell(gain, is_changed=board.changes(ENSEMBLE))
        share = f"{100 * board.average(ENSEMBLE):.1f}"
        rows.append(["one answer from all prompts (ensemble)", share, cell])
    if any(row[2].endswith(MARK) for row in rows):
        rows[0][2] = f"gain ({MARK} beyond noise)"
    best = max(range(1, len(rows)), key=lambda place: float(rows[place][1]))
    rows[best][1] = Best(rows[best][1])
    return rows


def bias_line(card: Card) -> str:
    """Describes how often the most frequent answer is given, before and after, and is right."""
    verdicts = card.verdicts
    before, after, *right = most_predicted(verdicts)
    found = verdicts[0].diagnosis
    if len(verdicts) == 1 and found.rows < FEWEST_ROWS:
        return "Too few rows to judge the bias."
    is_moved = round(100 * after) != round(100 * before)
    corrected = f", with bc for {_percent(after)}" if is_moved else ""
    is_right = f"; it is the right answer for {_percent(right[0])}" if right else ""
    if len(verdicts) == 1:
        name = found.label_names[int(found.predicted.argmax())]
        noise = "" if verdicts[0].is_biased else " No bias beyond noise."
        said = f"The model answers {name!r} for {_percent(before)} of the rows"
        return f"{said}{corrected}{is_right}.{noise}"
    biased = sum(verdict.is_biased for verdict in verdicts)
    return (
        f"On average, a context's most frequent answer is given for {_percent(before)} of the rows"
        f"{corrected}{is_right}. {biased:,} of {len(verdicts):,} contexts prefer a label beyond "
        "noise."
    )


FEWEST_ROWS = 3


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def most_predicted(verdicts: Sequence[Verdict]) -> list[float]:
    """Returns shares of the label that a context predicts most, means over contexts.

    They are the shares of predictions before and after, and of right labels if some are known.
    """
    shares: list[list[float]] = [[], [], []]
    for verdict in verdicts:
        found, (_, after) = verdict.diagnosis, verdict.first_answer
        most = int(found.predicted.argmax())
        right = [] if found.classes is None else [found.classes]
        for values, labels in zip(shares, [found.predicted, after, *right], strict=False):
            values.append(float(labels[most]))
    return [float(np.mean(values)) for values in shares if values]


def advice_line(card: Card, source: str = "", *, is_only: bool = True) -> str:
    """Returns the commands that follow the advice, in backticks.

    An answer that changes no row, or that loses accuracy beyond noise, is not advised.

    Args:
        card: the contexts.
        source: the file or folder of the scores, for the commands.
        is_only: False if the file has contexts of other cards, which have advice of their own.
    """
    verdicts = card.verdicts
    source = source or ("scores" if len(verdicts) == 1 else "contexts")
    each = f"`{call('recommend', source, {'output': ADVICE})}`"
    several = {"output": CORRECTED_SCORES} if len(verdicts) > 1 else {}
    each += f" and `{call('calibrate', source, {'advice': ADVICE, **several})}`: {{}}"
    actions = list[str]()
    for gains_of in answers_of(verdicts).values():
        chosen = [_answer(verdict, gains_of) for verdict in verdicts]
        keys = [keys_of(advice) for advice in chosen]
        action = each.format(count_recommended(chosen))
        if all(of_context == keys[0] for of_context in keys) and keys[0] is not None and is_only:
            command = call("calibrate", source, {**keys[0], **several})
            action = f"`{command}`" if keys[0] else LEAVE_THEM
        gain = measured_gain(verdicts, gains_of)
        is_biased = gain is None or any(verdict.is_biased for verdict in verdicts)
        if not any(_turns(verdict, gains_of) for verdict in verdicts):
            action = f"{LEAVE_THEM}, as no answer changes" if keys[0] else LEAVE_THEM
        elif not is_biased and not changes(verdicts, gains_of):
            action = f"{LEAVE_THEM}, as no row turns right or wrong"
        if gain is not None and gain.beyond_noise < 0:
            action = f"{LEAVE_THEM}, as accuracy falls beyond noise"
        actions.append(action)
    if len({*actions}) == 1 or all(action.startswith(LEAVE_THEM) for action in actions):
        return f"Do: {actions[-1]}."
    return f"Do: {actions[0]} if labels are about equally frequent; if not known, {actions[1]}."


def _turns(verdict: Verdict, gains_of: Gains) -> bool:
    """Checks whether an answer changes a prediction."""
    if gains_of is IF_BALANCED and verdict.after_other is not None:
        return bool((verdict.after_other != verdict.diagnosis.predicted).any())
    return bool(len(verdict.diagnosis.changed))


def keys_of(advice: Advice) -> dict[str, object] | None:
    """Returns the keys with which `calibrate` follows advice; empty if the scores are left.

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


def _answer(verdict: Verdict, gains_of: Gains) -> Advice:
    return verdict.advice.balanced if gains_of is IF_BALANCED else verdict.advice


def card_lines(card: Card, source: str = "", *, is_only: bool = True) -> list[str]:
    """Returns the lines of a card: accuracy, bias, outliers, and advice as in `advice_line`."""
    advice = advice_line(card, source, is_only=is_only)
    lines = [headline(card), bias_line(card), outliers(card.frame), advice]
    return [line for line in lines if line]


def outliers(group: Frame) -> str:
    """Describes contexts with an accuracy far from contexts that differ in the seed only."""
    found = []
    for part in group.by(*(name for name in group.varying if name != "seed")).values():
        if len(part) < FEWEST_KIN or not part.has(BASELINE):
            continue
        values = part.values(BASELINE)
        order = np.argsort(values)
        for place, kin in ((order[0], values[order[1:]]), (order[-1], values[order[:-1]])):
            away = float(np.abs(kin - values[place]).min())
            if away > max(OUTLIER, OUTLIER_RANGES * float(np.ptp(kin))):
                name = group.names[group.records.index(part.records[place])]
                reach = " to ".join(f"{100 * end:.1f}" for end in (kin.min(), kin.max()))
                least = f"{100 * values[place]:.1f} %, its other {len(kin)} draws {reach} %"
                found.append(f"{name} ({least})")
    more = len(found) - MAX_LISTED
    listed = [*found[:MAX_LISTED], *([f"{more:,} more"] if more > 0 else [])]
    return f"Far from their kin, without a correction: {join_names(listed)}." if found else ""


def accuracy_of_tasks(verdicts: Sequence[Verdict]) -> dict[str, float]:
    """Returns the accuracy before a correction by task, mean over its contexts."""
    by_task: dict[str, list[float]] = {}
    for verdict in verdicts:
        if before := verdict.diagnosis.before:
            by_task.setdefault(verdict.task, []).append(before.accuracy.value)
    return {task: float(np.mean(accuracies)) for task, accuracies in by_task.items()}


LEAVE_IT = "leave it"


def answers_of(verdicts: Sequence[Verdict]) -> Mapping[str, Gains]:
    """Maps the name of each answer to its gains; equal shares are first if there are two."""
    names = {verdict.advice.short for verdict in verdicts}
    name = names.pop() if len(names) == 1 else "shares for each context"
    if not any(verdict.advice.if_balanced for verdict in verdicts):
        return {name: RECOMMENDED}
    first = {verdict.advice.balanced.short for verdict in verdicts}
    return {first.pop() if len(first) == 1 else "if balanced": IF_BALANCED, name: RECOMMENDED}


def facts(card: Card) -> dict[str, str]:
    """Maps questions about a card to their answers."""
    verdicts = card.verdicts
    answers = {
        "Biased?": _bias(verdicts),
        "Advised": _recommended(verdicts),
        "Expected gain": _expected_sentence(verdicts),
        "Safe?": _safety(verdicts),
        "Enough rows?": _rows(verdicts),
    }
    return {question: answer for question, answer in answers.items() if answer}


def _bias(verdicts: Sequence[Verdict]) -> str:
    if verdicts[0].diagnosis.rows < FEWEST_ROWS:
        return ""
    # NaN if the rows of cosines do not differ.
    strongest = max(verdicts, key=lambda verdict: np.nan_to_num(verdict.diagnosis.size))
    found, (unit, *more) = strongest.diagnosis, preference_unit(strongest.diagnosis)
    by = f"{found.size:.2f} ± {found.pair_error / found.unit:.2f} {', '.join([unit, *more])}"
    if len(verdicts) == 1:
        if not found.size:
            return "No label is preferred."
        least = found.label_names[int(found.preference.argmin())]
        answer = "Yes, towards" if strongest.is_biased else "Not beyond noise:"
        return f"{answer} {strongest.preferred!r} over {least!r} by {by}."
    alike = [v.diagnosis.size for v in verdicts if v.diagnosis.cosines == found.cosines]
    median = float(np.nanmedian(alike))
    means = "" if found.cosines else f" (a factor of {factor(median)})"
    counts = Counter(verdict.preferred for verdict in verdicts).most_common(MAX_LISTED)
    towards = join_names(f"{label!r} in {count:,}" for label, count in counts)
    return (
        f"By {median:.2f} {unit} in the median context{means}, at most {by} ({strongest.name}); "
        f"most often towards {towards}."
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


def _expected_sentence(verdicts: Sequence[Verdict]) -> str:
    """Describes the mean expected gain of the contexts, and of the ends of their intervals."""
    gains = [verdict.advice.expected.gain for verdict in verdicts]
    known = [gain for gain in gains if gain is not None]
    expected = Estimate(*np.mean(known, axis=0).tolist()) if known else None
    # If all scores are left, no gain is expected.
    if expected is None or expected == Estimate(0.0, 0.0, 0.0):
        return ""
    average, first = "", verdicts[0].advice.expected
    risk, source = first.risk_in_words, first.source
    if len(verdicts) > 1:
        risk, average = "", " in a context, on average"
        source = "from contexts of real models with similar scores"
    return f"{expected.points} points{average}{risk} ({source})."


def _safety(verdicts: Sequence[Verdict]) -> str:
    """Describes whether contexts lose accuracy beyond noise, for each answer."""
    if measured_gain(verdicts) is None:
        return "Not known without right labels."
    clauses, is_safe = [], True
    for method, gains_of in answers_of(verdicts).items():
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
            f"with {method}, {len(harmed):,} of {len(signs):,} contexts "
            f"{'loses' if len(harmed) == 1 else 'lose'} accuracy beyond noise{named}"
        )
    return f"{'Yes' if is_safe else 'No'}: {'; '.join(clauses)}."


def _rows(verdicts: Sequence[Verdict]) -> str:
    """Describes whether the rows are enough for the bias and for the gain."""
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
        # Labels do not narrow known shares; cosines have no probabilities.
        asked = [v for v in verdicts if v.advice.if_balanced and not v.diagnosis.cosines]
        seen = sorted((v.advice.signals for v in asked), key=attrgetter("label_error"))
        sentences += [narrowing(of.label_error, of.rows) for of in seen[len(seen) // 2 :][:1]]
    elif gain.beyond_noise:
        sentences.append(f"These {labeled:,} labeled rows are enough to be sure of the gain.")
    elif settled := rows_to_settle(gain, labeled):
        rounded = float(f"{settled:.2g}")
        sentences.append(
            f"A gain of this size needs about {rounded:,.0f} labeled rows to exceed noise."
        )
    return " ".join(filter(None, sentences))
