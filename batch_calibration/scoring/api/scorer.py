"""Scores labels by asking a server: the scorer "api"."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np

from batch_calibration.arrays import BELOW, check_missing
from batch_calibration.errors import InputError
from batch_calibration.files import Json
from batch_calibration.importers.base import refuse_constant
from batch_calibration.scores import canonical
from batch_calibration.scoring import (
    NOTHING_FINISHED,
    Finished,
    Identity,
    ImageInputs,
    Inputs,
    LabelScores,
    LabelTexts,
    NoAnswer,
    label_texts,
)
from batch_calibration.scoring.api.answers import Answers, Asked
from batch_calibration.scoring.api.asking import Failures, ask_all
from batch_calibration.scoring.api.client import Client, Server, connect
from batch_calibration.scoring.api.first_tokens import of_labels
from batch_calibration.scoring.api.notes import Notes
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
                where="config.model",
                expected="what the server calls the model",
                got="nothing",
                remedy="give it, as SERVER/models lists it",
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
        self._notes = Notes(settings.top_logprobs, self._missing)

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
            made |= {"below": BELOW} if self._missing == "least" else {}
        if self._way.sends_ids and self._tokenizer:
            made["tokenizer"] = tokenizer_digest(self._tokenizer)
        return made

    def score(
        self,
        inputs: Inputs,
        labels: LabelTexts,
        *,
        progress: Callable[[int], None] | None = None,
        finished: Finished = NOTHING_FINISHED,
    ) -> LabelScores:
        """Ask for `labels` (continuations with their leading space) after each text of `inputs`.

        Every single answer is kept, so that `finished` batches are not needed.

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
            lists = [part for row in rows for part in row if isinstance(part, Mapping)]
            found = of_labels(lists, labels, self._missing, self._server.address)
            self._notes.add(found.scores[found.kept], found.lacking, found.never)
            self.notes = self._notes.sentences()
            why = " ".join(found.never) or "A label is not among its likeliest tokens."
            failed = {int(row): why for row in np.flatnonzero(~found.kept)}
            return LabelScores(found.scores, tokens, failed)
        scores = np.array([[x for part in row for x in part] for row in rows], np.float32)
        self._refuse_constant(scores)
        scores = label_texts.sum_probabilities(scores, counts)
        if self._way.sends_ids:
            self._notes.add(scores)
            self.notes = self._notes.sentences()
        return LabelScores(scores, tokens)

    def estimate(self, inputs: Inputs, labels: LabelTexts) -> Estimate:
        """What `score` would ask: requests without an answer yet, and the tokens in them.

        What is asked twice, as by blocks that have a prompt in common, is one request.
        """
        texts, (forms, _) = _texts(inputs), label_texts.flatten(labels)
        sent = answered = tokens = 0
        seen: set[int] = set()
        with self._answers.opened():
            behind = [0] if self._per_row(forms) == 1 else count_tokens(forms, self._tokenizer)
            for start in range(0, len(texts), ROWS):
                counts = count_tokens(texts[start : start + ROWS], self._tokenizer)
                for place, asked in self._questions(texts, forms, start, start + ROWS):
                    same = hash(canonical([asked.path, asked.body]))
                    if same in seen:
                        continue
                    seen.add(same)
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

    def _refuse_constant(self, scores: np.ndarray) -> None:
        """Refuse answers that are all the same, and say how to ask again."""
        try:
            refuse_constant(scores, self._server.address)
        except InputError as error:
            file = self._answers.path
            again = f", or mend it, move {file} away and ask again" if file else ""
            raise InputError(f"{error} Try {self._way.instead}{again}.") from error

    def _refuse(self, failures: Failures, requests: int) -> None:
        """Say what has no answer."""
        if failures.sentences:
            others = ", and those after them were not sent" if failures.stopped else ""
            raise NoAnswer(
                f"{len(failures.sentences):,} of {requests:,} requests have no answer{others}. "
                f"{failures.sentences[0]} What was answered is kept: give the same command again "
                "to ask for the rest alone."
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
