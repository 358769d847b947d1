"""Label-bias correction inside Inspect (inspect_ai): a scorer and the metrics of its scores.

A task lists the scorer after its own, `scorer=[choice(), label_bias()]`, and runs with
log-probabilities. For the log of a finished evaluation, Inspect finds the scorer by its name::

    inspect eval TASK.py --logprobs --top-logprobs 20
    inspect score LOG.eval --scorer batch_calibration/label_bias

A bias is learned from all samples together. The scorer therefore stores the tokens at the position
of each sample's answer. The metrics read them as `batch-calibration` reads a log and get the same
scores. They correct one evaluation at a time; `recommend_together` pools the label shares of
several evaluations of a task.
"""

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from inspect_ai import scorer
from inspect_ai.solver import TaskState

from batch_calibration.api import calibrate
from batch_calibration.arrays.missing_scores import check_missing, fill_scores
from batch_calibration.diagnosis.advice import choose_advice, read_advice, refuse_beside_advice
from batch_calibration.errors import InputError, shown
from batch_calibration.importers import Reading
from batch_calibration.importers import inspect_ai as logs
from batch_calibration.importers.questions import Row, import_rows
from batch_calibration.importers.tables import to_table
from batch_calibration.metrics import accuracy
from batch_calibration.responses.top_k import scores_of_top_k
from batch_calibration.scores import Block

logger = logging.getLogger(__name__)

WHERE = "the samples"
"""Name of all samples in messages."""
KEY = "batch_calibration"
"""Key in a score's metadata that the metrics read."""
NO_LOG_PROBS = (
    "no log-probabilities of the answer's token: run the evaluation again with --logprobs "
    "--top-logprobs 20, with a provider that gives them"
)


def _corrected(block: Block, options: Mapping[str, Any]) -> np.ndarray:
    """Returns the scores [n, k] after the correction with the scorer's options."""
    return np.asarray(calibrate(block.log_probs, from_probs=False, **options))


def _accuracy(scores: np.ndarray, block: Block) -> float:
    """Returns the accuracy over the rows with a gold label; NaN without gold labels."""
    is_known = np.asarray(block.labels) >= 0
    if not is_known.any():
        return float("nan")
    return float(accuracy(scores[is_known], block.labels[is_known]))


@scorer.metric  # type: ignore[untyped-decorator]  # the type checker runs without Inspect
def icl_accuracy() -> scorer.Metric:
    """Measures the accuracy of the most probable label, before any correction."""
    return _of_all(lambda block, _: _accuracy(np.asarray(block.log_probs), block))


@scorer.metric(name="corrected_accuracy")  # type: ignore[untyped-decorator]
def accuracy_after() -> scorer.Metric:
    """Measures the accuracy after a correction learned from all samples without gold labels."""
    return _of_all(lambda block, options: _accuracy(_corrected(block, options), block))


@scorer.metric(name="preference_nats")  # type: ignore[untyped-decorator]
def preference() -> scorer.Metric:
    """Measures the difference of the largest and smallest mean score of a label, in nats."""
    return _of_all(lambda block, _: float(np.ptp(np.float64(block.log_probs).mean(axis=0))))


@scorer.metric  # type: ignore[untyped-decorator]
def flips() -> scorer.Metric:
    """Measures the share of samples with another most probable label after the correction."""

    def share(block: Block, options: Mapping[str, Any]) -> float:
        before, after = np.asarray(block.log_probs), _corrected(block, options)
        return float((before.argmax(axis=1) != after.argmax(axis=1)).mean())

    return _of_all(share)


def _as_in_a_log(
    state: TaskState, target: scorer.Target
) -> tuple[dict[str, Any], list[int] | None]:
    """Returns a sample in the form of a log, and the order of its choices if they are shuffled."""
    order = [choice.original_position for choice in state.choices]
    texts = {choice.original_position: choice.value for choice in state.choices}
    grades = {name: grade.model_dump() for name, grade in (state.scores or {}).items()}
    sample = {
        "id": state.sample_id,
        "choices": [texts[place] for place in sorted(texts)],
        "target": list(target),
        "metadata": state.metadata,
        "scores": grades,
        "output": state.output.model_dump(mode="json"),
    }
    # The order of the data counts as unknown, because a scorer in the log may record another order.
    return sample, order if order != sorted(order) else None


def _label_scores(
    row: Row, position: logs.AnswerPosition, where: str, missing: str
) -> dict[str, float]:
    """Maps the labels of one sample to log-probabilities in nats, for readers of the log."""
    logs.keep_answered([row], [position], where)  # raises if the sample names no label
    top = scores_of_top_k([position.log_probs], row.choices, where=where)
    scores, is_kept = fill_scores(top.log_probs, check_missing(missing), top.bound)
    if not is_kept.any():
        expected = f"tokens of {', '.join(row.choices)}"
        raise InputError.at(where, expected, shown([*position.log_probs]))
    return dict(zip(row.choices, map(float, scores[0]), strict=True))


def _of_all(number_of: Callable[[Block, Mapping[str, Any]], float]) -> scorer.Metric:
    """Makes a metric of the label scores of all samples; NaN if they cannot be read together."""

    def compute(scores: list[scorer.SampleScore]) -> float:
        metadata = [sample.score.metadata or {} for sample in scores]
        records = [json.loads(sample[KEY]) for sample in metadata if KEY in sample]
        if not records:
            return float("nan")
        try:
            return number_of(_block(records), records[0]["options"])
        # An error must not end a paid evaluation, because its log can be read later.
        except InputError as error:
            logger.warning("%s Use batch_calibration.read and diagnose on the whole log.", error)
            return float("nan")

    return compute


def _block(records: Sequence[Mapping[str, Any]]) -> Block:
    """Builds the scores of all samples as the importer of logs does."""
    reading = Reading(labels=tuple(records[0]["labels"]), missing=records[0]["missing"])
    rows, positions = [], []
    for number, record in enumerate(records):
        row = record["row"]
        # JSON has no tuples; ids may repeat if epochs are not averaged.
        lists = {name: tuple(row[name]) for name in ("choices", "scores", "alone")}
        rows.append(Row(**{**row, **lists, "id": str(number)}))
        positions.append(logs.AnswerPosition(**record["place"]))
    answered, _ = logs.score_samples(rows, positions, WHERE, reading)
    (imported,) = import_rows(answered, WHERE, reading, {})
    return to_table(imported, reading).blocks["test"]


# Defined last, because its decorator calls the metrics.
@scorer.scorer(  # type: ignore[untyped-decorator]
    metrics=[icl_accuracy(), accuracy_after(), preference(), flips()]
)
def label_bias(
    labels: str | Sequence[str] = (),
    method: str = "bc",
    prior: Sequence[float] | None = None,
    missing: str = "least",
    at: str = "",
    advice: str = "",
) -> scorer.Scorer:
    """Scores the labels by their log-probabilities at the answer's position.

    The answer is the most probable label, and the sample's value is whether it is right, before any
    correction. Letters are positions in the order that the model saw, so choices may be shuffled. A
    sample without log-probabilities of the answer's token is unscored, with the remedy in its
    explanation.

    Args:
        labels: the answers of samples without choices, as a list or with commas: "yes,no".
        method: a correction method that needs neither labels nor probes.
        prior: the share of each label among the gold labels.
        missing: treatment of a label that is not among the returned tokens: "least" places it just
            below the least probable token, "drop" leaves the sample out.
        at: position of the label in an answer of several tokens: "first", "last", "json:KEY" or a
            regular expression; "" detects it.
        advice: a file of `recommend`, in place of method and prior; without `labels`, its labels
            are the choices in order.
    """
    names = labels.split(",") if isinstance(labels, str) else list(labels)
    names = [name.strip() for name in names if name.strip()]
    options: dict[str, Any] = {"method": method}
    if prior is not None:
        options["target_prior"] = list(prior)
    reading = Reading(labels=tuple(names), missing=missing, at=at)  # type: ignore[arg-type]
    contexts = read_advice(advice) if advice else []
    if advice:
        refuse_beside_advice(method=method != "bc", prior=prior is not None)
    if contexts and names:
        choose_advice(contexts, advice, names)  # raises before any sample is asked

    async def score(state: TaskState, target: scorer.Target) -> scorer.Score:
        sample, order = _as_in_a_log(state, target)
        where = f"sample {state.sample_id}"
        if not any(choice.logprobs for choice in state.output.choices):
            return scorer.Score.unscored(reason="scoring_failed", explanation=NO_LOG_PROBS)
        try:
            row, position = logs.read_sample(sample, where, reading, order)
            label_scores = _label_scores(row, position, where, missing)
            chosen = options
            if contexts:
                advised = choose_advice(contexts, advice, names, k=len(row.choices))
                chosen = {"method": advised.method, **advised.options}
        # A sample without an answer must not stop the others.
        except InputError as error:
            return scorer.Score.unscored(reason="scoring_failed", explanation=str(error))
        answer = max(label_scores, key=label_scores.__getitem__)
        value = scorer.CORRECT if answer == row.target else scorer.INCORRECT
        if row.target not in row.choices:
            value = scorer.NOANSWER
        record: dict[str, object] = {"row": vars(row), "place": vars(position), "options": chosen}
        record |= {"labels": names, "missing": missing}
        # As JSON text, everything comes back unchanged from a log, including tokens that are keys.
        metadata = {"label_scores": label_scores, KEY: json.dumps(record)}
        return scorer.Score(value=value, answer=answer, metadata=metadata)

    return score
