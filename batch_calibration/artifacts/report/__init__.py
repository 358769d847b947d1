"""One self-contained HTML page: verdicts, contexts, tables, interactive figures, what was run."""

from batch_calibration.artifacts.report.page import Card, Section, page

__all__ = ["Card", "Section", "page"]
