"""One context, rendered: every text a model will be asked, before any model is there."""

import hashlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from batch_calibration.prompts import demonstrations, probing, template
from batch_calibration.tasks import Row, Rows, Task, get_task
from batch_calibration.tasks.sources import read
from batch_calibration.typing import InputError

SCORERS = ("causal_lm", "dual_encoder")


class Request(NamedTuple):
    """The texts of one block, before any model is asked."""

    texts: list[str]
    labels: list[int]
    row_ids: list[str]
    spec: dict[str, Any]


class Plan(NamedTuple):
    """One context, rendered: what it is, the label texts, and the texts of each block."""

    context: dict[str, Any]
    label_names: tuple[str, ...]
    label_texts: list[str]
    blocks: dict[str, Request]


def plan(settings: Mapping[str, Any]) -> Plan:
    """Render every text of one context: test rows, CC's and DC's probes, the labeled set.

    `settings` is a config with one sweep cell in it: `task` and `seed` beside the config's keys.
    """
    task, seed, shots = get_task(settings["task"]), settings["seed"], settings["shots"]
    if shots < 0:
        raise InputError(f"config.shots: expected 0 or more shots per class, got {shots}.")
    test = read(task, settings["data"], settings["split"], settings["limit"])
    train = read(task, settings["data"], settings["train_split"])
    chosen = demonstrations.per_class(train.labels, task.label_names, shots, seed)
    labeled = demonstrations.labeled_set(
        train.labels, len(task.label_names), settings["labeled_per_class"], chosen, seed
    )
    if settings["scorer"] not in SCORERS:
        raise InputError.unknown("scorer", settings["scorer"], SCORERS)
    if settings["scorer"] == "causal_lm":
        fields, context, render, label_texts = _prompts(task, train, chosen, shots)
    else:
        if shots:
            raise InputError("config.shots: a dual encoder reads no demonstrations; give 0.")
        fields, context, render, label_texts = _statements(task)
    cc = probing.content_free(fields)
    dc = probing.random_words(test.rows, fields, settings["dc_texts"], seed)

    def request(rows: Iterable[Row], labels: Iterable[int], ids: Iterable[str]) -> Request:
        texts = [render(row) for row in rows]
        # One hash over lengths and texts: any change in what is asked makes the block stale.
        content = hashlib.sha256()
        for text in texts:
            content.update(f"{len(text)}:{text}".encode())
        return Request(texts, list(labels), list(ids), {"texts": content.hexdigest()[:16]})

    blocks = {
        "test": request(test.rows, test.labels, test.ids),
        "cc": request(cc, [-1] * len(cc), [f"cc/{i}" for i in range(len(cc))]),
        "dc": request(dc, [-1] * len(dc), [f"dc/{seed}/{i}" for i in range(len(dc))]),
    }
    if labeled:
        blocks["labeled"] = request(
            [train.rows[i] for i in labeled],
            [train.labels[i] for i in labeled],
            [train.ids[i] for i in labeled],
        )
    about = {
        "task": task.name,
        "split": settings["split"],
        "limit": settings["limit"],
        "shots": shots,
        "seed": seed,
        "demonstrations": [train.ids[i] for i in chosen],
        "labels": label_texts,
        **context,
    }
    return Plan(about, task.label_names, label_texts, blocks)


Rendering = tuple[tuple[str, ...], dict[str, Any], Callable[[Row], str], list[str]]


def _prompts(task: Task, train: Rows, chosen: list[int], shots: int) -> Rendering:
    form = task.template(shots)
    template.check(form, task.fields)
    shown = [
        template.demonstration(form, train.rows[i], task.words[train.labels[i]]) for i in chosen
    ]
    context = {"template": form, "shown": hashlib.sha256("\n\n".join(shown).encode()).hexdigest()}
    label_texts = [template.continuation(form, words) for words in task.words]
    return task.fields, context, lambda row: template.prompt(form, shown, row), label_texts


def _statements(task: Task) -> Rendering:
    fields = task.statement_fields
    label_texts = [
        task.statement.replace("{label}", task.statement_words[name]) for name in task.label_names
    ]
    context = {"template": task.statement, "shown": ""}
    return fields, context, lambda row: "\n".join(row[field] for field in fields), label_texts
