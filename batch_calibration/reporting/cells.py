"""Cells of tables, and their forms: aligned text, Markdown, LaTeX; names stay as they are."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence, Set
from itertools import chain
from textwrap import fill
from typing import TYPE_CHECKING
from unicodedata import category, east_asian_width

import numpy as np
from numpy.typing import ArrayLike

from batch_calibration.files import Number
from batch_calibration.metrics import Estimate, deviation
from batch_calibration.metrics.reliability import COLUMNS
from batch_calibration.studies import Record

if TYPE_CHECKING:
    from batch_calibration.diagnosis import Diagnosis
    from batch_calibration.diagnosis.verdicts import Verdict

LEARNED = "✓"  # behind a task that the model has learned
MARK = "*"  # behind a gain or a loss that exceeds noise
WINS = "wins, ties, losses"  # the name of what `wins_cell` counts
GREEK = {"γ": "gamma", "μ": "mu", "Σ": "Sigma"}  # letters of formulas, and their names in LaTeX
LATEX = str.maketrans(
    dict(zip("&%$#_{}", (r"\&", r"\%", r"\$", r"\#", r"\_", r"\{", r"\}"), strict=True))
    | {"~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "\\": r"\textbackslash{}"}
    | {"±": r"$\pm$", LEARNED: r"$\checkmark$", "\n": " "}
    | {letter: rf"$\{name}$" for letter, name in GREEK.items()}
)
MARKDOWN = str.maketrans({sign: f"\\{sign}" for sign in r"\`*[]<>|"})


class NumberCell(Number):
    """A number as it is printed, perhaps with an interval.

    Attributes:
        parts: the number, the interval in brackets, and the mark; empty without an interval.
    """

    parts: tuple[str, ...] = ()


class Best(NumberCell):
    """A cell that is the best of its row: printed in bold."""


class Second(NumberCell):
    """A cell that is the second best of its row: underlined, in Markdown italic."""


class Sums(list[str]):
    """A row that summarizes the rows above it."""


Samples = Sequence[ArrayLike]  # for each cell no number, one or several
Marks = Sequence[type[NumberCell]]  # of the best, the second best, and so on
Cells = list[list[str]]  # texts are names and counts, each `NumberCell` is a measured number


def rows_cell(records: Sequence[Record]) -> str:
    """Returns the number of labeled test rows of contexts, and of shortened prompts after †.

    Numbers that differ between contexts become a range.
    """
    labeled, every = {record.labeled_rows for record in records}, set[int]()
    every.update(record.rows["test"] for record in records)
    rows, total = (" to ".join({str(min(n)): 0, str(max(n)): 0}) for n in (labeled, every))
    if total != rows:
        rows = f"{rows} labeled of {total}"
    # A truncated prompt has lost its demonstrations first, so the counts are not added.
    changed = chain.from_iterable(record.over_long.get("test", {}).values() for record in records)
    shortened = max(changed, default=0)
    return f"{rows} †{shortened}" if shortened else rows


def estimate_cell(estimate: Estimate, mark: str = "", *, is_share: bool = False) -> NumberCell:
    """Formats a difference in points, or a share in %, with its interval and a mark.

    >>> estimate_cell(Estimate(0.015, 0.002, 0.028), "*").parts
    ('+1.5', '[+0.2, +2.8]', '*')
    """
    sign = "" if is_share else "+"
    number, low, high = (f"{100 * end:{sign}.1f}" for end in estimate)
    cell = NumberCell(f"{number} [{low}, {high}]{mark}")
    cell.parts = number, f"[{low}, {high}]", mark
    return cell


def gain_cell(gain: Estimate | None, *, is_changed: bool = True) -> NumberCell:
    """Formats a gain with its interval and the mark; without any changed row it is 0.0."""
    if gain is None:
        return NumberCell("-")
    is_changed = is_changed and any(gain)
    return estimate_cell(gain, MARK * abs(gain.beyond_noise)) if is_changed else NumberCell("0.0")


def count_signs(gains: Iterable[Estimate]) -> tuple[int, int, int]:
    """Counts the gains above noise, within it, and below it."""
    signs = [gain.beyond_noise for gain in gains]
    return signs.count(1), signs.count(0), signs.count(-1)


def wins_cell(gains: Iterable[Estimate]) -> str:
    """Formats the counts of `count_signs`."""
    return ", ".join(map(str, count_signs(gains)))


def spread(values: np.ndarray, digits: int = 1) -> NumberCell:
    """Formats the mean of values, and their standard deviation if there are several."""
    return mean_cell(values.mean() if len(values) else None, values, digits)


def mean_cell(mean: float | None, values: np.ndarray, digits: int = 1) -> NumberCell:
    """Formats a mean, and the standard deviation of its values if there are several."""
    if mean is None:
        return NumberCell("-")
    behind = f" ± {deviation(values):.{digits}f}" if len(values) > 1 else ""
    return NumberCell(f"{mean:.{digits}f}{behind}")


def mark_best(
    numbers: Sequence[float | None], cells: Sequence[NumberCell], digits: int = 1, *,
    is_lowest: bool = False, marks: Marks = (Best,),
) -> list[NumberCell]:  # fmt: skip
    """Marks the cells with the highest numbers after rounding; a missing number has no mark.

    Args:
        numbers: the number of each cell.
        cells: the cells.
        digits: the number of digits that are printed.
        is_lowest: True if the lowest numbers are the best.
        marks: the types of the best cells, the second best, and so on.
    """
    rounded = [None if number is None else round(float(number), digits) for number in numbers]
    ranks = sorted({number for number in rounded if number is not None}, reverse=not is_lowest)
    mark_of: dict[float | None, type[NumberCell]] = dict(zip(ranks, marks, strict=False))
    marked = []
    for number, cell in zip(rounded, cells, strict=True):
        marked.append(mark_of.get(number, NumberCell)(cell))
        marked[-1].parts = cell.parts
    return marked


def best_of(
    samples: Samples, digits: int = 1, *, is_lowest: bool = False, marks: Marks = (Best,)
) -> list[NumberCell]:
    """Formats each sample as in `spread`, and marks the best means."""
    arrays = [np.atleast_1d(np.asarray(sample, float)) for sample in samples]
    means = [array.mean() if len(array) else None for array in arrays]
    cells = [spread(array, digits) for array in arrays]
    return mark_best(means, cells, digits, is_lowest=is_lowest, marks=marks)


def markdown(cells: Cells, note: str = "") -> str:
    """Formats a pipe table, and a note below it."""

    def text(cell: str) -> str:
        plain = " ".join(cell.split()).translate(MARKDOWN)
        sign = "**" if isinstance(cell, Best) else "*" if isinstance(cell, Second) else ""
        return f"{sign}{plain}{sign}"

    lines = [f"| {' | '.join(map(text, row))} |" for row in cells]
    lines.insert(1, f"| --- |{' ---: |' * (len(cells[0]) - 1)}")
    return "\n".join([*lines, *(["", text(note)] if note else []), ""])


def latex(cells: Cells, note: str = "") -> str:
    """Formats a booktabs table with a rule above its sums, and a note.

    The mark of a learned task needs the package amssymb.
    """

    def text(cell: str) -> str:
        plain = cell.translate(LATEX)
        if isinstance(cell, Second):
            return rf"\underline{{{plain}}}"
        return rf"\textbf{{{plain}}}" if isinstance(cell, Best) else plain

    header, *body = [" & ".join(map(text, row)) + r" \\" for row in cells]
    if sums := sum(isinstance(row, Sums) for row in cells):
        body.insert(len(body) - sums, r"\midrule")
    columns = "l" + "r" * (len(cells[0]) - 1)
    lines = [rf"\begin{{tabular}}{{{columns}}}", r"\toprule", header, r"\midrule", *body]
    lines += [r"\bottomrule", r"\end{tabular}"]
    lines += [rf"\par\footnotesize {text(note)}"] if note else []
    return "\n".join([*lines, ""])


FILE_WIDTH = 100  # letters in a line of a file or a pipe


def show_cells(heading: str, cells: Cells, note: str = "", keys: int = 1) -> None:
    """Prints a heading, aligned columns, and a note.

    If a line is too narrow for all columns, they come in parts, each with the first `keys` columns.
    If these take more than half of it, each row has them in a line of their own.
    """
    print(f"\n{filled(_plain(heading))}")
    widths, names = _widths(cells), list[str]()
    if sum(widths) + 2 * len(widths) > line_width() + 2 and sum(widths[:keys]) > line_width() / 2:
        names = [_plain(", ".join(row[:keys])) for row in cells]
        cells, keys = [["", *row[keys:]] for row in cells], 1
    parts = [*_split_columns(_widths(cells), keys)]
    for number, columns in enumerate(parts, start=1):
        part = [list(map(row.__getitem__, columns)) for row in cells]
        lines = aligned(part, is_bold=sys.stdout.isatty())
        if number > 1:
            print(f"\n{_plain(heading).partition(':')[0]}, part {number} of {len(parts)}", end="")
        if names:
            rows = zip(names, [lines[0], *lines[2:]], strict=True)
            lines = [*chain.from_iterable(rows)]
        print("", *lines, sep="\n")
    if note:
        print(f"\n{filled(_plain(note))}")


def aligned(cells: Cells, *, is_bold: bool = False) -> list[str]:
    """Returns the lines of a table: names to the left, numbers to the right.

    Args:
        cells: header and rows.
        is_bold: True to print the best cells in bold, for a terminal.
    """
    widths, lines = _widths(cells), []
    for row in cells:
        line = ""
        for i, cell in enumerate(row):
            space, text = " " * (widths[i] - _width(_plain(cell))), _plain(cell)
            if is_bold and isinstance(cell, Best):
                text = f"\033[1m{text}\033[0m"
            line += f"  {space}{text}" if i else f"{text}{space}"
        lines.append(line.rstrip())
    lines.insert(1, "  ".join("─" * width for width in widths))
    return lines


def _widths(cells: Cells) -> list[int]:
    """Returns the width of each column on a terminal."""
    plain = [map(_plain, column) for column in zip(*cells, strict=True)]
    return [max(map(_width, column)) for column in plain]


def line_width() -> int:
    """Returns the maximum width of a line: COLUMNS, or the width of the terminal or a file."""
    if sys.stdout.isatty() or os.environ.get("COLUMNS"):
        return shutil.get_terminal_size().columns
    return FILE_WIDTH


def filled(sentence: str) -> str:
    """Breaks a sentence into lines of `line_width`; a path or a name stays whole."""
    return fill(sentence, line_width(), break_long_words=False, break_on_hyphens=False)


def _split_columns(widths: Sequence[int], keys: int) -> Iterator[list[int]]:
    """Splits columns into parts that fit into a line, each with the first `keys` columns."""
    room, first = line_width(), list(range(keys))
    start = sum(widths[:keys]) + 2 * keys  # two spaces between columns
    columns, used = first, start
    for i in range(keys, len(widths)):
        if len(columns) > keys and used + widths[i] > room:
            yield columns
            columns, used = first, start
        columns = [*columns, i]
        used += widths[i] + 2
    yield columns


def _plain(text: str) -> str:
    """Returns one line without control characters."""
    line = " ".join(text.split())
    return "".join([sign if category(sign)[0] != "C" else " " for sign in line])


def _width(text: str) -> int:
    """Returns the width of a text on a terminal."""
    # Accents have no width; East Asian characters are two columns wide.
    signs = [sign for sign in text if category(sign) not in ("Mn", "Me")]
    return len(signs) + sum(east_asian_width(sign) in "WF" for sign in signs)


OVERVIEW_NOTE = (
    "Each context as the recommended method corrects it. 'prefers' is the label of the highest "
    "mean log-probability, 'nats' how far it is above the lowest, ± a standard error. 'expected' "
    "is the gain in accuracy of real contexts with similar scores, 'gain' the measured one, "
    "paired by row, both in points with 95 % intervals; before and after in %. "
    f"{MARK} beyond noise: 0 is outside the interval."
)


SD = " SD"
SD_NOTE = (
    "Cosines have no nats: SD are standard deviations of the difference between the scores of the "
    "labels most and least preferred."
)
OVERVIEW = "context gain before after prefers nats recommended expected rows"


def size_cell(diagnosis: Diagnosis, *, error: bool = False) -> str:
    """Formats the size of a preference, in nats, or in standard deviations of cosines."""
    if np.isnan(diagnosis.size):
        return "-"
    behind = f" ± {diagnosis.pair_error / diagnosis.unit:.2f}" if error else ""
    return f"{diagnosis.size:.2f}{behind}{SD * diagnosis.cosines}"


def with_unit(cells: Cells, note: str, are_cosines: Set[bool]) -> tuple[Cells, str]:
    """Replaces "nats" in a header and a note by the unit of cosines if some scores are cosines."""
    if True not in are_cosines:
        return cells, note
    name = " or".join(["nats", SD][-len(are_cosines) :]).strip()
    header = [name if column == "nats" else column for column in cells[0]]
    note = note.replace("nats", name).replace("log-probability", "score")
    return [header, *cells[1:]], f"{note} {SD_NOTE}"


def context_cells(name: str, diagnosis: Diagnosis) -> dict[str, str]:
    """Maps columns to facts of a context; accuracies are empty without right labels."""
    cells = {
        "context": name,
        "rows": str(diagnosis.rows),
        "prefers": diagnosis.label_names[int(diagnosis.preference.argmax())],
        "nats": size_cell(diagnosis),
        "changed": str(len(diagnosis.changed)),
        "gain": "",
    }
    if diagnosis.gain:
        has_changed = len(diagnosis.changed) > 0
        cells["gain"] = estimate_cell(diagnosis.gain) if has_changed else NumberCell("0.0")
    for column, right in (("before", diagnosis.before), ("after", diagnosis.after)):
        cells[column] = f"{100 * right.accuracy.value:.1f}" if right else ""
    return cells


def verdict_cells(verdicts: Sequence[Verdict]) -> Cells:
    """Makes a row for each context, the largest gain first, or the largest preference."""

    def effect(verdict: Verdict) -> tuple[bool, float]:
        diagnosis, gain = verdict.diagnosis, verdict.diagnosis.gain
        return gain is None, -abs(gain.value) if gain else -np.nan_to_num(diagnosis.size)

    header = OVERVIEW.split()
    rows: Cells = [header]
    for verdict in sorted(verdicts, key=effect):
        diagnosis, expected = verdict.diagnosis, verdict.advice.expected.gain
        cells = context_cells(verdict.name, diagnosis)
        cells["nats"] = size_cell(diagnosis, error=True)
        cells["recommended"] = verdict.advice.short
        cells["expected"] = estimate_cell(expected) if expected else ""
        is_changed = bool(len(diagnosis.changed))
        cells["gain"] = gain_cell(diagnosis.gain, is_changed=is_changed) if diagnosis.gain else ""
        rows.append([cells[column] for column in header])
    return rows


def label_cells(diagnosis: Diagnosis) -> Cells:
    """Makes a row for each label: preference, and shares before, after and of right labels."""
    unit = SD.strip() if diagnosis.cosines else "nats"
    rows: Cells = [["label", f"preferred by ({unit})", "predicted", f"after {diagnosis.method}"]]
    shares = [diagnosis.predicted, diagnosis.corrected]
    if diagnosis.classes is not None:
        rows[0].append("right")
        shares.append(diagnosis.classes)
    for i, name in enumerate(diagnosis.label_names):
        percents = [f"{100 * share[i]:.1f}" for share in shares]
        rows.append([name, f"{diagnosis.preference[i] / diagnosis.unit:+.2f}", *percents])
    return [rows[0], *(rows[1 + i] for i in diagnosis.order)]


def right_cells(diagnosis: Diagnosis) -> Cells:
    """Makes rows of accuracy and balanced accuracy before and after; empty without labels."""
    rows: Cells = [["scores", "accuracy", "balanced accuracy"]]
    pairs = ("as they are", diagnosis.before), (f"after {diagnosis.method}", diagnosis.after)
    for name, right in pairs:
        if right and name != "after icl":
            shares = right.accuracy, right.balanced
            rows.append([name, *(estimate_cell(share, is_share=True) for share in shares)])
    return rows


def reliability_cells(diagnosis: Diagnosis) -> Cells:
    """Makes rows of log loss, Brier score and ECE before and after; only a header without them."""
    rows: Cells = [["scores", *COLUMNS]]
    after = f"after {diagnosis.method}"
    rows_judged = "" if diagnosis.before else "labeled rows "
    found = {f"{rows_judged}{after}, with T": diagnosis.tempered}
    for name, right in (("as they are", diagnosis.before), (after, diagnosis.after)):
        if right and name != "after icl":
            found[name] = right.reliability
    for name in sorted(found, key=lambda name: (name != "as they are", len(name))):
        if reliability := found[name]:
            rows.append([name, *map(NumberCell, reliability.texts())])
    return rows


def grade_cells(diagnosis: Diagnosis) -> Cells:
    """Makes rows of mean grades and errors: right, before, after; no rows without grades."""
    if (grades := diagnosis.grades) is None:
        return []
    rows: Cells = [["grades", "mean expected", "error of expected", "error of predicted", "kappa"]]
    if diagnosis.classes is not None:
        rows.append(["right", NumberCell(f"{diagnosis.classes @ grades.values:.2f}"), "", "", ""])
    pairs = ("as they are", grades.before), (f"after {diagnosis.method}", grades.after)
    for name, found in pairs[: 1 + (diagnosis.method != "icl")]:
        texts = [f"{e.value:.2f} [{e.low:.2f}, {e.high:.2f}]" for e in found[1:] if e]
        rows.append([name, *map(NumberCell, (f"{found.mean:.2f}", *texts))])
    return [row[: len(rows[-1])] for row in rows]  # without right labels there are no errors
