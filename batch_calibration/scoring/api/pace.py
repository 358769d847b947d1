"""When requests may be sent: so many a minute, and none while a server is busy."""

import asyncio
import math
import time
from collections.abc import Awaitable, Callable


class Pace:
    """Spaces requests evenly, so that no minute has more than `per_minute`; 0 is no limit."""

    def __init__(
        self,
        per_minute: int = 0,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        clock: Callable[[], float] = time.monotonic,
    ):
        self.sleep = sleep
        self.clock = clock
        self._gap = 60.0 / per_minute if per_minute else 0.0
        self._next = -math.inf
        self._held_until = -math.inf

    async def wait_for_turn(self) -> None:
        """Wait until the next request may be sent."""
        turn = max(self._next, self.clock())  # seconds of the clock
        # The turn is taken before the wait, so that no two requests share one.
        self._next = turn + self._gap
        # While it waits, another answer may hold all requests for longer.
        while (wait := max(turn, self._held_until) - self.clock()) > 0:
            await self.sleep(wait)

    def hold(self, seconds: float) -> None:
        """Let no request be sent for so long."""
        self._held_until = max(self._held_until, self.clock() + seconds)
