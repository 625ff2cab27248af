"""The client: `Client` blocks, `AsyncClient` is awaited; what they can do is written once."""

from __future__ import annotations

import os
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Generic, Self, TypeVar
from uuid import uuid4

import httpx
import orjson

import rmhdag
from rmhdag.client import calls
from rmhdag.client.assets import AssetOperations
from rmhdag.client.bodies import checked
from rmhdag.client.errors import AuthenticationError, InvalidRequest, RmhdagError, error_of
from rmhdag.client.jobs import AsyncJob, Job, JobOperations
from rmhdag.client.listening import listen
from rmhdag.client.sides import AsyncSide, Iteration, Operation, SyncSide
from rmhdag.client.steps import Items, Steps, ask, pages
from rmhdag.models.api.approvals import WaitingApproval
from rmhdag.models.api.audit import AuditView
from rmhdag.models.api.callbacks import CallbackView
from rmhdag.models.api.health import Health
from rmhdag.models.api.jobs import MOST_IN_A_BATCH, JobSubmission, JobSummary
from rmhdag.models.api.keys import KeyMade, KeyRequest, KeyView, Me, RotationRequest
from rmhdag.models.api.processes import DrainAnswer, OrchestratorSummary, WorkerSummary
from rmhdag.models.api.queues import DeadLetterSummary, Discarded, QueueStatus, Requeued
from rmhdag.models.api.quotas import QuotaList
from rmhdag.models.api.retention import Pruned, PrunePreview
from rmhdag.models.api.timeline import StreamedEvent
from rmhdag.models.api.workflows import Registration, WorkflowCheck, WorkflowDetail, WorkflowSummary
from rmhdag.models.scopes import Scope

J = TypeVar("J", bound=JobOperations[Any])
TIMEOUT_SECONDS = 30.0
# A server takes 10 MB, and one job may have 8 MB of parameters.
BATCH_BYTES = 4 * 1024 * 1024
Source = str | bytes | Path | Mapping[str, Any]


class BatchRefused(InvalidRequest, Generic[J]):
    """Some of many were refused: `refused` has the error of each, `jobs` those that were started, by index."""

    def __init__(self, jobs: dict[int, J], refused: dict[int, RmhdagError]) -> None:
        first = min(refused)
        what = f"{len(refused)} of {len(refused) + len(jobs)} jobs were refused; the first is {first}: "
        super().__init__("batch_refused", what + refused[first].detail)
        self.jobs = jobs
        self.refused = refused


class ClientOperations(AssetOperations, ABC, Generic[J]):
    @abstractmethod
    def _handle(self, job_id: str) -> J:
        """A job as this side has it."""

    @Operation
    def submit(
        self,
        workflow: str,
        params: Mapping[str, Any] | None = None,
        /,
        *,
        version: int | None = None,
        priority: int = 0,
        fairness_key: str | None = None,
        correlation_id: str | None = None,
        callback_url: str | None = None,
        idempotency_key: str | None = None,
        submitted_by: str | None = None,
        **inputs: Any,
    ) -> Steps[J]:
        """Start a job. Inputs are given by name, or in `params` where a name is one of the options here.

        Sent again after a failure it starts no second job: an idempotency key is made if none is given.
        """
        body = submission(
            {
                "workflow_id": workflow,
                "input_params": {**(params or {}), **inputs},
                "version": version,
                "priority": priority,
                "fairness_key": fairness_key,
                "correlation_id": correlation_id,
                "callback_url": callback_url,
                "idempotency_key": idempotency_key,
                "submitted_by": submitted_by,
            }
        )
        view = yield from ask(calls.submit(body))
        job = self._handle(view.job_id)
        yield from job.see(view)
        return job

    @Operation
    def submit_many(self, jobs: Iterable[Mapping[str, Any] | JobSubmission]) -> Steps[list[J]]:
        """Start many, up to a thousand per call. Each is `{"workflow_id": …, "input_params": {…}, …}`.

        Raises BatchRefused if some are refused; the others run.
        """
        bodies = [one if isinstance(one, JobSubmission) else submission(dict(one)) for one in jobs]
        bodies = [
            one if one.idempotency_key else one.model_copy(update={"idempotency_key": uuid4().hex}) for one in bodies
        ]
        made: dict[int, J] = {}
        refused: dict[int, RmhdagError] = {}
        start = 0
        for batch in batches(bodies):
            answers = yield from ask(calls.submit_batch(batch))
            for one in answers.jobs:
                if one.problem is not None:
                    refused[start + one.index] = error_of(one.problem)
                elif one.job_id is not None:
                    made[start + one.index] = self._handle(one.job_id)
            start += len(batch)
        if refused:
            raise BatchRefused(made, refused)
        return [made[index] for index in range(len(bodies))]

    @Operation
    def job(self, job_id: str) -> Steps[J]:
        """A job by its id. NotFound if there is none."""
        view = yield from ask(calls.get_job(job_id))
        job = self._handle(view.job_id)
        yield from job.see(view)
        return job

    @Iteration
    def jobs(
        self,
        *,
        status: str | Sequence[str] | None = None,
        workflow_id: str | None = None,
        submitted_by: str | None = None,
        correlation_id: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        text: str | None = None,
        page_size: int = 100,
    ) -> Items[JobSummary]:
        """Jobs, newest first, page after page."""
        filters = {
            "status": [status] if isinstance(status, str) else list(status or ()),
            "workflow_id": workflow_id,
            "submitted_by": submitted_by,
            "correlation_id": correlation_id,
            "since": since,
            "until": until,
            "q": text,
        }
        yield from pages(lambda cursor: calls.list_jobs(cursor, page_size, **filters), lambda page: page.jobs)

    @Iteration
    def events(self, *, since: datetime | None = None, event_types: Sequence[str] = ()) -> Items[StreamedEvent]:
        """Events of all jobs as they happen, for ever; from now on, or from about a moment."""
        yield from listen(calls.stream_all(since, event_types))

    @Iteration
    def approvals(self) -> Items[WaitingApproval]:
        """What waits for a person's decision now, longest first. `job(...).decide(...)` decides."""
        yield from pages(calls.list_approvals, lambda page: page.approvals)

    @Iteration
    def workflows(self, text: str | None = None, *, retired_too: bool = False) -> Items[WorkflowSummary]:
        """Registered workflows by id, each with its newest version."""
        yield from pages(
            lambda cursor: calls.list_workflows(cursor, text, retired_too=retired_too), lambda page: page.workflows
        )

    @Operation
    def workflow(self, workflow_id: str, version: int | None = None) -> Steps[WorkflowDetail]:
        """One workflow with its definition."""
        return (yield from ask(calls.get_workflow(workflow_id, version)))

    @Operation
    def retire_workflow(self, workflow_id: str) -> Steps[WorkflowSummary]:
        """Take no new jobs of it. Jobs under way go on."""
        return (yield from ask(calls.retire_workflow(workflow_id)))

    @Operation
    def restore_workflow(self, workflow_id: str) -> Steps[WorkflowSummary]:
        """Take jobs of a retired workflow again."""
        return (yield from ask(calls.restore_workflow(workflow_id)))

    @Operation
    def register(self, source: Source) -> Steps[Registration]:
        """Check a workflow and register it: YAML as text, a Path to a file, or an object."""
        return (yield from ask(calls.register(*written(source))))

    @Operation
    def validate(self, source: Source) -> Steps[WorkflowCheck]:
        """All that is wrong with a workflow; nothing is stored."""
        return (yield from ask(calls.validate(*written(source))))

    @Operation
    def preview_retention(self) -> Steps[PrunePreview]:
        """What retention would delete now, by table, and why. Nothing is changed."""
        return (yield from ask(calls.preview_retention()))

    @Operation
    def prune(self) -> Steps[Pruned]:
        """Delete for a few seconds what retention would delete; `has_more` says that it is worth calling it again."""
        return (yield from ask(calls.prune()))

    @Operation
    def quotas(self) -> Steps[QuotaList]:
        """What the namespace may have, and what it uses."""
        return (yield from ask(calls.read_quotas()))

    @Operation
    def change_quotas(self, namespace: str, quotas: Mapping[str, int | None]) -> Steps[QuotaList]:
        """Set limits of a namespace, with an admin key of the namespace `default`; None takes one back."""
        return (yield from ask(calls.change_quotas(namespace, quotas)))

    @Operation
    def queues(self) -> Steps[list[QueueStatus]]:
        """What waits in each queue, and who serves it."""
        return (yield from ask(calls.list_queues())).queues

    @Operation
    def workers(self) -> Steps[list[WorkerSummary]]:
        """Who runs tasks."""
        return (yield from ask(calls.list_workers())).workers

    @Operation
    def orchestrators(self) -> Steps[list[OrchestratorSummary]]:
        """Who advances jobs."""
        return (yield from ask(calls.list_orchestrators())).orchestrators

    @Operation
    def drain_worker(self, worker_id: str) -> Steps[DrainAnswer]:
        """Let a worker finish or give back what it has within its stop time, and end."""
        return (yield from ask(calls.drain_worker(worker_id)))

    @Operation
    def drain_orchestrator(self, owner_id: str) -> Steps[DrainAnswer]:
        """Let an orchestrator hand its jobs over to the others, and end."""
        return (yield from ask(calls.drain_orchestrator(owner_id)))

    @Iteration
    def dead_letters(
        self,
        *,
        queue: str | None = None,
        reason: str | None = None,
        job_id: str | None = None,
        settled_too: bool = False,
    ) -> Items[DeadLetterSummary]:
        """What was given up, oldest first."""
        filters = {"queue": queue, "reason": reason, "job_id": job_id, "settled_too": settled_too}
        yield from pages(lambda cursor: calls.list_dead_letters(cursor, **filters), lambda page: page.dead_letters)

    @Operation
    def requeue(self, dead_letter_id: str) -> Steps[Requeued]:
        """Give its task another chance."""
        return (yield from ask(calls.requeue(dead_letter_id)))

    @Operation
    def discard(self, dead_letter_id: str) -> Steps[Discarded]:
        """Lay it aside."""
        return (yield from ask(calls.discard(dead_letter_id)))

    @Iteration
    def callbacks(self, *, status: str | None = None, job_id: str | None = None) -> Items[CallbackView]:
        """What was told to whom, newest first."""
        yield from pages(
            lambda cursor: calls.list_callbacks(cursor, status=status, job_id=job_id), lambda page: page.callbacks
        )

    @Operation
    def redeliver(self, callback_id: str) -> Steps[CallbackView]:
        """Send a callback once more."""
        return (yield from ask(calls.redeliver(callback_id)))

    @Iteration
    def keys(self, *, dead_too: bool = False) -> Items[KeyView]:
        """Keys of the namespace, without their secrets."""
        yield from pages(lambda cursor: calls.list_keys(cursor, dead_too=dead_too), lambda page: page.keys)

    @Operation
    def create_key(
        self, name: str, scopes: Iterable[Scope | str], *, expires_days: float | None = None
    ) -> Steps[KeyMade]:
        """Make a key; its `key` is shown this once."""
        given = {"name": name, "scopes": list(scopes), "expires_days": expires_days}
        return (yield from ask(calls.create_key(checked(KeyRequest, given))))

    @Operation
    def rotate_key(
        self, key_id: str, *, overlap_hours: float = 24, expires_days: float | None = None
    ) -> Steps[KeyMade]:
        """The next key of the same holder; the old one works until the overlap ends."""
        given = {"overlap_hours": overlap_hours, "expires_days": expires_days}
        return (yield from ask(calls.rotate_key(key_id, checked(RotationRequest, given))))

    @Operation
    def revoke_key(self, key_id: str) -> Steps[KeyView]:
        """End a key at once."""
        return (yield from ask(calls.revoke_key(key_id)))

    @Iteration
    def audit(self, *, action: str | None = None, subject: str | None = None) -> Items[AuditView]:
        """Who did what, newest first; `action` is a name as `key.revoke`, or a kind as `key`."""
        yield from pages(
            lambda cursor: calls.list_audit(cursor, action=action, subject=subject), lambda page: page.entries
        )

    @Operation
    def me(self) -> Steps[Me]:
        """Whose key this is, and what it is worth."""
        return (yield from ask(calls.me()))

    @Operation
    def health(self) -> Steps[Health]:
        """Whether the platform is well; UNHEALTHY is an answer, not an error."""
        return (yield from ask(calls.health()))


class Client(ClientOperations[Job], SyncSide):
    """Calls block. `url` and `key` default to RMHDAG_URL and RMHDAG_KEY. Close it, or use it in a `with`."""

    def __init__(
        self, url: str | None = None, key: str | None = None, *, timeout_seconds: float = TIMEOUT_SECONDS
    ) -> None:
        super().__init__(httpx.Client(**configuration(url, key, timeout_seconds)))

    def _handle(self, job_id: str) -> Job:
        return Job(self._http, job_id)

    def close(self) -> None:
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AsyncClient(ClientOperations[AsyncJob], AsyncSide):
    """Calls are awaited. `url` and `key` default to RMHDAG_URL and RMHDAG_KEY. Use it in an `async with`."""

    def __init__(
        self, url: str | None = None, key: str | None = None, *, timeout_seconds: float = TIMEOUT_SECONDS
    ) -> None:
        super().__init__(httpx.AsyncClient(**configuration(url, key, timeout_seconds)))

    def _handle(self, job_id: str) -> AsyncJob:
        return AsyncJob(self._http, job_id)

    async def aclose(self) -> None:
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


def configuration(url: str | None, key: str | None, timeout_seconds: float) -> dict[str, Any]:
    """Redirects are not followed: the key is for this server."""
    found = (url or os.environ.get("RMHDAG_URL") or "").strip().rstrip("/")
    if not re.fullmatch(r"https?://[^\s?#]+", found):
        raise InvalidRequest(
            "no_url", "no server is named" if not found else f"{found!r} is no URL", "Give `url`, or set RMHDAG_URL."
        )
    secret = (key or os.environ.get("RMHDAG_KEY") or "").strip()
    if not secret.isascii() or not secret.isprintable():
        raise AuthenticationError("no_key", "the key has characters that no key has", "Check RMHDAG_KEY.")
    headers = {"User-Agent": f"rmhdag/{rmhdag.__version__}"}
    if secret:
        headers["Authorization"] = f"Bearer {secret}"
    return {"base_url": found, "headers": headers, "timeout": timeout_seconds}


def submission(given: dict[str, Any]) -> JobSubmission:
    key = given.get("idempotency_key") or uuid4().hex
    return checked(JobSubmission, {**given, "idempotency_key": key})


def batches(bodies: Iterable[JobSubmission]) -> Iterator[list[JobSubmission]]:
    """As many per call as a server takes, by number and by size."""
    batch: list[JobSubmission] = []
    size_bytes = 0
    for body in bodies:
        more_bytes = len(body.model_dump_json(exclude_defaults=True).encode())
        if batch and (len(batch) == MOST_IN_A_BATCH or size_bytes + more_bytes > BATCH_BYTES):
            yield batch
            batch, size_bytes = [], 0
        batch.append(body)
        size_bytes += more_bytes
    if batch:
        yield batch


def written(source: Source) -> tuple[bytes, str]:
    """A workflow as it is sent: YAML keeps the places of its problems."""
    if isinstance(source, Path):
        return source.read_bytes(), calls.YAML
    if isinstance(source, str | bytes):
        return source.encode() if isinstance(source, str) else source, calls.YAML
    return orjson.dumps(source), calls.JSON
