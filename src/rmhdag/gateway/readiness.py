"""Start-up checks: until they pass nothing but /livez and /readyz is served, and they are tried again."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

from rmhdag.gateway.forwarding import Forwarder
from rmhdag.gateway.problems import Problem
from rmhdag.gateway.reads import Reads

# A result is shown again for so long: nobody can make us ask the platform all the time.
AGAIN_SECONDS = 1.0


class Readiness:
    def __init__(
        self,
        missing: list[str],
        reads: Reads | None,
        forwarder: Forwarder | None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._missing = missing
        self._reads = reads
        self._forwarder = forwarder
        self._clock = clock
        self._checking = asyncio.Lock()
        self._checked_at = float("-inf")
        self._checks: dict[str, dict[str, Any]] = {}
        # Stays true once set: from then on each route reports its own failures.
        self.has_passed = False

    async def check(self) -> dict[str, dict[str, Any]]:
        """Each check by its name: whether it passed, and why not."""
        async with self._checking:
            if self._clock() - self._checked_at > AGAIN_SECONDS:
                database, orchestrator = await asyncio.gather(self._database(), self._orchestrator())
                self._checks = {"env_vars": self._variables(), "database": database, "orchestrator": orchestrator}
                self._checked_at = self._clock()
                self.has_passed = self.has_passed or all(check["passed"] for check in self._checks.values())
            return self._checks

    def _variables(self) -> dict[str, Any]:
        return result(None if not self._missing else f"not set: {', '.join(self._missing)}")

    async def _database(self) -> dict[str, Any]:
        if self._reads is None:
            return result("RMHDAG_GATEWAY_DATABASE_URL is not set")
        try:
            row = await self._reads.check()
        except Problem:
            return result("the database does not answer, or `rmhdag db roles` has not made the gateway's views")
        return result("the role can write: use the one that `rmhdag db roles` creates" if row["can_write"] else None)

    async def _orchestrator(self) -> dict[str, Any]:
        if self._forwarder is None:
            return result("RMHDAG_ORCHESTRATOR_URL or RMHDAG_GATEWAY_KEY is not set")
        is_alive = await self._forwarder.is_alive()
        return result(None if is_alive else "the API does not answer, or refuses a key without the scope `gateway`")


def result(problem: str | None) -> dict[str, Any]:
    return {"passed": problem is None, **({} if problem is None else {"problem": problem})}
