"""Scores labels by asking a server: the scorer "api"."""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from batch_calibration.arrays import missing_scores
from batch_calibration.arrays.missing_scores import Missing
from batch_calibration.errors import InputError, shown, spell
from batch_calibration.files import Json, count_at, value_at
from batch_calibration.responses import servers, top_k
from batch_calibration.scoring import Identity, Inputs, LabelScores, LabelTexts, Refused
from batch_calibration.scoring.api import client
from batch_calibration.scoring.api.answers import Answers, Request, request_id
from batch_calibration.scoring.api.protocols import PROTOCOLS, FormScores, Question
from batch_calibration.scoring.api.server import Server
from batch_calibration.scoring.engine import label_texts
from batch_calibration.settings import ApiSettings

if TYPE_CHECKING:
    from batch_calibration.scoring.models.files.checkpoint import TokenizerInfo

VERSION = "1"  # part of the identity, so that a new version asks again
BYTES_PER_TOKEN = 4  # bytes of UTF-8 in a token, by rule of thumb
ROWS_AT_ONCE = 1024  # rows rendered and tokenized at a time
LONGEST_PROMPT, MAX_NAMED = 80, 3
"""Last letters of a prompt that a message shows, and number of prompts that it shows."""
SEVERAL, UNLIKE = 3, 1.2
"""Number of prompts with one token count, and ratio of the longest to the shortest, that suggest
cut prompts."""


class LabelIds(NamedTuple):
    """Token ids of a prompt and of each label after it."""

    prompt: tuple[int, ...] = ()
    labels: tuple[int, ...] = ()


class RequestKey(NamedTuple):
    """The row, the index among its requests, and the question of a request."""

    row: int
    number: int
    question: Question


class PlannedRequest(NamedTuple):
    """A request of a plan.

    Attributes:
        id: its id, from `request_id`.
        request: the request.
        tokens: estimated number of tokens that it sends.
        is_answered: whether an answer or a refusal is stored.
    """

    id: bytes
    request: Request
    tokens: int
    is_answered: bool


Receive = Callable[[RequestKey, Json], None]  # receives the answer to a request


class ApiScorer(label_texts.LabelScorer):
    """Log-probability of each label after each text, computed by a server.

    Answers are stored as they arrive, so that a stopped run can be resumed. A change of `missing`
    sends no request again. Without a server in the settings, or with `is_offline`, the scorer reads
    stored answers and sends nothing. Token counts are 0 without a tokenizer. For protocols with
    first tokens, rows that `missing` drops are `failed`. Refused prompts are `failed` too.

    Args:
        settings: the server and the protocol.
        model: the server's name of the model.
        tokenizer: the model's tokenizer, for protocols that send token ids and to count tokens.
        answers: the file that stores answers; None keeps them in memory.
        pace: the pace of requests; None follows `settings`.

    Raises:
        InputError: a setting does not fit the protocol. `score` raises for images, for requests
            without an answer, and for answers without log-probabilities.
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
            expected, remedy = "the server's name of the model", "SERVER/models lists it"
            raise InputError(key="model", expected=expected, remedy=remedy)
        super().__init__("scorer 'api'")
        self.settings = settings
        self.model = model
        self.notify: Callable[[str], None] | None = None  # receives a sentence on each long wait
        self.is_offline = not settings.server
        self._server = Server("")
        if settings.server:
            self._server = Server.from_environment(settings.server, settings.key_variable)
        self._protocol = PROTOCOLS[settings.api_scores]
        if self._protocol.sends_ids and tokenizer is None:
            raise InputError(
                f"{spell('api_scores', settings.api_scores)} sends token ids; give "
                "the directory of the model's tokenizer.json and config.json.",
                key="tokenizer",
            )
        self._missing = missing_scores.check_missing(settings.missing)
        self._tokenizer = tokenizer
        self.answers = Answers(answers)
        self._pace = pace or client.Pace(settings.per_minute)
        self._notes = Notes(settings.top_logprobs, self._missing, model)

    @property
    def identity(self) -> Identity:
        """Everything that determines the scores, without key and price."""
        identity: Identity = {"kind": "api", "version": VERSION, "server": self._server.address}
        identity |= {"model": self.model, "api_scores": self.settings.api_scores}
        if self._protocol.first_tokens:
            identity["top_logprobs"] = self.settings.top_logprobs
            identity["missing"] = str(self._missing)
            if self._missing == "least":
                identity["below"] = missing_scores.BELOW
        if self._protocol.sends_ids and self._tokenizer:
            # The beginning token and the tokenizer determine the ids of a text.
            text = f"{self._tokenizer.bos} {self._tokenizer.tokenizer.to_str()}"
            identity["tokenizer"] = hashlib.sha256(text.encode()).hexdigest()[:16]
        return identity

    def _score(self, asked: label_texts.Asked) -> LabelScores:
        # Every answer is stored, so that `finished` batches are not needed.
        texts, forms = self._texts(asked.inputs), asked.forms
        answers: list[dict[int, FormScores]] = [{} for _ in texts]
        self._refuse_one_first_word(forms, asked.labels)
        per_row = self.requests_per_row(forms)
        rows_done = 0

        def receive(key: RequestKey, answer: Json) -> None:
            nonlocal rows_done
            try:
                scores = self._protocol.read(answer, key.question, key.number)
            except InputError as error:
                server = self._server.address or f"{self.answers.path}"
                setting = self.settings.api_scores
                if reason := _refusal_in(answer):
                    refused = Refused(f"{server}: {reason}.")
                    refused.is_of_prompt = True
                    raise refused from error
                raise InputError(
                    f"{server}, {spell('api_scores', setting)}: {error} If the server does not "
                    f"support this, try {self._protocol.instead}."
                ) from error
            answers[key.row][key.number] = scores
            self._notes.add_answer(key.question.text, answer)
            rows_done += len(answers[key.row]) == per_row  # The last request completes a row.
            asked.progress(rows_done)

        requests = self._requests(texts, forms)
        with self.answers.opened():
            if self.is_offline:
                failures = client.read_stored(requests, self._server, self.answers, receive)
            else:
                failures = client.run_coroutine(self._ask(requests, receive))
        refused = {key.row: why for key, why in failures.refused}
        rows_left = [row for row in range(len(texts)) if row not in refused]
        unanswered = failures.sentences + ([] if rows_left else [*refused.values()])
        count = len(texts) * per_row
        if self.is_offline and unanswered:  # Other contexts may have all their answers.
            raise InputError(
                f"{len(unanswered):,} of {count:,} requests have no answer. {unanswered[0]}"
            )
        client.refuse_unanswered(unanswered, failures.stopped, count)
        self._notes.damaged |= self.answers.damaged
        if refused:
            self._notes.add(np.empty((0, 0)), sentences=[note_refused(refused, texts)])
        # Answers arrive in any order. They are sorted by the order of a row's requests.
        rows = [list(dict(sorted(answers[row].items())).values()) for row in rows_left]
        answered = self._score_rows([texts[row] for row in rows_left], rows, asked.labels)
        self.notes = self._notes.sentences()
        return add_refused(answered, refused) if refused else answered

    def _refuse_one_first_word(self, forms: Sequence[str], labels: LabelTexts) -> None:
        """Raises before any request if first tokens cannot distinguish two labels."""
        label_of: dict[str, np.intp] = {}
        counts = label_texts.flatten(labels)[1]
        for form, label in zip(forms, np.repeat(np.arange(len(counts)), counts), strict=True):
            word = "".join(form.split()[:1])
            if self._protocol.first_tokens and label_of.setdefault(word, label) != label:
                expected = f"labels with different first tokens for {self.settings.api_scores}"
                remedy = f"choose other label words, or {spell('api_scores', 'echo')}"
                raise InputError.at("labels", expected, f"{word!r} twice", remedy, "labels")

    def _score_rows(
        self, texts: Sequence[str], rows: list[list[FormScores]], labels: LabelTexts
    ) -> LabelScores:
        """Scores rows that have all their answers."""
        tokens = np.zeros(len(texts), np.int32)
        if self._tokenizer:
            tokens[:] = count_tokens(texts, self._tokenizer)
        where, path = self._server.address, self.answers.path
        if self._protocol.first_tokens:
            lists = [row[0] for row in rows]  # Each row has one request.
            token_rows = [row for row in lists if isinstance(row, Mapping)]
            asked = self.settings.top_logprobs
            top = score_first_tokens(token_rows, labels, self._missing, where, asked)
            lacking = int(top.is_filled.any(axis=1).sum())
            self._notes.add(top.scores[top.is_kept], lacking, top.never)
            why = " ".join(top.never) or "A label is not among its most probable tokens."
            failed = dict.fromkeys(np.flatnonzero(~top.is_kept).tolist(), why)
            if len(failed) < len(lists):  # Lists without a label give no score to compare.
                refuse_same(texts, lists, where, path)
            return LabelScores(top.scores, tokens, failed, top.is_filled)
        scores = np.array([list(chain(*row)) for row in rows], np.float32)  # [n, forms]
        refuse_equal(scores, where, path, self._protocol.instead)
        refuse_same(texts, scores.tolist(), where, path)
        scores = label_texts.sum_probabilities(scores, label_texts.flatten(labels)[1])  # [n, k]
        # Labels of several tokens always have little mass, so they are not noted.
        if self._protocol.sends_ids:
            self._notes.add(scores)
        return LabelScores(scores, tokens)

    def estimate(self, inputs: Inputs, labels: LabelTexts) -> client.ApiCost:
        """Estimates the requests that `score` would send, and their tokens.

        Requests with an answer are counted separately. Identical requests, such as for prompts in
        two blocks, count once.
        """
        unanswered = answered = tokens = 0
        for request in self.plan_requests(inputs, labels):
            answered += request.is_answered
            unanswered += not request.is_answered
            tokens += request.tokens * (not request.is_answered)
        return client.ApiCost(unanswered, tokens, answered)

    def plan_requests(
        self, inputs: Inputs, labels: LabelTexts, *, again: bool = False
    ) -> Iterator[PlannedRequest]:
        """Yields each request of `score` once, in the order of the inputs.

        Args:
            inputs: the texts.
            labels: the labels.
            again: whether requests with a refusal or with a useless answer count as unanswered.
        """
        texts, (forms, _) = self._texts(inputs), label_texts.flatten(labels)
        self._refuse_one_first_word(forms, labels)
        seen: set[bytes] = set()
        # The tokens of a label after the prompt, if each label has its own request.
        label_tokens = [0]
        if self.requests_per_row(forms) > 1:
            label_tokens = count_tokens(forms, self._tokenizer)
        counts = count_tokens(texts, self._tokenizer)
        with self.answers.opened():
            for key, request in self._requests(texts, forms):
                name = request_id(self._server.address, request)
                if name not in seen:
                    seen.add(name)
                    tokens = counts[key.row] + label_tokens[key.number]
                    is_answered = self._is_answered(key, request, again=again)
                    yield PlannedRequest(name, request, tokens, is_answered)

    def _is_answered(self, key: RequestKey, request: Request, *, again: bool) -> bool:
        answer = self.answers.get(self._server.address, request)
        if answer is None:
            return not again and self.answers.refusal(self._server.address, request) is not None
        if again:
            try:
                self._protocol.read(answer, key.question, key.number)
            except InputError:
                return False
        return True

    def count_interrupted(self) -> int:
        """Counts requests that earlier runs had in progress when they stopped."""
        with self.answers.opened() as answers:
            return answers.count_interrupted()

    def requests_per_row(self, forms: Sequence[str]) -> int:
        """Returns the requests per text: one for each label if the prompt ends with the label."""
        return 1 if self._protocol.asks_once else len(forms)

    def _requests(
        self, texts: Sequence[str], forms: Sequence[str]
    ) -> Iterator[tuple[RequestKey, Request]]:
        """Yields every request as it is needed."""
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
    """Returns the reason for an answer without scores if the answer names one, else ""."""
    if value_at(answer, "choices", 0, "finish_reason") == "content_filter":
        return "its content filter stopped the answer"
    refusal = value_at(answer, "choices", 0, "message", "refusal")
    return f"the model refuses ({shown(refusal)})" if refusal else ""


def count_tokens(texts: Sequence[str], tokenizer: "TokenizerInfo | None") -> list[int]:
    """Counts the tokens of each text; without a tokenizer, one for `BYTES_PER_TOKEN` bytes.

    >>> count_tokens(["Review: a fine film"], None)
    [5]
    """
    if not tokenizer:
        # The two negations round the division up.
        return [-(-len(text.encode(errors="replace")) // BYTES_PER_TOKEN) for text in texts]
    from batch_calibration.scoring.engine.token_budget import TokenBudget

    budget, counts = TokenBudget(tokenizer), list[int]()
    for start in range(0, len(texts), ROWS_AT_ONCE):
        counts += budget.token_counts(texts[start : start + ROWS_AT_ONCE])
    return counts


def label_ids(
    texts: Sequence[str], forms: Sequence[str], tokenizer: "TokenizerInfo", first_row: int = 0
) -> list[LabelIds]:
    """Encodes each text and its labels as `CausalLM` does; each label must be one token."""
    from batch_calibration.scoring.engine.tokens import encode

    encoded = encode(tokenizer.tokenizer, texts, forms, tokenizer.bos, first_row, tokenizer.prefix)
    rows = []
    for row, (prompt, labels) in enumerate(zip(*encoded, strict=True), first_row):
        for form, ids in zip(forms, labels, strict=True):
            if len(ids) > 1:
                remedy = f"choose other words, {spell('api_scores', 'prompt_logprobs')} or echo"
                expected = f"one token for the label {form!r}"
                raise InputError.at(f"row {row}", expected, len(ids), remedy)
        if len(prompt) < 2:  # SGLang takes the last token separately from the tokens before it.
            expected, got = "two tokens or more", repr(texts[row - first_row])
            raise InputError.at(f"row {row}", expected, got, "add text before the label")
        rows.append(LabelIds(tuple(prompt), tuple(ids[0] for ids in labels)))
    return rows


# Label scores from lists of first tokens, and notes for readers of all scores


class FirstTokenScores(NamedTuple):
    """Label scores from lists of first tokens."""

    scores: np.ndarray  # float32 [n, k], nats; NaN in dropped rows
    is_kept: np.ndarray  # [n], whether the row has a score for every label
    is_filled: np.ndarray  # [n, k], whether the score is missing in the list
    never: tuple[str, ...]  # a sentence on each label that is in no list


def score_first_tokens(
    rows: Sequence[top_k.LogProbs], labels: LabelTexts, missing: Missing, where: str, asked: int
) -> FirstTokenScores:
    """Scores labels from lists of first tokens; `responses.scores_of_top_k` maps tokens to labels.

    Each row maps tokens to log-probabilities in nats, with at most `asked` tokens. The scores of a
    row depend on no other row.

    >>> score_first_tokens([{" yes": -1.0, " no": -2.0}], [" yes", " no"], "least", "it", 2).scores
    array([[-1., -2.]], dtype=float32)
    """
    names, tokens = [], {}
    for label in labels:
        forms = (label,) if isinstance(label, str) else tuple(label)
        names.append(forms[0].strip())  # The first form names the label.
        if len(forms) > 1:  # A label of one form is matched by its name, in any case.
            tokens[names[-1]] = forms
    top = top_k.scores_of_top_k(rows, names, tokens, where, asked)
    # The most probable token of each row, at most five distinct ones.
    likely = list(dict.fromkeys(max(row, key=row.__getitem__) for row in rows))[:5]
    remedy = f"the first are {shown(likely)}: raise {spell('top_logprobs')}, choose label words "
    remedy += f"that the model answers with, or {spell('api_scores', 'echo')} for whole labels"
    never = []
    for name in names:
        if not top.tokens[name]:
            sentence = f"No answer has a token of the label {name!r} among its most probable"
            never.append(f"{sentence}; {remedy}.")
    if len(rows) > 1:  # In a single row, it may be true.
        missing_scores.refuse_greedy(top.log_probs, where)
    filled, is_kept = missing_scores.fill_scores(top.log_probs, missing, top.bound)
    scores = np.full(top.log_probs.shape, np.nan, np.float32)
    scores[is_kept] = filled
    is_filled = missing_scores.find_missing(top.log_probs)
    return FirstTokenScores(scores, is_kept, is_filled, tuple(never))


def refuse_same(texts: Sequence[str], rows: Sequence[Sized], where: str, path: Path | None) -> None:
    """Raises if different texts all have the same list of two or more scores."""
    count = len(set(texts))
    if count > 1 and len(rows[0]) > 1 and all(row == rows[0] for row in rows):
        remedy = "the server, or the proxy before it, answers other prompts: repair it"
        remedy += f", move {path} away and ask again" if path else ""
        raise InputError.at(where, "an answer to each prompt", f"the same one to {count:,}", remedy)


def refuse_equal(scores: np.ndarray, where: str, path: Path | None, instead: str) -> None:
    """Raises if all scores [n k] are one number, and suggests another protocol."""
    try:
        servers.refuse_constant(scores, where)
    except InputError as error:
        remedy = f", or repair it, move {path} away and ask again" if path else ""
        raise InputError(f"{error} Try {instead}{remedy}.") from error


def add_refused(answered: LabelScores, refused: Mapping[int, str]) -> LabelScores:
    """Adds the refused rows to the answered ones, with scores of NaN.

    >>> rows = LabelScores(np.zeros((1, 2), np.float32), np.ones(1, np.int32))
    >>> add_refused(rows, {0: "no"}).log_probs.tolist()
    [[nan, nan], [0.0, 0.0]]
    """
    count = len(answered.log_probs) + len(refused)
    rows = [row for row in range(count) if row not in refused]
    scores = np.full((count, answered.log_probs.shape[1]), np.nan, np.float32)
    scores[rows] = answered.log_probs
    tokens = np.zeros(count, np.int32)
    tokens[rows] = answered.tokens
    is_filled = None
    if answered.is_filled is not None:
        is_filled = np.zeros(scores.shape, bool)
        is_filled[rows] = answered.is_filled
    failed = {rows[number]: why for number, why in answered.failed.items()}
    return LabelScores(scores, tokens, failed | dict(refused), is_filled)


def note_refused(refused: Mapping[int, str], texts: Sequence[str]) -> str:
    """Writes a sentence on prompts without scores that quotes the ends of the first ones."""
    ends = []
    for row in sorted(refused)[:MAX_NAMED]:
        is_short = len(texts[row]) <= LONGEST_PROMPT
        ends.append(repr(texts[row] if is_short else f"...{texts[row][-LONGEST_PROMPT:]}"))
    more = f" and {len(refused) - MAX_NAMED:,} more" if len(refused) > MAX_NAMED else ""
    return (
        f"{len(refused):,} of {len(texts):,} prompts have no scores from the server and are left "
        f"out: the prompts that end in {', '.join(ends)}{more}. {refused[min(refused)]}"
    )


class Notes:
    """Counts of the gaps in the answers of a run that asks for `top` first tokens."""

    def __init__(self, top: int, missing: Missing, model: str):
        self._top = top
        self._missing = missing
        self._model = model
        self._rows = self._lacking = 0
        self.damaged: set[bytes] = set()  # hashes of stored answers that could not be read
        self._models: Counter[str] = Counter()
        self._sizes: dict[int, set[int]] = {}  # the server's count of tokens -> bytes of texts
        self._mass = 0.0
        self._sentences: dict[str, None] = {}

    def add(self, scores: np.ndarray, lacking: int = 0, sentences: Iterable[str] = ()) -> None:
        """Counts scores [n, k], answers without a label, and sentences."""
        if len(scores):
            self._mass += servers.label_mass(scores) * len(scores)
            self._rows += len(scores)
        self._lacking += lacking
        self._sentences |= dict.fromkeys(sentences)

    def add_answer(self, text: str, answer: object) -> None:
        """Counts an answer's model and the tokens of its prompt."""
        model, tokens = value_at(answer, "model"), count_at(answer, "usage", "prompt_tokens")
        if isinstance(model, str):
            self._models[model] += 1
        if tokens is not None:
            self._sizes.setdefault(tokens, set()).add(len(text.encode(errors="replace")))

    def sentences(self) -> list[str]:
        """Writes a sentence on each fact for readers of the scores."""
        sentences = list(servers.note_little_mass(self._mass / self._rows)) if self._rows else []
        if self._lacking:
            ways = {"least": "set just below the lowest of them", "drop": "left out"}
            way = ways.get(str(self._missing), f"set to {self._missing} nats")
            sentences.append(
                f"{self._lacking:,} answers lack a label among their {self._top} most probable "
                f"tokens: {way} ({spell('missing')})."
            )
        if self.damaged:
            sentences.append(f"{len(self.damaged):,} stored answers were damaged and asked again.")
        return [*sentences, *self._note_models(), *self._note_cut(), *self._sentences]

    def _note_models(self) -> list[str]:
        """Writes a sentence if answers come from another model, or from several."""
        # A server may add a date or a folder to a name.
        other_models = [name for name in self._models if self._model.lower() not in name.lower()]
        if not other_models and len(self._models) < 2:
            return []
        counts = ", ".join(f"{count:,} of {name!r}" for name, count in self._models.most_common(3))
        return [f"{spell('model')} is {self._model!r}, and the server names its models: {counts}."]

    def _note_cut(self) -> list[str]:
        """Writes a sentence if prompts of different lengths share the largest token count."""
        most = max(self._sizes, default=0)
        sizes = self._sizes.get(most, set())
        if len(sizes) < SEVERAL or max(sizes) < UNLIKE * min(sizes):
            return []
        return [
            f"The server counts {most:,} tokens in each of {len(sizes)} prompts of {min(sizes):,} "
            f"to {max(sizes):,} bytes, and never more: it may have cut them "
            f"({spell('over_long')} with {spell('tokenizer')} shortens them here)."
        ]
