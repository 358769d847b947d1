"""Reads the score tables that the options name: files, folders, globs, standard input, probes."""

import glob
import re
import shlex
import shutil
import sys
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain
from operator import itemgetter
from pathlib import Path
from typing import NoReturn

from batch_calibration import importers
from batch_calibration.arrays.missing_scores import check_missing
from batch_calibration.cli import guard, options
from batch_calibration.cli.labeling import label_rows
from batch_calibration.cli.progress import show_progress
from batch_calibration.errors import InputError, step
from batch_calibration.files import Json, temporary_folder
from batch_calibration.files.rows import refuse_remote
from batch_calibration.importers import Reading
from batch_calibration.methods import METHODS
from batch_calibration.methods.run import have_same_rows, task_of
from batch_calibration.reporting.frame import Frame, group_by
from batch_calibration.scores import POOLED_AS, ScoreTable

INPUT = "the input"
"""Name of standard input in messages."""
LOG = re.compile(r"samples_.*\.jsonl(\.gz|\.zst)?")
"""Names of the harness's logs of samples, compressed or not."""
SHARD = re.compile(r"-\d{3,}-of-\d{3,}|^part-\d{4,}")
"""Names that Hugging Face's and Spark's writers give to the parts of one data set."""
BESIDE_PARQUET = ("_SUCCESS", "_metadata", "_common_metadata")
RANGES = ("calibrate", "diagnose")
"""Commands that show the range of predictions that missing labels allow."""
ALL_PROBES = [method.probe for method in METHODS.values()]
READ_BLOCKS = dict.fromkeys(chain(*(probe.blocks for probe in ALL_PROBES)))  # in order, once
PROBES = tuple(name for name in READ_BLOCKS if name not in ("test", "labeled"))
"""Names of blocks that --probe accepts."""
LABELED = set(chain(*(probe.labeled for probe in ALL_PROBES)))
"""Names of blocks with right labels that a method reads."""


def reading_of(args: Namespace) -> Reading:
    """Returns the reading that the options describe."""
    missing = args.missing
    # `_range` reads the files again for each distance; this reading places missing scores nearest.
    if missing == "bound":
        if args.command not in RANGES:
            expected, remedy = f"the command {' or '.join(RANGES)}", "use --missing=least"
            raise InputError.at("--missing=bound", expected, args.command, remedy)
        missing = "least"
    as_given = ("format", "gold", "gold_as_is", "ids", "task", "model", "filter", "at")
    return Reading(
        labels=options.split_names(args.labels),
        gold_names=options.split_names(args.gold_names),
        tokens=options.split_tokens(args.tokens),
        by=options.split_names(args.by),
        missing=None if missing is None else check_missing(missing),
        from_probs="counts" if args.counts else False if args.cosines else args.from_probs,
        **{name: getattr(args, name) for name in as_given},
    )


def typed_source(args: Namespace, flags: Sequence[options.Flag] = options.READING) -> str:
    """Returns the files and the flags that are set as they are typed: "scores.csv --gold=label"."""
    typed = [*args.files]
    for flag in flags:
        value = getattr(args, flag.name.replace("-", "_"))
        values = value if isinstance(value, list) else [value] * (value != flag.default)
        typed += [guard.flag(flag.name, one) for one in values]
    return shlex.join(typed)


def contexts(args: Namespace, **changes: float) -> tuple[list[Path], list[ScoreTable]]:
    """Reads the contexts with the blocks of --probe and --labeled.

    Args:
        args: Options of the command.
        **changes: Fields of the `Reading` to replace.

    Returns:
        The file of each context, and the contexts.

    Raises:
        InputError: The files or the options are wrong.
    """
    reading = replace(reading_of(args), **changes)  # type: ignore[arg-type]
    files = paths(args)
    if args.shards and len(files) > 1:
        tables = importers.read_shards(files, reading)
        table_files = files[:1] * len(tables)
    else:
        table_files, tables = _read(files, reading)
    tables = _named_apart(table_files, tables)
    for block, pairs in group_by([*probes(args)], itemgetter(0)).items():
        tables = _with_block(tables, block, [table for _, table in pairs])
    if getattr(args, "labeled", ""):
        files_of_labels = expand(args.labeled)
        widened = label_rows(tables, files_of_labels[0], reading)
        if widened is None and args.command == "label":
            raise InputError.at("--labeled", "the ids and labels of rows, without scores", "others")
        if widened is None:
            # --by does not split the labeled set: each context takes the rows of its model.
            _, labeled_tables = _read(files_of_labels, replace(reading, by=()))
            widened = _with_block(tables, "labeled", labeled_tables)
        tables = widened
    if args.cosines:
        kind: dict[str, Json] = {"scorer": {"kind": "dual_encoder"}}
        tables = [table._replace(context={**table.context, **kind}) for table in tables]
    return table_files, tables


def check_written(args: Namespace) -> None:
    """Raises an error for remote files and for an output that would replace an input file."""
    probe_files = [text.partition("=")[2] or text for text in getattr(args, "probe", None) or ()]
    names = [*args.files, getattr(args, "labeled", ""), getattr(args, "advice", ""), *probe_files]
    names.append(getattr(args, "demonstrations", ""))
    for name in names:
        refuse_remote(name)
    for flag in ("output", "plot", "workdir"):
        written = getattr(args, flag, "") or ""
        refuse_remote(written, f"--{flag}")
        if flag == "workdir" or not Path(written).is_file():
            continue
        for name in filter(None, names):
            files = glob.glob(name, recursive=True) if glob.has_magic(name) else [name]
            folders = [Path(file) for file in files if Path(file).is_dir()]
            for path in chain(files, *(folder.iterdir() for folder in folders)):
                if Path(path).exists() and Path(path).samefile(written):
                    raise InputError.at(f"--{flag}", "a file that is not an input", written)


def paths(args: Namespace) -> list[Path]:
    """Returns the files that hold the scores.

    Raises:
        InputError: Files are missing, or file names look like shards and --shards is not given.
    """
    files = list(chain.from_iterable(map(expand, args.files)))
    named_as_shards = [path for path in files if SHARD.search(path.name)]
    if len(named_as_shards) > 1 and args.shards is None:
        expected = f"--shards or --no-shards, as {len(named_as_shards)} files look like shards"
        remedy = "pass --shards if they are parts of one data set, which has one bias, or "
        remedy += "--no-shards if each is a context with its own bias"
        raise InputError.at(named_as_shards[0], expected, remedy=remedy)
    return files


def note_of_files(
    args: Namespace, files: Sequence[Path], tables: Sequence[ScoreTable] = ()
) -> list[str]:
    """Returns a note on how several files are treated; no note if this is clear."""
    # Score tables are always contexts.
    is_plain = args.shards is None and all(path.suffix == ".safetensors" for path in files)
    if len(files) < 2 or args.shards is False or is_plain:
        return []
    if args.shards:
        return [f"The {len(files):,} files are parts of one data set and share one bias."]
    note = (
        f"Each of the {len(files):,} files is a context with its own bias; pass --shards if they "
    )
    note += "are parts of one data set, which has one bias"
    are_alike = len({table.label_names for table in tables}) == 1
    if are_alike and len(set(map(task_of, tables))) == len(tables) > 2:  # fewer are not pooled
        note += ", or --task=NAME (and --ids) to pool them if they are prompts of one task"
    return [f"{note}."]


def probes(args: Namespace) -> Iterator[tuple[str, ScoreTable]]:
    """Yields the contexts of --probe, each with the name of its block."""
    for text in getattr(args, "probe", []):
        name, equals, file = text.partition("=")
        # A path without a block name may contain "="; its block is the first that the method reads.
        if not equals or name not in PROBES:
            method = METHODS.get(getattr(args, "method", ""))
            blocks = method.probe.blocks if method else ()
            name, file = next((block for block in blocks if block in PROBES), "cc"), text
        # Content-free prompts have no subject and no right label.
        gold = args.gold if name in LABELED else ""
        without = replace(reading_of(args), by=(), gold=gold, ids="")
        for table in _read(expand(file), without)[1]:
            yield name, table


def _read(files: Sequence[Path], reading: Reading) -> tuple[list[Path], list[ScoreTable]]:
    """Returns the file of each context in some files, and the contexts."""
    table_files, tables = list[Path](), list[ScoreTable]()
    read = (_read_file(path, reading) for path in files)
    for path, found in zip(files, show_progress("reading files", read, len(files)), strict=True):
        tables += found
        table_files += [path] * len(found)
    return table_files, tables


def _read_file(path: Path, reading: Reading) -> list[ScoreTable]:
    with _on_disk(path) as file:
        try:
            return importers.read(file, reading)
        except InputError as error:
            # Standard input is copied to a temporary file with a path unknown to the user.
            raise error.replacing(str(file), _title(path)) from error


def expand(name: str) -> list[Path]:
    """Returns the files that an argument names: a file, the matches of a glob, a folder's files."""
    path = Path(name)
    if name == "-" or path.is_file():
        return [path]
    if path.is_dir():
        if (path / "scores").is_dir():  # a workdir
            files = sorted((path / "scores").glob("*.safetensors"))
            return files or refuse_empty(path)
        # lm-evaluation-harness also writes results_*.json, which hold no scores.
        files = sorted(file for file in path.rglob("samples_*") if LOG.fullmatch(file.name))
        files = files or sorted(file for file in path.iterdir() if _may_hold_scores(file))
        # A data set may be split into subfolders.
        files = files or sorted(filter(_may_hold_scores, path.rglob("*.parquet")))
        if not files:
            raise InputError.at(name, "a folder with files of scores", "none")
        return files
    matches = sorted(glob.glob(name, recursive=True)) if glob.has_magic(name) else []
    if not matches:
        raise InputError.at(name, "a file of scores", "none", "correct the path")
    return list(chain.from_iterable(map(expand, matches)))  # a match may be a folder


def refuse_empty(workdir: Path) -> NoReturn:
    """Raises the error of a workdir without scores."""
    remedy = f"{step('score')} first"
    raise InputError.at(f"workdir {workdir}", "score tables in its folder scores/", "none", remedy)


def _may_hold_scores(path: Path) -> bool:
    """Checks whether a file is visible and is no metadata file of a Parquet writer."""
    return path.is_file() and not path.name.startswith(".") and path.name not in BESIDE_PARQUET


@contextmanager
def _on_disk(path: Path) -> Iterator[Path]:
    """Yields the path; copies standard input to a temporary file first and removes it later."""
    if str(path) != "-":
        yield path
        return
    with temporary_folder() as folder:
        copy = folder / "input"
        with copy.open("wb") as file:
            shutil.copyfileobj(sys.stdin.buffer, file)
        yield copy


def _title(path: Path) -> str:
    return INPUT if str(path) == "-" else str(path)


def _named_apart(files: Sequence[Path], tables: list[ScoreTable]) -> list[ScoreTable]:
    """Adds the file's name to the task's name if several contexts have the same name."""

    def name(table: ScoreTable) -> tuple[str, ...]:
        return tuple(str(table.context.get(key)) for key in ("task", "model", "shots", "seed"))

    # Tables and records identify a context by these keys.
    of_name, renamed = group_by(tables, name), list[ScoreTable]()
    if len(of_name) == len(tables):
        return tables
    for path, table in zip(files, tables, strict=True):
        stem = INPUT if str(path) == "-" else path.stem
        task, facts = str(table.context.get("task", "")), table.context
        # If the task already has the file's name, the folder's name is added instead.
        suffix = stem if task != stem else path.parent.name
        if len(alike := of_name[name(table)]) > 1:
            own = {"file": suffix}
            if differing := _options_apart(alike):
                suffix, own = differing[table.id], {}
            facts = {POOLED_AS: task, **facts, "task": f"{task} {suffix}".strip()}
            if have_same_rows(alike):
                facts["factors"] = {"task": task, **own}
        renamed.append(table._replace(context=facts))
    if len(set(map(name, renamed))) < len(renamed):
        remedy = "pass the columns that differ as --by, or rename one of the files"
        got = "two with one name, which would be indistinguishable"
        raise InputError.at(_title(files[0]), "contexts with different names", got, remedy)
    return renamed


def _options_apart(tables: Sequence[ScoreTable]) -> dict[str, str]:
    """Maps the ids of contexts to the options in which they differ; empty if they do not."""
    from batch_calibration.studies import Record

    group = Frame([Record.without_methods(table) for table in tables])
    is_alike = "id" in group.varying or not group.varying
    return {} if is_alike else {t.id: name for t, name in zip(tables, group.names, strict=True)}


def _with_block(
    tables: list[ScoreTable], name: str, probe_tables: Sequence[ScoreTable]
) -> list[ScoreTable]:
    """Adds the test rows of the probe tables to the contexts, as a block with this name."""
    # A single probe table serves all contexts; of several, each model must have exactly one.
    by_model = {str(probe.context.get("model", "")): probe for probe in probe_tables}
    widened = []
    for table in tables:
        model = str(table.context.get("model", ""))
        probe_of_model = probe_tables[0] if len(probe_tables) == 1 else by_model.get(model)
        if probe_of_model is None or (len(probe_tables) > 1 and len(by_model) < len(probe_tables)):
            where = f"the block {name!r} of {table.context.get('task', 'a context')} {model}"
            expected = f"one context of this model among the {len(probe_tables)} in its file"
            remedy = "use a file with one context, or with one for each model"
            raise InputError.at(where, expected, remedy=remedy)
        if probe_of_model.label_names != table.label_names:
            expected = f"the labels {', '.join(table.label_names)}"
            where, got = f"the block {name!r}", ", ".join(probe_of_model.label_names)
            raise InputError.at(where, expected, got, "give them the same names with --labels")
        widened.append(table._replace(blocks={**table.blocks, name: probe_of_model.blocks["test"]}))
    return widened
