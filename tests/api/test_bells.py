"""Those who wait for work hear of it, whatever happens to the thread that listens for all of them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from psycopg_pool import ConnectionPool

from rmhdag.api.bells import Bells
from tests.worker.conftest import QUEUE, Desk


class FaultyPool(ConnectionPool[Any]):
    """Real connections; the first few times somebody asks for one, an error that nobody expects."""

    faults_left = 2

    def __init__(self, dsn: str, **given: Any) -> None:
        super().__init__(dsn, **given)
        self.has_failed = threading.Event()

    @contextmanager
    def connection(self, timeout: float | None = None) -> Iterator[Any]:
        if self.faults_left:
            self.faults_left -= 1
            self.has_failed.set()
            raise RuntimeError("unexpected")
        with super().connection(timeout) as conn:
            yield conn


@pytest.fixture
def desk(migrated_database: str) -> Iterator[Desk]:
    made = Desk(migrated_database)
    yield made
    made.close()


def test_an_unexpected_error_does_not_leave_all_who_wait_without_a_bell(desk: Desk) -> None:
    schema = {"options": "-c search_path=dagapp", "autocommit": True}
    with FaultyPool(desk.dsn, kwargs=schema, min_size=0, max_size=2) as pool:
        bells = Bells(desk.dsn, "dagapp", pool, notify=True)
        try:

            async def wait_for_a_task() -> bool:
                waiting = asyncio.ensure_future(bells.wait("default", [QUEUE], bells.place("default", [QUEUE]), 30))
                await asyncio.to_thread(pool.has_failed.wait, 30)
                desk.add("echo")
                return await waiting

            assert asyncio.run(wait_for_a_task())
        finally:
            bells.close()
