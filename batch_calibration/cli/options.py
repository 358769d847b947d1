"""The flags of the console program, and the parser that reads them."""

import argparse
import importlib.util
import os
import re
import shlex
import subprocess
import sys
from argparse import Namespace
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple, NoReturn

from batch_calibration.cli import guard, launchers, machine, studies
from batch_calibration.cli.study_options import PARTS
from batch_calibration.errors import InputError, answering, nearest
from batch_calibration.settings import keys
from batch_calibration.version import __version__

MAX_LISTED = 10  # flags in the message about an unknown one
METAVARS: dict[object, str] = {int: "N", float: "X", str: "TEXT", bool: "{True,False}"}


class Flag(NamedTuple):
    """A flag of a command.

    Attributes:
        name: Name without dashes.
        metavar: Placeholder for the value in the help; None for the name, "" for a switch.
        help: Meaning; the default is appended if the text does not have it.
        default: Value if the flag is left out. With a list, the flag can be repeated and its
            values are collected. With None, a switch has the form --no-NAME, too.
        kind: Type of the value.
        of: Commands that have the flag, if not all commands of the table have it.
        is_required: Whether the flag must be given.
    """

    name: str
    metavar: str | None
    help: str
    default: object = ""
    kind: type = str
    of: str = ""
    is_required: bool = False


EXAMPLES = """examples, on scores that you have:
  batch-calibration diagnose scores.csv --gold=label
  batch-calibration calibrate - < scores.csv > corrected.csv
  batch-calibration report 'logs/**/samples_*.jsonl' --output=report.html
"""
STUDY_EXAMPLES = """examples, of a study, in this order:
  batch-calibration score --model=mini --data=mini --tasks=sst2,rte --seeds=5 --workdir=W
  batch-calibration calibrate --workdir=W
  batch-calibration tables --workdir=W
  batch-calibration report --workdir=W
"""
HARNESS = "lm-eval"
ADVICE = Flag("advice", "FILE", "advice to follow, from recommend --output")
OF_APART = {
    "demo": (Flag("output", "DIR", "folder for the files (default: this one)", "."),),
    HARNESS: (
        Flag("tasks", "A,B", "tasks, groups and tags of the harness", None, is_required=True),
        Flag("method", None, "method that needs neither labels nor probes", "bc"),
        Flag("prior", "P,Q", "share of each choice among the right answers, in order"),
        ADVICE,
        Flag("include-path", "DIR", "a folder with your own tasks"),
        Flag("output", "DIR", "folder for the YAML files of the tasks", "corrected_tasks"),
    ),
}
"""Flags of commands that neither read scores nor run a study."""
OVERLAY_FLAGS = ("--tasks", "--include_path")
"""Flags of the harness that must precede the two dashes, because overlays are made from them."""
ON_FILES = {
    "calibrate": "correct scores; report the prompt's preference and the changed predictions",
    "diagnose": "report the prompt's preference and whether a correction helps; write no scores",
    "compare": "compare all methods on scores with right labels",
    "convert": "convert scores to score tables, in a workdir or a file",
    "ensemble": "combine several prompts' scores of the same rows into one answer for each row",
    "recommend": "recommend a method, or no correction, and give the reasons",
    "threshold": "choose a cut-off on a label's probability, for a precision, recall or cost",
    "report": "write an HTML page with each prompt's preference and all tables and figures",
    "classify": "predict the label of each text of a file with a model, without its label bias",
    "ask": "ask an API for the label scores of a file of prompts; no study, no probes",
    "answers": "bring an engine's files of answers into a workdir, and score its contexts",
    "label": "choose rows to label, and write them to a table with an empty column",
    "judge": "measure a pairwise judge's position bias, and win rates without the bias",
}
ON_BOTH = ("calibrate", "report")
"""Commands that read either files of scores or the scores of a study in a workdir."""
READING_WORKDIRS = ("diagnose", "compare", "ensemble", "recommend", "threshold", "label")
"""Commands on files to which --workdir=DIR is the same as DIR."""
CORRECTING, COMPARING = "calibrate diagnose threshold", "compare report"
SHOWING, JSON = "calibrate diagnose", "compare diagnose recommend threshold"
NO_SCORES = "answers ask classify judge"
"""Commands on files that hold no scores."""
ON_STUDIES = {
    "score": "ask a model for label scores, context by context, and keep them in a workdir",
    "requests": "write the requests of a study, or of files of prompts, to files for any engine",
    "sweep": "score with several workers: processes, Slurm jobs, or Ray tasks",
    "show": "show the model's prompts, where their labels begin, and the cost of scoring",
    "status": "show the progress of the runs on a workdir: done, running, failed and left",
    "tables": "make the tables of a workdir: in the terminal, as Markdown, LaTeX and CSV",
    "figures": "make the figures of a workdir, as PNG, PDF or SVG",
    "merge": "merge the scores of several workdirs into one; keeps each block, scores nothing",
}
"""Commands that run only on studies; `calibrate` and `report` also read files of scores."""
WITH_CONFIG = (*PARTS, "status")
"""Commands that take a config file."""
COMMANDS = {
    **ON_FILES,
    **ON_STUDIES,
    HARNESS: "run lm-evaluation-harness with the corrected accuracy next to its own",
    "completions": "print a shell script that completes commands, flags and values",
    "demo": "write files of scores, prompts and judgments to try the other commands on",
}
"""Every command and its summary."""
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
recommend scores.csv --prior=0.3..0.7 --labeled=labeled.csv --output=advice.json
label scores.csv --n=32 --output=to_label.csv
label prompt_1.csv prompt_2.csv --task=mine --ids=id --labeled=to_label.csv --output=more.csv
threshold scores.csv --gold=label --positive=yes --for=precision:0.9
threshold scores.csv --labeled=labeled.csv --positive=yes --for=cost:5:1 --output=curve.csv
report 'logs/**/samples_*.jsonl' --output=report.html
report --workdir=W
ask prompts.csv --labels=no,yes --model=NAME --server=URL --output=scores.csv --dry-run
ask prompts.csv --labels=no,yes --model=NAME --output=scores.csv --key_variable=KEY
requests --prompts='p/*.csv' --labels=no,yes --model=NAME --workdir=W
requests --config=configs/mini.py --model=NAME --form=vllm --workdir=W
requests --workdir=W
answers W output.jsonl error.jsonl
answers W 'answers/*.parquet'
classify texts.csv --labels=pos,neg --model=FILE.gguf --output=predictions.csv
classify texts.csv --labels='pos=great|good,neg=bad' --model=mini --output=p.csv --gold=label
judge pairs.jsonl --output=win_rates.csv
judge annotations.json --dry-run
lm-eval --tasks=boolq,mmlu_anatomy -- --model hf --model_args pretrained=MODEL
completions bash > ~/.bash_completion
demo --output=DIR
"""
"""Two examples for each command on files, one for each that needs no scores."""
JUDGE_LINE = """
a line of pairs.jsonl, with log-odds in nats (p_first: from 0 to 1):
  {"question": 7, "candidate": "mine", "candidate_first": true,
   "log_odds_first": 0.7, "human": "first"}
leave human out if people did not answer; other formats: docs/judges.md
"""
HOME = re.compile(r"^(--[\w.-]+=)(?:~|\$HOME)(?=/|$)")
SCORES = ".csv, .tsv, .jsonl, .parquet, .npz"
SHARES = "no=0.8,yes=0.2; 0.7..0.9; balanced[:POINTS]; estimated; a file; FILE:COLUMN to count"
PLACE = "the label's place in several tokens: first, last, json:KEY or a regular expression"
MISSING = "labels not returned: least, drop, bound, nats"
TEMPERATURE = "divisor of the scores: a number, or auto"
READING = (
    Flag("format", "NAME", "importer, if the format is not recognized"),
    Flag("labels", "A,B", "columns of scores, or label names in order"),
    Flag("tokens", "A=x|y,B=z", "tokens that represent a label"),
    Flag("gold", "COLUMN", "column of the right label, its name or index"),
    Flag("gold-names", "A,B", "names of the right labels 0, 1, ..."),
    Flag("gold-as-is", "", "keep right labels that the scores do not fit", False),
    Flag("ids", "COLUMN", "column of row ids"),
    Flag("by", "COLUMN", "columns that identify a context"),
    Flag("task", "NAME", "name for the task"),
    Flag("model", "NAME", "name for the model"),
    Flag("at", "PLACE", PLACE),
    Flag("filter", "NAME", "filter of a harness log to read"),
    Flag("missing", None, MISSING, None),
    # By default each file is a context, unless the file names look like shards.
    Flag("shards", "", "the files are parts of one data set", None),
    # By default the numbers decide.
    Flag("from-probs", "", "the numbers are probabilities, or are not", None),
    Flag("counts", "", "the numbers count a row's sampled answers", False),
    Flag("cosines", "", "the numbers are cosines, scaled or not", False),
)
LEARNING = (
    Flag("positive", "LABEL", "label with the cut-off", of="threshold"),
    Flag("for", "GOAL", "precision:P, recall:P, cost:FP:FN (costs) or f1", of="threshold"),
    Flag("methods", "A,B", "methods (default: all that the scores allow)", of="compare"),
    Flag("methods", "A,B", "methods, or all (default: the paper's and advised ones)", of="report"),
    Flag("option", "METHOD.NAME=VALUE", "an option of a method; may be repeated", [], of=COMPARING),
    Flag("method", None, "method (default: bc); see docs/method.md", of=CORRECTING),
    Flag("option", "NAME=VALUE", "an option of the method; may be repeated", [], of=CORRECTING),
    Flag("strength", None, "share of the bias to remove (default: 1)", None, float, CORRECTING),
    ADVICE._replace(of=CORRECTING),
    Flag("temperature", "T", TEMPERATURE, None, of=CORRECTING),
    Flag("dtype", "NAME", "dtype of the model, such as bfloat16", of=SHOWING),
    Flag("answers", "COLUMN", "answers without scores: their shares", of="diagnose"),
    Flag("prior", "SHARES", SHARES),
    Flag("ordinal", "[=A,B,C]", "grades, lowest first", None, of="calibrate diagnose recommend"),
    Flag("probe", "[cc=|dc=]FILE", "scores of content-free or random-word prompts", []),
    Flag("labeled", "FILE", "labeled rows: scores, or row ids and labels"),
    Flag("seed", None, "seed of the random starts", 0, int),
)
DRY_RUN = Flag("dry-run", "", "print the plan without running it")
ANSWERS = "the scores, .csv; answers are kept next to it and not requested again"
PREDICTIONS = "predictions, .csv, .tsv, .jsonl or .parquet; beside it, the task and its scores"
WRITING = (
    Flag("output", "FILE", f"corrected scores: {SCORES}; - for standard output", of="calibrate"),
    Flag("output", "FILE", f"a score table (.safetensors), or scores as {SCORES}", of="convert"),
    Flag("output", "FILE", "the page", "report.html", of="report"),
    Flag("output", "FILE", "advice as JSON, for --advice; or contexts as .csv", of="recommend"),
    Flag("output", "FILE", "a line for each context, .csv", of="diagnose"),
    Flag("output", "FILE", f"averaged scores: {SCORES}; - for standard output", of="ensemble"),
    Flag("output", "FILE", "every cut-off with its measures, .csv", of="threshold"),
    Flag("output", "FILE", "every candidate's win rates, .csv", of="judge"),
    Flag("output", "FILE", ANSWERS, of="ask"),
    Flag("output", "FILE", PREDICTIONS, "", of="classify", is_required=True),
    Flag("output", "FILE", "the rows to label, .csv", "to_label.csv", of="label"),
    Flag("n", None, "number of rows to choose", 32, int, of="label"),
    Flag("labeled", "FILE", "rows that are labeled already, by their ids", of="label"),
    Flag("seed", None, "seed of the random start", 0, int, of="label"),
    Flag("changed", "N", "changed predictions to show", 5, int, of=SHOWING),
    Flag("plot", "FILE", "figure of the shares: .png, .pdf or .svg", of=SHOWING),
    Flag("plot", "FILE", "figure of all cut-offs: .png, .pdf or .svg", of="threshold"),
    Flag("threshold", "LABEL=P", "answer LABEL from probability P on", of="calibrate"),
    Flag("results", "", "a copy of results_*.json with acc_METHOD", of="calibrate"),
    Flag("all", "", "show all methods, and why others are left out", of="compare"),
    Flag("json", "", "print a line of JSON for each context", of=JSON),
    Flag("quiet", "", "print no notes and no progress, only errors"),
    DRY_RUN._replace(of="ask classify judge"),
    Flag("workdir", "DIR", "keep score tables in a workdir", of="convert"),
)
# Flags of `ask`, about its prompts.
ASKING = (
    Flag("labels", "A,B", "the answers to score", None, is_required=True),
    Flag("model", "NAME", "the server's name for the model", None, is_required=True),
    Flag("prompt", "COLUMN", "column (default: prompt, text, input, question or messages)"),
    Flag("ids", "COLUMN", "column of row ids (default: id, or row numbers)"),
    Flag("gold", "COLUMN", "column of the right label (default: label, gold or answer)"),
)
# Flags of `classify`, about its texts.
CLASSIFYING = (
    Flag("labels", "A,B", "labels, or labels with words: pos=great|good,neg=bad", is_required=True),
    Flag("model", "NAME", "a checkpoint folder, FILE.gguf, mini, or a server's", is_required=True),
    Flag("text", "COLUMN", "column of texts (default: the only one with texts)"),
    Flag("gold", "COLUMN", "column of right labels, if some are known"),
    Flag("ids", "COLUMN", "column of row ids (default: id)"),
    Flag("prompt", "TEXT", "such as 'Title: {title}\\n{text}\\nTopic:'; the label follows"),
    Flag("demonstrations", "FILE", "labeled rows to show, or COLUMN or COLUMN=VALUE of theirs"),
    Flag("prior", "SHARES", SHARES),
)
KEPT = ("chat", "system", "over_long", "dtype", "batch_size", "server")
"""Keys of the settings in the help of `classify`."""


def _of_table(table: Mapping[str, tuple[type, str]]) -> list[Flag]:
    return [Flag(name, METAVARS[kind], text, None, kind) for name, (kind, text) in table.items()]


OF_STUDIES: dict[str, Sequence[Flag]] = {
    "requests": (
        Flag("form", "{openai,vllm,ray,sglang}", "the engine that reads the files", "openai"),
        Flag("shard-size", "N", "maximum number of requests in a file", 50_000, int),
        Flag("again", "", "write refused requests and those with useless answers, too"),
        Flag("prompts", "A,B", "files of complete prompts, in place of a study"),
        *ASKING[2:],
        Flag("labels", "A,B", "the answers to score, with --prompts"),
        DRY_RUN,
    ),
    "score": (DRY_RUN, *_of_table(machine.FLAGS)),
    "sweep": (
        Flag("launcher", "TEXT", launchers.HELP, "local"),
        Flag("workers", "N", "number of workers that share the sweep", 2, int),
        DRY_RUN,
        *_of_table(launchers.FLAGS),
    ),
    "show": (
        Flag("rows", "N", "rows of each block to show", 3, int),
        Flag("no-cost", "", "do not count the tokens of the whole sweep"),
    ),
    "calibrate": (
        Flag("floor", "X", "raise scores below this many nats, -inf too, to it", None, float),
        Flag("tasks", "TEXT", "calibrate only the scores of these tasks", None),
        Flag("shots", "N", "calibrate only the scores with this number of shots", None, int),
        *_of_table(machine.FLAGS),
    ),
    "tables": (Flag("quiet", "", "write the files and print no table"),),
    "figures": (
        Flag("boundary-tasks", "N", "tasks in the figure of boundaries", 2, int),
        Flag("formats", "TEXT", "formats of the figures: png, pdf, svg", "png"),
    ),
    "merge": (
        Flag("from", "TEXT", "workdirs to read, comma-separated", None, is_required=True),
        Flag("tolerance", "X", "nats by which two scores of one label may differ", 1e-3, float),
    ),
}
"""Command -> its flags that are no keys of the settings."""


# With this width, most flags and their meanings fit on one line.
HelpFormatter = partial(argparse.RawDescriptionHelpFormatter, max_help_position=32)


class Parser(argparse.ArgumentParser):
    """A parser that reports a mistake as one sentence."""

    def __init__(self, **options: object) -> None:
        # With abbreviations, a new flag could change the meaning of an old command.
        options |= {"formatter_class": HelpFormatter, "allow_abbrev": False}
        super().__init__(**options)  # type: ignore[arg-type]

    def error(self, message: str) -> NoReturn:
        """Prints the message, suggests the most similar flag, and exits with code 2."""
        unknown = re.search(r"unrecognized arguments: (--[\w-]+)", message)  # argparse's wording
        flags = list(dict.fromkeys(flag for flag in self.flags() if flag.startswith("--")))
        hint = nearest(unknown[1], flags, 0.6).replace("'", "") if unknown else ""
        if unknown and not hint and len(flags) <= MAX_LISTED:
            hint = f"; there are {', '.join(flags)}"
        guard.fail(f"{message}{hint}; {self.prog} --help lists the flags.")

    def flags(self) -> list[str]:
        """Returns every flag of this parser and of its commands."""
        flags = list[str]()
        # A subcommand has a dict of parsers as its choices; an ordinary flag has a list.
        for action in self._actions:
            flags += action.option_strings
            for command in action.choices.values() if isinstance(action.choices, dict) else ():
                flags += command.flags()
        return flags


def parse(arguments: Sequence[str]) -> Namespace:
    """Parses the arguments of the program: the command and its flags."""
    # A shell expands `~` at the beginning of a word, but not after `--output=`.
    words = [HOME.sub(lambda flag: f"{flag[1]}{Path.home()}", word) for word in arguments]
    # A file after the flag alone is not its value.
    words = ["--ordinal=" if word == "--ordinal" else word for word in words]
    command = words[0] if words else ""
    if command and command[0] != "-" and command not in COMMANDS:
        guard.fail(str(InputError.unknown("command", command, COMMANDS)))
    if command in WITH_CONFIG:
        # Keys may also have the prefix that the programs of experiments/ require.
        words = [re.sub(r"^--config\.", "--", word) for word in words]
    if command in READING_WORKDIRS:
        words = [*filter(None, (re.sub(r"^--workdir(=|$)", "", word) for word in words))]
    elif command in ON_STUDIES and command != "show" and words[1:2] and words[1][:1] != "-":
        words[1] = f"--workdir={words[1]}"
    of_study = any(word.startswith("--workdir") for word in words)
    parser, commands = _make_parser(command, of_study=of_study)
    args = parser.parse_args(_respell(words, parser.flags()))
    if getattr(args, "ordinal", None) is not None:
        args.ordinal = split_names(args.ordinal) or True
    if args.command in ON_BOTH:
        _check_source(commands[args.command], args)
    elif args.command in ON_STUDIES and getattr(args, "workdir", "none") == "":
        commands[args.command].error("--workdir: expected a folder; got nothing")
    return args


def _respell(words: Sequence[str], flags: Collection[str]) -> list[str]:
    """Corrects the hyphens and underscores of flags, with a note for each correction."""
    right, respelled = {re.sub("[-_]", "", flag): flag for flag in flags}, list(words)
    # Words after two dashes belong to another program.
    for place in range([*words, "--"].index("--")):
        name, *rest = words[place].partition("=")
        near = right.get(re.sub("[-_]", "", name), name)
        if name.startswith("--") and name not in flags and near != name:
            print(f"note: {name} is spelled {near}.", file=sys.stderr)
            respelled[place] = "".join([near, *rest])
    return respelled


def _make_parser(chosen: str, *, of_study: bool = True) -> tuple[Parser, dict[str, Parser]]:
    """Returns the parser of the program, and the parser of each command.

    Only the chosen command has flags; if `chosen` is "", all have. Without `of_study`, the help of
    a command that reads files or a workdir leaves out the flags for a workdir.
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
        lines = [f"  batch-calibration {line}" for line in own] + [JUDGE_LINE] * (name == "judge")
        if name in ON_BOTH and not of_study:
            lines.append(f"on a study:\n  batch-calibration {name} --workdir=W [--help]")
        title = f"{summary[0].upper()}{summary[1:]}."
        usage = f"batch-calibration {name} [FLAGS] FILE ..." if name in ON_FILES else None
        epilog = "\n".join(["examples:", *lines]) if lines else STUDY_EXAMPLES
        commands[name] = add(name, help=summary, description=title, usage=usage, epilog=epilog)
        if chosen in ("", name):
            _add_flags(commands[name], name, of_study=of_study)
    return parser, commands


def _add_flags(parser: Parser, command: str, *, of_study: bool) -> None:
    """Adds the flags of a command to its parser."""
    if command in APART:
        add_flags(parser, OF_APART.get(command, ()))
        if command == "completions":
            parser.add_argument("shell", choices=("bash", "zsh", "fish", "tcsh"))
        if command == HARNESS:  # the arguments after two dashes are passed to the harness
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
    add_flags(parser, [Flag("plugin", "FILE", "a Python file with your own method or task", [])])


def flags_of(command: str) -> list[Flag]:
    """Returns the flags of a command on studies."""
    # calibrate and report may read files instead
    workdir = Flag("workdir", "DIR", "folder of the study", is_required=command in ON_STUDIES)
    text = "a config file; other flags precede its keys, as --config.KEY or --KEY"
    config = Flag("config", "FILE[:PRESET]", text, None)
    flags = [workdir] * (command != "show") + [config] * (command in WITH_CONFIG)
    return [*flags, *OF_STUDIES.get(command, ()), *flags_of_keys(PARTS.get(command, ()))]


@cache
def flags_of_keys(part_names: tuple[str, ...]) -> list[Flag]:
    """Returns a flag for each key of some parts of the settings."""
    flags = []
    for name, key in keys().items():
        if key.part in part_names:
            default = f" (default: {key.default})" if key.default not in ("", ()) else ""
            choices = "{" + ",".join(key.choices) + "}" if key.choices else ""
            metavar = choices or ("A,B" if key.is_tuple else METAVARS[key.kind])
            # argparse would read "%" as a format placeholder.
            text = (key.help.rstrip(".") + default).replace("%", "%%")
            flags.append(Flag(name, metavar, text, None))
    return flags


def add_flags(group: argparse._ActionsContainer, flags: Iterable[Flag]) -> None:
    """Adds flags to a parser or to one of its groups."""
    for name, metavar, text, default, kind, _, is_required in flags:
        if metavar == "":
            switch = argparse.BooleanOptionalAction if default is None else "store_true"
            group.add_argument(guard.flag(name), action=switch, help=text)
            continue
        if default not in (None, "", []) and "(default: " not in text:
            text += f" (default: {default})"
        action = "append" if default == [] else "store"
        add = partial(group.add_argument, guard.flag(name), action=action, type=kind, help=text)
        add(default=default, metavar=metavar, required=is_required)


def print_completions(args: Namespace) -> None:
    """Prints a shell script that completes commands, flags and their values."""
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
    """Writes the overlays, then runs the harness, or prints the command that runs it.

    Raises:
        InputError: The harness is not installed, or a task is unknown or cannot be corrected.
        SystemExit: The harness failed; its exit code is passed on.
    """
    if importlib.util.find_spec("lm_eval") is None:
        expected = "lm-evaluation-harness next to this package"
        raise InputError.at(HARNESS, expected, "none", "pip install lm-eval")
    for argument in args.arguments:
        flag = argument.partition("=")[0]
        # -t and beginnings of flags count, too, because argparse accepts abbreviations.
        if flag[:2] == "-t" or (flag[3:] and any(name.startswith(flag) for name in OVERLAY_FLAGS)):
            raise InputError.at(HARNESS, f"{flag} before the two dashes", f"{argument} after them")
    # Importing the harness takes seconds, and --help does not need it.
    from batch_calibration.integrations.lm_eval import write_overlays

    names, folder = split_names(args.tasks), Path(args.output)
    with answering(ValueError, f"--prior={args.prior}", "a share of each choice, such as 0.3,0.7"):
        shares = list(map(float, args.prior.split(","))) if args.prior else None
    facts = args.method, shares, args.include_path or None, args.advice or None
    tasks, notes = write_overlays(names, folder, *facts)
    written = f"{len(tasks)} tasks with corrected accuracies: {folder}"
    print("\n".join([*notes, written]), file=sys.stderr)
    # The harness accepts one folder, so groups from another folder are replaced by their tasks.
    chosen = tasks if args.include_path else names
    command = ["-m", "lm_eval", "--tasks", ",".join(chosen), "--include_path", str(folder)]
    if not args.arguments:
        print(shlex.join(["python", *command, "--model", "hf", "--model_args", "pretrained=MODEL"]))
        return
    sys.stdout.flush()
    done = subprocess.run([sys.executable, *command, *args.arguments], env=os.environ, check=False)
    if done.returncode:
        raise SystemExit(done.returncode)


APART: dict[str, Callable[[Namespace], None]] = {
    HARNESS: run_harness,
    "completions": print_completions,
    "demo": studies.run_demo,
}
"""Commands that neither read scores nor run a study, and the functions that run them."""


def _check_source(parser: Parser, args: Namespace) -> None:
    """Raises an error unless the arguments name files or a workdir, and only flags for these."""
    if bool(args.files) == bool(args.workdir):  # both, or neither
        parser.error("expected files of scores, or --workdir=DIR of a study, and not both")
    names = {flag.name for flag in flags_of(args.command)}
    for name, chosen in vars(args).items():
        # A flag that is set to its default is indistinguishable from one that is left out.
        is_given = name not in ("command", "files", "plugin") and chosen != parser.get_default(name)
        if is_given and (name in names) == bool(args.files):
            other_source = "--workdir=DIR of a study" if args.files else "files of scores"
            # argparse stores the name with an underscore.
            parser.error(f"{guard.flag(name)} goes with {other_source}")


def _add_file_flags(parser: Parser, command: str) -> None:
    # *: a workdir may replace the files
    count = "*" if command in ON_BOTH else 1 if command == "classify" else "+"
    text = "files, folders or globs; - for standard input"
    parser.add_argument("files", nargs=count, metavar="FILE", help=text)
    groups = dict[str, Iterable[Flag]]()
    if command == "ask":
        groups["prompts and answers"] = ASKING
        # A tokenizer is only for protocols that send token ids, which only studies use.
        of_server = [flag for flag in flags_of_keys(("api",)) if flag.name != "tokenizer"]
        groups["server; api_scores is chat here by default"] = of_server
    elif command == "classify":
        groups["texts and labels"] = CLASSIFYING
        of_keys, (_, *of_server) = (
            flags_of_keys(("prompt", "model", "api")),
            flags_of_keys(("api",)),
        )
        hidden = [flag._replace(help=argparse.SUPPRESS) for flag in of_server]
        title = "model; with --server also the other flags of ask (api_scores: chat)"
        groups[title] = [flag for flag in of_keys if flag.name in KEPT] + hidden
    elif command not in NO_SCORES.split():
        groups["contents of the files"] = READING
        if command not in ("convert", "ensemble", "label"):
            groups["methods and their data"] = LEARNING
    groups["output"] = WRITING
    for title, flags in groups.items():
        group = parser.add_argument_group(title)
        add_flags(group, (flag for flag in flags if command in (flag.of.split() or ON_FILES)))


def split_names(text: str) -> tuple[str, ...]:
    """Splits a comma-separated list of names."""
    return tuple(filter(None, map(str.strip, text.split(","))))


def split_tokens(text: str) -> dict[str, tuple[str, ...]]:
    """Reads the tokens of each label from a text such as A=x|y,B=z.

    >>> split_tokens("yes=Yes|yes,no=No")
    {'yes': ('Yes', 'yes'), 'no': ('No',)}
    """
    # Each pair is (label, "=", tokens).
    pairs = (pair.partition("=") for pair in text.split(",") if pair)
    return {label.strip(): tuple(tokens.split("|")) for label, _, tokens in pairs}
