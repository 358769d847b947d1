"""Conversions of results to pandas frames and to HTML."""

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING

import numpy as np

from batch_calibration.errors import answering
from batch_calibration.metrics import Estimate

if TYPE_CHECKING:
    import pandas as pd


def paragraphs_html(sentences: Iterable[str]) -> str:
    """Wraps each sentence in an HTML paragraph."""
    return "".join(f"<p>{escape(sentence)}</p>" for sentence in sentences)


def to_frame(
    table: Mapping[str, object] | Sequence[Mapping[str, object]], index: str
) -> "pd.DataFrame":
    """Makes a pandas frame from columns or from a list of rows.

    Args:
        table: column -> values, or for each row column -> value.
        index: the column that becomes the index.

    Raises:
        InputError: pandas is not installed.
    """
    with answering(ImportError, "to_frame", "pandas to be installed", "pip install pandas"):
        import pandas
    return pandas.DataFrame(table).set_index(index)


def ends(name: str, estimate: Estimate | None) -> dict[str, float]:
    """Returns an estimate and the ends of its interval as three columns; NaN for None."""
    return dict(zip((name, f"{name}_low", f"{name}_high"), estimate or 3 * [np.nan], strict=True))
