"""Whether the prompts of a log are one context: the same demonstrations before every query."""

from collections.abc import Sequence

MAX_PROMPTS = 1000  # prompts of a log that are looked at


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
