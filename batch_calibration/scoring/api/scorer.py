"""Scores labels by asking a server: the scorer "api"."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np

from batch_calibration.censored import absent, check_missing, fill
from batch_calibration.errors import InputError, shown
from batch_calibration.files import Json
from batch_calibration.importers.base import label_mass, little_mass, refuse_constant
from batch_calibration.importers.top_k import scores_of_top_k
from batch_calibration.scoring import (
    Identity,
    ImageInputs,
    Inputs,
    LabelScores,
    LabelTexts,
    label_texts,
)
from batch_calibration.scoring.api.answers import Answers, Asked
from batch_calibration.scoring.api.asking import Failures, ask_all
from batch_calibration.scoring.api.client import Client, Server, connect
from batch_calibration.scoring.api.pace import Pace
from batch_calibration.scoring.api.tokens import LabelIds, count_tokens, label_ids, tokenizer_digest
from batch_calibration.scoring.api.ways import WAYS, Part, Question
from batch_calibration.settings import ApiSettings

if TYPE_CHECKING:
    from batch_calibration.models.checkpoint import TokenizerInfo

VERSION = "1"
ROWS = 1024
"""Rows rendered and tokenized at a time."""

T = TypeVar("T")


class Place(NamedTuple):
    """Which question a request belongs to."""

    row: int
    number: int
    question: Question


class Estimate(NamedTuple):
    """What a run will ask.

    Attributes:
        requests: that have no answer yet.
        tokens: sent with them.
        answered: requests that earlier runs asked.
    """

    requests: int
    tokens: int
    answered: int


class ApiScorer:
    """Log-probability of each label after each text, as a server says.

    Answers are kept as they come: a run that was stopped goes on, and changing how missing labels
    are treated asks nothing again.

    Args:
        settings: which server is asked, and how.
        model: what the server calls the model.
        tokenizer: the model's, for ways that send token ids and to count tokens.
        answers: the file that keeps answers; None keeps them in memory.
        pace: when requests may be sent; None is as `settings` say.

    Raises:
        InputError: a setting that the way of asking does not go with.
    """

    def __init__(
        self,
        settings: ApiSettings,
        model: str,
        tokenizer: "TokenizerInfo | None" = None,
        answers: Path | None = None,
        pace: Pace | None = None,
    ):
        if not model:
            raise InputError(
                "config.model: expected what the server calls the model, got nothing; give it, as "
                "SERVER/models lists it."
            )
        self.settings = settings
        self.model = model
        self.notes: list[str] = []
        self._server = Server.of(settings.server, settings.key_variable)
        self._way = WAYS[settings.api_scores]
        if self._way.sends_ids and tokenizer is None:
            raise InputError(
                f"config.tokenizer: config.api_scores={settings.api_scores} sends token ids; give "
                "the directory of the model's tokenizer.json and config.json."
            )
        self._missing = check_missing(settings.missing)
        self._tokenizer = tokenizer
        self._answers = Answers(answers)
        self._pace = pace or Pace(settings.per_minute)
        self._lacking = self._rows = 0
        self._mass = 0.0

    @property
    def identity(self) -> Identity:
        """All that decides the numbers: no key, no price."""
        made: Identity = {
            "kind": "api",
            "version": VERSION,
            "server": self._server.address,
            "model": self.model,
            "api_scores": self.settings.api_scores,
        }
        if self._way.first_tokens:
            made |= {"top_logprobs": self.settings.top_logprobs, "missing": str(self._missing)}
        if self._way.sends_ids and self._tokenizer:
            made["tokenizer"] = tokenizer_digest(self._tokenizer)
        return made

    def score(
        self,
        inputs: Inputs,
        labels: LabelTexts,
        *,
        progress: Callable[[int], None] | None = None,
    ) -> LabelScores:
        """Ask for `labels` (continuations with their leading space) after each text of `inputs`.

        Returns:
            `log_probs [n k]` in nats; token counts `[n]`, 0 without a tokenizer. Of first tokens,
            rows without a label's token that `missing` drops are `failed`.

        Raises:
            InputError: images; requests without an answer; answers without log-probabilities.
        """
        texts = _texts(inputs)
        forms, counts = label_texts.flatten(labels)
        parts: list[dict[int, Part]] = [{} for _ in texts]
        each = self._per_row(forms)
        done = 0

        def hear(place: Place, answer: Json) -> None:
            nonlocal done
            try:
                parts[place.row][place.number] = self._way.read(
                    answer, place.question, place.number
                )
            except InputError as error:
                way = f"config.api_scores={self.settings.api_scores}"
                raise InputError(
                    f"{self._server.address}, {way}: {error} If the server cannot answer so, try "
                    f"{self._way.instead}."
                ) from error
            done += len(parts[place.row]) == each
            if progress:
                progress(done)

        with self._answers.opened():
            failures = _run(self._ask(self._questions(texts, forms), hear))
        self._refuse(failures, len(texts) * each)
        tokens = np.zeros(len(texts), np.int32)
        if self._tokenizer:
            for start in range(0, len(texts), ROWS):
                part = texts[start : start + ROWS]
                tokens[start : start + ROWS] = count_tokens(part, self._tokenizer)
        rows = [[of[number] for number in sorted(of)] for of in parts]
        if self._way.first_tokens:
            return self._of_first_tokens(rows, labels, tokens)
        scores = np.array([[x for part in row for x in part] for row in rows], np.float32)
        refuse_constant(scores, self._server.address)
        scores = label_texts.sum_probabilities(scores, counts)
        if self._way.sends_ids:
            self._note(scores)
        return LabelScores(scores, tokens)

    def estimate(self, inputs: Inputs, labels: LabelTexts) -> Estimate:
        """What `score` would ask: requests without an answer yet, and the tokens in them."""
        texts, (forms, _) = _texts(inputs), label_texts.flatten(labels)
        sent = answered = tokens = 0
        with self._answers.opened():
            behind = [0] if self._per_row(forms) == 1 else count_tokens(forms, self._tokenizer)
            for start in range(0, len(texts), ROWS):
                counts = count_tokens(texts[start : start + ROWS], self._tokenizer)
                for place, asked in self._questions(texts, forms, start, start + ROWS):
                    if self._answers.get(self._server.address, asked) is not None:
                        answered += 1
                        continue
                    sent += 1
                    tokens += counts[place.row - start] + behind[place.number]
        return Estimate(sent, tokens, answered)

    def _per_row(self, forms: Sequence[str]) -> int:
        """How many requests a row takes."""
        return 1 if self._way.first_tokens or self._way.sends_ids else len(forms)

    def _questions(
        self, texts: Sequence[str], forms: Sequence[str], first: int = 0, last: int | None = None
    ) -> Iterator[tuple[Place, Asked]]:
        """Every request about the rows from `first` to `last`, made as it is needed."""
        for start in range(first, min(len(texts), last or len(texts)), ROWS):
            part = texts[start : start + ROWS]
            ids: Sequence[LabelIds] = [LabelIds()] * len(part)
            if self._way.sends_ids and self._tokenizer:
                ids = label_ids(part, forms, self._tokenizer, start)
            for row, (text, of) in enumerate(zip(part, ids, strict=True), start):
                question = Question(self.model, text, tuple(forms), self.settings.top_logprobs, *of)
                for number, asked in enumerate(self._way.requests(question)):
                    yield Place(row, number, question), asked

    async def _ask(
        self, questions: Iterator[tuple[Place, Asked]], hear: Callable[[Place, Json], None]
    ) -> Failures:
        async with connect(self._server, self.settings.timeout) as connection:
            client = Client(self._server, connection, self._pace)
            return await ask_all(questions, client, self._answers, hear, self.settings.in_flight)

    def _refuse(self, failures: Failures, requests: int) -> None:
        """Say what has no answer."""
        if failures.sentences:
            others = ", and those after them were not sent" if failures.stopped else ""
            raise InputError(
                f"{len(failures.sentences):,} of {requests:,} requests have no answer{others}. "
                f"{failures.sentences[0]} What was answered is kept: give the same command again "
                "to ask for the rest alone."
            )

    def _of_first_tokens(
        self, rows: Sequence[Sequence[Part]], labels: LabelTexts, tokens: np.ndarray
    ) -> LabelScores:
        """Scores of labels from the likeliest first tokens of each row."""
        lists = [part for row in rows for part in row if isinstance(part, Mapping)]
        forms = [(label,) if isinstance(label, str) else tuple(label) for label in labels]
        names = [own[0].strip() for own in forms]
        several = {name: own for name, own in zip(names, forms, strict=True) if len(own) > 1}
        top = scores_of_top_k(lists, names, several, self._server.address)
        never = [name for name in names if not top.tokens[name]]
        if never:
            likely = list(dict.fromkeys(max(row, key=row.__getitem__) for row in lists))[:5]
            raise InputError(
                f"{self._server.address}: no answer of {len(lists)} has a token of the label "
                f"{never[0]!r} among the {self.settings.top_logprobs} likeliest; the first are "
                f"{shown(likely)}: raise config.top_logprobs, choose label words that the model "
                "answers with, or ask for whole labels with config.api_scores=echo."
            )
        gone = absent(top.log_probs).any(axis=1)
        filled, kept = fill(top.log_probs, self._missing, top.bound)
        if not kept.any():
            raise InputError(
                f"{self._server.address}: config.missing={self._missing} leaves no row of "
                f"{len(lists)}; give config.missing=least, or raise config.top_logprobs."
            )
        scores = np.full(top.log_probs.shape, np.nan, np.float32)
        scores[kept] = filled
        self._lacking += int(gone.sum())
        self._note(scores[kept])
        reason = f"not every label is among the {self.settings.top_logprobs} likeliest tokens"
        failed = {int(row): f"row {row}: {reason}" for row in np.flatnonzero(~kept)}
        return LabelScores(scores, tokens, failed)

    def _note(self, scores: np.ndarray) -> None:
        """Say over all that was scored how much of the probability the labels have."""
        self._mass += label_mass(scores) * len(scores)
        self._rows += len(scores)
        self.notes = list(little_mass(self._mass / self._rows))
        if self._lacking:
            how = {"least": "put just below the least of them", "drop": "left out"}.get(
                str(self._missing), f"put at {self._missing} nats"
            )
            self.notes.append(
                f"{self._lacking:,} answers lack a label among their "
                f"{self.settings.top_logprobs} likeliest tokens: {how} (config.missing)."
            )


def _texts(inputs: Inputs) -> Sequence[str]:
    if isinstance(inputs, ImageInputs):
        raise InputError("config.scorer: 'api' sends text alone; score images with dual_encoder.")
    return inputs


def _run(work: Coroutine[None, None, T]) -> T:
    """What a coroutine gives, in a notebook too, whose thread has a loop of its own."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, work).result()
