"""What the console program says: sentences on each context, tables over many."""

import textwrap
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stdout
from typing import NamedTuple, TextIO

import numpy as np

from batch_calibration.arrays import DISTANCES, prediction_range
from batch_calibration.artifacts import terminal
from batch_calibration.artifacts.cells import Best, Cells
from batch_calibration.artifacts.gains import MARK, count_signs, gain_cell
from batch_calibration.cli import advice
from batch_calibration.diagnosis import Diagnosis, Recommendation, Right
from batch_calibration.methods import METHODS
from batch_calibration.metrics import Estimate
from batch_calibration.scores import Block, ScoreTable
from batch_calibration.store import Records

ALL = 3
"""Contexts that are described one by one; more are rows of a table."""
METHOD_NOTE = (
    "Accuracy in % over all rows; of one context with its 95 % interval, and the gain over icl in "
    f"points, paired by row, with its own ({MARK} it excludes 0: beyond noise). 'shares off' is "
    "half the summed distance of predicted from right shares (total variation). 'better, worse' "
    "counts contexts where the accuracy is above or below icl's, 'beyond noise' those where the "
    "difference is more than noise."
)


class Found(NamedTuple):
    """A context, its corrected scores [n, k], what they say, and what is recommended."""

    table: ScoreTable
    scores: np.ndarray
    diagnosis: Diagnosis
    recommended: Recommendation

    def sentences(self) -> list[str]:
        """Those of the diagnosis, and the recommendation in one."""
        return [*self.diagnosis.sentences(), advice.sentence(self.recommended)]


def title(table: ScoreTable) -> str:
    """The task, the model, shots and seed, as far as they are known.

    >>> title(ScoreTable({"task": "sst2", "shots": 4, "seed": 0}, (), {}))
    'sst2, 4-shot, seed 0'
    """
    about = table.context
    named = [str(about.get(key) or "") for key in ("task", "model")]
    named += ["{}-shot".format(about["shots"])] if about.get("shots") is not None else []
    named += [f"seed {about['seed']}"] if about.get("seed") is not None else []
    return ", ".join(filter(None, named)) or "scores"


def notes(block: Block) -> list[str]:
    """What the importer of a block noticed."""
    found = block.spec.get("notes")
    return [str(one) for one in found] if isinstance(found, list) else []


def show(found: Sequence[Found], changed: int, words: TextIO) -> None:
    """A few contexts one by one, each with some rows that change; many as one table."""
    with redirect_stdout(words):
        if len(found) > ALL:
            terminal.show_cells("Contexts", context_cells(found), CONTEXT_NOTE)
            if 1 < len(cells := model_cells(found)) <= len(found):
                terminal.show_cells("Over contexts: accuracy in %", cells)
            for words_of_all in (over_all(found), advice.over_all(_advised(found))):
                print(f"\n{textwrap.fill(words_of_all, terminal.NOTE_WIDTH)}")
            return
        for one in found:
            heading = f"{title(one.table)}: share of each label in %"
            terminal.show_cells(heading, label_cells(one.diagnosis))
            if one.diagnosis.before:
                terminal.show_cells(
                    "Right answers in % [95 % interval]", right_cells(one.diagnosis)
                )
            print()
            for sentence in one.sentences():
                print(textwrap.fill(sentence, terminal.NOTE_WIDTH))
            if len(one.diagnosis.changed) and changed > 0:
                terminal.show_cells("Rows whose prediction changes", _changed_cells(one, changed))
        print()


def show_advice(found: Sequence[Found], words: TextIO) -> None:
    """A few contexts one by one, with the reasons; many as one table."""
    with redirect_stdout(words):
        if len(found) > ALL:
            terminal.show_cells("Recommended", _advice_cells(found), ADVICE_NOTE)
            print(f"\n{textwrap.fill(advice.over_all(_advised(found)), terminal.NOTE_WIDTH)}")
            if any(one.diagnosis.gain for one in found):
                print(textwrap.fill(f"If it is followed: {over_all(found)}", terminal.NOTE_WIDTH))
            return
        for one in found:
            print(f"\n{title(one.table)}")
            for sentence in one.recommended.reason:
                print(textwrap.fill(sentence, terminal.NOTE_WIDTH))
            if one.recommended.measured:
                cells = advice.measured_cells(one.recommended)
                terminal.show_cells("Labeled rows, each judged by what the others teach", cells)
            elif one.diagnosis.before:
                terminal.show_cells(UNSEEN, right_cells(one.diagnosis))
            if words_of_call := advice.call(one.recommended):
                print(f"\nbatch-calibration calibrate FILE {words_of_call}")


UNSEEN = "The file's right answers, which the recommendation did not see, in % [95 % interval]"
ADVICE_NOTE = (
    "'nats' is how far the label of the highest mean score is above the lowest, 'tells' what a "
    "row's corrected scores tell of its label; 'doubtful' labels may never be right."
)


def _advice_cells(found: Sequence[Found]) -> Cells:
    rows: Cells = [["context", "rows", "nats", "tells", "doubtful", "recommended"]]
    for one in sorted(found, key=lambda one: title(one.table)):
        signals, names = one.recommended.signals, one.table.label_names
        doubtful = ", ".join(names[label] for label in signals.doubtful[:4])
        doubtful += " ..." if len(signals.doubtful) > 4 else ""
        size, told = f"{signals.preference:.2f}", f"{signals.information:.2f}"
        shown = [title(one.table), f"{signals.rows}", size, told, doubtful]
        rows.append([*shown, advice.short(one.recommended)])
    return rows


def label_cells(one: Diagnosis) -> Cells:
    """A row a label: its preference, its share of predictions before and after, of the right."""
    rows: Cells = [["label", "preferred by (nats)", "predicted", f"after {one.method}"]]
    for i, name in enumerate(one.label_names):
        shares = (one.predicted[i], one.corrected[i])
        rows.append([name, f"{one.preference[i]:+.2f}", *(f"{100 * x:.1f}" for x in shares)])
    if one.classes is not None:
        rows[0].append("right")
        for row, share in zip(rows[1:], one.classes, strict=True):
            row.append(f"{100 * share:.1f}")
    return rows


def right_cells(one: Diagnosis) -> Cells:
    """Accuracy and balanced accuracy, before and after."""
    rows: Cells = [["scores", "accuracy", "balanced accuracy"]]
    for name, right in (("as they are", one.before), (f"after {one.method}", one.after)):
        if right:
            rows.append([name, str(right.accuracy), str(right.balanced)])
    return rows


def _changed_cells(one: Found, most: int) -> Cells:
    block, names = one.table.blocks["test"], one.table.label_names
    rows: Cells = [["row", "before", "after", "right"]]
    for i in one.diagnosis.changed[:most]:
        guess = (names[int(of[i].argmax())] for of in (block.log_probs, one.scores))
        right = names[block.labels[i]] if block.labels[i] >= 0 else "?"
        rows.append([block.row_ids[i], *guess, right])
    if len(one.diagnosis.changed) > most:
        rows.append([f"and {len(one.diagnosis.changed) - most:,} more", "", "", ""])
    return rows


CONTEXT_NOTE = (
    "Accuracy in %; gain with its 95 % interval, paired by row. 'prefers' is the label of the "
    "highest mean log-probability, and by how many nats over the lowest."
)


def context_cells(found: Sequence[Found]) -> Cells:
    """A row a context: what it prefers, and accuracies where right labels are known."""
    rows: Cells = [["context", "rows", "prefers", "nats", "changed", "before", "after", "gain"]]
    for one in sorted(found, key=lambda one: title(one.table)):
        d = one.diagnosis
        rights = [
            (right and f"{100 * right.accuracy.value:.1f}") or "" for right in (d.before, d.after)
        ]
        gain = d.gain.points if d.gain else ""
        prefers = d.label_names[int(d.preference.argmax())]
        size = f"{np.ptp(d.preference):.2f}"
        rows.append(
            [title(one.table), f"{d.rows}", prefers, size, f"{len(d.changed)}", *rights, gain]
        )
    return rows


def model_cells(found: Sequence[Found]) -> Cells:
    """A row a model: its contexts, accuracy over all their labeled rows, contexts won and lost."""
    rows: Cells = [
        ["model", "contexts", "rows", "before", "after", "better, worse", "beyond noise"]
    ]
    for model in dict.fromkeys(_model(one.table) for one in found):
        mine = [one.diagnosis for one in found if _model(one.table) == model]
        gains = [d.gain for d in mine if d.gain]
        if gains:
            before, after = (_over_rows(mine, of) for of in (_before, _after))
            counts = f"{sum(d.labeled for d in mine)}"
            shares = f"{before:.1f}", f"{after:.1f}"
            rows.append([model, f"{len(mine)}", counts, *shares, *count_signs(gains)])
    return rows


def over_all(found: Sequence[Found]) -> str:
    """How many predictions change over all contexts, and the accuracy of all their rows."""
    every = [one.diagnosis for one in found]
    rows, changed = sum(d.rows for d in every), sum(len(d.changed) for d in every)
    said = f"{len(found)} contexts, {rows:,} rows; the prediction of {changed:,} changes."
    if not any(d.gain for d in every):
        return f"{said} No right label is known."
    before, after = (_over_rows(every, of) for of in (_before, _after))
    said += f" Accuracy over all labeled rows moves from {before:.1f} to {after:.1f} %."
    never = sum(d.classes is not None and not d.classes.all() for d in every)
    if never:
        said += (
            f" In {never} of the contexts some label is never right, but BC supposes that labels "
            "are right about equally often: give the shares that you expect (--prior), or leave "
            "such labels out (--labels)."
        )
    return said


def _advised(found: Sequence[Found]) -> list[Recommendation]:
    return [one.recommended for one in found]


def _model(table: ScoreTable) -> str:
    return str(table.context.get("model") or "unnamed model")


def _before(one: Diagnosis) -> Right | None:
    return one.before


def _after(one: Diagnosis) -> Right | None:
    return one.after


def _over_rows(every: Sequence[Diagnosis], of: Callable[[Diagnosis], Right | None]) -> float:
    """Accuracy in % over the labeled rows of all contexts together."""
    known = [(right.accuracy.value, one.labeled) for one in every if (right := of(one))]
    values, labeled = zip(*known, strict=True)
    return 100 * float(np.average(values, weights=labeled))


def method_cells(records: Records) -> Cells:
    """A row a model and method: accuracy over all rows, shares off, contexts won and lost."""
    last = ["gain over icl"] if len(records) == 1 else ["better, worse", "beyond noise"]
    rows: Cells = [["model", "method", "accuracy", "shares off", *last]]
    for model in dict.fromkeys(record.context.model for record in records):
        mine = [record for record in records if record.context.model == model]
        names = [name for name in METHODS if all(name in one.methods for one in mine)]
        counts = [record.rows["test"] for record in mine]
        values = {
            name: np.array([record.methods[name]["accuracy"] for record in mine]) for name in names
        }
        means = {name: 100 * float(np.average(of, weights=counts)) for name, of in values.items()}
        best = max(round(mean, 1) for mean in means.values())
        for name, mean in means.items():
            cell = f"{mean:.1f}"
            if len(mine) == 1:
                ends = (mine[0].methods[name][end] for end in ("accuracy_low", "accuracy_high"))
                cell += " [{:.1f}, {:.1f}]".format(*(100 * end for end in ends))
            off = [record.methods[name]["total_variation"] for record in mine]
            against = [""] * len(last)
            if name != "icl" and "icl" in names:
                gains = [_gain(record.methods[name]) for record in mine]
                against = [gain_cell(gains[0])] if len(records) == 1 else count_signs(gains)
            accuracy = Best(cell) if round(mean, 1) == best else cell
            shares = f"{100 * float(np.average(off, weights=counts)):.1f}"
            rows.append([model or "unnamed model", name, accuracy, shares, *against])
    return rows


def _gain(found: Mapping[str, float]) -> Estimate:
    return Estimate(*(found[f"gain{end}"] for end in ("", "_low", "_high")))


def show_range(each: Sequence[Sequence[Found]], words: TextIO) -> None:
    """What may be predicted where missing labels lie at one of `DISTANCES` below their bound.

    Args:
        each: for each distance, the contexts.
        words: where it is printed.
    """
    rows: Cells = [["context", "rows", "predictions that stay", "accuracy"]]
    for place, first in enumerate(each[0]):
        picks = np.array([contexts[place].scores.argmax(axis=-1) for contexts in each])
        labels = first.table.blocks["test"].labels
        found = prediction_range(picks, len(first.table.label_names), labels)
        reach = " to ".join(f"{100 * share:.1f}" for share in found.accuracy or ())
        same = f"{100 * found.same / found.rows:.1f} %"
        rows.append([title(first.table), f"{found.rows}", same, reach])
    distances = ", ".join(f"{nats:g}" for nats in DISTANCES)
    note = f"All missing labels at {distances} nats below their bound, in turn; accuracy in %."
    with redirect_stdout(words):
        terminal.show_cells("The range that missing labels allow", rows, note)
