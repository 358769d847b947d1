"""Overlays for tasks that lm-evaluation-harness has: the same tasks with corrected accuracies."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from lm_eval.tasks import TaskManager

from batch_calibration.errors import InputError
from batch_calibration.files import Json
from batch_calibration.integrations.lm_eval import CorrectedTask, corrected_accuracy

CLASS = f"{CorrectedTask.__module__}.{CorrectedTask.__name__}"
"""What an overlay names as the class of its task."""


def write_overlays(
    names: Sequence[str],
    folder: Path,
    method: str = "bc",
    prior: Sequence[float] | None = None,
    include_path: str | None = None,
) -> tuple[list[str], list[str]]:
    """Write a YAML for each task, which includes its own and is called as it is.

    Args:
        names: tasks, groups and tags of the harness.
        folder: where the files go; the harness gets it as `--include_path`.
        method: of the correction, one that needs neither labels nor probes.
        prior: the share of each choice among the right ones, in the order of the choices.
        include_path: a folder of tasks of one's own.

    Returns:
        The tasks that have an overlay, and a sentence for each task of a group that has none.

    Raises:
        InputError: an unknown name; a task that is not corrected, and why; the method's own.
    """
    _check_method(method, prior)
    _remove_overlays(folder)
    index = TaskManager(include_path=include_path).task_index
    reasons: dict[str, str] = {}  # task -> why it has no overlay
    paths: dict[str, Path] = {}
    for name in names:
        if name not in index:
            raise InputError.unknown("task", name, index)
        members = list(dict.fromkeys(_leaf_tasks(name, index)))
        for task in members:
            reason = _reason_against(index[task].cfg or {})
            if index[task].yaml_path is None:
                reason = "it has no YAML"
            if not reason:
                paths[task] = Path(index[task].yaml_path)
                continue
            reasons[task] = f"{task} stays as it is: {reason}."
            if len(members) == 1:
                raise InputError(
                    where=f"task {task}",
                    expected="a task that scores choices (output_type: multiple_choice)",
                    got=reason,
                    remedy="choose another one",
                )
    folder.mkdir(parents=True, exist_ok=True)
    for task, path in paths.items():
        arguments: dict[str, Json] = {"method": method}
        if prior is not None:
            arguments["prior"] = list(prior)
        metadata = _metadata((index[task].cfg or {}).get("metadata"))
        # A file's own keys replace those of what it includes, so the metadata are repeated. Without
        # a tag: the harness's own would be replaced by one of these tasks alone.
        text = (
            f"include: {json.dumps(str(path.resolve()))}\n"
            f"task: {json.dumps(task)}\n"
            f"class: !function {CLASS}\n"
            "tag: []\n"
            f"metadata: {json.dumps({**metadata, 'batch_calibration': arguments})}\n"
        )
        (folder / f"{task}.yaml").write_text(text, encoding="utf-8")
    return list(paths), list(reasons.values())


def _check_method(method: str, prior: Sequence[float] | None) -> None:
    """Refuse now what would be refused when all documents have been asked."""
    choices = len(prior) if prior is not None else 2
    documents = []
    for row in range(12 * choices):
        scores = [-1.0 - (row * (choice + 2)) % 5 for choice in range(choices)]
        documents.append((row % choices, scores))
    corrected_accuracy(documents, method, prior)


def _remove_overlays(folder: Path) -> None:
    """Remove what an earlier call wrote, which would stand for tasks that are not asked for now."""
    for file in folder.glob("*.yaml"):
        text = file.read_text(encoding="utf-8")
        if text.startswith("include: ") and f"\nclass: !function {CLASS}\ntag: []\n" in text:
            file.unlink()


def _leaf_tasks(name: str, index: Mapping[str, Any]) -> Iterator[str]:
    """The tasks of a name: itself, those of a group's members, or those with a tag."""
    index_entry = index[name]
    if index_entry.kind.name in ("TASK", "PY_TASK"):
        yield name
    elif index_entry.kind.name == "TAG":
        yield from sorted(index_entry.tags)
    else:
        members = (index_entry.cfg or {}).get("task")
        for member in members if isinstance(members, list) else []:
            yield from _tasks_of_member(member, index)


def _tasks_of_member(member: Any, index: Mapping[str, Any]) -> Iterator[str]:
    """The tasks of what a group lists: a name, or a group or task with settings of its own."""
    if isinstance(member, dict):
        inline = member.get("task")
        if isinstance(inline, list) and member.get("group") not in index:
            for inner in inline:
                yield from _tasks_of_member(inner, index)
            return
        member = member.get("group") or inline
    # What a group defines itself has no YAML to include.
    if isinstance(member, str) and member in index:
        yield from _leaf_tasks(member, index)


def _reason_against(config: Mapping[str, Any]) -> str:
    """Why a task cannot be corrected, "" where it can."""
    if "class" in config:
        return "it has a class of its own"
    kind = config.get("output_type", "generate_until")
    if kind != "multiple_choice":
        return f"its output type is {kind}"
    if "process_results" in config:
        return "it has process_results of its own"
    return ""


def _metadata(metadata: Any) -> dict[str, Json]:
    """A task's metadata as the harness reads them, without what JSON does not have."""
    facts = metadata if isinstance(metadata, dict) else {}
    plain: dict[str, Json] = json.loads(json.dumps(facts, default=str))
    return plain
