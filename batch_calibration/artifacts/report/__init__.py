"""One self-contained HTML page: what was run, what was found, tables, interactive figures."""

from batch_calibration.artifacts.report.contexts import Context, diagnosed
from batch_calibration.artifacts.report.gathered import every_plot, is_part
from batch_calibration.artifacts.report.page import Section, page
from batch_calibration.artifacts.report.plots import Figure

__all__ = ["Context", "Figure", "Section", "diagnosed", "every_plot", "is_part", "page"]
