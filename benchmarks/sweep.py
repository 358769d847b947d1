"""Measures a worker of a sweep over many contexts: processor seconds and file operations.

    python -m benchmarks.sweep          # 100,000 contexts, 256 workers
    python -m benchmarks.sweep --contexts=512 --to-end   # all workers in turn, until all is scored

No model is asked. A worker starts when the workdir holds the tables of the first contexts and other
workers claim the next ones. Operations look up, open, list, make, rename or remove files.
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType

import numpy as np

from batch_calibration.scores import ScoreTable, make_block
from batch_calibration.scoring import NOTHING_FINISHED, LabelScores
from batch_calibration.scoring.prompts.rendered import RenderedBlock, RenderedContext
from batch_calibration.studies import Store
from batch_calibration.studies.context_scores import Context, plan, score_context
from batch_calibration.studies.queue import Queue
from batch_calibration.studies.store import read_status

EVENTS = ("open", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.scandir", "os.listdir")
ROWS, LABELS = 100, ("no", "yes")
ZEROS, ONES = np.zeros((ROWS, 2), np.float32), np.ones(ROWS, np.int32)


class ZeroScorer:
    """A scorer without a model."""

    notes, identity = (), MappingProxyType({"kind": "causal_lm", "version": "sweep"})

    def score(self, inputs, labels, *, progress=None, finished=NOTHING_FINISHED):  # type: ignore
        """Returns zeros, and keeps them in the journal as one batch."""
        finished.add(range(ROWS), ZEROS)
        return LabelScores(ZEROS, ONES)


def meter() -> Callable[[str], None]:
    """Returns a function that prints the seconds and file operations since its last call."""
    operations, began = [0], [time.process_time()]

    def count(event: str, *_: object) -> None:
        operations[0] += event in (*EVENTS, "os.stat")

    sys.addaudithook(count)
    for name in ("stat", "lstat"):  # Python has no audit event for these.
        look_up = getattr(os, name)
        setattr(os, name, lambda *a, f=look_up, **n: count("os.stat") or f(*a, **n))

    def show(what: str) -> None:
        seconds = time.process_time() - began[0]
        print(f"{what}: {seconds:.2f} s, {operations[0]:,} operations", flush=True)
        operations[0], began[0] = 0, time.process_time()

    return show


def render(number: int) -> RenderedContext:
    """Makes a context with one block."""
    ids, gold = [str(row) for row in range(ROWS)], [row % 2 for row in range(ROWS)]
    context, block = {"seed": number, "shots": 1}, RenderedBlock(ids, gold, ids, {"texts": "made"})
    return RenderedContext({"task": "made", **context}, LABELS, ((" n",), (" y",)), {"test": block})


def work(contexts: list[Context], store: Store) -> Iterator[int]:
    """Yields the number of rows that one worker asks of each context, as in `run_scoring`."""
    queue, asked = Queue("a-b", contexts, store), 0
    for context, claim in queue:
        with queue.attempt(context, claim):
            is_open = context.place not in queue.complete
            asked = score_context(context, ZeroScorer(), store, claim) if is_open else 0
        yield asked


def main() -> None:
    """Makes workdirs, measures and prints."""
    flags = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    flags.add_argument("--contexts", type=int, default=100_000)
    flags.add_argument("--workers", type=int, default=256)
    flags.add_argument("--to-end", action="store_true", help="score all contexts in turn")
    args = flags.parse_args()
    os.fsync = lambda _: None
    contexts, show = list(map(render, range(args.contexts))), meter()
    with tempfile.TemporaryDirectory() as folder, ExitStack() as claims:
        planned = plan(contexts, ZeroScorer(), "", store := Store(folder, create=True))
        show("plan in an empty workdir")
        if args.to_end:
            working = [work(planned, store) for _ in range(args.workers)]
            while working := [worker for worker in working if next(worker, None) is not None]:
                pass
            return show(f"{args.workers} workers to the end")
        for before, done in pairwise((0, 0, args.contexts // 2, args.contexts * 99 // 100)):
            for context in planned[before:done]:
                _, gold, ids, spec = context.rendered.blocks["test"][:4]
                block = make_block(ZEROS, gold, ONES, ids, spec)
                store.put(ScoreTable(context.description, LABELS, {"test": block}))
            for context in planned[done:-1][: args.workers - 1]:  # leaves one for the new worker
                claims.enter_context(store.claims.take(context.id))  # type: ignore[arg-type]
            sizes = [path.stat().st_size for path in Path(folder, "scores").iterdir()]
            show(f"{done:,} tables of {sum(sizes):,} bytes, and claims of the other workers")
            planned = plan(contexts, ZeroScorer(), "", Store(folder))
            show("open the workdir and plan")
            next(filter(None, work(planned, store)))
            show("find and score the first context")
            read_status(store)
            show("status")
            claims.close()


if __name__ == "__main__":
    main()
