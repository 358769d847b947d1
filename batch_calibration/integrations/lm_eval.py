"""Label-bias correction inside lm-evaluation-harness, for tasks of the type `multiple_choice`.

A task's YAML refers to each part by `!function batch_calibration.integrations.lm_eval.NAME`:

- `CorrectedTask` is the class of a task, in a key `class: !function ...CorrectedTask`. The task's
  table gets `acc_bc`, `balanced_acc`, `balanced_acc_bc` and `preference_nats`.
- `corrected_accuracy`, `corrected_balanced_accuracy` and `preference_nats` are aggregations of the
  metric `likelihood`.
- `BatchCalibration` is a filter: `acc` under the filter's name is the accuracy of the corrected
  scores. The filter sees only the documents of its own process; the other parts see all documents.

Each part accepts `advice`, a file of `recommend`, in place of `method`, `prior` and options.
Choice j of a document then has the share of the file's label j.

Each part corrects the rows of one task at a time. `recommend_together` pools the label shares of
several contexts of a task (prompts, shots, models), and also accepts logs of the harness.

Under the filter `none`, the harness's log of samples holds the model's original scores:
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
from batch_calibration.diagnosis.advice import choose_advice, read_advice, refuse_beside_advice
from batch_calibration.errors import InputError, refuse_unknown
from batch_calibration.files import Json, list_at, object_at
from batch_calibration.metrics import accuracy, balanced_accuracy
from batch_calibration.typing import Container

LABEL_SCORES = "likelihood"
"""The harness's metric with a document's right choice and its choices' log-probabilities (nats)."""
Document = Mapping[str, object]
LabelScores = tuple[int, Sequence[float]]
Prior = Sequence[float] | None  # share of each choice among the right choices
Metrics = dict[str, object]
Aggregation = Callable[[Container], float]

logger = logging.getLogger(__name__)


class BatchCalibration(Filter):  # type: ignore[misc]  # the harness has no types
    """A filter that corrects the scores of all documents of a task; it belongs after `take_first`.

    `acc` is meaningful. `acc_norm` is not, because it divides corrected scores by the length of a
    choice: leave it out. Without the option `choices`, the unconditional requests of
    `acc_mutual_info` count as further choices, and BC corrects each of them separately.

    Args:
        method: a method that learns only from the scores of the documents, without labels.
        prior: the share of each choice among the right choices, in the order of the choices.
        choices: number of choices of a document; None for the number of its requests.
        options: options of the method, or advice.

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
        """Returns the responses with corrected scores.

        Args:
            resps: the log-likelihood of each request in nats, and whether its text is the most
                probable; the requests of a document are consecutive.
            docs: the document of each request.

        Raises:
            InputError: documents with different numbers of choices; errors of the method.
        """
        responses = list(resps)
        processes = int(os.environ.get("WORLD_SIZE", "1"))
        if processes > 1:
            message = "This filter corrects the documents of each of %d processes separately. Use "
            message += "the class CorrectedTask or the aggregations of %s, which see all documents."
            logger.warning(message, processes, __name__)
        # Numbers of requests of the documents; the requests of a document are consecutive.
        counts = [len(list(requests)) for _, requests in groupby(docs, key=id)]
        scores = np.array([score for score, _ in responses])
        corrected = self.correct(_as_rows(np.split(scores, np.cumsum(counts)[:-1]), self.choices))
        greedy = [is_greedy for _, is_greedy in responses]
        return list(zip(corrected.ravel().tolist(), greedy, strict=True))


def likelihood(samples: list[LabelScores]) -> list[LabelScores]:
    """Returns the right choice and scores of each document, which the harness fills in."""
    return samples


def corrected_accuracy(
    samples: Sequence[LabelScores], method: str = "bc", prior: Prior = None, **options: object
) -> float:
    """Computes the accuracy after correction, as an aggregation of the harness's `likelihood`.

    Args:
        samples: index of the right choice and k log-likelihoods in nats, for each document.
        method: a method that needs neither labels nor probes.
        prior: the share of each choice among the right choices.
        options: options of the method, or advice.

    Raises:
        InputError: documents with different numbers of choices; errors of the method.
    """
    labels, scores = _labels_and_scores(samples)
    return float(accuracy(_correction(method, prior, options)(scores), labels))


def corrected_balanced_accuracy(
    samples: Sequence[LabelScores], method: str = "bc", prior: Prior = None, **options: object
) -> float:
    """Computes the balanced accuracy after correction, the mean of the accuracies per choice."""
    labels, scores = _labels_and_scores(samples)
    return float(balanced_accuracy(_correction(method, prior, options)(scores), labels))


def raw_balanced_accuracy(samples: Sequence[LabelScores]) -> float:
    """Computes the balanced accuracy of the scores without correction."""
    labels, scores = _labels_and_scores(samples)
    return float(balanced_accuracy(scores, labels))


def preference_nats(samples: Sequence[LabelScores]) -> float:
    """Computes the difference of the largest and smallest mean score of a choice, in nats."""
    _, scores = _labels_and_scores(samples)
    return float(np.ptp(scores.mean(axis=0)))


class CorrectedTask(ConfigurableTask):  # type: ignore[misc]  # the harness has no types
    """A task of the harness that adds corrected accuracies to its own metrics.

    The task's `metadata` may hold arguments of `corrected_accuracy`, as
    `batch_calibration: {method: bc, prior: [0.9, 0.1], ...}`. Metrics by `advice: FILE` have the
    names `acc_advice` and `balanced_acc_advice`.

    Raises:
        InputError: the task is not of the type `multiple_choice`.
    """

    def __init__(self, config: dict[str, object] | None = None, **options: object) -> None:
        settings = dict(config or {})
        settings.pop("class", None)  # not a field of the harness's own configuration
        super().__init__(config=settings, **options)
        if self.OUTPUT_TYPE != "multiple_choice":
            expected = "the output type 'multiple_choice'"
            got = repr(self.OUTPUT_TYPE)
            remedy = "choose a task that scores choices"
            raise InputError.at(f"task {settings.get('task', '')}", expected, got, remedy)
        arguments = dict((self.config.metadata or {}).get("batch_calibration", {}))
        _check_arguments(arguments)
        method = "advice" if "advice" in arguments else arguments.get("method", "bc")
        self._aggregations: dict[str, Aggregation] = {
            f"acc_{method}": _or_nan(partial(corrected_accuracy, **arguments)),
            "balanced_acc": _or_nan(raw_balanced_accuracy),
            f"balanced_acc_{method}": _or_nan(partial(corrected_balanced_accuracy, **arguments)),
            "preference_nats": _or_nan(preference_nats),
        }

    def process_results(self, doc: Document, results: Sequence[tuple[float, bool]]) -> Metrics:
        """Returns a document's metrics: the task's own, and right choice and scores for ours."""
        # The harness computes this metric only if the task requests it.
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
        """Maps each metric to the function that aggregates the documents' values."""
        functions: dict[str, Aggregation] = super().aggregation()
        return functions | self._aggregations

    def higher_is_better(self) -> dict[str, bool]:
        """Maps each metric to True if higher is better."""
        better: dict[str, bool] = super().higher_is_better()
        return {**better, **dict.fromkeys(self._aggregations, True), "preference_nats": False}


def _or_nan(function: Aggregation) -> Aggregation:
    """Wraps an aggregation: documents that cannot be corrected give NaN and a warning.

    An error would discard the scores of a finished evaluation.
    """

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
    """Returns a function that corrects log-likelihoods [n, k]."""
    arguments: dict[str, Container] = {"from_probs": False, **options}
    if (advice := arguments.pop("advice", None)) is not None:
        given = dict.fromkeys(arguments.keys() - {"from_probs"}, True)
        refuse_beside_advice(method=method != "bc", prior=prior is not None, **given)
        choose = partial(choose_advice, read_advice(advice), str(advice))
        return lambda scores: choose(k=scores.shape[-1]).apply(scores, **arguments)
    if prior is not None:
        arguments["target_prior"] = list(prior)
    return lambda scores: np.asarray(calibrate(scores, method, **arguments))


def _labels_and_scores(samples: Sequence[LabelScores]) -> tuple[np.ndarray, np.ndarray]:
    """Returns the right choices [n] and the scores [n, k]."""
    labels = [label for label, _ in samples]
    if any(not isinstance(label, int | np.integer) for label in labels):
        expected = "one right choice in each document"
        raise InputError.at("the task", expected, "several", "use another task")
    scores = _as_rows([np.asarray(scores, np.float64) for _, scores in samples], None)
    return np.asarray(labels, np.int32), scores


def _as_rows(rows: Sequence[np.ndarray], choices: int | None) -> np.ndarray:
    """Stacks the scores [n, k] of documents with k choices each."""
    counts = {len(row) for row in rows} | ({choices} if choices is not None else set())
    if len(counts) > 1:
        expected = "an equal number of choices in each document, because each choice has a bias"
        got = f"{' and '.join(map(str, sorted(counts)))} choices"
        remedy = "leave out documents with fewer choices, or make a task for each number"
        raise InputError.at("the task", expected, got, remedy)
    return np.stack(rows)


CLASS = f"{CorrectedTask.__module__}.{CorrectedTask.__name__}"
"""Full name of the class that overlays give to a task."""


def write_overlays(
    names: Sequence[str],
    folder: Path,
    method: str = "bc",
    prior: Prior = None,
    include_path: str | None = None,
    advice: str | None = None,
) -> tuple[list[str], list[str]]:
    """Writes an overlay for each task: a YAML of the same name that includes the task's own YAML.

    Args:
        names: tasks, groups and tags of the harness.
        folder: the folder of the overlays; pass it to the harness as `--include_path`.
        method: a correction method that needs neither labels nor probes.
        prior: the share of each choice among the right choices, in the order of the choices.
        include_path: a folder with the user's own tasks.
        advice: a file of `recommend`, in place of method and prior.

    Returns:
        The tasks with an overlay, and a message on each task of a group without an overlay.

    Raises:
        InputError: an unknown name; a task that cannot be corrected; errors of the method.
    """
    from lm_eval.tasks import TaskManager  # loads all tasks; some may import this module

    arguments: dict[str, Container] = {"method": method}
    if prior is not None:
        arguments["prior"] = list(prior)
    if advice is not None:
        arguments["advice"] = str(Path(advice).resolve())
    _check_arguments(arguments)
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
            reasons[task] = f"{task} stays uncorrected: {reason}."
            if len(members) == 1:
                expected = "a task that scores choices (output_type: multiple_choice)"
                raise InputError.at(f"task {task}", expected, reason)
    for task in paths:
        if (folder / f"{task}.yaml").exists():  # Overlays of earlier calls are already removed.
            expected = "a folder without your own tasks"
            raise InputError.at(folder / f"{task}.yaml", expected, "one", "name another folder")
    folder.mkdir(parents=True, exist_ok=True)
    for task, path in paths.items():
        metadata = _metadata((index[task].cfg or {}).get("metadata"))
        # A file's keys replace the keys of the file that it includes, so the metadata are repeated.
        # The tag is empty; otherwise it would replace the harness's tag by one of these tasks only.
        text = (
            f"include: {json.dumps(str(path.resolve()))}\n"
            f"task: {json.dumps(task)}\n"
            f"class: !function {CLASS}\n"
            "tag: []\n"
            f"metadata: {json.dumps({**metadata, 'batch_calibration': arguments})}\n"
        )
        (folder / f"{task}.yaml").write_text(text, encoding="utf-8")
    return list(paths), list(reasons.values())


def _check_arguments(arguments: Mapping[str, Container]) -> None:
    """Raises now for arguments that would otherwise raise after all documents are scored."""
    numbers = {len(arguments.get("prior", "12"))}
    if "advice" in arguments:
        numbers = {len(one.label_names) for _, one in read_advice(arguments["advice"])}
    for k in numbers:
        rows = np.arange(12 * k)
        scores = -1.0 - np.outer(rows, np.arange(2, k + 2)) % 5
        corrected_accuracy(list(zip((rows % k).tolist(), scores, strict=True)), **arguments)


def _remove_overlays(folder: Path) -> None:
    """Removes the overlays of an earlier call, which would replace tasks that are not named now."""
    for file in folder.glob("*.yaml"):
        text = file.read_text(encoding="utf-8", errors="replace")
        if text.startswith("include: ") and f"\nclass: !function {CLASS}\ntag: []\n" in text:
            file.unlink()


def _leaf_tasks(name: str, index: Mapping[str, Any]) -> Iterator[str]:
    """Yields the tasks of a name: the task itself, a group's tasks, or the tasks with a tag."""
    index_entry = index[name]
    if index_entry.kind.name in ("TASK", "PY_TASK"):
        yield name
    elif index_entry.kind.name == "TAG":
        yield from sorted(index_entry.tags)
    else:
        for member in list_at(index_entry.cfg, "task"):
            yield from _tasks_of_member(member, index)


def _tasks_of_member(member: Any, index: Mapping[str, Any]) -> Iterator[str]:
    """Yields the tasks of a group's member: a name, or a group or task with its own settings."""
    if isinstance(member, dict):
        if member.get("group") not in index:
            for inner in list_at(member, "task"):
                yield from _tasks_of_member(inner, index)
        member = member.get("group") or member.get("task")
    # A task that a group defines itself has no YAML to include.
    if isinstance(member, str) and member in index:
        yield from _leaf_tasks(member, index)


def _reason_against(config: Mapping[str, Any]) -> str:
    """Returns the reason why a task cannot be corrected, or "" for a task that can be."""
    if "class" in config:
        return "it has its own class"
    kind = config.get("output_type", "generate_until")
    if kind != "multiple_choice":
        return f"its output type is {kind}"
    return "it has its own process_results" if "process_results" in config else ""


def _metadata(metadata: Any) -> dict[str, Json]:
    """Returns a task's metadata as plain JSON; other values become texts."""
    plain: dict[str, Json] = json.loads(json.dumps(object_at(metadata), default=str))
    return plain
