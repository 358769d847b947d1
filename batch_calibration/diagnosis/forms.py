"""Values as frames of pandas and as HTML."""

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING

import numpy as np

from batch_calibration.errors import answering
from batch_calibration.metrics import Estimate

if TYPE_CHECKING:
    import pandas as pd


def paragraphs_html(sentences: Iterable[str]) -> str:
    """Wraps each sentence in a paragraph."""
    return "".join(f"<p>{escape(sentence)}</p>" for sentence in sentences)


def to_frame(
    table: Mapping[str, object] | Sequence[Mapping[str, object]], index: str
) -> "pd.DataFrame":
    """Makes a frame of pandas from columns, or from rows by column; one column is its index.

    Raises:
        InputError: pandas is not installed.
    """
    with answering(ImportError, "to_frame", "pandas to be installed", "pip install pandas"):
        import pandas
    return pandas.DataFrame(table).set_index(index)


def ends(name: str, estimate: Estimate | None) -> dict[str, float]:
    """Returns an estimate and the ends of its interval as three columns, NaN if it is unknown."""
    return dict(zip((name, f"{name}_low", f"{name}_high"), estimate or 3 * [np.nan], strict=True))
