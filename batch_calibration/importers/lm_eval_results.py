"""What stands beside a log of lm-evaluation-harness: its name, and its file of results."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from batch_calibration.files import Json, parse_json
from batch_calibration.importers.base import Reading
from batch_calibration.importers.text_files import count_of, fields

DATE = r"\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d(?:\.\d+)?"
MAX_RESULTS_BYTES = 1 << 26  # beyond these a results file is none


class About(NamedTuple):
    """What a log's name and the results beside it say."""

    context: dict[str, Json]  # of the log: task, model, data, shots
    shots: int | None  # the number of demonstrations, None where it is not known
    rows: int | None  # how many documents were evaluated, None where it is not known
    results_name: str  # the name of the file of results


def about_log(path: Path, reading: Reading) -> About:
    """What is known of a log's context.

    `samples_TASK_DATE.jsonl` has `results_DATE.json` beside it, and the logs of 0.4.0 to 0.4.2,
    `MODEL_ARGS_TASK.jsonl`, have `results.json`.
    """
    name, averages, task = results_of(path)
    configs = fields(averages.get("configs"))
    config, run = fields(configs.get(task)), fields(averages.get("config"))
    shots = count_of(fields(averages.get("n-shot")).get(task, config.get("num_fewshot")))
    seed = run.get("fewshot_seed")
    context: dict[str, Json] = {
        "task": reading.task or task,
        "scorer": f"lm-evaluation-harness {averages.get('lm_eval_version') or ''}".strip(),
        "model": _model(averages, run),
        "data": _join(config.get("dataset_path"), config.get("dataset_name")),
        "split": _join(config.get("test_split") or config.get("validation_split")),
        "template": _join(config.get("doc_to_text")),
        "shots": shots,
        "seed": seed if type(seed) is int else None,
    }
    context = {name: detail for name, detail in context.items() if detail not in (None, "")}
    count = fields(fields(averages.get("n-samples")).get(task)).get("effective")
    return About(context, shots, count if type(count) is int else None, name)


def results_of(path: Path) -> tuple[str, Mapping[str, Json], str]:
    """The name and content of the results beside a log, {} of none, and what the task is called."""
    named = re.fullmatch(rf"samples_(.+)_({DATE})", path.stem)
    # Without a date there is one file of results a folder.
    name = f"results_{named[2]}.json" if named else "results.json"
    averages = _read_results(path.with_name(name))
    if named:
        return name, averages, named[1]
    # The longest known task that the name ends in.
    tasks = [task for task in fields(averages.get("configs")) if path.stem.endswith(f"_{task}")]
    return name, averages, max(tasks, key=len, default=path.stem)


def _read_results(path: Path) -> Mapping[str, Json]:
    """The results file, or nothing where there is none that can be read: it is never demanded."""
    try:
        if path.stat().st_size > MAX_RESULTS_BYTES:
            return {}
        return fields(parse_json(path.read_text(encoding="utf-8-sig")))
    except (OSError, ValueError):
        return {}


def _model(averages: Mapping[str, Json], run: Mapping[str, Json]) -> str:
    """The model's name: since 0.4.3 as such, before that in the arguments; of a path the end."""
    arguments = run.get("model_args")
    pretrained = fields(arguments).get("pretrained")
    if isinstance(arguments, str):
        match = re.search(r"(?:pretrained|model)=([^,]+)", arguments)
        pretrained = match[1] if match else ""
    name = _join(averages.get("model_name")) or _join(pretrained) or _join(run.get("model"))
    # Two folders: checkpoints of several runs are often called alike.
    return "/".join(Path(name).parts[-2:]) if Path(name).is_absolute() else name


def _join(*texts: Json) -> str:
    return " ".join(text for text in texts if isinstance(text, str) and text)
