"""Ids: time-ordered ones for rows (UUIDv7, so that indexes grow at one end), and deterministic ones for tasks.

Nothing here reads a clock or draws random numbers; `rmhdag.store.identity` does and calls this.
"""

from __future__ import annotations

import hashlib

RANDOM_BYTES = 10


def uuid7_hex(unix_ms: int, random_bytes: bytes) -> str:
    """RFC 9562 version 7 as 32 hex digits: 48 bits of time, then 74 random bits around version and variant."""
    if not 0 <= unix_ms < 2**48:
        raise ValueError(f"unix_ms {unix_ms} does not fit into 48 bits")
    if len(random_bytes) != RANDOM_BYTES:
        raise ValueError(f"UUIDv7 takes {RANDOM_BYTES} random bytes, got {len(random_bytes)}")
    tail = int.from_bytes(random_bytes, "big")
    high = (tail >> 64) & 0x0FFF
    low = tail & (2**62 - 1)
    return f"{unix_ms:012x}{0x7000 | high:04x}{0x8000_0000_0000_0000 | low:016x}"


class IdSequence:
    """UUIDv7s that grow strictly within one process, also within a millisecond and when the clock steps back."""

    def __init__(self) -> None:
        self._unix_ms = -1
        self._tail = 0

    def next(self, unix_ms: int, random_bytes: bytes) -> str:
        if unix_ms > self._unix_ms:
            self._unix_ms = unix_ms
            # The top bit stays clear, so that a busy millisecond has room to count upwards.
            self._tail = int.from_bytes(random_bytes, "big") & (2**73 - 1)
        else:
            self._tail += 1 + (int.from_bytes(random_bytes[:4], "big") >> 1)
            if self._tail >= 2**74:
                self._unix_ms += 1
                self._tail &= 2**73 - 1
        high, low = self._tail >> 62, self._tail & (2**62 - 1)
        return uuid7_hex(self._unix_ms, ((high << 64) | low).to_bytes(RANDOM_BYTES, "big"))


def task_id_of(job_id: str, node_id: str, attempt: int) -> str:
    """The same attempt has the same id, wherever it is computed.

    The job comes first, so that a job's tasks are one range of every index on task_id, and new rows go to its end.
    """
    digest = hashlib.blake2b(f"{node_id}\0{attempt}".encode(), digest_size=12).hexdigest()
    return f"{job_id[:39]}-{digest}"


def blob_id_of(owner: str, zone: str, container: str, path: str, role: str) -> str:
    """The same file of the same owner has one row, however often it is published. The owner is a job, or what
    `revision_owner` says of a revision that no job made."""
    return _digest_of(owner, zone, container, path, role)


def lineage_id_of(owner: str, role: str, source: str) -> str:
    """`source` is an URL, or an asset and its revision."""
    return _digest_of(owner, role, source)


def file_id_of(namespace: str, zone: str, container: str, path: str) -> str:
    """The id of a place in blob storage, independent of the asset that has a file there."""
    return _digest_of(namespace, zone, container, path)


def table_id_of(owner: str, stored_name: str) -> str:
    """A table of a job, or of what `revision_owner` says of a revision that no job made."""
    return _digest_of(owner, stored_name)


def unpublishing_id_of(owner: str, namespace: str, asset_id: str, revision: int) -> str:
    """`owner` is the node that asks for it, as `job/node`."""
    return _digest_of(owner, namespace, asset_id, str(revision))[:32]


def revision_owner(namespace: str, asset_id: str, revision: int) -> str:
    return f"{namespace}/{asset_id}/{revision}"


def _digest_of(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()
