"""The command `ask`: gets label scores for a file of prompts from an API, without a study."""

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
from batch_calibration.files.rows import json_rows, parquet_rows
from batch_calibration.importers.gold import gold_indices
from batch_calibration.importers.text_files import read_rows
from batch_calibration.scoring.api.protocols import read_messages
from batch_calibration.scoring.api.scorer import ApiScorer
from batch_calibration.settings import Settings

PROMPTS = ("prompt", "text", "input", "question", "messages")
"""Default columns of prompts; the first one in the file is used."""
GOLD = ("label", "gold", "answer")
"""Default columns of right labels; the first one in the file is used."""
ASKED = ("id", "prompt", "model", "api_scores", "server")
"""Output columns with the prompt and the settings of the request."""
FILLED = "filled_in"
"""Output column with the labels that an answer lacks; their scores are filled in."""
DEFAULT_WAY = "chat"


class Prompt(NamedTuple):
    """A row to ask about: its id, its text, and its right label ("" if unknown)."""

    id: str
    text: str  # JSON, if the prompt is a list of messages
    gold: str = ""


class Scores(NamedTuple):
    """The output cells of some rows, and the labels that no answer held.

    Attributes:
        cells: For each row, one cell for each label; all are empty if the row has no answer.
        filled: For each row, the labels with filled-in scores.
        absent: The labels that no answer held.
    """

    cells: list[list[str]]
    filled: list[list[str]]
    absent: list[str]


class Output(NamedTuple):
    """The output file of scores.

    Attributes:
        path: Path of the file.
        labels: Its columns of scores.
        facts: The settings that all rows share: the model, the API protocol, the server.
        gold: Name of its column of right labels; "" if it has none.
    """

    path: Path
    labels: list[str]
    facts: tuple[str, str, str]
    gold: str

    def read(self) -> list[Prompt]:
        """Reads the rows of an earlier output; returns an empty list if there is no output.

        Raises:
            InputError: The output has another model, server, protocol or other labels.
        """
        if not self.path.exists():
            return []
        names, rows = read_table(self.path)
        expected = {*ASKED, *self.labels, *filter(None, [self.gold])}
        differing = sorted(expected.symmetric_difference(names) - {FILLED})
        for name, fact in zip(ASKED[2:], self.facts, strict=True):
            if not differing and any(row[name] != fact for row in rows):
                differing.append(name)
        if differing:
            asked = f"scores of {', '.join(self.labels)} by {', '.join(self.facts)}"
            remedy = "choose another --output, or move this file; the answers next to it are kept"
            raise InputError.at(self.path, asked, f"another {', '.join(differing)}", remedy)
        # CSV cells are always text.
        columns = ("id", "prompt", *filter(None, [self.gold]))
        return [Prompt(*map(str, map(row.__getitem__, columns))) for row in rows]

    def write(self, prompts: Sequence[Prompt], scored: Scores) -> None:
        """Writes a row for each prompt; an interruption leaves no partial file."""
        has_filled = any(scored.filled) and not scored.absent
        names = [*ASKED, *self.labels, *[FILLED] * has_filled, *filter(None, [self.gold])]
        lines = [names]
        for prompt, cells, filled in zip(prompts, scored.cells, scored.filled, strict=True):
            row = dict(zip(self.labels, cells, strict=True)) | dict.fromkeys(scored.absent, "")
            row |= dict(zip(ASKED, (prompt.id, prompt.text, *self.facts), strict=True))
            row[FILLED] = ", ".join(map(repr, filled))  # quoted, so that no label reads as a number
            row[self.gold] = prompt.gold
            lines.append([row[name] for name in names])
        write_whole(self.path, write_csv(lines, ",").encode())


def ask_server(args: Namespace) -> None:
    """Asks an API about each prompt that has no answer yet, and writes all scores.

    The answers are stored in a file next to the output, and the output is computed from them.
    Rows of earlier prompt files with the same output are kept.
    """
    path, path_written, labels = _check_flags(args)
    prompts, gold_name = read_prompts(path, args.prompt, args.ids, args.gold)
    if taken := {*labels}.intersection((*ASKED, FILLED, gold_name)):
        expected = "names that differ from the output's columns"
        raise InputError.at("--labels", expected, shown(sorted(taken)), "rename these labels")
    answers = path_written.with_name(f"{path_written.name}.answers.sqlite")
    texts = study_options.given_keys(args, ("api",))
    given = {name: study_options.read_value(name, text) for name, text in texts.items()}
    settings = Settings.of(**{"api_scores": DEFAULT_WAY, **given}).api
    # A dry run does not create the file of answers.
    kept = answers if answers.exists() or not args.dry_run else None
    scorer = ApiScorer(settings, args.model, answers=kept)
    refuse_messages(prompts, settings.api_scores)
    scorer.notify = lambda sentence: summaries.say_notes([sentence])
    _say_cost(scorer, prompts, labels)
    facts = args.model, settings.api_scores, settings.server
    output = Output(path_written, labels, facts, gold_name)
    earlier = output.read()
    if gold_name:  # checked before any request is paid for
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
        if "missing" in given:  # the user chose how to fill in absent labels
            scored.absent.clear()
        with scorer.answers.locked():
            written = output.read()
            # Another run may have written rows in the meantime; then this run scores those, too.
            if is_written := written == earlier:
                output.write(rows, scored)
        earlier = written
        rows = rows if is_written else join_rows(prompts, earlier, path, path_written)
    summaries.say_notes(scorer.notes)
    hint = ""
    if empty := [row.id for row, cells in zip(rows, scored.cells, strict=True) if not any(cells)]:
        print(f"{len(empty):,} of {len(rows):,} rows have no scores: {shown(empty)}.")
        hint = " --missing=drop"  # ignores these rows
    if len(rows) > len(prompts):
        print(f"{len(rows) - len(prompts):,} rows of other files are also in {path_written}.")
    print(f"answers: {answers} (kept until you remove it; stored answers are not requested again)")
    print(f"scores: {path_written}")
    if scored.absent:
        got = f"{shown(scored.absent)} in no answer, without scores in {path_written}"
        remedy = "use other labels, raise --top_logprobs, or fill them in by --missing=least"
        raise InputError.at("--labels", "labels that the model answers with", got, remedy)
    print(f"next: batch-calibration diagnose {path_written}{hint}")


def _refuse_unanswered(
    scorer: ApiScorer, rows: Sequence[Prompt], labels: Sequence[str], path: Path
) -> None:
    """Raises an error for rows of other files without stored answers; these cannot be scored."""
    if rows and (requests := scorer.estimate(_texts(rows), forms_of(labels)).requests):
        expected = f"stored answers to its {len(rows):,} rows that are not in the file of prompts"
        remedy = "choose another --output, or move this file"
        raise InputError.at(path, expected, f"none for {requests:,} requests", remedy)


def _check_flags(args: Namespace) -> tuple[Path, Path, list[str]]:
    """Returns the file of prompts, the output and the labels."""
    if len(args.files) != 1:
        raise InputError.at("ask", "one file of prompts", len(args.files))
    if Path(args.output).suffix != ".csv":
        expected, got = "a .csv file for the scores", repr(args.output)
        raise InputError.at("--output", expected, got, "use --output=scores.csv")
    return Path(args.files[0]), Path(args.output), split_labels(args.labels)


def split_labels(text: str) -> list[str]:
    """Splits the names of the labels; raises if there are fewer than two, or one is repeated."""
    labels = list(options.split_names(text))
    if len(set(labels)) < max(2, len(labels)):
        expected, got = "two or more different labels", repr(text)
        raise InputError.at("--labels", expected, got, "use --labels=yes,no")
    return labels


def refuse_messages(prompts: Sequence[Prompt], api_scores: str) -> None:
    """Raises an error if a prompt is a list of messages and the protocol takes only texts."""
    if api_scores != "chat" and any(read_messages(prompt.text) for prompt in prompts):
        raise InputError.at("--api_scores", "chat, because some prompts are lists of messages")


def _texts(prompts: Sequence[Prompt]) -> list[str]:
    return [prompt.text for prompt in prompts]


def forms_of(labels: Sequence[str]) -> list[str]:
    """Returns the labels with a leading space, as they follow the prompt."""
    return [f" {label}" for label in labels]


def _say_cost(scorer: ApiScorer, prompts: Sequence[Prompt], labels: Sequence[str]) -> None:
    estimate = scorer.estimate(_texts(prompts), forms_of(labels))
    dollars = estimate.tokens / 1e6 * scorer.settings.price  # the price is for a million tokens
    cost = estimate._replace(dollars=dollars, interrupted=scorer.count_interrupted())
    per_prompt = scorer.requests_per_row(forms_of(labels))
    requests = f"{len(prompts):,} prompts x {per_prompt} request{'s' * (per_prompt > 1)}"
    where = scorer.settings.server or "No server"
    print(f"{where} will be asked {requests}: {cost}", flush=True)


def _score(scorer: ApiScorer, prompts: Sequence[Prompt], labels: Sequence[str]) -> Scores:
    """Scores each prompt; the cells are empty if the server rejects the prompt."""
    with Waiting("asking", len(prompts)) as waiting:
        answer = scorer.score(_texts(prompts), forms_of(labels), progress=waiting.move)
    has_scores = ~np.isnan(answer.log_probs).all(axis=1)
    is_filled = has_scores[:, None] & (False if answer.is_filled is None else answer.is_filled)
    is_filled = np.broadcast_to(is_filled, answer.log_probs.shape)
    is_absent = is_filled[has_scores].all(axis=0)
    cells, filled = [], []
    for row_scores, row_filled in zip(answer.log_probs, is_filled, strict=True):
        # Nine significant digits represent a float32 exactly.
        cells.append(["" if np.isnan(score) else f"{score:.9g}" for score in row_scores])
        filled.append([label for label, gone in zip(labels, row_filled, strict=True) if gone])
    return Scores(cells, filled, [labels[i] for i in np.flatnonzero(is_absent).tolist()])


def _text_of(cell: Json, where: str = "") -> str:
    """Returns the output's text for a cell: JSON for messages, "" for None."""
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
    """Returns the rows of a file of prompts, then the output's rows from other files.

    If some rows of the file are unchanged, a row with the same id and another text is an edited
    prompt and replaces the earlier row.

    Raises:
        InputError: Ids are the same but all texts differ: it is another file.
    """
    texts = {prompt.id: prompt.text for prompt in prompts}
    changed = [row.id for row in earlier if texts.get(row.id, row.text) != row.text]
    if changed and not any(texts.get(row.id) == row.text for row in earlier):
        expected = f"ids that do not belong to other prompts in {path_written}"
        remedy = "choose another --output, or another column of ids with --ids"
        raise InputError.at(path, expected, shown(changed), remedy)
    return [*prompts, *(row for row in earlier if row.id not in texts)]


def read_prompts(path: Path, prompt: str, ids: str, gold: str) -> tuple[list[Prompt], str]:
    """Reads the prompts of a CSV, TSV, JSON Lines or Parquet file.

    Args:
        path: The file.
        prompt: Column of prompts; "" for the first of `PROMPTS`.
        ids: Column of ids; "" for "id", or row numbers from 0 if this column is missing.
        gold: Column of right labels; "" for the first of `GOLD`, or no labels if all are missing.

    Returns:
        The prompts, and the name of the column of right labels ("" for none).

    Raises:
        InputError: The file or a column is missing, a prompt is empty, or an id is repeated.
    """
    names, rows = read_table(path)
    for column in filter(None, (prompt, gold)):
        refuse_unknown("column", column, names)
    prompt = prompt or next((name for name in PROMPTS if name in names), "")
    if not prompt:
        expected = f"one of {', '.join(PROMPTS)}"
        raise InputError.at(path, expected, shown(names), "name the column with --prompt")
    gold = gold or next((name for name in GOLD if name in names), "")
    row_ids = read_ids(path, names, rows, ids) or map(str, range(len(rows)))
    prompts = []
    for number, (row_id, row) in enumerate(zip(row_ids, rows, strict=True), 1):
        where = f"{path}, row {number}"
        right = _text_of(row[gold]) if gold else ""
        prompts.append(Prompt(row_id, _text_of(row[prompt], where), right))
        if not prompts[-1].text.strip():
            raise InputError.at(where, "a prompt", "none", "fill in or remove the row")
    return prompts, gold


def read_ids(
    path: Path, names: Sequence[str], rows: Sequence[dict[str, Json]], column: str
) -> list[str]:
    """Returns the ids of rows in a column, "id" by default; none if the file has no such column.

    Raises:
        InputError: The column is missing, or an id is repeated.
    """
    if not column and "id" not in names:
        return []
    refuse_unknown("column", column or "id", names)
    ids = [_text_of(row[column or "id"]) for row in rows]
    if len({*ids}) < len(ids):
        place = next(place for place, row_id in enumerate(ids) if row_id in ids[:place])
        where, got = f"{path}, row {place + 1}", f"{ids[place]!r} again"
        raise InputError.at(where, "a unique id", got, "choose another column with --ids")
    return ids


def read_table(path: Path) -> tuple[list[str], list[dict[str, Json]]]:
    """Returns the names of a file's columns, and its rows."""
    is_parquet = path.suffix.lower() in (".parquet", ".pq")
    if is_parquet or path.suffix.lower() in (".jsonl", ".json", ".ndjson"):
        rows, empty = [], dict[str, Json]()  # `empty` has the names of all rows, in order
        for _, document in (parquet_rows if is_parquet else json_rows)(path):
            rows.append(document)
            empty |= dict.fromkeys(document, "")
        names, rows = list(empty), [empty | row for row in rows]
    else:
        names, rows = read_rows(path)
    if not rows:
        raise InputError.at(path, "a row for each text", "none", "add them")
    return names, rows
