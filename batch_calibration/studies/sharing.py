"""Shares the contexts of a study among workers on one workdir: each scores what no other holds."""

import time
from collections.abc import Callable, Sequence

from batch_calibration.errors import InputError
from batch_calibration.scoring import NoAnswer
from batch_calibration.studies import Store
from batch_calibration.studies.claims import Claim, ClaimLost
from batch_calibration.studies.progress import Planned


def share(
    name: str,
    plan: Sequence[Planned],
    store: Store,
    work: Callable[[int, Claim | None], None],
    notify: Callable[[str], None] | None = None,
) -> dict[str, str]:
    """Call `work` with each context that other workers have not finished, until all are done.

    Contexts that others hold are waited for, and taken over from workers that have died. Of several
    processes that score as one, the first alone chooses; the others follow and hold no claims.

    Args:
        name: of the plan, under which the workdir keeps it.
        plan: the contexts, in the order in which they are tried.
        store: where their scores are kept.
        work: scores the context of that number, or finds it stored.
        notify: called with what is waited for.

    Returns:
        A sentence on each context that this run or another found to be such that it cannot be
        scored, by its id. What an earlier run could not score is tried again.

    Raises:
        InputError: a server gives no answer, as it would not to the other contexts.
    """
    import jax

    from batch_calibration.scoring.engine import sharding

    if jax.process_index():
        return _follow(work)
    store.progress.write_plan(name, plan)
    remaining, failed, notified = dict(enumerate(plan)), dict[str, str](), ""
    earlier_failures = {context.id: store.progress.read_failure(context.id) for context in plan}
    while remaining:
        count_before = len(remaining)
        for index, context in list(remaining.items()):
            failure = store.progress.read_failure(context.id)
            # A failure that was there before this run is tried again; one since then is another's.
            if failure and failure != earlier_failures[context.id]:
                failed[context.id] = failure.sentence
                del remaining[index]
                continue
            try:
                claim = store.claims.take(context.id, context.name, context.rows)
            except InputError as error:  # a broken claim; the other contexts have theirs
                failed[context.id] = str(error)
                del remaining[index]
                continue
            if claim is None:
                continue
            with claim:
                sharding.broadcast_number(index)  # to the processes that follow
                try:
                    work(index, claim)
                except ClaimLost:  # its new holder finishes it, or fails
                    continue
                except NoAnswer:  # the server is down: no other context would fare better
                    raise
                except InputError as error:
                    failed[context.id] = str(error)
                    store.progress.write_failure(context.id, str(error))
                else:
                    store.progress.clear_failure(context.id)
            del remaining[index]
        # Nothing could be claimed in a whole round: others hold what remains.
        if len(remaining) == count_before:
            names = "; ".join(context.name for context in list(remaining.values())[:3])
            more = "; ..." if len(remaining) > 3 else ""
            contexts = f"{len(remaining)} context{'s' if len(remaining) > 1 else ''}"
            sentence = f"waiting for {contexts} that others score: {names}{more}"
            if notify and sentence != notified:
                notify(sentence)
            notified = sentence
            time.sleep(store.claims.pause)
    sharding.broadcast_number(-1)  # the processes that follow end
    return failed


def _follow(work: Callable[[int, Claim | None], None]) -> dict[str, str]:
    from batch_calibration.scoring.engine import sharding

    failed = dict[str, str]()
    while (index := sharding.broadcast_number(-1)) >= 0:
        try:
            work(index, None)
        except InputError as error:
            failed[str(index)] = str(error)
    return failed
