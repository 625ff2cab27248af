"""Shared memory of a parent and its child.

Messages reach a child only when its handler releases the interpreter. The board needs no cooperation: the parent reads
which task runs, since when and its progress, takes back tasks that have not begun, and asks the running one to stop.

Keys grow. The child writes the task that it begins and only then checks whether it was taken back; the parent takes
back and only then checks which task has begun. So the second of the two always sees the first.

Progress has a sequence number. The child makes it odd, writes, and makes it even: if the parent reads an odd number,
or different numbers before and after, it read during a write and tries again in its next round.
"""

from __future__ import annotations

import math
import mmap
import os
import struct
import threading
from typing import NamedTuple

from rmhdag.handlers.contract import StopReason

_INTS = struct.Struct("=qq")
_BEGUN = 0  # key, monotonic nanoseconds; written by the child
_TOLD = 16  # key, reason; written by the parent
_TAKEN_BACK = 32  # first and last key; written by the parent
_NUMBER = struct.Struct("=q")
_SHOWN = 64  # number, key, current, total, bytes of the message, message; written by the child
_PROGRESS = struct.Struct("=qqddi")
_MOST_MESSAGE_BYTES = 3_000
_SIZE = 4096
_REASONS = (None, StopReason.CANCELLED, StopReason.TIMEOUT, StopReason.STOPPING)


class Begun(NamedTuple):
    key: int
    at_ns: int


class Shown(NamedTuple):
    """The progress of a task; `number` grows with each report."""

    number: int
    current: float
    total: float | None
    message: str | None


class Board:
    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self._memory = mmap.mmap(descriptor, _SIZE)
        self._number = 0
        # Handlers may report progress from several threads.
        self._showing = threading.Lock()

    @classmethod
    def create(cls) -> Board:
        descriptor = os.memfd_create("rmhdag-board", os.MFD_CLOEXEC)
        os.ftruncate(descriptor, _SIZE)
        return cls(descriptor)

    def close(self) -> None:
        self._memory.close()
        os.close(self.descriptor)

    def begin(self, key: int, at_ns: int) -> None:
        _INTS.pack_into(self._memory, _BEGUN, key, at_ns)

    def begun(self) -> Begun:
        """The task that runs; key 0 if none does."""
        return Begun(*_INTS.unpack_from(self._memory, _BEGUN))

    def tell(self, key: int, reason: StopReason) -> None:
        _INTS.pack_into(self._memory, _TOLD, key, _REASONS.index(reason))

    def stop_reason(self, key: int) -> StopReason | None:
        stopped_key, reason = _INTS.unpack_from(self._memory, _TOLD)
        return _REASONS[reason] if stopped_key == key else None

    def take_back(self, first: int, last: int) -> None:
        _INTS.pack_into(self._memory, _TAKEN_BACK, first, last)

    def is_taken_back(self, key: int) -> bool:
        first, last = _INTS.unpack_from(self._memory, _TAKEN_BACK)
        return bool(first <= key <= last)

    def show(self, key: int, current: float, total: float | None, message: str | None) -> None:
        text = b"" if message is None else message.encode()[:_MOST_MESSAGE_BYTES]
        start, end = _SHOWN + _PROGRESS.size, _SHOWN + _PROGRESS.size + len(text)
        with self._showing:
            self._number += 2
            _NUMBER.pack_into(self._memory, _SHOWN, self._number - 1)
            size = -1 if message is None else len(text)
            _PROGRESS.pack_into(
                self._memory, _SHOWN, self._number - 1, key, current, math.nan if total is None else total, size
            )
            self._memory[start:end] = text
            _NUMBER.pack_into(self._memory, _SHOWN, self._number)

    def shown(self, key: int) -> Shown | None:
        """The progress of this task, if it has reported any and is not writing now."""
        number, whose, current, total, size = _PROGRESS.unpack_from(self._memory, _SHOWN)
        start = _SHOWN + _PROGRESS.size
        text = self._memory[start : start + max(0, size)]
        if whose != key or number % 2 or _NUMBER.unpack_from(self._memory, _SHOWN)[0] != number:
            return None
        if not math.isfinite(current) or math.isinf(total):
            return None  # the process has overwritten this memory by accident
        # A message that was too long was cut, perhaps within a character.
        message = None if size < 0 else text.decode(errors="ignore")
        return Shown(number, current, None if math.isnan(total) else total, message)
