"""`batch-calibration lm-eval`: tasks of lm-evaluation-harness with corrected accuracies."""

import importlib.util
import os
import shlex
import subprocess
import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path

from batch_calibration.errors import InputError

NAME = "lm-eval"
SUMMARY = "run lm-evaluation-harness with the corrected accuracy beside its own"
EXAMPLE = """example:
  batch-calibration lm-eval --tasks=boolq,mmlu_anatomy -- --model hf --model_args pretrained=MODEL
"""
OURS = ("--tasks", "--include_path")
"""Flags of the harness that stand before the two dashes, since overlays are made of them."""


def add_harness_flags(parser: ArgumentParser) -> None:
    """Add the flags of the command; what follows two dashes is the harness's."""
    add = parser.add_argument
    add("--tasks", required=True, metavar="A,B", help="tasks, groups and tags of the harness")
    add("--method", default="bc", help="method without labels and probes (default: bc)")
    add("--prior", default="", metavar="P,Q",
        help="share of each choice among the right ones, in their order")  # fmt: skip
    add("--include_path", default="", metavar="DIR", help="a folder of tasks of your own")
    add("--output", default="corrected_tasks", metavar="DIR",
        help="folder of the tasks' YAML files (default: corrected_tasks)")  # fmt: skip
    add("arguments", nargs="*", metavar="-- ARGS",
        help="arguments of lm_eval; without any, the command is printed and not run")  # fmt: skip


def run_harness(args: Namespace) -> None:
    """Write the overlays, then run the harness, or print the command that does.

    Raises:
        InputError: no harness; unknown tasks, or such as are not corrected.
        SystemExit: the harness ended with an error, whose code it has.
    """
    if importlib.util.find_spec("lm_eval") is None:
        raise InputError.at(
            NAME, "lm-evaluation-harness beside this package", "none", "pip install lm-eval"
        )
    for argument in args.arguments:
        if argument.partition("=")[0] in OURS:
            raise InputError.at(
                NAME,
                f"{argument.partition('=')[0]} before the two dashes",
                f"{argument} after them",
                "move it there",
            )
    # Importing the harness takes seconds, and help needs none of it.
    from batch_calibration.integrations.lm_eval import write_overlays

    names, folder = [name for name in args.tasks.split(",") if name], Path(args.output)
    tasks, notes = write_overlays(
        names, folder, args.method, _shares(args.prior), args.include_path or None
    )
    for note in notes:
        print(note, file=sys.stderr)
    print(f"{len(tasks)} tasks with corrected accuracies: {folder}", file=sys.stderr)
    # The harness takes one folder: groups of another one are named by their tasks.
    chosen = tasks if args.include_path else names
    command = ["-m", "lm_eval", "--tasks", ",".join(chosen), "--include_path", str(folder)]
    if not args.arguments:
        print(shlex.join(["python", *command, "--model", "hf", "--model_args", "pretrained=MODEL"]))
        return
    sys.stdout.flush()
    done = subprocess.run([sys.executable, *command, *args.arguments], env=os.environ, check=False)
    if done.returncode:
        raise SystemExit(done.returncode)


def _shares(text: str) -> list[float] | None:
    """The numbers of --prior, None where it is not there."""
    if not text:
        return None
    try:
        return [float(share) for share in text.split(",")]
    except ValueError as error:
        raise InputError.at(
            "--prior", "a share of each choice, such as 0.3,0.7", repr(text)
        ) from error
