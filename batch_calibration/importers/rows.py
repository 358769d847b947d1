"""Questions with choices, as logs hold them, and whether their prompts are one context."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

import numpy as np

from batch_calibration.errors import InputError, shown
from batch_calibration.files import Json
from batch_calibration.importers.base import Reading
from batch_calibration.importers.cells import numbered_names
from batch_calibration.responses import scores_of_top_k

CHOICES = "choices"  # the column of `Reading.by` that is a row's number of choices
FLAGS = {"1": True, "1.0": True, "true": True, "0": False, "0.0": False, "false": False}
"""How files say whether an answer is right."""
T = TypeVar("T")
MAX_PROMPTS = 1000  # prompts of a log that are looked at


@dataclass(frozen=True)
class Row:
    """One question."""

    id: str  # the row's name
    scores: tuple[float, ...]  # log-probability of each choice, nats
    choices: tuple[str, ...] = ()  # their texts; () where the choices stand in the prompt
    # The right choice as the log has it: index, text, or a list of such; None if unknown.
    target: Json = None
    # Whether the log counts the highest score as right; None where it does not say.
    right: bool | None = None
    # Log-probability of each choice without the question; () where it was not asked.
    alone: tuple[float, ...] = ()
    # Values of the columns that `Reading.by` names.
    columns: Mapping[str, str] = field(default_factory=dict)
    # Least log-probability that was returned; None where all were asked for.
    bound: float | None = None

    @property
    def bare_choices(self) -> tuple[str, ...]:
        """The texts without the spaces around them."""
        return tuple(map(str.strip, self.choices))


def score_by_first_tokens(
    rows: Sequence[Row], lists: Sequence[Mapping[str, float]], where: str, reading: Reading
) -> list[Row]:
    """Rows whose choices are answers of one token, with the scores of these.

    `lists` are of each row token -> log-probability where the model answered, in nats;
    `reading.tokens` say which tokens mean a choice.
    """
    scored = list(rows)
    by_choices: dict[tuple[str, ...], list[int]] = {}  # choices -> indices of rows
    for i, row in enumerate(rows):
        by_choices.setdefault(row.choices, []).append(i)
    for choices, indices in by_choices.items():
        tokens = {name: texts for name, texts in reading.tokens.items() if name in choices}
        top = scores_of_top_k([lists[i] for i in indices], choices, tokens, where)
        for name, taken in top.tokens.items():
            if not taken:
                likely = [max(lists[i], key=lists[i].__getitem__) for i in indices[:5]]
                raise InputError(
                    f"{where}: no row's list has a token of the answer {shown(name)}; the "
                    f"likeliest are {shown(likely)}: ask for more tokens (top_logprobs=20), or "
                    "name those that mean it (tokens)."
                )
        for i, scores, bound in zip(indices, top.log_probs, top.bound, strict=True):
            scored[i] = replace(scored[i], scores=tuple(map(float, scores)), bound=float(bound))
    return scored


def read_flag(cell: object) -> bool | None:
    """Whether a cell says that an answer is right; None where it does not say."""
    return FLAGS.get(str(cell).strip().lower())


def by_columns(
    fields: Mapping[str, object], where: str, reading: Reading, *, kind: str = "document"
) -> dict[str, str]:
    """The values of the columns of `reading.by` among a row's fields; `kind` is what has them."""
    names = [name for name in reading.by if name != CHOICES]
    return {name: str(_field(fields, name, where, kind)) for name in names}


def target_of(
    fields: Mapping[str, T], target: T, where: str, reading: Reading, *, kind: str = "document"
) -> T:
    """The right choice of a row: the log's own, or the field that `reading.gold` names."""
    return _field(fields, reading.gold, where, kind) if reading.gold else target


def _field(fields: Mapping[str, T], name: str, where: str, kind: str) -> T:
    """A field by its name, which may begin with "doc." as the harness's own documents do."""
    name = name.removeprefix("doc.")
    if name not in fields:
        listed = ", ".join(map(shown, list(fields)[:20])) or "none"
        raise InputError(
            f"{where}: the {kind} has no field {shown(name)}; it has {listed}, and --by takes "
            "'choices' too."
        )
    return fields[name]


def label_names(rows: Sequence[Row]) -> tuple[tuple[str, ...], bool]:
    """Names of the labels, and whether they are the choices' own texts, in whatever order.

    >>> label_names([Row("0", (-1.0, -2.0), (" no", " yes"))])
    (('no', 'yes'), True)
    >>> label_names([Row("0", (-1.0, -2.0), ("a", "b")), Row("1", (-1.0, -2.0), ("c", "d"))])
    (('A', 'B'), False)
    """
    first = rows[0].bare_choices
    are_names = len(set(first)) == len(first) > 0 and all(first)
    if are_names and choice_orders(rows) is not None:
        return first, True
    return numbered_names(len(rows[0].scores)), False


def choice_orders(rows: Sequence[Row]) -> np.ndarray | None:
    """Where each row [n, k] has the choices of the first row, None where they are other ones."""
    first = rows[0].bare_choices
    if not first or len(set(first)) < len(first):
        return None
    orders = []
    for row in rows:
        if len(row.choices) != len(first) or set(row.bare_choices) != set(first):
            return None
        orders.append([row.bare_choices.index(text) for text in first])
    return np.array(orders)


def note_differing_demonstrations(
    prompts: Sequence[str], shots: int | None, remedy: str
) -> list[str]:
    r"""A note where the demonstrations differ from row to row.

    The last line that all prompts end in, such as "Answer:", ends each demonstration's question
    too: its occurrences count the demonstrations, and what stands before the last of these is the
    same in all prompts of one context. Where the prompts share no such line, and shots are known,
    the length of their shared beginning decides.

    Args:
        prompts: some or all of a log.
        shots: how many demonstrations, where the log says so.
        remedy: how to give every row the same, the end of a sentence.

    >>> shared, differing = ("Q: a\nA: b\nQ: d\nA:", "Q: e\nA: b\nQ: d\nA:")
    >>> note_differing_demonstrations(["Q: a\nA: b\nQ: c\nA:", shared], 1, "ask.")
    []
    >>> note_differing_demonstrations(["Q: a\nA: b\nQ: c\nA:", differing], 1, "ask.")[0][:42]
    'The demonstrations differ from row to row:'
    """
    prompts = prompts[:MAX_PROMPTS]
    if len(prompts) < 2 or shots == 0:
        return []
    shared = len(_shared_beginning(prompts))
    mean = max(sum(map(len, prompts)) / len(prompts), 1.0)  # prompts may be empty
    ending = _last_line(_shared_beginning([prompt[::-1] for prompt in prompts])[::-1])
    # The last occurrence ends the query, those before it end a demonstration's question each.
    count = min(prompt.count(ending) for prompt in prompts) - 1 if ending else 0
    if count > 0:
        demonstrations = {tuple(prompt.split(ending, count)[:count]) for prompt in prompts}
        is_one_context = len(demonstrations) == 1
    else:
        # Of demonstrations as long as queries, n of n + 1 parts are shared.
        is_one_context = shots is None or shared / mean > 0.5 * shots / (shots + 1)
    if is_one_context:
        return []
    return [
        f"The demonstrations differ from row to row: the prompts share their first {shared:,} of "
        f"{mean:,.0f} characters ({100 * shared / mean:.0f} %). There is no one context, and what "
        f"BC and its kin correct is a mean over contexts; {remedy}"
    ]


def _shared_beginning(texts: Sequence[str]) -> str:
    """The first letters that texts share: those of the least and the greatest of them."""
    lowest, highest = min(texts), max(texts)
    for i, letter in enumerate(lowest):
        if letter != highest[i]:
            return lowest[:i]
    return lowest


def _last_line(ending: str) -> str:
    """The last whole line of what all prompts end in, or its last word where it has no line."""
    lines = ending.rstrip().rsplit("\n", 1)
    last = "\n" + lines[-1] if len(lines) == 2 else "".join(lines[-1].split()[-1:])
    return last if len(last.strip()) > 1 else ""  # a single letter ends too much
