"""Label-bias correction inside Inspect (inspect_ai): a scorer and the metrics of its scores.

A task names it after its own scorer, `scorer=[choice(), label_bias()]`, and is run with
log-probabilities; on the log of an evaluation that is done Inspect finds it by its name::

    inspect eval TASK.py --logprobs --top-logprobs 20
    inspect score LOG.eval --scorer batch_calibration/label_bias

A bias is learned of all samples together, so the scorer keeps the tokens where each sample's answer
stands, and the metrics read them as `batch-calibration` reads the log: its scores are the same.
They correct one evaluation at a time; `recommend_together` pools the label shares of several of a
task.
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
from batch_calibration.errors import InputError, shown
from batch_calibration.importers import Reading
from batch_calibration.importers.inspect_ai import (
    AnswerPosition,
    keep_answered,
    read_sample,
    score_samples,
)
from batch_calibration.importers.questions import Row, import_rows
from batch_calibration.importers.tables import to_table
from batch_calibration.metrics import accuracy
from batch_calibration.responses.top_k import scores_of_top_k
from batch_calibration.scores import Block

logger = logging.getLogger(__name__)

WHERE = "the samples"
"""Name of all samples in sentences."""
KEY = "batch_calibration"
"""Key of a score's metadata that the metrics read."""
NO_LOG_PROBS = (
    "no log-probabilities of the answer's token: run the evaluation again with --logprobs "
    "--top-logprobs 20, with a provider that gives them"
)


def _corrected(block: Block, options: Mapping[str, Any]) -> np.ndarray:
    """The scores [n, k] after the correction that the scorer was told."""
    return np.asarray(calibrate(block.log_probs, from_probs=False, **options))


def _accuracy(scores: np.ndarray, block: Block) -> float:
    """The accuracy over rows whose right label is known, NaN where none is."""
    is_known = np.asarray(block.labels) >= 0
    if not is_known.any():
        return float("nan")
    return float(accuracy(scores[is_known], block.labels[is_known]))


@scorer.metric  # type: ignore[untyped-decorator]  # Inspect is not there to be checked
def icl_accuracy() -> scorer.Metric:
    """The accuracy of the most probable label, before any correction."""
    return _of_all(lambda block, _: _accuracy(np.asarray(block.log_probs), block))


@scorer.metric(name="corrected_accuracy")  # type: ignore[untyped-decorator]
def accuracy_after() -> scorer.Metric:
    """The accuracy after the correction, learned of all samples without their right labels."""
    return _of_all(lambda block, options: _accuracy(_corrected(block, options), block))


@scorer.metric(name="preference_nats")  # type: ignore[untyped-decorator]
def preference() -> scorer.Metric:
    """By how many nats the mean score of the most preferred label exceeds that of the least."""
    return _of_all(lambda block, _: float(np.ptp(np.float64(block.log_probs).mean(axis=0))))


@scorer.metric  # type: ignore[untyped-decorator]
def flips() -> scorer.Metric:
    """The share of samples whose most probable label the correction changes."""

    def share(block: Block, options: Mapping[str, Any]) -> float:
        before, after = np.asarray(block.log_probs), _corrected(block, options)
        return float((before.argmax(axis=1) != after.argmax(axis=1)).mean())

    return _of_all(share)


def _as_in_a_log(
    state: TaskState, target: scorer.Target
) -> tuple[dict[str, Any], list[int] | None]:
    """A sample as a log has it, and the choice under each letter where a solver shuffled them."""
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
    # In the order of the data nothing is known: a log's scorer may say that it was another one.
    return sample, order if order != sorted(order) else None


def _label_scores(row: Row, position: AnswerPosition, where: str, missing: str) -> dict[str, float]:
    """Label -> log-probability in nats of one sample, for a reader of the log."""
    keep_answered([row], [position], where)  # refuses a sample that names no label
    top = scores_of_top_k([position.log_probs], row.choices, where=where)
    scores, is_kept = fill_scores(top.log_probs, check_missing(missing), top.bound)
    if not is_kept.any():
        expected = f"tokens of {', '.join(row.choices)}"
        raise InputError.at(where, expected, shown([*position.log_probs]))
    return dict(zip(row.choices, map(float, scores[0]), strict=True))


def _of_all(number_of: Callable[[Block, Mapping[str, Any]], float]) -> scorer.Metric:
    """A metric of the label scores of all samples; NaN where they cannot be read together."""

    def compute(scores: list[scorer.SampleScore]) -> float:
        metadata = [sample.score.metadata or {} for sample in scores]
        records = [json.loads(sample[KEY]) for sample in metadata if KEY in sample]
        if not records:
            return float("nan")
        try:
            return number_of(_block(records), records[0]["options"])
        # An evaluation that was paid for does not end in an error: its log can be read apart.
        except InputError as error:
            logger.warning("%s batch_calibration.read and diagnose take the whole log.", error)
            return float("nan")

    return compute


def _block(records: Sequence[Mapping[str, Any]]) -> Block:
    """The scores of all samples as the importer of logs makes them."""
    reading = Reading(labels=tuple(records[0]["labels"]), missing=records[0]["missing"])
    rows, positions = [], []
    for number, record in enumerate(records):
        row = record["row"]
        # JSON has no tuples; ids may repeat where epochs are not averaged.
        lists = {name: tuple(row[name]) for name in ("choices", "scores", "alone")}
        rows.append(Row(**{**row, **lists, "id": str(number)}))
        positions.append(AnswerPosition(**record["place"]))
    answered, _ = score_samples(rows, positions, WHERE, reading)
    (imported,) = import_rows(answered, WHERE, reading, {})
    return to_table(imported, reading).blocks["test"]


# Stands last: the metrics are made when it is defined.
@scorer.scorer(  # type: ignore[untyped-decorator]
    metrics=[icl_accuracy(), accuracy_after(), preference(), flips()]
)
def label_bias(
    labels: str | Sequence[str] = (),
    method: str = "bc",
    prior: Sequence[float] | None = None,
    missing: str = "least",
    at: str = "",
) -> scorer.Scorer:
    """Log-probabilities of the labels at the answer's position; the largest is the answer.

    A sample's value is whether its most probable label is right, before any correction. Letters are
    the places that the model saw, so choices may be shuffled. Without log-probabilities
    of the answer's token a sample is unscored, and its explanation says what to run.

    Args:
        labels: the answers of samples without choices, as a list or with commas: "yes,no".
        method: of the correction, one that needs neither labels nor probes.
        prior: the share of each label among the right ones.
        missing: where a label stands that was not among the tokens shown: "least" puts it just
            below the least of them, "drop" leaves the sample out.
        at: where the label is in an answer of several tokens: "first", "last", "json:KEY" or a
            regular expression; "" finds it out.
    """
    names = labels.split(",") if isinstance(labels, str) else list(labels)
    names = [name.strip() for name in names if name.strip()]
    options: dict[str, Any] = {"method": method}
    if prior is not None:
        options["target_prior"] = list(prior)
    reading = Reading(labels=tuple(names), missing=missing, at=at)  # type: ignore[arg-type]

    async def score(state: TaskState, target: scorer.Target) -> scorer.Score:
        sample, order = _as_in_a_log(state, target)
        where = f"sample {state.sample_id}"
        if not any(choice.logprobs for choice in state.output.choices):
            return scorer.Score.unscored(reason="scoring_failed", explanation=NO_LOG_PROBS)
        try:
            row, position = read_sample(sample, where, reading, order)
            label_scores = _label_scores(row, position, where, missing)
        # One sample that names no answer leaves the others.
        except InputError as error:
            return scorer.Score.unscored(reason="scoring_failed", explanation=str(error))
        answer = max(label_scores, key=label_scores.__getitem__)
        value = scorer.CORRECT if answer == row.target else scorer.INCORRECT
        if row.target not in row.choices:
            value = scorer.NOANSWER
        record: dict[str, object] = {"row": vars(row), "place": vars(position), "options": options}
        record |= {"labels": names, "missing": missing}
        # As text: all of it comes back from a log as it was, tokens that are keys too.
        metadata = {"label_scores": label_scores, KEY: json.dumps(record)}
        return scorer.Score(value=value, answer=answer, metadata=metadata)

    return score
