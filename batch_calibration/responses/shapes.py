"""Finds candidates with their numbers at any depth of a parsed value, by their shape alone.

Candidates are texts with a number each: a list of {token, logprob}, a map from ids to
{decoded_token, logprob}, or a map from labels to numbers. An answer has candidates at each token.
"""

import ast
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from itertools import chain
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
    node: object, path: str = "", ids: Collection[str] = (), above: object = None, depth: int = 0
) -> Iterator[Answer]:
    """Yields the answers in a value, then those inside of answers.

    Args:
        node: the value.
        path: keys that lead to it.
        ids: names "token_id:7" that replace the texts of tokens.
        above: the value that holds it.
        depth: levels above it.
    """
    pairs = candidates_of(node, ids)
    members = node if isinstance(node, list) and not pairs else []
    lists = [_inner_candidates(member, ids) for member in members]
    if pairs:
        yield Answer(path, [""], [pairs])
    elif any(lists):
        yield Answer(path, _written_tokens(members, lists, above), lists)
        path = f"{path}.*"
    inside = [(path, member) for member in members]
    if isinstance(node, dict):
        inside = [(f"{path}.{key}".lstrip("."), member) for key, member in node.items()]
    for inner_path, member in inside if depth < MAX_DEPTH else ():
        if isinstance(member, list | dict):
            yield from find_answers(member, inner_path, ids, node, depth + 1)


def candidates_of(node: object, ids: Collection[str] = ()) -> list[Pair]:
    """Returns the texts and numbers of candidates, or [] for another value.

    >>> candidates_of([{"name": "yes", "confidence": 0.9}, {"name": "no", "confidence": 0.1}])
    [('yes', 0.9), ('no', 0.1)]
    >>> candidates_of({"7": {"decoded_token": "yes", "logprob": -0.5}}), candidates_of([{"n": 2}])
    ([('yes', -0.5)], [])
    """
    pairs = list[Pair]()
    if isinstance(node, list):
        pairs = list(map(_candidate, node))
        # Tokens with empty lists of candidates are no candidates themselves.
        are_positions = all([] in object_at(member).values() for member in node)
        are_positions |= any(_inner_candidates(member, ids) for member in node)
        are_positions |= None in chain(*pairs)
        return [] if are_positions else pairs
    if not isinstance(node, dict) or None not in _candidate(node):
        return []
    numbers = list(filter(_is_number, node.values()))
    are_numbers = len(numbers) + list(node.values()).count(None) == len(node)
    if are_numbers and not any(number % 1 or number < 0 for number in numbers):
        return []  # counts or ids
    for key, member in node.items():
        name = f"token_id:{key}"
        text, number = (key, np.nan if member is None else member)
        if not are_numbers:
            text, number = _candidate(member)
        if text is None:
            text = name if "decoded_token" in object_at(member) else key
        if are_numbers or member is not None:  # Arrow gives each row the keys of all rows
            pairs.append((name if name in ids else text, number))
    return [] if None in chain(*pairs) else pairs


def _inner_candidates(member: object, ids: Collection[str]) -> list[Pair]:
    """Returns candidates that are a member, or one of its values; [] without any."""
    values = member.values() if isinstance(member, dict) else ()
    inner = [candidates_of(cell, ids) for cell in values if isinstance(cell, list | dict)]
    return candidates_of(member, ids) or max(inner, key=len, default=[])


def _is_number(number: object) -> bool:
    """Checks whether a value of JSON is a number."""
    return isinstance(number, int | float) and not isinstance(number, bool)


def _candidate(member: object) -> Pair:
    """Returns the text and the number of a candidate; null, a missing number, becomes NaN."""
    if isinstance(member, list) and len(member) == 2:  # [text, number]
        member = {"text": member[0], "score": member[1]}
    if not isinstance(member, dict):
        return None, None
    named = {_plain_key(key): cell for key, cell in member.items()}
    texts = {key: cell for key, cell in named.items() if isinstance(cell, str)}
    if not texts and isinstance(named.get("label"), int):
        texts["label"] = str(named["label"])
    numbers = {key: cell for key, cell in named.items() if _is_number(cell) and key not in TEXTS}
    text, number = _first_named(texts, TEXTS), _first_named(numbers, NUMBERS)
    if text is None and len(texts) == 1:
        (text,) = texts.values()
    reals = [cell for cell in numbers.values() if isinstance(cell, float)]
    if number is None and text is not None and len(reals) == 1:
        (number,) = reals
    is_null = number is None and any(named.get(key, 0) is None for key in NUMBERS)
    return text, np.nan if is_null else number


@cache
def _plain_key(key: str) -> str:
    """Returns a key in small letters without signs: `log_prob` and `logProb` are one."""
    return re.sub(r"[\W_]", "", key).lower()


def _first_named(cells: Mapping[str, Any], names: Sequence[str]) -> Any:
    """Returns the cell of the first name that the cells have, or None."""
    return next((cells[name] for name in names if name in cells), None)


def _written_tokens(members: list[Any], lists: list[list[Pair]], above: object) -> list[str]:
    """Returns the tokens that were written at the positions of an answer.

    They are inside its members, in another list of the same length, or in another text. Without
    these, they are the most probable tokens.
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
    """Returns the candidates that form a text, and the most probable ones after its end."""
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
    """Returns the text of a token: the entry, one of its values, or a value of an inner entry."""
    if isinstance(entry, dict):
        inner = [member for member in entry.values() if isinstance(member, dict)]
        texts = [_candidate(member)[0] for member in [entry, *inner]]
        return next((text for text in texts if text is not None), None)
    return entry if isinstance(entry, str) else None


# Cells of a table


def unpack(cell: object) -> object:
    """Converts a cell (a text, a map, an array or an object) to plain lists and dicts.

    >>> unpack("[Token(text='yes', nats=-0.5)]"), unpack([("yes", -0.5)]), unpack("[0.5 0.25]")
    ([{'text': 'yes', 'nats': -0.5}], {'yes': -0.5}, [0.5, 0.25])
    """
    return _plain(_parsed(cell) if isinstance(cell, str) else cell)


def _parsed(text: str) -> object:
    """Parses a text of JSON, Python or numpy; returns any other text unchanged."""
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
        """Returns a dict of the keyword arguments, or the first argument."""
        if node.args:
            return self.visit(node.args[0])
        keys: list[ast.expr | None] = [ast.Constant(keyword.arg) for keyword in node.keywords]
        return ast.Dict(keys, [self.visit(keyword.value) for keyword in node.keywords])

    def visit_Name(self, node: ast.Name) -> ast.AST:
        """Returns the number of `nan` and `inf`."""
        return ast.Constant(float(node.id)) if node.id in ("nan", "inf") else node


def _plain(cell: object, depth: int = 0) -> object:
    """Converts nested values to lists and dicts of plain numbers and texts."""
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
