"""Yields the unfinished contexts of a run, each with a claim."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext

from batch_calibration.errors import InputError
from batch_calibration.scoring import NoAnswer
from batch_calibration.studies.claims import Claim, ClaimLost
from batch_calibration.studies.context_scores import Context, is_complete
from batch_calibration.studies.store import Store


class Queue:
    """An iterator over contexts with claims that ends when all contexts are finished.

    It waits for contexts that other workers hold, and takes contexts over from dead workers. If
    several processes score together, only the first chooses contexts; the others follow and hold
    no claims. Contexts that failed in earlier runs are tried again.

    Args:
        plan: name of the plan in the workdir.
        contexts: the contexts, in the order in which they are tried.
        store: holds the score tables.
        notify: called with a message on contexts that other workers hold.

    Attributes:
        failed: id of a context -> the reason why it cannot be scored, from this run or another.
        complete: places of the yielded contexts that need no scoring, and so have no claim.
    """

    def __init__(
        self,
        plan: str,
        contexts: Sequence[Context],
        store: Store,
        notify: Callable[[str], None] | None = None,
    ):
        import jax

        self.failed, self.complete = dict[str, str](), set[int]()
        self._contexts, self._store, self._notify = contexts, store, notify
        self._remaining = dict(enumerate(contexts))
        self._is_first = jax.process_index() == 0
        if self._is_first:
            store.progress.write_plan(plan, [context.planned for context in contexts])
        self._earlier_failures = store.progress.read_failures()

    def __iter__(self) -> Iterator[tuple[Context, Claim | None]]:
        """Yields each context with its claim, or with None.

        Complete contexts have no claim, and processes that follow hold none. A context that is not
        scored inside `attempt` is yielded again.
        """
        from batch_calibration.scoring.engine import sharding

        if not self._is_first:
            while (index := sharding.broadcast_number(-1)) >= 0:
                yield self._contexts[index], None
            return
        notified = ""
        while self._remaining:
            count_before = len(self._remaining)
            for context in list(self._remaining.values()):
                # Most contexts of a large run are complete when a worker reaches them.
                if is_complete(context, self._store):
                    self.complete.add(context.place)
                    yield context, None
                elif claim := self._claim(context):
                    sharding.broadcast_number(context.place)  # to the processes that follow
                    yield context, claim
            # A round without a claim means that other workers hold all remaining contexts.
            if len(self._remaining) == count_before:
                sentence = _describe_wait([left.planned.name for left in self._remaining.values()])
                if self._notify and sentence != notified:
                    self._notify(sentence)
                notified = sentence
                time.sleep(self._store.claims.pause)
        sharding.broadcast_number(-1)  # ends the processes that follow

    @contextmanager
    def attempt(self, context: Context, claim: Claim | None) -> Iterator[None]:
        """Holds the claim while the context is scored, and stores the reason of a failure.

        Raises:
            NoAnswer: a server gives no answer; the other contexts would get none, either.
        """
        with claim or nullcontext():
            try:
                yield
            except ClaimLost:  # The new holder finishes the context.
                return
            except NoAnswer:
                raise
            except InputError as error:
                self._fail(context, str(error))
                if claim:
                    self._store.progress.write_failure(context.id, str(error))
                return
            if claim:
                self._store.progress.clear_failure(context.id)
        self._remaining.pop(context.place, None)

    def _claim(self, context: Context) -> Claim | None:
        """Returns a claim on the context; None while another worker holds it or after a failure."""
        failure = self._store.progress.read_failure(context.id)
        # A failure that this run did not find at its start comes from another worker.
        if failure and failure != self._earlier_failures.get(context.id):
            self._fail(context, failure.sentence)
            return None
        try:
            return self._store.claims.take(context.id, context.planned.name, context.planned.rows)
        except InputError as error:  # The claim is broken; other contexts are not affected.
            self._fail(context, str(error))
            return None

    def _fail(self, context: Context, sentence: str) -> None:
        self.failed[context.id] = sentence
        self._remaining.pop(context.place, None)


def _describe_wait(names: Sequence[str]) -> str:
    contexts = f"{len(names)} context{'s' if len(names) > 1 else ''}"
    more = "; ..." if len(names) > 3 else ""
    return f"waiting for {contexts} that other workers score: {'; '.join(names[:3])}{more}"
