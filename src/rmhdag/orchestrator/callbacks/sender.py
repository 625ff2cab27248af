"""The thread that talks to the network: tries go in, answers come out, and no other thread waits for it."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Sequence
from queue import Empty, SimpleQueue

from rmhdag.observability.logs import get_logger
from rmhdag.orchestrator.callbacks.exchange import Answer, Exchange
from rmhdag.store.callbacks import ClaimedCallback

STOP_SECONDS = 1.0

log = get_logger(__name__)


class Sender:
    """`answered` is set with every answer. The thread starts with the first try: most installations have none."""

    def __init__(self, exchange: Exchange, answered: threading.Event) -> None:
        self._exchange = exchange
        self._answered = answered
        self._answers: SimpleQueue[tuple[ClaimedCallback, Answer]] = SimpleQueue()
        self._under_way: dict[tuple[str, int], ClaimedCallback] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    @property
    def under_way(self) -> Counter[tuple[str, str]]:
        """How many tries there are by namespace and host, answered ones included until they are taken."""
        return Counter((claimed.namespace, claimed.host) for claimed in self._under_way.values())

    def send(self, claimed: ClaimedCallback, headers: Sequence[tuple[str, str]], body: bytes) -> None:
        self._under_way[claimed.callback_id, claimed.lease_epoch] = claimed
        asyncio.run_coroutine_threadsafe(self._try(claimed, headers, body), self._running_loop())

    def take_answers(self) -> list[tuple[ClaimedCallback, Answer]]:
        answers: list[tuple[ClaimedCallback, Answer]] = []
        while True:
            try:
                claimed, answer = self._answers.get_nowait()
            except Empty:
                return answers
            self._under_way.pop((claimed.callback_id, claimed.lease_epoch), None)
            answers.append((claimed, answer))

    def stop(self) -> list[ClaimedCallback]:
        """Break off what has no answer, and say what that was."""
        loop, thread = self._loop, self._thread
        if loop is not None and thread is not None:
            self._loop = self._thread = None
            loop.call_soon_threadsafe(loop.stop)
            thread.join(STOP_SECONDS)
        claims = list(self._under_way.values())
        self._under_way.clear()
        return claims

    async def _try(self, claimed: ClaimedCallback, headers: Sequence[tuple[str, str]], body: bytes) -> None:
        try:
            answer = await self._exchange.post(claimed.url, headers, body, claimed.namespace)
        except Exception as error:  # a fault of ours; the callback must not wait for the end of its lease
            log.error("callback_broke", callback_id=claimed.callback_id, exc_info=error)
            answer = Answer(None, "it could not be sent")
        self._answers.put((claimed, answer))
        self._answered.set()

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(target=self._run, args=[self._loop], name="callbacks", daemon=True)
            self._thread.start()
        return self._loop

    def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        asyncio.set_event_loop(loop)
        try:
            loop.run_forever()
            tasks = asyncio.all_tasks(loop)
            for task in tasks:
                task.cancel()
            loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        finally:
            loop.close()
