"""One self-contained HTML page: verdicts, contexts, tables, figures, what was run."""

from batch_calibration.reporting.report.page import Card, Section, figure_html, page

__all__ = ["Card", "Section", "figure_html", "page"]
