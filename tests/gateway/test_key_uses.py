"""When keys were used is told again and again, also if they are used while it is being told."""

from __future__ import annotations

import asyncio

from rmhdag.gateway.key_uses import MINUTE, KeyUses
from rmhdag.gateway.keys import Holder
from rmhdag.models.api.clients import Uses
from rmhdag.models.clients import ClientQuotas

KEY = "0123456789abcdef"
HOLDER = Holder(KEY, "default", "acme", frozenset(), ClientQuotas(), True, None)
OTHER = HOLDER._replace(key_id="fedcba9876543210")


class Listener:
    """Takes what it is told when it is let."""

    def __init__(self) -> None:
        self.now = 0.0
        self.told: list[str] = []
        self.is_asked = asyncio.Event()
        self.may_answer = asyncio.Event()
        self.uses = KeyUses(self._tell, gather_seconds=0.0, clock=lambda: self.now)

    async def _tell(self, uses: Uses) -> bool:
        self.told += uses.key_ids
        self.is_asked.set()
        await self.may_answer.wait()
        return True

    async def asked(self) -> None:
        await asyncio.wait_for(self.is_asked.wait(), 10)
        self.is_asked.clear()

    async def answer(self) -> None:
        task = self.uses._task
        assert task is not None
        self.may_answer.set()
        await task
        self.may_answer.clear()


async def use_while_told(holder: Holder) -> Listener:
    listener = Listener()
    listener.uses.note(HOLDER)
    await listener.asked()
    listener.uses.note(holder)
    await listener.answer()
    return listener


def test_a_key_that_is_used_while_it_is_told_is_told_again_later() -> None:
    async def scenario() -> list[str]:
        listener = await use_while_told(HOLDER)
        listener.now += 2 * MINUTE
        listener.uses.note(HOLDER)
        await listener.asked()
        await listener.answer()
        return listener.told

    assert asyncio.run(scenario()) == [KEY, KEY]


def test_what_is_used_while_others_are_told_is_told_at_the_end() -> None:
    async def scenario() -> list[str]:
        listener = await use_while_told(OTHER)
        listener.may_answer.set()
        await listener.uses.close()
        return listener.told

    assert asyncio.run(scenario()) == [KEY, OTHER.key_id]
