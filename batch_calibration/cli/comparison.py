"""What the console program says of all methods side by side."""

from collections.abc import Mapping, Sequence

import numpy as np

from batch_calibration.artifacts.cells import Best, Cells
from batch_calibration.artifacts.gains import MARK, count_signs, gain_cell
from batch_calibration.methods import METHODS
from batch_calibration.metrics import Estimate
from batch_calibration.store import Record, Records

METHOD_NOTE = (
    "Accuracy in % over all labeled rows; of one context with its 95 % interval, and the gain over "
    f"icl in points, paired by row, with its own ({MARK} it excludes 0: beyond noise). 'shares "
    "off' is half the summed distance of predicted from right shares (total variation). 'better, "
    "worse' counts contexts where the accuracy is above or below icl's, 'beyond noise' those where "
    "the difference is more than noise."
)


def method_cells(records: Records) -> Cells:
    """A row a model and method: accuracy over labeled rows, shares off, contexts won and lost."""
    # One context has an interval, several have counts.
    last = ["gain over icl"] if len(records) == 1 else ["better, worse", "beyond noise"]
    rows: Cells = [["model", "method", "accuracy", "shares off", *last]]
    by_model: dict[str, list[Record]] = {}
    for record in records:
        by_model.setdefault(record.context.model, []).append(record)
    for model, model_records in by_model.items():
        # Methods that all records have, in the table's order.
        names = [name for name in METHODS if all(name in row.methods for row in model_records)]
        means = {name: _mean(model_records, name, "accuracy") for name in names}
        # Of the rounded means, so that equal cells are marked alike.
        best = max(round(mean, 1) for mean in means.values())
        for name, mean in means.items():
            metrics = model_records[0].methods[name]
            cell = f"{mean:.1f}"
            if len(model_records) == 1:
                low, high = metrics["accuracy_low"], metrics["accuracy_high"]
                cell += f" [{100 * low:.1f}, {100 * high:.1f}]"
            against = [""] * len(last)
            # Gains are over icl: itself has none, and without it no method has.
            if name != "icl" and "icl" in names:
                gains = [_gain(record.methods[name]) for record in model_records]
                against = [gain_cell(gains[0])] if len(records) == 1 else count_signs(gains)
            accuracy = Best(cell) if round(mean, 1) == best else cell
            shares = f"{_mean(model_records, name, 'total_variation'):.1f}"
            rows.append([model or "unnamed model", name, accuracy, shares, *against])
    return rows


def _mean(records: Sequence[Record], method: str, metric: str) -> float:
    """A method's metric in %, over the labeled rows of all records together."""
    values = [record.methods[method][metric] for record in records]
    # Metrics are of the rows whose right label is known.
    counts = [record.labeled_rows for record in records]
    return 100 * float(np.average(values, weights=counts))


def _gain(metrics: Mapping[str, float]) -> Estimate:
    return Estimate(metrics["gain"], metrics["gain_low"], metrics["gain_high"])
