"""A few numbers that parent and child both see at any moment.

Messages reach a child only when its handler lets go of the interpreter. The board needs no cooperation: the parent sees
which task runs and since when, takes back those that have not begun, and tells the running one to stop.

Keys grow. The child writes what it begins and only then looks whether that was taken back; the parent takes back and
only then looks what has begun. So whichever comes second sees the other.
"""

from __future__ import annotations

import mmap
import os
import struct
from typing import NamedTuple

from rmhdag.handlers.contract import StopReason

_INTS = struct.Struct("=qq")
_BEGUN = 0  # key, monotonic nanoseconds; written by the child
_TOLD = 16  # key, reason; written by the parent
_TAKEN_BACK = 32  # first and last key; written by the parent
_SIZE = 64
_REASONS = (None, StopReason.CANCELLED, StopReason.TIMEOUT, StopReason.STOPPING)


class Begun(NamedTuple):
    key: int
    at_ns: int


class Board:
    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self._memory = mmap.mmap(descriptor, _SIZE)

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

    def told(self, key: int) -> StopReason | None:
        told, reason = _INTS.unpack_from(self._memory, _TOLD)
        return _REASONS[reason] if told == key else None

    def take_back(self, first: int, last: int) -> None:
        _INTS.pack_into(self._memory, _TAKEN_BACK, first, last)

    def is_taken_back(self, key: int) -> bool:
        first, last = _INTS.unpack_from(self._memory, _TAKEN_BACK)
        return bool(first <= key <= last)
