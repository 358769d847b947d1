"""The command `classify`: predicts the label of each text of a file with a model."""

import json
import re
import shlex
import sys
from argparse import Namespace
from collections.abc import Mapping, Sequence
from itertools import chain, compress
from pathlib import Path
from typing import NamedTuple, cast

import numpy as np

from batch_calibration import scores
from batch_calibration.cli import machine, options, output, prior, studies, study_options, summaries
from batch_calibration.cli.asking import DEFAULT_WAY, GOLD, read_table
from batch_calibration.cli.correcting import advise_contexts, follow_advice
from batch_calibration.cli.summaries import CorrectedContext
from batch_calibration.errors import InputError, refuse_unknown, shown
from batch_calibration.files import Json, remove, temporary_folder, write_whole
from batch_calibration.files.rows import first_repeated
from batch_calibration.importers.cells import text_of, texts_of
from batch_calibration.importers.gold import gold_indices, index_order, list_indices
from batch_calibration.scores import ScoreTable, digest, make_block
from batch_calibration.scoring.prompts.template import FIELD, fields_of
from batch_calibration.scoring.tasks import TASKS
from batch_calibration.settings import Settings, Study, keys
from batch_calibration.studies.scoring import render_contexts

PROMPT = "Text: {text}\nLabel: {label}"
ENDINGS = (".csv", ".tsv", ".jsonl", ".ndjson", ".json", ".parquet")
PREDICTIONS = (".csv", ".tsv", ".jsonl", ".parquet")
"""Endings of the output."""
TEXTUAL = re.compile(r"[^\W\d_]")  # a letter
TASK, TEXTS, SHOWN = "task.toml", "texts.jsonl", "demonstrations.jsonl"
"""Files of the task's folder."""
MARKS, NO_MARKS = ("1", "true", "yes"), ("0", "false", "no", "")
"""Values, in lower case, of a column that marks demonstrations; others are named by the user."""
ROWS_AT_MOST = 3  # numbers of rows in a message
Words = Mapping[str, tuple[str, ...]]
"""Label -> its words, several forms or one."""


class Source(NamedTuple):
    """A file of texts.

    Attributes:
        path: the file.
        names: its columns.
        rows: its rows.
        numbers: the number of each row in the file, from 0.
        gold: the right label of each row as an index, -1 if it is unknown.
    """

    path: Path
    names: list[str]
    rows: list[dict[str, Json]]
    numbers: list[int]
    gold: list[int]

    def column(self, name: str) -> list[str]:
        """Returns a column as texts, without spaces around them."""
        return texts_of([row[name] for row in self.rows])

    def keep(self, are_kept: Sequence[bool]) -> "Source":
        """Returns the rows that are kept."""
        columns = (compress(column, are_kept) for column in (self.numbers, self.gold))
        return Source(self.path, self.names, [*compress(self.rows, are_kept)], *map(list, columns))


def classify(args: Namespace) -> None:
    """Scores the labels of each text, corrects the scores as advised, and writes predictions.

    The task file, its rows and the scores are in a folder next to the output. So a stopped run
    continues, and scores are not computed twice.
    """
    # A folder next to the output is needed, so that standard output is none.
    output.check_output(args.output if args.output != "-" else "--output=-", PREDICTIONS)
    labels = _read_labels(args.labels)
    if len(args.files) != 1:
        raise InputError.at("classify", "one file of texts", len(args.files))
    source = read_source(Path(args.files[0]), args.gold, [*labels])
    demonstrations, source = _split(args, source, [*labels])
    if args.gold:
        refuse_unknown("column", args.gold, [*source.names, *demonstrations.names], where="--gold")
    if -1 in demonstrations.gold:
        row = demonstrations.numbers[demonstrations.gold.index(-1)] + 1
        where, expected = f"{demonstrations.path}, row {row}", "a demonstration's right label"
        remedy = "fill it in, or name its column with --gold"
        raise InputError.at(where, expected, "none", remedy)
    ids = _read_ids(args.ids, source)
    template, fields = _read_prompt(args, source)
    # Wrong shares are refused before anything is scored.
    unscored = make_block(np.zeros((len(source.rows), len(labels)), np.float32), source.gold)
    stated = prior.state(args.prior, [ScoreTable({}, tuple(labels), {"test": unscored})])
    name = re.sub(r"[^\w.-]", "_", source.path.stem)
    name += "_texts" * (name in TASKS)
    files = {TEXTS: _write_rows(source, fields)}
    if demonstrations.rows:
        files[SHOWN] = _write_rows(demonstrations, fields)
    files[TASK] = _write_task(name, template, [*fields], labels, has_train=SHOWN in files)
    if args.dry_run:
        _show_first(args, files, len(demonstrations.rows), len(source.rows))
        return
    folder = Path(args.output).with_suffix(".task")
    settings = _make_settings(args, folder / TASK, len(demonstrations.rows))
    _write_files(folder, files, settings)
    machine.set_up()
    report = studies.score(Study(settings, tuple(settings.grid())), str(folder))
    path = folder / "scores" / f"{report.ids[0]}.safetensors"
    table = scores.load(path)
    summaries.say_notes(summaries.doubts([table]))
    context = follow_advice(table, *advise_contexts([table], stated, by_labels=True))
    summaries.show_advice([context], sys.stdout, shlex.quote(str(path)))
    print()
    if not args.prior:
        known = "If you know the shares of the labels, add --prior=SHARES, such as --prior=balanced"
        summaries.print_filled(f"{known}: stored scores are not computed again.")
    if lacking := len(source.rows) - len(context.scores):
        print(f"{lacking:,} of {len(source.rows):,} texts have no scores and no prediction.")
    _write_predictions(args.output, source, ids, context)
    changed = f"{len(context.diagnosis.changed):,} of {len(context.scores):,} are corrected"
    print(f"predictions: {args.output}; {changed}")
    print(f"task: {folder / TASK}; edited, it is scored by\n{_next(folder, settings)}")


def read_source(path: Path, gold: str, labels: Sequence[str]) -> Source:
    """Reads a CSV, TSV, JSON Lines or Parquet file with a row for each text.

    Args:
        path: the file.
        gold: the column of right labels; "" for a usual name of one that holds only labels.
        labels: the labels.
    """
    if path.suffix.lower() not in ENDINGS:
        expected = f"a file that ends in {', '.join(ENDINGS)}"
        raise InputError.at(path, expected, remedy="write one, with a line of column names")
    names, rows = read_table(path)
    if not rows:
        raise InputError.at(path, "a row for each text", "none", "add them")
    source = Source(path, names, rows, [*range(len(rows))], [-1] * len(rows))
    if not gold:
        usual = filter(names.__contains__, GOLD)
        found = [name for name in usual if {""} != {*source.column(name)} <= {*labels, ""}]
        if len(found) == 1:
            gold = found[0]
            note = f"The column {gold!r} of {path} names labels and is read as right labels"
            summaries.say_notes([f"{note} (--gold)."])
    # With demonstrations in another file, only these may be labeled.
    if gold not in names:
        return source
    where, cells = f"{path}, column {gold!r}", source.column(gold)
    if order := index_order({*cells}, labels):
        said = f"{where}: {list_indices(order)} by the order of --labels"
        summaries.say_notes([f"{said}; write them in another order if it is another."])
    return source._replace(gold=gold_indices(where, cells, labels).tolist())


def _read_labels(text: str) -> Words:
    """Reads the labels and their words from a text such as A,B or A=x|y,B=z."""
    forms, labels = options.split_tokens(text), dict[str, tuple[str, ...]]()
    names = [pair.partition("=")[0].strip() for pair in text.split(",") if pair.strip()]
    for name in names:
        labels[name] = tuple(filter(None, map(str.strip, forms[name]))) or (name,)
    got, repeated = repr(text), first_repeated(names) or first_repeated([*chain(*labels.values())])
    if repeated or len(names) < 2 or "" in names:
        got = f"{repeated!r} twice" if repeated else got
        expected = "two or more different labels, with different words"
        remedy = "use --labels=pos,neg or --labels='pos=great|good,neg=terrible'"
        raise InputError.at("--labels", expected, got, remedy)
    return labels


def _split(args: Namespace, source: Source, labels: Sequence[str]) -> tuple[Source, Source]:
    """Returns the demonstrations that a file holds or a column marks, and the other rows."""
    text = args.demonstrations
    column, equals, value = text.partition("=")
    is_column, is_file = column in source.names, Path(text).is_file()
    if not text:
        return source.keep([False] * len(source.rows)), source
    if is_column and is_file:
        expected, got = "a file or a column", f"{text!r}, which is both"
        raise InputError.at("--demonstrations", expected, got, f"write ./{text} for the file")
    if is_file:
        return read_source(Path(text), args.gold, labels), source
    if not is_column:
        expected = f"a file, or a column of {source.path} ({', '.join(source.names)})"
        raise InputError.at("--demonstrations", expected, repr(text), "correct the name")
    cells = source.column(column)
    values = sorted({*cells})
    marks = [one for one in values if one.casefold() in MARKS]
    others = [one for one in values if one.casefold() in NO_MARKS]
    if equals:
        refuse_unknown(f"value of {column}", value, values, where="--demonstrations")
        marks = [value]
    elif (len(values), len(marks), len(others)) != (2, 1, 1):
        expected = "two values, true and false, that mark the demonstrations"
        remedy = f"name the mark, such as --demonstrations={column}={values[0]}"
        raise InputError.at(f"{source.path}, column {column!r}", expected, shown(values), remedy)
    are_marked = np.array([cell == marks[0] for cell in cells])
    if are_marked.all():
        expected, got = "a row to classify", f"{marks[0]!r} in each row of column {column!r}"
        raise InputError.at(source.path, expected, got, "leave --demonstrations out")
    return source.keep(are_marked.tolist()), source.keep((~are_marked).tolist())


def _read_ids(column: str, source: Source) -> list[str]:
    """Returns the ids of the rows; none if the file has no column of ids."""
    column = column or "id" * ("id" in source.names)
    if not column:
        return []
    refuse_unknown("column", column, source.names, where=source.path)
    places = dict[str, int]()
    for row_id, number in zip(source.column(column), source.numbers, strict=True):
        if row_id in places:
            got = f"{row_id!r} in rows {places[row_id] + 1} and {number + 1}"
            remedy = "choose another column with --ids, or rename this one"
            raise InputError.at(f"{source.path}, column {column!r}", "unique ids", got, remedy)
        places[row_id] = number
    return [*places]


def _read_prompt(args: Namespace, source: Source) -> tuple[str, dict[str, str]]:
    """Returns the template, and the column of each of its fields."""
    names, text, fields = source.names, args.text, dict[str, str]()
    prompt = args.prompt.replace("\\n", "\n") or PROMPT
    if text:
        refuse_unknown("column", text, names, where="--text")
    if "{text}" in args.prompt and "text" in names and text not in ("", "text"):
        got = f"{{text}}, which may be the column 'text' or --text={text}"
        remedy = f"write {{{text}}}, or leave --text out"
        raise InputError.at("--prompt", "the name of a column in braces", got, remedy)
    for number, name in enumerate(names):
        braced = f"{{{name}}}"
        if braced in prompt and name not in ("label", "text"):
            # A template's field has letters, digits and _.
            field = name if FIELD.fullmatch(braced) else f"column_{number}"
            fields[field], prompt = name, prompt.replace(braced, f"{{{field}}}")
    if "{text}" in prompt:
        is_named = "{text}" in args.prompt and "text" in names
        taken = args.gold, args.ids or "id", args.demonstrations.partition("=")[0]
        fields["text"] = text or ("text" if is_named else _find_text(source, taken))
    if "{label}" not in prompt:
        prompt += " " * (not prompt[-1].isspace()) + "{label}"
    for field in fields_of(prompt):
        if field not in ("label", *fields):
            raise InputError.unknown("column", field, names, where="--prompt")
    if not fields:
        expected, remedy = "a column in braces", "write {text} where the text belongs"
        raise InputError.at("--prompt", expected, shown(args.prompt), remedy)
    if text and text not in fields.values():
        got, remedy = f"--text={text} too", f"write {{{text}}} in it, or leave --text out"
        raise InputError.at("--prompt", "the column of texts in braces", got, remedy)
    if not prompt.endswith("{label}") or prompt.count("{label}") > 1:
        expected, remedy = "{label} once, at the end", "move it there, or leave it out"
        raise InputError.at("--prompt", expected, shown(args.prompt), remedy)
    return prompt, fields


def _find_text(source: Source, taken: Sequence[str]) -> str:
    """Returns the only column that could be the text, by its values."""
    found = list[str]()
    # Texts have several words; if no column has them, a text may be a single word.
    for least_words in (2, 1):
        for name in source.names if not found else ():
            cells = source.column(name)
            are_texts = [len(cell.split()) >= least_words for cell in cells if TEXTUAL.search(cell)]
            is_unlike = len({*cells}) > len(cells) / 2
            if name not in taken and is_unlike and sum(are_texts) > len(cells) / 2:
                found.append(name)
    if len(found) != 1:
        remedy = "name the column with --text, or several with --prompt='{title} {body}'"
        got = f"{shown(found)}, which could be" if found else shown(source.names)
        raise InputError.at(source.path, "one column of texts", got, remedy)
    summaries.say_notes([f"The column {found[0]!r} is read as the text (--text)."])
    return found[0]


def _write_rows(source: Source, fields: Mapping[str, str]) -> str:
    """Returns lines of JSON with the fields of each row and the index of its label.

    Raises:
        InputError: A column is missing, or a row has no text.
    """
    lines, empty = list[str](), list[int]()
    for column in fields.values():
        refuse_unknown("column", column, source.names, where=source.path)
    for row, number, label in zip(source.rows, source.numbers, source.gold, strict=True):
        cells: dict[str, Json] = {}
        for field, column in fields.items():
            cell = row[column]
            if isinstance(cell, dict | list):
                where = f"{source.path}, row {number + 1}"
                remedy = "name another column with --text or --prompt"
                raise InputError.at(where, f"a text in column {column!r}", shown(cell), remedy)
            cells[field] = cell if isinstance(cell, str) else text_of(cell)
        if not "".join(map(str, cells.values())).strip():
            empty.append(number + 1)
        lines.append(json.dumps(cells | {"label": label}, ensure_ascii=False) + "\n")
    if empty:
        more = f" and {len(empty) - ROWS_AT_MOST:,} more" * (len(empty) > ROWS_AT_MOST)
        got = f"none in row {', '.join(map(str, empty[:ROWS_AT_MOST]))}{more}"
        raise InputError.at(source.path, "a text in each row", got, "fill in or remove these rows")
    return "".join(lines)


def _write_task(
    name: str, template: str, fields: Sequence[str], labels: Words, *, has_train: bool
) -> str:
    """Returns the text of a task file."""

    def toml(value: object) -> str:
        # JSON's texts are TOML's, except that TOML escapes DEL.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")

    lines = [f"name = {toml(name)}", f"fields = {toml(fields)}"]
    lines += [f"label_names = {toml([*labels])}", 'labels_are = "numbers"  # in this order, from 0']
    lines += [f"template = {toml(template)}", "", "[verbalizer]  # words that the model scores"]
    for label, forms in labels.items():
        lines.append(f"{toml(label)} = {toml(forms if len(forms) > 1 else forms[0])}")
    lines += ["", "[files]", f"validation = {toml(TEXTS)}"]
    lines += [f"train = {toml(SHOWN)}"] * has_train
    return "\n".join([*lines, ""])


def _sign(files: Mapping[str, str]) -> dict[str, str]:
    """Returns files of a task, with their digest in the first line of the task file."""
    first = (
        f"# Written by batch-calibration classify; an edited one is kept. Digest: {digest(files)}"
    )
    return {**files, TASK: f"{first}\n{files[TASK]}"}


def _write_files(folder: Path, files: Mapping[str, str], settings: Settings) -> None:
    """Writes the files of a task, the task file last.

    Raises:
        InputError: Earlier files are edited.
    """
    path, kept = folder / TASK, dict[str, str]()
    for name in (TEXTS, SHOWN, TASK) if path.exists() else ():
        if (folder / name).exists():
            kept[name] = (folder / name).read_bytes().decode(errors="replace")
    if kept and kept != _sign({**kept, TASK: kept[TASK].partition("\n")[2]}):
        expected, got = "the files as classify wrote them", "edited ones, which it does not replace"
        remedy = f"score them with {_next(folder, settings)}, or choose another --output"
        raise InputError.at(path, expected, got, remedy)
    for name, content in _sign(files).items():
        if kept.get(name) != content:
            write_whole(folder / name, content.encode())
    if SHOWN not in files:
        remove(folder / SHOWN)


def _next(folder: Path, settings: Settings) -> str:
    """Returns the command that scores an edited task file."""
    default, flags = Settings().flat(), [f"--workdir={folder}"]
    for name, value in settings.flat().items():
        # Without a name of methods, `score` asks the probes of all.
        if value != default[name] and keys()[name].part != "calibration":
            text = ",".join(map(str, value)) if isinstance(value, tuple) else value
            flags.append(f"--{name}={text}")
    return shlex.join(["batch-calibration", "score", *flags])


def _make_settings(args: Namespace, task: Path, demonstrations: int) -> Settings:
    """Returns the settings of the study: one context, all demonstrations in their order."""
    given = study_options.given_keys(args, ("prompt", "model", "api"))
    given.pop("demonstrations")  # here a file or a column
    of_server = study_options.given_keys(args, ("api",))
    if of_server and not args.server:
        flag = f"--{next(iter(of_server))}"
        raise InputError.at(flag, "a server to ask", "none", "add --server=URL, or leave it out")
    own: dict[str, object] = {"tasks": (str(task),), "shots": demonstrations, "methods": ("bc",)}
    if demonstrations:
        own |= {"selection": "explicit", "demonstrations": tuple(range(demonstrations))}
    if args.server:
        own |= {"scorer": "api", "api_scores": DEFAULT_WAY}
    chosen = {name: study_options.read_value(name, text) for name, text in given.items()}
    return Settings.of(**own | chosen)


def _write_predictions(
    path: str, source: Source, ids: Sequence[str], context: CorrectedContext
) -> None:
    """Writes each row's number and id, predictions before and after, scores and probabilities."""
    block, names = context.table.blocks["test"], np.array(context.table.label_names, object)
    places = [int(row_id.rpartition("/")[2]) for row_id in block.row_ids]
    numbers = tuple(str(source.numbers[place]) for place in places)
    table = context.table._replace(blocks={"test": block._replace(row_ids=numbers)})
    beside = {"id": np.array(ids, object)[places]} if ids else {}
    beside["raw_prediction"] = names[block.log_probs.argmax(axis=1)]
    has_probs = summaries.have_probabilities([context])
    scored = output.Scored(table, context.scores, source.path, has_probs, beside=beside)
    output.write([scored], path)


def _show_first(args: Namespace, files: Mapping[str, str], shown_rows: int, rows: int) -> None:
    """Prints the first prompt and the labels after it; writes nothing that stays."""
    with temporary_folder() as folder:
        for name, content in files.items():
            write_whole(folder / name, content.encode())
        settings = _make_settings(args, folder / TASK, shown_rows)
        (context,) = render_contexts(settings, notify=lambda note: summaries.say_notes([note]))
        inputs = cast("Sequence[str]", context.blocks["test"].inputs)
        print(f"the first of {rows:,} prompts, up to its label:\n{inputs[0]}|")
        for label, forms in zip(context.label_names, context.label_texts, strict=True):
            print(f"label {label}: {', '.join(map(repr, forms))}")
    print(f"nothing was scored or written; predictions would be in {args.output}")
