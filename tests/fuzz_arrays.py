"""Arrays and frames as other people have them, and labels named as our own columns."""

import csv
import io
from contextlib import redirect_stderr, redirect_stdout
from functools import partial
from pathlib import Path
from random import Random

import jax.numpy as jnp
import numpy as np
import pandas as pd
from truths import Case, Generator

from batch_calibration import accuracy, calibrate
from batch_calibration.cli import commands, options

OUR_COLUMNS = "row gold prediction task model shots seed gold_ prediction_ id"
OUR_COLUMNS = OUR_COLUMNS.split()
ROWS = 24  # one shape for each number of labels, so that programs are shared


def _random(chance: Random) -> np.random.Generator:
    return np.random.default_rng(chance.randrange(2**32))


def _log_probs(chance: Random, labels: int) -> np.ndarray:
    """Log-probabilities that sum to 1 over the labels, none below 0.02."""
    probs = _random(chance).dirichlet(np.full(labels, 2.0), ROWS) + 0.03
    return np.log(probs / probs.sum(axis=1, keepdims=True))


def _calibrated(scores, **options):
    return np.asarray(calibrate(scores, **options), np.float64)


def rounded_probabilities(chance: Random, folder: Path):
    """Probabilities as they are written, percentages and losses where nats are expected."""
    logs = _log_probs(chance, chance.choice((2, 3, 5)))
    probs = np.exp(logs)
    digits = chance.choice((2, 3, 4))
    halves = chance.choice((jnp.bfloat16, jnp.float16))
    kind, written = chance.choice((
        ("logs", logs), ("logs", logs.astype(np.float32)),
        ("probs", probs), ("probs", np.round(probs, digits)),
        ("probs", np.asarray(jnp.asarray(probs, halves), np.float32)),
        ("percent", np.round(100 * probs, digits - 1)), ("losses", -logs),
    ))  # fmt: skip
    # Of what is no log-probability no number is right, so that any that comes is another one.
    truth = _calibrated(logs, from_probs=False) if kind == "logs" else "a sentence"
    yield Case(partial(_calibrated, written), truth, is_plain=kind == "logs")
    if kind == "probs":
        with np.errstate(divide="ignore"):
            nats = np.log(written)
        truth = _calibrated(nats, from_probs=False)
        yield Case(partial(_calibrated, written, from_probs=True), truth, is_plain=True)


def permuted_frames(chance: Random, folder: Path):
    """Frames, right labels and shares whose rows and names stand in other orders."""
    labels = chance.choice((2, 3, 5))
    logs, random = _log_probs(chance, labels), _random(chance)
    names = chance.sample(("no", "yes", "maybe", "A", "B", "C"), labels)
    gold = random.integers(0, labels, ROWS)
    places = list(range(ROWS))
    index = chance.choice(
        (places, [f"r{i}" for i in places], [i + 100 for i in places], [i // 2 for i in places])
    )
    frame = pd.DataFrame(logs, columns=names, index=index)
    texts = pd.Series([names[label] for label in gold], index=index)
    order, columns = random.permutation(ROWS), random.permutation(labels)
    hits = float(np.mean(logs.argmax(axis=1) == gold))
    # An index that says which row is which: texts, or numbers that do not count from 0.
    is_plain = index[0] in ("r0", 100)
    shuffled = texts.iloc[order]
    yield Case(partial(accuracy, frame, shuffled), hits, is_plain=is_plain)
    yield Case(partial(accuracy, frame.iloc[:, columns], texts), hits, is_plain=True)
    truth = _calibrated(logs, method="vector", labeled=logs, labels=gold)
    learn = partial(_calibrated, frame, method="vector", labels=shuffled)
    yield Case(partial(learn, labeled=frame), truth, is_plain=is_plain)
    yield Case(partial(learn, labeled=frame.iloc[:, columns]), truth, is_plain=is_plain)
    shares = pd.Series(random.dirichlet(np.full(labels, 5.0)), index=names)
    truth = _calibrated(logs, target_prior=shares.tolist())
    permuted = shares.iloc[columns]
    yield Case(partial(_calibrated, frame, target_prior=permuted), truth, is_plain=True)
    yield Case(partial(_calibrated, frame, target_prior=permuted.to_dict()), truth, is_plain=True)


def names_that_collide(chance: Random, folder: Path):
    """Labels that are called as columns of the output are: their scores come out as corrected."""
    labels = chance.sample(OUR_COLUMNS, 2) + chance.sample(("no", "yes"), chance.choice((0, 1)))
    logs = _log_probs(chance, len(labels)).round(4)
    gold = [chance.choice(labels) for _ in range(ROWS)]
    path, output = folder / "collide.csv", folder / "collide_out.csv"
    with path.open("w", newline="") as file:
        lines = csv.writer(file)
        lines.writerow([*labels, "right"])
        lines.writerows([*scores, label] for scores, label in zip(logs, gold, strict=True))
    truth = dict(zip(labels, _calibrated(logs).T, strict=True))
    arguments = ["calibrate", str(path), "--gold=right", f"--output={output}"]

    def run():
        chosen = [f"--labels={','.join(labels)}"] if chance.random() < 0.7 else []
        with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            args = options.parse([*arguments, *chosen])
            commands.RUN[args.command](args)
        with output.open(newline="") as file:
            written = list(csv.DictReader(file))
        assert len(written[0]) >= len(labels) + 2, "a column of the output is gone"
        return {label: [float(row[label]) for row in written] for label in labels}

    yield Case(run, truth)


GENERATORS: tuple[Generator, ...] = (rounded_probabilities, permuted_frames, names_that_collide)
"""Numbers of arrays and frames, each with the truth: see `truths.py`."""
