"""The platform as a handler sees it: ids, parameters, log, scratch folder, progress and checkpoints.

How messages are transported is up to the process that runs the handler; a context knows only a `Link`.
"""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, Protocol, TypeVar

from rmhdag.handlers.artifacts import sealed_data
from rmhdag.models.error_codes import ErrorCategory
from rmhdag.models.handler_result import HandlerError
from rmhdag.models.json_values import check_json
from rmhdag.models.limits import CHECKPOINT_BYTES, MESSAGE_CHARACTERS
from rmhdag.observability.secrets import mask_and_cut

if TYPE_CHECKING:
    from rmhdag.postgis.database import DataDatabase
    from rmhdag.storage import Storage

Params = TypeVar("Params")
PartParams = TypeVar("PartParams")
PHASE_LENGTH = 64


def clean_text(text: str) -> str:
    """The text without characters that PostgreSQL cannot store."""
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode()


class NonRetryableError(Exception):
    """A retry would fail the same way: the node fails at once, whatever its retry rule. With a `code`, the failure also
    says what is wrong and who can fix it, see docs/error-codes.md. A code of your own needs its `category`.
    """

    # Of a kind of refusal, for those that name none.
    default_code: ClassVar[str | None] = None

    def __init__(
        self,
        message: str = "",
        *,
        code: str | None = None,
        category: ErrorCategory | str | None = None,
        remediation: str | None = None,
        user_fixable: bool | None = None,
        details: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.error: HandlerError | None = None
        code = code or self.default_code
        if code is not None:
            self.error = HandlerError(
                code=code,
                category=category,
                # It may quote a hostile file.
                message=mask_and_cut(clean_text(message), MESSAGE_CHARACTERS) or code,
                remediation=remediation,
                user_fixable=user_fixable,
                retryable=False,
                details=details,
            )


class RetryLater(Exception):
    """Not now: the task returns to its queue and is offered again after this many seconds. No attempt is used up."""

    def __init__(self, seconds: float, reason: str = "") -> None:
        if not (math.isfinite(seconds) and 0 <= seconds <= 7 * 86_400):
            raise ValueError(f"RetryLater({seconds!r}): give seconds between 0 and 604800 (a week)")
        super().__init__(reason or f"again in {seconds:g} s")
        self.seconds = float(seconds)
        self.reason = str(reason)


class TaskInterrupted(BaseException):
    """Raised in a handler that was asked to stop and did not. `except Exception` does not catch it. A handler that
    catches it and returns has not succeeded, unless it returns `HandlerResult(complete=True)`.
    """


class LeaseLost(BaseException):
    """Another worker may be running this task by now: this one was frozen or declared dead. Write nothing more. Like
    TaskInterrupted it is not an `Exception`, so that a handler that retries failed writes does not continue.
    """


class StopReason(StrEnum):
    CANCELLED = "cancelled"
    TIMEOUT = "timeout"
    STOPPING = "stopping"


class _StopNotice:
    """Whether the handler knows that it should stop: one per run, shared by its parts."""

    __slots__ = ("is_seen",)

    def __init__(self) -> None:
        self.is_seen = False


class Checkpoint(NamedTuple):
    """The last checkpoint of an earlier run of this task."""

    phase: str
    data: Any


class Link(Protocol):
    """The connection from a running task to the worker."""

    def log(self, text: str) -> None: ...

    def progress(self, current: float, total: float | None, message: str | None) -> None: ...

    def checkpoint(self, phase: str, data: Any) -> None: ...

    def stop_reason(self) -> StopReason | None: ...


class HandlerContext(Generic[Params]):
    """One run of one task. `params` is the declared model, or a plain dict."""

    __slots__ = (
        "_check_lease",
        "_link",
        "_logger",
        "_notice",
        "_open_postgis",
        "_open_storage",
        "_scratch",
        "_scratch_path",
        "attempt",
        "job_id",
        "lease_epoch",
        "namespace",
        "node_id",
        "params",
        "resume",
        "task_id",
        "timeout_seconds",
        "trace_parent",
    )

    def __init__(
        self,
        link: Link,
        params: Params,
        *,
        task_id: str = "task",
        job_id: str = "job",
        node_id: str = "node",
        attempt: int = 1,
        lease_epoch: int = 1,
        timeout_seconds: int = 3600,
        namespace: str = "default",
        trace_parent: str | None = None,
        resume: Checkpoint | None = None,
        scratch: Path | None = None,
        open_storage: Callable[[], Storage] | None = None,
        open_postgis: Callable[[], DataDatabase] | None = None,
        check_lease: Callable[[], None] | None = None,
    ) -> None:
        self._link = link
        self._check_lease = check_lease
        self._open_storage = open_storage
        self._open_postgis = open_postgis
        self._logger: logging.Logger | None = None
        self._notice = _StopNotice()
        self._scratch: Path | None = None
        self._scratch_path = scratch
        self.params = params
        self.task_id = task_id
        self.job_id = job_id
        self.node_id = node_id
        self.attempt = attempt
        self.lease_epoch = lease_epoch
        self.timeout_seconds = timeout_seconds
        self.namespace = namespace
        self.trace_parent = trace_parent
        self.resume = resume

    @property
    def idempotency_key(self) -> str:
        """The same for every attempt of this node. Use it as a key for side effects in other systems, so that they
        happen once.
        """
        return f"{self.job_id}/{self.node_id}"

    @property
    def logger(self) -> logging.Logger:
        """A `logging.Logger` whose lines are kept per task (`rmhdag logs`); so is what the handler prints."""
        if self._logger is None:
            self._logger = task_logger(self._link)
        return self._logger

    @property
    def scratch(self) -> Path:
        """A local folder (`Path`) for this run only, removed when the run ends; a later attempt has another one."""
        if self._scratch is None:
            if self._scratch_path is None:
                raise RuntimeError("this run has no scratch folder: pass one to the code that runs the handler")
            self._scratch_path.mkdir(parents=True, exist_ok=True)
            self._scratch = self._scratch_path
        return self._scratch

    @property
    def used_scratch(self) -> Path | None:
        return self._scratch

    @property
    def storage(self) -> Storage:
        """Blob storage with the zones bronze, silver and gold, as configured for this worker."""
        if self._open_storage is None:
            raise NonRetryableError(
                "this worker has no blob storage: set RMHDAG_STORAGE where the worker is started, then retry the node",
                code="STORAGE_NOT_CONFIGURED",
            )
        return self._open_storage()

    @property
    def postgis(self) -> DataDatabase:
        """The data database (PostGIS), as configured for this worker: `with ctx.postgis.connect() as conn`. Its role
        sees nothing of the platform's own tables.
        """
        if self._open_postgis is None:
            raise NonRetryableError(
                "this worker has no data database: set RMHDAG_POSTGIS_URL where the worker is started, or install "
                "postgresql-15-postgis-3 for the embedded PostgreSQL, then retry the node",
                code="POSTGIS_NOT_CONFIGURED",
            )
        return self._open_postgis()

    @property
    def cancelled(self) -> bool:
        """True when the run should end: save what is worth saving, then return or raise. May raise LeaseLost. What you
        return then does not count as the result: the task returns to its queue if its worker is stopping, fails as
        timed out after its time limit, and is cancelled with its job. If the work is done anyway, return
        `HandlerResult(output, complete=True)`.
        """
        if self._check_lease is not None:
            self._check_lease()
        return self.stop_reason is not None

    @property
    def stop_reason(self) -> StopReason | None:
        """Why the run should end, or None. Reading a reason has the same consequences as reading `cancelled`."""
        reason = self._link.stop_reason()
        if reason is not None:
            self._notice.is_seen = True
        return reason

    def note_interruption(self) -> None:
        """Called by the worker when it raises TaskInterrupted or cancels the coroutine."""
        self._notice.is_seen = True

    def cut_short_by(self) -> StopReason | None:
        """Why the returned value may be incomplete or late; None if it counts as the result.

        A handler that does not know that its worker is stopping cuts nothing short: it may finish.
        """
        reason = self._link.stop_reason()
        return None if reason is StopReason.STOPPING and not self._notice.is_seen else reason

    def part(self, params: PartParams, first: float, last: float) -> HandlerContext[PartParams]:
        """A context for another handler that does part of this run, from `first` to `last` percent of the whole."""
        part = HandlerContext(
            _PartLink(self._link, first, last),
            params,
            task_id=self.task_id,
            job_id=self.job_id,
            node_id=self.node_id,
            attempt=self.attempt,
            lease_epoch=self.lease_epoch,
            timeout_seconds=self.timeout_seconds,
            namespace=self.namespace,
            trace_parent=self.trace_parent,
            scratch=self.scratch,
            open_storage=self._open_storage,
            open_postgis=self._open_postgis,
            check_lease=self._check_lease,
        )
        part._notice = self._notice
        return part

    def progress(self, current: float, total: float | None = None, message: str | None = None) -> None:
        """Report the progress of the run. Call it as often as you like: it is sent at most a few times per second."""
        for name, number in (("current", current), ("total", total)):
            if number is not None and not (math.isfinite(number) and 0 <= number < 2**63):
                raise ValueError(f"progress {name} is {number!r}: give a finite number that is not negative")
        if self._check_lease is not None:
            self._check_lease()
        self._link.progress(current, total, message)

    def checkpoint(self, phase: str, data: Any = None, *, artifact: str | os.PathLike[str] | None = None) -> None:
        """Save a checkpoint; returns when it is saved. A later run finds it in `resume`. If the phase produced a file,
        name it in `artifact`, or in `data` as `{"artifact": {"path": …}}`: its SHA-256 is computed now and compared
        before a run resumes from it.
        """
        self._link.checkpoint(*checked_checkpoint(phase, data, artifact))

    @contextmanager
    def replace_file(self, path: str | os.PathLike[str]) -> Iterator[Path]:
        """Write a file whole or not at all: write to the path that the context manager provides, which is renamed at
        the end. A worker that was declared dead and wakes up writes to another name than its successor.
        """
        target = Path(path)
        part = target.with_name(f".{target.name}.{self.task_id[-24:]}.{self.lease_epoch}.part")
        try:
            yield part
            with part.open("rb") as written:
                os.fsync(written.fileno())
            if self._check_lease is not None:
                self._check_lease()
            part.replace(target)
        finally:
            part.unlink(missing_ok=True)


def checked_checkpoint(phase: Any, data: Any, artifact: str | os.PathLike[str] | None = None) -> tuple[str, Any]:
    """A valid checkpoint with the hash of its artifact; raises ValueError otherwise."""
    if not isinstance(phase, str) or not 1 <= len(phase) <= PHASE_LENGTH or "\0" in phase:
        raise ValueError(f"checkpoint phase {phase!r}: give a name of 1 to {PHASE_LENGTH} characters")
    if artifact is not None:
        if data is not None and not isinstance(data, dict):
            raise ValueError("a checkpoint with an artifact has an object as its data")
        data = {**(data or {}), "artifact": {"path": os.fspath(artifact)}}
    return phase, check_json(sealed_data(data), max_bytes=CHECKPOINT_BYTES)


class _PartLink:
    """Reports of a part of a run, converted to the whole run. Only the whole run has checkpoints."""

    def __init__(self, whole: Link, first: float, last: float) -> None:
        self._whole = whole
        self._first = first
        self._share = (last - first) / 100
        self.log = whole.log
        self.stop_reason = whole.stop_reason

    def progress(self, current: float, total: float | None, message: str | None) -> None:
        done = 100 * min(current / total, 1.0) if total else 0.0
        self._whole.progress(self._first + self._share * done, 100.0, message)

    def checkpoint(self, phase: str, data: Any) -> None:
        raise RuntimeError(f"checkpoint {phase!r}: this handler runs as a part of another, which saves its own")


class _LinkHandler(logging.Handler):
    def __init__(self, link: Link) -> None:
        super().__init__()
        self._link = link

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._link.log(self.format(record) + "\n")
        except Exception:
            self.handleError(record)


LOG_FORMAT = logging.Formatter("%(asctime)s.%(msecs)03d %(levelname)s %(message)s", "%H:%M:%S")


def task_logger(link: Link) -> logging.Logger:
    """A private logger, so that runs in one process do not mix."""
    logger = logging.Logger("task", logging.DEBUG)
    handler = _LinkHandler(link)
    handler.setFormatter(LOG_FORMAT)
    logger.addHandler(handler)
    return logger
