"""The port between a worker and the platform, implemented over the database and over HTTP.

Only the calls differ. The exchange decides for both when to claim, what to send again and which leases to trust.
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
    """A temporary error that the data did not cause: send the same again, after `retry_seconds` if set."""

    def __init__(self, message: str, retry_seconds: float = 0.0) -> None:
        super().__init__(message)
        self.retry_seconds = retry_seconds


class Refused(TransportError):
    """The platform refuses the data, however often it is sent."""


class NotAllowed(Exception):
    """The platform refuses this worker: it cannot go on."""


class KeyRefused(NotAllowed):
    """The key is not valid, or lacks the scope."""


class Failed(NamedTuple):
    """A permanent error: the worker cannot go on."""

    error: Exception


class Identity(NamedTuple):
    """The identity under which a worker registers. The id is new at each start and after each declaration of death."""

    worker_id: str
    host: str
    process_id: int
    version: str
    slots: int
    queues: tuple[str, ...]
    handlers: list[dict[str, Any]]

    @property
    def handler_names(self) -> frozenset[str]:
        """Names and aliases: a task may carry either."""
        return handler_names(self.handlers)


def handler_names(manifests: list[dict[str, Any]]) -> frozenset[str]:
    return frozenset(name for manifest in manifests for name in (manifest["handler"], *manifest["aliases"]))


class Pulse(Protocol):
    """The heartbeat, separate from everything that may be slow. Used by one thread."""

    def beat(self, worker_id: str, stats: dict[str, Any], *, draining: bool) -> BeatAnswer: ...

    def disconnect(self) -> None: ...


class Transport(Protocol):
    """Used by one thread. Every call may raise a TransportError; after one, `disconnect` and start again."""

    name: str
    # Whether notifications announce work; otherwise only polling finds it.
    has_bell: bool
    poll_seconds: float
    # Called before each call, so that work with many calls does not look stuck.
    on_call: Callable[[], None]

    def pulse(self) -> Pulse: ...

    def start(self, supervisor: Supervisor) -> None:
        """Start the transport's own threads, if it has any."""

    def connect(self) -> bool:
        """True if there was no connection."""

    def disconnect(self) -> None: ...

    def close(self) -> None: ...

    def register(self, identity: Identity, before: str | None) -> None:
        """Tasks that the previous identity may still hold, by a claim whose answer was late, are reported as lost."""

    def leave(self, worker_id: str) -> None: ...

    def wait(self, timeout_seconds: float, wake_fd: int, *, is_hungry: bool) -> bool:
        """Wait for a notification (if hungry), for the descriptor to be readable, or for the time-out."""

    def has_rung(self) -> bool:
        """Whether a notification has arrived since the last call; does not wait."""

    def claim(self, worker_id: str, limit: int) -> Iterator[list[ClaimedTask]]:
        """Claimed tasks in batches as they arrive, `limit` in all at most."""

    def suspect_waits(self) -> bool: ...

    def claim_suspect(self, worker_id: str) -> ClaimedTask | None: ...

    def mark_starts(self, worker_id: str, pairs: Sequence[Pair]) -> set[str]:
        """Returns the tasks whose lease still matched."""

    def save_progress(self, worker_id: str, progress: Sequence[TaskProgress]) -> None: ...

    def save_checkpoints(self, worker_id: str, checkpoints: Sequence[CheckpointToSave]) -> Iterator[str | None]:
        """For each checkpoint, in order, why it was not saved, or None."""

    def keep_logs(self, worker_id: str, chunks: Sequence[LogChunk]) -> None: ...

    def report(self, worker_id: str, reports: Sequence[TaskReport]) -> None:
        """All or none; a lease that is lost or was reported before changes nothing."""

    def release(self, worker_id: str, leases: Sequence[ReturnedLease]) -> None: ...

    def held_tasks(self, worker_id: str, epochs: Mapping[str, int]) -> list[HeldTask]:
        """The tasks that this worker holds according to the rows; `epochs` are the leases that it believes to hold."""

    def write_payload(self, namespace: str, job_id: str, text: bytes) -> Reference:
        """Store a value that the job needs."""

    def read_payload(self, namespace: str, digest: str) -> bytes:
        """Raises PayloadMissingError."""


def choose_transport(settings: WorkerSettings) -> Transport:
    """Imports the transport here only: a worker over HTTP needs no database driver."""
    if settings.api_url is not None:
        from rmhdag.worker.http_transport import HttpTransport

        return HttpTransport(settings)
    from rmhdag.worker.database_transport import DatabaseTransport

    return DatabaseTransport(settings)
