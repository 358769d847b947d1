"""Damages JSON values at random, for the fuzz and for what reads answers of servers."""

import copy
import json

DEEP, LONG, HALF = "@deep@", "@long@", "@half@"
"""Stand for a list of many levels, a number of many digits, half a surrogate pair."""
VALUES = json.loads(
    "[null, true, false, 0, -1, 1, 3, 1.5, -0.0, 1099511627776, -1180591620717411303424, Infinity,"
    'NaN, "", "x", "\\u0000", "../x", "é✓", [], [[]], ["x"], [1, 2], {}, {"x": 1}, {"test": []}]'
)
VALUES += [DEEP, LONG, HALF]


def other(chance, value):
    """A JSON value of which one to three parts are replaced, left out or doubled."""
    value = copy.deepcopy(value)
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        holder, key = value, _key(chance, value)
        while key is not None and _key(chance, holder[key]) is not None and chance.random() < 0.7:
            holder, key = holder[key], _key(chance, holder[key])
        if key is None:
            return chance.choice(VALUES)
        how = chance.random()
        if how < 0.7:
            similar = [candidate for candidate in VALUES if type(candidate) is type(holder[key])]
            choices = similar if similar and chance.random() < 0.5 else VALUES
            holder[key] = copy.deepcopy(chance.choice(choices))
        elif how < 0.85:
            del holder[key]
        elif isinstance(holder, list):
            holder.insert(key, copy.deepcopy(holder[key]))
        else:
            holder[chance.choice(("x", "", "test", "../x"))] = holder.pop(key)
    return value


def maybe(chance, value):
    """A JSON value, or more often one that is damaged by `other`."""
    return other(chance, value) if chance.random() < 0.6 else value


def _key(chance, value):
    """A key of a dict, or a place in a list; None where there is none."""
    keys = value if isinstance(value, dict) else range(len(value) if isinstance(value, list) else 0)
    return chance.choice(list(keys)) if keys else None


def as_text(value):
    """JSON, with what JSON's own writer cannot make put in."""
    text = json.dumps(value)
    for mark, piece in ((DEEP, "[" * 9999 + "]" * 9999), (LONG, "9" * 5000), (HALF, '"\\ud800"')):
        text = text.replace(json.dumps(mark), piece)
    return text
