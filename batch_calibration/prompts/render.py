"""One context, rendered: every text a model will be asked, before any model is there."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from batch_calibration.data.sources import read
from batch_calibration.data.task_file import load_task
from batch_calibration.errors import InputError
from batch_calibration.prompts import demonstrations, template
from batch_calibration.prompts import length_limit as overlong
from batch_calibration.prompts import probe_inputs as probing
from batch_calibration.prompts.length_limit import TokenBudget
from batch_calibration.prompts.render_images import image_plan
from batch_calibration.prompts.rendered import DEFAULTS, Plan, Request, digest
from batch_calibration.tasks import Row, Rows, Task

SCORERS = ("causal_lm", "dual_encoder")


Render = Callable[[Row, int], str]
"""`(row, skip)` -> its prompt without the first `skip` demonstrations."""


class _Form(NamedTuple):
    """How rows become texts: `fill` renders a row of one field, `input`, the whole input part."""

    fields: tuple[str, ...]
    context: dict[str, Any]
    render: Render
    fill: Render
    labels: list[tuple[str, ...]]


class _Part(NamedTuple):
    """The rows of a block, how they are rendered, and how they were made."""

    rows: Sequence[Row]
    labels: Sequence[int]
    ids: Sequence[str]
    render: Render
    made: Mapping[str, Any] = {}


def plan(settings: Mapping[str, Any], room: TokenBudget | None = None) -> Plan:
    """Render every text of one context: test rows, CC's and DC's probes, the labeled set.

    Args:
        settings: A config with one sweep cell in it: `task` and `seed` beside the config's keys.
        room: The model's positions and tokenizer; only an `over_long` other than `error` asks it.

    Raises:
        InputError: a setting that does not exist or does not fit the task's rows.
    """
    task, seed = load_task(settings["task"]), settings["seed"]
    if settings["scorer"] not in SCORERS:
        raise InputError.unknown("scorer", settings["scorer"], SCORERS)
    if task.is_image:
        return image_plan(settings, task)
    test = read(task, settings["data"], settings["split"], settings["limit"])
    train = read(task, settings["data"], settings["train_split"])
    chosen = _choose(settings, task, train)
    labeled = demonstrations.labeled_set(
        train.labels, len(task.label_names), settings["labeled_per_class"], chosen, seed
    )
    if settings["scorer"] == "causal_lm":
        form = _prompts(settings, task, train, chosen)
    else:
        form = _statements(settings, task)
    label_texts = [text for texts in form.labels for text in texts]

    def request(part: _Part) -> Request:
        fitted = overlong.fit(
            settings["over_long"],
            room,
            lambda row, skip: part.render(part.rows[row], skip),
            len(part.rows),
            len(chosen),
            label_texts,
        )
        # Any change in what is asked makes the block stale.
        spec = {"texts": digest(fitted.texts), **part.made}
        if settings["over_long"] != DEFAULTS["over_long"]:
            spec |= {"dropped": fitted.dropped, "truncated": fitted.truncated}
        return Request(fitted.texts, list(part.labels), list(part.ids), spec)

    parts = {"test": _Part(test.rows, test.labels, test.ids, form.render)}
    parts |= _probes(settings, form, test.rows)
    if labeled:
        parts["labeled"] = _Part(
            [train.rows[i] for i in labeled],
            [train.labels[i] for i in labeled],
            [train.ids[i] for i in labeled],
            form.render,
        )
    forms = tuple(map(len, form.labels))
    options = {k: settings[k] for k, usual in DEFAULTS.items() if settings[k] != usual}
    about = {
        "task": task.name,
        "data": "card" if task.files else Path(settings["data"]).name,
        "rows": digest(f"{row}" for row in test.rows),
        "split": settings["split"],
        "limit": settings["limit"],
        "shots": settings["shots"],
        "seed": seed,
        "demonstrations": [train.ids[i] for i in chosen],
        "labels": label_texts,
        **form.context,
        **({"served": test.split} if test.split != settings["split"] else {}),
        **({"forms": list(forms)} if max(forms) > 1 else {}),
        **({"options": options} if options else {}),
    }
    blocks = {name: request(part) for name, part in parts.items()}
    return Plan(about, task.label_names, label_texts, forms, blocks)


def _probes(settings: Mapping[str, Any], form: _Form, rows: Sequence[Row]) -> dict[str, _Part]:
    """CC's and DC's rows; what differs from the usual way of making them is said in their spec."""
    fill, preset, seed = settings["cc_fill"], settings["dc_preset"], settings["seed"]
    if fill not in probing.FILLS:
        raise InputError.unknown("config.cc_fill", fill, probing.FILLS)
    whole = fill == "whole_input"
    cc = probing.content_free(("input",) if whole else form.fields)
    dc = probing.random_words(rows, form.fields, settings["dc_texts"], seed, preset)
    return {
        "cc": _Part(
            cc,
            [-1] * len(cc),
            [f"cc/{i}" for i in range(len(cc))],
            form.fill if whole else form.render,
            {"fill": fill} if whole else {},
        ),
        "dc": _Part(
            dc,
            [-1] * len(dc),
            [f"dc/{seed}/{i}" for i in range(len(dc))],
            form.render,
            {"preset": preset} if preset != "paper" else {},
        ),
    }


def _choose(settings: Mapping[str, Any], task: Task, train: Rows) -> list[int]:
    """Row numbers of the demonstrations, in the order in which they stand in the context."""
    selection, shots, seed = settings["selection"], settings["shots"], settings["seed"]
    if shots < 0:
        raise InputError(f"config.shots: expected 0 or more shots, got {shots}.")
    if selection == "per_class":
        chosen = demonstrations.per_class(train.labels, task.label_names, shots, seed)
    elif selection == "round_robin":
        chosen = demonstrations.round_robin(train.labels, task.label_names, shots, seed)
    elif selection == "total":
        chosen = demonstrations.total(train.labels, shots, seed)
    elif selection == "explicit":
        wanted = settings["demonstrations"]
        chosen = demonstrations.explicit(train.labels, train.ids, wanted, train.where)
    else:
        raise InputError.unknown("config.selection", selection, demonstrations.SELECTIONS)
    return chosen if settings["order"] == -1 else demonstrations.reorder(chosen, settings["order"])


def _prompts(settings: Mapping[str, Any], task: Task, train: Rows, chosen: list[int]) -> _Form:
    wanted = settings["template"]
    form = wanted if "{" in wanted else task.template(len(chosen), wanted)
    template.check(form, task.fields)
    words = [
        (one,) if isinstance(one, str) else tuple(one)
        for one in task.words_for(len(chosen), settings["verbalizer"])
    ]
    # A demonstration shows the first surface form of its label.
    shown = [template.demonstration(form, train.rows[i], words[train.labels[i]][0]) for i in chosen]
    whole = template.whole_input(form)
    return _Form(
        task.fields,
        {"template": form, "shown": hashlib.sha256("\n\n".join(shown).encode()).hexdigest()},
        lambda row, skip: template.prompt(form, shown[skip:], row),
        lambda row, skip: template.prompt(whole, shown[skip:], row),
        [tuple(template.continuation(form, one) for one in forms) for forms in words],
    )


def _statements(settings: Mapping[str, Any], task: Task) -> _Form:
    if settings["shots"]:
        raise InputError("config.shots: a dual encoder reads no demonstrations; give 0.")
    for key in ("template", "verbalizer", "over_long"):
        if settings[key] != DEFAULTS[key]:
            raise InputError(
                f"config.{key}: a dual encoder compares texts, cut at config.max_tokens, with the "
                f"task's label statements, and knows no {settings[key]!r}; leave it at "
                f"{DEFAULTS[key]!r}."
            )
    return _Form(
        task.statement_fields,
        {"template": task.statement, "shown": ""},
        lambda row, _: "\n".join(row[field] for field in task.statement_fields),
        lambda row, _: row["input"],
        [
            (task.statement.replace("{label}", task.statement_words[name]),)
            for name in task.label_names
        ],
    )
