"""Runs the commands on studies, for `batch-calibration score` and `python -m experiments.score`."""

import shlex
import sys
from argparse import Namespace
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from batch_calibration import studies
from batch_calibration.cli import launchers, machine
from batch_calibration.cli.machine import keep_programs
from batch_calibration.cli.study_options import chosen_settings, chosen_studies
from batch_calibration.errors import InputError, refuse_unknown, spell
from batch_calibration.files import write_whole

# Each command imports its dependencies when it runs, so that parsing and --help are fast.
if TYPE_CHECKING:
    from batch_calibration.cli.progress import Waiting
    from batch_calibration.settings import CalibrationSettings, Study
    from batch_calibration.studies.scoring import ScoringReport
    from batch_calibration.studies.workers import Launcher, SweepReport

Say = Callable[[str], None]
DEMO = Path(__file__).parent / "demo"  # written by experiments/evidence/demo_files.py
FORMATS = ("png", "pdf", "svg")  # of figures
FIRST = ("diagnose demo.csv --gold=label", "recommend demo.csv --gold=label")
"""Commands that the demo runs."""
NEXT = (
    "calibrate demo.csv --gold=label --output=demo_corrected.csv",
    "report demo_samples.jsonl --output=demo.html",
    "ask demo_prompts.csv --labels=yes,maybe,no --output=demo_asked.csv \\\n"
    "  --server=http://127.0.0.1:8000/v1 --model=NAME --dry-run",
)
"""Commands that the demo suggests; each runs as printed, `judge demo_judge.jsonl` too."""


def typed_command(arguments: Sequence[str]) -> str:
    """Returns the typed command line of one of our programs; "" for another program.

    >>> typed_command(["/usr/bin/batch-calibration", "score", "--workdir=my runs"])
    "batch-calibration score '--workdir=my runs'"
    >>> typed_command(["/home/me/experiments/score.py", "--workdir=my runs"])
    "python -m experiments.score '--workdir=my runs'"
    """
    program = Path(arguments[0])
    if program.parent.name == "experiments":
        return shlex.join(["python", "-m", f"experiments.{program.stem}", *arguments[1:]])
    if program.name == "batch-calibration" or program.parent.name == "batch_calibration":
        # The second condition is for `python -m batch_calibration`.
        return shlex.join(["batch-calibration", *arguments[1:]])
    return ""


def score(study: "Study", workdir: str, say: Say | None = None) -> "ScoringReport":
    """Scores every context of the study that the workdir does not hold yet; returns the report."""
    from batch_calibration.cli.progress import ProgressBar

    say = say or (lambda sentence: _print_lines([sentence]))
    store = studies.Store(workdir, create=True)
    with ProgressBar("scoring", "examples") as bar:
        typed = typed_command(sys.argv)
        report = studies.run_scoring(*study, store, notify=say, command=typed, progress=bar.update)
    for note in report.notes:
        say(note)
    scored = f"{report.scored:,} rows scored in {report.seconds:.1f} s"
    stored = f"{report.inputs - report.scored:,} were already stored"
    folder = store.workdir / "scores"
    say(f"{len(report.ids)} contexts: {scored}, {stored}; the scores are in {folder}")
    return report


def calibrate(
    workdir: str,
    settings: "CalibrationSettings",
    floor: float | None = None,
    tasks: Sequence[str] = (),
    shots: int | None = None,
) -> None:
    """Writes one record for each selected table, and prints a summary.

    Raises:
        InputError: Some tables could not be read; raised after everything is printed.
    """
    with _waiting("calibrating"):
        report = studies.calibrate_study(workdir, settings, floor=floor, tasks=tasks, shots=shots)
    _print_lines(report.notes)
    if report.skipped:
        listing = Path(workdir) / "left_out.csv"
        rows = [("method", "why it is left out of some contexts"), *report.skipped.items()]
        write_whole(listing, studies.csv_text(rows).encode())
        print(f"left out of some contexts: {len(report.skipped)} methods; reasons: {listing}")
    spent = f"{report.seconds:.1f} s, compilation included"
    print(f"{len(report.records)} score tables in {spent}; the records are in {workdir}/records")
    if report.broken:  # last, so that all other output is complete
        raise InputError(" ".join(report.broken))


def _waiting(doing: str) -> "Waiting":
    from batch_calibration.cli.progress import Waiting

    return Waiting(doing)


def _print_lines(sentences: Iterable[str]) -> None:
    """Prints each sentence once."""
    from batch_calibration.cli.summaries import print_filled

    for sentence in dict.fromkeys(sentences):
        print_filled(sentence)


def show_tables(workdir: str, *, quiet: bool = False) -> None:
    """Writes all tables and results; prints the tables."""
    from batch_calibration.reporting import writing
    from batch_calibration.reporting.items import Results

    store = studies.Store(workdir)
    records, folder = store.records(), store.workdir / "tables"
    with _waiting("making tables"):
        tables = writing.write_tables(Results(records, store.table_of), folder)
        files, missing = studies.write_results(records, store.workdir)
    if not quiet:
        writing.print_tables(tables)
    written = f"{len(tables)} tables are in {folder}; all results in {', '.join(map(str, files))}"
    # `missing` is "" if results.parquet was written.
    _print_lines([*_unshown(store, records), *filter(None, [missing]), written])


def _unshown(store: "studies.Store", records: "studies.Records") -> list[str]:
    """Describes tables and records without the other, and methods of plugins that are not named."""
    from batch_calibration.methods import METHODS

    names = set[str]().union(*(record.methods for record in records))
    listed = ", ".join(sorted(names - METHODS.keys()))
    plugin = f"{listed} of the records is not shown: name its file, {spell('plugin', 'FILE')}."
    return [*store.unmatched(records), *([plugin] if listed else [])]


def draw_figures(workdir: str, *, boundary_tasks: int = 2, formats: str = "png") -> None:
    """Draws every figure of the catalogue in these formats, such as "png,pdf"."""
    from batch_calibration.reporting import writing
    from batch_calibration.reporting.items import Results

    forms = formats.split(",")
    for form in forms:
        refuse_unknown("format", form, FORMATS, where=spell("formats", formats))
    keep_programs()
    store, files = studies.Store(workdir), list[Path]()
    records, folder = store.records(), store.workdir / "figures"
    results = Results(records, store.table_of, boundary_tasks)
    with _waiting("drawing figures") as waiting:

        def notify(path: Path) -> None:
            files.append(path)
            waiting.move(len(files))

        writing.write_figures(results, folder, notify, formats=forms)
    _print_lines(_unshown(store, records))
    print(f"{len(files)} files of figures and their numbers are in {folder}")


def make_report(workdir: str) -> None:
    """Writes the page, and prints the gain of each task and the paths of the output."""
    from batch_calibration.cli import summaries
    from batch_calibration.reporting.items import Results
    from batch_calibration.reporting.writing import write_report
    from batch_calibration.studies import runs

    keep_programs()
    store, source = studies.Store(workdir), shlex.quote(workdir)
    page, records = store.workdir / "report.html", store.records()
    results = Results(records, store.table_of)
    past_runs, broken = runs.read(store.workdir)
    warnings = [*_unshown(store, records), *broken]
    with _waiting("writing the page"):
        cards, notes = write_report(results, page, warnings, runs=past_runs, source=source)
    _print_lines(notes)
    summaries.show_gains(cards, source)
    for folder in ("tables", "figures"):
        if (store.workdir / folder).is_dir():  # written by the commands with these names
            print(f"{folder + ':':8} {store.workdir / folder}")
    print(f"report:  {page}")


def run_sweep(
    planned: "Sequence[Study]", workdir: str, launcher: "Launcher", workers: int, *, dry_run: bool
) -> None:
    """Starts the workers, waits for them and prints a summary; a dry run prints only the plan."""
    from batch_calibration.cli import preview, progress
    from batch_calibration.studies.workers import sweep

    if dry_run:
        preview.show_plan(planned, workdir, workers)
        return
    with progress.watch_workers(workdir, planned) as notify:
        command = typed_command(sys.argv)
        report = sweep(planned, workdir, launch=launcher, notify=notify, command=command)
    _show_sweep(report, workdir)


def _show_sweep(report: "SweepReport", workdir: str) -> None:
    """Prints a summary of the workers, and the time compared with a single worker."""
    # Workers of one model have the same notes.
    notes = dict.fromkeys(chain.from_iterable(worker.notes for worker in report.workers))
    for line in [*report.lost, *notes]:
        print(line)
    rate = studies.Store(workdir).progress.rate()
    scored = [worker.scored for worker in report.workers]
    # In seconds.
    alone = f" (with one worker: {sum(scored) / rate:.1f} s)" if rate and sum(scored) else ""
    workers = f"{len(scored)} worker{'s' * (len(scored) > 1)}"
    by = f"by {workers}: {', '.join(f'{rows:,}' for rows in scored)}"
    done = f"{sum(scored):,} rows scored in {report.seconds:.1f} s{alone} {by}"
    stored = f"{report.inputs - sum(scored):,} were already stored"
    where = f"the scores are in {Path(workdir) / 'scores'}"
    print(f"{report.contexts} contexts: {done}; {stored}; {where}")


def run_demo(args: Namespace) -> None:
    """Writes the demo's files, runs two commands on them, and suggests three more.

    Raises:
        InputError: A file with the same name and other content exists.
    """
    from batch_calibration import cli

    folder = Path(args.output)
    files = {path.name: path.read_bytes() for path in sorted(DEMO.iterdir())}
    for name, content in files.items():
        if (path := folder / name).exists() and path.read_bytes() != content:
            expected = "no file with this name and other content"
            raise InputError.at(path, expected, remedy="move it, or use --output=DIR")
    for name, content in files.items():
        write_whole(folder / name, content)
    print(
        f"{folder / 'demo.csv'}: 200 generated rows (does one sentence follow from another?), "
        "scored by the embedded model\n"
        f"{folder / 'demo_samples.jsonl'}: the same scores as a log of lm-evaluation-harness\n"
        f"{folder / 'demo_prompts.csv'}: the prompts, for ask\n"
        f"{folder / 'demo_judge.jsonl'}: random judgments of a pairwise judge, for judge"
    )
    for command in FIRST:
        print(f"\n$ batch-calibration {(command := _in_folder(folder, command))}", flush=True)
        cli.run(shlex.split(command))
    print("\nnext:")
    for command in NEXT:
        print(f"batch-calibration {_in_folder(folder, command)}")


def _in_folder(folder: Path, command: str) -> str:
    """Adds a folder to the file names of a command."""
    start = "" if folder == Path() else f"{shlex.quote(str(folder))}/"
    return command.replace("demo", f"{start}demo")


def _score(args: Namespace) -> None:
    (study,) = chosen_studies(args)
    if args.dry_run:
        from batch_calibration.cli.preview import show_plan

        show_plan([study], args.workdir, workers=1)
        return
    _set_up_machine(args)
    score(study, args.workdir)


def _calibrate(args: Namespace) -> None:
    _set_up_machine(args)
    tasks, settings = args.tasks.split(",") if args.tasks else (), chosen_settings(args).calibration
    calibrate(args.workdir, settings, args.floor, tasks, args.shots)


def _sweep(args: Namespace) -> None:
    flags = {name: getattr(args, name) for name in launchers.FLAGS}
    launcher = launchers.make_launcher(args.launcher, args.workers, flags)
    run_sweep(chosen_studies(args), args.workdir, launcher, args.workers, dry_run=args.dry_run)


def _show(args: Namespace) -> None:
    """Shows the first context of each task, then the cost of scoring all contexts."""
    from batch_calibration.cli import preview
    from batch_calibration.scoring.table import SCORERS
    from batch_calibration.studies.loading import load_token_budget, open_model
    from batch_calibration.studies.scoring import render_contexts

    if args.rows < 1:
        raise InputError(key="rows", expected="1 or more", got=args.rows)
    ((settings, cells),) = chosen_studies(args)
    files = open_model(settings)
    budget = load_token_budget(settings, files)
    if budget is None:
        # Without a tokenizer, prompts cannot be shortened to fit, so each is shown in full.
        cells = tuple(cell.unfitted() for cell in cells)
        key = "tokenizer" if SCORERS[settings.model.scorer].asks_server else "model"
        print(f"{spell(key)} is empty: texts only, no tokens; long prompts are not shortened.\n")
    contexts = render_contexts(settings, cells, files=files, budget=budget)
    preview.show_prompts(contexts, settings.model, budget, args.rows)
    if not args.no_cost:
        preview.show_cost(contexts, settings, budget)


def _requests(args: Namespace) -> None:
    from batch_calibration.cli.requesting import write_requests

    write_requests(args)


def _status(args: Namespace) -> None:
    """Prints the progress of runs, with a line for each context that is running or failed."""
    from batch_calibration.studies.scoring import plan_name
    from batch_calibration.studies.store import read_status

    # None selects every plan of the workdir.
    plan = plan_name(*chosen_studies(args)[0]) if args.config is not None else None
    for line in read_status(studies.Store(args.workdir), plan).lines():
        print(line)


def _merge(args: Namespace) -> None:
    """Merges the score tables of some workdirs into another, and prints their number.

    Raises:
        InputError: Some tables contradict each other; raised after all others are merged.
    """
    folders, workdir = vars(args)["from"].split(","), args.workdir  # `from` is a keyword
    report = studies.merge_workdirs(folders, workdir, tolerance=args.tolerance)
    widened = f"{report.widened} extended by blocks that they lacked"
    print(f"{report.added} contexts added, {widened}, {report.unchanged} already stored")
    if report.added or report.widened:
        print(f"next: batch-calibration calibrate --workdir={workdir}")
    if report.left_out:  # last, so that all other tables are merged
        raise InputError(" ".join(report.left_out))


def _figures(args: Namespace) -> None:
    if args.boundary_tasks < 0:
        raise InputError(key="boundary_tasks", expected="0 or more", got=args.boundary_tasks)
    draw_figures(args.workdir, boundary_tasks=args.boundary_tasks, formats=args.formats)


def _set_up_machine(args: Namespace) -> None:
    machine.set_up(*(getattr(args, name) for name in machine.FLAGS))


RUN: dict[str, Callable[[Namespace], None]] = {
    "calibrate": _calibrate,
    "figures": _figures,
    "merge": _merge,
    "report": lambda args: make_report(args.workdir),
    "requests": _requests,
    "score": _score,
    "show": _show,
    "status": _status,
    "sweep": _sweep,
    "tables": lambda args: show_tables(args.workdir, quiet=args.quiet),
}
