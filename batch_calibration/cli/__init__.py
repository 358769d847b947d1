"""The console program `batch-calibration`: scores of a file in, corrected scores out."""

from argparse import Namespace
from collections.abc import Sequence
from functools import partial

from batch_calibration.cli import guard, options


def main() -> None:
    """The program: run the command that the words after its name name."""
    args = options.parse(None)
    guard.catch_stops()
    guard.guard(partial(_command, args), loads=("jax",))


def run(words: Sequence[str]) -> None:
    """The same for words that come from Python; signals and the output stay as they are."""
    guard.answer(partial(_command, options.parse(words)))


def _command(args: Namespace) -> None:
    # JAX takes half a second to load, and help needs none of it.
    from batch_calibration.cli import commands

    commands.RUN[args.command](args)
