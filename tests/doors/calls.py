"""Calls of the doors as texts: their answers and refusals, and the remedies that a refusal names.

A call is an expression in Python, `calibrate(probs)`, or words of the console program,
`diagnose probs.csv --gold=gold`.
"""

import ast
import csv
import io
import json
import re
import shlex
import tomllib
from collections.abc import Sequence
from contextlib import chdir, redirect_stderr, redirect_stdout
from fnmatch import fnmatch
from pathlib import Path
from typing import NamedTuple

import numpy as np
from refusals import ARRAYS, FILES, RIGHT, accuracies

import batch_calibration
from batch_calibration import cli
from batch_calibration.diagnosis import Diagnosis
from batch_calibration.errors import InputError
from batch_calibration.estimator import LabelBiasCorrector
from batch_calibration.importers import tables_of
from batch_calibration.layer import BatchCalibration
from batch_calibration.metrics import Estimate
from batch_calibration.settings import Settings

CASES = tomllib.loads(Path(__file__).with_name("refusals.toml").read_text(encoding="utf-8"))
for _case in CASES.values():
    _case["sentence"] = " ".join(_case["sentence"].split())
NAMES = {name: getattr(batch_calibration, name) for name in batch_calibration.__all__}
NAMES |= {"Settings": Settings, "tables_of": tables_of, "np": np, **ARRAYS}
NAMES |= {door.__name__: door for door in (LabelBiasCorrector, BatchCalibration)}
CONSOLE = re.compile(r"--([a-z][\w-]*)(?:=((?:'[^']*'|[^\s;:()?'])+))?")
PYTHON = re.compile(r"\b([a-z_]+)=('[^']*'|\([^()]*\)|True|False|-?\d[\d.]*\d|\d)")
MEANT = re.compile(r"(?:named|arguments:) ('[^']+'|--\w+)\S*; did you mean ('[^']+'|--\w+)\?")
LEAVE = re.compile(r"[Ll]eave (?:--)?([\w-]+)(?:=\S*)? out")
SWITCHES = ("counts", "from-probs", "gold-as-is", "shards")


class Reply(NamedTuple):
    """The outcome of a call: a sentence that refuses it, "" if there is none, or else an answer.

    Attributes:
        notes: what a command says beside its answer.
        answer: accuracies in % before and after BC, None where the call gives only one of them.
    """

    refusal: str = ""
    notes: str = ""
    answer: Sequence[float | None] = ()


def is_python(call):
    return re.match(r"[\w.]+\(", call) is not None


def ask(call, folder):
    """The reply to a call in a folder, where the files that it names are written first."""
    for name, content in FILES.items():
        paths = [word.rpartition("=")[2] for word in re.split(r"[\s'(),:]", call)]
        if any(fnmatch(name, path) or name.startswith(f"{path}/") for path in paths if path):
            data = content if isinstance(content, bytes) else content.encode()
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_bytes(data)
    with chdir(folder):
        return _evaluate(call) if is_python(call) else _run(call)


def _evaluate(call):
    try:
        answer = eval(call, dict(NAMES))
    except InputError as error:
        return Reply(str(error))
    if isinstance(answer, list) and hasattr(answer[0], "blocks"):
        block = answer[0].blocks["test"]
        return Reply(answer=accuracies(block.log_probs, block.labels))
    if isinstance(answer, Diagnosis):
        accuracy_of = [when.accuracy.value for when in (answer.before, answer.after)]
        return Reply(answer=list(map(_percent, accuracy_of)))
    if isinstance(answer, np.ndarray) and answer.shape == (len(RIGHT), 2):
        return Reply(answer=[None, accuracies(answer)[0]])
    return Reply(answer=[_percent(answer.value), None] if isinstance(answer, Estimate) else [])


def _percent(share):
    return round(100 * share, 1)


def _run(call):
    """The last of one command or several, joined by &&."""
    for words in map(shlex.split, call.split(" && ")):
        stdout, stderr = io.StringIO(), io.StringIO()
        try:
            with redirect_stdout(stdout), redirect_stderr(stderr):
                cli.run(words)
        except SystemExit as end:
            assert end.code in (0, None, 2), stderr.getvalue()
            if end.code:
                (refusal,) = re.findall(r"^error: (.*)$", stderr.getvalue(), re.M)
                return Reply(re.sub(r"table [0-9a-f]{16}", "table ID", refusal))
    answer = []
    for line in stdout.getvalue().splitlines() if "--json" in words else ():
        context = json.loads(line)
        both = context["before"], context["after"]
        answer += [when and _percent(when["accuracy"]["value"]) for when in both]
    if "--output=o.csv" in words and words[0] == "calibrate":
        rows = list(csv.DictReader(io.StringIO(Path("o.csv").read_text(encoding="utf-8"))))
        answer = [None, _percent(np.mean([row["prediction"] == row["gold"] for row in rows]))]
    return Reply(notes=" ".join(stderr.getvalue().split()), answer=answer)


def remedies(case):
    """Each remedy that a case's sentence names, and the call after it.

    A case has a call of its own for a remedy that asks for more, such as changes in a file.
    """
    call, sentence = case["call"], case["sentence"]
    found = dict(case.get("remedies", {}))
    given = [call] if is_python(call) else shlex.split(call)
    given += " ".join(found).split()

    def add(remedy, call_after):
        is_given = remedy in call if is_python(call) else remedy in given
        if not is_given and remedy not in " ".join(case.get("remedies", ())):
            found.setdefault(remedy, call_after)

    for name in LEAVE.findall(sentence):
        name = sentence.partition(":")[0].removeprefix("--") if name == "it" else name
        add(f"leave {name} out", changed(call, name, None))
    for wrong, right in MEANT.findall(sentence):
        if f"did you mean {right}" not in found:
            add(f"{right} for {wrong}", call.replace(wrong.strip("'"), right.strip("'")))
    for name, setting in (PYTHON if is_python(call) else CONSOLE).findall(sentence):
        setting = setting.rstrip(",.")
        is_value = setting or name.removeprefix("no-") in SWITCHES
        if is_value and f"leave {name} out" not in found:
            remedy = f"{name}={setting}" if is_python(call) else f"--{name}={setting}".rstrip("=")
            add(remedy, changed(call, name, setting))
    return found


def changed(call, name, setting):
    """A call with another setting of a key; without the key where the setting is None."""
    if is_python(call):
        return _changed_python(call, name, setting)
    bare = name.removeprefix("no-")
    kept = []
    for word in shlex.split(call):
        flag = word.partition("=")[0]
        if flag not in (f"--{bare}", f"--no-{bare}"):
            kept.append(word)
    if setting is not None:
        kept.append(f"--{name}={setting}" if setting else f"--{name}")
    return shlex.join(kept)


def _changed_python(call, name, setting):
    tree = ast.parse(call, mode="eval")
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    readings = [node for node in nodes if getattr(node.func, "id", "") == "Reading"]
    (target, *_) = readings or nodes
    target.keywords = [keyword for keyword in target.keywords if keyword.arg != name]
    if setting is not None:
        value = ast.parse(setting, mode="eval").body
        target.keywords.append(ast.keyword(name, value))
    return ast.unparse(tree)
