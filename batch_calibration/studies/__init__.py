"""Studies: scores the contexts of a workdir, stores the tables, and calibrates stored scores."""

from importlib import import_module
from typing import TYPE_CHECKING

from batch_calibration.files import csv_text as csv_text

if TYPE_CHECKING:
    from batch_calibration.studies.calibration import calibrate_store as calibrate_store
    from batch_calibration.studies.calibration import calibrate_study as calibrate_study
    from batch_calibration.studies.calibration import run_calibration as run_calibration
    from batch_calibration.studies.merging import merge_workdirs as merge_workdirs
    from batch_calibration.studies.records import Record as Record
    from batch_calibration.studies.runs import Run as Run
    from batch_calibration.studies.scoring import run_scoring as run_scoring
    from batch_calibration.studies.store import Store as Store
    from batch_calibration.studies.store import load_results as load_results
    from batch_calibration.studies.store import write_results as write_results
    from batch_calibration.studies.tidy import Records as Records
    from batch_calibration.studies.workers import sweep as sweep

_HOMES = {
    "calibration": "calibrate_store calibrate_study run_calibration",
    "merging": "merge_workdirs",
    "records": "Record",
    "runs": "Run",
    "scoring": "run_scoring",
    "store": "Store load_results write_results",
    "tidy": "Records",
    "workers": "sweep",
}
"""Module -> the names that it defines, space-separated.

Each module is imported on first use, because stored scores need no Flax and scoring needs no
methods.
"""


def __getattr__(name: str) -> object:
    for home, names in _HOMES.items():
        if name in names.split():
            return getattr(import_module(f"batch_calibration.studies.{home}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
