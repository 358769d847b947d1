"""Reads responses of OpenAI-style servers, vLLM, SGLang and llama.cpp; lists their formats."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain, zip_longest
from typing import NamedTuple

import numpy as np

from batch_calibration.arrays.missing_scores import find_missing
from batch_calibration.arrays.score_scale import MAX_LOG_PROB
from batch_calibration.errors import InputError, shown
from batch_calibration.files import list_at, object_at, text_at, value_at
from batch_calibration.responses.answers import is_end
from batch_calibration.responses.shapes import Answer, find_answers
from batch_calibration.responses.top_k import SPACES

Response = Mapping[str, object]  # one answer, a JSON object
MIN_LABEL_MASS = 0.5
"""Threshold of the labels' mean total probability; below it, most answers name no label."""


def read_number(number: object, where: str) -> float:
    """Reads a number from JSON; null, a number that was not returned, becomes NaN."""
    if number is None:
        return float("nan")
    # In Python, True is an int, but it is not a log-probability.
    if isinstance(number, int | float) and not isinstance(number, bool):
        try:
            return float(number)
        except OverflowError:  # an integer with hundreds of digits
            pass
    raise InputError.at(where, "a log-probability in nats", shown(number))


def read_log_prob(number: object, where: str) -> float:
    """Reads a log-probability from JSON; null becomes NaN."""
    return check_log_prob(read_number(number, where), where)


def check_log_prob(number: float, where: str) -> float:
    """Returns the number; raises if it is too large for a log-probability."""
    if number > MAX_LOG_PROB:
        expected = "a log-probability in nats, which is at most 0"
        remedy = "change the sign of losses, or take the logarithms of probabilities"
        raise InputError.at(where, expected, f"{number:g}", remedy)
    return number


def read_tokens(pairs: Iterable[tuple[object, object]], where: str) -> dict[str, float]:
    """Maps tokens to log-probabilities in nats; probabilities of equal texts are summed."""
    log_probs: dict[str, float] = {}
    for token, log_prob in pairs:
        if not isinstance(token, str):
            raise InputError.at(where, "the text of a token", shown(token))
        nats = read_log_prob(log_prob, where)
        if token not in log_probs:
            log_probs[token] = nats
        elif log_probs[token] != nats:
            # Another token has this text. An equal probability means the same token, because some
            # servers list the sampled token a second time.
            log_probs[token] = float(np.logaddexp(log_probs[token], nats))
    return log_probs


class PromptTokens(NamedTuple):
    """The tokens of a prompt that ends with a label."""

    tokens: tuple[str, ...]  # texts of the tokens
    # Log-probability of each token given the previous tokens, in nats; NaN if unknown.
    log_probs: tuple[float, ...]


def without_end(
    prompt: PromptTokens, label: str, is_behind: Callable[[str], bool] = is_end
) -> PromptTokens:
    """Removes the end tokens after the label from a prompt that ends with a label.

    >>> without_end(PromptTokens(("Q:", " yes", "", "</s>"), (-1.0, -2.0, -3.0, -4.0)), "yes")
    PromptTokens(tokens=('Q:', ' yes'), log_probs=(-1.0, -2.0))
    """
    for size in range(len(prompt.tokens), 0, -1):
        text = "".join(prompt.tokens[: size - 1]).translate(SPACES).rstrip()
        if not is_behind(prompt.tokens[size - 1]) or not text.endswith(label.strip()):
            return PromptTokens(prompt.tokens[:size], prompt.log_probs[:size])
    return prompt


def end_log_prob(prompt: PromptTokens, label: str, where: str) -> tuple[float, int]:
    """Returns the log-probability of the label at the end of a prompt, and its number of tokens.

    The score includes a space that belongs to the label's first token. It excludes tokens after the
    label that are empty or end the text.

    Raises:
        InputError: the prompt does not end with the label; a token holds the end of the prompt and
            the beginning of the label; a log-probability is missing.

    >>> end_log_prob(PromptTokens(("Is it?", " y", "es"), (-9.0, -2.0, -0.5)), "yes", "")
    (-2.5, 2)
    """
    prompt = without_end(prompt, label)
    start, end = len(prompt.tokens), ""
    # Goes back until the tokens hold as many letters as the label.
    while start and len(end.strip()) < len(label.strip()):
        start -= 1
        # Byte-level and SentencePiece tokens write a space as another letter.
        end = prompt.tokens[start].translate(SPACES) + end
    if not end.strip().endswith(label.strip()):
        expected = f"a prompt that ends with the label {shown(label)}"
        remedy = "send prompt and label together and ask for no new token (max_tokens=0)"
        raise InputError.at(where, expected, shown(end), remedy)
    if end.strip() != label.strip():
        expected = f"a token where the label {shown(label)} begins"
        got = f"{shown(prompt.tokens[start])}, which holds the end of the prompt, too"
        remedy = "end the prompt without a space and begin the label with a space"
        raise InputError.at(where, expected, got, remedy)
    log_probs = np.array(prompt.log_probs[start:])
    if find_missing(log_probs).any():
        expected = f"a log-probability of each token of the label {shown(label)}"
        raise InputError.at(where, expected, "none", "ask for each token of the prompt")
    return float(log_probs.sum()), len(log_probs)


def label_probs(response: Response, where: str = "response") -> np.ndarray:
    """Reads the probabilities [n, k] of an SGLang `/v1/score` response, ordered as label_token_ids.

    Raises:
        InputError: no scores, or numbers that are not probabilities.

    >>> label_probs({"scores": [[0.9, 0.1]]}).tolist()
    [[0.9, 0.1]]
    """
    rows = list(map(list_at, list_at(response, "scores")))
    lengths = set(map(len, rows))
    if len(lengths) != 1 or 0 in lengths:
        raise InputError.at(where, "scores as one list per row, of equal length", "none")
    numbers = [read_number(number, where) for number in chain.from_iterable(rows)]
    probs = np.array(numbers).reshape(len(rows), -1)
    # Rounding may add a thousandth to 1.
    if not ((probs >= 0) & (probs <= 1)).all() or (probs.sum(axis=1) > 1 + 1e-3).any():
        expected = "probabilities from 0 to 1 that sum to at most 1"
        raise InputError.at(where, expected, shown(probs[0].tolist()))
    return probs


def refuse_constant(scores: np.ndarray, where: str) -> None:
    """Raises if the scores [n, k] are equal in each row, so that no label was scored."""
    is_one = 1 in (scores.shape[-1], scores.size // scores.shape[-1])
    # A single row may have equal scores.
    if is_one or not (scores == scores[..., :1]).all():
        return
    if not (scores == scores.flat[0]).all():
        got = f"equal scores of all labels in each of {len(scores):,} rows"
        remedy = "equal scores favor no label: score each label"
        raise InputError.at(where, "scores that differ between labels", got, remedy)
    raise InputError(
        f"{where}: every score is {scores.flat[0]:g}, so the labels were not scored; some servers "
        "return equal numbers if they do not support log-probabilities."
    )


def label_mass(scores: np.ndarray) -> float:
    """Returns the total probability of all labels, averaged over the rows of scores [n, k]."""
    # Rounding may raise a score above 0.
    return float(np.exp(np.minimum(scores, 0.0)).sum(axis=-1).mean())


def note_little_mass(mass: float) -> tuple[str, ...]:
    """Returns a note if the labels have little probability, else an empty tuple."""
    if mass >= MIN_LABEL_MASS:
        return ()
    return (
        f"All labels together have {100 * mass:.1f} % of the probability on average: the model "
        "mostly gives other answers, so the scores describe its answers poorly.",
    )


ASK = "ask with logprobs=true and top_logprobs=20 (chat) or logprobs=5 (completions)"
NO_LIST = f"its first token has no list of the most probable tokens; {ASK}"


def note_tokens(taken: Mapping[str, Sequence[str]]) -> str:
    """Returns a note on the tokens that count for each label."""
    listed = "; ".join(f"{name}: {', '.join(map(repr, texts))}" for name, texts in taken.items())
    return f"Tokens taken for the labels: {listed}."


class ResponseFormat(NamedTuple):
    """The response format of one kind of server."""

    scorer: str  # name in score tables
    # Response -> the generated tokens, and the most probable tokens at the position of each.
    read_answer: Callable[[Response, str], Answer]
    no_tokens: str  # message on a response without them, with the request that returns them
    # Checks whether a response scores the tokens of its prompt instead of generated tokens.
    has_prompt: Callable[[Response], bool] = lambda _: False
    # Response with a scored prompt -> the prompt; None for servers that do not score prompts.
    read_prompt: Callable[[Response, str], PromptTokens] | None = None

    def tokens_at(
        self, answer: Answer, token: int | None, where: str = "response"
    ) -> dict[str, float]:
        """Maps the most probable tokens at the position `token` to log-probabilities in nats."""
        log_probs = read_tokens(answer.lists[token or 0], where) if answer.lists else {}
        if not log_probs:
            raise InputError(f"{where}: {self.no_tokens}.")
        return log_probs

    def first_tokens(self, response: Response, where: str = "response") -> dict[str, float]:
        """Maps the most probable first generated tokens to log-probabilities in nats.

        >>> tops = [{"token": "yes", "logprob": -0.1}, {"token": "no", "logprob": -2.5}]
        >>> response = {"choices": [{"logprobs": {"content": [{"top_logprobs": tops}]}}]}
        >>> RESPONSE_FORMATS["openai"].first_tokens(response)
        {'yes': -0.1, 'no': -2.5}
        """
        return self.tokens_at(self.read_answer(response, where), 0, where)

    def prompt_tokens(self, response: Response, where: str = "response") -> PromptTokens:
        """Reads the tokens of a response's prompt."""
        assert self.read_prompt, f"{self.scorer} scores no prompts"
        return self.read_prompt(response, where)


# OpenAI's responses: chat, completions, completions that echo prompts; Ollama, Gemini


def _read_entries(entries: Sequence[object]) -> Answer:
    """Reads tokens and their lists in the format of most servers."""
    tokens, lists = [], []
    for entry in entries:
        tokens.append(text_at(entry, "content") or text_at(entry, "token"))
        # A million answers have twenty million of these members.
        top = [token if isinstance(token, dict) else {} for token in list_at(entry, "top_logprobs")]
        lists.append([(token.get("token"), token.get("logprob")) for token in top])
    return Answer("", tokens, lists)


def _openai_answer(response: Response, where: str) -> Answer:
    """Reads the tokens of a chat, of a completion, of the Responses API, or of vLLM offline."""
    if "outputs" in response and "choices" not in response:
        return _found_answer(value_at(response, "outputs", 0, "logprobs"))
    if isinstance(response.get("output"), list):  # the Responses API: messages with parts
        messages = list_at(response, "output")
        parts = chain.from_iterable(list_at(message, "content") for message in messages)
        return _read_entries([*chain.from_iterable(list_at(part, "logprobs") for part in parts)])
    log_probs = _openai_log_probs(response, where)
    is_chat = log_probs.get("content") is not None
    if not is_chat and value_at(response, "choices", 1) is not None:
        expected = "the answer to one prompt"
        raise InputError.at(where, expected, "several choices", "send each prompt alone, with n=1")
    lists, start = list_at(log_probs, "top_logprobs"), _first_generated(response, log_probs)
    if is_chat or not lists:
        return _read_entries(list_at(log_probs, "content"))
    tokens = [text_at(log_probs, "tokens", i) for i in range(start, len(lists))]
    return Answer("", tokens, [list(object_at(top).items()) for top in lists[start:]])


def _found_answer(node: object) -> Answer:
    """Finds the tokens of an answer in a part of a response, by their shape."""
    return next(find_answers(node), Answer("", [], []))


def _is_echoed(response: Response) -> bool:
    """Checks whether a response has log-probabilities of its prompt: the first one is null."""
    log_probs = list_at(response, "choices", 0, "logprobs", "token_logprobs")
    return len(log_probs) > 1 and log_probs[0] is None


def _openai_prompt(response: Response, where: str) -> PromptTokens:
    """Reads the prompt of a completion that echoes it."""
    listed = _openai_log_probs(response, where)
    tokens, log_probs = list_at(listed, "tokens"), list_at(listed, "token_logprobs")
    if not tokens or len(tokens) != len(log_probs):
        expected = "as many tokens as token_logprobs"
        raise InputError.at(where, expected, remedy="ask with echo=true, logprobs=1")
    text, joined = text_at(response, "choices", 0, "text"), "".join(map(str, tokens))
    if joined and text != joined and text.startswith(joined):
        # llama-cpp-python answers like this for models without a beginning token.
        expected = "a text as long as its tokens, each with its own log-probability"
        remedy = "use first-token lists (logprobs without echo) with this server"
        raise InputError.at(where, expected, "a longer one", remedy)
    end = _first_generated(response, listed)
    if not all(isinstance(token, str) for token in tokens) or end < 1:
        remedy = "ask with echo=true, if supported"
        raise InputError.at(where, "the prompt's tokens", "only the answer's", remedy)
    return PromptTokens(tuple(map(str, tokens[:end])), _log_probs(log_probs[:end], where))


def _openai_log_probs(response: Response, where: str) -> Mapping[str, object]:
    """Returns the log-probabilities of the first choice."""
    if not isinstance(value_at(response, "choices", 0), Mapping):
        raise InputError.at(where, "a response with choices", "none")
    log_probs = value_at(response, "choices", 0, "logprobs")
    if not isinstance(log_probs, Mapping):
        kind = "null" if log_probs is None else "no object"
        raise InputError(f"{where}: its logprobs are {kind}; {ASK}, for a model that gives them.")
    return log_probs


def _first_generated(response: Response, log_probs: Mapping[str, object]) -> int:
    """Returns the index of the first generated token; tokens of the prompt may precede it."""
    listed = list_at(log_probs, "token_logprobs")
    if not listed or listed[0] is not None:
        return 0
    new = value_at(response, "usage", "completion_tokens")
    # Without the server's count of new tokens, all tokens count as the prompt's.
    return len(listed) - new if isinstance(new, int) and 0 <= new <= len(listed) else len(listed)


# vLLM: the prompt's log-probabilities (`prompt_logprobs`)


def _vllm_prompt(response: Response, where: str) -> PromptTokens:
    """Reads the prompt from lists of the most probable tokens at each of its positions.

    Each list includes the prompt's own token. The token ids identify it (return_token_ids=true), or
    it is the only token in the list (prompt_logprobs=0).
    """
    choice = value_at(response, "choices", 0)  # Offline, vLLM writes no choices.
    listed = value_at(choice, "prompt_logprobs") or value_at(response, "prompt_logprobs") or None
    ids = value_at(choice, "prompt_token_ids") or value_at(response, "prompt_token_ids")
    if not isinstance(listed, list):
        remedy = "ask a vLLM server with prompt_logprobs=0"
        raise InputError.at(where, "a list in prompt_logprobs", shown(listed), remedy)
    tokens, log_probs = [], []
    for i, candidates in enumerate(listed):
        token = value_at(candidates, str(value_at(ids, i)))
        if candidates is None:  # The first token has no log-probability.
            token = {"decoded_token": ""}
        elif token is None and isinstance(candidates, Mapping) and len(candidates) == 1:
            (token,) = candidates.values()
        if token is None:
            remedy = "ask with prompt_logprobs=0 or return_token_ids=true"
            expected = f"the prompt's token at position {i} of its prompt_logprobs"
            raise InputError.at(where, expected, shown(candidates), remedy)
        text = value_at(token, "decoded_token")
        if not isinstance(text, str):
            expected = f"a decoded_token at position {i} of its prompt_logprobs"
            raise InputError.at(where, expected, shown(text), "request it")
        tokens.append(text)
        log_probs.append(read_log_prob(value_at(token, "logprob"), where))
    return PromptTokens(tuple(tokens), tuple(log_probs))


SGLANG_LISTS = ("output_top_logprobs", "output_token_ids_logprobs")
"""Lists at each generated position: the most probable tokens, and tokens with requested ids."""

# SGLang: `/generate` with return_logprob; `label_probs` reads `/v1/score`


def _sglang_answer(response: Response, where: str) -> Answer:
    """Reads tokens and their lists without duplicate ids; a token without text is "token_id:7"."""
    answer, meta = Answer("", [], []), response.get("meta_info")
    for i, parts in enumerate(zip_longest(*(list_at(meta, name) for name in SGLANG_LISTS))):
        listed = dict[int, tuple[object, object]]()
        for triple in chain.from_iterable(map(list_at, parts)):
            log_prob, token_id, text = (value_at(triple, j) for j in range(3))
            if not isinstance(token_id, int):
                raise InputError.at(where, "[log-prob, token id, text]", shown(triple))
            text = f"token_id:{token_id}" if text is None else text
            listed.setdefault(token_id, (text, log_prob))
        answer.tokens.append(text_at(meta, "output_token_logprobs", i, 2))
        answer.lists.append(list(listed.values()))
    return answer


def _sglang_prompt(response: Response, where: str) -> PromptTokens:
    """Reads the prompt of a response of `/generate`."""
    triples = list_at(response, "meta_info", "input_token_logprobs")
    if not triples:
        remedy = "ask /generate with return_logprob, return_text_in_logprobs, logprob_start_len=0"
        raise InputError.at(where, "input_token_logprobs in its meta_info", "none", remedy)
    texts = [value_at(triple, 2) for triple in triples]
    if not all(isinstance(text, str) for text in texts):
        remedy = "ask with return_text_in_logprobs=true"
        raise InputError.at(where, "texts in its input_token_logprobs", "none", remedy)
    log_probs = [value_at(triple, 0) for triple in triples]
    return PromptTokens(tuple(map(str, texts)), _log_probs(log_probs, where))


def _log_probs(numbers: Sequence[object], where: str) -> tuple[float, ...]:
    """Reads the log-probabilities of tokens."""
    return tuple(read_log_prob(number, where) for number in numbers)


# llama.cpp: `/completion` with n_probs


def _llama_cpp_answer(response: Response, where: str) -> Answer:
    """Reads the tokens: {tok_str, prob} until December 2024, {token, logprob} later."""
    entries = list_at(response, "completion_probabilities") or list_at(response, "probs")
    if value_at(entries, 0, "top_probs"):
        expected = "probabilities before the sampling settings"
        raise InputError.at(where, expected, "top_probs", "ask with post_sampling_probs=false")
    answer = _read_entries(entries)
    for entry, listed in zip(entries, answer.lists, strict=True):
        for token in [] if listed else list_at(entry, "probs"):
            prob = read_number(value_at(token, "prob"), where)
            if not 0 <= prob <= 1:
                raise InputError.at(where, "a probability from 0 to 1", shown(prob))
            # `math.log(0)` raises an error.
            listed.append((value_at(token, "tok_str"), math.log(prob) if prob else -math.inf))
    return answer


NO_PROBS = "it has no completion_probabilities; ask /completion with n_probs=20 and n_predict=1"
NO_TOPS = "it has no logprobsResult.topCandidates; ask with responseLogprobs=true, logprobs=20"
RESPONSE_FORMATS = {
    "openai": ResponseFormat(
        "OpenAI-style responses", _openai_answer, NO_LIST, _is_echoed, _openai_prompt
    ),
    "vllm": ResponseFormat(
        "vLLM, prompt_logprobs", _openai_answer, NO_LIST,
        lambda response: "outputs" not in response or bool(response.get("prompt_logprobs")),
        _vllm_prompt,
    ),
    "sglang": ResponseFormat(
        "SGLang", _sglang_answer,
        "its meta_info has no output_top_logprobs and no output_token_ids_logprobs; ask /generate "
        "with return_logprob=true, top_logprobs_num=20 and max_new_tokens=1 "
        "(input_token_ids_logprobs belong to positions of the prompt, not of the answer)",
        lambda response: not any(list_at(response, "meta_info", name) for name in SGLANG_LISTS),
        _sglang_prompt,
    ),
    "llama.cpp": ResponseFormat("llama.cpp server", _llama_cpp_answer, NO_PROBS),
    "ollama": ResponseFormat(
        "Ollama", lambda response, _: _read_entries(list_at(response, "logprobs")),
        "it has no list of the most probable tokens; ask with logprobs=true, top_logprobs=20",
    ),
    "gemini": ResponseFormat(
        "Gemini",
        lambda response, _: _found_answer(value_at(response, "candidates", 0)),
        NO_TOPS,
    ),
}  # fmt: skip
"""Kind of server -> the format of its responses."""
