"""The client: `Client` blocks, `AsyncClient` is awaited; what they can do is written once."""

from __future__ import annotations

import os
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Generic, Self, TypeVar
from urllib.request import getproxies
from uuid import uuid4

import httpx
import orjson

import rmhdag
from rmhdag.client import calls
from rmhdag.client.administration import AdministrationOperations
from rmhdag.client.assets import AssetOperations
from rmhdag.client.bodies import checked
from rmhdag.client.call import JSON
from rmhdag.client.errors import AuthenticationError, InvalidRequest, RmhdagError, error_of
from rmhdag.client.jobs import AsyncJob, Job, JobOperations
from rmhdag.client.listening import listen
from rmhdag.client.maps import MapOperations
from rmhdag.client.outside import OutsideOperations
from rmhdag.client.sides import AsyncSide, Iteration, Operation, SyncSide
from rmhdag.client.steps import Items, Steps, ask, pages
from rmhdag.models.api.about import About
from rmhdag.models.api.approvals import WaitingApproval
from rmhdag.models.api.attention import Attention, Pulse
from rmhdag.models.api.dashboard import Dashboard
from rmhdag.models.api.health import Health
from rmhdag.models.api.jobs import MOST_IN_A_BATCH, JobSubmission, JobSummary, SubmissionRequest
from rmhdag.models.api.keys import Me
from rmhdag.models.api.previews import JobPreview
from rmhdag.models.api.search import SearchHit
from rmhdag.models.api.timeline import StreamedEvent
from rmhdag.models.api.workflows import Registration, WorkflowCheck, WorkflowDetail, WorkflowSummary
from rmhdag.models.states import JobStatus

J = TypeVar("J", bound=JobOperations[Any])
TIMEOUT_SECONDS = 30.0
# A server takes 10 MB, and one job may have 8 MB of parameters.
BATCH_BYTES = 4 * 1024 * 1024
Source = str | bytes | Path | Mapping[str, Any]
# Of lists: keys with their values, or keys.
Labels = Mapping[str, str] | Sequence[str]


class BatchRefused(InvalidRequest, Generic[J]):
    """Some of many were refused: `refused` has the error of each, `jobs` those that were started, by index."""

    def __init__(self, jobs: dict[int, J], refused: dict[int, RmhdagError]) -> None:
        first = min(refused)
        what = f"{len(refused)} of {len(refused) + len(jobs)} jobs were refused; the first is {first}: "
        super().__init__("batch_refused", what + refused[first].detail)
        self.jobs = jobs
        self.refused = refused


class ClientOperations(AdministrationOperations, AssetOperations, MapOperations, OutsideOperations, ABC, Generic[J]):
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
        labels: Mapping[str, str] | None = None,
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
                "labels": dict(labels or {}),
            }
        )
        view = yield from ask(calls.submit(body))
        job = self._handle(view.job_id)
        yield from job.see(view)
        return job

    @Operation
    def preview(
        self, workflow: str, params: Mapping[str, Any] | None = None, /, *, version: int | None = None, **options: Any
    ) -> Steps[JobPreview]:
        """What `submit` would do; nothing is created. `options` are its other arguments, but no inputs."""
        fields = {"workflow_id": workflow, "input_params": dict(params or {}), "version": version, **options}
        return (yield from ask(calls.preview(checked(SubmissionRequest, fields))))

    @Operation
    def submit_many(self, jobs: Iterable[Mapping[str, Any] | JobSubmission]) -> Steps[list[J]]:
        """Start many, up to a thousand per call. Each is `{"workflow_id": …, "input_params": {…}, …}`.

        Raises BatchRefused if some are refused; the others run.
        """
        bodies = [job if isinstance(job, JobSubmission) else submission(dict(job)) for job in jobs]
        bodies = [
            job if job.idempotency_key else job.model_copy(update={"idempotency_key": uuid4().hex}) for job in bodies
        ]
        handles: dict[int, J] = {}
        refused: dict[int, RmhdagError] = {}
        start = 0
        for batch in batches(bodies):
            answers = yield from ask(calls.submit_batch(batch))
            for job in answers.jobs:
                if job.problem is not None:
                    refused[start + job.index] = error_of(job.problem)
                elif job.job_id is not None:
                    handles[start + job.index] = self._handle(job.job_id)
            start += len(batch)
        if refused:
            raise BatchRefused(handles, refused)
        return [handles[index] for index in range(len(bodies))]

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
        finished_since: datetime | None = None,
        failure: str | None = None,
        bbox: Sequence[float] | None = None,
        text: str | None = None,
        labels: Labels = (),
        page_size: int = 100,
    ) -> Items[JobSummary]:
        """Jobs, newest first, page after page. `failure` is that of a group of `attention()`; `bbox` is west, south,
        east, north of what the jobs have published. `labels` are those that they all have: `{"aoi": "oslo"}`, or keys.
        """
        filters = {
            "status": [status] if isinstance(status, str) else list(status or ()),
            "workflow_id": workflow_id,
            "submitted_by": submitted_by,
            "correlation_id": correlation_id,
            "since": since,
            "until": until,
            "finished_since": finished_since,
            "failure": failure,
            "bbox": None if bbox is None else ",".join(format(float(edge), "f") for edge in bbox),
            "q": text,
            "label": label_filters(labels),
        }
        yield from pages(lambda cursor: calls.list_jobs(cursor, page_size, **filters), lambda page: page.jobs)

    @Operation
    def count_jobs(
        self, *, workflow_id: str | None = None, since: datetime | None = None, labels: Labels = ()
    ) -> Steps[dict[JobStatus, int]]:
        """How many jobs there are, by status; each is counted up to 10,000."""
        filters = {"workflow_id": workflow_id, "since": since, "label": label_filters(labels)}
        answer = yield from ask(calls.count_jobs(**filters))
        return answer.counts

    @Operation
    def search(self, text: str) -> Steps[list[SearchHit]]:
        """Jobs, nodes, tasks, requests, assets and workflows by the beginning of their id, or by name."""
        answer = yield from ask(calls.search(text))
        return answer.hits

    @Operation
    def attention(self, hours: int = 24) -> Steps[Attention]:
        """What needs a person: failures by error, slow jobs, queues without workers, dead letters, decisions."""
        return (yield from ask(calls.get_attention(hours)))

    @Operation
    def pulse(self, hours: int = 24) -> Steps[Pulse]:
        """How the jobs of the last hours went: counts, success, durations, waits."""
        return (yield from ask(calls.get_pulse(hours)))

    @Operation
    def dashboard(self, hours: int = 24, *, bucket_minutes: int = 60) -> Steps[Dashboard]:
        """What needs attention, how the last hours went, open jobs with their progress, and the workers."""
        return (yield from ask(calls.get_dashboard(hours, bucket_minutes)))

    @Iteration
    def events(self, *, since: datetime | None = None, event_types: Sequence[str] = ()) -> Items[StreamedEvent]:
        """Events of all jobs as they happen, for ever; from now on, or from about a moment."""
        yield from listen(calls.stream_all(since, event_types))

    @Iteration
    def approvals(self) -> Items[WaitingApproval]:
        """Approvals that wait for a decision, longest first. `job(...).decide(...)` decides."""
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
        """Accept no new jobs of it. Running jobs go on."""
        return (yield from ask(calls.retire_workflow(workflow_id)))

    @Operation
    def restore_workflow(self, workflow_id: str) -> Steps[WorkflowSummary]:
        """Accept jobs of a retired workflow again."""
        return (yield from ask(calls.restore_workflow(workflow_id)))

    @Operation
    def register(self, source: Source) -> Steps[Registration]:
        """Check a workflow and register it: YAML as text, a Path to a file, or an object."""
        return (yield from ask(calls.register(*written(source))))

    @Operation
    def validate(self, source: Source) -> Steps[WorkflowCheck]:
        """All problems of a workflow; nothing is stored."""
        return (yield from ask(calls.validate(*written(source))))

    @Operation
    def me(self) -> Steps[Me]:
        """The caller: name, namespace and scopes."""
        return (yield from ask(calls.me()))

    @Operation
    def health(self) -> Steps[Health]:
        """The health of the platform; UNHEALTHY is an answer, not an error."""
        return (yield from ask(calls.health()))

    @Operation
    def about(self) -> Steps[About]:
        """The versions of the platform, and the last chaos campaigns of the program."""
        return (yield from ask(calls.about()))


class Client(ClientOperations[Job], SyncSide):
    """Calls block. `url` and `key` default to RMHDAG_URL and RMHDAG_KEY. Close it, or use it in a `with`.

    `transport` carries requests in another way than over the network, `headers` go with each of them.
    """

    def __init__(
        self,
        url: str | None = None,
        key: str | None = None,
        *,
        timeout_seconds: float = TIMEOUT_SECONDS,
        transport: httpx.BaseTransport | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        options = configuration(url, key, timeout_seconds)
        options["headers"] |= headers or {}
        super().__init__(httpx.Client(**options, transport=transport))

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
    address = (url or os.environ.get("RMHDAG_URL") or "").strip().rstrip("/")
    if not re.fullmatch(r"https?://[^\s?#]+", address):
        raise InvalidRequest(
            "no_url",
            "no server is named" if not address else f"{address!r} is not a URL",
            "Give `url`, or set RMHDAG_URL.",
        )
    secret = (key or os.environ.get("RMHDAG_KEY") or "").strip()
    if not secret.isascii() or not secret.isprintable():
        raise AuthenticationError("no_key", "the key has characters that no key has", "Check RMHDAG_KEY.")
    headers = {"User-Agent": f"rmhdag/{rmhdag.__version__}"}
    if secret:
        headers["Authorization"] = f"Bearer {secret}"
    # Where no certificate can be met, none are loaded: that takes 20 ms.
    may_use_tls = address.startswith("https:") or bool(getproxies())
    return {"base_url": address, "headers": headers, "timeout": timeout_seconds, "verify": may_use_tls}


def submission(fields: dict[str, Any]) -> JobSubmission:
    key = fields.get("idempotency_key") or uuid4().hex
    return checked(JobSubmission, {**fields, "idempotency_key": key})


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
    return orjson.dumps(source), JSON


def label_filters(labels: Labels) -> list[str]:
    """As the API takes them."""
    if isinstance(labels, Mapping):
        return [f"{key}={value}" for key, value in labels.items()]
    return [labels] if isinstance(labels, str) else list(labels)
