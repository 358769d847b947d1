"""What the console program says of all methods side by side."""

from collections.abc import Mapping

import numpy as np

from batch_calibration.artifacts.cells import Best, Cells
from batch_calibration.artifacts.gains import MARK, count_signs, gain_cell
from batch_calibration.methods import METHODS
from batch_calibration.metrics import Estimate
from batch_calibration.store import Records

METHOD_NOTE = (
    "Accuracy in % over all labeled rows; of one context with its 95 % interval, and the gain over "
    f"icl in points, paired by row, with its own ({MARK} it excludes 0: beyond noise). 'shares "
    "off' is half the summed distance of predicted from right shares (total variation). 'better, "
    "worse' counts contexts where the accuracy is above or below icl's, 'beyond noise' those where "
    "the difference is more than noise."
)


def method_cells(records: Records) -> Cells:
    """A row a model and method: accuracy over all rows, shares off, contexts won and lost."""
    # One context has an interval, several have counts.
    last = ["gain over icl"] if len(records) == 1 else ["better, worse", "beyond noise"]
    rows: Cells = [["model", "method", "accuracy", "shares off", *last]]
    for model in dict.fromkeys(record.context.model for record in records):
        model_records = [record for record in records if record.context.model == model]
        # Methods that all records have, in the table's order.
        names = [name for name in METHODS if all(name in row.methods for row in model_records)]
        # Accuracies and shares are of the rows whose right label is known.
        counts = [record.labeled_rows for record in model_records]
        accuracies = {
            name: np.array([record.methods[name]["accuracy"] for record in model_records])
            for name in names
        }
        means = {
            name: 100 * float(np.average(accuracy_by_record, weights=counts))
            for name, accuracy_by_record in accuracies.items()
        }
        # Of the rounded means, so that equal cells are marked alike.
        best = max(round(mean, 1) for mean in means.values())
        for name, mean in means.items():
            cell = f"{mean:.1f}"
            if len(model_records) == 1:
                ends = (
                    model_records[0].methods[name][end] for end in ("accuracy_low", "accuracy_high")
                )
                cell += " [{:.1f}, {:.1f}]".format(*(100 * end for end in ends))
            off = [record.methods[name]["total_variation"] for record in model_records]
            against = [""] * len(last)
            # Gains are over icl: itself has none, and without it no method has.
            if name != "icl" and "icl" in names:
                gains = [_gain(record.methods[name]) for record in model_records]
                against = [gain_cell(gains[0])] if len(records) == 1 else count_signs(gains)
            accuracy = Best(cell) if round(mean, 1) == best else cell
            shares = f"{100 * float(np.average(off, weights=counts)):.1f}"
            rows.append([model or "unnamed model", name, accuracy, shares, *against])
    return rows


def _gain(metrics: Mapping[str, float]) -> Estimate:
    return Estimate(*(metrics[f"gain{end}"] for end in ("", "_low", "_high")))
