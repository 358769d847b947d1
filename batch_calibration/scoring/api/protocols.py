"""The protocols to ask a server for label scores: requests to send, and how to read answers.

A server that scores the prompt itself returns its tokens. They are compared with the text that was
sent, in every form in which tokenizers write it, to find the tokens of the label.
"""

import codecs
import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from operator import not_
from typing import NamedTuple

import numpy as np

from batch_calibration.arrays.missing_scores import find_missing
from batch_calibration.errors import InputError, shown, spell
from batch_calibration.files import Json, object_at, parse_json, value_at
from batch_calibration.responses import servers
from batch_calibration.responses.answers import choose_places
from batch_calibration.responses.top_k import byte_alphabet, check_tokens
from batch_calibration.scoring.api.answers import Request
from batch_calibration.settings import ApiScores

ROUNDING = 1e-3  # nats by which rounding may lift a log-probability above 0
SUM_ROUNDING = 0.02
"""Tolerance for the sum of a decision's probabilities, which servers round."""
DECISION_NAME, DECISION = "label", "Which option goes on after the text?"
"""Name and text of a decision's only question; its state is the whole prompt."""
WHERE = "the answer"  # the name of an answer in messages
GAP, LOST = "\N{REPLACEMENT CHARACTER}", "\0"
"""Placeholders for a part of a letter of several bytes: some servers write a replacement character,
others leave it out."""
MOST_PARTS = 4  # maximum tokens of one letter: its bytes
MOST_BEGINNINGS = 2  # maximum tokens that a model puts before each text


class Question(NamedTuple):
    """One text and the labels that may follow it."""

    model: str  # the server's name of the model
    text: str  # the prompt
    forms: tuple[str, ...]  # the texts of all labels
    top: int  # number of most probable first tokens to request
    ids: tuple[int, ...] = ()  # the prompt's token ids, for protocols that send ids
    label_ids: tuple[int, ...] = ()  # the token id of each form, for the same protocols


FormScores = list[float] | Mapping[str, float]
"""The content of an answer: scores of some forms in order, or first tokens with their scores."""


class ApiProtocol(NamedTuple):
    """A way to ask a server for label scores."""

    # Maps a question to its requests: one, or one for each form in order.
    requests: Callable[[Question], list[Request]]
    # Maps an answer, its question and the index of its request to scores.
    read: Callable[[Json, Question, int], FormScores]
    first_tokens: bool = False  # whether answers are lists of first tokens
    sends_ids: bool = False  # whether requests hold token ids, which requires a tokenizer
    asks_all: bool = False  # whether one request names all labels
    instead: str = ""  # protocols to try if a server does not support this one

    @property
    def asks_once(self) -> bool:
        """True if one request covers all labels of a prompt."""
        return self.first_tokens or self.sends_ids or self.asks_all


def _completion(question: Question, **fields: Json) -> Request:
    body: dict[str, Json] = {"model": question.model, "prompt": question.text}
    # Some servers refuse a request for 0 tokens.
    return Request("completions", body | {"max_tokens": 1, "temperature": 0} | fields)


def _per_form(question: Question, **fields: Json) -> list[Request]:
    """Makes a request for each form, with the form at the end of the prompt."""
    return [_completion(question, prompt=question.text + form, **fields) for form in question.forms]


def _read_prompt(server: str, answer: Json, question: Question, number: int) -> FormScores:
    """Reads the score of the form at the end of a prompt."""
    prompt = servers.RESPONSE_FORMATS[server].prompt_tokens(_object(answer), WHERE)
    # The prompt's tokens are checked too: a value above 0 is not a log-probability.
    for log_prob in prompt.log_probs:
        if log_prob > ROUNDING:
            _at_most_0(log_prob)
    form, hides_first = question.forms[number], server == "vllm"
    log_probs = label_log_probs(prompt, question.text, form, WHERE, hides_first)
    return [_at_most_0(float(log_probs.sum()))]


def _logprob_token_ids(question: Question) -> list[Request]:
    ids: Json = list(question.label_ids)
    asks = {"logprobs": 1, "logprob_token_ids": ids, "return_tokens_as_token_ids": True}
    return [_completion(question, prompt=list(question.ids), **asks)]


def _read_logprob_token_ids(answer: Json, question: Question, _: int) -> FormScores:
    log_probs = servers.RESPONSE_FORMATS["vllm"].first_tokens(_object(answer), WHERE)
    _refuse_other_size(answer, len(question.ids))
    names = [f"token_id:{number}" for number in question.label_ids]
    lacking = [name for name in names if name not in log_probs]
    if lacking:
        expected = f"the log-probabilities of {', '.join(names)}"
        remedy = "vLLM's servers support logprob_token_ids since July 2026"
        raise InputError.at(WHERE, expected, f"an answer without {', '.join(lacking)}", remedy)
    return [_at_most_0(log_probs[name]) for name in names]


def _score(question: Question) -> list[Request]:
    body: dict[str, Json] = {
        "model": question.model,
        # SGLang joins query and item; the last token of the prompt is the item.
        "query": list(question.ids[:-1]),
        "items": [[question.ids[-1]]],
        "label_token_ids": list(question.label_ids),
        "apply_softmax": False,  # probabilities over the vocabulary, not over the labels
    }
    return [Request("score", body)]


def _read_score(answer: Json, question: Question, _: int) -> FormScores:
    probs, k = servers.label_probs(_object(answer), WHERE), len(question.label_ids)
    if probs.shape != (1, k):
        raise InputError.at(WHERE, f"scores [1, {k}]", probs.shape)
    if not probs.all():
        raise InputError.at(WHERE, "a probability above 0 of each label", "0, too small to write")
    return list(map(float, np.log(probs[0])))


def _top_k(question: Question) -> list[Request]:
    return [_completion(question, logprobs=question.top)]


def read_messages(text: str) -> Json:
    """Parses a text that is a JSON list of messages; returns None for any other text.

    >>> read_messages('[{"role": "user", "content": "Is it?"}]'), read_messages("[1] Is it?")
    ([{'role': 'user', 'content': 'Is it?'}], None)
    """
    if not text.lstrip().startswith("["):
        return None
    try:
        messages = parse_json(text)
    except ValueError:
        return None
    for message in messages if isinstance(messages, list) else [None]:
        if not isinstance(value_at(message, "role"), str) or "content" not in object_at(message):
            return None
    return messages or None


def _chat(question: Question) -> list[Request]:
    user: Json = [{"role": "user", "content": question.text}]
    messages = read_messages(question.text) or user
    body: dict[str, Json] = {"model": question.model, "messages": messages}
    body |= {"max_tokens": 1, "temperature": 0, "logprobs": True, "top_logprobs": question.top}
    return [Request("chat/completions", body)]


def _read_top_k(answer: Json, question: Question, _: int) -> FormScores:
    response_format = servers.RESPONSE_FORMATS["openai"]
    found = response_format.read_answer(_object(answer), WHERE)
    # Some servers write more tokens than requested.
    names = list(map(str.strip, question.forms))
    (place,), _notes = choose_places([found.tokens], [WHERE], names)
    log_probs = response_format.tokens_at(found, place, WHERE)
    # The whole list is checked before the answer is stored.
    check_tokens(log_probs, f"{WHERE}, row 0")
    return log_probs


def _systemone(question: Question) -> list[Request]:
    # Sorted by name, so that a position bias does not depend on the order of a task's labels.
    options: dict[str, Json] = dict.fromkeys(sorted(map(str.strip, question.forms)))
    if len(options) < len(question.forms):
        where, remedy = spell("api_scores", "systemone"), "give each label one form of its own"
        got = shown(list(question.forms))
        raise InputError.at(where, "labels with different names", got, remedy, "api_scores")
    decision: Json = {"type": "choice", "instructions": DECISION, "criteria": options}
    body: dict[str, Json] = {"model": question.model, "state": question.text}
    return [Request("systemone", body | {"questions": {DECISION_NAME: decision}})]


def _read_systemone(answer: Json, question: Question, _: int) -> FormScores:
    """Reads the logarithms of the options' probabilities, which must sum to 1."""
    probabilities = value_at(answer, "answers", DECISION_NAME, "probabilities")
    names = [form.strip() for form in question.forms]
    if not isinstance(probabilities, dict) or set(probabilities) != set(names):
        expected = f"a probability for each of {', '.join(names)}"
        raise InputError.at(WHERE, expected, shown(probabilities))
    scores = []
    for name in names:
        share = probabilities[name]
        if isinstance(share, bool) or not isinstance(share, int | float) or not 0 < share <= 1:
            expected = "a probability above 0 and at most 1"
            raise InputError.at(f"{WHERE}, {name!r}", expected, shown(share))
        scores.append(float(np.log(share)))
    total = float(np.exp(scores).sum())
    if abs(total - 1.0) > SUM_ROUNDING:
        raise InputError.at(WHERE, "probabilities with sum 1", f"{total:.4g}")
    return scores


def _at_most_0(log_prob: float) -> float:
    # The negated comparison refuses NaN too.
    if not log_prob <= ROUNDING or find_missing(np.array(log_prob)):
        expected = "a label's log-probability in nats, at most 0"
        raise InputError.at(WHERE, expected, f"{log_prob:g}")
    return log_prob


def _object(answer: Json) -> Mapping[str, object]:
    """Checks that an answer is an object with one choice, and returns it."""
    if not isinstance(answer, dict):
        raise InputError.at(WHERE, "a JSON object", shown(answer))
    choices, index = answer.get("choices"), value_at(answer, "choices", 0, "index")
    if isinstance(choices, list) and (len(choices) > 1 or index not in (None, 0)):
        got = f"{len(choices)}, the first with index {shown(index)}"
        raise InputError.at(WHERE, "one choice, of index 0", got)
    return answer


def _refuse_other_size(answer: Json, size: int) -> None:
    """Raises if the server counts another number of tokens than were sent."""
    counted = value_at(answer, "usage", "prompt_tokens")
    if isinstance(counted, int) and counted != size:
        expected = f"the answer to a prompt of {size:,} tokens"
        remedy = f"the server cuts or changes prompts: send shorter ones ({spell('over_long')})"
        raise InputError.at(WHERE, expected, f"one to {counted:,}", remedy)


PROTOCOLS: dict[ApiScores, ApiProtocol] = {
    "echo": ApiProtocol(
        partial(_per_form, echo=True, logprobs=1),
        partial(_read_prompt, "openai"),
        instead="prompt_logprobs (vLLM), top_k or chat",
    ),
    "prompt_logprobs": ApiProtocol(
        partial(_per_form, prompt_logprobs=0),
        partial(_read_prompt, "vllm"),
        instead="echo, score (SGLang), top_k or chat",
    ),
    "logprob_token_ids": ApiProtocol(
        _logprob_token_ids,
        _read_logprob_token_ids,
        sends_ids=True,
        instead="prompt_logprobs (older vLLM), score (SGLang), echo or top_k",
    ),
    "score": ApiProtocol(_score, _read_score, sends_ids=True, instead="echo, top_k or chat"),
    "top_k": ApiProtocol(_top_k, _read_top_k, first_tokens=True, instead="chat or echo"),
    "chat": ApiProtocol(_chat, _read_top_k, first_tokens=True, instead="top_k or echo"),
    "systemone": ApiProtocol(_systemone, _read_systemone, asks_all=True, instead="chat or top_k"),
}
"""Maps the setting `api_scores` to its protocol."""


# Matches <s>, <|begin_of_text|> and [gMASK], which begin a text, but not tokens of chat turns.
_BEGINNING = re.compile(
    r"(?!.*(?:im_|turn|header|role|user))"
    r"[<\[][|\uff5c]?(?:/?s|[\w: ]*(?:bos|begin|start|end|cls|sop|gmask)[\w: ]*)[|\uff5c]?[>\]]",
    re.IGNORECASE,
)


# Matches texts that are surely at most one token: spaces with a word, digits, signs or a letter.
_ONE_TOKEN = re.compile(r"\s*(?:[^\w\s]?[A-Za-z]{0,30}|\d{0,16}|[!-/:-@\[-`{-~]{0,16}|\S)")


_BYTES = re.compile(r"bytes:((?:\\x[0-9a-f]{2})+)|<0x([0-9A-F]{2})>")  # OpenAI, SentencePiece


def label_log_probs(
    prompt: servers.PromptTokens, text: str, form: str, where: str, hides_first: bool = False
) -> np.ndarray:
    """Returns the log-probabilities [tokens] of the label `form` after `text`, in nats.

    The server's tokens are compared with the text that was sent. The comparison ignores details
    that tokens do not show: a token at the start of each text, single bytes of a letter, spaces
    that SentencePiece drops when it decodes a single token, and its normalization. With
    `hides_first`, the server does not show the first token, which may then be any token.

    Raises:
        InputError: the server scored another text; the start of the label or one of its
            log-probabilities is missing.

    >>> prompt = servers.PromptTokens(("<s>", "Is it", "?", " yes"), (np.nan, -9.0, -1.0, -0.5))
    >>> label_log_probs(prompt, "Is it?", " yes", "the answer").tolist()
    [-0.5]
    """
    sent, prompt = text + form, servers.without_end(prompt, form, not_)
    texts = _decode(prompt.tokens, sent)
    decoded = servers.PromptTokens(tuple(texts), prompt.log_probs)
    match = _match(texts, hides_first, sent)
    if match is None:
        servers.end_log_prob(decoded, form, where)  # raises if the label is not at the end
        joined = "".join(texts)
        got = f"{len(joined):,} letters, {shown(joined, 60)}"
        if sent.endswith(joined):
            got = f"only its last {len(joined):,} letters"
        expected = f"the prompt that was sent, {len(sent):,} letters, {shown(sent, 60)}"
        remedy = f"the server cuts or changes prompts: send shorter ones ({spell('over_long')} "
        remedy += f"with {spell('tokenizer')}), or configure it not to change them"
        raise InputError.at(where, expected, got, remedy)
    view, is_whole = match
    start = _first_token(texts, form, view)
    if start is None:  # A token holds a space of the prompt; more of the prompt raises an error.
        start = len(texts) - servers.end_log_prob(decoded, form, where)[1]
    while start < len(texts) and not texts[start] and not is_whole and form.isascii():
        start += 1  # An empty token is part of a prompt letter, because the label is ASCII.
    hides_spaces = view.spaceless and text[-1:].isspace()
    if not texts[start] and (not is_whole or hides_spaces):
        expected = f"a text of the token before {shown(form)}, which may be a part of it"
        remedy = f"begin the label with a space, or try another {spell('api_scores')}"
        raise InputError.at(where, expected, "none", remedy)
    log_probs = np.array(prompt.log_probs[start:])
    if find_missing(log_probs).any():
        raise InputError.at(where, f"a log-probability of each token of {shown(form)}", "none")
    return log_probs


class _View(NamedTuple):
    """A form in which a tokenizer writes the text that it read."""

    write: Callable[[str], str]  # maps a text to this form
    # Checks whether the texts of tokens may have this form.
    fits: Callable[[Sequence[str]], bool] = lambda _: True
    spaceless: bool = False  # whether spaces are left out


def _lacks(pattern: str) -> Callable[[Sequence[str]], bool]:
    """Returns a function that checks that no token matches the pattern."""
    return lambda texts: not any(re.search(pattern, text) for text in texts)


def _normalized(text: str, space: str) -> str:
    return re.sub(r"\s+", space, unicodedata.normalize("NFKC", text))


_VIEWS = (
    _View(str),
    # Transformers leaves out a space before these signs when it decodes single tokens.
    _View(lambda text: re.sub(r" (?=[.,?!']|n't)", "", text)),
    # SentencePiece may merge spaces and line ends to one space ...
    _View(lambda text: _normalized(text, " "), _lacks(r"\n|  ")),
    # ... or leave out the space before each word when it decodes single tokens ...
    _View(lambda text: text.replace(" ", ""), _lacks(r" \S"), spaceless=True),
    # ... or do both.
    _View(lambda text: _normalized(text, ""), _lacks(r"\s"), spaceless=True),
)


def _match(texts: Sequence[str], hides_first: bool, sent: str) -> tuple[_View, bool] | None:
    """Finds the view in which tokens match the text sent, and whether all letters are shown."""
    first = int(hides_first)
    for begin in range(first, min(first + MOST_BEGINNINGS, len(texts)) + 1):
        if begin > first and texts[begin - 1] and not _BEGINNING.fullmatch(texts[begin - 1]):
            return None
        for view in _VIEWS:
            if view.fits(texts[begin:]):
                written = view.write(sent)
                bare = written.removeprefix(" ")  # SentencePiece may add this space.
                for empty in ("", LOST):
                    pattern = view.write("".join(text or empty for text in texts[begin:]))
                    is_whole = GAP not in pattern and LOST not in pattern
                    before = _text_before(pattern, written)
                    if before == "" or _text_before(pattern.removeprefix(" "), bare) == "":
                        return view, is_whole
                    if before and begin == first == 1 and _is_one_token(before, view, sent):
                        return view, is_whole
    return None


def _is_one_token(beginning: str, view: _View, sent: str) -> bool:
    """Checks whether this beginning of the text sent, as a view shows it, is surely one token."""
    for end in range(len(sent)):
        if view.write(sent[:end]) == beginning:
            return _ONE_TOKEN.fullmatch(sent[:end]) is not None
        if len(view.write(sent[:end])) > len(beginning):
            break
    return False


def _text_before(pattern: str, sent: str) -> str | None:
    """Returns the text of `sent` before a pattern at its end, or None without a match.

    A run of `g` gaps matches `g / 4` (rounded up) to `g` letters of several bytes. Gaps at the
    beginning of the pattern match only if there are two of them, for one letter, because a server
    may have cut the text there.

    >>> _text_before("Caf\ufffd\ufffd?", "Café?"), _text_before("here?", "Is it here?")
    ('', 'Is it ')
    """
    pieces = re.split(f"([{GAP}{LOST}]+)", pattern)
    end = len(sent)
    for i in reversed(range(0, len(pieces), 2)):
        piece, gaps = pieces[i], "".join(pieces[i + 1 : i + 2])
        sizes = range(-(-len(gaps) // MOST_PARTS), len(gaps) + 1)
        if gaps and i == 0 and not piece:
            sizes = range(1, 2 if gaps == 2 * GAP else 1)
        for size in sizes:
            letters = sent[max(end - size, 0) : end]
            is_letters = len(letters) == size and not any(map(str.isascii, letters))
            if is_letters and sent.endswith(piece, 0, end - size):
                end -= size + len(piece)
                break
        else:
            return None
    return sent[:end]


def _decode(tokens: Sequence[str], sent: str) -> list[str]:
    """Decodes the text of each token; a letter of several bytes belongs to its last token."""
    joined = "".join(tokens)
    # A byte-level vocabulary writes a space as "Ġ" and a line end as "Ċ".
    is_byte_level = re.search("[ĠĊ]", joined) and not re.search("[ĠĊ]", sent)
    alphabet = byte_alphabet() if is_byte_level else {}
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    texts = []
    for token in tokens:
        content = token.encode(errors="replace")
        if match := token not in sent and _BYTES.fullmatch(token):
            content = bytes.fromhex((match[1] or match[2]).replace("\\x", ""))
        elif alphabet and set(token) <= alphabet.keys():
            content = bytes(map(alphabet.__getitem__, token))
        text = decoder.decode(content)
        texts.append(text if "▁" in sent else text.replace("▁", " "))
    return texts


def _first_token(texts: Sequence[str], form: str, view: _View) -> int | None:
    """Finds the first of the last tokens that form the label, or None without an exact match."""
    label, first, end = view.write(form), None, ""
    for start in reversed(range(len(texts))):
        end = texts[start] + end
        written = view.write(end)
        if written == label:
            first = start
        elif len(written) > len(label):
            break
    return first
