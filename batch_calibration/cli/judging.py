"""The command `judge`: measures a pairwise judge's position bias and win rates without it."""

from argparse import Namespace
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np

from batch_calibration.cli import summaries
from batch_calibration.errors import InputError
from batch_calibration.files import csv_text, write_whole
from batch_calibration.integrations import judges as judging
from batch_calibration.integrations.judges import Judgments, read_judgments
from batch_calibration.metrics import Estimate
from batch_calibration.reporting.cells import Cells, show_cells

MAX_SHOWN = 12
"""Maximum number of candidates to print; --output has all."""


def judge(args: Namespace) -> None:
    """Prints the judge's position bias, and each candidate's win rates before and after."""
    judgments = read_judgments([Path(path) for path in args.files])
    summaries.say_notes(judgments.notes)
    pairs = judging.swap_pairs(judgments)
    if args.dry_run:
        _show_read(judgments, pairs)
        return
    # Computed first, so that an error precedes all output.
    found = rates(judgments, pairs)
    for sentence in sentences(judgments, pairs) + turned_comparisons(judgments, found):
        summaries.print_filled(sentence)
    cells: Cells = [[*found[0]], *([*map(_printed, row.values())] for row in found)]
    note = (
        "Wins in % [95 % interval over questions]: as judged; corrected by the bias in each "
        "candidate's own pairs, or in all pairs together (pooled). first / second: pairs that show "
        "the candidate first or second; after: the same after the correction."
    )
    if judging.are_verdicts(judgments.margins):
        note = (
            "Wins in % [95 % interval over questions], a tie as half. first / second: pairs that "
            "show the candidate first or second; both orders: the mean of both, so that a pair "
            "that changes counts as half; agreed: pairs with one answer in both orders."
        )
    show_cells("Win rates", cells[: MAX_SHOWN + 1], note)
    if len(cells) > MAX_SHOWN + 1:
        summaries.print_filled(f"{len(cells) - 1 - MAX_SHOWN} more: use --output=FILE to get all.")
    if args.output:
        write_whole(Path(args.output), _csv(found).encode())
        print(f"win rates: {args.output}")


def _show_read(judgments: Judgments, pairs: judging.SwapPairs) -> None:
    """Prints counts of the judgments, and the first pair; computes and writes nothing."""
    name, margin = judgments.names[judgments.candidate[0]], judgments.margins[0]
    place = "first" if judgments.is_first[0] else "second"
    counts = {
        "pairs": len(judgments.margins),
        "candidates" + " by judge" * (len(judgments.judges) > 1): len(judgments.names),
        "questions": len(np.unique(judgments.question)),
        "pairs with the candidate first": int(judgments.is_first.sum()),
        "pairs in both orders": len(pairs.rows),
        "ties": int(judgments.is_tie.sum()),
        "pairs without a score": int(np.isnan(judgments.margins).sum()),
        "pairs with people's answer": int((judgments.human >= 0).sum()),
    }  # fmt: skip
    for what, count in counts.items():
        print(f"{count:8,} {what}")
    summaries.print_filled(
        f"The first pair: {name!r} shown {place}, log-odds of the answer shown first {margin:+.2f} "
        "nats. All judgments are in the file: nothing was sent, and nothing was written."
    )


def sentences(judgments: Judgments, pairs: judging.SwapPairs) -> list[str]:
    """Describes the position bias, the pairs that it flips, and the value of a swapped pair."""
    margins, lines = judgments.margins, list[str]()
    for number, name in enumerate(judgments.judges):
        of_judge = np.where(judgments.judge == number, margins, np.nan)
        if not name or not np.isnan(of_judge).all():
            title = f" ({name})" if name else ""
            lines.append(_preference(judgments._replace(margins=of_judge), title))
    rows = zip(judgments.candidate, judgments.question, judgments.is_first, strict=True)
    if repeated := len(margins) - len(set(rows)):
        said = f"{repeated:,} pairs repeat the same candidate, question and order"
        lines.append(f"{said}: do two candidates have the same name?")
    if unknown := int(np.isnan(margins).sum()):
        lines.append(f"{unknown:,} pairs have no score and are left out.")
    if len(pairs.rows):
        lines.append(
            f"In {len(pairs.rows):,} pairs in both orders, {100 * pairs.is_flipped.mean():.1f} % "
            f"change the preferred answer with the order, and {100 * pairs.is_tied.mean():.1f} % "
            "have a tie in one order. Their mean over both orders needs no correction."
        )
    with suppress(InputError):  # raised if the orders are not random
        if len(pairs.rows) > 1 and not judging.are_verdicts(margins):
            said = f"as precise as {judging.calls_per_swap(judgments, pairs):.2f} corrected calls"
            lines.append(f"A pair in both orders costs two calls and is {said} in one order.")
    if human := (judgments.human >= 0).sum():
        lines.append(f"{human:,} pairs have people's answer.")
    answers = zip(judgments.candidate, judgments.question, judgments.human, strict=True)
    known = {answer for answer in answers if answer[-1] >= 0}
    if contradictory := len(known) - len({answer[:2] for answer in known}):
        said = f"People's answers to {contradictory:,} of these questions contradict each other"
        lines.append(f"{said}: correct those that are mistakes.")
    return lines


def _preference(judgments: Judgments, name: str) -> str:
    """Describes the position bias of the judge of all scored pairs; `name` follows "The judge"."""
    preference, error = judging.position_preference(judgments)
    own = judging.place_preference(judgments, by_candidate=True)
    is_scored = ~np.isnan(judgments.margins)
    scored = judgments.margins[is_scored]
    if not np.isfinite(error):
        expected = "scored pairs of two or more questions"
        questions = len(np.unique(judgments.question[is_scored]))
        remedy = "judge more questions, each in a random order, or in both orders"
        raise InputError.at(f"judge{name}", expected, questions, remedy)
    n = int(((judgments.margins == 0) | (judgments.is_tie & is_scored)).sum())
    if judging.are_verdicts(scored):
        ties = f" ({n:,} ties count as half)" if n else ""
        first = judging.win_rate(np.sign(scored) * 50.0, judgments.question[is_scored])
        return (
            f"All {len(scored) - n:,} scores{name} have the same size: they are verdicts without "
            f"strengths. The answer shown first wins {first} % of the pairs{ties}. No verdict can "
            "be corrected: the mean of both orders has no position bias, but a pair that changes "
            "stays undecided. A preference in nats, and win rates corrected by it, need log-odds, "
            "probabilities, or the share of 10 verdicts in p_first."
        )
    ties = f", {n:,} ties among them" if n else ""
    # Candidates with a bias of the same sign.
    agreeing = len(np.unique(own.group[is_scored & (np.sign(own.nats) == np.sign(preference))]))
    return (
        f"The judge{name} prefers the answer shown {'first' if preference > 0 else 'second'} by "
        f"{abs(preference):.2f} ± {error:.2f} nats, a factor of {np.exp(abs(preference)):.1f} "
        f"(mean and standard error of {len(scored):,} pairs{ties}; {agreeing} of "
        f"{len(np.unique(own.group[is_scored]))} candidates agree)."
    )


def turned_comparisons(judgments: Judgments, found: Sequence[Mapping[str, object]]) -> list[str]:
    """Describes two candidates of a judge whose order the shared correction turns."""
    if "pooled" not in found[0]:
        return []
    cells = np.array([[row["as judged"], row["pooled"]] for row in found], float)
    percents = 100 * cells[1:, :, 0]  # [candidates, 2], without intervals and the row of all
    judge = judgments.judge[np.unique(judgments.candidate, return_index=True)[1][: len(percents)]]
    gaps = percents[:, None] - percents  # [candidates, candidates, 2]
    turned = np.where(judge[:, None] == judge, -gaps.prod(axis=-1), 0.0)
    if not (turned > 0).any():
        return []
    pair = np.array(np.unravel_index(np.nanargmax(turned), turned.shape))
    names = " and ".join(repr(judgments.names[candidate]) for candidate in pair)
    before, after = ("{:.1f} and {:.1f}".format(*column) for column in percents[pair].T)
    return [
        "The shared correction (pooled) turns comparisons of two candidates, "
        f"{(turned > 0).sum() // 2:,} in all, such as {names}: {before} % as judged, "
        f"{after} % after it."
    ]


def rates(judgments: Judgments, pairs: judging.SwapPairs) -> list[dict[str, object]]:
    """Returns each candidate's results by column; the first row is all candidates together."""
    is_first = judgments.is_first
    as_judged = judging.candidate_log_odds(judgments.margins, is_first)
    columns = {"as judged": as_judged}
    removed: dict[str, tuple[judging.Preference, np.ndarray]] = {}
    try:
        for name, by_candidate in (("corrected", True), ("pooled", False)):
            corrected = judging.remove_preference(judgments, by_candidate=by_candidate)
            columns[name] = judging.candidate_log_odds(corrected, is_first)
            removed[name] = judging.place_preference(judgments, by_candidate=by_candidate), is_first
    except InputError as error:
        if not len(pairs.rows):
            raise
        summaries.say_notes([f"{error} Only pairs in both orders are corrected."])
    if are_verdicts := judging.are_verdicts(judgments.margins):
        columns, removed = {"as judged": as_judged}, {}  # A shift of verdicts means nothing.
    groups = [("all", np.ones(len(is_first), bool))]
    if len(judgments.names) > 1:
        is_of = judgments.candidate == np.arange(len(judgments.names))[:, None]  # [candidates, n]
        groups += zip(judgments.names, is_of, strict=True)
    last, found = columns.get("corrected", as_judged), []
    for name, rows in groups:
        row: dict[str, object] = {"candidate": name, "pairs": int(rows.sum())}
        for column, log_odds in columns.items():
            row[column] = judging.win_rate(log_odds, judgments.question, rows, removed.get(column))
        row["first / second"] = _by_place(as_judged, rows, is_first)
        if not are_verdicts:
            row["after"] = _by_place(last, rows, is_first)
        if len(pairs.rows):
            inside, of_pairs = rows[pairs.rows[:, 0]], judgments.question[pairs.rows[:, 0]]
            both, counted = pairs.log_odds, {"both orders": inside}
            if are_verdicts:
                # A win and a tie have a mean of 3/4.
                both = np.where(pairs.is_tied, np.sign(both) * np.log(3), both)
                counted["agreed"] = inside & ~pairs.is_flipped & ~pairs.is_tied
            for column, which in counted.items():
                row[column] = judging.win_rate(both, of_pairs, which) if which.any() else None
        if (judgments.human >= 0).any():
            is_scored = rows & ~np.isnan(last)
            labeled = judgments.human[is_scored], judgments.question[is_scored]
            row["by people"] = judging.corrected_rate(last[is_scored] > 0, *labeled)
        found.append(row)
    return found


def _by_place(log_odds: np.ndarray, rows: np.ndarray, is_first: np.ndarray) -> tuple[float, float]:
    """Returns the win rate in % shown first, and shown second; NaN without such pairs."""
    known = rows & ~np.isnan(log_odds)
    return _percent(log_odds[known & is_first]), _percent(log_odds[known & ~is_first])


def _percent(log_odds: np.ndarray) -> float:
    return 100 * judging.win_rate(log_odds).value if len(log_odds) else np.nan


def _printed(found: object) -> str:
    """Formats a number for the terminal."""
    if isinstance(found, Estimate):
        # An estimate from one question has no interval.
        return str(found) if np.isfinite(found.low) else f"{100 * found.value:.1f}"
    if isinstance(found, tuple):
        return " / ".join("–" if np.isnan(rate) else f"{rate:.1f}" for rate in found)
    return "" if found is None else f"{found:,}" if isinstance(found, int) else str(found)


def _csv(rows: Sequence[Mapping[str, object]]) -> str:
    """Returns the rows as CSV: plain numbers, win rates in % with the ends of their intervals."""
    lines = list[dict[str, object]]()
    for row in rows:
        cells: dict[str, object] = {}
        for column, found in row.items():
            name = column.replace("first / second", "as judged").replace(" ", "_")
            if isinstance(found, tuple) and not isinstance(found, Estimate):
                ends = zip((f"{name}_first", f"{name}_second"), found, strict=True)
            elif column in ("candidate", "pairs"):
                cells[name] = found
                continue
            else:
                numbers = 100 * np.array(found or 3 * [np.nan])
                ends = zip((name, f"{name}_low", f"{name}_high"), numbers, strict=True)
            cells |= {key: "" if np.isnan(number) else f"{number:.2f}" for key, number in ends}
        lines.append(cells)
    return csv_text([[*lines[0]], *([*line.values()] for line in lines)])
