"""The paper's table of data (Table 4): what each task asks, its texts, labels and rows."""

from collections.abc import Sequence

from batch_calibration.artifacts.cells import Cells, named, tested
from batch_calibration.artifacts.grouping import SettingRecords
from batch_calibration.tasks import PAPER_LANGUAGE, TASKS

NOTE = "Rows in the paper are those of the whole validation split."


def cells(group: SettingRecords) -> Cells:
    """A row a task of the paper's; none where the setting has no such task."""
    rows: Cells = [["task", "objective", "texts", "labels", "rows tested", "rows in the paper"]]
    for name, records in group.records.items():
        if name in PAPER_LANGUAGE:
            task = TASKS[name]
            sizes: Sequence[object] = (
                len(task.fields), len(task.label_names), tested(records), task.test_rows
            )  # fmt: skip
            rows.append([named(name, records), task.objective, *map(str, sizes)])
    return rows if len(rows) > 1 else []


def note(group: SettingRecords) -> str:
    """What the two numbers of rows are of."""
    data = group.setting.data
    return f"{NOTE} Rows tested are those of the data {data}." if data else NOTE
