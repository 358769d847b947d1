"""The console program `batch-calibration`: calibrates scores of files, and runs studies."""

import io
import sys
from argparse import Namespace
from collections.abc import Sequence
from contextlib import nullcontext, redirect_stderr, suppress
from functools import partial
from pathlib import Path

from batch_calibration.cli import guard, options, studies
from batch_calibration.cli.study_options import load_module
from batch_calibration.errors import doors_spelling
from batch_calibration.files import remove_unfinished


def main() -> None:
    """Runs the console program with the arguments of the process."""
    args = options.parse(sys.argv[1:])
    guard.set_up_process()
    # An error of the disk may not name a file; then the message names this.
    destination = f"workdir {args.workdir}" if getattr(args, "workdir", "") else "a file"
    run_command = partial(_command, args, keeps_programs=True)
    guard.guard(run_command, loads=("jax",), destination=destination)


def run(arguments: Sequence[str]) -> None:
    """Runs a command with these arguments; changes neither signal handlers nor standard output."""
    guard.answer(lambda: _command(options.parse(arguments)))


def _command(args: Namespace, *, keeps_programs: bool = False) -> None:
    if args.command in options.APART:
        options.APART[args.command](args)
        return
    with doors_spelling(guard.CONSOLE):
        for file in args.plugin:
            load_module(file, "plugin")
        if getattr(args, "files", ()):
            _run_on_files(args, keeps_programs=keeps_programs)
        else:
            from batch_calibration.arrays.numbers import usual_jax

            usual_jax(studies.RUN[args.command])(args)


def _run_on_files(args: Namespace, *, keeps_programs: bool) -> None:
    if keeps_programs:
        # platformdirs finds the cache folder; without this extra, each run compiles again.
        with suppress(ModuleNotFoundError):
            from batch_calibration.cli.machine import keep_programs

            keep_programs()
    # NumPy and JAX take half a second to load, and --help needs neither.
    from batch_calibration.arrays.numbers import usual_jax
    from batch_calibration.cli import commands, inputs

    inputs.check_written(args)
    # Runs that were killed while writing leave unfinished files.
    for path in {getattr(args, name, "") for name in ("output", "plot")} - {"", "-"}:
        remove_unfinished(Path(path).parent, is_ours=False)
    # Notes and progress go to standard error, which --quiet hides; the caller prints errors.
    with redirect_stderr(io.StringIO()) if args.quiet else nullcontext():
        usual_jax(commands.RUN[args.command])(args)
