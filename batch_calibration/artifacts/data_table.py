"""The paper's table of data (Table 4): what each task asks, its texts, labels and rows."""

from collections.abc import Sequence

from batch_calibration.artifacts.cells import Cells, named, tested
from batch_calibration.artifacts.grouping import SettingRecords
from batch_calibration.tasks import TASKS

OBJECTIVES = {
    "sst2": "sentence classification", "mnli": "NLI", "qnli": "question-answering NLI",
    "mrpc": "paraphrasing", "qqp": "paraphrasing", "boolq": "commonsense reasoning", "cb": "NLI",
    "copa": "commonsense reasoning", "rte": "NLI", "wic": "context comprehension",
    "anli_r1": "NLI", "anli_r2": "NLI", "anli_r3": "NLI",
}  # fmt: skip
"""What a task's rows ask (Zhou et al. 2024, Table 4)."""
NOTE = "Rows in the paper are those of the whole validation split."


def cells(group: SettingRecords) -> Cells:
    """A row a task of the paper's; none where the setting has no such task."""
    rows: Cells = [["task", "objective", "texts", "labels", "rows tested", "rows in the paper"]]
    for name, records in group.records.items():
        if name in OBJECTIVES:
            task = TASKS[name]
            sizes: Sequence[object] = (
                len(task.fields), len(task.label_names), tested(records), task.test_rows
            )  # fmt: skip
            rows.append([named(name, records), OBJECTIVES[name], *map(str, sizes)])
    return rows if len(rows) > 1 else []


def note(group: SettingRecords) -> str:
    """What the two numbers of rows are of."""
    data = group.setting.data
    return f"{NOTE} Rows tested are those of the data {data}." if data else NOTE
