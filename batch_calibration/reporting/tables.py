"""Every table is a pivot of one frame: rows by factors, a column for each method."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

import numpy as np

from batch_calibration.methods import METHODS
from batch_calibration.methods.table import SHELF
from batch_calibration.metrics import Estimate, deviation, over_tasks
from batch_calibration.metrics.intervals import MIN_PROMPTS, change_of_deviation, over_units
from batch_calibration.reporting import cells, curves, frame
from batch_calibration.reporting.cells import Cells, NumberCell, Sums
from batch_calibration.reporting.frame import BASELINE, CORRECTED, REFERENCES, Frame, factor_name
from batch_calibration.reporting.items import Results, Table, notes_of
from batch_calibration.reporting.words import Card

MAX_METHODS = 12  # columns of a pivot; of more methods it shows the default ones
MAX_LEVELS = 60  # levels of a factor with a table of its own, except tasks and models
MAX_TASKS = 200  # tasks in the table of gains; of more tasks the table by task marks them
MAX_MODELS = 4  # models with columns side by side
FEWEST_MODELS = 3  # from here on an interval has the models as its unit
MIN_TEST_ROWS = 200  # with fewer rows, an accuracy near 50 % is known to 7 points at best
PROBABILITIES = {"nll": "NLL (nats)", "brier": "Brier (0 to 2)", "ece": "ECE (0 to 1)"}
"""Metric of probabilities -> its name and unit."""
DENSITIES = ("pc", "pc_raw")  # methods without a likelihood of labels
PROBABILITIES_NOTE = (
    "Lower is better; each row's scores go through a softmax over its labels. pc has densities, "
    "and so no NLL."
)
OVERVIEW_UNIT = "accuracy in %, gain in points"
OF_ROW = "± is the standard deviation over the contexts of a row (n - 1)."
SPREAD_NOTE = (
    "Standard deviation of accuracy along one factor while all others are held, in points, mean "
    "over their combinations; combinations with fewer than three levels count only if no other has "
    "more. 'bc - icl', from three levels on, has a 95 % interval over levels and rows; below 0 the "
    "choice matters less after the correction."
)


def pivot(group: Frame, names: Sequence[str], methods: Sequence[str]) -> Cells:
    """Makes a row for each combination of levels: accuracy in %, mean ± standard deviation."""
    count = "rows" if "task" in names else "contexts"
    rows: Cells = [[*map(factor_name, names), count, *methods]]
    for levels, part in group.by(*names).items():
        size = cells.rows_cell(part.records) if count == "rows" else str(len(part))
        titles = [frame.level_title(name, of) for name, of in zip(names, levels, strict=True)]
        rows.append([*titles, size, *accuracy_cells(part, methods)])
    return rows


def accuracy_cells(part: Frame, methods: Sequence[str]) -> list[NumberCell]:
    """Formats the accuracy of each method, the best marked; a dash if some context lacks it."""
    means, texts = list[float | None](), list[NumberCell]()
    for method in methods:
        means.append(100 * part.average(method) if part.has(method) else None)
        values = 100 * part.values(method) if part.has(method) else np.zeros(0)
        texts.append(cells.mean_cell(means[-1], values))
    return cells.mark_best(means, texts)


def shown_methods(group: Frame) -> list[str]:
    """Returns the methods of a pivot's columns: all, or of many the default ones."""
    names = group.some_methods
    if len(names) <= MAX_METHODS:
        return names
    return [name for name in names if name in SHELF]


def by_task(group: Frame) -> Cells:
    """Makes a row for each task, then the average, the gain over icl and the tasks won and lost."""
    methods, learned = shown_methods(group), frame.learned_tasks(group)
    rows = pivot(group, ["task"], methods)
    gains = {method: group.gains(method) for method in methods if method in group.compared}
    for task, row in zip(group.tasks, rows[1:], strict=True):
        served = group.tasks[task].records[0].context.served
        row[0] += f" ({served})" * bool(served) + f" {cells.LEARNED}" * (task in learned)
        for i, method in enumerate(methods, 2):
            if method in gains and gains[method][task].beyond_noise:
                # The mark is as bold as its cell.
                row[i] = type(row[i])(f"{row[i]} {cells.MARK}")
    return [*rows, *sum_rows(group, methods)] if len(group.tasks) > 1 else rows


def sum_rows(group: Frame, methods: Sequence[str]) -> Cells:
    """Makes the last rows: averages over the tasks, their gains, and the tasks won and lost."""
    means = [100 * group.average(method) if group.has(method) else None for method in methods]
    texts = [cells.mean_cell(mean, np.zeros(0)) for mean in means]
    rows: Cells = [Sums(["average", "", *cells.mark_best(means, texts)])]
    if set(methods) & set(group.compared):
        pairs = [gain_cells(group, method) for method in methods]
        rows.append(Sums(["gain over icl", "", *(gain for gain, _ in pairs)]))
        rows.append(Sums([cells.WINS, "", *(wins for _, wins in pairs)]))
    return rows


def gain_cells(group: Frame, method: str) -> tuple[str, str]:
    """Formats the mean gain over tasks and the tasks won and lost; empty if it is not known."""
    if method not in group.compared:
        return "", ""
    mean = cells.gain_cell(group.gain(method), is_changed=group.changes(method))
    return mean, cells.wins_cell(group.gains(method).values())


def by_factor(group: Frame, name: str, methods: Sequence[str]) -> Cells:
    """Makes a row for each level of a factor, with the gain of bc."""
    rows = pivot(group, [name], methods)
    if group.has_references:
        rows[0].append(f"gain of {CORRECTED}")
        for row, part in zip(rows[1:], group.by(name).values(), strict=True):
            row.append(gain_cells(part, CORRECTED)[0])
    if name == "model" and len(rows) > FEWEST_MODELS and group.has_references:
        parts = [part.gain(CORRECTED).value for part in group.by(name).values()]
        mean = cells.gain_cell(over_units(parts))
        rows.append(Sums(["mean over models", "", *[""] * (len(rows[0]) - 3), mean]))
    return rows


def gains(group: Frame) -> Cells:
    """Makes a row for each task: the gain of each method over icl, in points."""
    methods = [name for name in shown_methods(group) if name in group.compared]
    rows: Cells = [["task", "rows", *methods]]
    for task, part in group.tasks.items():
        own = [gain_cells(part, method)[0] for method in methods]
        rows.append([frame.task_title(task), cells.rows_cell(part.records), *own])
    _, means, wins = sum_rows(group, methods)
    return [*rows, Sums(["average", *means[1:]]), wins]


def overview(group: Frame) -> Cells:
    """Makes a row for each method: accuracy and gain, averages over the tasks, in %."""
    methods = [BASELINE, *group.compared]
    means = [group.accuracy(method) for method in methods]
    shown = [cells.estimate_cell(mean, is_share=True) for mean in means]
    marked = cells.mark_best([100 * mean.value for mean in means], shown)
    rows: Cells = [["method", "accuracy", "gain over icl", cells.WINS]]
    for method, cell in zip(methods, marked, strict=True):
        rows.append([method, cell, *gain_cells(group, method)])
    # Of one task the count of wins repeats the mark of the gain.
    return rows if len(group.tasks) > 1 else [row[:3] for row in rows]


def spread(group: Frame, methods: Sequence[str]) -> Cells:
    """Makes a row for each factor: how far accuracy moves along it while the others are held."""
    rows: Cells = [["factor", "levels", *methods]]
    changes = list[Estimate | None]()
    for name in group.varying:
        matched = group.matched(name).frame
        held = [other for other in matched.varying if other != name]
        parts = [part for part in matched.by(*held).values() if len(part) > 1]
        # The change needs enough levels, and rests on the parts that the deviations rest on.
        parts = [part for part in parts if len(part) >= MIN_PROMPTS] or parts
        if not parts:
            continue
        means = []
        for method in methods:
            is_known = all(part.has(method) for part in parts)
            deviations = [100 * deviation(part.values(method)) for part in parts if is_known]
            means.append(f"{np.mean(deviations):.1f}" if deviations else "-")
        rows.append([factor_name(name), str(len(matched.levels(name))), *map(NumberCell, means)])
        is_compared = group.has_references and name != "task"
        changes.append(_change(parts) if is_compared else None)
    if any(changes):
        rows[0].append("bc - icl")
        for row, change in zip(rows[1:], changes, strict=True):
            row.append(cells.gain_cell(change))
    return rows if len(rows) > 1 else []


def _change(parts: Iterable[Frame]) -> Estimate | None:
    """Estimates bc's standard deviation less icl's, mean over groups of contexts and tasks."""
    by_task: dict[str, list[Estimate]] = {}
    for part in parts:
        before, after = (np.array(part.right(method), object) for method in REFERENCES)
        if before.ndim < 2 or len(part.tasks) > 1:  # contexts with different rows
            continue
        sides = [np.asarray(side, np.float64)[:, None] for side in (before, after)]
        if change := change_of_deviation(*sides):
            by_task.setdefault(next(iter(part.tasks)), []).append(change)
    # Groups of a task have the same rows, so their errors do not average out.
    estimates = [Estimate(*np.mean(of_task, axis=0).tolist()) for of_task in by_task.values()]
    return over_tasks(estimates) if estimates else None


def side_by_side(group: Frame, methods: Sequence[str]) -> Cells:
    """Makes a row for each task, with the columns of each model side by side."""
    models = group.by("model")
    shared = set(group.tasks).intersection(*(part.tasks for part in models.values()))
    tasks = list(filter(shared.__contains__, group.tasks))
    rows: Cells = [["task", "rows"], *([frame.task_title(task)] for task in tasks)]
    for row, task in zip(rows[1:], tasks, strict=True):
        row.append(cells.rows_cell(group.tasks[task].records))
    rows.append(Sums(["average", ""]))
    for (model,), part in models.items():
        of_shared = Frame(list(chain.from_iterable(part.tasks[task].records for task in tasks)))
        rows[0] += [f"{model or 'unnamed'} {method}" for method in methods]
        for row, one in zip(rows[1:], [*map(part.tasks.get, tasks), of_shared], strict=True):
            found = accuracy_cells(one, methods) if one else []
            row += [cell.split(" ±")[0] if one is of_shared else cell for cell in found]
    return rows if tasks else []


def probabilities(group: Frame) -> Cells:
    """Makes a row for each method: metrics of its probabilities, averaged over the tasks."""
    methods = list(group.methods)
    for record in group.records:
        metrics_of = {name: result.metrics.keys() for name, result in record.methods.items()}
        methods = [name for name in methods if PROBABILITIES.keys() <= metrics_of[name]]
    columns = []
    for metric in PROBABILITIES:
        averages: list[object] = []
        for name in methods:
            is_known = metric != "nll" or name not in DENSITIES
            averages.append(group.average(name, metric) if is_known else ())
        columns.append(cells.best_of(averages, digits=3, is_lowest=True))  # type: ignore[arg-type]
    rows = [list(row) for row in zip(methods, *columns, strict=True)]
    return [["method", *PROBABILITIES.values()], *rows] if methods else []


def gain_note(group: Frame) -> str:
    """Returns the sentences below gains: the unit of their intervals, and tasks with few rows."""
    over = "test rows"
    if group.draws > 1:
        over = "contexts of a task and its test rows, which all its contexts share"
    small = []
    for name, task in group.tasks.items():
        small += [name] * (min(record.labeled_rows for record in task.records) < MIN_TEST_ROWS)
    few_rows = f" Fewer than {MIN_TEST_ROWS} test rows: " * bool(small)
    few_rows += ", ".join(map(frame.task_title, small[:MAX_METHODS])) + "." * bool(small)
    return (
        f"Gains are paired by row, in points, with 95 % intervals over {over}; {cells.MARK} beyond "
        f"noise: the interval excludes 0.{few_rows}"
    )


def task_note(group: Frame) -> str:
    """Returns the sentences below accuracies by task."""
    sentences = ["± is the standard deviation over a task's contexts (n - 1)."] * (group.draws > 1)
    if frame.learned_tasks(group):
        sentences.append(
            f"{cells.LEARNED} learned: the better of icl and bc is {frame.LEARNED_MARGIN:.0f} "
            "points or more above chance, and its interval is above chance and the share of the "
            "most frequent label."
        )
    return " ".join([*sentences, gain_note(group)] if group.compared else sentences)


def match_note(group: Frame, name: str, kept: Frame) -> str:
    """Returns a sentence on the contexts that the table of a factor leaves out or cannot match."""
    matched = group.matched(name)
    if not matched.is_fair or len(matched.frame) < len(kept):
        return f"Not matched: contexts of different {factor_name(name)}s differ in other factors."
    if left := len(group) - len(kept):
        return (
            f"{len(kept)} of {len(group)} contexts, matched in the other factors; {left} are left "
            f"out, because their counterparts are missing."
        )
    return ""


def of_study(section: str, group: Frame) -> Iterator[Table]:
    """Makes the tables of a study, the first for its headline."""
    board = group.board
    # The ensemble is one answer from all levels.
    shelf = [name for name in shown_methods(group) if not METHODS[name].averages]

    def table(
        part: Frame, kind: str, heading: str, rows: Cells, note: str = "", **more: object
    ) -> Table:
        slug = f"{section}-{kind}"
        # A table is also a file of its own, so each has the remarks of the records.
        note = notes_of(group, note, group.options)
        return Table(section, slug, f"{heading}: {part.heading}", rows, note, **more)  # type: ignore[arg-type]

    if board.compared:
        note = f"{cells.rows_cell(board.records)} test rows." if len(board) == 1 else ""
        yield table(board, "methods", "Each method", overview(board), note, unit=OVERVIEW_UNIT)
    is_alone = len(group) == 1 and not board.compared
    if is_alone or "task" in group.varying:
        note = " ".join(filter(None, (task_note(board), match_note(group, "task", board))))
        yield table(board, "by-task", "By task", by_task(board), note, keys=2)
        if board.compared and len(board.tasks) <= MAX_TASKS:
            rows, note = gains(board), gain_note(board)
            yield table(board, "gains", "Gain over icl", rows, note, unit="points")
    for name in group.varying:
        if name != "task" and len(group.levels(name)) <= MAX_LEVELS:
            matched, number = group.matched(name).frame, NUMBERS.get(name, "")
            rows = by_factor(matched, name, shelf)
            of_gains = gain_note(matched) if matched.has_references else ""
            note = " ".join(filter(None, (match_note(group, name, matched), OF_ROW, of_gains)))
            heading = f"By {factor_name(name)}"
            kind = f"by-{factor_name(name)}".replace(" ", "-")
            yield table(matched, kind, heading, rows, note, keys=2, number=number)
    if len(group) > 2 and (rows := spread(group, shelf)):
        heading = "How far accuracy moves along each factor"
        yield table(group, "spread", heading, rows, SPREAD_NOTE, unit="points", keys=2)
    if 2 <= len(group.levels("model")) <= MAX_MODELS:
        matched = group.matched("model").frame
        if rows := side_by_side(matched, matched.among(REFERENCES)):
            note = match_note(group, "model", matched)
            yield table(matched, "models", "Models side by side", rows, note, keys=2)
    names = [name for name in group.varying if name != "seed"]
    if len(names) > 1:
        rows = pivot(group, names, shelf)
        yield table(group, "contexts", "Every combination", rows, keys=len(names))
    if board.compared and (rows := probabilities(board)):
        yield table(board, "probabilities", "Probabilities", rows, PROBABILITIES_NOTE, unit="")
    for curve in curves.find_curves(section, group):
        yield Table(section, curve.slug, curve.heading, curves.curve_cells(curve), curve.note)


NUMBERS = {"template": "Table 7", "verbalizer": "Table 7"}
"""Factor -> the number of its table in the paper."""


def make_tables(results: Results) -> list[Table]:
    """Makes every table of every study."""
    tables = list[Table]()
    for section, group in results.studies.items():
        if scored := [record for record in group.records if record.methods]:
            tables += of_study(section, Frame(scored))
    return tables


def context_table(section: str, card: Card) -> Table:
    """Makes a row for each context: gain, accuracy before and after, preference and advice."""
    are_cosines = {verdict.diagnosis.cosines for verdict in card.verdicts}
    found = cells.verdict_cells(card.verdicts)
    rows, note = cells.with_unit(found, cells.OVERVIEW_NOTE, are_cosines)
    heading = "Contexts, the largest effect first"
    return Table(section, f"{section}-verdicts", heading, rows, note, unit="")
