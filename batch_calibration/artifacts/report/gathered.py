"""Every interactive figure of some results."""

from collections.abc import Callable, Collection, Mapping

from batch_calibration.artifacts.catalogue import Results
from batch_calibration.artifacts.report import interactive, plots
from batch_calibration.scores import ScoreTable

PARTS = ("-examples", "-all")
"""Ends of the slugs of figures whose numbers the figure without that end shows, too."""


def every_plot(
    results: Results, texts: Callable[[ScoreTable], Mapping[str, str]]
) -> dict[str, plots.Plot]:
    """The plots by the slug of the catalogue's figure; none where plotly is not installed.

    Raises:
        ImportError: matplotlib, which finds the lines of boundaries, is not installed.
    """
    if not plots.library():
        return {}
    # It loads matplotlib, which a page of tables does without.
    from batch_calibration.artifacts.report import plane

    return interactive.every(results) | plane.every(results, texts)


def is_part(slug: str, plots: Collection[str]) -> bool:
    """Whether the plot of another figure shows all that a figure does."""
    return any(slug.endswith(end) and slug.removesuffix(end) in plots for end in PARTS)
