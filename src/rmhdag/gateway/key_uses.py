"""When keys and identities were last used. The gateway cannot write it, and tells the API, at most once a minute."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

from rmhdag.gateway.keys import Holder
from rmhdag.models.api.clients import MOST_USES, Uses

# As the API notes uses of keys.
MINUTE = 60.0
# Until what was used is told, so that many are told together.
GATHER_SECONDS = 2.0
MOST_REMEMBERED = 100_000

Tell = Callable[[Uses], Awaitable[bool]]


class KeyUses:
    def __init__(
        self, tell: Tell, *, gather_seconds: float = GATHER_SECONDS, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._tell = tell
        self._gather_seconds = gather_seconds
        self._clock = clock
        # By their ids: what was told, and when; what is to be told, and whether it is a key.
        self._told_at: dict[str, float] = {}
        self._waiting: dict[str, bool] = {}
        self._task: asyncio.Task[None] | None = None

    def note(self, holder: Holder) -> None:
        name = holder.key_id or holder.identity_id or ""
        if self._clock() - self._told_at.get(name, float("-inf")) < MINUTE:
            return
        if len(self._waiting) < MOST_USES:
            self._waiting[name] = holder.key_id is not None
        # What was used while others were told still waits.
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._tell_later())

    async def close(self) -> None:
        """What was not told yet is told before the gateway ends."""
        if self._task is not None and not self._task.done():
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self._tell_now()

    async def _tell_later(self) -> None:
        await asyncio.sleep(self._gather_seconds)
        await self._tell_now()

    async def _tell_now(self) -> None:
        waiting, self._waiting = self._waiting, {}
        if not waiting:
            return
        uses = Uses(
            key_ids=[name for name, is_key in waiting.items() if is_key],
            identity_ids=[name for name, is_key in waiting.items() if not is_key],
        )
        if not await self._tell(uses):
            return
        if len(self._told_at) > MOST_REMEMBERED:
            self._told_at.clear()
        self._told_at |= dict.fromkeys(waiting, self._clock())
