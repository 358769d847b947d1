"""Reads runs of HELM: `scenario_state.json`, with each request and its log-probabilities.

With `multiple_choice_separate_*`, each prompt ends with one choice, and the server echoes it. The
score of a choice is the sum over its tokens. Scores of "calibration" requests, which have no
question, become the block "pmi". With `multiple_choice_joint`, the model answers with a letter. The
scores come from its list of the most probable tokens, which HELM stores up to version 0.3.
"""

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from batch_calibration.errors import InputError, shown, spell
from batch_calibration.files import Json, count_at, list_at, object_at, text_at, value_at
from batch_calibration.files.rows import beginning, parse_value, read_text
from batch_calibration.importers import questions
from batch_calibration.importers.base import Imported, Reading
from batch_calibration.responses.servers import read_log_prob

SEPARATE, JOINT = "multiple_choice_separate_", "multiple_choice_joint"
REMEDY = "ask again with the same demonstrations in all prompts."


Rows = dict[tuple[int, str], questions.Row]  # trial and question id -> row


class HelmRequest(NamedTuple):
    """One request of a run.

    Attributes:
        where: Its location in the file, for messages.
        trial: The index of the trial; each trial draws new demonstrations.
        id: The question's id.
        state: The request's object in the file.
    """

    where: str
    trial: int
    id: str
    state: Mapping[str, Json]

    @property
    def key(self) -> tuple[int, str]:
        """The trial and the question's id."""
        return self.trial, self.id

    @property
    def prompt(self) -> str:
        """The text of the request."""
        return str(object_at(self.state, "request").get("prompt", ""))

    def references(self) -> tuple[tuple[str, ...], Json]:
        """Returns the texts of the choices and the indices of right choices."""
        texts, right = [], list[Json]()
        references = list_at(self.state, "instance", "references")
        for i, reference in enumerate(references):
            text = value_at(reference, "output", "text")
            if not isinstance(text, str):
                raise InputError.at(self.where, f"the text of choice {i}", shown(text))
            texts.append(text)
            # If several choices are right, `questions` makes the label unknown.
            if "correct" in list_at(reference, "tags"):
                right.append(i)
        return tuple(texts), right

    def completion(self) -> list[dict[str, Json]]:
        """Returns the tokens of the only completion; raises an error if there are several."""
        completions = list_at(self.state, "result", "completions")
        if len(completions) != 1:
            remedy = "run HELM again if it failed"
            raise InputError.at(self.where, "one completion", len(completions), remedy)
        return list(map(object_at, list_at(completions, 0, "tokens")))

    def row(self, choices: tuple[str, ...], prompt: str, reading: Reading) -> questions.Row:
        """Returns the question as a row without scores."""
        instance = object_at(self.state, "instance")
        # Fields that all instances have take precedence over fields of the data set.
        known_fields = {**object_at(instance, "extra_data"), **instance}
        _, right = self.references()
        target = questions.target_of(known_fields, right, self.where, reading, kind="instance")
        columns = questions.by_columns(known_fields, self.where, reading, kind="instance")
        return questions.Row(self.id, (), choices, target, columns=columns, prompt=prompt)


def recognizes(_: Path, start: bytes) -> bool:
    """Checks whether a file is the state of a run or holds its statistics."""
    return bool(re.match(rb'\s*\{\s*"adapter_spec"\s*:', start) or _is_statistics(start))


def _is_statistics(start: bytes) -> bool:
    return bool(re.match(rb'\s*\[\s*\{\s*"instance_id"\s*:', start)) and b'"stats"' in start


def read(path: Path, reading: Reading) -> list[Imported]:
    """Reads the scores of a run, one context per trial, because trials differ in demonstrations."""
    if _is_statistics(beginning(path)):
        remedy = "name scenario_state.json in the same folder"
        raise InputError.at(path, "scores of choices", "statistics of instances", remedy)
    state = object_at(parse_value(read_text(path), str(path)))
    spec = object_at(state, "adapter_spec")
    method = str(spec.get("method"))
    requests = _requests(list_at(state, "request_states"), str(path))
    if method.startswith(SEPARATE):
        rows = _separate(requests, reading)
    elif method == JOINT:
        rows = _joint(requests, str(path), reading)
    else:
        remedy = f"use {SEPARATE}original, {SEPARATE}calibrated or {JOINT}"
        raise InputError.at(path, "a method that scores choices", shown(method), remedy)
    contexts = []
    for trial in dict.fromkeys(trial for trial, _ in rows):
        context: dict[str, Json] = {
            "task": reading.task or path.parent.name,
            "scorer": "HELM",
            "model": text_at(spec, "model"),
            "shots": count_at(spec, "max_train_instances"),
            "seed": trial,
        }
        trial_rows = [row for key, row in rows.items() if key[0] == trial]
        contexts += questions.import_rows(trial_rows, str(path), reading, context, remedy=REMEDY)
    if not contexts:
        raise InputError.at(path, "requests with results", "none", "run HELM again")
    return contexts


def _requests(states: list[Json], path: str) -> Iterator[HelmRequest]:
    """Yields the requests of a run, except requests of perturbed instances."""
    for i, state in enumerate(map(object_at, states)):
        where, instance = f"{path}, request {i}", object_at(state, "instance")
        trial, name = state.get("train_trial_index", 0), instance.get("id")
        if not isinstance(name, str) or type(trial) is not int:
            raise InputError.at(where, "a request with its instance's id", shown(states[i]))
        if instance.get("perturbation") is None:  # a perturbed copy has typos, for example
            yield HelmRequest(where, trial, name, state)


def _separate(requests: Iterator[HelmRequest], reading: Reading) -> Rows:
    """Returns the rows of questions with a separate request for each choice."""
    first: dict[tuple[int, str], tuple[HelmRequest, str]] = {}  # question -> request, prompt
    # Question -> mode ("original", "calibration") -> choice -> log-probability
    log_probs: dict[tuple[int, str], dict[str, dict[int, float]]] = {}
    for request in requests:
        choices, _ = request.references()
        choice = request.state.get("reference_index")
        if type(choice) is not int or not 0 <= choice < len(choices):
            raise InputError.at(request.where, "the index of a choice", shown(choice))
        # Requests of a run without calibration have no mode.
        mode = str(request.state.get("request_mode") or "original")
        by_choice = log_probs.setdefault(request.key, {}).setdefault(mode, {})
        if choice in by_choice:
            expected = f"choice {choice} of instance {request.id} once"
            raise InputError.at(request.where, expected, "it twice")
        by_choice[choice] = _end_log_prob(request, choices[choice])
        # The prompt without its choice is the same for all choices.
        prompt = request.prompt.removesuffix(choices[choice])
        first.setdefault(request.key, (request, prompt))
    rows = {}
    for key, modes in log_probs.items():
        request, prompt = first[key]
        choices, _ = request.references()
        scores = {}
        for mode, by_choice in modes.items():
            scores[mode] = tuple(by_choice[i] for i in sorted(by_choice))
        if "original" not in scores or {*map(len, scores.values())} != {len(choices)}:
            raise InputError(f"{request.where}: instance {key[1]} lacks the score of a choice.")
        row, alone = request.row(choices, prompt, reading), scores.get("calibration", ())
        rows[key] = replace(row, scores=scores["original"], alone=alone)
    return rows


def _joint(requests: Iterator[HelmRequest], path: str, reading: Reading) -> Rows:
    """Returns the rows of questions that the model answers with a letter."""
    rows: Rows = {}
    lists: list[dict[str, float]] = []
    for request in requests:
        # The mapping is from letters to texts of choices.
        letters = tuple(object_at(request.state, "output_mapping"))
        top = object_at(request.completion(), 0, "top_logprobs")
        if not top:
            remedy = f"use a run of {SEPARATE}original, or score with {spell('scorer', 'api')}"
            expected = "log-probabilities of all letters"
            raise InputError.at(request.where, expected, "only the answered token's", remedy)
        if request.key in rows:
            raise InputError(f"{request.where}: instance {request.id} occurs twice.")
        lists.append({token: _number(log_prob, request.where) for token, log_prob in top.items()})
        rows[request.key] = request.row(letters, request.prompt, reading)
    scored = questions.score_by_first_tokens(list(rows.values()), lists, path, reading)
    return dict(zip(rows, scored, strict=True))


def _end_log_prob(request: HelmRequest, choice: str) -> float:
    """Sums the log-probabilities of the last tokens, which spell the choice."""
    end, total = "", 0.0
    for token in reversed(request.completion()):
        end = str(token.get("text", "")) + end
        total += _number(token.get("logprob"), request.where)
        if end.strip() == choice.strip():
            return total
        if len(end.strip()) > len(choice.strip()):
            break  # the last tokens hold more than the choice
    expected = f"a completion that ends with {shown(choice)}"
    raise InputError.at(request.where, expected, shown(end), "the choice has no score")


def _number(number: Json, where: str) -> float:
    log_prob = read_log_prob(number, where)
    if not math.isfinite(log_prob):
        raise InputError.at(where, "a log-probability", shown(number))
    return log_prob
