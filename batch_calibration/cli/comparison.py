"""`compare`: every method side by side, of one context or of many together."""

import textwrap
from collections.abc import Mapping, Sequence

import numpy as np

from batch_calibration.cli.progress import Waiting
from batch_calibration.diagnosis import Comparison
from batch_calibration.diagnosis.comparison import predict_by_methods
from batch_calibration.diagnosis.method_results import judge_answers, pool
from batch_calibration.errors import escape_controls
from batch_calibration.methods import METHODS, Options, check_chosen
from batch_calibration.reporting import terminal, words
from batch_calibration.scores import ScoreTable
from batch_calibration.studies.calibration import check
from batch_calibration.studies.groups import find_skipped, make_groups


def compare_tables(
    tables: Sequence[ScoreTable],
    methods: Sequence[str] | None,
    *,
    options: Mapping[str, Options] | None = None,
    seed: int = 0,
) -> list[Comparison]:
    """The methods that each table's blocks allow, judged on its labeled rows.

    Args:
        tables: score tables with right labels.
        methods: names from `METHODS`, all by default.
        options: method -> what its `make` takes.
        seed: of methods that start at random.

    Raises:
        InputError: a table without right labels; options that a method does not take.
    """
    names = [name for name in METHODS if methods is None or name in methods]
    for table in tables:
        check(table)
    chosen = check_chosen(options, names, (len(table.label_names) for table in tables))
    skipped = [find_skipped(table, names, chosen) for table in tables]
    by_position: dict[int, Comparison] = {}
    with Waiting("comparing methods", len(tables)) as waiting:
        for group in make_groups(tables, skipped, names, None):
            picks = predict_by_methods(group.blocks, group.methods, chosen, seed=seed)
            for i, (position, table) in enumerate(group.tables):
                usable = [name for name in picks if name not in skipped[position]]
                by_method: dict[str, np.ndarray] = {name: picks[name][i] for name in usable}
                gold = table.blocks["test"].labels
                by_position[position] = judge_answers(by_method, gold, skipped[position])
            waiting.update(len(by_position))
    return [by_position[position] for position in range(len(tables))]


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
        _print_filled(words.comparison_note(shown, is_all=is_all, more="--all shows"))
        if is_all:
            for sentence in _why_skipped(shown):
                _print_filled(sentence)


def _why_skipped(comparison: Comparison) -> list[str]:
    """Which methods are left out, those of one reason together."""
    by_reason: dict[str, list[str]] = {}
    for name, reason in comparison.skipped.items():
        by_reason.setdefault(reason, []).append(name)
    return [f"Left out, {reason}: {', '.join(names)}." for reason, names in by_reason.items()]


def _print_filled(sentence: str) -> None:
    print(textwrap.fill(escape_controls(sentence), terminal.prose_width()))
