"""Errors with codes decide about retries and follow a failure up to the job; warnings are counted once each."""

from __future__ import annotations

from typing import Any

import pytest

from rmhdag.engine.effects import JobChanged, NodeChanged, ParentNotified, WarningsCounted
from rmhdag.engine.inputs import ChildJobEnded, RetryNode, Start, TaskReported, Timer
from rmhdag.handlers import HandlerError
from rmhdag.models.events import ErrorKind
from rmhdag.models.states import JobStatus
from rmhdag.workflow.definition import TaskNode, WorkflowNode
from tests.engine.definitions import AT_ONCE, fan, spec, task, workflow
from tests.engine.driver import Job


def cause(code: str, message: str = "no", **more: Any) -> dict[str, Any]:
    return HandlerError(code=code, message=message, **more).model_dump(mode="json")


def one() -> Job:
    return Job(workflow(only=TaskNode(task=spec(retry=AT_ONCE)))).begin()


def report(job: Job, node_id: str, *, error: dict[str, Any] | None = None, warnings: list[Any] | None = None) -> None:
    queued = job.queued.pop(node_id)
    failure = {} if error is None else {"error_message": error["message"], "error_kind": ErrorKind.HANDLER_ERROR}
    job.apply(
        TaskReported(
            node_id,
            queued.attempt,
            queued.task_id,
            1,
            error is None,
            error=error,
            warnings=warnings or [],
            **failure,
        )
    )


def node_errors(job: Job, node_id: str) -> list[dict[str, Any] | None]:
    return [
        effect.error
        for effect in job.effects
        if isinstance(effect, NodeChanged) and effect.node_id == node_id and effect.error_message is not None
    ]


def job_error(job: Job) -> dict[str, Any] | None:
    return [effect for effect in job.effects if isinstance(effect, JobChanged)][-1].error


def counted(job: Job) -> list[dict[str, Any]]:
    found = [effect for effect in job.effects if isinstance(effect, WarningsCounted)]
    return found[-1].warnings if found else []


@pytest.mark.parametrize("code", ["FILE_NOT_FOUND", "CRS_MISSING", "INVALID_FORMAT", "MISSING_PARAMETER"])
def test_what_the_client_has_to_correct_is_not_tried_again(code: str) -> None:
    job = one()
    report(job, "only", error=cause(code))
    assert (job.state, job.rows["only"].attempt) == ("failed", 1)
    assert node_errors(job, "only") == [cause(code)]
    assert job_error(job) == cause(code)


@pytest.mark.parametrize("error", [cause("STORAGE_UNAVAILABLE"), cause("FILE_NOT_FOUND", retryable=True)])
def test_what_may_pass_is_tried_again_and_keeps_its_error_meanwhile(error: dict[str, Any]) -> None:
    job = one()
    report(job, "only", error=error)
    assert (job.state, job.queued["only"].attempt) == ("running", 2)
    assert node_errors(job, "only") == [error]
    (failed,) = [event for event in job.events if event.event_type == "node_failed"]
    assert failed.data == {
        "error_kind": "handler_error",
        "will_retry": True,
        "error_code": error["code"],
        "error_category": error["category"],
    }
    report(job, "only")
    assert job.state == "completed"
    assert job_error(job) is None


def test_a_time_out_has_a_code() -> None:
    job = Job(workflow(only=task(timeout_seconds=5))).begin()
    job.start_task("only")
    job.wait(3_600)
    job.due("only", Timer.DEADLINE)
    error = job_error(job)
    assert error is not None
    assert (error["code"], error["category"], error["message"]) == ("TIMEOUT", "system", "it ran longer than its 5 s")


def test_the_first_failed_child_says_why_the_whole_failed() -> None:
    job = Job(fan(), {"items": [1, 2, 3]}).begin()
    for index in (2, 1):
        report(job, f"split__{index}", error=cause("CRS_MISSING", f"file {index}"))
    report(job, "split__0")
    assert job.state == "failed"
    assert "2 of 3 children failed" in (job.error_message or "")
    assert job_error(job) == cause("CRS_MISSING", "file 1")


def test_a_child_that_is_retried_by_hand_is_no_cause_any_more() -> None:
    job = Job(fan(), {"items": [1, 2]}).begin()
    report(job, "split__0", error=cause("CRS_MISSING", "file 0"))
    job.apply(RetryNode("split__0", "ann"))
    report(job, "split__0")
    report(job, "split__1", error=cause("RASTER_EMPTY", "file 1"))
    assert job_error(job) == cause("RASTER_EMPTY", "file 1")


def sub(**more: Any) -> Job:
    return Job(workflow(sub=WorkflowNode(workflow="other", retry=AT_ONCE, **more))).begin()


def test_the_error_of_a_child_job_is_its_parents() -> None:
    job = sub()
    (child_id,) = job.child_jobs
    job.apply(ChildJobEnded("sub", 1, child_id, JobStatus.FAILED, None, "node 'x' failed: no", cause("CRS_MISSING")))
    assert job.state == "failed", "correcting the data is the client's: another child job would fail the same way"
    assert job_error(job) == cause("CRS_MISSING")


def test_a_job_tells_its_parent_why_it_failed_and_that_it_warned() -> None:
    definition = workflow(first=task("last"), last=task())
    job = Job(definition)
    job.run.parent_job_id, job.run.parent_node_id = "p", "sub"
    job.begin()
    report(job, "first", warnings=[{"code": "RASTER_EMPTY", "message": "m", "count": 1}])
    report(job, "last", error=cause("CRS_MISSING"))
    (told,) = [effect for effect in job.effects if isinstance(effect, ParentNotified)]
    assert (told.error, told.has_warnings) == (cause("CRS_MISSING"), True)


def test_warnings_are_summed_by_code_over_nodes_children_and_child_jobs() -> None:
    job = Job(fan(), {"items": [1, 2, 3]}).begin()
    for index in range(3):
        report(job, f"split__{index}", warnings=[{"code": "RASTER_EMPTY", "message": f"file {index}", "count": 2}])
    assert counted(job) == [{"code": "RASTER_EMPTY", "message": "file 0", "count": 6}]
    completed = [event for event in job.events if event.event_type == "node_completed"]
    assert [event.data["warnings"] for event in completed[:3]] == [2, 2, 2]
    parent = sub()
    (child_id,) = parent.child_jobs
    parent.apply(ChildJobEnded("sub", 1, child_id, JobStatus.COMPLETED, warnings=counted(job)))
    assert counted(parent) == counted(job)


def test_a_failed_attempt_counts_no_warnings_and_a_rerun_brings_its_own() -> None:
    warning = {"code": "RASTER_EMPTY", "message": "m", "count": 1}
    job = Job(workflow(only=TaskNode(task=spec(retry=AT_ONCE)))).begin(Start(warnings=[warning]))
    assert counted(job) == [warning]
    report(job, "only", error=cause("STORAGE_UNAVAILABLE"), warnings=[warning])
    assert counted(job) == [warning]
    report(job, "only", warnings=[warning])
    assert counted(job) == [warning | {"count": 2}]


def test_a_job_without_warnings_has_no_effect_for_them() -> None:
    job = one()
    job.succeed("only")
    assert not [effect for effect in job.effects if isinstance(effect, WarningsCounted)]
