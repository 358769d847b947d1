"""When the next request may be sent: so many a minute, and not before a server says so."""

import asyncio
import math
import time
from collections.abc import Awaitable, Callable

Sleep = Callable[[float], Awaitable[None]]


class Pace:
    """Spaces requests evenly, so that no minute has more than `per_minute`.

    Args:
        per_minute: most requests a minute; 0 is no limit.
        sleep: waits so many seconds.
        clock: seconds since some moment.
    """

    def __init__(
        self,
        per_minute: int = 0,
        sleep: Sleep = asyncio.sleep,
        clock: Callable[[], float] = time.monotonic,
    ):
        self.sleep = sleep
        self._clock = clock
        self._gap = 60.0 / per_minute if per_minute else 0.0
        self._next = -math.inf
        self._held = -math.inf

    async def turn(self) -> None:
        """Wait until the next request may be sent."""
        mine = max(self._next, self._clock())
        self._next = mine + self._gap
        while (wait := max(mine, self._held) - self._clock()) > 0:
            await self.sleep(wait)

    def hold(self, seconds: float) -> None:
        """Let no request be sent for so long."""
        self._held = max(self._held, self._clock() + seconds)
