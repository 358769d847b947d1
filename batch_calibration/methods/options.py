"""Options of methods by name: METHOD.OPTION=VALUE of flags and configs, and what is refused."""

from ast import literal_eval
from collections.abc import Iterable, Mapping, Sequence
from inspect import signature

from batch_calibration.errors import InputError, shown
from batch_calibration.methods.table import Options, get_method
from batch_calibration.methods.validation import check_options

EXAMPLE = "bc_running.batch_size=8"


def read_options(words: Iterable[str]) -> dict[str, dict[str, object]]:
    """Method -> option -> value, of texts METHOD.OPTION=VALUE.

    A text without `=` goes on with the value before it, so that a list that was cut at its commas
    is read as it was written.

    Raises:
        InputError: a text of another form.

    >>> read_options(["bc_running.batch_size=8", "bc.target_prior=0.8", "0.2"])
    {'bc_running': {'batch_size': 8}, 'bc': {'target_prior': (0.8, 0.2)}}
    """
    whole = list[str]()
    for word in words:
        if whole and "=" not in word:
            whole[-1] += f",{word}"
        else:
            whole.append(word)
    found = dict[str, dict[str, object]]()
    for text in whole:
        name, equals, value = text.partition("=")
        method, dot, option = name.strip().partition(".")
        if not (equals and dot and method and option):
            raise InputError(
                where="options", expected="METHOD.OPTION=VALUE", got=shown(text),
                remedy=f"write it as in {EXAMPLE}",
            )  # fmt: skip
        found.setdefault(method, {})[option] = read_value(value)
    return found


def read_value(text: str) -> object:
    """A number, True, False or a tuple of them; any other text is a name.

    >>> read_value("0.5"), read_value("0.8,0.2"), read_value("raw")
    (0.5, (0.8, 0.2), 'raw')
    """
    try:
        return literal_eval(text.strip())
    except (ValueError, SyntaxError):
        return {"true": True, "false": False}.get(text.strip().lower(), text.strip())


def check_chosen(
    options: Mapping[str, Options] | None, methods: Sequence[str], labels: Iterable[int]
) -> dict[str, dict[str, object]]:
    """Options that differ from the defaults, as each method takes them.

    Args:
        options: method -> option -> value.
        methods: those that are run.
        labels: each number of labels they are run on.

    Raises:
        InputError: a method that does not exist or is not run; what `check_options` and the method
            itself refuse; an array, which no record can hold.
    """
    several = set(labels)
    found = dict[str, dict[str, object]]()
    for name, given in (options or {}).items():
        make = get_method(name).make
        if name not in methods:
            raise InputError(
                f"options: {name} has some and is not run; it is among the methods "
                f"{', '.join(methods)} or needs none."
            )
        plain = {option: _plain(name, option, value) for option, value in given.items()}
        for k in several:
            plain = check_options(name, make, plain, k)
        make(**{option: value for option, value in plain.items() if option != "floor"})
        known = signature(make).parameters
        changed = {
            option: value
            for option, value in plain.items()
            if option not in known or value != known[option].default
        }
        if changed:
            found[name] = changed
    return found


def _plain(method: str, option: str, value: object) -> object:
    """A value that a record can hold: a sequence becomes a tuple."""
    if isinstance(value, list | tuple) and all(isinstance(x, int | float) for x in value):
        return tuple(value)
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise InputError(
        f"options: {option} of {method} is {type(value).__name__}, which a record cannot hold: "
        "give a number, a name or a few numbers, or use calibrate on one context."
    )
