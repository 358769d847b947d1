"""Prints summaries in the console: sentences on each context, tables of many contexts."""

import sys
from collections.abc import Iterable, Sequence
from contextlib import redirect_stdout
from operator import attrgetter
from textwrap import shorten
from typing import NamedTuple, TextIO

import numpy as np

from batch_calibration.cli.progress import erase_line
from batch_calibration.diagnosis import Advice, Comparison, Diagnosis
from batch_calibration.diagnosis.advice import ESTIMATED, POOLED
from batch_calibration.diagnosis.comparison import pool
from batch_calibration.diagnosis.diagnose import DISTANCES, prediction_range
from batch_calibration.diagnosis.diagnosis import NOT_JUDGED
from batch_calibration.diagnosis.recommend import FEWEST_LABELED_TO_MEASURE
from batch_calibration.diagnosis.verdicts import BY_BC, RECOMMENDED, Verdict, measured_gain
from batch_calibration.errors import call, escape_controls
from batch_calibration.files import list_at
from batch_calibration.methods import ask_about_order, look_like_cosines
from batch_calibration.reporting import cells as forms
from batch_calibration.reporting import words
from batch_calibration.reporting.cells import Cells, show_cells, spread
from batch_calibration.reporting.frame import Frame, group_by, task_title, word_of
from batch_calibration.reporting.words import Card
from batch_calibration.scores import POOLED_AS, ScoreTable
from batch_calibration.studies import Record
from batch_calibration.studies.calibration import order_flips

MAX_SHOWN_SINGLY = 3
"""Maximum number of contexts that are described one by one; more contexts become a table."""
MAX_LISTED = 20
"""Maximum number of contexts in a table, and of lines of a table of groups."""
MAX_DOUBTS = 3
"""Maximum number of contexts with a printed question about their right labels."""


class CorrectedContext(NamedTuple):
    """A context with its correction.

    Attributes:
        table: the scores before.
        scores: [n, k], the corrected scores.
        diagnosis: the effect of the correction.
        advice: the advice for the context.
        temperature: the number that divides the corrected scores for probabilities; None without
            a temperature.
        labeled: corrected scores [m, k] and labels [m] of the block "labeled", if there is one.
        answers: [n], the answers by a cut-off; None without one.
    """

    table: ScoreTable
    scores: np.ndarray
    diagnosis: Diagnosis
    advice: Advice
    temperature: float | None = None
    labeled: tuple[np.ndarray, np.ndarray] | None = None
    answers: np.ndarray | None = None

    @property
    def predicted(self) -> np.ndarray:
        """The answers [n]: by the cut-off, or else the labels of the largest scores."""
        return self.scores.argmax(axis=-1) if self.answers is None else self.answers

    def sentences(self) -> list[str]:
        """Returns the diagnosis in sentences, and the advice in one sentence."""
        sentences, first, by_labels = self.diagnosis.sentences(), self.advice.reason[0], ""
        # The reason begins with a capital, but here it continues a sentence.
        advised = f"Recommended: {first[0].lower()}{first[1:]}"
        if "labeled" in self.table.blocks:
            command = call("recommend", "scores", {"labeled": "FILE"})
            sentences = [text for text in sentences if not text.startswith(NOT_JUDGED)]
            advised = f"Advice and accuracy with the labeled rows: {command}."
            return [*sentences, *filter(None, [self.advice.doubt]), advised]
        if self.diagnosis.labeled >= FEWEST_LABELED_TO_MEASURE:
            by_labels = f"Advice with the right labels: {call('recommend', 'scores', {})}."
        # Shares that are estimated without labels would contradict the labels.
        is_estimated = self.advice.source in (ESTIMATED, POOLED) or self.advice.if_balanced
        advised = by_labels if by_labels and is_estimated else f"{advised} {by_labels}".strip()
        return [*sentences, self.advice.doubt or advised]


def temper(scores: np.ndarray, temperature: float | None) -> np.ndarray:
    """Divides scores by a temperature; None leaves them."""
    return scores if temperature is None else scores / np.float32(temperature)


def have_probabilities(contexts: Sequence[CorrectedContext]) -> bool:
    """Checks that no context has cosines without a scale and without a temperature."""
    unscaled = (one.table.blocks["test"].log_probs for one in contexts if one.temperature is None)
    return not any(map(look_like_cosines, unscaled))


def describe_probabilities(contexts: Sequence[CorrectedContext]) -> str:
    """Describes the probabilities of corrected scores, and their temperature."""
    if not have_probabilities(contexts):
        return "Cosines have no scale, so there are no probabilities without --temperature."
    text = "The probabilities p(LABEL) are the softmax of the scores as they are written: corrected"
    if contexts[0].temperature is None:
        return f"{text}, without a temperature (--temperature=auto fits one to right labels)."
    divisors = [context.temperature or 1.0 for context in contexts]
    low, high = f"{min(divisors):.3g}", f"{max(divisors):.3g}"
    return f"{text} and divided by a temperature of {low if low == high else f'{low} to {high}'}."


def title(table: ScoreTable) -> str:
    """Returns the task, the model, the shots and the seed of a table, as far as they are known.

    >>> title(ScoreTable({"task": "sst2", "shots": 4, "seed": 0}, (), {}))
    'sst2, 4-shot, seed 0'
    """
    facts = table.context
    named = [str(facts.get("task") or ""), str(facts.get("model") or "")]
    for key, form in (("shots", "{}-shot"), ("seed", "seed {}")):
        if facts.get(key) is not None:
            named.append(form.format(facts[key]))
    return ", ".join(filter(None, named)) or "scores"


def doubts(tables: Sequence[ScoreTable]) -> list[str]:
    """Returns questions about contexts with right labels that contradict their scores."""
    asked = ((title(table), ask_about_order(*table.blocks["test"][:2])) for table in tables)
    questions = [f"{name}: {question}" for name, question in asked if question]
    more = len(questions) - MAX_DOUBTS
    return questions[:MAX_DOUBTS] + [f"The same is true of {more:,} more contexts."] * (more > 0)


def print_filled(sentence: str, output_stream: TextIO | None = None) -> None:
    """Prints a sentence in lines of readable length; escapes its control characters."""
    erase_line()
    print(forms.filled(escape_controls(sentence)), file=output_stream)


def say_notes(sentences: Iterable[str]) -> None:
    """Prints each sentence once, as a note on standard error."""
    for sentence in dict.fromkeys(sentences):
        print_filled(f"note: {sentence}", sys.stderr)


def show_contexts(
    contexts: Sequence[CorrectedContext], changed: int, output_stream: TextIO
) -> None:
    """Prints a few contexts one by one, each with some changed rows; many contexts as a table."""
    with redirect_stdout(output_stream):
        if len(contexts) > MAX_SHOWN_SINGLY:
            cells = [row[:-1] for row in make_lines(contexts)]
            _show_many(contexts, "Contexts", cells, CONTEXT_NOTE)
            for words_of_all in (over_all(contexts), _count_recommended(contexts)):
                print()
                print_filled(words_of_all)
            return
        for context in contexts:
            heading = f"{title(context.table)}: share of each label in %"
            show_cells(heading, forms.label_cells(context.diagnosis))
            if context.diagnosis.before:
                show_cells(
                    "Right answers in % [95 % interval]", forms.right_cells(context.diagnosis)
                )
            if len(cells := forms.reliability_cells(context.diagnosis)) > 1:
                show_cells("Probabilities: softmax over the labels [95 % interval]", cells)
            if grades := forms.grade_cells(context.diagnosis):
                show_cells("Grades: mean absolute errors, quadratic kappa [95 % interval]", grades)
            print()
            for sentence in context.sentences():
                print_filled(sentence)
            if len(context.diagnosis.changed) and changed > 0:  # --changed=0 shows none
                show_cells("Rows with a changed prediction", _changed_cells(context, changed))
        print()


def show_advice(
    contexts: Sequence[CorrectedContext], output_stream: TextIO, source: str = "scores"
) -> None:
    """Prints a few contexts one by one, with the reasons; many contexts as a table.

    Args:
        contexts: the contexts with their advice.
        output_stream: the stream to print to.
        source: the files as they are typed, for the commands of a single context.
    """
    source = escape_controls(source) if len(contexts) == 1 else "scores"
    with redirect_stdout(output_stream):
        if len(contexts) > MAX_SHOWN_SINGLY:
            _show_many(contexts, "Recommended", _advice_cells(contexts), ADVICE_NOTE)
            print()
            print_filled(_count_recommended(contexts))
            print_filled(f"If you follow it: {over_all(contexts)}")
            return
        for context in contexts:
            print()
            print_filled(title(context.table))
            _show_one(context.advice, source)
            if context.diagnosis.before and not context.advice.measured:
                show_cells(UNSEEN, forms.right_cells(context.diagnosis))
            if by_labels := context.advice.by_labels:
                print()
                print_filled(f"With the {context.diagnosis.labeled:,} right labels of this file:")
                _show_one(by_labels, source)


def _show_one(advice: Advice, source: str) -> None:
    """Prints advice with its reasons, the measured methods and the commands that follow it."""
    for sentence in [*advice.reason, advice.doubt]:
        if sentence:
            print_filled(sentence)
    if measured := advice.measured:
        # The value of an estimate is the accuracy on the labeled rows.
        ranked = sorted(measured.items(), key=lambda pair: -pair[1].value)
        cells = [["method", "right"], *([name, str(share)] for name, share in ranked)]
        show_cells("Labeled rows: cross-validated accuracy of each method in %", cells)
    # No keys mean that no correction is recommended.
    if not advice.doubt and (keys := words.keys_of(advice)):
        print(f"\n{call('calibrate', source, keys)}")
    if advice.if_balanced:
        print("\nIf labels are about equally frequent:")
        print(call("calibrate", source, words.keys_of(advice.balanced) or {}))


UNSEEN = "The file's right answers, not used by the recommendation, in % [95 % interval]"
ADVICE_NOTE = (
    "'nats' is the highest minus the lowest mean score of the labels; 'tells' is the information "
    "of a row's corrected scores about its label; 'gain' is the expected change of accuracy in "
    "points, with the range of 95 % of similar contexts."
)


def _advice_cells(contexts: Sequence[CorrectedContext]) -> Cells:
    rows: Cells = [["context", "rows", "nats", "tells", "gain", "recommended"]]
    for context in sorted(contexts, key=lambda context: title(context.table)):
        signals, expected = context.advice.signals, context.advice.expected
        gain = "" if expected.gain is None else expected.gain.points
        tells = "" if context.diagnosis.cosines else f"{signals.information:.2f}"
        shown = [f"{signals.rows}", forms.size_cell(context.diagnosis), tells, gain]
        rows.append([title(context.table), *shown, context.advice.short])
    return rows


def _changed_cells(context: CorrectedContext, max_rows: int) -> Cells:
    block, names = context.table.blocks["test"], context.table.label_names
    rows: Cells = [["row", "before", "after", "right"]]
    for i in context.diagnosis.changed[:max_rows]:
        of_row = int(block.log_probs[i].argmax()), int(context.predicted[i]), int(block.labels[i])
        rows.append([block.row_ids[i], *("?" if label < 0 else names[label] for label in of_row)])
    if (more := len(context.diagnosis.changed) - max_rows) > 0:
        rows.append([f"and {more:,} more", "", "", ""])
    return rows


CONTEXT_NOTE = (
    "Accuracy in %; gain with its 95 % interval, paired by row. 'prefers' is the label with the "
    "highest mean log-probability; 'nats' is its difference from the lowest."
)


CONTEXT_COLUMNS = "context rows prefers nats changed before after gain recommended"


def make_lines(contexts: Sequence[CorrectedContext]) -> Cells:
    """Returns a row for each context; the last column is the recommended correction."""
    columns = CONTEXT_COLUMNS.split()
    rows: Cells = [columns]
    for context in sorted(contexts, key=lambda context: title(context.table)):
        facts = forms.context_cells(title(context.table), context.diagnosis)
        facts["recommended"] = context.advice.short
        rows.append([facts[column] for column in columns])
    return rows


GROUP_NOTE = (
    "Means over contexts ± standard deviation: accuracy in %, gain in points. 'nats' is the "
    "highest minus the lowest mean log-probability of the labels."
)


def _show_many(contexts: Sequence[CorrectedContext], heading: str, cells: Cells, note: str) -> None:
    """Prints the means over groups of contexts, below a table of a few contexts."""
    are_cosines = {context.diagnosis.cosines for context in contexts}
    if len(contexts) <= MAX_LISTED:
        show_cells(heading, *forms.with_unit(cells, note, are_cosines))
    show_cells("Over contexts", *forms.with_unit(group_cells(contexts), GROUP_NOTE, are_cosines))


def group_cells(contexts: Sequence[CorrectedContext]) -> Cells:
    """Returns means ± deviations over all contexts, and over each level of the varying factors."""
    records, diagnoses = list[Record](), [context.diagnosis for context in contexts]
    for table, *_ in contexts:
        task = table.context.get(POOLED_AS) or table.context.get("task")
        pooled = table._replace(context={**table.context, "task": task})
        records.append(Record.without_methods(pooled))
    group = Frame(records)
    header = ["group", "contexts", "nats", "before", "after", "gain"]
    rows: Cells = [header, _group_row("all", diagnoses)]
    for name in group.varying:
        levels = group.levels(name)
        if len(levels) < len(contexts) and len(rows) + len(levels) <= MAX_LISTED:
            # Words that begin all names, such as the file's name, are left out.
            first = f"{levels[0].rpartition(' ')[0]} "
            shared = first if all(level.startswith(first) for level in levels) else ""
            for level in levels:
                pairs = zip(diagnoses, group.factors, strict=True)
                part = [diagnosis for diagnosis, of in pairs if of[name] == level]
                rows.append(_group_row(word_of(name, level.removeprefix(shared)), part))
    return rows


def _group_row(name: str, diagnoses: Sequence[Diagnosis]) -> list[str]:
    rights = [(of.before, of.after) for of in diagnoses]
    known = [(was.accuracy.value, now.accuracy.value) for was, now in rights if was and now]
    before, after = 100 * np.array(known).reshape(-1, 2).T
    cells = spread(np.array([of.size for of in diagnoses]), 2), spread(before), spread(after)
    partly = f", {len(known)} with right labels" * (0 < len(known) < len(diagnoses))
    return [name, f"{len(diagnoses)}{partly}", *cells, spread(after - before)]


def over_all(contexts: Sequence[CorrectedContext]) -> str:
    """Describes how many predictions change over all contexts, and labels that are never right."""
    diagnoses = [context.diagnosis for context in contexts]
    rows, changed = sum(of.rows for of in diagnoses), sum(len(of.changed) for of in diagnoses)
    never = sum(of.classes is not None and not of.classes.all() for of in diagnoses)
    sentence = f"{len(contexts)} contexts, {rows:,} rows; the prediction of {changed:,} changes."
    if not any(diagnosis.gain for diagnosis in diagnoses):
        return f"{sentence} No right label is known."
    if never:
        sentence += (
            f" In {never} of the contexts some label is never right, but BC assumes equally "
        )
        sentence += "frequent labels: state the shares (--prior), or leave labels out (--labels)."
    return sentence


def _count_recommended(contexts: Sequence[CorrectedContext]) -> str:
    """Describes how many contexts get each recommendation."""
    counts = words.count_recommended(context.advice for context in contexts)
    return f"Recommended, of {len(contexts):,} contexts: {counts}."


MAX_NAME = 48  # characters of a study's name in the table of gains
MAX_TASKS = 30
"""Maximum number of tasks in the table of gains; above it, each row is a study's mean."""
GAINS_NOTE = (
    "Accuracy in %, means over contexts: uncorrected (icl), by bc, and as advised for each "
    "context without knowing its shares; 'gain' is for the advice, in points [95 % interval], * "
    "beyond noise."
)


def task_gains(cards: Sequence[Card]) -> Cells:
    """Returns a row for each task with right labels; the mean of a card's tasks follows them."""
    rows: Cells = [["task", "icl", "bc", "advised", "gain"]]
    by_tasks = [group_by(card.board, attrgetter("task")) for card in cards]
    is_long = sum(map(len, by_tasks)) > MAX_TASKS
    for card, by_task in zip(cards, by_tasks, strict=True):
        for task, verdicts in () if is_long else by_task.items():
            rows += _gain_row(task, verdicts)
        if is_long or len(by_task) > 1:
            name = shorten(f"mean: {card.heading}", MAX_NAME, placeholder=" …")
            rows += _gain_row(name if len(cards) > 1 else "mean", card.board)
    return rows


def _gain_row(task: str, verdicts: Sequence[Verdict]) -> Cells:
    """Returns the row of some contexts; no row if no right label is known."""
    gains = [measured_gain(verdicts, gains_of) for gains_of in (BY_BC, RECOMMENDED)]
    if not (known := [gain for gain in gains if gain is not None]):
        return []
    before = float(np.mean([*words.accuracy_of_tasks(verdicts).values()]))
    shares = before + np.array([0.0, *(gain.value for gain in known)])
    percents = [f"{100 * share:.1f}" for share in shares]
    is_changed = words.changes(verdicts, RECOMMENDED)
    return [[task_title(task), *percents, forms.gain_cell(known[-1], is_changed=is_changed)]]


def show_gains(cards: Sequence[Card], source: str = "") -> None:
    """Prints the table of gains, and the lines of each card.

    Args:
        cards: the studies.
        source: the file or folder of the scores, for commands.
    """
    if len(cells := task_gains(cards)) > 1:
        show_cells("Gains", cells, GAINS_NOTE)
    for card in cards[:MAX_SHOWN_SINGLY]:
        print()
        if len(cards) > 1:
            print(f"{card.heading}:")
        for line in words.card_lines(card, source, is_only=len(cards) == 1):
            print_filled(line)
    print()


def show_range(by_distance: Sequence[Sequence[CorrectedContext]], output_stream: TextIO) -> None:
    """Prints how many predictions stay when missing labels are `DISTANCES` below their bound."""
    rows: Cells = [["context", "rows", "predictions that stay", "accuracy"]]
    for number, first in enumerate(by_distance[0]):
        # Predictions by distance and row: [distances, n].
        picks = np.array([contexts[number].predicted for contexts in by_distance])
        _, names, blocks = first.table
        stable = prediction_range(picks, len(names), blocks["test"].labels)
        # The lowest and the highest accuracy.
        reach = " to ".join(f"{100 * share:.1f}" for share in stable.accuracy or ())
        unchanged = f"{100 * stable.same / stable.rows:.1f} %"
        rows.append([title(first.table), f"{stable.rows}", unchanged, reach])
    distances = ", ".join(f"{nats:g}" for nats in DISTANCES)
    note = f"All missing labels are {distances} nats below their bound, in turn; accuracy in %."
    with redirect_stdout(output_stream):
        show_cells("The range that missing labels allow", rows, note)


def show_comparison(
    tables: Sequence[ScoreTable], comparisons: Sequence[Comparison], *, is_all: bool, is_quiet: bool
) -> None:
    """Prints a table for each model: a single context with intervals, several with counts."""
    models = [str(table.context.get("model") or "") for table in tables]
    if len({*models}) > MAX_SHOWN_SINGLY:  # one table of all
        models = [f"{len({*models})} models"] * len(tables)
    for model, numbers in group_by(range(len(tables)), models.__getitem__).items():
        shown = comparisons[numbers[0]]
        heading = title(tables[numbers[0]])
        if len(numbers) > 1:
            shown = pool([comparisons[number] for number in numbers])
            heading = f"{model or 'unnamed model'}: {len(numbers):,} contexts"
        print(escape_controls(f"{heading}, {shown.rows:,} labeled rows"))
        print("\n".join(forms.aligned(shown.cells(is_all=is_all))))
        if len(cells := shown.probability_cells(is_all=is_all)) > 1:
            show_cells("Probabilities: softmax over the labels [95 % interval]", cells)
        if is_quiet:
            continue
        print_filled(shown.reading_note(is_all=is_all, more="--all shows"))
        if is_all:
            for reason, names in group_by(shown.skipped, shown.skipped.__getitem__).items():
                print_filled(f"Left out, {reason}: {', '.join(names)}.")


def group_notes(tables: Sequence[ScoreTable]) -> list[str]:
    """Returns the importers' notes; notes that differ only in numbers become one with an example.

    >>> from batch_calibration.scores import make_block
    >>> block = make_block([[-1.0, -3.0]], spec={"notes": ["Labels have 3 %."]})
    >>> table = ScoreTable({"task": "a"}, ("no", "yes"), {"test": block})
    >>> other = ScoreTable({"task": "b"}, ("no", "yes"), {"test": make_block([[-1.0, -3.0]])})
    >>> group_notes([table, other, table._replace(context={"task": "c"})])
    ['2 of 3 contexts, such as a: Labels have 3 %.']
    """
    # A note's text with "#" for its numbers -> the contexts with this text, and their notes.
    by_kind: dict[str, dict[str, str]] = {}
    for table in tables:
        notes = list[str]()
        if "permutations" in table.blocks and (rate := order_flips(table)):
            asked = f"{len(table.blocks['test'].log_probs):,} questions get another answer"
            notes.append(f"{rate} % of {asked} if their options have another order.")
        for block in table.blocks.values():
            notes += map(str, list_at(block.spec, "notes"))
        for note in notes:
            kind = ["#" if any(map(str.isdigit, token)) else token for token in note.split()]
            by_kind.setdefault(" ".join(kind), {}).setdefault(title(table), note)
    sentences = []
    for notes_of_kind in by_kind.values():
        example, note = next(iter(notes_of_kind.items()))
        if len(notes_of_kind) > 1:
            example = f"{len(notes_of_kind):,} of {len(tables):,} contexts, such as {example}"
        is_of_all = len(notes_of_kind) == len(tables) and len(set(notes_of_kind.values())) == 1
        sentences.append(note if is_of_all else f"{example}: {note}")
    return sentences
