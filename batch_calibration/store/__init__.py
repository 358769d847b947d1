"""What a workdir keeps: score tables, records, runs, and the tidy table of results."""

from batch_calibration.store.accuracies import Curve, OverStream, ProbeSizes, pack, unpack
from batch_calibration.store.merging import merge_workdirs
from batch_calibration.store.records import VERSION, ContextInfo, Record, ScorerInfo
from batch_calibration.store.results import load_results, write_results
from batch_calibration.store.runs import Run
from batch_calibration.store.store import Store
from batch_calibration.store.tidy import KINDS, Number, Records, csv_text

__all__ = [
    "KINDS", "VERSION", "ContextInfo", "Curve", "Number", "OverStream", "ProbeSizes", "Record",
    "Records", "Run", "ScorerInfo", "Store", "csv_text", "load_results", "merge_workdirs", "pack",
    "unpack", "write_results",
]  # fmt: skip
