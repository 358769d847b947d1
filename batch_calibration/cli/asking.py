"""The command `ask`: label scores of a file of prompts from an API, without a study."""

import json
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from batch_calibration.cli import options, study_options, summaries
from batch_calibration.cli.progress import Waiting
from batch_calibration.errors import InputError, refuse_unknown, shown
from batch_calibration.files import Json, write_csv, write_whole
from batch_calibration.files.rows import json_rows
from batch_calibration.importers.cells import gold_indices
from batch_calibration.importers.text_files import read_cells
from batch_calibration.scoring.api.protocols import read_messages
from batch_calibration.scoring.api.scorer import ApiScorer
from batch_calibration.settings import Settings

PROMPTS = ("prompt", "text", "input", "question", "messages")
"""Columns of which the first that a file has holds the prompts."""
GOLD = ("label", "gold", "answer")
"""Columns of which the first that a file has holds the right labels."""
ASKED = ("id", "prompt", "model", "api_scores", "server")
"""Columns of the output that tell what was asked, and by which settings."""
FILLED = "filled_in"
"""Column of the output with the labels that an answer lacks, whose scores are filled in."""
DEFAULT_WAY = "chat"


class Prompt(NamedTuple):
    """A row to ask about: its id, its text, and the right label, "" where it is unknown."""

    id: str
    text: str  # of messages, their JSON
    gold: str = ""


class Scores(NamedTuple):
    """The cells of some rows, and which labels no answer held.

    Attributes:
        cells: of each row, a cell for each label, all empty where it has no answer.
        filled: of each row, the labels whose scores are filled in.
        absent: labels that no answer held.
    """

    cells: list[list[str]]
    filled: list[list[str]]
    absent: list[str]


class Output(NamedTuple):
    """The file of scores.

    Attributes:
        path: where it is.
        labels: its columns of scores.
        facts: what is the same in all rows: the model, the way of asking, the server.
        gold: the name of its column of right labels, "" where it has none.
    """

    path: Path
    labels: list[str]
    facts: tuple[str, str, str]
    gold: str

    def read(self) -> list[Prompt]:
        """The rows of an earlier output; none where there is no output.

        Raises:
            InputError: it is of another model, server, way of asking or other labels.
        """
        if not self.path.exists():
            return []
        names, rows = _read_rows(self.path)
        expected = {*ASKED, *self.labels, *filter(None, [self.gold])}
        differing = sorted(expected.symmetric_difference(names) - {FILLED})
        for name, fact in zip(ASKED[2:], self.facts, strict=True):
            if not differing and any(row[name] != fact for row in rows):
                differing.append(name)
        if differing:
            asked = f"scores of {', '.join(self.labels)} by {', '.join(self.facts)}"
            remedy = "name another --output, or move this file away: the answers next to it stay"
            raise InputError.at(self.path, asked, f"another {', '.join(differing)}", remedy)
        # Columns of a CSV file hold texts.
        columns = ("id", "prompt", *filter(None, [self.gold]))
        return [Prompt(*map(str, map(row.__getitem__, columns))) for row in rows]

    def write(self, prompts: Sequence[Prompt], scored: Scores) -> None:
        """Write a row for each prompt, whole or not at all."""
        has_filled = any(scored.filled) and not scored.absent
        names = [*ASKED, *self.labels, *[FILLED] * has_filled, *filter(None, [self.gold])]
        lines = [names]
        for prompt, cells, filled in zip(prompts, scored.cells, scored.filled, strict=True):
            row = dict(zip(self.labels, cells, strict=True)) | dict.fromkeys(scored.absent, "")
            row |= dict(zip(ASKED, (prompt.id, prompt.text, *self.facts), strict=True))
            row[FILLED] = ", ".join(map(repr, filled))  # in quotes: no number, whatever the label
            row[self.gold] = prompt.gold
            lines.append([row[name] for name in names])
        write_whole(self.path, write_csv(lines, ",").encode())


def ask_server(args: Namespace) -> None:
    """Ask an API about each prompt that has no answer yet, and write all scores.

    The answers stay in a file next to the output, which is made of them: prompts of other files
    that were asked for it stay in it.
    """
    path, path_written, labels = _check_flags(args)
    prompts, gold_name = read_prompts(path, args.prompt, args.ids, args.gold)
    taken = {name for name in (*ASKED, FILLED, gold_name) if name in labels}
    if taken:
        expected = "no column of the output"
        raise InputError.at("--labels", expected, shown(sorted(taken)), "rename these")
    answers = path_written.with_name(f"{path_written.name}.answers.sqlite")
    texts = study_options.given_keys(args, ("api",))
    given = {name: study_options.read_value(name, text) for name, text in texts.items()}
    settings = Settings.of(**{"api_scores": DEFAULT_WAY, **given}).api
    # A dry run makes no file of answers.
    is_kept = answers.exists() or not args.dry_run
    scorer = ApiScorer(settings, args.model, answers=answers if is_kept else None)
    if settings.api_scores != "chat" and any(read_messages(prompt.text) for prompt in prompts):
        raise InputError.at("--api_scores", "chat, for prompts that are messages")
    scorer.notify = lambda sentence: summaries.say_notes([sentence])
    _say_cost(scorer, prompts, labels)
    facts = args.model, settings.api_scores, settings.server
    output = Output(path_written, labels, facts, gold_name)
    earlier = output.read()
    if gold_name:  # what reads the output would refuse them once they are paid for
        gold_indices(f"{path}, {gold_name}", [prompt.gold for prompt in prompts], labels)
    rows = join_rows(prompts, earlier, path, path_written)
    _refuse_unanswered(scorer, rows[len(prompts) :], labels, path_written)
    if args.dry_run:
        print(f"the first prompt, id {prompts[0].id}, answers {shown(labels)}:\n{prompts[0].text}")
        print(f"nothing was sent or written; scores would be in {path_written}")
        return
    is_written = False
    while not is_written:
        scored = _score(scorer, rows, labels)
        if "missing" in given:  # somebody chose what it is
            scored.absent.clear()
        with scorer.answers.locked():
            written = output.read()
            # Another run may have written rows of its own meanwhile.
            if is_written := written == earlier:
                output.write(rows, scored)
        earlier = written
        rows = rows if is_written else join_rows(prompts, earlier, path, path_written)
    summaries.say_notes(scorer.notes)
    hint = ""
    if empty := [row.id for row, cells in zip(rows, scored.cells, strict=True) if not any(cells)]:
        print(f"{len(empty):,} of {len(rows):,} rows have no scores: {shown(empty)}.")
        hint = " --missing=drop"  # leaves these rows out
    if len(rows) > len(prompts):
        print(f"{len(rows) - len(prompts):,} rows of other files are in {path_written} as well.")
    print(f"answers: {answers} (kept until you remove it; what is in it is not asked again)")
    print(f"scores: {path_written}")
    if scored.absent:
        got = f"{shown(scored.absent)} in no answer, without scores in {path_written}"
        remedy = "name others, raise --top_logprobs, or fill them in by --missing=least; nothing "
        remedy += "is asked again"
        raise InputError.at("--labels", "labels that the model answers with", got, remedy)
    print(f"next: batch-calibration diagnose {path_written}{hint}")


def _refuse_unanswered(
    scorer: ApiScorer, rows: Sequence[Prompt], labels: Sequence[str], path: Path
) -> None:
    """Refuse rows of other files whose answers are gone: their scores cannot be made again."""
    if rows and (requests := scorer.estimate(_texts(rows), _forms(labels)).requests):
        expected = f"answers to its {len(rows):,} rows that are in no file given now"
        remedy = "name another --output, or move this file away"
        raise InputError.at(path, expected, f"none to {requests:,} requests", remedy)


def _check_flags(args: Namespace) -> tuple[Path, Path, list[str]]:
    """The file of prompts, the output and the labels."""
    if len(args.files) != 1:
        raise InputError.at("ask", "one file of prompts", len(args.files))
    if Path(args.output).suffix != ".csv":
        expected = "a .csv file for the scores"
        raise InputError.at("--output", expected, repr(args.output), "say --output=scores.csv")
    labels = list(options.split_names(args.labels))
    if len(set(labels)) < max(2, len(labels)):
        expected = "two or more different labels"
        raise InputError.at("--labels", expected, repr(args.labels), "say --labels=yes,no")
    return Path(args.files[0]), Path(args.output), labels


def _texts(prompts: Sequence[Prompt]) -> list[str]:
    return [prompt.text for prompt in prompts]


def _forms(labels: Sequence[str]) -> list[str]:
    """Labels go on after the prompt, with a space; of replies the space is no matter."""
    return [f" {label}" for label in labels]


def _say_cost(scorer: ApiScorer, prompts: Sequence[Prompt], labels: Sequence[str]) -> None:
    estimate = scorer.estimate(_texts(prompts), _forms(labels))
    dollars = estimate.tokens / 1e6 * scorer.settings.price  # the price is for a million tokens
    cost = estimate._replace(dollars=dollars, interrupted=scorer.count_interrupted())
    per_prompt = scorer.requests_per_row(_forms(labels))
    unit = "request" if per_prompt == 1 else "requests"
    requests = f"{len(prompts):,} prompts x {per_prompt} {unit}"
    print(f"{scorer.settings.server} will be asked {requests}: {cost}", flush=True)


def _score(scorer: ApiScorer, prompts: Sequence[Prompt], labels: Sequence[str]) -> Scores:
    """The cells of each prompt's scores; empty ones where the server refuses the prompt."""
    with Waiting("asking", len(prompts)) as waiting:
        answer = scorer.score(_texts(prompts), _forms(labels), progress=waiting.update)
    has_scores = ~np.isnan(answer.log_probs).all(axis=1)
    is_filled = np.zeros(answer.log_probs.shape, bool)
    if answer.is_filled is not None:
        is_filled = answer.is_filled & has_scores[:, None]
    is_absent = is_filled[has_scores].all(axis=0)
    cells, filled = [], []
    for row_scores, row_filled in zip(answer.log_probs, is_filled, strict=True):
        # Nine digits hold a float32 exactly.
        cells.append(["" if np.isnan(score) else f"{score:.9g}" for score in row_scores])
        filled.append([label for label, gone in zip(labels, row_filled, strict=True) if gone])
    return Scores(cells, filled, [labels[i] for i in np.flatnonzero(is_absent).tolist()])


def _text_of(cell: Json, where: str = "") -> str:
    """A cell as the output holds it: of messages their JSON."""
    if not isinstance(cell, dict | list):
        return "" if cell is None else str(cell)
    text = json.dumps(cell, ensure_ascii=False)
    if where and not read_messages(text):
        expected = "a text, or a list of messages with role and content"
        raise InputError.at(where, expected, shown(cell))
    return text


def join_rows(
    prompts: Sequence[Prompt], earlier: Sequence[Prompt], path: Path, path_written: Path
) -> list[Prompt]:
    """The rows of a file of prompts, and after them those that the output has of other files.

    A row whose id is in the file is another version of it, if the file has some row as it was.

    Raises:
        InputError: rows of the same ids, and none of them as it was: it is another file.
    """
    texts = {prompt.id: prompt.text for prompt in prompts}
    changed = [row.id for row in earlier if texts.get(row.id, row.text) != row.text]
    if changed and not any(texts.get(row.id) == row.text for row in earlier):
        expected = f"ids that {path_written} has for no other prompt"
        remedy = "name another --output, or a column of other ids by --ids"
        raise InputError.at(path, expected, shown(changed), remedy)
    return [*prompts, *(row for row in earlier if row.id not in texts)]


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
        refuse_unknown("column", column, names)
    prompt = prompt or next((name for name in PROMPTS if name in names), "")
    if not prompt:
        expected = f"one of {', '.join(PROMPTS)}"
        raise InputError.at(path, expected, shown(names), "name the column by --prompt")
    ids = ids or ("id" if "id" in names else "")
    gold = gold or next((name for name in GOLD if name in names), "")
    prompts, seen = [], set[str]()
    for number, row in enumerate(rows):
        where = f"{path}, row {number + 1}"
        row_prompt = Prompt(
            _text_of(row[ids]) if ids else str(number),
            _text_of(row[prompt], where),
            _text_of(row[gold]) if gold else "",
        )
        if not row_prompt.text.strip():
            raise InputError.at(where, "a prompt", "none", "fill or drop it")
        if row_prompt.id in seen:
            remedy = "name another by --ids"
            raise InputError.at(where, "an id of its own", f"{row_prompt.id!r} again", remedy)
        seen.add(row_prompt.id)
        prompts.append(row_prompt)
    return prompts, gold


def _read_rows(path: Path) -> tuple[list[str], list[dict[str, Json]]]:
    """The names of a file's columns, and its rows."""
    if path.suffix.lower() in (".jsonl", ".json", ".ndjson"):
        rows, empty = [], dict[str, Json]()  # `empty` has all names, in order
        for _, document in json_rows(path):
            rows.append(document)
            empty |= dict.fromkeys(document, "")
        return list(empty), [empty | row for row in rows]
    names, cells = read_cells(path)
    return names, [dict[str, Json](zip(names, row, strict=True)) for row in cells]
