"""The workdir: score tables by the id of their context, records by the same id."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from batch_calibration import scores
from batch_calibration.scores import ScoreTable
from batch_calibration.typing import InputError


class Store:
    """A folder of finished contexts: `scores/<id>.safetensors` and `records/<id>.json`."""

    def __init__(self, workdir: str | Path, *, create: bool = False):
        """Open a workdir; with `create` make it, else it must hold scores already."""
        self.workdir = Path(workdir)
        if create:
            try:
                (self.workdir / "scores").mkdir(parents=True, exist_ok=True)
                probe = self.workdir / "scores" / ".writable"
                probe.touch()
                probe.unlink()
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
        """Keep a table, whole or not at all."""
        table.save(self._table(table.id))

    def tables(self) -> Iterator[ScoreTable]:
        """Every stored table, in the order of the ids."""
        for path in sorted((self.workdir / "scores").glob("*.safetensors")):
            yield scores.load(path)

    def put_record(self, name: str, record: dict[str, Any]) -> None:
        """Keep what was derived from a table."""
        text = json.dumps(record, indent=1, sort_keys=True)
        scores.write_whole(self.workdir / "records" / f"{name}.json", text.encode())

    def records(self) -> list[dict[str, Any]]:
        """Every record; a sentence where there is none."""
        paths = sorted((self.workdir / "records").glob("*.json"))
        if not paths:
            raise InputError(
                f"workdir {self.workdir}: no records yet; run experiments.calibrate with this "
                "--workdir first."
            )
        return [json.loads(path.read_text(encoding="utf-8")) for path in paths]

    def _table(self, name: str) -> Path:
        return self.workdir / "scores" / f"{name}.safetensors"
