"""Whether the prompts of a log are one context: the same demonstrations before every query."""

from collections.abc import Sequence

MAX_PROMPTS = 1000
"""Prompts of a log that are looked at."""


def note_differing_demonstrations(prompts: Sequence[str], shots: int | None, remedy: str) -> str:
    r"""A note where the demonstrations differ from row to row, "" where they do not.

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
    ''
    >>> note_differing_demonstrations(["Q: a\nA: b\nQ: c\nA:", differing], 1, "ask.")[:42]
    'The demonstrations differ from row to row:'
    """
    prompts = prompts[:MAX_PROMPTS]
    if len(prompts) < 2 or shots == 0:
        return ""
    shared = _shared_letters(prompts)
    mean = max(sum(map(len, prompts)) / len(prompts), 1.0)  # prompts may be empty
    shared_at_end = _shared_letters([prompt[::-1] for prompt in prompts])  # read backwards
    ending = _last_line(prompts[0][len(prompts[0]) - shared_at_end :])
    # The last occurrence ends the query, those before it end a demonstration's question each.
    count = min(prompt.count(ending) for prompt in prompts) - 1 if ending else 0
    if count > 0:
        is_one_context = len({_until(prompt, ending, count) for prompt in prompts}) == 1
    else:
        # Of demonstrations as long as queries, n of n + 1 parts are shared.
        is_one_context = shots is None or shared / mean > 0.5 * shots / (shots + 1)
    if is_one_context:
        return ""
    return (
        f"The demonstrations differ from row to row: the prompts share their first {shared:,} of "
        f"{mean:,.0f} characters ({100 * shared / mean:.0f} %). There is no one context, and what "
        f"BC and its kin correct is a mean over contexts; {remedy}"
    )


def _shared_letters(texts: Sequence[str]) -> int:
    """How many first letters texts share: as many as the least and the greatest of them."""
    lowest, highest = min(texts), max(texts)
    for i, (a, b) in enumerate(zip(lowest, highest, strict=False)):
        if a != b:
            return i
    return min(len(lowest), len(highest))


def _last_line(ending: str) -> str:
    """The last whole line of what all prompts end in, or its last word where it has no line."""
    lines = ending.rstrip().rsplit("\n", 1)
    last = "\n" + lines[-1] if len(lines) == 2 else "".join(lines[-1].split()[-1:])
    return last if len(last.strip()) > 1 else ""  # a single letter ends too much


def _until(prompt: str, ending: str, count: int) -> str:
    """A prompt up to the end of the `count`-th occurrence of `ending`."""
    end = 0
    for _ in range(count):
        end = prompt.index(ending, end) + len(ending)
    return prompt[:end]
