"""Questions of a log that were answered by a letter: scores from the lists of likeliest tokens."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from batch_calibration.errors import InputError, shown
from batch_calibration.importers.base import Reading
from batch_calibration.importers.choices import Row
from batch_calibration.importers.top_k import scores_of_top_k


def scored(
    rows: Sequence[Row], lists: Sequence[Mapping[str, float]], where: str, reading: Reading
) -> list[Row]:
    """Rows whose choices are answers of one token, with the scores of these.

    Args:
        rows: n questions without scores.
        lists: for each, token -> log-probability where the model answered, in nats.
        where: what to call the log in sentences.
        reading: its `tokens` say which tokens mean a choice.

    Raises:
        InputError: what `scores_of_top_k` refuses; a choice that no row's list has.
    """
    found = list(rows)
    for choices in dict.fromkeys(row.choices for row in rows):
        places = [i for i, row in enumerate(rows) if row.choices == choices]
        tokens = {name: of for name, of in reading.tokens.items() if name in choices}
        top = scores_of_top_k([lists[i] for i in places], choices, tokens, where)
        for name, taken in top.tokens.items():
            if not taken:
                likely = [max(lists[i], key=lists[i].__getitem__) for i in places[:5]]
                raise InputError(
                    f"{where}: no row's list has a token of the answer {shown(name)}; the "
                    f"likeliest are {shown(likely)}: ask for more tokens (top_logprobs=20), or "
                    "name those that mean it (tokens)."
                )
        for i, scores, bound in zip(places, top.log_probs, top.bound, strict=True):
            found[i] = replace(found[i], scores=tuple(map(float, scores)), bound=float(bound))
    return found
