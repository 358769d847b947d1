"""Rows that lack the score of a label: how many, of which labels, and what to do about them."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from batch_calibration.arrays import Missing
from batch_calibration.errors import InputError
from batch_calibration.importers.cells import MAX_LISTED


class Gaps(NamedTuple):
    """How many rows of a file, or of a part of it, lack the score of a label."""

    rows: int = 0  # all rows
    lacking: int = 0  # those that lack the score of one label or of several
    empty: int = 0  # those without any score
    by_label: np.ndarray | int = 0  # [k], those that lack each label; 0 of all

    def plus(self, gaps: "Gaps") -> "Gaps":
        """Those of both parts together."""
        lacking, empty = self.lacking + gaps.lacking, self.empty + gaps.empty
        return Gaps(self.rows + gaps.rows, lacking, empty, self.by_label + gaps.by_label)

    def notes(
        self, label_names: Sequence[str], missing: Missing | None, *, is_named: bool
    ) -> tuple[str, ...]:
        """What was done about them, and unless somebody named the labels, which are rare."""
        if not self.lacking:
            return ()
        ways = {"least": "just below the least returned", "drop": "dropped"}
        way = ways.get(str(missing), f"at {missing} nats")
        notes = [f"{self.lacking:,} of {self.rows:,} rows lack the score of a label: {way}."]
        if missing != "drop" and self.empty:
            notes.append(f"{self.empty:,} rows had no label at all and are left out.")
        if not is_named:
            notes.append(self.rare_labels(label_names))
        return tuple(filter(None, notes))

    def rare_labels(self, label_names: Sequence[str]) -> str:
        """A sentence on the labels that more than half of the rows lack, "" where none is so.

        >>> Gaps(300, 299, 0, np.array([0, 0, 299])).rare_labels(("no", "yes", "maybe"))[:52]
        "Most rows lack 'maybe' (299 of 300); if that is none"
        """
        counts = np.broadcast_to(self.by_label, len(label_names)).tolist()
        rare = {name: n for name, n in zip(label_names, counts, strict=True) if 2 * n > self.rows}
        if not rare:
            return ""
        listed = [f"{name!r} ({count:,} of {self.rows:,})" for name, count in rare.items()]
        names = ", ".join(listed[:MAX_LISTED]) + (" ..." if len(listed) > MAX_LISTED else "")
        frequent = [name for name in label_names if name not in rare]
        flag = ",".join(frequent) if len(frequent) > 1 else "A,B"
        return (
            f"Most rows lack {names}; if that is none of the labels that were asked for, leave it "
            f"out: --labels={flag}."
        )

    def no_rows(self, where: str) -> InputError:
        """The error where no row is left to learn from."""
        return InputError(
            f"{where}: no row is left once those with missing labels are dropped ({self.lacking} "
            f"of {self.rows}); say --missing=least, or ask for more tokens."
        )
