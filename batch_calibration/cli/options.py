"""The options of the console program, and what they say of a file of scores."""

import difflib
import re
import sys
from argparse import ArgumentParser, BooleanOptionalAction, Namespace, RawDescriptionHelpFormatter
from collections.abc import Sequence
from typing import NoReturn

from batch_calibration.version import __version__

EXAMPLES = """examples:
  batch-calibration calibrate scores.csv --gold=label --output=corrected.csv
  batch-calibration calibrate - < scores.csv > corrected.csv
  batch-calibration compare samples_boolq_2026-01-01.jsonl
  batch-calibration report 'logs/**/samples_*.jsonl' --output=report.html
  batch-calibration calibrate mmlu.npz --gold=answer --by=subject --probe=content_free.npz
"""

COMMANDS = {
    "calibrate": "correct scores, say what the prompt prefers and which predictions change",
    "diagnose": "say what the prompt prefers and whether a correction helps; write no scores",
    "compare": "every method side by side, on scores with right labels",
    "convert": "write score tables, for a workdir of experiments.* or a file",
    "report": "one HTML page: what each prompt prefers, every table and figure",
}


class Parser(ArgumentParser):
    """A parser that answers a mistake with one sentence."""

    def error(self, message: str) -> NoReturn:
        """The sentence, with the nearest option where one is unknown."""
        found = re.search(r"unrecognized arguments: (--[\w-]+)", message)
        near = difflib.get_close_matches(found[1], self.known(), n=1) if found else []
        hint = f"; did you mean {near[0]}?" if near else ""
        print(f"error: {message}{hint}; {self.prog} --help lists what there is.", file=sys.stderr)
        sys.exit(2)

    def known(self) -> list[str]:
        """Every option of this parser and of its commands."""
        options = [name for action in self._actions for name in action.option_strings]
        for action in self._actions:
            for one in (action.choices or {}).values() if isinstance(action.choices, dict) else ():
                options += one.known()
        return options


def parser() -> Parser:
    """The parser of all commands."""
    whole = Parser(
        prog="batch-calibration",
        description="Label-bias correction for scores that you already have: evaluation logs, API "
        "log-probabilities, tables, arrays.",
        epilog=EXAMPLES,
        formatter_class=RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    whole.add_argument("--version", action="version", version=f"batch-calibration {__version__}")
    commands = whole.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, what in COMMANDS.items():
        one = commands.add_parser(
            name,
            help=what,
            description=f"{what[0].upper()}{what[1:]}.",
            allow_abbrev=False,
            formatter_class=RawDescriptionHelpFormatter,
            epilog=EXAMPLES,
        )
        _reading(one)
        if name != "convert":
            _learning(one, several=name in ("compare", "report"))
        _writing(one, name)
    return whole


def _reading(one: ArgumentParser) -> None:
    group = one.add_argument_group("what the files hold")
    say = group.add_argument
    one.add_argument(
        "files", nargs="+", metavar="FILE", help="files, folders or globs; - is the input"
    )
    say("--format", default="", help="an importer's name, where it is not found out")
    say(
        "--labels",
        default="",
        metavar="A,B",
        help="columns of scores, or the names of the labels in order",
    )
    say(
        "--tokens",
        default="",
        metavar="A=x|y,B=z",
        help="tokens that mean a label, where scores are of tokens",
    )
    say("--gold", default="", metavar="COLUMN", help="column of the right label, its name or index")
    say("--ids", default="", metavar="COLUMN", help="column of row ids")
    say(
        "--by",
        default="",
        metavar="COLUMN",
        help="columns that tell contexts apart: subject, prompt",
    )
    say(
        "--missing",
        help="labels that were not returned: least (just below the least returned), drop, "
        "bound (the range that is possible), or nats such as -30",
    )
    say(
        "--from-probs",
        action=BooleanOptionalAction,
        help="the numbers are probabilities, or are not",
    )
    say("--task", default="", help="what to call the task")
    say("--model", default="", help="what to call the model")
    say("--filter", default="", help="of a harness log whose rows repeat per filter, which")


def _learning(one: ArgumentParser, *, several: bool) -> None:
    say = one.add_argument_group("how the bias is learned").add_argument
    if several:
        say(
            "--methods",
            default="",
            metavar="A,B",
            help="methods, all that the scores allow by default",
        )
        say(
            "--option",
            action="append",
            default=[],
            metavar="METHOD.NAME=VALUE",
            help="an option of a method, such as bc_running.batch_size=8; may be repeated",
        )
    else:
        say("--method", default="bc", help="method (default: bc); README has the table")
        say(
            "--option",
            action="append",
            default=[],
            metavar="NAME=VALUE",
            help="another option of the method, such as batch_size=8; may be repeated",
        )
        say("--strength", type=float, help="how much of the bias is removed (default: 1)")
        say(
            "--prior",
            default="",
            metavar="SHARES",
            help="shares of the labels, such as 0.8,0.2; estimated; or a file with a share a line",
        )
    say(
        "--probe",
        action="append",
        default=[],
        metavar="[cc=|dc=]FILE",
        help="scores of content-free (cc) or random-word (dc) prompts",
    )
    say(
        "--labeled",
        default="",
        metavar="FILE",
        help="scores of a labeled set, for bcl; read as the files are",
    )
    say("--seed", type=int, default=0, help="of methods that start at random (default: 0)")


def _writing(one: ArgumentParser, name: str) -> None:
    say = one.add_argument_group("what is written").add_argument
    if name == "calibrate":
        say(
            "--output",
            default="",
            metavar="FILE",
            help="corrected scores: .csv, .tsv, .jsonl, .parquet, .npz; - is the output",
        )
    if name in ("calibrate", "diagnose"):
        say(
            "--changed",
            type=int,
            default=5,
            metavar="N",
            help="how many rows whose prediction changes are shown (default: 5)",
        )
        say(
            "--plot",
            default="",
            metavar="FILE",
            help="a figure of shares and preferences: .png, .pdf or .svg",
        )
    if name == "convert":
        say(
            "--output",
            default="",
            metavar="FILE",
            help="a score table (.safetensors), or scores as .csv, .tsv, .jsonl, .parquet, .npz",
        )
        say("--workdir", default="", help="keep score tables in a workdir of experiments.*")
    if name == "report":
        say(
            "--output",
            default="report.html",
            metavar="FILE",
            help="the page (default: report.html)",
        )


def names(text: str) -> tuple[str, ...]:
    """The names in a list with commas."""
    return tuple(word.strip() for word in text.split(",") if word.strip())


def tokens(text: str) -> dict[str, tuple[str, ...]]:
    """Label -> its tokens, of A=x|y,B=z.

    >>> tokens("yes=Yes|yes,no=No")
    {'yes': ('Yes', 'yes'), 'no': ('No',)}
    """
    pairs = (word.partition("=") for word in text.split(",") if word)
    return {label.strip(): tuple(given.split("|")) for label, _, given in pairs}


def parse(argv: Sequence[str] | None) -> Namespace:
    """The command and its options."""
    return parser().parse_args(argv)
