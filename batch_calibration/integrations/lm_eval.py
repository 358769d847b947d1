"""Label-bias correction inside lm-evaluation-harness, for tasks of the type `multiple_choice`.

A task's YAML names each by `!function batch_calibration.integrations.lm_eval.NAME`:

- `CorrectedTask`, the class of a task: `class: !function ...CorrectedTask` beside what it has. Its
  table gets `acc_bc`, `balanced_acc`, `balanced_acc_bc` and `preference_nats`.
- `corrected_accuracy`, `corrected_balanced_accuracy` and `preference_nats`: aggregations of the
  metric `likelihood`.
- `BatchCalibration`, a filter: `acc` under the filter's name is that of the corrected scores. It
  sees the documents of its own process; the others are right on any number of processes.

The harness's log of samples keeps the scores as the model gave them under the filter `none`:
`batch-calibration diagnose LOG --filter=none` reads them.
"""

import logging
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import groupby

import numpy as np
from lm_eval.api.filter import Filter
from lm_eval.api.task import ConfigurableTask

from batch_calibration.api import calibrate
from batch_calibration.errors import InputError
from batch_calibration.metrics import accuracy, balanced_accuracy
from batch_calibration.typing import Container

LABEL_SCORES = "likelihood"
"""The harness's name of a document's right choice and the log-probability of each choice, nats."""
Document = Mapping[str, object]
LabelScores = tuple[int, Sequence[float]]
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
        self,
        method: str = "bc",
        prior: Sequence[float] | None = None,
        choices: int | None = None,
        **options: object,
    ) -> None:
        self.correct = _correction(method, prior, options)
        self.choices = choices

    def apply(
        self, resps: Iterable[tuple[float, bool]], docs: Sequence[Document]
    ) -> list[tuple[float, bool]]:
        """The responses with corrected scores.

        Args:
            resps: the log-likelihood of each request, nats, and whether it is the likeliest text;
                the requests of a document stand together.
            docs: the document of each request.

        Raises:
            InputError: documents differ in how many choices they have; the method's own.
        """
        responses = list(resps)
        processes = int(os.environ.get("WORLD_SIZE", "1"))
        if processes > 1:
            logger.warning(
                "This filter corrects the documents of one of %d processes by their own mean. Use "
                "the class CorrectedTask or the aggregations of %s, which see all.",
                processes,
                __name__,
            )
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
    samples: Sequence[LabelScores], method: str = "bc", prior: Sequence[float] | None = None,
    **options: object,
) -> float:  # fmt: skip
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
    samples: Sequence[LabelScores], method: str = "bc", prior: Sequence[float] | None = None,
    **options: object,
) -> float:  # fmt: skip
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
    """A task of the harness whose table has the corrected accuracy beside its own metrics.

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
            raise InputError(
                where=f"task {settings.get('task', '')}",
                expected="the output type 'multiple_choice', which scores each choice",
                got=repr(self.OUTPUT_TYPE),
                remedy="choose a task that scores choices",
            )
        arguments = dict((self.config.metadata or {}).get("batch_calibration", {}))
        method = arguments.get("method", "bc")
        self._aggregations: dict[str, Aggregation] = {
            f"acc_{method}": partial(corrected_accuracy, **arguments),
            "balanced_acc": raw_balanced_accuracy,
            f"balanced_acc_{method}": partial(corrected_balanced_accuracy, **arguments),
            "preference_nats": preference_nats,
        }

    def process_results(self, doc: Document, results: Sequence[tuple[float, bool]]) -> Metrics:
        """The task's own metrics of a document, and its right choice and scores for ours."""
        # The harness computes it where it is asked for.
        is_own_metric = LABEL_SCORES in self._metric_fn_list
        self._metric_fn_list.setdefault(LABEL_SCORES, likelihood)
        metrics: Metrics = super().process_results(doc, results)
        if LABEL_SCORES not in metrics:
            raise InputError(
                where=f"task {self.config.task}",
                expected="the metrics that the harness computes of choices",
                got="process_results of its own",
                remedy="choose a task without",
            )
        label_scores = metrics[LABEL_SCORES] if is_own_metric else metrics.pop(LABEL_SCORES)
        if not is_own_metric:
            del self._metric_fn_list[LABEL_SCORES]
        return metrics | dict.fromkeys(self._aggregations, label_scores)

    def aggregation(self) -> dict[str, Aggregation]:
        """The functions that make one number of all documents' values, by metric."""
        functions: dict[str, Aggregation] = super().aggregation()
        return functions | self._aggregations

    def higher_is_better(self) -> dict[str, bool]:
        """Whether more is better, by metric."""
        better: dict[str, bool] = dict(super().higher_is_better())
        for name in self._aggregations:
            better[name] = name != "preference_nats"
        return better


def _correction(
    method: str, prior: Sequence[float] | None, options: Mapping[str, object]
) -> Callable[[np.ndarray], np.ndarray]:
    """What corrects log-likelihoods [n, k]."""
    arguments: dict[str, Container] = {"from_probs": False, **options}
    if prior is not None:
        arguments["target_prior"] = list(prior)
    return lambda scores: np.asarray(calibrate(scores, method, **arguments))


def _labels_and_scores(samples: Sequence[LabelScores]) -> tuple[np.ndarray, np.ndarray]:
    """Right choices [n] and scores [n, k]."""
    labels = [label for label, _ in samples]
    if any(not isinstance(label, int | np.integer) for label in labels):
        raise InputError(
            where="the task", expected="one right choice in each document", got="several",
            remedy="correct a task where one choice is right",
        )  # fmt: skip
    scores = _as_rows([np.asarray(scores, np.float64) for _, scores in samples], None)
    return np.asarray(labels, np.int32), scores


def _as_rows(rows: Sequence[np.ndarray], choices: int | None) -> np.ndarray:
    """The scores [n, k] of n documents, all with k choices."""
    counts = {len(row) for row in rows} | ({choices} if choices is not None else set())
    if len(counts) > 1:
        raise InputError(
            where="the task",
            expected="as many choices in each document, for a choice has one bias",
            got=f"{' and '.join(map(str, sorted(counts)))} choices",
            remedy="leave out documents with fewer choices, or make a task of each number",
        )
    return np.stack(rows)
