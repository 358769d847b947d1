"""Runs of HELM: `scenario_state.json`, which holds each request and its log-probabilities.

`multiple_choice_separate_*` asks for each choice in its prompt and echoes it: a choice's score is
the sum over its tokens, and those of "calibration" requests, which lack the question, are the block
"pmi". `multiple_choice_joint` asks for a letter: its score is in the list of likeliest tokens,
which HELM keeps to version 0.3 alone.
"""

import math
import re
from collections.abc import Mapping
from pathlib import Path

from batch_calibration.errors import InputError, shown
from batch_calibration.files import Json, parse_json
from batch_calibration.importers.base import Imported, Reading
from batch_calibration.importers.choices import Row, by_columns, target_of, to_imported
from batch_calibration.importers.first_tokens import scored
from batch_calibration.importers.json_parts import fields, items
from batch_calibration.importers.one_context import KEPT, differing_demonstrations

SEPARATE, JOINT = "multiple_choice_separate_", "multiple_choice_joint"
REMEDY = "ask again with the same demonstrations in all prompts."
Key = tuple[int, str]
"""Trial and instance."""


def recognizes(path: Path, start: bytes) -> bool:
    """Whether a file is the state of a run, or the statistics beside it."""
    del path
    text = start.removeprefix(b"\xef\xbb\xbf")
    return bool(re.match(rb'\s*\{\s*"adapter_spec"\s*:', text) or _is_statistics(text))


def _is_statistics(start: bytes) -> bool:
    return bool(re.match(rb'\s*\[\s*\{\s*"instance_id"\s*:', start)) and b'"stats"' in start


def read(path: Path, reading: Reading) -> list[Imported]:
    """The scores of a run, one context a trial: each trial has demonstrations of its own.

    Raises:
        InputError: no state of a run of multiple choice; no log-probabilities; what `to_imported`
            refuses.
    """
    try:
        data = path.read_bytes()
        text = data.decode("utf-8-sig")
        if _is_statistics(data[:65_536]):
            raise InputError(
                f"{path}: these are statistics of instances, which hold no score of a choice; "
                "name scenario_state.json beside it."
            )
        state = parse_json(text)
    except OSError as error:
        raise InputError(
            where=path, expected=f"a run, which cannot be read ({error.strerror})"
        ) from error
    except UnicodeError as error:
        raise InputError(
            where=path, expected=f"text in UTF-8, which it is not ({error})"
        ) from error
    except ValueError as error:
        raise InputError(f"{path}: no JSON ({str(error)[:200]}); is the file cut short?") from error
    spec = fields(fields(state).get("adapter_spec"))
    requests = items(fields(state).get("request_states"))
    method = str(spec.get("method"))
    if method.startswith(SEPARATE):
        rows, prompts = _separate(requests, str(path), reading)
    elif method == JOINT:
        rows, prompts = _joint(requests, str(path), reading)
    else:
        raise InputError(
            f"{path}: the run's method is {shown(method)}, which scores no choices; take one of "
            f"{SEPARATE}original, {SEPARATE}calibrated and {JOINT}."
        )
    shots = spec.get("max_train_instances")
    shots = shots if type(shots) is int and shots >= 0 else None
    about: dict[str, Json] = {"task": reading.task or path.parent.name, "scorer": "HELM"}
    about |= {"model": spec.get("model")} if isinstance(spec.get("model"), str) else {}
    about |= {"shots": shots} if shots is not None else {}
    found = []
    for trial in dict.fromkeys(trial for trial, _ in rows):
        those = [row for key, row in rows.items() if key[0] == trial]
        note = differing_demonstrations(prompts[trial][:KEPT], shots, REMEDY)
        found += to_imported(
            those, str(path), reading, {**about, "seed": trial}, [note] if note else []
        )
    if not found:
        raise InputError(
            where=path, expected="requests with results", got="none", remedy="run HELM again"
        )
    return found


def _separate(
    requests: list[Json], path: str, reading: Reading
) -> tuple[dict[Key, Row], dict[int, list[str]]]:
    """Questions whose choices were scored one by one."""
    asked: dict[Key, dict[str, dict[int, float]]] = {}
    instances: dict[Key, tuple[dict[str, Json], str]] = {}
    prompts: dict[int, list[str]] = {}
    for i, one in enumerate(requests):
        where = f"{path}, request {i}"
        key, state = _key(one, where)
        if key is None:
            continue
        choices, _ = _references(state, where)
        at = state.get("reference_index")
        if type(at) is not int or not 0 <= at < len(choices):
            raise InputError(where=where, expected="the index of a choice", got=shown(at))
        mode = str(state.get("request_mode") or "original")
        values = asked.setdefault(key, {}).setdefault(mode, {})
        if at in values:
            raise InputError(f"{where}: choice {at} of instance {key[1]} stands there twice.")
        values[at] = _of_reference(_completion(state, where), choices[at], where)
        if key not in instances:
            instances[key] = (state, where)
            prompts.setdefault(key[0], []).append(_prompt(state).removesuffix(choices[at]))
    rows = {}
    for key, modes in asked.items():
        state, where = instances[key]
        choices, right = _references(state, where)
        scores = {mode: [of.get(i) for i in range(len(choices))] for mode, of in modes.items()}
        if any(x is None for of in scores.values() for x in of) or "original" not in scores:
            raise InputError(f"{where}: instance {key[1]} lacks the score of a choice.")
        rows[key] = Row(
            key[1],
            tuple(x for x in scores["original"] if x is not None),
            choices,
            target_of(_known(state), right, where, reading, what="instance"),
            alone=tuple(x for x in scores.get("calibration", []) if x is not None),
            columns=by_columns(_known(state), where, reading, what="instance"),
        )
    return rows, prompts


def _joint(
    requests: list[Json], path: str, reading: Reading
) -> tuple[dict[Key, Row], dict[int, list[str]]]:
    """Questions that were answered by a letter."""
    rows: dict[Key, Row] = {}
    lists: list[dict[str, float]] = []
    prompts: dict[int, list[str]] = {}
    for i, one in enumerate(requests):
        where = f"{path}, request {i}"
        key, state = _key(one, where)
        if key is None:
            continue
        letters = tuple(fields(state.get("output_mapping")))
        tokens = _completion(state, where)
        top = fields(tokens[0].get("top_logprobs")) if tokens else {}
        if not top:
            raise InputError(
                f"{where}: the log holds the log-probability of the answered token alone, not of "
                f"the other letters; take a run of {SEPARATE}original, or ask the model by "
                "--config.scorer=api."
            )
        if key in rows:
            raise InputError(f"{where}: instance {key[1]} stands there twice.")
        lists.append({token: _number(x, where) for token, x in top.items()})
        _, right = _references(state, where)
        gold = target_of(_known(state), right, where, reading, what="instance")
        columns = by_columns(_known(state), where, reading, what="instance")
        rows[key] = Row(key[1], (), letters, gold, columns=columns)
        prompts.setdefault(key[0], []).append(_prompt(state))
    values = scored(list(rows.values()), lists, path, reading) if rows else []
    return dict(zip(rows, values, strict=True)), prompts


def _key(one: Json, where: str) -> tuple[Key | None, dict[str, Json]]:
    """Trial and instance of a request; None for one of a perturbed or a training instance."""
    state = fields(one)
    instance = fields(state.get("instance"))
    trial, name = state.get("train_trial_index", 0), instance.get("id")
    if not isinstance(name, str) or type(trial) is not int:
        raise InputError(where=where, expected="a request with its instance's id", got=shown(one))
    if instance.get("perturbation") is not None:
        return None, state
    return (trial, name), state


def _references(state: Mapping[str, Json], where: str) -> tuple[tuple[str, ...], Json]:
    """The texts of the choices, and which are right."""
    texts, right = [], []
    for i, one in enumerate(items(fields(state.get("instance")).get("references"))):
        text = fields(fields(one).get("output")).get("text")
        if not isinstance(text, str):
            raise InputError(where=where, expected=f"the text of choice {i}", got=shown(text))
        texts.append(text)
        if "correct" in items(fields(one).get("tags")):
            right.append(i)
    return tuple(texts), [*right]


def _completion(state: Mapping[str, Json], where: str) -> list[dict[str, Json]]:
    """The tokens of a request's only completion."""
    completions = items(fields(state.get("result")).get("completions"))
    if len(completions) != 1:
        raise InputError(
            f"{where}: expected one completion, got {len(completions)}; did the request fail?"
        )
    return [fields(one) for one in items(fields(completions[0]).get("tokens"))]


def _of_reference(tokens: list[dict[str, Json]], text: str, where: str) -> float:
    """The sum of the log-probabilities of the last tokens, which spell the choice."""
    end, total, wanted = "", 0.0, text.strip()
    for token in reversed(tokens):
        end = str(token.get("text", "")) + end
        total += _number(token.get("logprob"), where)
        if end.strip() == wanted:
            return total
        if len(end.strip()) > len(wanted):
            break
    raise InputError(
        where=where,
        expected=f"the last tokens of the completion to spell the choice {shown(text)}",
        got=shown(end),
        remedy="its score is not in the log",
    )


def _known(state: Mapping[str, Json]) -> dict[str, Json]:
    """The fields of a request's instance."""
    instance = fields(state.get("instance"))
    return {**fields(instance.get("extra_data")), **instance}


def _prompt(state: Mapping[str, Json]) -> str:
    return str(fields(state.get("request")).get("prompt", ""))


def _number(value: Json, where: str) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value):
        raise InputError(where=where, expected="a log-probability", got=shown(value))
    return float(value)
