"""The workdir: score tables by the id of their context, records by the same id."""

import json
import tempfile
from pathlib import Path
from typing import Any

from batch_calibration import scores
from batch_calibration.errors import InputError
from batch_calibration.files import write_whole
from batch_calibration.scores import ScoreTable


class Store:
    """A folder of finished contexts: `scores/<id>.safetensors` and `records/<id>.json`."""

    def __init__(self, workdir: str | Path, *, create: bool = False):
        """Open a workdir; with `create` make it, else it must hold scores already."""
        self.workdir = Path(workdir)
        if create:
            try:
                (self.workdir / "scores").mkdir(parents=True, exist_ok=True)
                # A name of its own: several processes may open the folder at once.
                tempfile.TemporaryFile(dir=self.workdir / "scores").close()
            except OSError as error:
                raise InputError(
                    f"workdir {self.workdir}: cannot be written ({error.strerror}); "
                    "give a folder of yours with --workdir."
                ) from error
        elif not (self.workdir / "scores").is_dir():
            raise InputError(
                f"workdir {self.workdir}: expected a folder that experiments.score wrote, "
                "found no scores/ in it; run experiments.score with this --workdir first."
            )

    def get(self, context: dict[str, Any]) -> ScoreTable | None:
        """The stored table of a context, or None."""
        path = self._table(scores.context_id(context))
        return scores.load(path) if path.exists() else None

    def put(self, table: ScoreTable) -> None:
        """Keep a table, whole or not at all; a record of what it held before is stale and goes."""
        table.save(self._table(table.id))
        self._record(table.id).unlink(missing_ok=True)

    def tables(self) -> tuple[list[ScoreTable], list[str]]:
        """Every stored table that can be read, in the order of the ids, and why others cannot."""
        tables, broken = [], []
        for path in sorted((self.workdir / "scores").glob("*.safetensors")):
            try:
                tables.append(scores.load(path))
            except InputError as error:
                broken.append(str(error))
        return tables, broken

    def put_record(self, name: str, record: dict[str, Any]) -> None:
        """Keep what was derived from a table."""
        text = json.dumps(record, indent=1, sort_keys=True)
        write_whole(self._record(name), text.encode())

    def record(self, name: str) -> dict[str, Any]:
        """The record of a table; an empty one where there is none that can be read."""
        try:
            found = json.loads(self._record(name).read_text(encoding="utf-8"))
        except (FileNotFoundError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    def records(self) -> list[dict[str, Any]]:
        """Every record; a sentence where there is none."""
        paths = sorted((self.workdir / "records").glob("*.json"))
        if not paths:
            raise InputError(
                f"workdir {self.workdir}: no records yet; run experiments.calibrate with this "
                "--workdir first."
            )
        records = []
        for path in paths:
            try:
                record = json.loads(path.read_text(encoding="utf-8"))
                _ = record["context"], record["methods"]
            except (ValueError, KeyError, TypeError) as error:
                raise InputError(
                    f"{path}: no record of experiments.calibrate ({error!r}); run it again."
                ) from error
            records.append(record)
        return records

    def _record(self, name: str) -> Path:
        return self.workdir / "records" / f"{name}.json"

    def _table(self, name: str) -> Path:
        return self.workdir / "scores" / f"{name}.safetensors"
