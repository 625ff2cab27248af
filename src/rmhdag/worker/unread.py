"""Tasks that are leased to this worker but cannot be passed on yet: their stored parameters are not read yet."""

from __future__ import annotations

import time
from collections.abc import Container, Iterable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from rmhdag.models.leases import ClaimedTask, Pair
from rmhdag.observability.logs import get_logger
from rmhdag.store.secret_inputs import open_secret
from rmhdag.worker.references import UnresolvedReferenceError, resolve_references
from rmhdag.worker.task_secrets import TaskSecrets
from rmhdag.worker.transport import NotAllowed, Transport

log = get_logger(__name__)
FIRST_PAUSE_SECONDS = 0.1
MOST_PAUSE_SECONDS = 2.0


@dataclass(slots=True)
class _Entry:
    task: ClaimedTask
    since: float
    due_at: float
    failures: int = 0


class Read(NamedTuple):
    """The outcome of one round. `hopeless` tasks should be released: another worker may be able to read them."""

    ready: list[ClaimedTask]
    refused: list[tuple[ClaimedTask, str]]
    hopeless: list[Pair]


class Unread:
    """Used by the thread of the exchange; other threads may read the number of tasks."""

    def __init__(self, patience_seconds: float) -> None:
        self._patience_seconds = patience_seconds
        self._entries: dict[Pair, _Entry] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def pairs(self) -> list[Pair]:
        return list(self._entries)

    def add(self, tasks: Iterable[ClaimedTask]) -> None:
        now = time.monotonic()
        for task in tasks:
            self._entries[task.task_id, task.lease_epoch] = _Entry(task, now, now)

    def take_out(self, pairs: Container[Pair] | None = None) -> list[Pair]:
        """Remove these tasks, or all of them."""
        removed = [pair for pair in list(self._entries) if pairs is None or pair in pairs]
        for pair in removed:
            del self._entries[pair]
        return removed

    def next_in(self, now: float) -> float | None:
        """Seconds until the next task is due."""
        return min((entry.due_at - now for entry in self._entries.values()), default=None)

    def read(self, transport: Transport, secrets: TaskSecrets) -> Read:
        """Try the tasks that are due. An error affects only its own entry, which waits a little longer."""
        read = Read([], [], [])
        for pair, entry in list(self._entries.items()):
            now = time.monotonic()
            if entry.due_at > now:
                continue
            try:
                task = with_values(transport, entry.task, secrets)
            except UnresolvedReferenceError as error:
                read.refused.append((entry.task, str(error)))
            except NotAllowed:
                raise
            except Exception as error:
                if self._waits_on(entry, error):
                    transport.disconnect()
                    continue
                read.hopeless.append(pair)
            else:
                read.ready.append(task)
            del self._entries[pair]
        return read

    def _waits_on(self, entry: _Entry, error: Exception) -> bool:
        now = time.monotonic()
        entry.failures += 1
        pause = min(MOST_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2 ** min(entry.failures, 10))
        entry.due_at = now + pause
        is_hopeless = entry.due_at - entry.since > self._patience_seconds
        if entry.failures == 1 or is_hopeless:
            log.warning(
                "task_parameters_not_read",
                task_id=entry.task.task_id,
                lease_epoch=entry.task.lease_epoch,
                error=f"{type(error).__name__}: {error}",
                remedy="the task is released" if is_hopeless else "it is tried again",
            )
        return not is_hopeless


def with_values(transport: Transport, task: ClaimedTask, secrets: TaskSecrets) -> ClaimedTask:
    """The task with references replaced by stored values; remembers which of them are secret."""
    read = partial(transport.read_payload, task.namespace)

    def open_and_keep(text: bytes) -> str:
        value = open_secret(task.namespace, text)
        secrets.keep(task.task_id, value)
        return value

    return task._replace(params=resolve_references(task.params, read, open_and_keep))
