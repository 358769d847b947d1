"""The input and the output of every importer: a `Reading` of a file, and the scores `Imported`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from batch_calibration.arrays.missing_scores import BELOW, Missing
from batch_calibration.files import Json
from batch_calibration.importers.cells import choose_labels, renumber_labels

ALONE = "pmi"  # the block of scores of choices without the question
CONTEXT_NAMES = ("model", "model_name", "task", "task_name")
"""Names of columns that say which model or task a row is of."""


@dataclass(frozen=True)
class Reading:
    """The user's description of a file of scores.

    Attributes:
        format: an importer's name, "" to find it out.
        labels: names of the labels in the order of the columns; of a file of named columns, the
            columns that hold the scores; of a log, which of its choices and in which order.
        tokens: label -> the tokens that mean it, where scores are of tokens; the label's own name,
            with and without a space and capital, where it is not named.
        gold: column of the right label, its name or index; "" for the log's own, or none.
        gold_names: names of the indices 0, 1, ... among right labels; () to find them out.
        gold_as_is: whether right labels are kept where the scores fit others far better.
        ids: column of row ids.
        by: columns whose values tell contexts apart, such as a subject or a prompt.
        missing: what is done about labels that were not returned; None refuses them.
        below: how far below the least returned score `missing="least"` puts them, in nats.
        from_probs: whether the numbers are probabilities; None finds out, and refuses what are
            neither log-probabilities nor scores of another kind, such as logits; False takes all.
        task: what to call the task, one for all rows; "" for the log's own name, or the file's.
        model: what to call the model, one for all rows; "" for the log's own name, or none.
        at: where the label is in an answer of several tokens: "first", "last", "json:KEY" or a
            regular expression; "" finds it out (`responses.answers.find_place`).
        filter: of a harness log whose rows repeat per filter, which.
    """

    format: str = ""
    labels: tuple[str, ...] = ()
    tokens: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    gold: str = ""
    gold_names: tuple[str, ...] = ()
    gold_as_is: bool = False
    ids: str = ""
    by: tuple[str, ...] = ()
    missing: Missing | None = None
    below: float = BELOW
    from_probs: bool | None = None
    task: str = ""
    model: str = ""
    filter: str = ""
    at: str = ""


@dataclass(frozen=True)
class Imported:
    """Scores of one context or several as a file has them.

    Attributes:
        where: the file's name, for sentences.
        log_probs: [n, k], nats; minus infinity or NaN where a label was not returned.
        label_names: k names.
        labels: [n], the right label's index, -1 where unknown; None for unknown throughout.
        row_ids: n names, None to number the rows.
        file_rows: [n], each row's number in the file, from 0; None where they are 0 to n - 1.
        bound: [n], the least log-probability that was returned for each row, of any token.
        about: what is known of the context: task, model, data, shots, seed, template, split ...
        columns: n values each of the columns of `Reading.by`, and of those that may tell models or
            tasks apart.
        blocks: name -> scores [m, k] of other rows, such as "pmi", "cc", "dc".
        notes: what a reader of the numbers must know, in sentences.
        score_names: what names the scores where it is not the labels: the one array or column that
            holds all of a row's; evidence of what kind of numbers they are.
        index_names: labels in the order in which right labels count; () if these are names.
        full: whether a label's score is of its whole vocabulary, so that a row's label mass says
            whether the model answered with a label.
    """

    where: str
    log_probs: np.ndarray
    label_names: tuple[str, ...]
    labels: np.ndarray | None = None
    row_ids: tuple[str, ...] | None = None
    bound: np.ndarray | None = None
    about: Mapping[str, Json] = field(default_factory=dict)
    columns: Mapping[str, Sequence[str]] = field(default_factory=dict)
    blocks: Mapping[str, np.ndarray] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    score_names: tuple[str, ...] = ()
    index_names: tuple[str, ...] = ()
    full: bool = False
    file_rows: np.ndarray | None = None

    def take_labels(self, chosen: Sequence[str]) -> Imported:
        """The same of the chosen labels, in their order; of all labels if none is chosen."""
        names, indices = choose_labels(self.where, self.label_names, chosen, are_named=True)
        gold = self.labels
        if gold is not None:
            gold = renumber_labels(self.where, gold, self.label_names, indices)
        scores = self.log_probs[:, indices]
        blocks = {name: block[:, indices] for name, block in self.blocks.items()}
        return replace(self, log_probs=scores, label_names=names, labels=gold, blocks=blocks)

    def take_rows(self, chosen: np.ndarray) -> Imported:
        """The same of some rows: a mask or indices [n]."""
        n = len(self.log_probs)
        index = np.arange(n)[chosen]  # of a mask, too
        blocks, columns = dict(self.blocks), {}
        # It has a row for each row of scores if the choices differ from row to row.
        if len(blocks.get(ALONE, ())) == n:
            blocks[ALONE] = blocks[ALONE][index]
        for name, cells in self.columns.items():
            columns[name] = [cells[i] for i in index]
        return replace(
            self,
            log_probs=self.log_probs[index],
            labels=None if self.labels is None else np.asarray(self.labels)[index],
            row_ids=None if self.row_ids is None else tuple([self.row_ids[i] for i in index]),
            bound=None if self.bound is None else self.bound[index],
            columns=columns,
            blocks=blocks,
            file_rows=index if self.file_rows is None else self.file_rows[index],
        )
