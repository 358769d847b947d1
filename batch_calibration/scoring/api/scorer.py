"""Scores labels by asking a server: the scorer "api"."""

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from batch_calibration.arrays.missing_scores import BELOW, check_missing
from batch_calibration.errors import InputError, shown, spell
from batch_calibration.files import Json, value_at
from batch_calibration.scores import canonical
from batch_calibration.scoring import Identity, Inputs, LabelScores, LabelTexts, Refused
from batch_calibration.scoring.api import client, label_scores
from batch_calibration.scoring.api.answers import Answers, Request
from batch_calibration.scoring.api.protocols import PROTOCOLS, FormScores, Question
from batch_calibration.scoring.api.server import Server
from batch_calibration.scoring.engine import label_texts
from batch_calibration.settings import ApiSettings

if TYPE_CHECKING:
    from batch_calibration.scoring.models.files.checkpoint import TokenizerInfo

VERSION = "1"  # part of the identity, so that another one asks anew
BYTES_PER_TOKEN = 4  # bytes of UTF-8 in a token, by the rule of thumb
ROWS_AT_ONCE = 1024  # rows rendered and tokenized at a time


class LabelIds(NamedTuple):
    """Token ids of a prompt, and of each label after it."""

    prompt: tuple[int, ...] = ()
    labels: tuple[int, ...] = ()


class RequestKey(NamedTuple):
    """Which row, question and number among the question's requests a request has."""

    row: int
    number: int
    question: Question


Receive = Callable[[RequestKey, Json], None]  # takes the answer to a request


class ApiScorer(label_texts.LabelScorer):
    """Log-probability of each label after each text, as a server says.

    Answers are kept as they come: a run that was stopped goes on, and changing how missing labels
    are treated asks nothing again. Token counts are 0 without a tokenizer. With first tokens, rows
    without a label's token that `missing` drops are `failed`; so are prompts that are refused.

    Args:
        settings: which server is asked, and how.
        model: what the server calls the model.
        tokenizer: the model's, for ways that send token ids and to count tokens.
        answers: the file that keeps answers; None keeps them in memory.
        pace: when requests may be sent; None is as `settings` say.

    Raises:
        InputError: a setting that the way of asking does not go with. `score` refuses images,
            requests without an answer, and answers without log-probabilities.
    """

    def __init__(
        self,
        settings: ApiSettings,
        model: str,
        tokenizer: "TokenizerInfo | None" = None,
        answers: Path | None = None,
        pace: client.Pace | None = None,
    ):
        if not model:
            raise InputError(
                key="model", expected="what the server calls it", remedy="SERVER/models lists it"
            )
        super().__init__("scorer 'api'")
        self.settings = settings
        self.model = model
        self.notify: Callable[[str], None] | None = None  # told of waits while they last
        self._server = Server.from_environment(settings.server, settings.key_variable)
        self._protocol = PROTOCOLS[settings.api_scores]
        if self._protocol.sends_ids and tokenizer is None:
            raise InputError(
                f"{spell('api_scores', settings.api_scores)} sends token ids; give "
                "the directory of the model's tokenizer.json and config.json.",
                key="tokenizer",
            )
        self._missing = check_missing(settings.missing)
        self._tokenizer = tokenizer
        self.answers = Answers(answers)
        self._pace = pace or client.Pace(settings.per_minute)
        self._notes = label_scores.Notes(settings.top_logprobs, self._missing, model)

    @property
    def identity(self) -> Identity:
        """All that decides the numbers: no key, no price."""
        identity: Identity = {
            "kind": "api", "version": VERSION, "server": self._server.address,
            "model": self.model, "api_scores": self.settings.api_scores,
        }  # fmt: skip
        if self._protocol.first_tokens:
            identity["top_logprobs"] = self.settings.top_logprobs
            identity["missing"] = str(self._missing)
            if self._missing == "least":
                identity["below"] = BELOW
        if self._protocol.sends_ids and self._tokenizer:
            # All that decides which ids a text has.
            text = f"{self._tokenizer.bos} {self._tokenizer.tokenizer.to_str()}"
            identity["tokenizer"] = hashlib.sha256(text.encode()).hexdigest()[:16]
        return identity

    def _score(self, asked: label_texts.Asked) -> LabelScores:
        # Every single answer is kept, so that `finished` batches are not needed.
        texts, forms = self._texts(asked.inputs), asked.forms
        answers: list[dict[int, FormScores]] = [{} for _ in texts]
        per_row = self.requests_per_row(forms)
        rows_done = 0

        def receive(key: RequestKey, answer: Json) -> None:
            nonlocal rows_done
            try:
                scores = self._protocol.read(answer, key.question, key.number)
            except InputError as error:
                server, setting = self._server.address, self.settings.api_scores
                if reason := _refusal_in(answer):
                    refused = Refused(f"{server}: {reason}.")
                    refused.is_of_prompt = True
                    raise refused from error
                raise InputError(
                    f"{server}, {spell('api_scores', setting)}: {error} If the server cannot "
                    f"so, try {self._protocol.instead}."
                ) from error
            answers[key.row][key.number] = scores
            self._notes.add_answer(key.question.text, answer)
            rows_done += len(answers[key.row]) == per_row  # a row is done with its last request
            asked.progress(rows_done)

        with self.answers.opened():
            failures = client.run_coroutine(self._ask(self._requests(texts, forms), receive))
        refused = {key.row: why for key, why in failures.refused}
        rows_left = [row for row in range(len(texts)) if row not in refused]
        unanswered = failures.sentences + ([] if rows_left else [*refused.values()])
        client.refuse_unanswered(unanswered, failures.stopped, len(texts) * per_row)
        self._notes.damaged |= self.answers.damaged
        if refused:
            self._notes.add(np.empty((0, 0)), sentences=[label_scores.note_refused(refused, texts)])
        # Answers come in any order: those of a row are put in the order of its requests.
        rows = [list(dict(sorted(answers[row].items())).values()) for row in rows_left]
        answered = self._score_rows([texts[row] for row in rows_left], rows, asked.labels)
        self.notes = self._notes.sentences()
        return label_scores.add_refused(answered, refused) if refused else answered

    def _score_rows(
        self, texts: Sequence[str], rows: list[list[FormScores]], labels: LabelTexts
    ) -> LabelScores:
        """Scores of rows whose requests are all answered."""
        tokens = np.zeros(len(texts), np.int32)
        if self._tokenizer:
            tokens[:] = count_tokens(texts, self._tokenizer)
        where, path = self._server.address, self.answers.path
        if self._protocol.first_tokens:
            lists = [row[0] for row in rows]  # one request a row
            token_rows = [row for row in lists if isinstance(row, Mapping)]
            asked = self.settings.top_logprobs
            top = label_scores.score_first_tokens(token_rows, labels, self._missing, where, asked)
            lacking = int(top.is_filled.any(axis=1).sum())
            self._notes.add(top.scores[top.is_kept], lacking, top.never)
            why = " ".join(top.never) or "A label is not among its most probable tokens."
            failed = dict.fromkeys(np.flatnonzero(~top.is_kept).tolist(), why)
            if len(failed) < len(lists):  # lists without a label give no number
                label_scores.refuse_same(texts, lists, where, path)
            return LabelScores(top.scores, tokens, failed, top.is_filled)
        scores = np.array([list(chain(*row)) for row in rows], np.float32)  # [n, forms]
        label_scores.refuse_equal(scores, where, path, self._protocol.instead)
        label_scores.refuse_same(texts, scores.tolist(), where, path)
        scores = label_texts.sum_probabilities(scores, label_texts.flatten(labels)[1])  # [n, k]
        # Whole labels of several tokens have little mass in any case.
        if self._protocol.sends_ids:
            self._notes.add(scores)
        return LabelScores(scores, tokens)

    def estimate(self, inputs: Inputs, labels: LabelTexts) -> client.ApiCost:
        """The requests that `score` would send: without an answer, and their tokens.

        What is asked twice, as by blocks that have a prompt in common, is one request.
        """
        texts, (forms, _) = self._texts(inputs), label_texts.flatten(labels)
        unanswered = answered = tokens = 0
        seen: set[int] = set()
        with self.answers.opened():
            # Tokens after each prompt: of its label, where each label has its own request.
            label_tokens = [0]
            if self.requests_per_row(forms) > 1:
                label_tokens = count_tokens(forms, self._tokenizer)
            counts = count_tokens(texts, self._tokenizer)
            for key, request in self._requests(texts, forms):
                # The number alone is kept: the texts would fill the memory.
                content = hash(canonical([request.path, request.body]))
                if content in seen:
                    continue
                seen.add(content)
                asked = self._server.address, request
                earlier = self.answers.get(*asked)
                if earlier is not None or self.answers.refusal(*asked) is not None:
                    answered += 1
                else:
                    unanswered += 1
                    tokens += counts[key.row] + label_tokens[key.number]
        return client.ApiCost(unanswered, tokens, answered)

    def count_interrupted(self) -> int:
        """Requests that earlier runs had under way when they were stopped."""
        with self.answers.opened() as answers:
            return answers.count_interrupted()

    def requests_per_row(self, forms: Sequence[str]) -> int:
        """Requests for one text: one for each label where the prompt ends with the label."""
        return 1 if self._protocol.asks_once else len(forms)

    def _requests(
        self, texts: Sequence[str], forms: Sequence[str]
    ) -> Iterator[tuple[RequestKey, Request]]:
        """Every request, made as it is needed."""
        for start in range(0, len(texts), ROWS_AT_ONCE):
            batch = texts[start : start + ROWS_AT_ONCE]
            ids: Sequence[LabelIds] = [LabelIds()] * len(batch)
            if self._protocol.sends_ids and self._tokenizer:
                ids = label_ids(batch, forms, self._tokenizer, start)
            top = self.settings.top_logprobs
            for row, (text, row_ids) in enumerate(zip(batch, ids, strict=True), start):
                question = Question(self.model, text, tuple(forms), top, *row_ids)
                for number, request in enumerate(self._protocol.requests(question)):
                    yield RequestKey(row, number, question), request

    async def _ask(
        self, requests: Iterator[tuple[RequestKey, Request]], receive: Receive
    ) -> client.Failures[RequestKey]:
        timeout, in_flight = self.settings.timeout, self.settings.in_flight
        with self._server.logs_without_key():
            async with client.connect(self._server, timeout) as connection:
                asker = client.Client(self._server, connection, self._pace, timeout, self.notify)
                return await client.ask_all(requests, asker, self.answers, receive, in_flight)


def _refusal_in(answer: Json) -> str:
    """Why an answer has no scores, where it says so; "" elsewhere."""
    if value_at(answer, "choices", 0, "finish_reason") == "content_filter":
        return "its content filter stops it"
    refusal = value_at(answer, "choices", 0, "message", "refusal")
    return f"the model refuses ({shown(refusal)})" if refusal else ""


def count_tokens(texts: Sequence[str], tokenizer: "TokenizerInfo | None") -> list[int]:
    """Tokens of each text; without a tokenizer one for `BYTES_PER_TOKEN` bytes.

    >>> count_tokens(["Review: a fine film"], None)
    [5]
    """
    if not tokenizer:
        # Negated twice, the division rounds up.
        return [-(-len(text.encode(errors="replace")) // BYTES_PER_TOKEN) for text in texts]
    from batch_calibration.scoring.engine.token_budget import TokenBudget

    budget, counts = TokenBudget(tokenizer), list[int]()
    for start in range(0, len(texts), ROWS_AT_ONCE):
        counts += budget.token_counts(texts[start : start + ROWS_AT_ONCE])
    return counts


def label_ids(
    texts: Sequence[str], forms: Sequence[str], tokenizer: "TokenizerInfo", first_row: int = 0
) -> list[LabelIds]:
    """The ids that `CausalLM` would read of each text and its labels."""
    from batch_calibration.scoring.engine.tokens import encode

    encoded = encode(tokenizer.tokenizer, texts, forms, tokenizer.bos, first_row, tokenizer.prefix)
    rows = []
    for row, (prompt, labels) in enumerate(zip(*encoded, strict=True), first_row):
        for form, ids in zip(forms, labels, strict=True):
            if len(ids) > 1:
                raise InputError(
                    f"row {row}: the label {form!r} is {len(ids)} tokens, and this way of asking "
                    f"scores one; choose other label words, or "
                    f"{spell('api_scores', 'prompt_logprobs')} "
                    "(vLLM) or echo."
                )
        if len(prompt) < 2:  # SGLang's score takes the last token apart from those before it
            expected = "two tokens or more"
            got = repr(texts[row - first_row])
            raise InputError.at(f"row {row}", expected, got, "say something before the label")
        rows.append(LabelIds(tuple(prompt), tuple(ids[0] for ids in labels)))
    return rows
