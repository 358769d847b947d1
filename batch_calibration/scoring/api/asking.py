"""Asks many questions at a time: answers are kept at once, failures told at the end."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import NamedTuple, TypeVar

from batch_calibration.errors import InputError
from batch_calibration.files import Json
from batch_calibration.scoring.api.answers import Answers, Asked
from batch_calibration.scoring.api.client import Client

IN_A_ROW = 8
"""Requests that fail for good one after the other, before no more are sent."""


T = TypeVar("T")


class Failures(NamedTuple):
    """Requests that have no answer.

    Attributes:
        sentences: why, one for each request that failed for good.
        stopped: whether requests after them were not sent.
    """

    sentences: list[str]
    stopped: bool


async def ask_all(
    questions: Iterator[tuple[T, Asked]],
    client: Client,
    answers: Answers,
    hear: Callable[[T, Json], None],
    in_flight: int,
) -> Failures:
    """Ask every question that has no answer yet.

    One that fails for good leaves the others be; after `IN_A_ROW` of them without an answer in
    between, no more are asked.

    Args:
        questions: what each is called and its request, read as they are asked.
        client: sends them.
        answers: of earlier runs; gets each new one as it comes.
        hear: takes what a question is called and its answer; an `InputError` says that the answer
            is of no use, and it is not kept.
        in_flight: most requests at a time.
    """
    failed: list[str] = []
    in_a_row = 0

    async def work() -> None:
        nonlocal in_a_row
        # The workers share one iterator: each takes the next question when it is free.
        for name, asked in questions:
            try:
                known = answers.get(client.server.address, asked)
                if known is not None:
                    # What an earlier version kept may be of no use to this one: it is asked again.
                    with suppress(InputError):
                        hear(name, known)
                        continue
                value, text = await client.ask(asked)
                hear(name, value)
                answers.keep(client.server.address, asked, text)
                in_a_row = 0
            except InputError as error:
                failed.append(str(error))
                in_a_row += 1
            if in_a_row >= IN_A_ROW:
                return

    await asyncio.gather(*(work() for _ in range(in_flight)))
    return Failures(failed, next(questions, None) is not None)
