"""Options of methods: reads METHOD.OPTION=VALUE from flags and configs, and checks the values."""

from ast import literal_eval
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from inspect import Parameter, signature

import numpy as np

from batch_calibration.errors import InputError, shown
from batch_calibration.methods.table import Options, get_method
from batch_calibration.methods.validation import check_options

EXAMPLE = "bc_running.batch_size=8"


def read_options(texts: Iterable[str]) -> dict[str, dict[str, object]]:
    """Reads strings METHOD.OPTION=VALUE as a mapping: method -> option -> value.

    A string without `=` continues the value before it, because flags split a list at its commas.

    Raises:
        InputError: a string of another form.

    >>> read_options(["bc_running.batch_size=8", "bc.target_prior=0.8", "0.2"])
    {'bc_running': {'batch_size': 8}, 'bc': {'target_prior': (0.8, 0.2)}}
    """
    assignments = list[str]()
    for text in texts:
        if assignments and "=" not in text:
            assignments[-1] += f",{text}"
        else:
            assignments.append(text)
    options = dict[str, dict[str, object]]()
    for assignment in assignments:
        name, equals, written = assignment.partition("=")
        method, dot, option = name.strip().partition(".")
        if not (equals and dot and method and option):
            remedy = f"write it as in {EXAMPLE}"
            raise InputError.at("options", "METHOD.OPTION=VALUE", shown(assignment), remedy)
        options.setdefault(method, {})[option] = _read_setting(written)
    return options


def _read_setting(text: str) -> object:
    """Reads a number, True, False or a tuple of these; any other string is a name.

    >>> _read_setting("0.5"), _read_setting("0.8,0.2"), _read_setting("raw")
    (0.5, (0.8, 0.2), 'raw')
    """
    try:
        return literal_eval(text.strip())  # reads only literals: no code is run
    except (ValueError, SyntaxError):
        # Python writes True; shells and configs write `true` or TRUE.
        return {"true": True, "false": False}.get(text.strip().lower(), text.strip())


def check_chosen(
    options: Mapping[str, Options] | None, methods: Sequence[str], labels: Iterable[int]
) -> dict[str, dict[str, object]]:
    """Checks options and returns the values that differ from the defaults.

    Args:
        options: method -> option -> value.
        methods: the methods that run.
        labels: the numbers of labels of the tasks.

    Raises:
        InputError: a method that does not exist or does not run; an option that `check_options` or
            the method refuses; an array, which a record cannot hold.
    """
    numbers_of_labels = set(labels)
    changed_options = dict[str, dict[str, object]]()
    for name, chosen in (options or {}).items():
        factory = get_method(name).factory
        if not chosen and name in methods:
            continue
        if name not in methods:
            raise InputError(
                f"options: {name} has options but does not run; the methods are "
                f"{', '.join(methods)}: add it, or remove its options."
            )
        plain = {option: _plain(name, option, setting) for option, setting in chosen.items()}
        # A prior must have the number of labels of every task that the method runs on.
        for k in numbers_of_labels:
            plain = check_options(name, factory, plain, k)
        # The factory checks names and counts; `floor` is not an option of the factory.
        factory(**{option: plain[option] for option in plain if option != "floor"})
        parameters = signature(factory).parameters
        # Defaults are left out, so that records with an explicit default equal those without.
        is_default = {name for name in parameters if plain.get(name) == parameters[name].default}
        changed = {option: plain[option] for option in plain if option not in is_default}
        if changed:
            changed_options[name] = changed
    return changed_options


def with_common(
    options: Mapping[str, Options], methods: Iterable[str], common: Options
) -> dict[str, dict[str, object]]:
    """Adds common options to each method that accepts them; its own options take precedence.

    >>> with_common({"bc": {"strength": 0.5}}, ["icl", "bc"], {"target_prior": (0.8, 0.2)})
    {'bc': {'target_prior': (0.8, 0.2), 'strength': 0.5}}
    """
    filled = dict[str, dict[str, object]]()
    for name in methods:
        parameters = _parameters(get_method(name).factory)
        taken = {option: common[option] for option in common if option in parameters}
        if of_method := {**taken, **options.get(name, {})}:
            filled[name] = of_method
    return filled


@cache
def _parameters(factory: Callable[..., object]) -> Mapping[str, Parameter]:
    return signature(factory).parameters


def counted_shares(counts: object) -> tuple[float, ...]:
    """Estimates shares of labels from their counts [k] by Laplace's rule.

    >>> counted_shares([3, 0])
    (0.8, 0.2)
    """
    # No label may have share 0, because its logarithm is infinite.
    shares = np.asarray(counts, np.float64) + 1.0
    return tuple((shares / shares.sum()).tolist())


def _plain(method: str, option: str, chosen: object) -> object:
    """Converts an option to a value that a record can hold; a sequence becomes a tuple."""
    is_list = isinstance(chosen, list | tuple)
    if is_list and all(isinstance(number, int | float) for number in chosen):  # type: ignore[attr-defined]
        return tuple(chosen)  # type: ignore[arg-type]
    if chosen is None or isinstance(chosen, bool | int | float | str):
        return chosen
    raise InputError(
        f"options: {option} of {method} is {type(chosen).__name__}, which a record cannot hold: "
        "give a number, a name or a few numbers, or use calibrate on one context."
    )
