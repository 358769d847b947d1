"""Asks many questions at a time: answers are kept at once, failures told at the end."""

import asyncio
import json
from collections.abc import Callable, Coroutine, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Generic, NamedTuple, TypeVar

from batch_calibration.errors import InputError
from batch_calibration.files import Json
from batch_calibration.scoring import NoAnswer, Refused
from batch_calibration.scoring.api.answers import Answers, Request
from batch_calibration.scoring.api.client import Client

MAX_FAILURES_IN_A_ROW = 8
"""Requests that fail for good one after the other, before no more are sent."""
T = TypeVar("T")


class ApiCost(NamedTuple):
    """What a run will ask."""

    requests: int  # that have no answer yet
    tokens: int  # sent with them
    answered: int  # requests that earlier runs asked


class Failures(NamedTuple, Generic[T]):
    """Requests that have no answer."""

    sentences: list[str]  # why, one for each request that failed for good
    stopped: bool  # whether requests after them were not sent
    # What requests are called that the server, which answers others, refuses; and why.
    refused: list[tuple[T, str]]


async def ask_all(
    requests: Iterator[tuple[T, Request]],
    client: Client,
    answers: Answers,
    receive: Callable[[T, Json], None],
    in_flight: int,
) -> Failures[T]:
    """Send every request that has no answer yet.

    One that fails for good leaves the others be; after `MAX_FAILURES_IN_A_ROW` of them without an
    answer in between, no more are sent. `receive` takes what a request is called and its answer; an
    `InputError` of it says that the answer is of no use, and it is not kept in `answers`.
    """
    failures: list[str] = []
    refused: list[tuple[T, str]] = []
    in_a_row = 0  # failures since the last answer
    has_answer = False
    server = client.server.address

    async def work() -> None:
        nonlocal in_a_row, has_answer
        # The workers share one iterator: each takes the next request when it is free.
        for name, request in requests:
            try:
                earlier = answers.get(server, request)
                if earlier is not None:
                    # What an earlier version kept may be of no use to this one: it is asked again.
                    with suppress(InputError):
                        hidden = client.server.hide_key(earlier)
                        if hidden != earlier:
                            answers.keep(server, request, json.dumps(hidden))
                        receive(name, hidden)
                        has_answer = True
                        continue
                answers.start(server, request)
                answer, text = await client.ask(request)
                # Read before it is kept, so that an answer of no use is asked for again.
                receive(name, answer)
                answers.keep(server, request, text)
                in_a_row, has_answer = 0, True
            except InputError as error:
                answers.give_up(server, request)
                sentence = client.server.without_key(str(error))
                if isinstance(error, Refused):
                    refused.append((name, sentence))
                else:
                    failures.append(sentence)
                in_a_row += 1
            # The other workers see the same count and stop too.
            if in_a_row >= MAX_FAILURES_IN_A_ROW:
                return

    await asyncio.gather(*(work() for _ in range(in_flight)))
    # A request still in the iterator was never sent.
    stopped = next(requests, None) is not None
    # A server that refuses all it is asked, or many at once, refuses the way of asking.
    if stopped or not has_answer:
        return Failures([*failures, *(sentence for _, sentence in refused)], stopped, [])
    return Failures(failures, stopped, refused)


def refuse_unanswered(sentences: Sequence[str], stopped: bool, requests: int) -> None:
    """Say what has no answer, one sentence each; whether others were not sent; of how many."""
    if sentences:
        unsent = ", and those after them were not sent" if stopped else ""
        raise NoAnswer(
            f"{len(sentences):,} of {requests:,} requests have no answer{unsent}. {sentences[0]} "
            "What was answered is kept: give the same command again to ask for the rest alone."
        )


def run(work: Coroutine[None, None, T]) -> T:
    """What a coroutine gives, in a notebook too, whose thread has a loop of its own."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:  # no loop runs in this thread
        return asyncio.run(work)
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, work).result()
