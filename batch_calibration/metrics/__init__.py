"""Metrics, their confidence intervals, and decision boundaries."""

from batch_calibration.calibration.base import predict as predict
from batch_calibration.calibration.objective import accuracy as accuracy
from batch_calibration.calibration.objective import balanced_accuracy as balanced_accuracy
from batch_calibration.calibration.objective import macro_f1 as macro_f1
from batch_calibration.metrics.boundary import decision_margin as decision_margin
from batch_calibration.metrics.intervals import OF_ACCURACY as OF_ACCURACY
from batch_calibration.metrics.intervals import OF_GAIN as OF_GAIN
from batch_calibration.metrics.intervals import Estimate as Estimate
from batch_calibration.metrics.intervals import accuracy_interval as accuracy_interval
from batch_calibration.metrics.intervals import accuracy_of as accuracy_of
from batch_calibration.metrics.intervals import (
    balanced_accuracy_interval as balanced_accuracy_interval,
)
from batch_calibration.metrics.intervals import bootstrap_interval as bootstrap_interval
from batch_calibration.metrics.intervals import deviation as deviation
from batch_calibration.metrics.intervals import gain_interval as gain_interval
from batch_calibration.metrics.intervals import gain_of as gain_of
from batch_calibration.metrics.intervals import mean_recall_interval as mean_recall_interval
from batch_calibration.metrics.intervals import over_rows as over_rows
from batch_calibration.metrics.intervals import over_tasks as over_tasks
from batch_calibration.metrics.reliability import Reliability as Reliability
from batch_calibration.metrics.reliability import measure_reliability as measure_reliability
from batch_calibration.metrics.selective import aurc as aurc
from batch_calibration.metrics.selective import coverage_at_5 as coverage_at_5
from batch_calibration.metrics.selective import order_flip_rate as order_flip_rate
from batch_calibration.metrics.table import bias_score as bias_score
from batch_calibration.metrics.table import brier as brier
from batch_calibration.metrics.table import ece as ece
from batch_calibration.metrics.table import measure as measure
from batch_calibration.metrics.table import nll as nll
from batch_calibration.metrics.table import rsd as rsd
from batch_calibration.metrics.table import summary as summary
from batch_calibration.metrics.table import total_variation as total_variation
from batch_calibration.metrics.table import with_intervals as with_intervals
