"""The flags of the console program on studies: one for each key of `Settings`, and its own."""

import ast
from argparse import ArgumentParser, Namespace, _ArgumentGroup
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

from batch_calibration.cli import launchers, machine, studies
from batch_calibration.errors import InputError
from batch_calibration.settings import Settings, Study, grid, keys, varied
from batch_calibration.settings.key import Value

COMMANDS = {
    "score": "ask a model for label scores, context by context, and keep them in a workdir",
    "sweep": "score with several workers: processes, jobs of Slurm, or tasks of Ray",
    "show": "show what a model will be asked, where its labels begin and what that costs",
    "status": "how far the runs on a workdir are: done, running, failed and left",
    "tables": "tables of a workdir: in the terminal, as Markdown, LaTeX and CSV",
    "figures": "figures of a workdir, as PNG and PDF",
}
"""Commands on studies alone; `calibrate` and `report` are on files of scores, too."""
SCORING = ("", "data", "prompt", "model", "api")
"""Parts of the settings that decide what is scored."""
PARTS = {"score": SCORING, "sweep": SCORING, "show": SCORING, "calibrate": ("calibration",)}
"""Command -> the parts of the settings whose keys are its flags."""
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
    "tables": {"tensorboard": (bool, False, "also write WORKDIR/tensorboard")},
    "figures": {"boundary_tasks": (int, 2, "tasks in the figure of boundaries (default: 2)")},
}
"""Command -> its flags beside --workdir and the keys: type, default, what help says of it."""


def add_flags(group: ArgumentParser | _ArgumentGroup, command: str) -> None:
    """Add the flags of a command on studies to a parser or a group of one."""
    if command != "show":  # `show` keeps nothing
        is_required = command in COMMANDS  # calibrate and report may have files in its place
        group.add_argument(
            "--workdir", required=is_required, default="", metavar="DIR", help="folder of the study"
        )
    for name, (kind, default, text) in FLAGS.get(command, {}).items():
        if kind is bool:
            group.add_argument(f"--{name}", action="store_true", help=text)
        else:
            metavar = METAVARS[kind]
            group.add_argument(f"--{name}", type=kind, default=default, metavar=metavar, help=text)
    _add_keys(group, PARTS.get(command, ()))


def add_asking(parser: ArgumentParser) -> None:
    """Add the flags of `ask`: the file's columns, and the keys of a server."""
    add = parser.add_argument_group("what is asked").add_argument
    add("--labels", required=True, metavar="A,B", help="the answers whose scores are asked for")
    add("--model", required=True, metavar="NAME", help="what the server calls the model")
    add("--prompt", default="", metavar="COLUMN",
        help="column of the prompts (default: prompt, text, input or question)")  # fmt: skip
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
    return {"workdir", *FLAGS.get(command, {}), *by_key}


def read_value(name: str, text: str) -> Value:
    """What a text says of a key; tuples may be written as in Python.

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


def _texts(args: Namespace) -> dict[str, str]:
    return given_keys(args, PARTS[args.command])


def _read_settings(args: Namespace) -> Settings:
    return Settings.of(**{name: read_value(name, text) for name, text in _texts(args).items()})


def _read_study(args: Namespace) -> Study:
    settings = _read_settings(args)
    return Study(settings, tuple(settings.grid()))


def _set_up_machine(args: Namespace) -> None:
    machine.set_up(*(getattr(args, name) for name in machine.FLAGS))


def _keep_programs() -> None:
    from batch_calibration.cli.compilation_cache import keep_programs

    keep_programs()


def _score(args: Namespace) -> None:
    _set_up_machine(args)
    studies.score(_read_study(args), args.workdir)


def _calibrate(args: Namespace) -> None:
    _set_up_machine(args)
    tasks = args.tasks.split(",") if args.tasks else ()
    settings = _read_settings(args).calibration
    studies.calibrate(args.workdir, settings, floor=args.floor, tasks=tasks, shots=args.shots)


def _sweep(args: Namespace) -> None:
    first, varying = dict[str, Value](), dict[str, list[Value]]()
    for name, text in _texts(args).items():
        several = read_values(name, text)
        # Settings hold one value of each key; the grid puts others in the place of those that vary.
        first[name] = several[0]
        if len(several) > 1:
            varying[name] = several
    flags = {name: getattr(args, name) for name in launchers.FLAGS}
    launcher = launchers.make_launcher(args.launcher, args.workers, flags)
    grids = grid(Settings.of(**first), **varying)
    studies.sweep(grids, args.workdir, launcher, args.workers, dry_run=args.dry_run)


def _show(args: Namespace) -> None:
    studies.show(_read_study(args), rows=args.rows, cost=not args.nocost)


def _status(args: Namespace) -> None:
    studies.show_status(args.workdir)


def _tables(args: Namespace) -> None:
    studies.write_tables(args.workdir, tensorboard=args.tensorboard)


def _figures(args: Namespace) -> None:
    _keep_programs()
    studies.write_figures(args.workdir, boundary_tasks=args.boundary_tasks)


def _report(args: Namespace) -> None:
    _keep_programs()
    studies.write_report(args.workdir)


RUN = {
    "calibrate": _calibrate, "figures": _figures, "report": _report, "score": _score,
    "show": _show, "status": _status, "sweep": _sweep, "tables": _tables,
}  # fmt: skip
