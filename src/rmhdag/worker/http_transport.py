"""The transport over the HTTP API, with a key and without a database: one call per batch.

Waiting has no effect on the server, so it may end at any moment: a thread waits for a notification, and the exchange
claims. A claim that waited could lease tasks to a worker that is no longer listening.
"""

from __future__ import annotations

import logging
import select
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from hashlib import sha256
from typing import Any, TypeVar

import httpx
import orjson

from rmhdag.messaging.wake import Wake
from rmhdag.models.json_values import may_hold_reserved_key
from rmhdag.models.leases import (
    BeatAnswer,
    CheckpointToSave,
    ClaimedTask,
    HeldTask,
    LogChunk,
    Pair,
    PayloadMissingError,
    ReturnedLease,
    TaskProgress,
    TaskReport,
)
from rmhdag.models.limits import PAYLOAD_CHUNK_BYTES
from rmhdag.models.references import Reference, as_reference
from rmhdag.observability.supervision import Loop, Supervisor
from rmhdag.worker.settings import WorkerSettings
from rmhdag.worker.transport import Identity, KeyRefused, NotAllowed, Refused, TransportError, Unreachable

T = TypeVar("T")
# httpx logs every call; at a few calls per second that is noise.
logging.getLogger("httpx").setLevel(logging.WARNING)
PROBLEM = "application/problem+json"
WAIT_SECONDS = 25.0
# The server polls once a second for all waiting workers; ours is for notifications that do not reach us.
POLLS_PER_LOOK = 5
BELL_PAUSE_SECONDS = 1.0
IDLE_SECONDS = 5.0
CHECKPOINTS_PER_CALL = 50


class NotThere(TransportError):
    """The API has no such object: a worker that was declared dead, or a payload that was pruned."""


def _nothing() -> None:
    """Ignores the progress of calls."""


class HttpLink:
    """Calls, and the translation of error responses into errors of the transport."""

    def __init__(self, settings: WorkerSettings, read_seconds: float) -> None:
        self._settings = settings
        self._read_seconds = read_seconds
        self._client: httpx.Client | None = None
        self.on_call: Callable[[], None] = _nothing

    def disconnect(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None

    def say(self, path: str, body: Any, method: str = "POST") -> Any:
        """JSON in and out."""
        text = None if body is None else orjson.dumps(body)
        answer = self.send(method, path, text, "application/json")
        return orjson.loads(answer.content) if answer.content else None

    def send(self, method: str, path: str, content: bytes | None, media_type: str) -> httpx.Response:
        self.on_call()
        if self._client is None:
            self._client = self._open()
        try:
            answer = self._client.request(
                method, f"/api/v1{path}", content=content, headers={"Content-Type": media_type} if content else None
            )
        except httpx.TransportError as error:
            raise Unreachable(str(error) or type(error).__name__) from error
        if answer.is_success:
            return answer
        raise self._meaning(answer)

    def _open(self) -> httpx.Client:
        return httpx.Client(
            base_url=str(self._settings.api_url).rstrip("/"),
            headers={"Authorization": f"Bearer {self._settings.api_key}"},
            timeout=httpx.Timeout(self._read_seconds, connect=5.0),
        )

    def _meaning(self, answer: httpx.Response) -> Exception:
        status, detail = answer.status_code, _detail(answer)
        if status in (401, 403):
            return KeyRefused(f"{self._settings.api_url} refuses the key: {detail}")
        is_ours = answer.headers.get("content-type", "").startswith(PROBLEM)
        if not is_ours or status in (408, 425, 429) or status >= 500:
            return Unreachable(f"{status} {detail}", _seconds(answer.headers.get("retry-after")))
        return NotThere(detail) if status == 404 else Refused(detail)


def _detail(answer: httpx.Response) -> str:
    """The detail of a problem document, with its first place."""
    try:
        body = orjson.loads(answer.content)
        place = body["errors"][0] if body.get("errors") else {"detail": body["detail"], "pointer": ""}
        return f"{place['detail']} at {place['pointer']}" if place["pointer"] else str(body["detail"])
    except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError):
        return f"{answer.reason_phrase}, and nothing that an API of rmhdag would say"


def _seconds(text: str | None) -> float:
    try:
        return max(0.0, float(text or 0))
    except ValueError:  # a date: clocks differ
        return 0.0


class HttpPulse(HttpLink):
    def __init__(self, settings: WorkerSettings) -> None:
        super().__init__(settings, read_seconds=5.0)

    def beat(self, worker_id: str, stats: dict[str, Any], *, draining: bool) -> BeatAnswer:
        try:
            answer = self.say(f"/workers/{worker_id}/heartbeat", {"stats": stats, "draining": draining})
        except NotThere:
            return BeatAnswer.GONE
        # An older server does not send this field.
        return BeatAnswer.DRAIN if answer.get("drain") else BeatAnswer.GO_ON


class HttpBell:
    """Waits at the API in a thread while the worker has room; `fileno` is readable after a notification."""

    def __init__(self, settings: WorkerSettings) -> None:
        self._link = HttpLink(settings, read_seconds=WAIT_SECONDS + 10)
        self._queues = list(settings.queues)
        self._rung = Wake()
        self._is_wanted = threading.Event()
        self._is_closed = threading.Event()

    def fileno(self) -> int:
        return self._rung.fileno()

    def listen(self) -> None:
        """Wait for the next notification. Notifications while nothing waits are delivered at the next wait."""
        self._is_wanted.set()

    def take(self) -> bool:
        return self._rung.take()

    def close(self) -> None:
        """Does not wait for the thread, which may wait for the API; it ends with the process at the latest."""
        self._is_closed.set()
        self._is_wanted.set()
        self._rung.close()

    def run(self, loop: Loop) -> None:
        place: str | None = None
        while not self._is_closed.is_set():
            loop.turn()
            if not self._is_wanted.wait(IDLE_SECONDS) or self._is_closed.is_set():
                continue
            try:
                body = {"queues": self._queues, "after": place, "wait_seconds": WAIT_SECONDS}
                answer = self._link.say("/tasks/wait", body)
            except (TransportError, NotAllowed):
                # The exchange will meet the error itself; wake it so that this happens soon.
                place, answer = None, {"rang": True, "place": None}
                self._is_closed.wait(BELL_PAUSE_SECONDS)
                self._link.disconnect()
            place = answer["place"]
            if answer["rang"]:
                self._is_wanted.clear()
                self._rung.ring()
        self._link.disconnect()


class HttpTransport(HttpLink):
    name = "the API"
    has_bell = True

    def __init__(self, settings: WorkerSettings) -> None:
        super().__init__(settings, read_seconds=15.0)
        self.poll_seconds = POLLS_PER_LOOK * settings.poll_seconds
        self._turns = deque(settings.queues)
        self._bell = HttpBell(settings)
        self._suspect_waits = False

    def pulse(self) -> HttpPulse:
        return HttpPulse(self._settings)

    def start(self, supervisor: Supervisor) -> None:
        supervisor.start("bell", self._bell.run, WAIT_SECONDS + 10 + self._settings.stuck_seconds)

    def connect(self) -> bool:
        if self._client is not None:
            return False
        self._client = self._open()
        return True

    def close(self) -> None:
        self._bell.close()
        self.disconnect()

    def register(self, identity: Identity, before: str | None) -> None:
        body = {**identity._asdict(), "before": before}
        try:
            self.say("/workers/register", body)
        except Refused as error:
            raise NotAllowed(f"{self._settings.api_url} does not register this worker: {error}") from error

    def leave(self, worker_id: str) -> None:
        with suppress(NotThere):
            self.say(f"/workers/{worker_id}", None, "DELETE")

    def wait(self, timeout_seconds: float, wake_fd: int, *, is_hungry: bool) -> bool:
        poll = select.poll()
        poll.register(wake_fd, select.POLLIN)
        if is_hungry:
            self._bell.listen()
            poll.register(self._bell, select.POLLIN)
        poll.poll(timeout_seconds * 1000)
        return is_hungry and self._bell.take()

    def has_rung(self) -> bool:
        return self._bell.take()

    def claim(self, worker_id: str, limit: int) -> Iterator[list[ClaimedTask]]:
        self._turns.rotate(-1)
        try:
            answer = self.say("/tasks/claim", {"worker_id": worker_id, "queues": list(self._turns), "limit": limit})
        except NotThere:  # declared dead: the heartbeat reports it
            return
        self._suspect_waits = answer["suspect_waits"]
        if answer["tasks"]:
            yield [_claimed(task) for task in answer["tasks"]]

    def suspect_waits(self) -> bool:
        """As of the last claim or check of our leases."""
        return self._suspect_waits

    def claim_suspect(self, worker_id: str) -> ClaimedTask | None:
        self._suspect_waits = False
        try:
            answer = self.say("/tasks/claim-suspect", {"worker_id": worker_id, "queues": list(self._turns)})
        except NotThere:
            return None
        return None if answer["task"] is None else _claimed(answer["task"])

    def mark_starts(self, worker_id: str, pairs: Sequence[Pair]) -> set[str]:
        tasks = [{"task_id": task_id, "lease_epoch": epoch} for task_id, epoch in newest(pairs, lambda pair: pair)]
        answer = self.say("/callbacks/task-started", {"worker_id": worker_id, "tasks": tasks})
        return {outcome["task_id"] for outcome in answer["outcomes"] if outcome["outcome"] == "accepted"}

    def save_progress(self, worker_id: str, progress: Sequence[TaskProgress]) -> None:
        entries = [entry._asdict() for entry in newest(progress, lambda entry: (entry.task_id, entry.lease_epoch))]
        self.say("/callbacks/task-progress", {"worker_id": worker_id, "progress": entries})

    def save_checkpoints(self, worker_id: str, checkpoints: Sequence[CheckpointToSave]) -> Iterator[str | None]:
        for start in range(0, len(checkpoints), CHECKPOINTS_PER_CALL):
            yield from self._save(worker_id, checkpoints[start : start + CHECKPOINTS_PER_CALL])

    def _save(self, worker_id: str, checkpoints: Sequence[CheckpointToSave]) -> Iterator[str | None]:
        entries = [{**checkpoint._asdict(), "data": orjson.Fragment(checkpoint.data)} for checkpoint in checkpoints]
        try:
            answer = self.say("/callbacks/task-checkpoint", {"worker_id": worker_id, "checkpoints": entries})
        except Refused as error:
            if len(checkpoints) == 1:
                yield str(error)
            else:
                for checkpoint in checkpoints:
                    yield from self._save(worker_id, [checkpoint])
            return
        for outcome in answer["outcomes"]:
            yield None if outcome["outcome"] == "accepted" else str(outcome["reason"])

    def keep_logs(self, worker_id: str, chunks: Sequence[LogChunk]) -> None:
        """Without the job's fields: the server knows whose task it is."""
        fields = ("task_id", "lease_epoch", "chunk_index", "line_count", "truncated", "content")
        entries = [{field: getattr(chunk, field) for field in fields} for chunk in chunks]
        self.say("/callbacks/task-logs", {"worker_id": worker_id, "chunks": entries})

    def report(self, worker_id: str, reports: Sequence[TaskReport]) -> None:
        results = [_said(report) for report in reports]
        answer = self.say("/callbacks/task-result", {"worker_id": worker_id, "results": results})
        refused = next((outcome for outcome in answer["outcomes"] if outcome["outcome"] == "refused"), None)
        if refused is not None:
            raise Refused(str(refused["reason"]))

    def release(self, worker_id: str, leases: Sequence[ReturnedLease]) -> None:
        tasks = [_returned(lease) for lease in newest(leases, lambda lease: lease[:2])]
        self.say("/tasks/release", {"worker_id": worker_id, "tasks": tasks})

    def held_tasks(self, worker_id: str, epochs: Mapping[str, int]) -> list[HeldTask]:
        tasks = [{"task_id": task_id, "lease_epoch": epoch} for task_id, epoch in epochs.items()]
        answer = self.say("/callbacks/task-heartbeat", {"worker_id": worker_id, "tasks": tasks})
        self._suspect_waits = answer["suspect_waits"]
        return [
            HeldTask(task["task_id"], task["lease_epoch"], task["state"] == "cancelled")
            for task in (*answer["tasks"], *answer["unknown"])
            if task["state"] != "gone"
        ]

    def write_payload(self, namespace: str, job_id: str, text: bytes) -> Reference:
        """The namespace follows from the key, the job from the task. Chunks that the server has are not sent again."""
        digest = sha256(text).hexdigest()
        with suppress(NotThere):
            self.say(f"/payloads/{digest}", None, "GET")
            return Reference(digest, len(text))
        count = 0
        for start in range(0, len(text), PAYLOAD_CHUNK_BYTES):
            chunk = text[start : start + PAYLOAD_CHUNK_BYTES]
            self.send("PUT", f"/payloads/{digest}/chunks/{count}", chunk, "application/octet-stream")
            count += 1
        self.say(f"/payloads/{digest}", {"size_bytes": len(text), "chunk_count": count})
        return Reference(digest, len(text))

    def read_payload(self, namespace: str, digest: str) -> bytes:
        try:
            payload = self.say(f"/payloads/{digest}", None, "GET")
            chunks = [
                self.send("GET", f"/payloads/{digest}/chunks/{index}", None, "").content
                for index in range(payload["chunk_count"])
            ]
        except (NotThere, Refused) as error:
            raise PayloadMissingError(f"there is no payload {digest} in namespace {namespace!r}") from error
        text = b"".join(chunks)
        if sha256(text).hexdigest() != digest:
            raise Unreachable(f"payload {digest} arrived damaged")
        return text


def _said(report: TaskReport) -> dict[str, Any]:
    fields = report._asdict()
    for field in ("output", "records"):
        text = fields.pop(field)
        if text is not None:
            reference = as_reference(orjson.loads(text)) if may_hold_reserved_key(text[:64]) else None
            if reference is None:
                fields[field] = orjson.Fragment(text)
            else:
                fields[f"stored_{field}"] = asdict(reference)
    for field in ("error", "warnings"):
        text = fields.pop(field)
        if text is not None:
            fields[field] = orjson.Fragment(text)
    return fields


def _returned(lease: ReturnedLease) -> dict[str, Any]:
    """Omits an empty reason: an older API does not know the field."""
    fields = lease._asdict()
    return fields if lease.reason is not None else {name: fields[name] for name in fields if name != "reason"}


def newest(entries: Sequence[T], pair_of: Callable[[T], Pair]) -> list[T]:
    """One entry per task: an older lease of the same task is void, so its entry is dropped."""
    latest: dict[str, T] = {}
    for entry in entries:
        task_id, epoch = pair_of(entry)
        if task_id not in latest or pair_of(latest[task_id])[1] <= epoch:
            latest[task_id] = entry
    return list(latest.values())


def _claimed(task: dict[str, Any]) -> ClaimedTask:
    """Ignores fields that a newer API adds. The worker has one namespace, to which all its slots belong."""
    return ClaimedTask(*(task[field] for field in ClaimedTask._fields if field != "lanes"))
