"""Many jobs in one call."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from pydantic import ValidationError

from rmhdag.api.context import ApiContext
from rmhdag.api.identity import Caller, Submitter
from rmhdag.api.input_checks import with_checks
from rmhdag.api.member_counts import MOST_UNKNOWN, refuse_many_members, shape_of
from rmhdag.api.problems import invalid, problem_of
from rmhdag.api.routes.jobs import submission_of, submit
from rmhdag.models.api.jobs import BatchAnswer, BatchAnswers, JobBatch, JobSubmission
from rmhdag.models.refusals import Refusal
from rmhdag.services.submissions import Completion, Submission, Submitted
from rmhdag.store.connection import Conn
from rmhdag.workflow.problems import few_guesses

router = APIRouter(prefix="/api/v1", tags=["jobs"])

Wanted = dict[int, tuple[JobSubmission, Submission]]

SHAPE = shape_of(JobSubmission)


@router.post("/jobs/batch")
def submit_batch(body: JobBatch, caller: Submitter, api: ApiContext) -> BatchAnswers:
    """Start up to 1,000 jobs: all that can be, in one transaction; each item is answered by itself."""
    api.submit_rate.take(caller.rate_name, len(body.jobs))
    answers = [BatchAnswer(index=index) for index in range(len(body.jobs))]
    submissions = _read(body.jobs, caller, answers)
    submitted = [request for request, _ in submissions.values()]
    api.quotas.admit_jobs(
        caller.namespace,
        [item.input_params for item in submitted],
        [item.priority for item in submitted],
        key_priority=caller.max_priority,
    )

    def make(conn: Conn, complete: Completion) -> None:
        with few_guesses():
            outcomes = submit(conn, api, caller, [submission for _, submission in submissions.values()], complete)
        for index, outcome in zip(submissions, outcomes, strict=True):
            if isinstance(outcome, Submitted):
                answers[index].job_id, answers[index].repeated = outcome
            else:
                answers[index].problem = problem_of(outcome).body

    with_checks(api, caller.namespace, make)
    for item in answers:
        if item.problem is not None:
            for place in item.problem.errors:
                place.pointer = f"/jobs/{item.index}{place.pointer}"
    refused = sum(item.problem is not None for item in answers)
    repeated = sum(item.repeated for item in answers)
    return BatchAnswers(created=len(answers) - refused - repeated, repeated=repeated, refused=refused, jobs=answers)


def _read(items: list[Any], caller: Caller, answers: list[BatchAnswer]) -> Wanted:
    """The items that are submissions, by their places; the others are answered."""
    submissions: Wanted = {}
    # The items share what one body may have: a thousand times as many reports would take seconds.
    unknown_left = MOST_UNKNOWN
    for index, item in enumerate(items):
        try:
            refuse_many_members(item, SHAPE, most_unknown=max(0, unknown_left))
            submission = JobSubmission.model_validate(item)
            submissions[index] = submission, submission_of(submission, caller, None)
        except ValidationError as error:
            unknown_left -= error.error_count()
            answers[index].problem = invalid(error.errors(), "it").body
        except Refusal as refusal:
            unknown_left -= len(refusal.places)
            answers[index].problem = problem_of(refusal).body
    return submissions
