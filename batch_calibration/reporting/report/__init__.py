"""One self-contained HTML page: verdicts, contexts, tables, interactive figures, what was run."""

from batch_calibration.reporting.report.page import Card, Section, page
from batch_calibration.reporting.report.plots import Figure

__all__ = ["Card", "Figure", "Section", "page"]
