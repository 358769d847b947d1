"""Makes the paper's tables: the methods, sizes of models, BCL, the data, and images."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain

import numpy as np

from batch_calibration.methods import METHODS
from batch_calibration.metrics import over_tasks
from batch_calibration.reporting import cells
from batch_calibration.reporting import frame as frames
from batch_calibration.reporting.cells import Cells, Marks, Sums
from batch_calibration.reporting.frame import REFERENCES, Frame, gain
from batch_calibration.reporting.items import PROMPT, Table, notes_of
from batch_calibration.scoring.tasks import PAPER_LANGUAGE, TASKS
from batch_calibration.studies import Record
from experiments.evidence.paper_figures import PaperResults, compared_by_size

BCL_NOTE = "One context a task, that of the first seed: all methods see the same demonstrations."
SIZES_NOTE = (
    "Best of each model in bold, second best underlined (in Markdown italic), as printed. "
    "Of several seeds mean ± standard deviation."
)
FORMULAS = {
    "cc": ("add", "W p, W = diag(q)^-1", "log q = mean of s over the probe", "p0 = c p1"),
    "dc": ("add", "s - b", "b = mean of s over the probe", "s0 = s1 + c"),
    "pc": (
        "EM of a Gaussian mixture", "log N(s; μ, Σ) of each label", "μ, Σ of each label",
        "N(s; μ0, Σ0) = N(s; μ1, Σ1)",
    ),
    "bc": ("add", "s - b", "b = mean of s over the test rows", "s0 = s1 + c"),
    "bcl": (
        "a grid of strengths γ", "s - γ b", "b as BC, γ by accuracy on the labeled set",
        "s0 = s1 + γ c",
    ),
}  # fmt: skip
"""Method -> cost of learning without the model's passes, corrected scores, learned quantity,
boundary between two labels. s are log-probabilities, p probabilities of labels 0, 1, ..."""
METHODS_NOTE = (
    "s are log-probabilities, p probabilities of the labels. Forward passes are those for a batch "
    "beyond its own. The columns of gains are points over ICL in this workdir, averaged over the "
    "tasks of one text, of several texts and of three labels or more: where the paper crosses a "
    "method out by hand, these are measured."
)
KINDS: dict[str, Callable[[str], bool]] = {
    "one text": lambda task: len(TASKS[task].fields) == 1,
    "several texts": lambda task: len(TASKS[task].fields) > 1,
    "three labels or more": lambda task: len(TASKS[task].label_names) > 2,
}
"""Name of a column of gains -> a check whether it averages over a task."""
DATA_NOTE = "'rows in the paper' counts the whole validation split."
IMAGES = {
    "svhn": (18.0, 35.0), "eurosat": (47.8, 54.7), "ucf101": (66.7, 66.0),
    "clevr": (14.7, 29.2), "aircraft": (24.8, 22.3), "dtd": (44.4, 41.7),
}  # fmt: skip
"""Accuracy in % of CLIP ViT-B/16, zero-shot and with BC (Zhou et al. 2024, Table 6)."""
PAPER_MODEL = re.compile(r"vit-?b(ase)?-?(patch)?/?16", re.IGNORECASE)  # names of its checkpoint
DRAWN_IMAGES = (
    "These are drawn images of 48 x 48 pixels, of DTD 12 of its 47 classes, with noise whose size "
    "was chosen with a look at the test images (docs/mini.md): a small CLIP's accuracy on them is "
    "not a result on the data sets of these names, and does not compare with the paper."
)
"""The note on images of the embedded suite."""
UNLIKE_IMAGES = (
    "The paper's numbers are of CLIP ViT-B/16 on all test images and classes; this is another "
    "setting, so they are left out."
)


def paper_tables(results: PaperResults) -> Iterator[Table]:
    """Yields the paper's tables of results; a table without rows is left out."""
    main, sizes = results.main, results.sizes
    by_shots = [*results.by_model("0")[:1], *results.middle]
    if main is not None:
        heading, note = f"What each method does: {main.heading}", METHODS_NOTE
        yield _table(1, heading, method_cells(main), note, "gains in points")
    if len(sizes) > 1:
        columns = [(group.levels("model")[0], group) for group in (sizes[0], sizes[-1])]
        yield _sizes(2, "Models of two sizes, 1 shot", columns)
    if main is not None and (rows := bcl_cells(main)):
        heading, note = f"A strength learned from labels: {main.heading}", notes_of(main, BCL_NOTE)
        yield _table(3, heading, rows, note)
    if main is not None and (rows := data_cells(main)):
        yield _table(4, f"Data: {main.heading}", rows, data_note(main), unit="")
    if by_shots:
        columns = []
        for group in by_shots:
            model, shots = (group.levels(name)[0] for name in ("model", "shots"))
            columns.append((f"{model} {shots}-shot", first_seeds(group)))
        yield _sizes(5, "Zero-shot and the middle size", columns)
    for group in image_settings(results.records):
        if rows := image_cells(group):
            yield _table(6, "Zero-shot images", rows, notes_of(group, image_note(group)))


def _table(number: int, heading: str, rows: Cells, note: str, unit: str = "accuracy in %") -> Table:
    return Table("", f"paper-{number}", heading, rows, note, unit, number=f"Table {number}")


def _sizes(number: int, heading: str, columns: Sequence[tuple[str, Frame]]) -> Table:
    records = list(chain.from_iterable(group.records for _, group in columns))
    return _table(number, heading, size_cells(columns), notes_of(Frame(records), SIZES_NOTE))


def first_seeds(group: Frame) -> Frame:
    """Selects one context for each task, with the first seed."""
    return Frame([task.records[0] for task in group.tasks.values()])


def method_cells(measured: Frame) -> Cells:
    """Makes a row for each method with formulas, with its measured gains."""
    header = "method, probe, forward passes, learning costs, scores after, learned, decides where"
    rows: Cells = [header.split(", ")]
    for name in filter(FORMULAS.__contains__, METHODS):
        probe = METHODS[name].probe
        # Contexts can have more or fewer rows of a probe than usual.
        asked = measured.records[0].rows.get(next(iter(probe.blocks), ""), probe.forwards)
        passes = f"{asked} + 1" if probe.forwards else "1"
        rows.append([name, probe.name, passes, *FORMULAS[name]])
    for kind, is_kind in KINDS.items():
        tasks = [task for task in measured.tasks if task in TASKS and is_kind(task)]
        if not tasks or not set(FORMULAS) & set(measured.compared):
            continue
        rows[0].append(f"gain, {kind}")
        for row in rows[1:]:
            mean = None
            if row[0] in measured.compared:
                mean = over_tasks([gain(measured.tasks[task], row[0]) for task in tasks])
            row.append(cells.gain_cell(mean))
    return rows


def size_cells(columns: Sequence[tuple[str, Frame]]) -> Cells:
    """Makes a row for each task and the average over a model's tasks: accuracy in %.

    Args:
        columns: the heading of a model's columns, and its results.
    """
    shown = [(group, group.among(compared_by_size())) for _, group in columns]
    rows = _accuracies(shown, (cells.Best, cells.Second))
    for (name, _), (_, methods) in zip(columns, shown, strict=True):
        rows[0] += [f"{name} {method}" for method in methods]
    return rows


def _accuracies(columns: Sequence[tuple[Frame, Sequence[str]]], marks: Marks) -> Cells:
    """Makes a row for each task and the average, for methods of frames; the header is not whole."""
    tasks: dict[str, Frame] = {}
    averages = Sums(["average", ""])
    for group, methods in columns:
        averages += cells.best_of([100 * group.average(name) for name in methods], marks=marks)
        tasks = group.tasks | tasks  # the first frame with a task names it
    rows: Cells = [["task", "rows"]]
    for task in sorted(tasks, key=frames.position):
        row = [_task_name(tasks[task]), cells.rows_cell(tasks[task].records)]
        for group, methods in columns:
            part = group.tasks.get(task)
            samples = [100 * part.values(name) if part else () for name in methods]
            row += cells.best_of(samples, marks=marks)
        rows.append(row)
    return [*rows, averages]


def _task_name(task: Frame) -> str:
    """Returns the task's title, with the split that served if the requested one is missing."""
    context = task.records[0].context
    return frames.task_title(context.task) + f" ({context.served})" * bool(context.served)


def bcl_cells(group: Frame) -> Cells:
    """Makes a row for each task with the learned strength, and the average; empty without BCL."""
    firsts = first_seeds(group).records
    kept = Frame([record for record in firsts if "bcl" in record.methods])
    if not kept.records:
        return []
    methods = kept.among([*REFERENCES, "bcl"])
    rows = _accuracies([(kept, methods)], (cells.Best,))
    strengths = [record.methods["bcl"].strength for record in kept.records]
    column = ["-" if strength is None else f"{strength:+.1f}" for strength in strengths]
    rows[0] += methods
    for row, cell in zip(rows, ["γ learned", *column, ""], strict=True):
        row.append(cell)
    return rows


def data_cells(group: Frame) -> Cells:
    """Makes a row for each task of the paper; empty without such tasks."""
    rows: Cells = [["task", "objective", "texts", "labels", "rows tested", "rows in the paper"]]
    for name, part in group.tasks.items():
        if name in PAPER_LANGUAGE:
            task, tested = TASKS[name], cells.rows_cell(part.records)
            counts = [str(len(task.fields)), str(len(task.label_names)), tested]
            rows.append([_task_name(part), task.objective, *counts, str(task.test_rows)])
    return rows if len(rows) > 1 else []


def data_note(group: Frame) -> str:
    """Returns the sentences on both numbers of rows."""
    suites = ", ".join(filter(None, group.levels("data")))
    tested = f"'rows tested' counts rows of the data {suites}." if suites else ""
    return notes_of(group, DATA_NOTE, tested)


def image_settings(records: Iterable[Record]) -> Iterator[Frame]:
    """Yields the contexts of images with usual prompts, by all factors except task and seed."""
    of_images = [record for record in records if record.context.task in IMAGES]
    kept = [record for record in of_images if not {*PROMPT} & record.context.options.keys()]
    images = Frame(frames.sort_records(kept))
    names = [name for name in images.varying if name not in ("task", "seed")] if kept else []
    yield from images.by(*names).values()


def is_of_paper(group: Frame) -> bool:
    """Checks whether images are scored as in the paper: its checkpoint, all real images."""
    for record in group.records:
        context = record.context
        options = [*context.blocks.values(), *(of.options for of in record.methods.values())]
        # Prompts of images have no demonstrations, so long prompts are no other setting.
        changed = [*(context.options.keys() - {"over_long"}), *filter(None, options)]
        is_whole = context.data != "mini" and not context.limit and record.floor is None
        if changed or not is_whole or not PAPER_MODEL.search(context.model):
            return False
    return True


def image_note(group: Frame) -> str:
    """Returns the reason why the paper's numbers are left out; empty if the table has them."""
    if is_of_paper(group):
        return ""
    return DRAWN_IMAGES if "mini" in group.levels("data") else UNLIKE_IMAGES


def image_cells(group: Frame) -> Cells:
    """Makes a row for each task: zero-shot and BC in %, and the paper's in the same setting."""
    tasks = list(filter(IMAGES.__contains__, group.tasks))
    if not tasks or not all(map(group.has, REFERENCES)):
        return []
    columns = []
    for method in REFERENCES:
        means = [100 * group.tasks[task].values(method).mean() for task in tasks]
        columns.append(means)
    sides = {"": np.stack(columns, axis=1)}  # [task, 2]
    if is_of_paper(group):
        sides["paper "] = np.array([IMAGES[task] for task in tasks])
    rows: Cells = [["task"], *([_task_name(group.tasks[task])] for task in tasks)]
    rows.append(Sums(["average"]))
    for side, shares in sides.items():
        rows[0] += [f"{side}ZS", f"{side}ZS+BC", f"{side}gain"]
        with_average = np.vstack([shares, shares.mean(axis=0)])
        for row, (before, after) in zip(rows[1:], with_average, strict=True):
            row += [f"{before:.1f}", f"{after:.1f}", f"{after - before:+.1f}"]
    return rows
