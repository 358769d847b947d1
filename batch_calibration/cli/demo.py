"""The command `demo`: files to try the other commands on, scored by the embedded model."""

import json
import shlex
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import cast

from batch_calibration.errors import InputError
from batch_calibration.files import write_whole

ROWS = 200
SCORES, LOG = "demo.csv", "demo_samples.jsonl"
PROMPTS, JUDGE = "demo_prompts.csv", "demo_judge.jsonl"
FIRST = ("diagnose demo.csv --gold=label", "recommend demo.csv --gold=label")
"""Commands that `demo` itself runs."""
NEXT = (
    "calibrate demo.csv --gold=label --output=demo_corrected.csv",
    "report demo_samples.jsonl --output=demo.html",
    "ask demo_prompts.csv --labels=yes,maybe,no --output=demo_asked.csv \\\n"
    "  --server=http://127.0.0.1:8000/v1 --model=NAME --dry-run",
)
"""Commands that it names; each runs as it is printed, `judge demo_judge.jsonl` too."""


def add_folder(parser: ArgumentParser) -> None:
    """Add the flag of the command."""
    parser.add_argument(
        "--output", default=".", metavar="DIR", help="folder for the files (default: this one)"
    )


def run_demo(args: Namespace) -> None:
    """Write the files, run two commands on them, and name the next three.

    Raises:
        InputError: a file of that name is there, with something else in it.
    """
    from batch_calibration import cli

    began, folder = time.monotonic(), Path(args.output)
    files = make_files()
    seconds = time.monotonic() - began
    for name, content in files.items():
        path = folder / name
        if path.exists() and path.read_bytes() != content:
            raise InputError.at(
                path, "no other file of this name", remedy="move it away, or say --output=DIR"
            )
    for name, content in files.items():
        write_whole(folder / name, content)
    print(
        f"{folder / SCORES}: {ROWS} rows of a grammar (does a sentence follow from another?), "
        f"scored by the embedded model in {seconds:.1f} s\n"
        f"{folder / LOG}: the same as a log of lm-evaluation-harness\n"
        f"{folder / PROMPTS}: the prompts, for ask\n"
        f"{folder / JUDGE}: a judge of pairs, drawn at random, for judge"
    )
    for command in FIRST:
        print(f"\n$ batch-calibration {(command := _in(folder, command))}", flush=True)
        cli.run(shlex.split(command))
    print("\nnext:")
    for command in NEXT:
        print(f"batch-calibration {_in(folder, command)}")


def _in(folder: Path, command: str) -> str:
    """A command whose files are in the folder."""
    return (
        command if folder == Path() else command.replace("demo", f"{shlex.quote(str(folder))}/demo")
    )


def make_files() -> dict[str, bytes]:
    """Each file's name and content: the same whenever they are made.

    Raises:
        ModuleNotFoundError: flax, of the extra "experiments", is not installed.
    """
    import numpy as np

    from batch_calibration.arrays.numbers import usual_jax
    from batch_calibration.settings import Settings
    from batch_calibration.studies import csv_text
    from batch_calibration.studies.loading import load_scorer
    from batch_calibration.studies.scoring import render_contexts

    settings = Settings.of(
        model="mini", data="mini", tasks="mnli", shots=0, seeds=1, limit=ROWS, limit_rows="first",
        methods="icl,bc",
    )  # fmt: skip
    (context,) = render_contexts(settings, tuple(settings.grid()))
    test = context.blocks["test"]
    texts = list(cast(Sequence[str], test.inputs))
    answer = usual_jax(load_scorer(settings).score)(texts, context.label_texts)
    forms = [form for form, *_ in context.label_texts]
    words = [form.strip() for form in forms]
    table, prompts, log = [["id", *words, "label"]], [["id", "prompt", "label"]], list[str]()
    for row, (text, label) in enumerate(zip(texts, test.labels, strict=True)):
        scores = [f"{score:.4f}" for score in answer.log_probs[row].tolist()]
        table.append([str(row), *scores, words[label]])
        prompts.append([str(row), text, words[label]])
        sample = {
            "doc_id": row, "doc": {"text": text}, "target": str(label),
            "arguments": [[text, form] for form in forms],
            "resps": [[[float(score), False]] for score in scores],
            "filtered_resps": [[float(score), False] for score in scores],
            "acc": float(answer.log_probs[row].argmax() == label),
        }  # fmt: skip
        log.append(json.dumps(sample))
    # A judge who prefers the answer shown first by 0.8 nats, on average.
    random, judged = np.random.default_rng(0), list[str]()
    for number in range(2 * ROWS):
        is_first, worth = bool(random.integers(2)), float(random.normal(0.3 * (number % 2), 1.5))
        log_odds = 0.8 + (worth if is_first else -worth)
        pair = {"candidate": "ab"[number % 2], "question": number // 2}
        pair |= {"candidate_first": is_first, "log_odds_first": round(log_odds, 3)}
        judged.append(json.dumps(pair))
    contents = {
        SCORES: csv_text(table), PROMPTS: csv_text(prompts),
        LOG: "\n".join([*log, ""]), JUDGE: "\n".join([*judged, ""]),
    }  # fmt: skip
    return {name: content.encode() for name, content in contents.items()}
