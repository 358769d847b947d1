"""Results of a workdir as data: one tidy table in memory, and as files that other tools read."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal, overload

from batch_calibration.errors import InputError
from batch_calibration.files import write_whole
from batch_calibration.studies import tidy
from batch_calibration.studies.store import Store
from batch_calibration.studies.tidy import Records

if TYPE_CHECKING:
    import pandas
    import pyarrow

FORMS = ("pandas", "arrow")


@overload
def load_results(
    workdir: str | Path | Store, form: Literal["pandas"] = "pandas"
) -> pandas.DataFrame: ...
@overload
def load_results(workdir: str | Path | Store, form: Literal["arrow"]) -> pyarrow.Table: ...
def load_results(
    workdir: str | Path | Store, form: str = "pandas"
) -> pandas.DataFrame | pyarrow.Table:
    """What calibration found in a workdir: a row per context, method and metric.

    The columns are those of `Records.rows`. They are read from the records, so they are those of
    the last calibration, whatever files of results there are.

    Args:
        workdir: the folder of scores and records.
        form: "pandas" for a DataFrame, "arrow" for a pyarrow Table.

    Raises:
        InputError: no records in the folder; another form; its library is not installed.

    Example:
        results = load_results("runs/mini")
        accuracy = results[results.metric == "accuracy"]
        accuracy.pivot_table("value", "task", "method")
    """
    if form not in FORMS:
        raise InputError.unknown("form", form, FORMS)
    records = (workdir if isinstance(workdir, Store) else Store(workdir)).records()  # reads files
    return records.to_pandas() if form == "pandas" else records.to_arrow()


def write_results(records: Records, folder: str | Path) -> tuple[list[Path], str]:
    """Write `results.csv` and, where pyarrow is installed, `results.parquet`.

    Returns:
        The files, and a sentence on the one that is not written, empty where both are.
    """
    columns = tidy.columns(records.rows())
    csv_path, parquet_path = Path(folder) / "results.csv", Path(folder) / "results.parquet"
    write_whole(csv_path, tidy.to_csv(columns).encode())
    try:
        parquet = tidy.to_parquet(columns)
    except InputError:
        # One from before would hold other results than the file beside it.
        parquet_path.unlink(missing_ok=True)
        return [csv_path], f"{parquet_path} is not written: it needs pyarrow; pip install pyarrow."
    write_whole(parquet_path, parquet)
    return [csv_path, parquet_path], ""
