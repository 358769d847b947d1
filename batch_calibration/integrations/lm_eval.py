"""Label-bias correction inside lm-evaluation-harness, for tasks of the type `multiple_choice`.

A task's YAML names each by `!function batch_calibration.integrations.lm_eval.NAME`:

- `CorrectedTask`, the class of a task: `class: !function ...CorrectedTask` as one more key. Its
  table gets `acc_bc`, `balanced_acc`, `balanced_acc_bc` and `preference_nats`.
- `corrected_accuracy`, `corrected_balanced_accuracy` and `preference_nats`: aggregations of the
  metric `likelihood`.
- `BatchCalibration`, a filter: `acc` under the filter's name is that of the corrected scores. It
  sees the documents of its own process; the others are right on any number of processes.

Each corrects one task's rows at a time; `recommend_together` pools the label shares of several
contexts of a task (prompts, shots, models), also of the logs that the harness writes.

The harness's log of samples keeps the scores as the model gave them under the filter `none`:
`batch_calibration.read(LOG, Reading(filter="none"))` reads them.
"""

import json
import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
from lm_eval.api.filter import Filter
from lm_eval.api.task import ConfigurableTask

from batch_calibration.api import calibrate
from batch_calibration.errors import InputError, refuse_unknown
from batch_calibration.files import Json, list_at, object_at
from batch_calibration.metrics import accuracy, balanced_accuracy
from batch_calibration.typing import Container

LABEL_SCORES = "likelihood"
"""The harness's name of a document's right choice and the log-probability of each choice, nats."""
Document = Mapping[str, object]
LabelScores = tuple[int, Sequence[float]]
Prior = Sequence[float] | None  # the share of each choice among the right ones
Metrics = dict[str, object]
Aggregation = Callable[[Container], float]

logger = logging.getLogger(__name__)


class BatchCalibration(Filter):  # type: ignore[misc]  # the harness has no types
    """Corrects the scores of all documents of a task; goes after `take_first`.

    `acc` is right. `acc_norm` divides corrected scores by the length of a choice, which means
    nothing: leave it out. Without the option `choices`, unconditional requests of `acc_mutual_info`
    pass as more choices, which BC corrects each by itself.

    Args:
        method: a method that learns from the scores of the documents alone, without labels.
        prior: the share of each choice among the right ones, in the order of the choices.
        choices: how many choices a document has; None for as many as it has requests.
        options: of the method.

    Example, in a task's YAML::

        filter_list:
          - {name: none, filter: [{function: take_first}]}
          - name: bc
            filter:
              - function: take_first
              - function: !function batch_calibration.integrations.lm_eval.BatchCalibration
    """

    def __init__(
        self, method: str = "bc", prior: Prior = None, choices: int | None = None, **options: object
    ) -> None:
        self.correct = _correction(method, prior, options)
        self.choices = choices

    def apply(
        self, resps: Iterable[tuple[float, bool]], docs: Sequence[Document]
    ) -> list[tuple[float, bool]]:
        """The responses with corrected scores.

        Args:
            resps: the log-likelihood of each request, nats, and whether its text is the most
                probable;
                the requests of a document stand together.
            docs: the document of each request.

        Raises:
            InputError: documents differ in how many choices they have; the method's own.
        """
        responses = list(resps)
        processes = int(os.environ.get("WORLD_SIZE", "1"))
        if processes > 1:
            message = "This filter corrects the documents of one of %d processes by their own "
            message += "mean. Use the class CorrectedTask or the aggregations of %s, which see all."
            logger.warning(message, processes, __name__)
        # How many requests each document has: those of one stand together.
        counts = [len(list(requests)) for _, requests in groupby(docs, key=id)]
        scores = np.array([score for score, _ in responses])
        corrected = self.correct(_as_rows(np.split(scores, np.cumsum(counts)[:-1]), self.choices))
        greedy = [is_greedy for _, is_greedy in responses]
        return list(zip(corrected.ravel().tolist(), greedy, strict=True))


def likelihood(samples: list[LabelScores]) -> list[LabelScores]:
    """The metric that gives each document's right choice and scores; the harness fills it."""
    return samples


def corrected_accuracy(
    samples: Sequence[LabelScores], method: str = "bc", prior: Prior = None, **options: object
) -> float:
    """Accuracy after correction: an aggregation of the harness's `likelihood`.

    Args:
        samples: of each document the index of the right choice and k log-likelihoods, nats.
        method: a method that needs neither labels nor probes.
        prior: the share of each choice among the right ones.
        options: of the method.

    Raises:
        InputError: documents differ in how many choices they have; the method's own.
    """
    labels, scores = _labels_and_scores(samples)
    return float(accuracy(_correction(method, prior, options)(scores), labels))


def corrected_balanced_accuracy(
    samples: Sequence[LabelScores], method: str = "bc", prior: Prior = None, **options: object
) -> float:
    """The mean over choices of the accuracy where each is right, after correction."""
    labels, scores = _labels_and_scores(samples)
    return float(balanced_accuracy(_correction(method, prior, options)(scores), labels))


def raw_balanced_accuracy(samples: Sequence[LabelScores]) -> float:
    """The mean over choices of the accuracy where each is right, of the scores as they are."""
    labels, scores = _labels_and_scores(samples)
    return float(balanced_accuracy(scores, labels))


def preference_nats(samples: Sequence[LabelScores]) -> float:
    """By how many nats the mean score of the most preferred choice exceeds that of the least."""
    _, scores = _labels_and_scores(samples)
    return float(np.ptp(scores.mean(axis=0)))


class CorrectedTask(ConfigurableTask):  # type: ignore[misc]  # the harness has no types
    """A task of the harness whose table has the corrected accuracy next to its own metrics.

    The task's `metadata` may say `batch_calibration: {method: bc, prior: [0.9, 0.1], ...}`, the
    arguments of `corrected_accuracy`.

    Raises:
        InputError: the task is not of the type `multiple_choice`.
    """

    def __init__(self, config: dict[str, object] | None = None, **options: object) -> None:
        settings = dict(config or {})
        settings.pop("class", None)  # no field of the harness's own configuration
        super().__init__(config=settings, **options)
        if self.OUTPUT_TYPE != "multiple_choice":
            expected = "the output type 'multiple_choice'"
            got = repr(self.OUTPUT_TYPE)
            remedy = "choose a task that scores choices"
            raise InputError.at(f"task {settings.get('task', '')}", expected, got, remedy)
        arguments = dict((self.config.metadata or {}).get("batch_calibration", {}))
        method = arguments.get("method", "bc")
        self._aggregations: dict[str, Aggregation] = {
            f"acc_{method}": _or_nan(partial(corrected_accuracy, **arguments)),
            "balanced_acc": _or_nan(raw_balanced_accuracy),
            f"balanced_acc_{method}": _or_nan(partial(corrected_balanced_accuracy, **arguments)),
            "preference_nats": _or_nan(preference_nats),
        }

    def process_results(self, doc: Document, results: Sequence[tuple[float, bool]]) -> Metrics:
        """The task's own metrics of a document, and its right choice and scores for ours."""
        # The harness computes it where it is asked for.
        is_own_metric = LABEL_SCORES in self._metric_fn_list
        self._metric_fn_list.setdefault(LABEL_SCORES, likelihood)
        metrics: Metrics = super().process_results(doc, results)
        if LABEL_SCORES not in metrics:
            expected = "the harness's metrics"
            raise InputError.at(f"task {self.config.task}", expected, "its own process_results")
        label_scores = metrics[LABEL_SCORES]
        if not is_own_metric:
            del self._metric_fn_list[LABEL_SCORES], metrics[LABEL_SCORES]
        return metrics | dict.fromkeys(self._aggregations, label_scores)

    def aggregation(self) -> dict[str, Aggregation]:
        """The functions that make one number of all documents' values, by metric."""
        functions: dict[str, Aggregation] = super().aggregation()
        return functions | self._aggregations

    def higher_is_better(self) -> dict[str, bool]:
        """Metric -> True if more is better."""
        better: dict[str, bool] = super().higher_is_better()
        return {**better, **dict.fromkeys(self._aggregations, True), "preference_nats": False}


def _or_nan(function: Aggregation) -> Aggregation:
    """NaN and a warning where documents cannot be corrected: all are asked by then."""

    def aggregate(samples: Container) -> float:
        try:
            return function(samples)
        except InputError as error:
            logger.warning("%s", error)
            return float("nan")

    return aggregate


def _correction(
    method: str, prior: Prior, options: Mapping[str, object]
) -> Callable[[np.ndarray], np.ndarray]:
    """A function that corrects log-likelihoods [n, k]."""
    arguments: dict[str, Container] = {"from_probs": False, **options}
    if prior is not None:
        arguments["target_prior"] = list(prior)
    return lambda scores: np.asarray(calibrate(scores, method, **arguments))


def _labels_and_scores(samples: Sequence[LabelScores]) -> tuple[np.ndarray, np.ndarray]:
    """Right choices [n] and scores [n, k]."""
    labels = [label for label, _ in samples]
    if any(not isinstance(label, int | np.integer) for label in labels):
        expected = "one right choice in each document"
        raise InputError.at("the task", expected, "several", "choose a task with one")
    scores = _as_rows([np.asarray(scores, np.float64) for _, scores in samples], None)
    return np.asarray(labels, np.int32), scores


def _as_rows(rows: Sequence[np.ndarray], choices: int | None) -> np.ndarray:
    """The scores [n, k] of n documents, all with k choices."""
    counts = {len(row) for row in rows} | ({choices} if choices is not None else set())
    if len(counts) > 1:
        expected = "as many choices in each document, for a choice has one bias"
        got = f"{' and '.join(map(str, sorted(counts)))} choices"
        remedy = "leave out documents with fewer choices, or make a task of each number"
        raise InputError.at("the task", expected, got, remedy)
    return np.stack(rows)


CLASS = f"{CorrectedTask.__module__}.{CorrectedTask.__name__}"
"""Class of the task of an overlay."""


def write_overlays(
    names: Sequence[str],
    folder: Path,
    method: str = "bc",
    prior: Prior = None,
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
    from lm_eval.tasks import TaskManager  # loads all tasks, of which some may name this module

    _check_method(method, prior)
    _remove_overlays(folder)
    index = TaskManager(include_path=include_path).task_index
    reasons: dict[str, str] = {}  # task -> why it has no overlay
    paths: dict[str, Path] = {}
    for name in names:
        refuse_unknown("task", name, index)
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
                expected = "one that scores choices (output_type: multiple_choice)"
                raise InputError.at(f"task {task}", expected, reason)
    for task in paths:
        if (folder / f"{task}.yaml").exists():  # what an earlier call wrote is gone by now
            expected = "a folder without your own tasks"
            raise InputError.at(folder / f"{task}.yaml", expected, "one", "name another")
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


def _check_method(method: str, prior: Prior) -> None:
    """Refuse now what would be refused when all documents have been asked."""
    k = 2 if prior is None else len(prior)
    rows = np.arange(12 * k)
    scores = -1.0 - np.outer(rows, np.arange(2, k + 2)) % 5
    corrected_accuracy(list(zip((rows % k).tolist(), scores, strict=True)), method, prior)


def _remove_overlays(folder: Path) -> None:
    """Remove what an earlier call wrote, which would stand for tasks that are not asked for now."""
    for file in folder.glob("*.yaml"):
        text = file.read_text(encoding="utf-8", errors="replace")
        if text.startswith("include: ") and f"\nclass: !function {CLASS}\ntag: []\n" in text:
            file.unlink()


def _leaf_tasks(name: str, index: Mapping[str, Any]) -> Iterator[str]:
    """The tasks of a name: itself, the tasks of a group, or the tasks with a tag."""
    index_entry = index[name]
    if index_entry.kind.name in ("TASK", "PY_TASK"):
        yield name
    elif index_entry.kind.name == "TAG":
        yield from sorted(index_entry.tags)
    else:
        for member in list_at(index_entry.cfg, "task"):
            yield from _tasks_of_member(member, index)


def _tasks_of_member(member: Any, index: Mapping[str, Any]) -> Iterator[str]:
    """The tasks of what a group lists: a name, or a group or task with settings of its own."""
    if isinstance(member, dict):
        if member.get("group") not in index:
            for inner in list_at(member, "task"):
                yield from _tasks_of_member(inner, index)
        member = member.get("group") or member.get("task")
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
    return "it has its own process_results" if "process_results" in config else ""


def _metadata(metadata: Any) -> dict[str, Json]:
    """A task's metadata as the harness reads them, without what JSON does not have."""
    plain: dict[str, Json] = json.loads(json.dumps(object_at(metadata), default=str))
    return plain
