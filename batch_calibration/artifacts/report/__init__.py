"""One self-contained HTML page: verdicts, contexts, tables, interactive figures, what was run."""

from batch_calibration.artifacts.report.page import Context, Section, diagnose_record, page
from batch_calibration.artifacts.report.plots import Figure

__all__ = ["Context", "Figure", "Section", "diagnose_record", "page"]
