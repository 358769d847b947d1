"""Scores from saved answers that score whole prompts, each of which ends with a label."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from batch_calibration.errors import InputError, shown
from batch_calibration.importers.base import Imported, Reading
from batch_calibration.importers.rows import read_flag
from batch_calibration.importers.server_lines import Line, named_labels, right_labels, to_imported
from batch_calibration.responses import SPACES, PromptTokens, end_log_prob

MAX_TOKENS_FOR_MASS = 3
"""Tokens that a label may have for the mass of all labels to tell whether the model answers so."""


class Prompt(NamedTuple):
    """A prompt that was scored with labels."""

    number: int  # how many other prompts stand before it
    log_probs: dict[int, float]  # label's index -> log-probability, nats
    lines: dict[int, Line]  # label's index -> the answer that has it

    def scores(self) -> list[float]:
        """The log-probabilities in the order of the labels."""
        return [self.log_probs[label] for label in sorted(self.log_probs)]

    def cells(self, name: str) -> list[object]:
        """A field of its lines, in the order of the labels."""
        return [self.lines[label].value(name) for label in sorted(self.lines)]

    def first_line(self) -> Line:
        """The line that stands first in the file."""
        return min(self.lines.values(), key=lambda line: line.number)

    def shares(self, name: str) -> bool:
        """Whether all its lines have the same in a field."""
        return len(set(map(str, self.cells(name)))) == 1


def read_prompts(
    path: Path,
    lines: Sequence[Line],
    scored_prompts: Sequence[PromptTokens],
    reading: Reading,
    scorer: str,
    failed: int,
) -> Imported:
    """Scores from prompts that each end with one label; those of one prompt make a row.

    Prompts that lack a label are left out where as many requests failed, and refused otherwise.
    """
    labels = named_labels(path, reading)
    prompts, longest = _group_prompts(lines, scored_prompts, labels)
    # A row that lacks a label has no bound either: nothing says how low it lies.
    rows = [prompt for prompt in prompts if len(prompt.lines) == len(labels)]
    if len(prompts) * len(labels) - len(lines) > failed:
        partial = next(prompt for prompt in prompts if len(prompt.lines) < len(labels))
        name = next(name for j, name in enumerate(labels) if j not in partial.lines)
        raise InputError(
            f"{partial.first_line().where}: its prompt has scores of {len(partial.lines)} labels "
            f"of {len(labels)}, not of {shown(name)}; score each label after the same prompt."
        )
    if not rows:
        raise InputError(where=path, expected="a prompt with a score of each label", got="none")
    for row in rows:
        for name in reading.by:
            if not row.shares(name):
                raise InputError(
                    where=row.first_line().where,
                    expected=f"one {name!r} on all lines of its prompt",
                    got=shown(row.cells(name)),
                )
    imported = to_imported(
        path,
        list(map(Prompt.first_line, rows)),
        reading,
        np.array(list(map(Prompt.scores, rows))),
        scorer,
        gold=_right_labels(prompts, rows, reading) if reading.gold else None,
        row_ids=tuple(str(row.number) for row in rows),
    )
    if len(rows) < len(prompts):
        note = f"{len(prompts) - len(rows):,} of {len(prompts):,} prompts lack a label that failed."
        imported = replace(imported, notes=(note,))
    return replace(imported, full=longest <= MAX_TOKENS_FOR_MASS)


def _group_prompts(
    lines: Sequence[Line], scored_prompts: Sequence[PromptTokens], labels: Sequence[str]
) -> tuple[list[Prompt], int]:
    """The prompts in the file's order, and the number of tokens of the longest label."""
    # A prompt may stand there twice; its second scores are another row: (prompt, 2).
    prompts: dict[tuple[str, int], Prompt] = {}
    times: dict[tuple[str, int], int] = {}
    longest = 0
    for line, scored in zip(lines, scored_prompts, strict=True):
        text = "".join(scored.tokens).translate(SPACES).rstrip()
        endings = [name for name in labels if text.endswith(name.strip())]
        if not endings:
            raise InputError(
                where=line.where,
                expected=f"a prompt that ends with one of the labels ({', '.join(labels)}), "
                f"but it ends with {shown(text[-30:])}",
                remedy="name the labels as the prompts have them (--labels)",
            )
        label = max(endings, key=len)  # "not so" ends in "so" as well
        log_prob, size = end_log_prob(scored, label, line.where)
        longest = max(longest, size)
        j = labels.index(label)
        question = text[: -len(label.strip())].rstrip()
        times[question, j] = times.get((question, j), 0) + 1
        key = question, times[question, j]
        prompt = prompts.setdefault(key, Prompt(len(prompts), {}, {}))
        prompt.log_probs[j], prompt.lines[j] = log_prob, line
    return list(prompts.values()), longest


def _right_labels(
    prompts: Sequence[Prompt], rows: Sequence[Prompt], reading: Reading
) -> np.ndarray:
    """The right label of each row, a prompt with a line for each label.

    What all lines of a prompt share is a label's name or its index. What differs is a flag of the
    line, true where its own label is the right one.
    """
    name, k = reading.gold, len(reading.labels)
    prompt_of: dict[str, Prompt] = {}  # request -> the prompt that its one value is of
    for row in rows:
        for line in row.lines.values():
            if line.is_shared(name) and prompt_of.setdefault(line.request, row) is not row:
                raise InputError(
                    where=line.request,
                    expected=f"a list in {name!r} of a right label for each choice",
                    got=f"{shown(line.value(name))} for several prompts",
                )
    if all(prompt.shares(name) for prompt in prompts):
        return right_labels(list(map(Prompt.first_line, rows)), reading)
    cells = set()
    for row in rows:
        cells.add(tuple(str(cell).strip() for cell in row.cells(name)))
    # A flag of JSON is no index, and the last label may be right in every row.
    kinds = {tuple(map(str, range(k))): "index", tuple(map(str.strip, reading.labels)): "name"}
    if len(cells) == 1 and (kind := kinds.get(*cells)):
        raise InputError(
            where=rows[0].first_line().where,
            expected=f"the right label of its prompt in {name!r}",
            got=f"the {kind} of the label that each line scores itself, in all lines",
        )
    return np.array([_right_flag(row, reading) for row in rows], np.int32)


def _right_flag(row: Prompt, reading: Reading) -> int:
    """The label whose line says that it is the right one, -1 where no line says anything."""
    cells = row.cells(reading.gold)
    if all(cell is None for cell in cells):
        return -1
    flags = list(map(read_flag, cells))
    if flags.count(True) != 1 or None in flags:
        raise InputError(
            where=row.first_line().where,
            expected=f"in {reading.gold!r} the right label on all lines of its prompt, or 1 on the "
            "line of the right label and 0 on the others",
            got=shown(cells),
        )
    return flags.index(True)
