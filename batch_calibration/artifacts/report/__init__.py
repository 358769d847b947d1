"""One self-contained HTML page: what was run, what was found, tables, interactive figures."""

from batch_calibration.artifacts.report.interactive import every_plot, is_covered
from batch_calibration.artifacts.report.page import Context, Section, diagnose_record, page
from batch_calibration.artifacts.report.plots import Figure

__all__ = ["Context", "Figure", "Section", "diagnose_record", "every_plot", "is_covered", "page"]
