"""A small study and a scorer that needs no model, in processes that tests kill.

python workers.py kill FOLDER SEED KILLS      kills workers at random moments; prints what came out
python workers.py score WORKDIR LOG           one worker, until all is scored
python workers.py status WORKDIR
"""

import json
import os
import random
import signal
import sys
import time
from hashlib import sha256
from pathlib import Path

import numpy as np

from batch_calibration.cli.guard import answer
from batch_calibration.scoring import NOTHING_FINISHED, LabelScores
from batch_calibration.scoring.prompts.rendered import RenderedBlock, RenderedContext
from batch_calibration.settings import Cell, Settings
from batch_calibration.studies import Store, scoring
from batch_calibration.studies.store import read_status

CONTEXTS, ROWS, BATCH = 12, 40, 5
SIZES = {"test": ROWS, "cc": 2, "dc": 6}


def context(cell, sizes=SIZES):
    """A context whose inputs are texts that name it, its block and their row."""
    # A cell with a template has a probe of that name in place of the usual ones.
    sizes = {"test": ROWS, cell.prompt.template: 5} if cell.prompt.template else sizes

    def block(name, size):
        inputs = [f"{cell.task} {cell.seed} {name} {row}" for row in range(size)]
        ids = [f"{name}/{row}" for row in range(size)]
        return RenderedBlock(inputs, [row % 2 for row in range(size)], ids, {"texts": name})

    context_keys = {"task": cell.task, "seed": cell.seed, "shots": 1, "labels": [" no", " yes"]}
    blocks = {name: block(name, size) for name, size in sizes.items()}
    return RenderedContext(context_keys, ("no", "yes"), ((" no",), (" yes",)), blocks)


def render(settings, cells, **_):
    """In place of `render_contexts`, which reads rows."""
    return [context(cell) for cell in cells]


class FakeScorer:
    """Scores that are hashes of the texts, a batch of rows after the other, each in a log."""

    def __init__(self, log):
        self.notes, self.identity = [], {"kind": "causal_lm", "version": "fake"}
        self.log = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def score(self, inputs, labels, *, progress=None, finished=NOTHING_FINISHED):
        log_probs = np.zeros((len(inputs), len(labels)), np.float32)
        for row, row_log_probs in finished.rows.items():
            log_probs[row] = row_log_probs
        for start in range(0, len(inputs), BATCH):
            rows = list(range(start, min(start + BATCH, len(inputs))))
            if set(rows) <= set(finished.rows):
                continue
            # Before the work: what a kill cuts short counts as scored.
            os.write(self.log, "".join(f"{inputs[row]}\n" for row in rows).encode())
            batch_log_probs = np.array([self.one(inputs[row]) for row in rows], np.float32)
            log_probs[rows] = batch_log_probs
            finished.add(rows, batch_log_probs)
            if progress:
                progress(rows[-1] + 1)
        return LabelScores(log_probs, np.full(len(inputs), 7, np.int32))

    def one(self, text):
        digest = sha256(text.encode()).digest()
        for _ in range(2000):  # some work, so that a kill may fall into a batch
            digest = sha256(digest).digest()
        return [-digest[0] / 9, -digest[1] / 9]


def score(workdir, log, cells=None, lease=60.0, scorer=None):
    """Score contexts as one worker of several; pauses are short, so that tests are."""
    store = Store(workdir, create=True, lease=lease)
    store.claims.pause = 0.01
    cells = cells or [Cell("fake", seed) for seed in range(CONTEXTS)]
    return scoring.run_scoring(Settings(), cells, store, scorer=scorer or FakeScorer(log))


def files(workdir):
    """The bytes of every file of scores, by name."""
    return {path.name: path.read_bytes() for path in (Path(workdir) / "scores").iterdir()}


def start(workdir, log):
    """A worker as a child of this process."""
    child = os.fork()
    if not child:
        score(workdir, log)
        os._exit(0)
    return child


def kill(folder, seed, kills):
    """Two workers, killed at random moments and started again, until all is scored; and again."""
    chance, killed = random.Random(seed), 0
    scored = []
    while killed < kills:
        workdir, log = folder / f"{len(scored)}", folder / f"{len(scored)}.log"
        log.touch()
        running, kills_here = [start(workdir, log) for _ in range(2)], 0
        while running:
            if killed < kills:
                time.sleep(chance.uniform(0, 0.25))
                child = running.pop(chance.randrange(len(running)))
                os.kill(child, signal.SIGKILL)
                if os.waitpid(child, 0)[1] == signal.SIGKILL:
                    killed, kills_here = killed + 1, kills_here + 1
                    running.append(start(workdir, log))
            else:
                os.waitpid(running.pop(), 0)
        scored.append({"workdir": str(workdir), "log": str(log), "kills": kills_here})
    print(json.dumps(scored))


if __name__ == "__main__":
    command, folder, *arguments = sys.argv[1:]
    scoring.render_contexts = render
    if command == "kill":
        kill(Path(folder), int(arguments[0]), int(arguments[1]))
    elif command == "score":
        answer(lambda: print(score(folder, arguments[0]).scored), f"workdir {folder}")
    else:
        answer(lambda: print(*read_status(Store(folder)).lines(), sep="\n"))
