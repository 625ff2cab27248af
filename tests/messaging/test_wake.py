"""A ring is never lost, wakes a loop that waits, and does not write to a file that came after it."""

from __future__ import annotations

import os
import select
import signal
import threading
from collections import deque

from rmhdag.messaging.wake import Wake

PATIENCE_MS = 10_000


def test_many_rings_are_one() -> None:
    wake = Wake()
    assert not wake.take()
    for _ in range(3):
        wake.ring()
    assert wake.take()
    assert not wake.take()
    wake.close()


def test_what_is_left_before_a_ring_is_seen_by_the_loop_that_waits() -> None:
    """Four threads leave things and ring; the loop sleeps whenever it has taken a ring, and must not sleep for ever."""
    wake, left, seen = Wake(), deque[int](), 0
    per_thread, threads = 20_000, 4

    def leave() -> None:
        for number in range(per_thread):
            left.append(number)
            wake.ring()

    ringers = [threading.Thread(target=leave) for _ in range(threads)]
    poll = select.poll()
    poll.register(wake.fileno(), select.POLLIN)
    for ringer in ringers:
        ringer.start()
    while seen < per_thread * threads:
        assert poll.poll(PATIENCE_MS), f"a ring was lost after {seen} of {per_thread * threads}"
        wake.take()
        while left:
            left.popleft()
            seen += 1
    for ringer in ringers:
        ringer.join()
    wake.take()
    assert not poll.poll(0), "nothing is left that would wake it again and again"
    wake.close()


def test_a_ring_within_a_ring_of_the_same_thread() -> None:
    """A signal comes at any moment of the thread that it interrupts."""
    wake = Wake()
    before = signal.signal(signal.SIGALRM, lambda *_: wake.ring())
    signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
    try:
        for _ in range(50_000):
            wake.ring()
            assert wake.take()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    wake.close()


def test_after_closing_nothing_is_written_to_the_file_that_has_the_number_now() -> None:
    wake = Wake()
    number = wake.fileno()
    wake.close()
    reused = os.eventfd(0, os.EFD_NONBLOCK)
    assert reused == number, "the number is free"
    wake.ring()
    assert not wake.take()
    assert not select.select([reused], [], [], 0)[0]
    os.close(reused)


def test_the_number_stays_taken_while_a_ring_is_under_way() -> None:
    wake = Wake()
    under_way = wake._eventfd
    wake.close()
    other = os.eventfd(0, os.EFD_NONBLOCK)
    assert under_way is not None
    assert other != under_way.number
    os.close(other)
