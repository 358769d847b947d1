"""`compare`: every method side by side, of one context or of many together."""

import textwrap
from collections.abc import Sequence

from batch_calibration.diagnosis import Comparison
from batch_calibration.diagnosis.method_results import pool
from batch_calibration.errors import escape_controls
from batch_calibration.reporting import terminal, words
from batch_calibration.scores import ScoreTable


def show(
    tables: Sequence[ScoreTable],
    comparisons: Sequence[Comparison],
    titles: Sequence[str],
    *,
    is_all: bool = False,
    is_quiet: bool = False,
) -> None:
    """One table a model: of one context with intervals, of several together with counts."""
    by_model: dict[str, list[int]] = {}
    for number, table in enumerate(tables):
        by_model.setdefault(str(table.context.get("model") or ""), []).append(number)
    for model, numbers in by_model.items():
        shown = comparisons[numbers[0]]
        heading = titles[numbers[0]]
        if len(numbers) > 1:
            shown = pool([comparisons[number] for number in numbers])
            heading = f"{model or 'unnamed model'}: {len(numbers):,} contexts"
        print(escape_controls(f"{heading}, {shown.rows:,} labeled rows"))
        print("\n".join(terminal.aligned(words.comparison_cells(shown, is_all=is_all))))
        if is_quiet:
            continue
        _print_filled(words.reading_note(shown, is_all=is_all, more="--all shows"))
        if is_all:
            for sentence in _why_skipped(shown):
                _print_filled(sentence)


def _why_skipped(comparison: Comparison) -> list[str]:
    """The methods that are left out, by reason."""
    by_reason: dict[str, list[str]] = {}
    for name, reason in comparison.skipped.items():
        by_reason.setdefault(reason, []).append(name)
    return [f"Left out, {reason}: {', '.join(names)}." for reason, names in by_reason.items()]


def _print_filled(sentence: str) -> None:
    print(textwrap.fill(escape_controls(sentence), terminal.prose_width()))
