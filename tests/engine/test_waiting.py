"""Approvals and child jobs: nodes that wait without a worker (SPEC W3, DESIGN §3)."""

from __future__ import annotations

from typing import Any

import pytest

from rmhdag.engine.effects import ApprovalDecided, ApprovalRequested, ChildJobCancelled, CommandAnswered
from rmhdag.engine.inputs import ChildJobEnded, Decided, Output, Timer
from rmhdag.models.limits import CHILD_DEPTH
from rmhdag.models.states import JobStatus
from rmhdag.workflow.definition import ApprovalNode, RetryRule, WorkflowNode
from tests.engine.definitions import task, workflow
from tests.engine.driver import Job


def approval(**more: Any) -> Job:
    node = ApprovalNode(
        message="Publish {{ inputs.size }}?", params={"n": "{{ inputs.size }}"}, next=("after",), **more
    )
    return Job(workflow(ask=node, after=task(params={"by": "{{ nodes.ask.output }}"})), {"size": 3}).begin()


def test_an_approval_waits_and_goes_on() -> None:
    job = approval(approvers=("ops", "ann"))
    (asked,) = [effect for effect in job.effects if isinstance(effect, ApprovalRequested)]
    assert (asked.message, asked.params, asked.approvers) == ("Publish 3?", {"n": 3}, ("ops", "ann"))
    assert job.rows["ask"].status == "running"
    job.wait(1_000_000)
    assert job.due("ask", Timer.DEADLINE) == []
    job.reload()
    job.apply(Decided("ask", True, "ann"))
    assert job.queued["after"].params == {"by": {"decision": "approved", "decided_by": "ann", "reason": None}}
    job.apply(Decided("ask", False, "bob"))
    assert not job.answers()[-1].applied, "only one decision"
    job.apply(Decided("after", True, "bob"))
    assert not job.answers()[-1].applied


def test_only_those_whom_the_workflow_names_decide() -> None:
    job = approval(approvers=("ops", "ann"))
    for approved in (True, False):
        job.apply(Decided("ask", approved, "bob"))
        assert job.answers()[-1] == CommandAnswered(False, "bob may not decide ask; ops, ann may")
        assert job.rows["ask"].status == "running"
    job.apply(Decided("ask", True, "ann", clearance="public"))
    (decided,) = [effect for effect in job.effects if isinstance(effect, ApprovalDecided)]
    assert decided == ApprovalDecided(True, "ann", None, "public")
    output = {"decision": "approved", "decided_by": "ann", "reason": None, "clearance": "public"}
    assert job.queued["after"].params == {"by": output}


def test_a_gate_ends_when_another_branch_has_failed() -> None:
    """It never waits for ever: whether it waits already, or has not begun."""
    fails = task(retry=RetryRule(max_attempts=1))
    waits = Job(workflow(ask=ApprovalNode(), other=fails)).begin()
    assert waits.rows["ask"].status == "running"
    waits.fail("other")
    assert (waits.state, waits.rows["ask"].status) == ("failed", "cancelled")
    behind = Job(workflow(other=fails.model_copy(update={"next": ("ask",)}), ask=ApprovalNode())).begin()
    behind.fail("other")
    assert (behind.state, behind.rows["ask"].status) == ("failed", "skipped")


def test_a_rejection_fails_the_job_or_is_routed() -> None:
    job = approval()
    job.apply(Decided("ask", False, "ann", "wrong area"))
    assert job.state == "failed"
    assert job.rows["ask"].error_message == "rejected by ann: wrong area"
    job = approval(on_reject="continue")
    job.apply(Decided("ask", False, "ann"))
    assert "after" in job.queued


def test_an_approval_can_time_out() -> None:
    job = approval(timeout_seconds=60)
    job.wait(59)
    assert job.due("ask", Timer.DEADLINE) == []
    job.wait(1)
    job.due("ask", Timer.DEADLINE)
    assert job.state == "failed"
    job.apply(Decided("ask", True, "ann"))
    assert not job.answers()[-1].applied


def child(**more: Any) -> Job:
    node = WorkflowNode(workflow="other", params={"n": "{{ inputs.size }}"}, next=("after",), **more)
    return Job(workflow(sub=node, after=task(params={"x": "{{ nodes.sub.output.x }}"})), {"size": 3}).begin()


def test_a_child_job_hands_its_result_back() -> None:
    job = child()
    ((child_id, request),) = job.child_jobs.items()
    assert (request.workflow_id, request.input_params, request.depth) == ("other", {"n": 3}, 1)
    job.reload()
    assert job.apply(ChildJobEnded("sub", 1, "somebody-else", JobStatus.COMPLETED)) == []
    job.apply(ChildJobEnded("sub", 1, child_id, JobStatus.COMPLETED, Output({"x": 5})))
    assert job.queued["after"].params == {"x": 5}


def test_a_failed_child_job_fails_the_node_unless_retried() -> None:
    job = child()
    (child_id,) = job.child_jobs
    job.apply(ChildJobEnded("sub", 1, child_id, JobStatus.FAILED, error_message="no disk"))
    assert job.state == "failed"
    assert "no disk" in (job.rows["sub"].error_message or "")
    job = child(retry=RetryRule(max_attempts=2, initial_delay_seconds=0))
    job.apply(ChildJobEnded("sub", 1, next(iter(job.child_jobs)), JobStatus.FAILED, error_message="no disk"))
    assert len(job.child_jobs) == 2, "a new attempt is a new child job"
    job.apply(ChildJobEnded("sub", 2, list(job.child_jobs)[1], JobStatus.COMPLETED, Output({"x": 1})))
    assert "after" in job.queued


def test_a_child_job_that_takes_too_long_is_cancelled() -> None:
    job = child(timeout_seconds=10)
    job.wait(10)
    effects = job.due("sub", Timer.DEADLINE)
    assert any(isinstance(effect, ChildJobCancelled) for effect in effects)
    assert job.state == "failed"


@pytest.mark.parametrize("depth", [CHILD_DEPTH - 1, CHILD_DEPTH])
def test_child_jobs_nest_only_so_deep(depth: int) -> None:
    job = Job(workflow(sub=WorkflowNode(workflow="other")), depth=depth).begin()
    assert job.state == ("running" if depth < CHILD_DEPTH else "failed")
