"""The input of every importer, a `Reading`, and its output, `Imported` scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from batch_calibration.arrays.missing_scores import BELOW, Missing
from batch_calibration.arrays.score_scale import FromProbs
from batch_calibration.files import Json
from batch_calibration.importers.cells import choose_labels, renumber_labels

ALONE = "pmi"  # the block with scores of the choices without their question
CONTEXT_NAMES = ("model", "model_name", "task", "task_name")
"""Names of columns with the model or task of each row."""


@dataclass(frozen=True)
class Reading:
    """The user's description of a file of scores.

    Attributes:
        format: The name of an importer; "" detects the format.
        labels: The names of the labels, in the order of the columns. In a table they select the
            columns of scores; in a log they select and order the choices.
        tokens: Label -> the tokens that mean it, if the file has scores of tokens. Other labels
            match tokens by their own names (`responses.top_k.scores_of_top_k`).
        gold: The column of right labels, as names or indices. "" uses the right labels of a log or
            a column with a usual name, such as `gold`.
        gold_names: The names of the indices 0, 1, ... among right labels; () detects them.
        gold_as_is: True keeps right labels that the scores fit far worse than others.
        ids: The column of row ids.
        by: Columns that separate contexts, such as a subject or a prompt. Each combination of
            their values is a context.
        missing: The treatment of labels that were not returned; None raises an error.
        below: The distance of missing labels from the lowest returned score for `missing="least"`,
            in nats.
        from_probs: True for probabilities; "counts" for counts of the sampled answers of each row;
            False leaves the numbers unchanged. None detects the scale and refuses probabilities,
            percentages, counts, losses and unclear numbers.
        task: A name for the task of all rows; "" uses the name in the log, or the file's name.
        model: A name for the model of all rows; "" uses the name in the log, if it has one.
        at: The position of the label in an answer of several tokens: "first", "last", "json:KEY"
            or a regular expression; "" detects it (`responses.answers.find_place`).
        filter: The filter to read from a harness log that repeats its rows for each filter.
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
    from_probs: FromProbs = None
    task: str = ""
    model: str = ""
    filter: str = ""
    at: str = ""


@dataclass(frozen=True)
class Imported:
    """Scores of one or several contexts as a file holds them.

    Attributes:
        where: The file's name, for messages.
        log_probs: [n, k], in nats; minus infinity or NaN if a label was not returned.
        label_names: The k names of the labels.
        labels: [n], the index of the right label, -1 if it is unknown, or None for
            a file without right labels.
        row_ids: The n ids of the rows; None numbers the rows.
        file_rows: [n], the number of each row in the file, from 0; None for 0 to n - 1.
        bound: [n], the lowest log-probability returned for each row, of any token.
        about: Known facts of the context: task, model, data, shots, seed, template, split ...
        columns: Name -> n values, for the columns of `Reading.by` and for columns with the model
            or the task of each row.
        blocks: Name -> scores [m, k] of other rows, such as "pmi", "cc", "dc".
        notes: Sentences that a reader of the scores must know.
        score_names: The name of the array or column with all scores of a row, or () if the scores
            are named by `label_names`. A name may show the scale of the scores.
        index_names: The labels in the order of the right labels' indices; () if these are names.
        full: True if the scores are log-probabilities over the whole vocabulary. The label mass
            then shows whether the model answered with a label.
        are_counts: True if the scores are counts of each row's sampled answers.
        filler: The number in place of scores that were not returned (`missing_scores.Lowest`).
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
    are_counts: bool = False
    file_rows: np.ndarray | None = None
    filler: float = -np.inf

    def take_labels(self, chosen: Sequence[str]) -> Imported:
        """Returns the scores of the chosen labels, in their order; all labels if `chosen` is ()."""
        names, indices = choose_labels(self.where, self.label_names, chosen, are_named=True)
        gold = self.labels
        if gold is not None:
            gold = renumber_labels(self.where, gold, self.label_names, indices)
        scores = self.log_probs[:, indices]
        blocks = {name: block[:, indices] for name, block in self.blocks.items()}
        return replace(self, log_probs=scores, label_names=names, labels=gold, blocks=blocks)

    def take_rows(self, chosen: np.ndarray) -> Imported:
        """Returns the scores of some rows; `chosen` is a mask [n] or indices."""
        n = len(self.log_probs)
        index = np.arange(n)[chosen]  # turns a mask into indices
        blocks, columns = dict(self.blocks), {}
        # The block has a row for each row of scores only if the choices differ between rows.
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
