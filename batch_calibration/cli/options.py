"""The flags of the console program, and what they say of a file of scores."""

import argparse
import difflib
import importlib.util
import os
import re
import shlex
import subprocess
import sys
from argparse import Namespace
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple, NoReturn

from batch_calibration.cli import guard, launchers, machine, studies
from batch_calibration.cli.study_options import PARTS
from batch_calibration.errors import InputError, answering
from batch_calibration.settings import keys
from batch_calibration.version import __version__

METAVARS: dict[object, str] = {int: "N", float: "X", str: "TEXT", bool: "{True,False}"}


class Flag(NamedTuple):
    """A flag of a command.

    Attributes:
        name: without its dashes.
        metavar: what help has in place of its value, None for the name; "" of a switch.
        help: what it means; the default is added where it does not say it.
        default: its value where it is left out; a list collects the values of a flag that is
            repeated, and a switch whose default is None can be given as --no-NAME too.
        kind: its type.
        of: the commands that have it, where others of its table do not.
        is_required: whether it must be given.
    """

    name: str
    metavar: str | None
    help: str
    default: object = ""
    kind: type = str
    of: str = ""
    is_required: bool = False


EXAMPLES = """examples, on scores that you have:
  batch-calibration calibrate scores.csv --gold=label --output=corrected.csv
  batch-calibration calibrate - < scores.csv > corrected.csv
  batch-calibration compare samples_boolq_2026-01-01.jsonl
  batch-calibration report 'logs/**/samples_*.jsonl' --output=report.html
  batch-calibration calibrate mmlu.npz --gold=answer --by=subject --probe=content_free.npz
"""
STUDY_EXAMPLES = """examples, of a study, in this order:
  batch-calibration score --model=mini --data=mini --tasks=sst2,rte --seeds=5 --workdir=W
  batch-calibration calibrate --workdir=W
  batch-calibration tables --workdir=W
  batch-calibration report --workdir=W
"""
HARNESS = "lm-eval"
HARNESS_EXAMPLE = """example:
  batch-calibration lm-eval --tasks=boolq,mmlu_anatomy -- --model hf --model_args pretrained=MODEL
"""
OF_APART = {
    "demo": (Flag("output", "DIR", "folder for the files (default: this one)", "."),),
    HARNESS: (
        Flag("tasks", "A,B", "tasks, groups and tags of the harness", None, is_required=True),
        Flag("method", None, "method without labels and probes", "bc"),
        Flag("prior", "P,Q", "share of each choice among the right ones, in their order"),
        Flag("include_path", "DIR", "a folder of tasks of your own"),
        Flag("output", "DIR", "folder of the tasks' YAML files", "corrected_tasks"),
    ),
}
"""Flags of commands that neither read scores nor run a study."""
OVERLAY_FLAGS = ("--tasks", "--include_path")
"""Flags of the harness that stand before the two dashes, since overlays are made of them."""
ON_FILES = {
    "calibrate": "correct scores, say what the prompt prefers and which predictions change",
    "diagnose": "say what the prompt prefers and whether a correction helps; write no scores",
    "compare": "every method side by side, on scores with right labels",
    "convert": "write score tables, for a workdir or a file",
    "ensemble": "one answer a row from several prompts' scores of the same rows",
    "recommend": "say which method to use, or to leave the scores as they are, and why",
    "report": "one HTML page: what each prompt prefers, every table and figure",
    "ask": "ask an API for the label scores of a file of prompts; no study, no probes",
    "judge": "of a judge of pairs: which place it prefers, and win rates without that",
}
ON_BOTH = ("calibrate", "report")
"""Commands on files of scores, or on the scores of a study in a workdir."""
CORRECTING, COMPARING = "calibrate diagnose", "compare report"
NO_SCORES = "ask judge"
"""Commands whose files hold no scores."""
ON_STUDIES = {
    "score": "ask a model for label scores, context by context, and keep them in a workdir",
    "sweep": "score with several workers: processes, jobs of Slurm, or tasks of Ray",
    "show": "show what a model will be asked, where its labels begin and what that costs",
    "status": "how far the runs on a workdir are: done, running, failed and left",
    "tables": "tables of a workdir: in the terminal, as Markdown, LaTeX and CSV",
    "figures": "figures of a workdir, as PNG and PDF",
    "merge": "bring the scores of several workdirs into one, each block kept; nothing is scored",
}
"""Commands on studies alone; `calibrate` and `report` are on files of scores, too."""
WITH_CONFIG = (*PARTS, "status")
"""Commands that take a config file."""
COMMANDS = {
    **ON_FILES,
    **ON_STUDIES,
    HARNESS: "run lm-evaluation-harness with the corrected accuracy next to its own",
    "completions": "print what a shell reads to complete commands, flags and values",
    "demo": "write files of scores, prompts and judgments to try the other commands on",
}
"""Every command, and what it does."""
GONE = {
    "data": "batch-calibration show --tasks=NAME --data=DIR shows a task's rows",
    "prepare_data": "rows are read from files directly, by score --data=DIR",
}
"""Removed command -> its replacement."""
OWN_EXAMPLES = """
calibrate scores.csv --gold=label --output=corrected.csv
calibrate 'logs/**/samples_*.jsonl' --prior=no=0.8,yes=0.2 --output=corrected.csv
diagnose scores.csv --gold=label --changed=20 --plot=bias.png
diagnose responses.jsonl --labels=yes,no --tokens='yes=Yes|yes,no=No|no' --missing=bound
compare samples_boolq_2026-01-01.jsonl --all
compare mmlu.npz --gold=answer --by=subject --probe=content_free.npz --methods=icl,bc,cc
convert 'logs/**/samples_*.jsonl' --workdir=W
convert scores.npz --labels=no,yes --output=scores.parquet
ensemble prompt_1.csv prompt_2.csv prompt_3.csv --gold=label
ensemble scores.csv --by=prompt --ids=id --output=averaged.csv
recommend scores.csv --gold=label
recommend scores.csv --share=0.3,0.7 --labeled=labeled.csv
report 'logs/**/samples_*.jsonl' --output=report.html
report --workdir=W
ask prompts.csv --labels=no,yes --model=NAME --server=URL --output=scores.csv --dry-run
ask prompts.csv --labels=no,yes --model=NAME --output=scores.csv --key_variable=KEY
judge pairs.jsonl --output=win_rates.csv
judge annotations.json --dry-run
"""
"""Two examples of each command on files."""
JUDGE_LINE = """
a line of pairs.jsonl, its log-odds in nats (p_first: from 0 to 1):
  {"question": 7, "candidate": "mine", "candidate_first": true,
   "log_odds_first": 0.7, "human": "first"}
without human where people did not answer; other forms: docs/judges.md
"""
EPILOGS = {
    HARNESS: HARNESS_EXAMPLE,
    "completions": "example:\n  batch-calibration completions bash > ~/.bash_completion\n",
    "demo": "examples:\n  batch-calibration demo\n  batch-calibration demo --output=DIR\n",
}  # fmt: skip
"""What follows the flags in a command's help, where that is no example of a study."""
SCORES = ".csv, .tsv, .jsonl, .parquet, .npz"
SHARES = (
    "shares of the labels, such as no=0.8,yes=0.2, or ranges such as no=0.7..0.9,yes=0.1..0.3; "
    "balanced; estimated; a file with LABEL,SHARE a line; or FILE:COLUMN, labels to count"
)
PLACE = "place of the label among several tokens: first, last, json:KEY or a regular expression"
MISSING = (
    "labels that were not returned: least (just below the least returned), drop, bound (the range "
    "that is possible), or nats such as -30"
)
READING = (
    Flag("format", "NAME", "an importer's name, where it is not found out"),
    Flag("labels", "A,B", "columns of scores, or label names in order"),
    Flag("tokens", "A=x|y,B=z", "tokens that mean a label"),
    Flag("gold", "COLUMN", "column of the right label, its name or index"),
    Flag("ids", "COLUMN", "column of row ids"),
    Flag("by", "COLUMN", "columns that tell contexts apart"),
    Flag("task", "NAME", "what to call the task"),
    Flag("model", "NAME", "what to call the model"),
    Flag("at", "PLACE", PLACE),
    Flag("filter", "NAME", "the filter of a harness log to read"),
    Flag("missing", None, MISSING, None),
    # By default each file is a context, unless their names say that they are shards.
    Flag("shards", "", "the files are parts of one data set", None),
    # By default found out from the numbers.
    Flag("from-probs", "", "the numbers are probabilities, or are not", None),
    Flag("cosines", "", "the numbers are cosines, scaled or not"),
)
LEARNING = (
    Flag("methods", "A,B", "methods (default: all that scores allow)", of=COMPARING),
    Flag("option", "METHOD.NAME=VALUE", "an option of a method; may be repeated", [], of=COMPARING),
    Flag("method", None, "method (default: bc); see docs/method.md", "bc", of=CORRECTING),
    Flag("option", "NAME=VALUE", "an option of the method; may be repeated", [], of=CORRECTING),
    Flag(
        "strength", None, "how much of the bias is removed (default: 1)", None, float, of=CORRECTING
    ),
    Flag("dtype", "NAME", "what the model computed in, as bfloat16", of=CORRECTING),
    Flag("prior", "SHARES", SHARES),
    Flag(
        "share", "LOW,HIGH", "range of the first of two labels' share, as 0.3,0.7", of="recommend"
    ),
    Flag("probe", "[cc=|dc=]FILE", "scores of content-free or random-word prompts", []),
    Flag("labeled", "FILE", "scores of a labeled set, read as the files are"),
    Flag("seed", None, "of methods that start at random", 0, int),
)
ANSWERS = "the scores, .csv; answers are kept next to it and not asked for again"
WRITING = (
    Flag("output", "FILE", f"corrected scores: {SCORES}; - is the output", of="calibrate"),
    Flag("output", "FILE", f"a score table (.safetensors), or scores as {SCORES}", of="convert"),
    Flag("output", "FILE", "the page", "report.html", of="report"),
    Flag("output", "FILE", f"the averaged scores: {SCORES}; - is the output", of="ensemble"),
    Flag("output", "FILE", "every candidate's win rates, .csv", of="judge"),
    Flag("output", "FILE", ANSWERS, of="ask"),
    Flag("changed", "N", "rows shown whose prediction changes", 5, int, of=CORRECTING),
    Flag("plot", "FILE", "a figure of shares and preferences: .png, .pdf or .svg", of=CORRECTING),
    Flag("results", "", "a copy of results_*.json with acc_METHOD", of="calibrate"),
    Flag("all", "", "all methods, and why others are left out", of="compare"),
    Flag("json", "", "a line of JSON a context, for programs", of="compare diagnose recommend"),
    Flag("quiet", "", "no notes and no progress, errors alone"),
    Flag("dry-run", "", "say what would be done, and do not do it", of=NO_SCORES),
    Flag("workdir", "DIR", "keep score tables in a workdir", of="convert"),
)
# Of prompts.
ASKING = (
    Flag("labels", "A,B", "the answers whose scores are asked for", None, is_required=True),
    Flag("model", "NAME", "what the server calls the model", None, is_required=True),
    Flag(
        "prompt", "COLUMN", "prompts' column (default: prompt, text, input, question or messages)"
    ),
    Flag("ids", "COLUMN", "column of row ids (default: id, or numbers)"),
    Flag("gold", "COLUMN", "column of the right label (default: label, gold or answer)"),
)


def _of_table(table: Mapping[str, tuple[type, str]]) -> list[Flag]:
    return [Flag(name, METAVARS[kind], text, None, kind) for name, (kind, text) in table.items()]


OF_STUDIES: dict[str, Sequence[Flag]] = {
    "score": _of_table(machine.FLAGS),
    "sweep": (
        Flag("launcher", "TEXT", launchers.HELP, "local"),
        Flag("workers", "N", "how many share the sweep", 2, int),
        Flag("dry_run", "", "print contexts, tokens and time; score nothing"),
        *_of_table(launchers.FLAGS),
    ),
    "show": (
        Flag("rows", "N", "rows of each block to show", 3, int),
        Flag("nocost", "", "do not count the tokens of the whole sweep"),
    ),
    "calibrate": (
        Flag("floor", "X", "raise scores below it, -inf too, to this many nats", None, float),
        Flag("tasks", "TEXT", "calibrate scores of these tasks alone", None),
        Flag("shots", "N", "calibrate scores of so many shots alone", None, int),
        *_of_table(machine.FLAGS),
    ),
    "tables": (Flag("quiet", "", "write the files and print no table"),),
    "figures": (Flag("boundary_tasks", "N", "tasks in the figure of boundaries", 2, int),),
    "merge": (
        Flag("from", "TEXT", "workdirs to read, comma-separated", None, is_required=True),
        Flag("tolerance", "X", "nats by which two scores of one label may differ", 1e-3, float),
    ),
}
"""Command -> its flags that are no keys."""


# A flag and its meaning share a line where they can.
HelpFormatter = partial(argparse.RawDescriptionHelpFormatter, max_help_position=32)


class Parser(argparse.ArgumentParser):
    """A parser that answers a mistake with one sentence."""

    def __init__(self, **options: object) -> None:
        # Without abbreviations, or a new flag would change the meaning of an old command.
        options |= {"formatter_class": HelpFormatter, "allow_abbrev": False}
        super().__init__(**options)  # type: ignore[arg-type]

    def error(self, message: str) -> NoReturn:
        """Say the sentence, with the nearest flag where one is unknown, and exit with 2."""
        unknown = re.search(r"unrecognized arguments: (--[\w-]+)", message)  # argparse's own words
        near = difflib.get_close_matches(unknown[1], self.flags(), n=1) if unknown else []
        hint = f"; did you mean {near[0]}?" if near else ""
        guard.fail(f"{message}{hint}; {self.prog} --help lists what there is.")

    def flags(self) -> list[str]:
        """Every flag of this parser and of its commands."""
        flags = list[str]()
        # A subcommand's choices are a dict of parsers; those of an ordinary flag are a list.
        for action in self._actions:
            flags += action.option_strings
            for command in action.choices.values() if isinstance(action.choices, dict) else ():
                flags += command.flags()
        return flags


def parse(arguments: Sequence[str]) -> Namespace:
    """The command that some words name, and its flags."""
    words = list(arguments)
    command = words[0] if words else ""
    if command in GONE:
        guard.fail(f"The command {command} is gone: {GONE[command]}.")
    if not command.startswith("-") and command and command not in COMMANDS:
        guard.fail(str(InputError.unknown("command", command, COMMANDS)))
    if command in WITH_CONFIG:
        # Keys may be written as the programs of experiments/ take them.
        words = [re.sub(r"^--config\.", "--", word) for word in words]
    of_study = any(word.startswith("--workdir") for word in words)
    parser, commands = _make_parser(command, of_study=of_study)
    args = parser.parse_args(words)
    if args.command in ON_BOTH:
        _check_source(commands[args.command], args)
    elif args.command in ON_STUDIES and getattr(args, "workdir", "none") == "":
        commands[args.command].error("--workdir: expected a folder; got nothing")
    return args


def _make_parser(chosen: str, *, of_study: bool = True) -> tuple[Parser, dict[str, Parser]]:
    """The parser of all commands, and that of each; the chosen one has flags, of "" all have.

    Without `of_study` the help of a command on files leaves out the flags of one on a workdir.
    """
    parser = Parser(
        prog="batch-calibration",
        description="Label-bias correction for scores that you already have (evaluation logs, API "
        "log-probabilities, tables, arrays), and studies that ask a model for them.",
        epilog=f"{EXAMPLES}\n{STUDY_EXAMPLES}",
    )
    parser.add_argument("--version", action="version", version=f"batch-calibration {__version__}")
    add = parser.add_subparsers(dest="command", metavar="COMMAND", required=True).add_parser
    commands = dict[str, Parser]()
    for name, summary in COMMANDS.items():
        own = (line for line in OWN_EXAMPLES.splitlines() if line.startswith(f"{name} "))
        lines = [f"  batch-calibration {line}" for line in own]
        lines += [JUDGE_LINE] * (name == "judge")
        if name in ON_BOTH and not of_study:
            lines.append(f"on a study:\n  batch-calibration {name} --workdir=W [--help]")
        title = f"{summary[0].upper()}{summary[1:]}."
        usage = f"batch-calibration {name} [FLAGS] FILE ..." if lines else None
        epilog = "\n".join(["examples:", *lines]) if lines else EPILOGS.get(name, STUDY_EXAMPLES)
        commands[name] = add(name, help=summary, description=title, usage=usage, epilog=epilog)
        if chosen in ("", name):
            _add_flags(commands[name], name, of_study=of_study)
    return parser, commands


def _add_flags(parser: Parser, command: str, *, of_study: bool) -> None:
    """Add the flags of a command to its parser."""
    if command in APART:
        add_flags(parser, OF_APART.get(command, ()))
        if command == "completions":
            parser.add_argument("shell", choices=("bash", "zsh", "fish", "tcsh"))
        if command == HARNESS:  # what follows two dashes is the harness's
            text = "arguments of lm_eval; without any, the command is printed and not run"
            parser.add_argument("arguments", nargs="*", metavar="-- ARGS", help=text)
        return
    if command in ON_FILES:
        _add_file_flags(parser, command)
    if command in ON_STUDIES:
        add_flags(parser, flags_of(command))
    if command in ON_BOTH:
        group = parser.add_argument_group("of a study, in place of files")
        add_flags(group, flags_of(command))
        for action in () if of_study else group._group_actions:
            action.help = argparse.SUPPRESS
    plugin = Flag("plugin", "FILE", "a Python file with a method or task of your own", [])
    add_flags(parser, [plugin])


def flags_of(command: str) -> list[Flag]:
    """The flags of a command on studies."""
    flags = list[Flag]()
    if command != "show":
        # calibrate and report may have files in its place
        is_required = command in ON_STUDIES
        flags.append(Flag("workdir", "DIR", "folder of the study", is_required=is_required))
    if command in WITH_CONFIG:
        text = "a config file; other flags go before its keys, as --config.KEY or --KEY"
        flags.append(Flag("config", "FILE[:PRESET]", text, None))
    return [*flags, *OF_STUDIES.get(command, ()), *flags_of_keys(PARTS.get(command, ()))]


@cache
def flags_of_keys(part_names: tuple[str, ...], without: tuple[str, ...] = ()) -> list[Flag]:
    """A flag for each key of some parts of the settings."""
    flags = []
    for name, key in keys().items():
        if key.part in part_names and name not in without:
            default = f" (default: {key.default})" if key.default not in ("", ()) else ""
            choices = "{" + ",".join(key.choices) + "}" if key.choices else ""
            metavar = choices or ("A,B" if key.is_tuple else METAVARS[key.kind])
            # argparse would read "%" as a place for something.
            text = (key.help.rstrip(".") + default).replace("%", "%%")
            flags.append(Flag(name, metavar, text, None))
    return flags


def add_flags(group: argparse._ActionsContainer, flags: Iterable[Flag]) -> None:
    """Add flags to a parser or a group of one."""
    for name, metavar, text, default, kind, _, is_required in flags:
        if metavar == "":
            switch = argparse.BooleanOptionalAction if default is None else "store_true"
            group.add_argument(f"--{name}", action=switch, help=text)
            continue
        if default not in (None, "", []) and "(default: " not in text:
            text += f" (default: {default})"
        action = "append" if default == [] else "store"
        add = partial(group.add_argument, f"--{name}", action=action, type=kind, help=text)
        add(default=default, metavar=metavar, required=is_required)


def print_completions(args: Namespace) -> None:
    """Print what a shell reads to complete commands, flags and their values."""
    import shtab

    from batch_calibration.methods import METHODS

    parser, commands = _make_parser("")
    choices = {name: key.choices for name, key in keys().items() if key.choices}
    choices["method"] = tuple(METHODS)
    for command in commands.values():
        for action in command._actions:
            action.choices = action.choices or choices.get(action.dest)
            if action.metavar in ("FILE", "FILE[:PRESET]", "DIR"):
                action.complete = shtab.DIRECTORY if action.metavar == "DIR" else shtab.FILE  # type: ignore[attr-defined]
    print(shtab.complete(parser, args.shell), end="")


def run_harness(args: Namespace) -> None:
    """Write the overlays, then run the harness, or print the command that does.

    Raises:
        InputError: no harness; unknown tasks, or such as are not corrected.
        SystemExit: the harness ended with an error, whose code it has.
    """
    if importlib.util.find_spec("lm_eval") is None:
        expected = "lm-evaluation-harness next to this package"
        raise InputError.at(HARNESS, expected, "none", "pip install lm-eval")
    for argument in args.arguments:
        flag = argument.partition("=")[0]
        # Also -t, and beginnings, which argparse takes for the whole.
        is_short = flag.startswith("-t")
        if is_short or (len(flag) > 3 and any(name.startswith(flag) for name in OVERLAY_FLAGS)):
            raise InputError.at(HARNESS, f"{flag} before the two dashes", f"{argument} after them")
    # Importing the harness takes seconds, and help needs none of it.
    from batch_calibration.integrations.lm_eval import write_overlays

    names, folder = [name for name in args.tasks.split(",") if name], Path(args.output)
    correction = args.method, _shares(args.prior)
    tasks, notes = write_overlays(names, folder, *correction, args.include_path or None)
    for note in notes:
        print(note, file=sys.stderr)
    print(f"{len(tasks)} tasks with corrected accuracies: {folder}", file=sys.stderr)
    # The harness takes one folder: groups of another one are named by their tasks.
    chosen = tasks if args.include_path else names
    command = ["-m", "lm_eval", "--tasks", ",".join(chosen), "--include_path", str(folder)]
    if not args.arguments:
        print(shlex.join(["python", *command, "--model", "hf", "--model_args", "pretrained=MODEL"]))
        return
    sys.stdout.flush()
    done = subprocess.run([sys.executable, *command, *args.arguments], env=os.environ, check=False)
    if done.returncode:
        raise SystemExit(done.returncode)


def _shares(text: str) -> list[float] | None:
    """The numbers of --prior, None where it is not there."""
    if not text:
        return None
    with answering(ValueError, f"--prior={text}", "a share of each choice, such as 0.3,0.7"):
        return list(map(float, text.split(",")))


APART: dict[str, Callable[[Namespace], None]] = {
    HARNESS: run_harness,
    "completions": print_completions,
    "demo": studies.run_demo,
}
"""Commands that neither read scores nor run a study: what runs each, and what adds its flags."""


def _check_source(parser: Parser, args: Namespace) -> None:
    """Refuse neither files nor a workdir, both, and flags of the other."""
    if bool(args.files) == bool(args.workdir):  # both, or neither
        parser.error("expected files of scores, or --workdir=DIR of a study, and not both")
    names = {flag.name for flag in flags_of(args.command)}
    for name, chosen in vars(args).items():
        # A flag that is given its default cannot be told from one that is left out.
        is_given = name not in ("command", "files", "plugin") and chosen != parser.get_default(name)
        if is_given and (name in names) == bool(args.files):
            other_source = "--workdir=DIR of a study" if args.files else "files of scores"
            # Argparse keeps it with an underscore.
            parser.error(f"--{name.replace('from_probs', 'from-probs')} goes with {other_source}")


def _add_file_flags(parser: Parser, command: str) -> None:
    count = "*" if command in ON_BOTH else "+"  # none: a workdir may stand for them
    text = "files, folders or globs; - is the input"
    parser.add_argument("files", nargs=count, metavar="FILE", help=text)
    groups = dict[str, Iterable[Flag]]()
    if command == "ask":
        groups["what is asked"] = ASKING
        # A tokenizer is for ways that send token ids, which studies alone take.
        keys_of_server = flags_of_keys(("api",), without=("tokenizer",))
        groups["how; api_scores is chat here by default"] = keys_of_server
    elif command not in NO_SCORES.split():
        groups["what the files hold"] = READING
        if command not in ("convert", "ensemble"):
            groups["how the bias is learned"] = LEARNING
    groups["what is written"] = WRITING
    for title, flags in groups.items():
        group = parser.add_argument_group(title)
        add_flags(group, (flag for flag in flags if command in (flag.of.split() or ON_FILES)))


def split_names(text: str) -> tuple[str, ...]:
    """The names in a list with commas."""
    return tuple(filter(None, map(str.strip, text.split(","))))


def split_tokens(text: str) -> dict[str, tuple[str, ...]]:
    """Label -> its tokens, of A=x|y,B=z.

    >>> split_tokens("yes=Yes|yes,no=No")
    {'yes': ('Yes', 'yes'), 'no': ('No',)}
    """
    # (label, "=", tokens)
    pairs = (pair.partition("=") for pair in text.split(",") if pair)
    return {label.strip(): tuple(tokens.split("|")) for label, _, tokens in pairs}
