"""The contexts of a run that no worker has finished, one at a time, with a claim on each."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext

from batch_calibration.errors import InputError
from batch_calibration.scoring import NoAnswer
from batch_calibration.studies.claims import Claim, ClaimLost
from batch_calibration.studies.context_scores import Context
from batch_calibration.studies.store import Store


class Queue:
    """Yields contexts with claims until this worker or others have finished all of them.

    It waits for contexts that others hold, and takes them over from workers that have died. Of
    several processes that score as one, the first alone chooses; the others follow and hold no
    claims. Failures of earlier runs are tried again.

    Args:
        plan: the name under which the workdir keeps the plan.
        contexts: in the order in which they are tried.
        store: keeps their scores.
        notify: called with a sentence on contexts that others hold.

    Attributes:
        failed: why contexts cannot be scored, by their ids; this run or another found it.
    """

    def __init__(
        self,
        plan: str,
        contexts: Sequence[Context],
        store: Store,
        notify: Callable[[str], None] | None = None,
    ):
        import jax

        self.failed = dict[str, str]()
        self._contexts, self._store, self._notify = contexts, store, notify
        self._remaining = dict(enumerate(contexts))
        self._is_first = jax.process_index() == 0
        if self._is_first:
            store.progress.write_plan(plan, [context.planned for context in contexts])
        ids = [context.id for context in contexts]
        self._earlier_failures = {id_: store.progress.read_failure(id_) for id_ in ids}

    def __iter__(self) -> Iterator[tuple[Context, Claim | None]]:
        """Yields each context with its claim; the processes that follow hold none.

        Contexts are scored inside `attempt`, or are yielded again.
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
                if claim := self._claim(context):
                    sharding.broadcast_number(context.place)  # to the processes that follow
                    yield context, claim
            # Nothing could be claimed in a whole round: others hold what remains.
            if len(self._remaining) == count_before:
                names = [context.planned.name for context in self._remaining.values()]
                sentence = _describe_wait(names)
                if self._notify and sentence != notified:
                    self._notify(sentence)
                notified = sentence
                time.sleep(self._store.claims.pause)
        sharding.broadcast_number(-1)  # the processes that follow end

    @contextmanager
    def attempt(self, context: Context, claim: Claim | None) -> Iterator[None]:
        """Holds the claim while the context is scored, and keeps why it cannot be.

        Raises:
            NoAnswer: a server gives no answer, as it would not to the other contexts.
        """
        with claim or nullcontext():
            try:
                yield
            except ClaimLost:  # its new holder finishes it, or fails
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
        """Claims the context; returns None while another worker holds it, or if it failed."""
        failure = self._store.progress.read_failure(context.id)
        # A failure since this run began is another worker's.
        if failure and failure != self._earlier_failures[context.id]:
            self._fail(context, failure.sentence)
            return None
        try:
            return self._store.claims.take(context.id, context.planned.name, context.planned.rows)
        except InputError as error:  # a broken claim; the other contexts have theirs
            self._fail(context, str(error))
            return None

    def _fail(self, context: Context, sentence: str) -> None:
        self.failed[context.id] = sentence
        self._remaining.pop(context.place, None)


def _describe_wait(names: Sequence[str]) -> str:
    contexts = f"{len(names)} context{'s' if len(names) > 1 else ''}"
    more = "; ..." if len(names) > 3 else ""
    return f"waiting for {contexts} that others score: {'; '.join(names[:3])}{more}"
