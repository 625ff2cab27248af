"""Jobs: submit, list, show, cancel, retry, rerun."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Header, Path, Query, Response
from pydantic import AfterValidator

from rmhdag.api.context import Api, ApiContext
from rmhdag.api.identity import Caller, Operator, Reader, Submitter
from rmhdag.api.input_checks import Checks, with_checks
from rmhdag.api.job_paths import is_id
from rmhdag.api.moments import Moment
from rmhdag.api.pages import CursorParameter, read_cursor, write_cursor
from rmhdag.api.problems import Problem
from rmhdag.api.processor_time import run_in_turn
from rmhdag.models.api.jobs import (
    CancelRequest,
    CommandAnswerBody,
    JobCounts,
    JobPage,
    JobSubmission,
    JobView,
    RerunAnswer,
    RerunRequest,
    RetryRequest,
    SubmissionRequest,
)
from rmhdag.models.api.overviews import JobOverview
from rmhdag.models.api.previews import JobPreview
from rmhdag.models.api.progress import JobProgressList
from rmhdag.models.columns import Id, IdempotencyKey, Name
from rmhdag.models.jobs import CommandOutcome
from rmhdag.models.labels import GivenFilter, read_filter
from rmhdag.models.limits import LABELS_OF_A_JOB
from rmhdag.models.plain_text import refuse_deceiving
from rmhdag.models.refusals import Kind, Refusal
from rmhdag.models.scopes import Scope
from rmhdag.models.states import JobStatus
from rmhdag.services.commands import ANSWER_SECONDS, LOOK_SECONDS, CommandAnswer, cancel_job, read_as_answer
from rmhdag.services.reruns import (
    PlannedRerun,
    UnknownJobError,
    plan_rerun_of,
    rerun_job,
)
from rmhdag.services.submissions import (
    Completion,
    Submission,
    Submitted,
    submit_many,
)
from rmhdag.store.commands import read_answer
from rmhdag.store.connection import Conn
from rmhdag.views.job_lists import Area, Cursor, JobFilters
from rmhdag.views.job_lists import count_jobs as read_counts
from rmhdag.views.job_lists import list_jobs as read_jobs
from rmhdag.views.jobs import find_job, read_new_job
from rmhdag.views.overviews import read_job, read_overview
from rmhdag.views.pictures import JobOrder
from rmhdag.views.previews import Previews
from rmhdag.views.progress import job_progress

router = APIRouter(prefix="/api/v1", tags=["jobs"])

REPEATED = "Idempotency-Replayed"
# Between two looks for the answer to a command; the first ones come sooner.
MOST_PAUSE_SECONDS = 0.25
NUMBER = r"-?\d{1,3}(?:\.\d{1,12})?"
BBOX = rf"^{NUMBER}(?:,{NUMBER}){{3}}$"

JobId = Annotated[str, Path(description="The id of a job", examples=["01983f5e7c8b7d3a9f20c4de51b6a7e8"])]
KeyHeader = Annotated[
    Annotated[IdempotencyKey, AfterValidator(refuse_deceiving)] | None,
    Header(alias="Idempotency-Key", description="As `idempotency_key` in the body"),
]
REPEAT: dict[int | str, dict[str, Any]] = {
    200: {
        "description": f"A repeat: the job was there already, and `{REPEATED}: true` says so; or a dry run",
        "headers": {REPEATED: {"schema": {"type": "string"}, "description": "`true`"}},
    }
}
COMMAND: dict[int | str, dict[str, Any]] = {
    202: {"model": CommandAnswerBody, "description": "Accepted; the job's owner has not answered within two seconds"}
}


@router.post("/jobs", status_code=201, responses={200: {"model": JobView | JobPreview, **REPEAT[200]}})
def submit_job(
    body: SubmissionRequest, caller: Submitter, api: ApiContext, response: Response, key: KeyHeader = None
) -> JobView | JobPreview:
    """Start a job. A dry run answers 200 with what would happen, also if the job would be refused."""
    if body.dry_run:
        response.status_code = 200
        submission = submission_of(body, caller, key)
        return with_checks(
            api, caller.namespace, lambda conn, checks: previews(api, caller, checks).of_job(conn, submission)
        )
    api.submit_rate.take(caller.rate_name, 1)
    api.quotas.admit_jobs(caller.namespace, [body.input_params], [body.priority], key_priority=caller.max_priority)
    request = submission_of(body, caller, key)

    def make(conn: Conn, complete: Completion) -> tuple[Submitted, JobView | None]:
        answer = submit(conn, api, caller, [request], complete)[0]
        if not isinstance(answer, Submitted):
            raise answer
        if answer.is_repeat:
            return answer, read_job(conn, caller.namespace, answer.job_id, api.settings.orphan_seconds)
        return answer, read_new_job(conn, caller.namespace, answer.job_id)

    answer, view = with_checks(api, caller.namespace, make)
    if view is None:
        raise UnknownJobError(answer.job_id)
    if answer.is_repeat:
        say_repeated(response)
    return view


def previews(api: Api, caller: Caller, checks: Checks) -> Previews:
    return Previews(
        caller.namespace, api.settings.callbacks.rules, checks, api.blobs.is_possible, lambda: checks.input_bytes
    )


def submit(
    conn: Conn, api: Api, caller: Caller, submissions: list[Submission], complete: Completion
) -> list[Submitted | Refusal]:
    return submit_many(
        conn,
        submissions,
        namespace=caller.namespace,
        callback_rules=api.settings.callbacks.rules,
        source_app=caller.source_app,
        complete=complete,
    )


def read_filters(
    status: Annotated[list[JobStatus] | None, Query(max_length=20, description="One or several")] = None,
    workflow_id: Annotated[Name | None, Query()] = None,
    submitted_by: Annotated[Name | None, Query()] = None,
    correlation_id: Annotated[Id | None, Query()] = None,
    since: Annotated[Moment | None, Query(description="Created then or later")] = None,
    until: Annotated[Moment | None, Query(description="Created before")] = None,
    finished_since: Annotated[Moment | None, Query(description="Finished then or later")] = None,
    failure: Annotated[
        str | None, Query(pattern=r"^[0-9a-f]{12}$", description="Failed with this error: `failure` of `/attention`")
    ] = None,
    bbox: Annotated[
        str | None,
        Query(
            max_length=100,
            pattern=BBOX,
            description="Published something that touches this area: west,south,east,north in degrees",
        ),
    ] = None,
    label: Annotated[
        list[GivenFilter] | None,
        Query(
            max_length=LABELS_OF_A_JOB,
            description="Has this label, as `aoi=oslo`, or one with this key, as `aoi`; several: has them all",
        ),
    ] = None,
    q: Annotated[
        Name | None,
        Query(description="The beginning of a job's id, workflow, submitter or correlation; plain characters"),
    ] = None,
    root_job_id: Annotated[Id | None, Query(description="This job and whatever reruns it, however often")] = None,
    rerun_of: Annotated[Id | None, Query(description="Reruns of this job")] = None,
    parent_job_id: Annotated[Id | None, Query(description="Child jobs of this job")] = None,
) -> JobFilters:
    return JobFilters(
        statuses=status or (),
        workflow_id=workflow_id,
        submitted_by=submitted_by,
        correlation_id=correlation_id,
        since=since,
        until=until,
        finished_since=finished_since,
        failure=failure,
        area=None if bbox is None else Area(*(float(number) for number in bbox.split(","))),
        root_job_id=root_job_id,
        rerun_of=rerun_of,
        parent_job_id=parent_job_id,
        labels=[read_filter(text) for text in label or ()],
        text=q,
    )


MOST_PROGRESS = 50
Filters = Annotated[JobFilters, Depends(read_filters)]


@router.get("/jobs")
def list_jobs(
    caller: Reader,
    api: ApiContext,
    filters: Filters,
    cursor: CursorParameter = None,
    limit: Annotated[int, Query(ge=1, le=500)] = 50,
    progress: Annotated[bool, Query(description="Also how far the first 50 running jobs of the page are")] = False,
) -> JobPage:
    """Jobs, newest first."""
    page = replace(filters, before=read_cursor(cursor, job_place), limit=limit + 1)
    with api.connection() as conn:
        return read_page(conn, caller.namespace, page, with_progress=progress)


def read_page(conn: Conn, namespace: str, filters: JobFilters, *, with_progress: bool) -> JobPage:
    """One line more than the page has is read."""
    lines = read_jobs(conn, namespace, filters)
    page = lines[: filters.limit - 1]
    progress = None
    if with_progress:
        running = [line.job_id for line in page if line.status is JobStatus.RUNNING][:MOST_PROGRESS]
        jobs = [find_job(conn, namespace, job_id) for job_id in running]
        progress = [job_progress(conn, job) for job in jobs if job is not None]
    is_last = len(lines) < filters.limit
    cursor = None if is_last else write_cursor(page[-1].created_at, page[-1].job_id)
    return JobPage(jobs=page, next_cursor=cursor, progress=progress)


@router.get("/jobs/counts")
def count_jobs(caller: Reader, api: ApiContext, filters: Filters) -> JobCounts:
    """How many jobs a list has, by status; each up to 10,000."""
    with api.connection() as conn:
        return read_counts(conn, caller.namespace, filters)


@router.get("/jobs/progress")
def progress_of_jobs(
    caller: Reader,
    api: ApiContext,
    job_id: Annotated[list[Id], Query(min_length=1, max_length=MOST_PROGRESS, description="May be repeated")],
) -> JobProgressList:
    """How far several jobs are, for lists."""
    with api.connection() as conn:
        jobs = [find_job(conn, caller.namespace, name) for name in dict.fromkeys(job_id) if is_id(name)]
        return JobProgressList(jobs=[job_progress(conn, job) for job in jobs if job is not None])


@router.get("/jobs/{job_id}")
def get_job(job_id: JobId, caller: Reader, api: ApiContext) -> JobView:
    """A job: status, parameters, result, and what it waits for."""
    with api.connection() as conn:
        job = read_job(conn, caller.namespace, job_id, api.settings.orphan_seconds) if is_id(job_id) else None
    if job is None:
        raise UnknownJobError(job_id)
    return job


@router.get("/jobs/{job_id}/overview")
def get_overview(
    job_id: JobId,
    caller: Reader,
    api: ApiContext,
    reasons: Annotated[bool, Query(description="Also why nodes do not run; left out for jobs with many nodes")] = False,
    progress: Annotated[bool, Query(description="Also how far the job is, unless it has ended")] = False,
    structure: Annotated[bool, Query(description="Also the positions of the nodes in the graph")] = False,
) -> JobOverview:
    """A job with its nodes in the order in which they run; fan-outs as counts, however many children."""
    with api.connection() as conn:
        job = find_job(conn, caller.namespace, job_id) if is_id(job_id) else None
        if job is None:
            raise UnknownJobError(job_id)
        return read_overview(
            conn,
            job,
            alive_seconds=api.settings.orphan_seconds,
            with_reasons=reasons,
            with_progress=progress,
            with_structure=structure,
        )


@router.post("/jobs/{job_id}/cancel", responses=COMMAND)
async def cancel(
    job_id: JobId, caller: Operator, api: ApiContext, response: Response, body: CancelRequest | None = None
) -> CommandAnswerBody:
    """Cancel a job: waiting tasks never start, running ones are asked to stop. Repeating it
    is no error; 409 if the job is completed or failed, or is failing.
    """

    def issue(conn: Conn) -> CommandAnswer:
        return cancel_job(
            conn,
            job_id,
            issued_by=caller.name,
            reason=None if body is None else body.reason,
            namespace=caller.namespace,
            answer_seconds=0,
        )

    return await command(api, response, job_id, issue)


@router.post("/jobs/{job_id}/retry", status_code=201, responses={200: {"model": RerunAnswer, **REPEAT[200]}})
def retry_job(
    job_id: JobId,
    caller: Operator,
    api: ApiContext,
    response: Response,
    body: RetryRequest | None = None,
    key: KeyHeader = None,
) -> RerunAnswer:
    """Run the parts that failed or never ran again, as a new job that reuses finished results."""
    request = RetryRequest() if body is None else body
    rerun_request = RerunRequest(dry_run=request.dry_run, idempotency_key=request.idempotency_key)
    return _rerun(api, caller, response, job_id, rerun_request, key)


@router.post("/jobs/{job_id}/rerun", status_code=201, responses={200: {"model": RerunAnswer, **REPEAT[200]}})
def rerun(
    job_id: JobId,
    caller: Operator,
    api: ApiContext,
    response: Response,
    body: RerunRequest | None = None,
    key: KeyHeader = None,
) -> RerunAnswer:
    """Run a finished job again, with the same or changed parameters, as a new job. A dry run answers 200."""
    return _rerun(api, caller, response, job_id, body or RerunRequest(), key)


def _rerun(
    api: Api, caller: Caller, response: Response, job_id: str, request: RerunRequest, key: str | None
) -> RerunAnswer:
    idempotency_key = one_key(request.idempotency_key, key)
    if not is_id(job_id):
        raise UnknownJobError(job_id)
    if not request.dry_run:
        api.submit_rate.take(caller.rate_name, 1)
        api.quotas.admit_jobs(caller.namespace, [request.input_params], [])

    # Before there is a connection: it may need one for itself.
    most_priority = api.quotas.most_priority(caller.namespace, caller.max_priority)

    def make(conn: Conn, complete: Completion) -> tuple[PlannedRerun, Submitted | None]:
        planned = plan_rerun_of(
            conn,
            job_id,
            namespace=caller.namespace,
            changed_params=request.input_params,
            from_nodes=request.from_nodes,
            everything=request.everything,
            complete=complete,
        )
        if request.dry_run:
            return planned, None
        return planned, rerun_job(
            conn,
            planned,
            issued_by=caller.name,
            idempotency_key=idempotency_key,
            source_app=caller.source_app,
            most_priority=most_priority,
        )

    planned, job = with_checks(api, caller.namespace, make)
    if job is None:
        response.status_code = 200
    elif job.is_repeat:
        say_repeated(response)
    order = JobOrder(planned.definition)
    return RerunAnswer(
        job_id=None if job is None else job.job_id,
        rerun_of=job_id,
        dry_run=request.dry_run,
        input_params=planned.shown_params,
        again=order.sort_names(planned.scope.again),
        reused=order.sort_names(planned.scope.reused),
        keeps_children=order.sort_names(planned.scope.keeps_children),
    )


async def command(
    api: Api, response: Response, job_id: str, issue: Callable[[Conn], CommandAnswer]
) -> CommandAnswerBody:
    """Issue it and wait a moment for the owner's answer, holding neither a connection nor a thread meanwhile."""
    if not is_id(job_id):
        raise UnknownJobError(job_id)

    def begin() -> CommandAnswer:
        with api.connection() as conn:
            return issue(conn)

    def look(command_id: str) -> CommandAnswer:
        with api.connection() as conn:
            return read_as_answer(read_answer(conn, command_id), command_id)

    answer = await run_in_turn(begin)
    deadline, pause_seconds = time.monotonic() + ANSWER_SECONDS, LOOK_SECONDS
    while answer.outcome is None and time.monotonic() < deadline:
        await asyncio.sleep(pause_seconds)
        answer = await run_in_turn(look, answer.command_id)
        pause_seconds = min(MOST_PAUSE_SECONDS, 1.5 * pause_seconds)
    if answer.outcome is CommandOutcome.REFUSED:
        raise Problem(409, "refused", answer.reason)
    if answer.outcome is None:
        response.status_code = 202
    return CommandAnswerBody(job_id=job_id, command_id=answer.command_id, outcome=answer.outcome, reason=answer.reason)


def job_place(created_at: Any, job_id: Any) -> Cursor:
    return Cursor(moment(created_at), plain(job_id))


def moment(text: Any) -> datetime:
    """A time from a cursor; ValueError if it is none that the database has."""
    value = datetime.fromisoformat(text)
    if value.tzinfo is None or not 1970 <= value.year < 9999:
        raise ValueError(text)
    return value


def plain(text: Any) -> str:
    """An id from a cursor."""
    if not isinstance(text, str) or len(text) > 64 or "\0" in text:
        raise ValueError(text)
    return text


def one_key(in_body: str | None, in_header: str | None) -> str | None:
    if in_body is not None and in_header is not None and in_body != in_header:
        raise Refusal(
            Kind.INVALID,
            "two_idempotency_keys",
            "the header `Idempotency-Key` and `idempotency_key` differ",
            remedy="Give one of them.",
            pointer="/idempotency_key",
        )
    return in_header if in_body is None else in_body


def check_submitter(caller: Caller, name: str | None) -> None:
    if name not in (None, caller.name) and not caller.may(Scope.ADMIN):
        raise Refusal(
            Kind.FORBIDDEN,
            "scope_missing",
            "only a key with the scope `admin` submits in another name",
            remedy="Leave `submitted_by` out.",
            pointer="/submitted_by",
        )


def submission_of(body: JobSubmission, caller: Caller, key: str | None) -> Submission:
    check_submitter(caller, body.submitted_by)
    own = {"submitted_by": body.submitted_by or caller.name, "idempotency_key": one_key(body.idempotency_key, key)}
    fields = {name: value for name, value in body.__dict__.items() if name != "dry_run"}
    return Submission(**{**fields, **own})


def say_repeated(response: Response) -> None:
    response.status_code = 200
    response.headers[REPEATED] = "true"
