"""What the first pass over a stream learns of its contexts: means, and whether rows are sound."""

import numpy as np

from batch_calibration.errors import InputError
from batch_calibration.importers.base import refuse_several
from batch_calibration.importers.cells import text_of
from batch_calibration.responses import refuse_constant
from batch_calibration.streams.source import Rows, Source, encode

MAX_IDS = 50_000_000  # rows whose ids are compared; each takes 8 bytes


class Learned:
    """Sums, extremes and ids of the rows of each context, batch by batch."""

    def __init__(self, source: Source):
        k, ids = len(source.labels), source.reading.ids
        self.where = str(next(iter(source.files)))
        self.counts, self._sums = np.zeros(0), np.zeros((0, k))  # [contexts], [contexts, k]
        self._low, self._high = np.zeros(0), np.zeros(0)  # [contexts], the extremes of all scores
        self._source, self._column = source, ids
        self._hashes = np.zeros(source.total if ids else 0, np.int64)
        self._rows = 0
        # A column and the number of a context -> the model or task there.
        self._told: dict[tuple[str, int], str] = {}
        if ids and source.total > MAX_IDS:
            raise InputError(
                where="--ids",
                expected=f"{MAX_IDS:,} rows or fewer, for ids to be compared",
                got=f"{source.total:,}",
                remedy="leave --ids out: all columns of the files are written anyway",
            )

    def add(self, rows: Rows) -> None:
        """Learn from a batch."""
        number, context = len(self._source.contexts), rows.contexts
        # A batch may bring contexts that were not met before.
        more = (0, number - len(self.counts))
        self.counts = np.pad(self.counts, more) + np.bincount(context, minlength=number)
        self._sums = np.pad(self._sums, (more, (0, 0)))
        for label in range(self._sums.shape[1]):
            # bincount adds in float64, as float32 sums of many rows lose digits.
            self._sums[:, label] += np.bincount(context, rows.scores[:, label], minlength=number)
        self._low = np.pad(self._low, more, constant_values=np.inf)
        self._high = np.pad(self._high, more, constant_values=-np.inf)
        np.minimum.at(self._low, context, rows.scores.min(axis=1))
        np.maximum.at(self._high, context, rows.scores.max(axis=1))
        self._refuse_several(rows)
        if self._column:
            codes, cells = encode(rows.table[self._column])
            texts = [text_of(cell) for cell in cells]
            # Rows of several contexts may share an id.
            keys = zip(context.tolist(), (texts[code] for code in codes), strict=True)
            self._hashes[self._rows : self._rows + len(codes)] = list(map(hash, keys))
            self._rows += len(codes)

    def _refuse_several(self, rows: Rows) -> None:
        """Refuse several models or tasks in one context, in this batch and those before it."""
        for name in self._source.telling:
            codes, cells = encode(rows.table[name])
            for pair in np.unique(rows.contexts * len(cells) + codes).tolist():
                context, code = divmod(pair, len(cells))
                if text := text_of(cells[code]):
                    first = self._told.setdefault((name, context), text)
                    refuse_several(self.where, {name: (first, text)}, self._source.reading)

    def check(self) -> None:
        """Refuse a context without rows or whose scores are all equal, and ids that stand twice."""
        for key, context in self._source.contexts.items():
            where = ", ".join(filter(None, key)) or self.where
            if not self.counts[context]:
                raise self._source.gaps.no_rows(where)
            if self.counts[context] > 1 and self._low[context] == self._high[context]:
                refuse_constant(np.full((2, 2), self._low[context]), where)
        hashes = self._hashes[: self._rows]
        hashes.sort()
        if repeated := int((hashes[1:] == hashes[:-1]).sum()):
            raise InputError(
                where=f"{self.where}, column {self._column!r}",
                expected="an id of its own for each row of a context",
                got=f"{repeated:,} rows with the id of another",
                remedy="keep one of such rows, or leave --ids out",
            )

    def means(self) -> np.ndarray:
        """The mean score [contexts, k] of each context's rows, in float64."""
        return self._sums / self.counts[:, None]
