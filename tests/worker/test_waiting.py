"""What waits to be sent, while one thread adds to it and another looks and takes."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator

import pytest

from rmhdag.worker.waiting import Waiting

THINGS = 100_000


@pytest.fixture
def threads_change_often() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("threads_change_often")
def test_looking_at_the_first_ones_while_others_come_loses_none_and_never_fails() -> None:
    waiting: Waiting[int] = Waiting()
    added = threading.Event()

    def add() -> None:
        for number in range(THINGS):
            waiting.add(number)
        added.set()

    adding = threading.Thread(target=add)
    adding.start()
    taken: list[int] = []
    try:
        while len(taken) < THINGS:
            first = waiting.first(500)
            assert first or not added.is_set() or waiting.first() or len(taken) == THINGS
            taken += first
            waiting.drop(len(first))
    finally:
        adding.join()
    assert taken == list(range(THINGS))
    assert not waiting


def test_dropping_after_all_was_cleared_takes_nothing_new() -> None:
    waiting: Waiting[int] = Waiting()
    waiting.add(1, 2, 3)
    assert waiting.first(2) == [1, 2]
    waiting.clear()
    waiting.drop(2)
    assert waiting.first() == []
