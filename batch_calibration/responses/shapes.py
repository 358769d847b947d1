"""Finds candidates with their numbers at any depth of a parsed value, by their shape alone.

Candidates are texts with a number each: a list of {token, logprob}, a map from ids to
{decoded_token, logprob}, or a map from labels to numbers. An answer has candidates at each token.
"""

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple
from warnings import catch_warnings, simplefilter

import numpy as np

from batch_calibration.files import object_at, parse_json, text_at
from batch_calibration.responses.top_k import plain_text

Pair = tuple[Any, Any]  # a text and its number; None in place of a missing one
TEXTS = ("token", "decodedtoken", "label", "name", "text", "value", "tokstr")
NUMBERS = ("logprob", "logprobability", "score", "confidence", "probability", "prob")
"""Keys of a candidate's text and number, in small letters without signs; the first one counts."""
MAX_LITERAL = 1_000_000  # letters of a Python literal, beyond which a cell stays a text
MAX_DEPTH = 40  # levels of lists and dicts that are searched


class Answer(NamedTuple):
    """The tokens of an answer ("" if unknown), and the candidates at each."""

    path: str  # keys that lead to it, joined by dots
    tokens: list[str]
    lists: list[list[Pair]]


def find_answers(
    node: object, path: str = "", above: object = None, depth: int = 0
) -> Iterator[Answer]:
    """Yields the answers in a value, then those inside of answers."""
    pairs = candidates_of(node)
    members = node if isinstance(node, list) and depth < MAX_DEPTH else []
    lists = list(map(_inner_candidates, members))
    if pairs:
        yield Answer(path, [""], [pairs])
    elif any(lists):
        yield Answer(path, _written_tokens(members, lists, above), lists)
    for member in members if not pairs else ():
        yield from find_answers(member, f"{path}.*" if any(lists) else path, node, depth + 1)
    for key, member in node.items() if isinstance(node, dict) and depth < MAX_DEPTH else ():
        yield from find_answers(member, f"{path}.{key}".lstrip("."), node, depth + 1)


def candidates_of(node: object) -> list[Pair]:
    """Returns the texts and numbers of candidates, or [] for another value.

    >>> candidates_of([{"name": "yes", "confidence": 0.9}, {"name": "no", "confidence": 0.1}])
    [('yes', 0.9), ('no', 0.1)]
    >>> candidates_of({"7": {"decoded_token": "yes", "logprob": -0.5}}), candidates_of([{"n": 2}])
    ([('yes', -0.5)], [])
    """
    pairs = list[Pair]()
    if isinstance(node, dict):
        # Arrow gives each row the keys of all rows.
        node = {key: member for key, member in node.items() if member is not None}
        if all(map(_is_number, node.values())):
            # Whole numbers are counts or ids.
            are_scores = any(number % 1 or number < 0 for number in node.values())
            return list(node.items()) if are_scores else []
        for key, member in node.items():
            text, number = _candidate(member)
            name = f"token_id:{key}" if "decoded_token" in object_at(member) else key
            pairs.append((name if text is None else text, number))
    elif isinstance(node, list) and not any(map(_inner_candidates, node)):
        pairs = list(map(_candidate, node))
    return [] if any(None in pair for pair in pairs) else pairs


def _inner_candidates(member: object) -> list[Pair]:
    """Returns candidates that are a member, or one of its values; [] without any."""
    values = member.values() if isinstance(member, dict) else ()
    return candidates_of(member) or max(map(candidates_of, values), key=len, default=[])


def _is_number(number: object) -> bool:
    return isinstance(number, int | float) and not isinstance(number, bool)


def _candidate(member: object) -> Pair:
    """Returns the text and the number of a candidate; null, a missing number, becomes NaN."""
    if isinstance(member, list) and len(member) == 2:  # [text, number]
        member = {"text": member[0], "score": member[1]}
    if not isinstance(member, dict):
        return None, None
    named = {re.sub(r"[\W_]", "", str(key)).lower(): cell for key, cell in member.items()}
    texts = {key: cell for key, cell in named.items() if isinstance(cell, str)}
    numbers = {key: cell for key, cell in named.items() if _is_number(cell) and key not in TEXTS}
    text, number = _first_named(texts, TEXTS), _first_named(numbers, NUMBERS)
    if text is None and len(texts) == 1:
        (text,) = texts.values()
    reals = [cell for cell in numbers.values() if isinstance(cell, float)]
    if number is None and text is not None and len(reals) == 1:
        (number,) = reals
    is_null = number is None and any(named.get(key, 0) is None for key in NUMBERS)
    return text, np.nan if is_null else number


def _first_named(cells: Mapping[str, Any], names: Sequence[str]) -> Any:
    return next((cells[name] for name in names if name in cells), None)


def _written_tokens(members: list[Any], lists: list[list[Pair]], above: object) -> list[str]:
    """Returns the tokens that were written at the positions of an answer.

    They stand in its members, in a list beside it, or in a text beside it; otherwise the most
    probable tokens were written.
    """
    beside = list(above.values()) if isinstance(above, dict) else []
    for entries in [members, *beside]:
        if isinstance(entries, list) and len(entries) == len(members):
            texts = list(map(_own_text, entries))
            if None in texts:  # ids, as vLLM lists them
                ids = map(str, entries)
                texts = [text_at(member, next(ids), "decoded_token") for member in members]
            if all(texts):
                return list(map(str, texts))
    known = [cell for cell in beside if isinstance(cell, str)]
    followed = [_follow(text, lists) for text in [*known, ""]]
    return next(tokens for tokens in followed if tokens)


def _follow(text: str, lists: list[list[Pair]]) -> list[str]:
    """Returns the candidates that make a text, and the most probable ones behind its end."""
    tokens, rest = list[str](), text.lstrip()
    for pairs in lists:
        forms = {plain_text(str(token)): str(token) for token, _ in pairs}
        fitting = [form for form in forms if rest.startswith(form if tokens else form.lstrip())]
        token = max(pairs, key=lambda pair: pair[1], default=("", 0))[0]
        if rest and pairs:
            form = max(fitting, key=len, default="")
            token, rest = forms.get(form), rest[len(form if tokens else form.lstrip()) :]
        if token is None:
            return []
        tokens.append(str(token))
    return [] if rest else tokens


def _own_text(entry: object) -> str | None:
    """Returns the text of a token: the entry, one of its values, or that of an entry inside."""
    if isinstance(entry, dict):
        inner = [member for member in entry.values() if isinstance(member, dict)]
        texts = [_candidate(member)[0] for member in [entry, *inner]]
        return next((text for text in texts if text is not None), None)
    return entry if isinstance(entry, str) else None


# Cells of a table


def unpack(cell: object) -> object:
    """Returns a cell as plain lists and dicts, whether it is a text, a map, an array or an object.

    >>> unpack("[Token(text='yes', nats=-0.5)]"), unpack([("yes", -0.5)]), unpack("[0.5 0.25]")
    ([{'text': 'yes', 'nats': -0.5}], {'yes': -0.5}, [0.5, 0.25])
    """
    return _plain(_parsed(cell) if isinstance(cell, str) else cell)


def _parsed(text: str) -> object:
    """Returns the value of a text in JSON, in Python, or of numpy; other texts stay as they are."""
    if text[:1] not in ("[", "{", "("):
        return text
    with suppress(ValueError):
        return parse_json(text)
    if re.fullmatch(r"\[[-+\d.e\s]+\]", text):
        with suppress(ValueError):
            return list(map(float, text[1:-1].split()))
    # A text that is no literal, or a hostile one, such as thousands of brackets.
    with suppress(ValueError, SyntaxError, MemoryError, RecursionError), catch_warnings():
        simplefilter("ignore")
        if len(text) <= MAX_LITERAL:
            return ast.literal_eval(_Plainer().visit(ast.parse(text, mode="eval")))
    return text


class _Plainer(ast.NodeTransformer):
    """Replaces calls in a repr: `Logprob(logprob=-0.5)` by a dict, `float64(0.5)` by the number."""

    def visit_Call(self, node: ast.Call) -> Any:
        """Returns a dict of the keywords, or the only argument."""
        if node.args:
            return self.visit(node.args[0])
        keys: list[ast.expr | None] = [ast.Constant(keyword.arg) for keyword in node.keywords]
        return ast.Dict(keys, [self.visit(keyword.value) for keyword in node.keywords])

    def visit_Name(self, node: ast.Name) -> ast.AST:
        """Returns the number of `nan` and `inf`."""
        return ast.Constant(float(node.id)) if node.id in ("nan", "inf") else node


def _plain(cell: object, depth: int = 0) -> object:
    """Returns nested values as lists and dicts of plain numbers and texts."""
    if depth > MAX_DEPTH:
        return None
    if isinstance(cell, np.ndarray | np.generic):
        cell = cell.tolist()
    if isinstance(cell, list | tuple):
        if cell and all(isinstance(pair, tuple) and len(pair) == 2 for pair in cell):
            cell = dict(cell)  # as pyarrow gives maps
        else:
            return [_plain(member, depth + 1) for member in cell]
    if fields := getattr(cell, "__dict__", None):  # an object of a server's Python library
        cell = fields
    if isinstance(cell, Mapping):
        return {str(key): _plain(member, depth + 1) for key, member in cell.items()}
    return cell
