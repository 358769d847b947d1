"""The flags of the console program on studies: one for each key of `Settings`, and its own."""

import ast
from argparse import ArgumentParser, Namespace, _ArgumentGroup
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

from batch_calibration.cli import launchers, machine
from batch_calibration.cli.config_files import read_config, read_study
from batch_calibration.errors import InputError
from batch_calibration.settings import Settings, Study, combinations, gather, keys, varied
from batch_calibration.settings.key import Value

COMMANDS = {
    "score": "ask a model for label scores, context by context, and keep them in a workdir",
    "sweep": "score with several workers: processes, jobs of Slurm, or tasks of Ray",
    "show": "show what a model will be asked, where its labels begin and what that costs",
    "status": "how far the runs on a workdir are: done, running, failed and left",
    "tables": "tables of a workdir: in the terminal, as Markdown, LaTeX and CSV",
    "figures": "figures of a workdir, as PNG and PDF",
    "merge": "bring the scores of several workdirs into one, each block kept; nothing is scored",
    "data": "show a task's rows, where they come from, and whether the paper has as many",
    "prepare_data": "turn files of rows into folders that TensorFlow Datasets opens",
}
"""Commands on studies alone; `calibrate` and `report` are on files of scores, too."""
SCORING = ("", "data", "prompt", "model", "api")
"""Parts of the settings that decide what is scored."""
PARTS = {"score": SCORING, "sweep": SCORING, "show": SCORING, "calibrate": ("calibration",)}
"""Command -> the parts of the settings whose keys are its flags."""
WITH_CONFIG = (*PARTS, "status")
"""Commands that take a config file."""
WITHOUT_WORKDIR = ("show", "data", "prepare_data")
METAVARS: dict[object, str] = {int: "N", float: "X", str: "TEXT", bool: "{True,False}"}
MACHINE = {name: (kind, None, text) for name, (kind, text) in machine.FLAGS.items()}
FLAGS: dict[str, dict[str, tuple[type, object, str]]] = {
    "score": {**MACHINE},
    "sweep": {
        "launcher": (str, "local", f"{launchers.HELP} (default: local)"),
        "workers": (int, 2, "how many share the sweep (default: 2)"),
        "dry_run": (bool, False, "print contexts, tokens and time; score nothing"),
        **{name: (flag.text_kind, None, flag.help) for name, flag in launchers.FLAGS.items()},
    },
    "show": {
        "rows": (int, 3, "rows of each block to show (default: 3)"),
        "nocost": (bool, False, "do not count the tokens of the whole sweep"),
    },
    "calibrate": {
        "floor": (float, None, "raise scores below it, -inf too, to this many nats"),
        "tasks": (str, None, "calibrate scores of these tasks alone"),
        "shots": (int, None, "calibrate scores of so many shots alone"),
        **MACHINE,
    },
    "tables": {"quiet": (bool, False, "write the files and print no table")},
    "figures": {"boundary_tasks": (int, 2, "tasks in the figure of boundaries (default: 2)")},
    "merge": {
        "from": (str, None, "workdirs to read, comma-separated"),
        "tolerance": (
            float, 1e-3, "nats by which two scores of one label may differ (default: 0.001)"
        ),
    },
    "data": {
        "task": (str, "", "a task's name, or the path of a task file"),
        "all": (bool, False, "every task that the package has"),
        "data_dir": (str, "", "folder of rows, or 'mini'"),
    },
    "prepare_data": {
        "source": (str, None, "folder of rows: one for each task, with a file for each split"),
        "data_dir": (str, None, "folder for the TFDS folders"),
        "rename": (
            str, None, "task/file=split for rows with another official name; ANLI's pools, MNLI's "
            "matched split, AG News and TREC have theirs"
        ),
    },
}  # fmt: skip
"""Command -> name -> kind, default and help of its flags that are no keys."""
REQUIRED = ("from", "source", "data_dir")
"""Those of them that must be given, where they have no default."""


def add_flags(group: ArgumentParser | _ArgumentGroup, command: str) -> None:
    """Add the flags of a command on studies to a parser or a group of one."""
    if command not in WITHOUT_WORKDIR:
        is_required = command in COMMANDS  # calibrate and report may have files in its place
        group.add_argument(
            "--workdir", required=is_required, default="", metavar="DIR", help="folder of the study"
        )
    if command in WITH_CONFIG:
        group.add_argument(
            "--config", metavar="FILE[:PRESET]",
            help="a config file; other flags go before its keys, as --config.KEY or --KEY",
        )  # fmt: skip
    for name, (kind, default, text) in FLAGS.get(command, {}).items():
        if kind is bool:
            group.add_argument(f"--{name}", action="store_true", help=text)
        else:
            group.add_argument(
                f"--{name}", type=kind, default=default, metavar=METAVARS[kind], help=text,
                required=default is None and name in REQUIRED,
            )  # fmt: skip
    _add_keys(group, PARTS.get(command, ()))


def add_asking(parser: ArgumentParser) -> None:
    """Add the flags of `ask`: the file's columns, and the keys of a server."""
    add = parser.add_argument_group("what is asked").add_argument
    add("--labels", required=True, metavar="A,B", help="the answers whose scores are asked for")
    add("--model", required=True, metavar="NAME", help="what the server calls the model")
    add("--prompt", default="", metavar="COLUMN",
        help="prompts' column (default: prompt, text, input, question or messages)")  # fmt: skip
    add("--ids", default="", metavar="COLUMN", help="column of row ids (default: id, or numbers)")
    add("--gold", default="", metavar="COLUMN",
        help="column of the right label (default: label, gold or answer)")  # fmt: skip
    # A tokenizer is for ways that send token ids, which studies alone take.
    group = parser.add_argument_group("how; api_scores is chat here by default")
    _add_keys(group, ("api",), without=("tokenizer",))


def _add_keys(
    group: ArgumentParser | _ArgumentGroup,
    part_names: Collection[str],
    without: Collection[str] = (),
) -> None:
    """Add a flag for each key of some parts of the settings."""
    for name, key in keys().items():
        if key.part in part_names and name not in without:
            default = f" (default: {key.default})" if key.default not in ("", ()) else ""
            choices = "{" + ",".join(key.choices) + "}" if key.choices else ""
            metavar = choices or ("A,B" if key.is_tuple else METAVARS[key.kind])
            # argparse would read "%" as a place for something.
            text = (key.help.rstrip(".") + default).replace("%", "%%")
            group.add_argument(f"--{name}", metavar=metavar, help=text)


def flag_names(command: str) -> set[str]:
    """The names of all flags of a command on studies."""
    part_names = PARTS.get(command, ())
    by_key = {name for name, key in keys().items() if key.part in part_names}
    return {"workdir", "config", *FLAGS.get(command, {}), *by_key}


def read_value(name: str, text: str) -> Value:
    """The value of a key from a text; tuples may be written as in Python.

    Raises:
        InputError: a value that the key cannot have.

    >>> read_value("tasks", "sst2,rte"), read_value("demonstrations", "1,2")
    (('sst2', 'rte'), (1, 2))
    """
    key = keys()[name]
    if key.is_tuple:
        with suppress(ValueError, SyntaxError):  # names need no quotes
            members = ast.literal_eval(text)
            # "1" is a tuple of one.
            return key.check(members if isinstance(members, list | tuple) else (members,))
    return key.parse(text)


def read_values(name: str, text: str) -> list[Value]:
    """The values of a key that a text names; a template's own text and a path are one value.

    Raises:
        InputError: a value that the key cannot have.

    >>> read_values("shots", "1,2,4"), read_values("template", '("a, {label}", "b {label}")')
    ([1, 2, 4], ['a, {label}', 'b {label}'])
    """
    key = keys()[name]
    if key.is_tuple or name not in varied():
        return [read_value(name, text)]
    if text[:1] not in ("(", "["):  # not a Python list
        is_one = "{" in text or Path(text).exists()  # its commas separate nothing
        return [key.parse(member.strip()) for member in ([text] if is_one else text.split(","))]
    try:
        values = ast.literal_eval(text)
    except (ValueError, SyntaxError) as error:
        expected = 'several values such as \'("a","b")\''
        raise InputError(key=name, expected=expected, got=repr(text)) from error
    if not isinstance(values, list | tuple):  # "(a)" is a text in parentheses
        return [key.parse(text)]
    return [key.parse(value) if isinstance(value, str) else key.check(value) for value in values]


def given_keys(args: Namespace, part_names: Collection[str]) -> dict[str, str]:
    """The keys of some parts of the settings that were given, and what was given for each."""
    names = [name for name, key in keys().items() if key.part in part_names]
    # None: left out.
    return {name: text for name in names if (text := getattr(args, name, None)) is not None}


def chosen_settings(args: Namespace) -> Settings:
    """The settings of the config file and the flags of keys, which go before it."""
    texts = given_keys(args, PARTS[args.command])
    config = read_config(args.config) if args.config is not None else {}
    return Settings.of(**config | {name: read_value(name, text) for name, text in texts.items()})


def chosen_studies(args: Namespace) -> list[Study]:
    """A study for each model that the config file and the flags name; a flag may have several.

    Raises:
        InputError: several values where the command takes one study.
    """
    read = read_values if args.command == "sweep" else _read_one
    texts = given_keys(args, PARTS.get(args.command, ()))
    choices = {name: read(name, text) for name, text in texts.items()}
    several = {name: values for name, values in choices.items() if len(values) > 1}
    config: dict[str, object] = read_config(args.config) if args.config is not None else {}
    config |= {name: values[0] for name, values in choices.items()}
    studies = []
    for combination in combinations(several):
        if args.config is not None:
            studies.append(read_study(args.config, config | combination))
        else:
            settings = Settings.of(**config | combination)
            studies.append(Study(settings, tuple(settings.grid())))
    return gather(studies)


def _read_one(name: str, text: str) -> list[Value]:
    return [read_value(name, text)]
