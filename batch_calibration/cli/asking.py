"""The command `ask`: label scores of a file of prompts from an API, without a study."""

import csv
import io
from argparse import Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from batch_calibration.cli import options, study_options, summaries
from batch_calibration.cli.progress import Waiting
from batch_calibration.errors import InputError, shown
from batch_calibration.files import write_whole
from batch_calibration.importers.text_files import json_rows, read_cells
from batch_calibration.scoring.api.scorer import ApiScorer
from batch_calibration.settings import Settings

PROMPTS = ("prompt", "text", "input", "question")
"""Columns of which the first that a file has holds the prompts."""
GOLD = ("label", "gold", "answer")
"""Columns of which the first that a file has holds the right labels."""
ASKED = ("id", "prompt", "model", "api_scores")
"""Columns of the output that tell what was asked."""
DEFAULT_WAY = "chat"


class Prompt(NamedTuple):
    """A row to ask about: its id, its text, and the right label, "" where it is unknown."""

    id: str
    text: str
    gold: str


def ask_server(args: Namespace) -> None:
    """Ask an API about each prompt that the output does not hold, and write the scores."""
    path, path_written, labels = _check_flags(args)
    prompts, gold_name = read_prompts(path, args.prompt, args.ids, args.gold)
    taken = {name for name in (*ASKED, gold_name) if name in labels}
    if taken:
        raise InputError.at(
            "--labels", "no column of the output", shown(sorted(taken)), "rename these"
        )
    scorer = ApiScorer(_settings(args).api, args.model, answers=_answers_path(path_written))
    request_facts = {"model": args.model, "api_scores": scorer.settings.api_scores}
    stored = read_output(path_written, labels, request_facts)
    lacking = [prompt for prompt in prompts if (prompt.id, prompt.text) not in stored]
    if len(lacking) < len(prompts):
        print(f"{len(prompts) - len(lacking):,} of {len(prompts):,} prompts are in {path_written}.")
    if lacking:
        stored |= _score(scorer, lacking, labels)
    write_scores(path_written, prompts, stored, labels, request_facts, gold_name)
    for name in ("", "-wal", "-shm"):  # what SQLite keeps beside its file
        Path(f"{_answers_path(path_written)}{name}").unlink(missing_ok=True)
    summaries.say_notes(scorer.notes)
    empty = [prompt.id for prompt in prompts if not any(stored[prompt.id, prompt.text])]
    hint = ""
    if empty:
        print(f"{len(empty):,} of {len(prompts):,} rows have no scores: {shown(empty)}.")
        hint = " --missing=drop"  # leaves these rows out
    print(f"scores: {path_written}")
    print(f"next: batch-calibration diagnose {path_written}{hint}")


def _check_flags(args: Namespace) -> tuple[Path, Path, list[str]]:
    """The file of prompts, the output and the labels."""
    if len(args.files) != 1:
        raise InputError.at("ask", "one file of prompts", len(args.files))
    if Path(args.output).suffix != ".csv":
        raise InputError.at(
            "--output", "a .csv file for the scores", repr(args.output), "say --output=scores.csv"
        )
    labels = list(options.split_names(args.labels))
    if len(set(labels)) < max(2, len(labels)):
        raise InputError.at(
            "--labels", "two or more different labels", repr(args.labels), "say --labels=yes,no"
        )
    return Path(args.files[0]), Path(args.output), labels


def _settings(args: Namespace) -> Settings:
    texts = study_options.given_keys(args, ("api",))
    settings = {name: study_options.read_value(name, text) for name, text in texts.items()}
    return Settings.of(**{"api_scores": DEFAULT_WAY, **settings})


def _answers_path(scores_path: Path) -> Path:
    """The file that keeps answers until the output is written."""
    return scores_path.with_name(f"{scores_path.name}.answers.sqlite")


def _score(
    scorer: ApiScorer, prompts: Sequence[Prompt], labels: Sequence[str]
) -> dict[tuple[str, str], list[str]]:
    """The cells of each prompt's scores; empty ones where the server refuses the prompt."""
    texts = [prompt.text for prompt in prompts]
    # Labels go on after the prompt, with a space; of replies the space is no matter.
    forms = [f" {label}" for label in labels]
    estimate = scorer.estimate(texts, forms)
    dollars = estimate.tokens / 1e6 * scorer.settings.price  # the price is for a million tokens
    cost = estimate._replace(dollars=dollars, interrupted=scorer.count_interrupted())
    per_prompt = scorer.requests_per_row(forms)
    unit = "request" if per_prompt == 1 else "requests"
    print(f"{scorer.settings.server} will be asked {len(texts):,} prompts x {per_prompt} {unit}: "
          + str(cost), flush=True)  # fmt: skip
    scorer.notify = lambda sentence: summaries.say_notes([sentence])
    with Waiting("asking", len(texts)) as waiting:
        answer = scorer.score(texts, forms, progress=waiting.update)
    cells = {}
    for prompt, scores in zip(prompts, answer.log_probs, strict=True):
        # Nine digits hold a float32 exactly.
        numbers = ["" if np.isnan(score) else f"{score:.9g}" for score in scores]
        cells[prompt.id, prompt.text] = numbers
    return cells


def read_prompts(path: Path, prompt: str, ids: str, gold: str) -> tuple[list[Prompt], str]:
    """The prompts of a CSV, TSV or JSON Lines file, and the name of the column of right labels.

    Args:
        path: the file.
        prompt: the column of prompts, "" for the first of `PROMPTS`.
        ids: that of ids, "" for "id", or else the rows are numbered from 0.
        gold: that of right labels, "" for the first of `GOLD`, or else none.

    Raises:
        InputError: no such file or column, an empty prompt, an id twice.
    """
    names, rows = _read_rows(path)
    if not rows:
        raise InputError.at(path, "a row for each prompt", "none")
    for column in filter(None, (prompt, ids, gold)):
        if column not in names:
            raise InputError.unknown("column", column, names)
    prompt = prompt or next((name for name in PROMPTS if name in names), "")
    if not prompt:
        raise InputError.at(
            path, f"one of {', '.join(PROMPTS)}", shown(names), "name the column by --prompt"
        )
    ids = ids or ("id" if "id" in names else "")
    gold = gold or next((name for name in GOLD if name in names), "")
    prompts, seen = [], set[str]()
    for number, row in enumerate(rows):
        row_prompt = Prompt(
            row[ids] if ids else str(number), row[prompt], row[gold] if gold else ""
        )
        where = f"{path}, row {number + 1}"
        if not row_prompt.text.strip():
            raise InputError.at(where, "a prompt", "none", "fill or drop it")
        if row_prompt.id in seen:
            raise InputError.at(
                where, "an id of its own", f"{row_prompt.id!r} again", "name another by --ids"
            )
        seen.add(row_prompt.id)
        prompts.append(row_prompt)
    return prompts, gold


def _read_rows(path: Path) -> tuple[list[str], list[dict[str, str]]]:
    """The names of a file's columns, and its rows as texts."""
    if path.suffix.lower() in (".jsonl", ".json", ".ndjson"):
        rows, empty = [], dict[str, str]()  # `empty` has all names, in order
        for _, document in json_rows(path):
            rows.append({key: "" if cell is None else str(cell) for key, cell in document.items()})
            empty |= dict.fromkeys(document, "")
        return list(empty), [empty | row for row in rows]
    names, cells = read_cells(path)
    return names, [dict(zip(names, row, strict=True)) for row in cells]


def read_output(
    scores_path: Path, labels: Sequence[str], request_facts: Mapping[str, str]
) -> dict[tuple[str, str], list[str]]:
    """The cells of scores in an earlier output, by id and prompt; none where there is no output.

    Raises:
        InputError: it is of another model, way of asking or other labels.
    """
    if not scores_path.exists():
        return {}
    names, rows = _read_rows(scores_path)
    expected = {*ASKED, *labels}
    differing = [name for name in expected if name not in names]
    for name, expected_fact in request_facts.items():
        if not differing and any(row[name] != expected_fact for row in rows):
            differing.append(name)
    if differing:
        raise InputError.at(
            scores_path,
            f"scores of {', '.join(labels)} by {', '.join(request_facts.values())}",
            f"another {', '.join(sorted(differing))}",
            "name another --output, or move this file away",
        )
    stored = {}
    for row in rows:
        stored[row["id"], row["prompt"]] = [row[label] for label in labels]
    return stored


def write_scores(
    scores_path: Path,
    prompts: Sequence[Prompt],
    scores: Mapping[tuple[str, str], Sequence[str]],
    labels: Sequence[str],
    request_facts: Mapping[str, str],
    gold_name: str,
) -> None:
    """Write a row for each prompt, whole or not at all."""
    text = io.StringIO()
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow([*ASKED, *labels, *([gold_name] if gold_name else [])])
    for prompt in prompts:
        right = [prompt.gold] if gold_name else []
        cells = scores[prompt.id, prompt.text]
        lines.writerow([prompt.id, prompt.text, *request_facts.values(), *cells, *right])
    write_whole(scores_path, text.getvalue().encode())
