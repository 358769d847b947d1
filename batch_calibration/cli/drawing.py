"""The option --plot: a figure of what the prompts prefer."""

from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

from batch_calibration.cli import summaries
from batch_calibration.cli.summaries import Corrected
from batch_calibration.errors import InputError
from batch_calibration.files import write_whole


def check_plot(path: str) -> None:
    """Refuse a name that no figure is written under."""
    if path and Path(path).suffix not in (".png", ".pdf", ".svg"):
        raise InputError(where=f"--plot={path}", expected="a file that ends in .png, .pdf or .svg")


def plot(path: str, contexts: Sequence[Corrected], output_stream: TextIO) -> None:
    """Write the figure where a path is given."""
    if path:
        try:
            from batch_calibration.artifacts.figures import preferences, render, style
        except ImportError as error:
            raise InputError(
                "--plot needs matplotlib, which is not installed: pip install "
                "'batch-calibration[plots]'."
            ) from error
        titles = [summaries.title(context.table) for context in contexts]
        chart = preferences.chart([context.diagnosis for context in contexts], titles)
        write_whole(Path(path), style.to_file(render.draw(chart), Path(path).suffix[1:]))
        print(f"figure: {path}", file=output_stream)
