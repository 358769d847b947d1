"""The command `classify`: predicts the label of each text of a file with a model."""

import json
import re
import shlex
import sys
from argparse import Namespace
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import NamedTuple, cast

import numpy as np

from batch_calibration.cli import guard, machine, options, output, prior, studies, summaries
from batch_calibration.cli.asking import DEFAULT_WAY, read_ids, read_table
from batch_calibration.cli.correcting import advise_contexts, follow_advice
from batch_calibration.cli.study_options import given_keys, read_value
from batch_calibration.errors import InputError, refuse_unknown, shown
from batch_calibration.files import Json, remove, temporary_folder, write_whole
from batch_calibration.files.rows import first_repeated
from batch_calibration.importers.cells import text_of, texts_of
from batch_calibration.importers.gold import gold_indices, index_order, list_indices
from batch_calibration.scores import ScoreTable, digest, load, make_block
from batch_calibration.scoring.prompts.template import FIELD, fields_of
from batch_calibration.settings import Settings, Study
from batch_calibration.studies.scoring import render_contexts

PROMPT = "Text: {text}\nLabel: {label}"
ENDINGS = (".csv", ".tsv", ".jsonl", ".ndjson", ".json", ".parquet")
TASK, TEXTS, SHOWN = "task.toml", "texts.jsonl", "demonstrations.jsonl"
"""Files in the folder of the task."""
MARKS, NO_MARKS = {"1", "true", "yes"}, {"0", "false", "no", ""}
"""Values, in lower case, of a column that marks demonstrations; users name other marks."""
LETTER = re.compile(r"[^\W\d_]")
Words = Mapping[str, tuple[str, ...]]
"""Maps a label to the forms of its words."""


class Source(NamedTuple):
    """A file of texts: its columns, its rows, and their right labels (-1 if unknown)."""

    path: Path
    names: list[str]
    rows: list[dict[str, Json]]
    gold: list[int]

    def column(self, name: str) -> list[str]:
        """Returns a column as texts, without spaces around them."""
        return texts_of([row[name] for row in self.rows])

    def choose(self, rows: Iterable[int], fields: Mapping[str, str]) -> str:
        """Returns some rows of a task as JSON Lines, with the column of each field."""
        lines = list[str]()
        for column in fields.values():
            refuse_unknown("column", column, self.names, where=self.path)
        for row in rows:
            cells = [self.rows[row][column] for column in fields.values()]
            texts = [cell if isinstance(cell, str) else text_of(cell) for cell in cells]
            if any(isinstance(cell, dict | list) for cell in cells) or not "".join(texts).strip():
                where, expected = f"{self.path}, row {row + 1}", f"a text in {shown([*fields])}"
                remedy = "fill in or remove the row, or name another column with --text"
                raise InputError.at(where, expected, shown(cells), remedy)
            record = dict(zip(fields, texts, strict=True)) | {"label": self.gold[row]}
            lines.append(json.dumps(record, ensure_ascii=False) + "\n")
        return "".join(lines)


def classify(args: Namespace) -> None:
    """Scores the labels of each text, corrects the scores as advised, and writes predictions.

    The task file, its rows and the scores are in a folder next to the output. So a stopped run
    continues, and no text is scored twice.
    """
    # Only scores fit in .npz, and standard output has no folder next to it.
    written = "--output=-" if args.output == "-" else args.output
    output.check_output(written, output.ENDINGS[:-1])
    labels = _read_labels(args.labels)
    source = read_source(Path(args.files[0]), args.gold, labels)
    examples, shown_rows, rows = _choose_demonstrations(args, source, labels)
    if args.gold:
        known = [*dict.fromkeys(source.names + examples.names)]
        refuse_unknown("column", args.gold, known, where="--gold")
    ids = read_ids(source.path, source.names, source.rows, args.ids)
    template, fields = _read_prompt(args, source)
    if args.prior == prior.ESTIMATED:
        remedy = "leave --prior out: the shares are then estimated from the scores"
        raise InputError.at("--prior", "shares, balanced or a file", args.prior, remedy)
    # Wrong shares are refused before anything is scored.
    unscored = make_block(np.zeros((len(rows), len(labels))), [source.gold[row] for row in rows])
    stated = prior.state(args.prior, [ScoreTable({}, tuple(labels), {"test": unscored})])
    name = re.sub(r"[^\w.-]", "_", f"my_{source.path.stem}")  # no task of the package begins so
    files = {TEXTS: source.choose(rows, fields)}
    files |= {SHOWN: examples.choose(shown_rows, fields)} if shown_rows else {}
    files[TASK] = _describe(name, template, fields, labels, [*files])
    if args.dry_run:
        with temporary_folder() as folder:
            settings = _make_settings(args, folder / TASK, len(shown_rows))
            _write_files(folder, files, settings)
            (first,) = render_contexts(settings)
        prompts = cast("Sequence[str]", first.blocks["test"].inputs)
        print(f"the first of {len(rows):,} prompts:\n{prompts[0]}|")
        for label, forms in zip(first.label_names, first.label_texts, strict=True):
            print(f"label {label}: {', '.join(map(repr, forms))}")
        print(f"nothing was scored or written; predictions would be in {args.output}")
        return
    folder = Path(args.output).with_suffix(".task")
    settings = _make_settings(args, folder / TASK, len(shown_rows))
    _write_files(folder, files, settings)
    machine.set_up()
    report = studies.score(Study(settings, tuple(settings.grid())), str(folder))
    path = folder / "scores" / f"{report.ids[0]}.safetensors"
    table = load(path)
    summaries.say_notes(summaries.doubts([table]))
    context = follow_advice(table, *advise_contexts([table], stated, by_labels=True))
    summaries.show_advice([context], sys.stdout, shlex.quote(str(path)))
    # A server may refuse texts, so that they have no scores.
    block, names = table.blocks["test"], np.array(table.label_names, object)
    scored_rows = [rows[int(row_id.rpartition("/")[2])] for row_id in block.row_ids]
    beside = {"id": np.array(ids, object)[scored_rows]} if ids else {}
    beside["raw_prediction"] = names[block.log_probs.argmax(axis=1)]
    numbered = block._replace(row_ids=tuple(map(str, scored_rows)))
    table = table._replace(blocks={"test": numbered})
    scored = output.Scored(table, context.scores, source.path, has_probs=True, beside=beside)
    output.write([scored], args.output)
    changed = f"{len(scored_rows):,} of {len(rows):,} texts, {len(context.diagnosis.changed):,} "
    print(f"\npredictions: {args.output} ({changed}corrected)")
    print("scores are kept: with --prior=SHARES, such as --prior=balanced, nothing is scored again")
    print(f"task: {folder / TASK}; if you edit it, go on with\n{_next(folder, settings)}")


def read_source(path: Path, gold: str, labels: Iterable[str]) -> Source:
    """Reads a CSV, TSV, JSON Lines or Parquet file with a row for each text.

    Args:
        path: the file.
        gold: the column of right labels, which one of several files may lack; "" for none.
        labels: the labels.
    """
    if not path.is_file():
        raise InputError.at(path, "a file of texts", "none", "correct the path")
    if path.suffix.lower() not in ENDINGS:
        remedy = "write one, with a line of column names"
        raise InputError.at(path, f"a file that ends in {', '.join(ENDINGS)}", remedy=remedy)
    names, rows = read_table(path)
    source = Source(path, names, rows, [-1] * len(rows))
    if gold not in names:
        return source
    where, cells, order = f"{path}, column {gold!r}", source.column(gold), [*labels]
    if names_by_index := index_order({*cells}, order):
        note = f"{where}: {list_indices(names_by_index)} by the order of --labels"
        summaries.say_notes([f"{note}; write them in another order if it is another."])
    return source._replace(gold=gold_indices(where, cells, order).tolist())


def _read_labels(text: str) -> Words:
    """Reads the labels and their words from a text such as A,B or A=x|y,B=z."""
    forms, labels = options.split_tokens(text), dict[str, tuple[str, ...]]()
    names = [pair.partition("=")[0].strip() for pair in text.split(",") if pair.strip()]
    for name in names:
        labels[name] = tuple(filter(None, map(str.strip, forms[name]))) or (name,)
    words = [*chain(*labels.values())]
    repeated = first_repeated(names) or first_repeated(words)
    if repeated or len(names) < 2 or "" in names:
        expected = "two or more different labels, with different words"
        remedy = "use --labels=pos,neg or --labels='pos=great|good,neg=terrible'"
        got = f"{repeated!r} twice" if repeated else repr(text)
        raise InputError.at("--labels", expected, got, remedy)
    if longer := [word for word in words if word.startswith(tuple(map("{} ".format, words)))]:
        note = f"{longer[0]!r} begins with other words of --labels, which never score lower"
        summaries.say_notes([f"{note}; words that begin differently are compared better."])
    return labels


def _choose_demonstrations(
    args: Namespace, source: Source, labels: Iterable[str]
) -> tuple[Source, list[int], list[int]]:
    """Returns the source of demonstrations, their rows in it, and the rows to classify."""
    text, rows = args.demonstrations, [*range(len(source.rows))]
    column, equals, value = text.partition("=")
    if not text:
        return source, [], rows
    if Path(text).is_file() == (column in source.names):
        expected = f"a file, or a column of {source.path} ({', '.join(source.names)})"
        remedy = "correct the name, or write ./NAME for a file with the name of a column"
        raise InputError.at("--demonstrations", expected, repr(text), remedy)
    if column not in source.names:
        examples = read_source(Path(text), args.gold, labels)
        chosen = [*range(len(examples.rows))]
    else:
        examples, cells = source, source.column(column)
        values = {*cells}
        marks = {value} if equals else {one for one in values if one.casefold() in MARKS}
        others = {*map(str.casefold, values - marks)}
        if len(marks & values) != 1 or not (equals or (len(values) == 2 and others <= NO_MARKS)):
            expected = "two values, true and false, that mark the demonstrations"
            remedy = f"name the mark, as in --demonstrations={column}={min(values)}"
            where = f"{source.path}, column {column!r}"
            raise InputError.at(where, expected, shown(sorted(values)), remedy)
        chosen = [row for row in rows if cells[row] in marks]
        rows = [row for row in rows if cells[row] not in marks]
    unlabeled = [row + 1 for row in chosen if examples.gold[row] < 0]
    if unlabeled or not rows:
        expected = "right labels of the demonstrations, and other rows to classify"
        got = f"no label in row {unlabeled[0]}" if unlabeled else "no other row"
        remedy = "name the column of labels with --gold, or choose other rows"
        raise InputError.at(examples.path, expected, got, remedy)
    return examples, chosen, rows


def _read_prompt(args: Namespace, source: Source) -> tuple[str, dict[str, str]]:
    """Returns the template, and the column of each of its fields."""
    names, text, fields = source.names, args.text, dict[str, str]()
    prompt = args.prompt.replace("\\n", "\n") or PROMPT
    if text:
        refuse_unknown("column", text, names, where="--text")
    for number, name in enumerate(names):
        braced = f"{{{name}}}"
        if braced in prompt and name not in ("label", "text"):
            # A template's field has letters, digits and _.
            field = name if FIELD.fullmatch(braced) else f"column_{number}"
            fields[field], prompt = name, prompt.replace(braced, f"{{{field}}}")
    if "{text}" in prompt:
        is_named = "{text}" in args.prompt and "text" in names
        taken = args.gold, args.ids or "id", args.demonstrations.partition("=")[0]
        fields["text"] = "text" if is_named else text or _find_text(source, taken)
    if "{label}" not in prompt:
        prompt += " " * (not prompt[-1].isspace()) + "{label}"
    unknown = {*fields_of(prompt)} - {*fields, "label"}
    if unknown or not fields or (text and text not in fields.values()):
        expected = f"the columns of the texts in braces, among {', '.join(names)}"
        got = shown(args.prompt) + f" and --text={text}" * bool(text)
        remedy = "write {text} for the column of --text, and the names of other columns"
        raise InputError.at("--prompt", expected, got, remedy)
    if not prompt.endswith("{label}") or prompt.count("{label}") > 1:
        expected, remedy = "{label} once, at the end", "move it there, or leave it out"
        raise InputError.at("--prompt", expected, shown(args.prompt), remedy)
    return prompt, fields


def _find_text(source: Source, taken: Sequence[str]) -> str:
    """Returns the only column that could be the text, by its values."""
    words = dict[str, float]()
    for name in source.names:
        cells = source.column(name)
        if name not in taken and len({*cells}) > len(cells) / 2:
            sizes = [len(cell.split()) * bool(LETTER.search(cell)) for cell in cells]
            words[name] = float(np.median(sizes))
    # If no column has several words, a text may be a single word.
    found = [name for name in words if words[name] > 1] or [name for name in words if words[name]]
    if len(found) != 1:
        remedy = "name the column with --text, or several with --prompt='{title} {body}'"
        got = f"{shown(found)}, which could be" if found else shown(source.names)
        raise InputError.at(source.path, "one column of texts", got, remedy)
    summaries.say_notes([f"The column {found[0]!r} is read as the text (--text)."])
    return found[0]


def _describe(
    name: str, template: str, fields: Iterable[str], labels: Words, files: Sequence[str]
) -> str:
    """Returns the text of a task file."""
    toml = partial(json.dumps, ensure_ascii=False)
    text = f"name = {toml(name)}\nfields = {toml([*fields])}\nlabel_names = {toml([*labels])}\n"
    text += f'labels_are = "numbers"\ntemplate = {toml(template)}\n\n[verbalizer]\n'
    for label, forms in labels.items():
        text += f"{toml(label)} = {toml(forms)}\n"
    text += f'\n[files]\nvalidation = "{TEXTS}"\n' + f'train = "{SHOWN}"\n' * (SHOWN in files)
    # JSON's texts are TOML's, except that TOML escapes DEL.
    return text.replace("\x7f", "\\u007f")


def _sign(files: Mapping[str, str]) -> dict[str, str]:
    """Returns files of a task, with their digest in the first line of the task file."""
    first = "# Written by batch-calibration classify, which keeps edited files. Digest:"
    return {**files, TASK: f"{first} {digest(files)}\n{files[TASK]}"}


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
    default, chosen = Settings().flat(), settings.replace(methods=()).flat()
    flags = [guard.flag(name, chosen[name]) for name in chosen if chosen[name] != default[name]]
    return shlex.join(["batch-calibration", "score", f"--workdir={folder}", *flags])


def _make_settings(args: Namespace, task: Path, shots: int) -> Settings:
    """Returns the settings of the study: one context, all demonstrations in their order."""
    if not args.server and (of_server := given_keys(args, ("api",))):
        flag = guard.flag(next(iter(of_server)))
        raise InputError.at(flag, "a server to ask", "none", "add --server=URL, or leave it out")
    own: dict[str, object] = {"tasks": (str(task),), "shots": shots, "methods": ("bc",)}
    own |= {"selection": "explicit", "demonstrations": tuple(range(shots))} if shots else {}
    own |= {"scorer": "api", "api_scores": DEFAULT_WAY} if args.server else {}
    for name, text in given_keys(args, ("prompt", "model", "api")).items():
        if name != "demonstrations":  # here a file or a column
            own[name] = read_value(name, text)
    return Settings.of(**own)
