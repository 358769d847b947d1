"""Whether the prompts of a log are one context: the same demonstrations before every query."""

from collections.abc import Sequence

KEPT = 1000
"""Prompts of a log that are looked at."""


def differing_demonstrations(prompts: Sequence[str], shots: int | None, remedy: str) -> str:
    r"""A note where the demonstrations differ from row to row, "" where they do not.

    The last line that all prompts end in, such as "Answer:", ends each demonstration's question
    too: its occurrences count the demonstrations, and what stands before the last of these is the
    same in all prompts of one context. Where the prompts share no such line, and shots are known,
    the length of their shared beginning decides.

    Args:
        prompts: some or all of a log.
        shots: how many demonstrations, where the log says so.
        remedy: how to give every row the same, the end of a sentence.

    >>> differing_demonstrations(["Q: a\nA: b\nQ: c\nA:", "Q: a\nA: b\nQ: d\nA:"], 1, "ask.")
    ''
    >>> differing_demonstrations(["Q: a\nA: b\nQ: c\nA:", "Q: e\nA: b\nQ: d\nA:"], 1, "ask.")[:42]
    'The demonstrations differ from row to row:'
    """
    if len(prompts) < 2 or shots == 0:
        return ""
    shared = _shared(prompts)
    mean = max(sum(map(len, prompts)) / len(prompts), 1.0)
    ends = _shared([one[::-1] for one in prompts])
    ending = _last_line(prompts[0][len(prompts[0]) - ends :])
    found = min(one.count(ending) for one in prompts) - 1 if ending else 0
    if found > 0:
        same = len({_until(one, ending, found) for one in prompts}) == 1
    else:
        # Of demonstrations as long as queries, n of n + 1 parts are shared.
        same = shots is None or shared / mean > 0.5 * shots / (shots + 1)
    if same:
        return ""
    return (
        f"The demonstrations differ from row to row: the prompts share their first {shared:,} of "
        f"{mean:,.0f} characters ({100 * shared / mean:.0f} %). There is no one context, and what "
        f"BC and its kin correct is a mean over contexts; {remedy}"
    )


def _shared(texts: Sequence[str]) -> int:
    """How many first letters texts share: as many as the least and the greatest of them."""
    least, greatest = min(texts), max(texts)
    pairs = enumerate(zip(least, greatest, strict=False))
    return next((i for i, (one, other) in pairs if one != other), min(len(least), len(greatest)))


def _last_line(ending: str) -> str:
    """The last whole line of what all prompts end in, or its last word where it has no line."""
    lines = ending.rstrip().rsplit("\n", 1)
    words = lines[-1].split()
    found = "\n" + lines[-1] if len(lines) == 2 else (words[-1] if words else "")
    return found if len(found.strip()) > 1 else ""


def _until(prompt: str, ending: str, number: int) -> str:
    """A prompt up to the end of the `number`-th occurrence of `ending`."""
    at = 0
    for _ in range(number):
        at = prompt.index(ending, at) + len(ending)
    return prompt[:at]
