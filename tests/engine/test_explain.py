"""Why is my node not running? Every reason can be told (SPEC E7)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rmhdag.engine.explain import ReasonCode, explain
from rmhdag.engine.inputs import CancelJob, SetWindow
from rmhdag.workflow.definition import ApprovalNode, Branch, ConditionalNode, FanOutNode, RetryRule, WorkflowNode
from tests.engine.definitions import fan, spec, task, workflow
from tests.engine.driver import Job

SLOW = RetryRule(max_attempts=3, initial_delay_seconds=60, jitter=0)


def not_started() -> tuple[Job, str]:
    return Job(workflow(one=task())), "one"


def ending() -> tuple[Job, str]:
    job = Job(fan(max_parallel=1), {"items": [1] * 6_000}).begin()
    job.continue_all()
    job.apply(CancelJob("ann"))
    return job, "split__5999"


def pending() -> tuple[Job, str]:
    return Job(workflow(one=task("two"), two=task())).begin(), "two"


def pending_any() -> tuple[Job, str]:
    return Job(workflow(one=task(), other=task(), two=task(any_of=("one", "other")))).begin(), "two"


def retrying() -> tuple[Job, str]:
    job = Job(workflow(one=task(retry=SLOW))).begin()
    job.fail("one")
    return job, "one"


def no_room() -> tuple[Job, str]:
    job = Job(workflow(one=task(), two=task()))
    job.apply(SetWindow("light", 1))
    return job.begin(), "two"


def no_room_for_child() -> tuple[Job, str]:
    job = Job(fan(), {"items": [1, 2]})
    job.apply(SetWindow("light", 1))
    return job.begin(), "split__1"


def max_parallel() -> tuple[Job, str]:
    return Job(fan(max_parallel=1), {"items": [1, 2]}).begin(), "split__1"


def queued() -> tuple[Job, str]:
    return Job(workflow(one=task())).begin(), "one"


def running() -> tuple[Job, str]:
    job = Job(workflow(one=task())).begin()
    job.start_task("one")
    return job, "one"


def approval() -> tuple[Job, str]:
    return Job(workflow(ask=ApprovalNode())).begin(), "ask"


def approval_with_message() -> tuple[Job, str]:
    ask = ApprovalNode(message="Merge {{ inputs.items | length }} tiles?", approvers=("data-stewards", "ada"))
    return Job(workflow(ask=ask), {"items": [1, 2]}).begin(), "ask"


def child_job() -> tuple[Job, str]:
    return Job(workflow(sub=WorkflowNode(workflow="other"))).begin(), "sub"


def children() -> tuple[Job, str]:
    return Job(fan(), {"items": [1]}).begin(), "split"


def expanding() -> tuple[Job, str]:
    return Job(fan(), {"items": [1] * 1_001}).begin(), "split"


def unborn() -> tuple[Job, str]:
    return Job(fan(), {"items": [1] * 1_001}).begin(), "split__1000"


def unborn_before_the_fan_out() -> tuple[Job, str]:
    later = workflow(one=task("split"), split=FanOutNode(source="{{ inputs.items }}", task=spec()))
    return Job(later, {"items": [1]}).begin(), "split__3"


def aggregating() -> tuple[Job, str]:
    job = Job(fan(), {"items": [1]}).begin()
    job.succeed("split__0")
    return job, "join"


def completed() -> tuple[Job, str]:
    job = Job(fan(), {"items": [1, 2]}).begin()
    job.succeed("split__0")
    return job, "split__0"


def failed() -> tuple[Job, str]:
    job = Job(workflow(one=task())).begin()
    job.fail("one")
    return job, "one"


def skipped() -> tuple[Job, str]:
    route = ConditionalNode(branches=(Branch(condition="{{ true }}", next=("a",)), Branch(default=True, next=("b",))))
    return Job(workflow(route=route, a=task(), b=task())).begin(), "b"


def skipped_by_failure() -> tuple[Job, str]:
    job = Job(workflow(one=task("two"), two=task())).begin()
    job.fail("one")
    return job, "two"


def cancelled() -> tuple[Job, str]:
    job = Job(workflow(one=task("two"), two=task())).begin()
    job.apply(CancelJob("ann"))
    return job, "two"


def unknown() -> tuple[Job, str]:
    return Job(workflow(one=task())).begin(), "won"


@pytest.mark.parametrize(
    ("situation", "code", "words"),
    [
        (not_started, ReasonCode.JOB_NOT_STARTED, "orchestrator"),
        (ending, ReasonCode.JOB_ENDING, "cancelled"),
        (pending, ReasonCode.WAITS_FOR_DEPENDENCIES, "Waiting for one (dispatched)."),
        (pending_any, ReasonCode.WAITS_FOR_DEPENDENCIES, "one of one (dispatched), other (dispatched)"),
        (retrying, ReasonCode.WAITS_FOR_RETRY, "attempt 2 is due at 2026-03-01 00:01:00 UTC."),
        (no_room, ReasonCode.WAITS_FOR_ROOM, "queue light"),
        (no_room_for_child, ReasonCode.WAITS_FOR_ROOM, "queue light"),
        (max_parallel, ReasonCode.WAITS_FOR_MAX_PARALLEL, "max_parallel is 1"),
        (queued, ReasonCode.WAITS_FOR_WORKER, "queue light"),
        (running, ReasonCode.RUNS, "worker"),
        (approval, ReasonCode.WAITS_FOR_APPROVAL, "Waiting for a person to approve or reject."),
        (
            approval_with_message,
            ReasonCode.WAITS_FOR_APPROVAL,
            "Waiting for a person (approvers: data-stewards, ada) to approve or reject: Merge 2 tiles?",
        ),
        (child_job, ReasonCode.WAITS_FOR_CHILD_JOB, "child job"),
        (children, ReasonCode.WAITS_FOR_CHILDREN, "0 of 1 children settled"),
        (expanding, ReasonCode.EXPANDING, "250 of 1001"),
        (unborn, ReasonCode.NOT_EXPANDED, "split is running"),
        (unborn_before_the_fan_out, ReasonCode.NOT_EXPANDED, "split is pending"),
        (aggregating, ReasonCode.AGGREGATING, "aggregated"),
        (completed, ReasonCode.COMPLETED, "completed"),
        (failed, ReasonCode.FAILED, "boom"),
        (skipped, ReasonCode.SKIPPED, "branch"),
        (skipped_by_failure, ReasonCode.SKIPPED, "failed"),
        (cancelled, ReasonCode.CANCELLED, "job ended"),
        (unknown, ReasonCode.UNKNOWN_NODE, "won"),
    ],
)
def test_a_reason(situation: Callable[[], tuple[Job, str]], code: ReasonCode, words: str) -> None:
    job, node_id = situation()
    found = explain(job.run, node_id)
    assert (found.reason_code, found.node_id) == (code, node_id)
    assert words in found.reason_text


@pytest.mark.parametrize(
    "situation", [pending, retrying, no_room, queued, running, approval_with_message, children, expanding, aggregating]
)
def test_the_reason_is_the_same_after_a_reload(situation: Callable[[], tuple[Job, str]]) -> None:
    job, node_id = situation()
    limits = {queue: lane.limit for queue, lane in job.run.lanes.items()}
    before = explain(job.run, node_id)
    if limits == {"light": 1_000}:
        assert explain(job.reload().run, node_id) == before
