"""How a worker reaches the platform: what it needs said and answered, over the database or over HTTP.

Only the calls differ. When to claim, what to send again, when a lease is believed: that is the exchange's, for both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from rmhdag.models.leases import (
    BeatAnswer,
    CheckpointToSave,
    ClaimedTask,
    HeldTask,
    LogChunk,
    Pair,
    ReturnedLease,
    TaskProgress,
    TaskReport,
)
from rmhdag.models.references import Reference
from rmhdag.observability.supervision import Supervisor
from rmhdag.worker.settings import WorkerSettings


class TransportError(Exception):
    """A call did not succeed."""


class Unreachable(TransportError):
    """Not now, and not the data's fault: the same is sent again, after `retry_seconds` if they are given."""

    def __init__(self, message: str, retry_seconds: float = 0.0) -> None:
        super().__init__(message)
        self.retry_seconds = retry_seconds


class Refused(TransportError):
    """The other side will not have the data, however often it is sent."""


class NotAllowed(Exception):
    """The platform will not have this worker: it cannot go on."""


class KeyRefused(NotAllowed):
    """The key opens nothing, or not this."""


class Failed(NamedTuple):
    """Something that no later try gets past: the worker cannot go on."""

    error: Exception


class Identity(NamedTuple):
    """As whom a worker is registered. The id is new with each start, and with each time it was declared dead."""

    worker_id: str
    host: str
    process_id: int
    version: str
    slots: int
    queues: tuple[str, ...]
    handlers: list[dict[str, Any]]

    @property
    def handler_names(self) -> frozenset[str]:
        """With their aliases: a task may carry either."""
        return handler_names(self.handlers)


def handler_names(manifests: list[dict[str, Any]]) -> frozenset[str]:
    return frozenset(name for one in manifests for name in (one["handler"], *one["aliases"]))


class Pulse(Protocol):
    """The sign of life, apart from everything that may be slow. Used by one thread."""

    def beat(self, worker_id: str, stats: dict[str, Any], *, draining: bool) -> BeatAnswer: ...

    def disconnect(self) -> None: ...


class Transport(Protocol):
    """Used by one thread. Every call may raise a TransportError; after one, `disconnect` and begin again."""

    name: str
    # Somebody rings when there is work; if not, only looking helps.
    has_bell: bool
    poll_seconds: float
    # Called before each call: work that needs many of them is not stuck.
    on_call: Callable[[], None]

    def pulse(self) -> Pulse: ...

    def start(self, supervisor: Supervisor) -> None:
        """The threads of its own, if it has any."""

    def connect(self) -> bool:
        """True if there was no connection."""

    def disconnect(self) -> None: ...

    def close(self) -> None: ...

    def register(self, identity: Identity, before: str | None) -> None:
        """What the one before may still hold, by a claim whose answer came too late, is told as lost."""

    def leave(self, worker_id: str) -> None: ...

    def wait(self, timeout_seconds: float, wake_fd: int, *, is_hungry: bool) -> bool:
        """Until somebody rings, if more tasks are wanted; until the descriptor is readable; or until it is time."""

    def has_rung(self) -> bool:
        """Since this was last asked, without waiting."""

    def claim(self, worker_id: str, limit: int) -> Iterator[list[ClaimedTask]]:
        """Tasks as they come, at most so many together."""

    def suspect_waits(self) -> bool: ...

    def claim_suspect(self, worker_id: str) -> ClaimedTask | None: ...

    def mark_starts(self, worker_id: str, pairs: Sequence[Pair]) -> set[str]:
        """Returns the tasks whose lease still matched."""

    def save_progress(self, worker_id: str, progress: Sequence[TaskProgress]) -> None: ...

    def save_checkpoints(self, worker_id: str, checkpoints: Sequence[CheckpointToSave]) -> Iterator[str | None]:
        """For each, in order, why it was not saved, or None."""

    def keep_logs(self, worker_id: str, chunks: Sequence[LogChunk]) -> None: ...

    def report(self, worker_id: str, reports: Sequence[TaskReport]) -> None:
        """All or none; a lease that is gone, or was reported before, changes nothing."""

    def release(self, worker_id: str, given: Sequence[ReturnedLease]) -> None: ...

    def held_tasks(self, worker_id: str, known: Mapping[str, int]) -> list[HeldTask]:
        """What the rows say that this worker holds; `known` is what it believes to hold."""

    def write_payload(self, namespace: str, job_id: str, text: bytes) -> Reference:
        """Store a value that the job needs."""

    def read_payload(self, namespace: str, digest: str) -> bytes:
        """Raises PayloadMissingError."""


def choose_transport(settings: WorkerSettings) -> Transport:
    """Imported only here: a worker over HTTP needs no driver of a database."""
    if settings.api_url is not None:
        from rmhdag.worker.http_transport import HttpTransport

        return HttpTransport(settings)
    from rmhdag.worker.database_transport import DatabaseTransport

    return DatabaseTransport(settings)
