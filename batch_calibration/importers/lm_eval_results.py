"""What lm-evaluation-harness says of a log in the results file beside it, and in its name."""

import re
from collections.abc import Mapping
from pathlib import Path

from batch_calibration.files import Json, parse_json
from batch_calibration.importers.base import Reading
from batch_calibration.importers.json_parts import fields

DATE = r"\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d(?:\.\d+)?"
LARGEST_FILE = 1 << 26
"""Bytes of a results file beyond which it is none."""


def about_log(path: Path, reading: Reading) -> tuple[dict[str, Json], int | None]:
    """What is known of a log's context, and its number of demonstrations where it is known.

    Args:
        path: the samples file; `samples_TASK_DATE.jsonl` has `results_DATE.json` beside it, and
            those of 0.4.0 to 0.4.2, `MODEL_ARGS_TASK.jsonl`, have `results.json`.
        reading: names that a person gives.
    """
    named = re.fullmatch(rf"samples_(.+)_({DATE})", path.stem)
    beside = path.with_name(f"results_{named[2]}.json" if named else "results.json")
    results = _read(beside)
    task = named[1] if named else _task(path.stem, results)
    config, run = fields(fields(results.get("configs")).get(task)), fields(results.get("config"))
    version = results.get("lm_eval_version")
    shots = fields(results.get("n-shot")).get(task, config.get("num_fewshot"))
    shots = shots if type(shots) is int and shots >= 0 else None
    about: dict[str, Json] = {
        "task": reading.task or task,
        "scorer": f"lm-evaluation-harness {version or ''}".strip(),
        "model": _model(results, run),
        "data": _text(config.get("dataset_path"), config.get("dataset_name")),
        "split": _text(config.get("test_split") or config.get("validation_split")),
        "template": _text(config.get("doc_to_text")),
        "shots": shots,
        "seed": run.get("fewshot_seed") if type(run.get("fewshot_seed")) is int else None,
    }
    return {key: value for key, value in about.items() if value not in (None, "")}, shots


def _read(path: Path) -> Mapping[str, Json]:
    """The results file, or nothing where there is none that can be read: it is never demanded."""
    try:
        if path.stat().st_size > LARGEST_FILE:
            return {}
        return fields(parse_json(path.read_text(encoding="utf-8-sig")))
    except (OSError, ValueError):
        return {}


def _task(stem: str, results: Mapping[str, Json]) -> str:
    """The task in the name of a file of 0.4.0 to 0.4.2: the longest known one that it ends in."""
    known = [name for name in fields(results.get("configs")) if stem.endswith(f"_{name}")]
    return max(known, key=len, default=stem)


def _model(results: Mapping[str, Json], run: Mapping[str, Json]) -> str:
    """The model's name: since 0.4.3 as such, before that in the arguments; of a path the end."""
    args = run.get("model_args")
    given = fields(args).get("pretrained") if isinstance(args, dict) else ""
    if isinstance(args, str) and (found := re.search(r"(?:pretrained|model)=([^,]+)", args)):
        given = found[1]
    name = _text(results.get("model_name")) or _text(given) or _text(run.get("model"))
    # Two parts: checkpoints of several runs are often called alike.
    return "/".join(Path(name).parts[-2:]) if Path(name).is_absolute() else name


def _text(*parts: Json) -> str:
    return " ".join(part for part in parts if isinstance(part, str) and part)
