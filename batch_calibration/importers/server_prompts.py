"""Scores from saved answers that score whole prompts, each of which ends with a label."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from batch_calibration.errors import InputError, shown
from batch_calibration.importers.base import Imported, Reading
from batch_calibration.importers.server_lines import (
    Line,
    named_labels,
    right_labels,
    to_imported,
)
from batch_calibration.responses import SPACES, PromptTokens, end_log_prob

MAX_TOKENS_FOR_MASS = 3
"""Tokens that a label may have for the mass of all labels to tell whether the model answers so."""
FLAGS = {"1": True, "1.0": True, "true": True, "0": False, "0.0": False, "false": False}
"""How a line says whether its label is the right one."""


def read_prompts(
    path: Path,
    lines: Sequence[Line],
    prompts: Sequence[PromptTokens],
    reading: Reading,
    scorer: str,
    failed: int,
) -> Imported:
    """Scores from prompts that each end with one label; those of one prompt make a row."""
    labels = named_labels(path, reading)
    # A prompt may stand there twice; its second scores are another row: (prompt, 2).
    rows: dict[tuple[str, int], dict[int, tuple[float, Line]]] = {}
    times: dict[tuple[str, int], int] = {}
    longest = 0
    for line, prompt in zip(lines, prompts, strict=True):
        text = "".join(prompt.tokens).translate(SPACES).rstrip()
        endings = [name for name in labels if text.endswith(name.strip())]
        if not endings:
            raise InputError(
                where=line.where,
                expected=f"a prompt that ends with one of the labels ({', '.join(labels)}), "
                f"but it ends with {shown(text[-30:])}",
                remedy="name the labels as the prompts have them (--labels)",
            )
        label = max(endings, key=len)  # "not so" ends in "so" as well
        log_prob, size = end_log_prob(prompt, label, line.where)
        longest = max(longest, size)
        j, question = labels.index(label), text[: -len(label.strip())].rstrip()
        times[question, j] = times.get((question, j), 0) + 1
        rows.setdefault((question, times[question, j]), {})[j] = log_prob, line
    scores, row_lines, row_ids = [], [], []
    lacking = 0
    for number, scored in enumerate(rows.values()):
        if len(scored) == len(labels):
            ordered = [scored[j] for j in range(len(labels))]
            scores.append([log_prob for log_prob, _ in ordered])
            row_lines.append([line for _, line in ordered])
            row_ids.append(str(number))
            continue
        # A row that lacks a label has no bound either: nothing says how low it lies.
        lacking += len(labels) - len(scored)
        if lacking > failed:
            _, line = next(iter(scored.values()))
            name = next(name for j, name in enumerate(labels) if j not in scored)
            raise InputError(
                f"{line.where}: its prompt has scores of {len(scored)} labels of "
                f"{len(labels)}, not of {shown(name)}; score each label after the same prompt."
            )
    if not scores:
        raise InputError(where=path, expected="a prompt with a score of each label", got="none")
    gold = _right_labels(row_lines, reading) if reading.gold else None
    # The line of the prompt that comes first in the file has its id.
    first_lines = [min(by_label, key=lambda line: line.number) for by_label in row_lines]
    _refuse_other_contexts(row_lines, reading)
    imported = to_imported(
        path, first_lines, reading, np.array(scores), scorer, gold=gold, row_ids=tuple(row_ids)
    )
    if lacking:
        note = f"{len(rows) - len(scores):,} of {len(rows):,} prompts lack a label that failed."
        imported = replace(imported, notes=(note,))
    return replace(imported, full=longest <= MAX_TOKENS_FOR_MASS)


def _right_labels(rows: Sequence[Sequence[Line]], reading: Reading) -> np.ndarray:
    """The right label of each prompt, whose k lines stand in the order of the labels.

    What all lines of a prompt share is a label's name or its index. What differs is a flag of the
    line, true where its own label is the right one.
    """
    name, k = reading.gold, len(reading.labels)
    cells, prompts_of = [], dict[str, int]()
    for number, lines in enumerate(rows):
        cells.append([line.value(name) for line in lines])
        for line in lines:
            if line.is_shared(name) and prompts_of.setdefault(line.request, number) != number:
                raise InputError(
                    where=line.request,
                    expected=f"a list in {name!r} of a right label for each choice",
                    got=f"{shown(line.value(name))} for several prompts",
                )
    if all(len(set(map(str, of_prompt))) == 1 for of_prompt in cells):
        return right_labels([lines[0] for lines in rows], reading)
    own_names, own_indices = list(map(str.strip, reading.labels)), list(map(str, range(k)))
    texts = [[str(cell).strip() for cell in of_prompt] for of_prompt in cells]
    for own, kind in ((own_names, "name"), (own_indices, "index")):
        if all(of_prompt == own for of_prompt in texts) and not isinstance(cells[0][0], bool):
            raise InputError(
                where=rows[0][0].where,
                expected=f"the right label of its prompt in {name!r}",
                got=f"the {kind} of the label that each line scores itself, in all lines",
            )
    gold = []
    for lines, of_prompt, of_prompt_texts in zip(rows, cells, texts, strict=True):
        if all(cell is None for cell in of_prompt):
            gold.append(-1)
            continue
        flags = [FLAGS.get(text.lower()) for text in of_prompt_texts]
        if flags.count(True) != 1 or None in flags:
            raise InputError(
                where=lines[0].where,
                expected=f"in {name!r} the right label on all {k} lines of its prompt, or 1 on the "
                "line of the right label and 0 on the others",
                got=shown(of_prompt),
            )
        gold.append(flags.index(True))
    return np.array(gold, np.int32)


def _refuse_other_contexts(rows: Sequence[Sequence[Line]], reading: Reading) -> None:
    """Refuse a prompt whose lines are of several contexts."""
    for lines in rows:
        for name in reading.by:
            values = {line.text(name): line for line in lines}
            if len(values) > 1:
                raise InputError(
                    where=lines[0].where,
                    expected=f"one {name!r} on all lines of its prompt",
                    got=", ".join(map(shown, values)),
                )
