"""What a reader of a server's scores must know, over all contexts of a run."""

from collections.abc import Iterable

import numpy as np

from batch_calibration.arrays import Missing
from batch_calibration.importers.base import label_mass, little_mass


class Notes:
    """Counts what answers lacked.

    Args:
        top: how many first tokens were asked for.
        missing: what is done about labels that are not among them.
    """

    def __init__(self, top: int, missing: Missing):
        self._top = top
        self._missing = missing
        self._rows = self._lacking = 0
        self._mass = 0.0
        self._others: dict[str, None] = {}

    def add(self, scores: np.ndarray, lacking: int = 0, others: Iterable[str] = ()) -> None:
        """Count scores [n, k], answers without a label, and sentences."""
        if len(scores):
            self._mass += label_mass(scores) * len(scores)
            self._rows += len(scores)
        self._lacking += lacking
        self._others |= dict.fromkeys(others)

    def sentences(self) -> list[str]:
        """A sentence on each thing to know."""
        told = list(little_mass(self._mass / self._rows)) if self._rows else []
        if self._lacking:
            how = {"least": "put just below the least of them", "drop": "left out"}.get(
                str(self._missing), f"put at {self._missing} nats"
            )
            told.append(
                f"{self._lacking:,} answers lack a label among their {self._top} likeliest tokens: "
                f"{how} (config.missing)."
            )
        return [*told, *self._others]
