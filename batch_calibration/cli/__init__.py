"""The console program `batch-calibration`: scores of a file in, corrected scores out."""

from collections.abc import Sequence

from batch_calibration.cli import guard, options


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command that the words name."""
    args = options.parse(argv)
    guard.catch_stops()

    def command() -> None:
        # JAX takes half a second to load, and help needs none of it.
        from batch_calibration.cli import commands

        commands.RUN[args.command](args)

    guard.guard(command, loads=("jax",))
