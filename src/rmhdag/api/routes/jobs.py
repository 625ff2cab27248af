"""Jobs: submit, list, show, cancel, retry, rerun."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import cache
from typing import Annotated, Any

import psycopg
from fastapi import APIRouter, Header, Path, Query, Response
from pydantic import AfterValidator, ValidationError
from starlette.concurrency import run_in_threadpool

from rmhdag.api.context import Api, ApiContext
from rmhdag.api.identity import Caller, Operator, Reader, Submitter
from rmhdag.api.input_checks import with_checks
from rmhdag.api.member_counts import refuse_many_members
from rmhdag.api.moments import Moment
from rmhdag.api.pages import CursorParameter, read_cursor, write_cursor
from rmhdag.api.problems import Problem, callback_refused, not_found, pointer_of
from rmhdag.api.views.jobs import page_of_jobs, read_job, read_new_job
from rmhdag.api.views.overviews import read_overview
from rmhdag.api.views.pictures import JobOrder
from rmhdag.assets.revisions import AssetConflict
from rmhdag.engine.rerun import RerunError
from rmhdag.models.api.jobs import (
    BatchAnswer,
    BatchAnswers,
    CancelRequest,
    CommandAnswerBody,
    JobBatch,
    JobPage,
    JobSubmission,
    JobView,
    RerunAnswer,
    RerunRequest,
    RetryRequest,
)
from rmhdag.models.api.overviews import JobOverview
from rmhdag.models.columns import Id, IdempotencyKey, Name
from rmhdag.models.jobs import CommandOutcome
from rmhdag.models.plain_text import refuse_deceiving
from rmhdag.models.scopes import Scope
from rmhdag.models.states import JobStatus
from rmhdag.orchestrator.callbacks.destinations import CallbackRefused
from rmhdag.orchestrator.commands import ANSWER_SECONDS, LOOK_SECONDS, CommandAnswer, cancel_job, read_as_answer
from rmhdag.orchestrator.fitness import UnfitWorkflowError
from rmhdag.orchestrator.reruns import (
    JobNotFinishedError,
    NothingToRerunError,
    PlannedRerun,
    UnknownJobError,
    plan_rerun_of,
    rerun_job,
)
from rmhdag.orchestrator.submissions import (
    Completion,
    OtherSubmissionError,
    Refusal,
    RetiredWorkflowError,
    Submission,
    Submitted,
    UnknownWorkflowError,
    submit_many,
)
from rmhdag.store import views
from rmhdag.store.commands import read_answer
from rmhdag.store.job_lists import Cursor, JobFilters
from rmhdag.workflow import InvalidInputs
from rmhdag.workflow.problems import did_you_mean, few_guesses

router = APIRouter(prefix="/api/v1", tags=["jobs"])
Conn = psycopg.Connection[Any]
KnownWorkflows = Callable[[], Mapping[str, int]]

REPEATED = "Idempotency-Replayed"
SOURCE = "api"
# Between two looks for the answer to a command; the first ones come sooner.
MOST_PAUSE_SECONDS = 0.25
AN_ID = re.compile(r"[0-9A-Za-z_.-]{1,64}")

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


@router.post("/jobs", status_code=201, responses={200: {"model": JobView, **REPEAT[200]}})
def submit_job(
    body: JobSubmission, caller: Submitter, api: ApiContext, response: Response, key: KeyHeader = None
) -> JobView:
    """Start a job."""
    api.submit_rate.take(caller.rate_name, 1)
    api.quotas.admit_jobs(caller.namespace, [body.input_params], [body.priority])
    wanted = _submission(body, caller, key)

    def make(conn: Conn, complete: Completion) -> tuple[Submitted, JobView | None]:
        answer = _submit(conn, api, caller, [wanted], complete)[0]
        if not isinstance(answer, Submitted):
            raise refusal(known_workflows(conn, caller.namespace), answer, body)
        if answer.is_repeat:
            return answer, read_job(conn, caller.namespace, answer.job_id, api.settings.orphan_seconds)
        return answer, read_new_job(conn, caller.namespace, answer.job_id)

    answer, found = with_checks(api, caller.namespace, make)
    if found is None:
        raise no_job(answer.job_id)
    if answer.is_repeat:
        say_repeated(response)
    return found


def _submit(
    conn: Conn, api: Api, caller: Caller, wanted: list[Submission], complete: Completion
) -> list[Submitted | Refusal]:
    return submit_many(
        conn,
        wanted,
        namespace=caller.namespace,
        callback_rules=api.settings.callbacks.rules,
        source_app=SOURCE,
        complete=complete,
    )


@router.post("/jobs/batch")
def submit_batch(body: JobBatch, caller: Submitter, api: ApiContext) -> BatchAnswers:
    """Start up to 1,000 jobs: all that can be, in one transaction; each item is answered by itself."""
    api.submit_rate.take(caller.rate_name, len(body.jobs))
    answers = [BatchAnswer(index=index) for index in range(len(body.jobs))]
    wanted: dict[int, tuple[JobSubmission, Submission]] = {}
    for index, item in enumerate(body.jobs):
        try:
            refuse_many_members(item, JobSubmission)
            given = JobSubmission.model_validate(item)
            wanted[index] = given, _submission(given, caller, None)
        except ValidationError as error:
            places = [(pointer_of(found["loc"]), str(found["msg"])) for found in error.errors()]
            answers[index].problem = _invalid(places).body
        except Problem as problem:
            answers[index].problem = problem.body
    submitted = [given for given, _ in wanted.values()]
    api.quotas.admit_jobs(
        caller.namespace, [one.input_params for one in submitted], [one.priority for one in submitted]
    )

    def make(conn: Conn, complete: Completion) -> None:
        known = known_workflows(conn, caller.namespace)
        found = _submit(conn, api, caller, [submission for _, submission in wanted.values()], complete)
        with few_guesses():
            for (index, (given, _)), answer in zip(wanted.items(), found, strict=True):
                if isinstance(answer, Submitted):
                    answers[index].job_id, answers[index].repeated = answer
                else:
                    answers[index].problem = refusal(known, answer, given).body

    with_checks(api, caller.namespace, make)
    for one in answers:
        if one.problem is not None:
            for place in one.problem.errors:
                place.pointer = f"/jobs/{one.index}{place.pointer}"
    refused = sum(one.problem is not None for one in answers)
    repeated = sum(one.repeated for one in answers)
    return BatchAnswers(created=len(answers) - refused - repeated, repeated=repeated, refused=refused, jobs=answers)


@router.get("/jobs")
def list_jobs(
    caller: Reader,
    api: ApiContext,
    status: Annotated[list[JobStatus] | None, Query(max_length=20, description="One or several")] = None,
    workflow_id: Annotated[Name | None, Query()] = None,
    submitted_by: Annotated[Name | None, Query()] = None,
    correlation_id: Annotated[Id | None, Query()] = None,
    since: Annotated[Moment | None, Query(description="Created then or later")] = None,
    until: Annotated[Moment | None, Query(description="Created before")] = None,
    q: Annotated[
        Name | None,
        Query(description="The beginning of a job's id, workflow, submitter or correlation; plain characters"),
    ] = None,
    root_job_id: Annotated[Id | None, Query(description="This job and whatever reruns it, however often")] = None,
    rerun_of: Annotated[Id | None, Query(description="Reruns of this job")] = None,
    parent_job_id: Annotated[Id | None, Query(description="Child jobs of this job")] = None,
    cursor: CursorParameter = None,
    limit: Annotated[int, Query(ge=1, le=500)] = 50,
) -> JobPage:
    """Jobs, newest first."""
    filters = JobFilters(
        statuses=status or (),
        workflow_id=workflow_id,
        submitted_by=submitted_by,
        correlation_id=correlation_id,
        since=since,
        until=until,
        root_job_id=root_job_id,
        rerun_of=rerun_of,
        parent_job_id=parent_job_id,
        text=q,
        before=read_cursor(cursor, job_place),
        limit=limit + 1,
    )
    with api.connection() as conn:
        found = page_of_jobs(conn, caller.namespace, filters)
    shown = found[:limit]
    more = len(found) > limit
    return JobPage(jobs=shown, next_cursor=write_cursor(shown[-1].created_at, shown[-1].job_id) if more else None)


@router.get("/jobs/{job_id}")
def get_job(job_id: JobId, caller: Reader, api: ApiContext) -> JobView:
    """A job: how it stands, its parameters and its result, and what it waits for."""
    with api.connection() as conn:
        found = read_job(conn, caller.namespace, job_id, api.settings.orphan_seconds) if is_id(job_id) else None
    if found is None:
        raise no_job(job_id)
    return found


@router.get("/jobs/{job_id}/overview")
def get_overview(
    job_id: JobId,
    caller: Reader,
    api: ApiContext,
    reasons: Annotated[bool, Query(description="Also why nodes do not run; not told of jobs with many nodes")] = False,
) -> JobOverview:
    """A job with its nodes in the order in which they run; fan-outs as counts, however many children."""
    with api.connection() as conn:
        job = find_job(conn, caller, job_id)
        return read_overview(conn, job, alive_seconds=api.settings.orphan_seconds, with_reasons=reasons)


@router.post("/jobs/{job_id}/cancel", responses=COMMAND)
async def cancel(
    job_id: JobId, caller: Operator, api: ApiContext, response: Response, body: CancelRequest | None = None
) -> CommandAnswerBody:
    """Stop a job: what waits never starts, what runs is told. 409 if it has ended or is ending already."""

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
    """Run again what failed or never ran, as a new job that reuses what is finished."""
    given = RetryRequest() if body is None else body
    wanted = RerunRequest(dry_run=given.dry_run, idempotency_key=given.idempotency_key)
    return _rerun(api, caller, response, job_id, wanted, key)


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
    api: Api, caller: Caller, response: Response, job_id: str, wanted: RerunRequest, key: str | None
) -> RerunAnswer:
    idempotency_key = one_key(wanted.idempotency_key, key)
    if not is_id(job_id):
        raise no_job(job_id)
    if not wanted.dry_run:
        api.submit_rate.take(caller.rate_name, 1)
        api.quotas.admit_jobs(caller.namespace, [wanted.input_params], [])

    def make(conn: Conn, complete: Completion) -> tuple[PlannedRerun, Submitted | None]:
        planned = plan_rerun_of(
            conn,
            job_id,
            namespace=caller.namespace,
            changed_params=wanted.input_params,
            from_nodes=wanted.from_nodes,
            everything=wanted.everything,
            complete=complete,
        )
        if wanted.dry_run:
            return planned, None
        return planned, rerun_job(
            conn, planned, issued_by=caller.name, idempotency_key=idempotency_key, source_app=SOURCE
        )

    try:
        planned, made = with_checks(api, caller.namespace, make)
    except UnknownJobError:
        raise no_job(job_id) from None
    except InvalidInputs as error:
        raise invalid_parameters(error) from None
    except RerunError as error:
        raise Problem(422, "unknown_node", str(error), pointer="/from_nodes") from None
    except JobNotFinishedError as error:
        remedy = "Wait for its end, cancel it, or retry one node of it."
        raise Problem(409, "job_not_finished", str(error), remedy=remedy) from None
    except NothingToRerunError as error:
        remedy = "Rerun it with `everything` or `from_nodes`."
        raise Problem(409, "nothing_to_rerun", str(error), remedy=remedy) from None
    except AssetConflict as error:
        raise Problem(409, error.code, str(error), remedy=error.remedy) from None
    except OtherSubmissionError as error:
        raise key_reused(error) from None
    if made is None:
        response.status_code = 200
    elif made.is_repeat:
        say_repeated(response)
    order = JobOrder(planned.definition)
    return RerunAnswer(
        job_id=None if made is None else made.job_id,
        rerun_of=job_id,
        dry_run=wanted.dry_run,
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
        raise no_job(job_id)

    def begin() -> CommandAnswer:
        with api.connection() as conn:
            return issue(conn)

    def look(command_id: str) -> CommandAnswer:
        with api.connection() as conn:
            return read_as_answer(read_answer(conn, command_id), command_id)

    try:
        answer = await run_in_threadpool(begin)
    except UnknownJobError:
        raise no_job(job_id) from None
    deadline, pause_seconds = time.monotonic() + ANSWER_SECONDS, LOOK_SECONDS
    while answer.outcome is None and time.monotonic() < deadline:
        await asyncio.sleep(pause_seconds)
        answer = await run_in_threadpool(look, answer.command_id)
        pause_seconds = min(MOST_PAUSE_SECONDS, 1.5 * pause_seconds)
    if answer.outcome is CommandOutcome.REFUSED:
        raise Problem(409, "refused", answer.reason)
    if answer.outcome is None:
        response.status_code = 202
    return CommandAnswerBody(job_id=job_id, command_id=answer.command_id, outcome=answer.outcome, reason=answer.reason)


def find_job(conn: Conn, caller: Caller, job_id: str) -> dict[str, Any]:
    """The row of a job of the caller's namespace."""
    found = views.job(conn, caller.namespace, job_id) if is_id(job_id) else None
    if found is None:
        raise no_job(job_id)
    return found


def is_id(text: str) -> bool:
    return AN_ID.fullmatch(text) is not None


def no_job(job_id: str) -> Problem:
    return not_found(f"job {job_id!r}", remedy="`GET /api/v1/jobs` lists them.")


def job_place(created_at: Any, job_id: Any) -> Cursor:
    return Cursor(moment(created_at), plain(job_id))


def moment(text: Any) -> datetime:
    """A time from a cursor; ValueError if it is none that the database has."""
    found = datetime.fromisoformat(text)
    if found.tzinfo is None or not 1970 <= found.year < 9999:
        raise ValueError(text)
    return found


def plain(text: Any) -> str:
    """An id from a cursor."""
    if not isinstance(text, str) or len(text) > 64 or "\0" in text:
        raise ValueError(text)
    return text


def one_key(in_body: str | None, in_header: str | None) -> str | None:
    if in_body is not None and in_header is not None and in_body != in_header:
        raise Problem(
            422,
            "two_idempotency_keys",
            "the header `Idempotency-Key` and `idempotency_key` differ",
            remedy="Give one of them.",
            pointer="/idempotency_key",
        )
    return in_header if in_body is None else in_body


def check_submitter(caller: Caller, name: str | None) -> None:
    if name not in (None, caller.name) and not caller.may(Scope.ADMIN):
        raise Problem(
            403,
            "scope_missing",
            "only a key with the scope `admin` submits in another name",
            remedy="Leave `submitted_by` out.",
            pointer="/submitted_by",
        )


def _submission(body: JobSubmission, caller: Caller, key: str | None) -> Submission:
    check_submitter(caller, body.submitted_by)
    return Submission(
        workflow_id=body.workflow_id,
        input_params=body.input_params,
        submitted_by=body.submitted_by or caller.name,
        version=body.version,
        priority=body.priority,
        fairness_key=body.fairness_key,
        idempotency_key=one_key(body.idempotency_key, key),
        correlation_id=body.correlation_id,
        callback_url=body.callback_url,
    )


def known_workflows(conn: Conn, namespace: str) -> KnownWorkflows:
    """The newest version of each; read when somebody asks, and once."""
    return cache(lambda: {line.workflow_id: line.version for line in views.workflows(conn, namespace)})


def refusal(known: KnownWorkflows, answer: Refusal, body: JobSubmission) -> Problem:
    if isinstance(answer, InvalidInputs):
        return invalid_parameters(answer)
    if isinstance(answer, CallbackRefused):
        return callback_refused(answer, "/callback_url")
    if isinstance(answer, UnfitWorkflowError):
        return unfit_workflow(answer)
    if isinstance(answer, RetiredWorkflowError):
        return workflow_retired(answer)
    if isinstance(answer, UnknownWorkflowError):
        return unknown_workflow(known(), body.workflow_id, body.version)
    return key_reused(answer)


def unknown_workflow(known: Mapping[str, int], workflow_id: str, version: int | None) -> Problem:
    newest = known.get(workflow_id)
    remedy = did_you_mean(workflow_id, known) if newest is None else f"The newest version is {newest}."
    what = f"there is no workflow {workflow_id!r}"
    if newest is not None:
        return Problem(404, "unknown_workflow", f"{what} version {version}", remedy=remedy, pointer="/version")
    return Problem(404, "unknown_workflow", what, remedy=remedy if known else None, pointer="/workflow_id")


def unfit_workflow(error: UnfitWorkflowError) -> Problem:
    return Problem(409, "unfit_workflow", str(error), remedy=error.remedy, pointer="/workflow_id")


def workflow_retired(error: RetiredWorkflowError) -> Problem:
    remedy = "`POST /api/v1/workflows/{workflow_id}/restore` brings it back; a newer version can be registered."
    return Problem(409, "workflow_retired", str(error), remedy=remedy, pointer="/workflow_id")


def invalid_parameters(error: InvalidInputs) -> Problem:
    places = [(f"/input_params{found.pointer}", f"{found.message}. {found.remedy}") for found in error.problems]
    what = error.problems[0].message if len(places) == 1 else f"{len(places)} parameters are wrong"
    return Problem(422, "invalid_parameters", what, places=places)


def key_reused(error: OtherSubmissionError) -> Problem:
    return Problem(422, "idempotency_key_reused", str(error), pointer="/idempotency_key")


def _invalid(places: list[tuple[str, str]]) -> Problem:
    what = places[0][1] if len(places) == 1 else f"{len(places)} things are wrong with it"
    return Problem(422, "invalid_request", what, places=places)


def say_repeated(response: Response) -> None:
    response.status_code = 200
    response.headers[REPEATED] = "true"
