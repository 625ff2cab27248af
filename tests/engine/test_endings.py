"""Failing, cancelling and draining (SPEC E6, DESIGN §3 Endings)."""

from __future__ import annotations

import pytest

from rmhdag.engine.effects import (
    ChildJobCancelled,
    ChildrenCancelled,
    CommandAnswered,
    ParentNotified,
    RecordsPublished,
    TaskRevoked,
    TasksWithdrawn,
)
from rmhdag.engine.inputs import CancelJob, ChildJobEnded, RetryNode, Start, TaskSnoozed
from rmhdag.engine.plan import CANCEL_CHUNK
from rmhdag.models.states import JobStatus
from rmhdag.workflow.definition import ApprovalNode, FanOutNode, WorkflowNode
from tests.engine.definitions import AT_ONCE, fan, spec, task, workflow
from tests.engine.driver import Job

CANCEL = CancelJob("ann", "no longer needed")


def test_a_failure_drains_what_runs_and_starts_nothing_new() -> None:
    job = Job(workflow(bad=task("after"), good=task("later"), after=task(), later=task())).begin()
    effects = job.fail("bad")
    assert any(isinstance(effect, TasksWithdrawn) for effect in effects)
    assert (job.state, job.ending) == ("running", "failed")
    assert [job.rows[name].status for name in ("after", "later")] == ["skipped", "skipped"]
    job.succeed("good")
    assert job.state == "failed"
    assert job.rows["good"].status == "completed"
    assert job.error_message == "node 'bad' failed: boom"


def test_a_second_failure_while_draining_is_only_named() -> None:
    job = Job(workflow(one=task(retry=AT_ONCE), two=task(), three=task())).begin()
    job.fail("two")
    job.fail("one")
    assert job.rows["one"].status == "failed", "no retry while the job ends"
    job.withdraw("three")
    assert job.state == "failed"
    assert job.events[-1].data == {"failed_nodes": ["two", "one"]}
    assert job.rows["three"].status == "cancelled"


def test_cancel_ends_once_with_the_last_task() -> None:
    job = Job(workflow(one=task("two"), other=task(), two=task())).begin()
    job.apply(CANCEL)
    assert job.answers()[-1].applied
    assert job.rows["two"].status == "cancelled"
    # Asked twice: nothing is done, and nothing is wrong.
    assert job.apply(CANCEL) == [CommandAnswered(True, "the job is already being cancelled")]
    job.withdraw("one")
    assert job.state == "running"
    job.reload()
    job.succeed("other")
    assert job.state == "cancelled"
    assert job.event_types().count("job_cancelled") == 1
    assert job.apply(CANCEL) == [CommandAnswered(True, "the job is already cancelled")]


def test_a_job_that_failed_or_completed_is_not_cancelled() -> None:
    failed = Job(workflow(one=task(), other=task())).begin()
    failed.fail("one")
    assert failed.apply(CANCEL) == [CommandAnswered(False, "the job is already ending as failed")]
    done = Job(workflow(one=task())).begin()
    done.succeed("one")
    assert done.apply(CANCEL) == [CommandAnswered(False, "the job is already completed")]


def test_cancel_before_the_start() -> None:
    job = Job(workflow(one=task()))
    job.apply(CANCEL)
    assert job.state == "cancelled"
    assert job.apply(Start()) == []
    assert job.rows == {}


def test_cancel_with_nothing_under_way_ends_at_once() -> None:
    job = Job(workflow(ask=ApprovalNode(next=("two",)), two=task())).begin()
    job.apply(CANCEL)
    assert job.state == "cancelled"
    assert job.statuses() == {"ask": "cancelled", "two": "cancelled"}


def test_a_waiting_retry_is_cancelled() -> None:
    job = Job(workflow(one=task(retry=AT_ONCE.model_copy(update={"initial_delay_seconds": 60.0})))).begin()
    job.fail("one")
    job.apply(CANCEL)
    assert job.state == "cancelled"
    job.wait(60)
    assert job.due("one") == []


def test_a_lost_task_of_an_ending_job_does_not_come_back() -> None:
    job = Job(workflow(one=task())).begin()
    job.apply(CANCEL)
    effects = job.lose("one")
    assert any(isinstance(effect, TaskRevoked) for effect in effects)
    assert job.state == "cancelled"


def test_a_snoozed_task_of_an_ending_job_does_not_come_back() -> None:
    job = Job(workflow(one=task())).begin()
    job.apply(CANCEL)
    job.apply(TaskSnoozed("one", 1, job.queued["one"].task_id, 1, 30))
    assert job.state == "cancelled"


@pytest.mark.parametrize("ends_by", ["cancel", "failure"])
def test_a_task_that_would_publish_while_the_job_ends_is_cancelled(ends_by: str) -> None:
    """Completed means published; a task without records completes as ever."""
    job = Job(workflow(one=task(), two=task(), three=task())).begin()
    job.apply(CancelJob("ann")) if ends_by == "cancel" else job.fail("three")
    effects = job.succeed("one", {}, records=({"kind": "blob"},))
    assert not [effect for effect in effects if isinstance(effect, RecordsPublished)]
    job.succeed("two")
    assert (job.rows["one"].status, job.rows["two"].status) == ("cancelled", "completed")
    if ends_by == "cancel":
        job.succeed("three")
    assert job.state == ("cancelled" if ends_by == "cancel" else "failed")


def test_children_are_cancelled_in_chunks_and_the_unborn_vanish() -> None:
    total = 2 * CANCEL_CHUNK + 1
    job = Job(fan(max_parallel=3), {"items": list(range(total + 5_000))}).begin()
    while len(job.children("split")) < total - 1:
        job.apply_continue()
    job.apply(CANCEL)
    job.reload()
    job.continue_all()
    assert job.state == "running", "three tasks are under way"
    for node_id in list(job.queued):
        job.withdraw(node_id)
    assert job.state == "cancelled"
    chunks = [effect for effect in job.effects if isinstance(effect, ChildrenCancelled)]
    assert len(chunks) >= 2
    assert all(effect.stop - effect.start <= CANCEL_CHUNK for effect in chunks)
    assert {str(row.status) for row in job.rows.values()} == {"cancelled"}
    assert job.rows["join"].status == "cancelled"


def test_a_failure_beside_a_fan_out_stops_it() -> None:
    job = Job(
        workflow(bad=task(), split=FanOutNode(source="{{ inputs.items }}", task=spec(), max_parallel=1)),
        {"items": [1, 2, 3]},
    ).begin()
    job.fail("bad")
    assert job.rows["split__1"].status == "cancelled"
    job.succeed("split__0")
    assert job.state == "failed"
    assert job.rows["split"].status == "cancelled"
    assert job.rows["split__0"].status == "completed"


def test_the_cancel_reaches_the_child_job_and_waits_for_it() -> None:
    job = Job(workflow(sub=WorkflowNode(workflow="other"))).begin()
    (child_id,) = job.child_jobs
    effects = job.apply(CANCEL)
    assert [effect.child_job_id for effect in effects if isinstance(effect, ChildJobCancelled)] == [child_id]
    assert job.state == "running"
    job.reload()
    job.apply(ChildJobEnded("sub", 1, child_id, JobStatus.CANCELLED))
    assert job.state == "cancelled"


def test_no_retry_by_hand_while_the_job_ends() -> None:
    job = Job(workflow(one=task(), two=task())).begin()
    job.fail("one")
    job.apply(RetryNode("one", "ann"))
    assert not job.answers()[-1].applied
    assert "ending" in job.answers()[-1].reason


def test_the_parent_is_told_of_every_ending() -> None:
    for how, state in (("succeed", "completed"), ("fail", "failed")):
        job = Job(workflow(one=task()), parent=True).begin()
        getattr(job, how)("one")
        (told,) = [effect for effect in job.effects if isinstance(effect, ParentNotified)]
        assert told.status == state
        assert (told.error_message is None) == (state == "completed")
