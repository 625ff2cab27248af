"""Retries, losses, time-outs, snoozes and checkpoints of one task (SPEC E4, E5, K3)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmhdag.engine.effects import EventAppended, RecordsPublished, TaskDeadLettered, TaskRequeued, TaskRevoked
from rmhdag.engine.inputs import (
    Output,
    RetryNode,
    SetWindow,
    TaskCheckpointed,
    TaskReported,
    TaskSnoozed,
    Timer,
)
from rmhdag.engine.plan import Plan, PlanError
from rmhdag.engine.retry import retry_delay_seconds
from rmhdag.engine.tasks import TIMEOUT_GRACE_SECONDS
from rmhdag.models.events import NEVER_RETRIED, ErrorKind
from rmhdag.models.references import Reference
from rmhdag.workflow.definition import RetryRule, TaskNode, TaskSpec
from tests.engine.definitions import AT_ONCE, ONCE, task, workflow
from tests.engine.driver import Job

PATIENT = RetryRule(max_attempts=3, backoff="exponential", initial_delay_seconds=5, max_delay_seconds=300, jitter=0)


def one(retry: RetryRule = PATIENT, **more: Any) -> Job:
    return Job(workflow(only=TaskNode(task=TaskSpec(handler="echo", queue="light", retry=retry, **more)))).begin()


def test_a_failed_attempt_waits_and_is_sent_again() -> None:
    job = one()
    job.fail("only")
    row = job.rows["only"]
    assert (row.status, row.attempt, row.error_message) == ("ready", 2, "boom")
    assert row.next_attempt_at is not None
    assert (row.next_attempt_at - job.now).total_seconds() == 5
    assert job.due("only") == [], "too early"
    job.wait(5)
    job.due("only")
    assert job.queued["only"].attempt == 2
    job.succeed("only")
    assert job.state == "completed"
    assert job.rows["only"].error_message is None
    assert job.event_types("only").count("node_retrying") == 1


def test_attempts_are_bounded_and_the_job_then_fails() -> None:
    job = one(AT_ONCE)
    for attempt in (1, 2, 3):
        assert job.queued["only"].attempt == attempt
        job.fail("only")
    assert job.state == "failed"
    assert job.rows["only"].status == "failed"
    assert "only" in (job.error_message or "")


@pytest.mark.parametrize("kind", sorted(NEVER_RETRIED))
def test_what_would_fail_again_is_not_retried(kind: ErrorKind) -> None:
    job = one(AT_ONCE)
    job.fail("only", kind)
    assert job.state == "failed"


def test_the_task_id_is_new_per_attempt_and_the_same_after_a_loss() -> None:
    job = one(AT_ONCE)
    first = job.queued["only"].task_id
    job.lose("only")
    assert job.queued["only"].task_id == first
    job.fail("only")
    assert job.queued["only"].task_id != first


def test_a_lost_worker_uses_up_no_attempt() -> None:
    job = one(RetryRule(max_attempts=1))
    job.start_task("only")
    assert job.rows["only"].status == "running"
    effects = job.lose("only")
    assert any(isinstance(effect, TaskRequeued) for effect in effects)
    row = job.rows["only"]
    assert (row.status, row.attempt, row.lease_losses) == ("dispatched", 1, 1)
    assert job.lose("only") == [], "the same loss again"
    job.succeed("only")
    assert job.state == "completed"


def test_three_started_losses_make_a_dead_letter() -> None:
    job = one()
    for epoch in (1, 2):
        job.lose("only", epoch)
    effects = job.lose("only", 3)
    assert [effect.node_id for effect in effects if isinstance(effect, TaskDeadLettered)] == ["only"]
    assert job.state == "failed"


def test_losses_before_the_start_do_not_count() -> None:
    job = one()
    for epoch in range(1, 10):
        job.lose("only", epoch, started=False)
    assert job.rows["only"].lease_losses == 0
    job.succeed("only")
    assert job.state == "completed"


def test_a_report_that_was_accepted_after_the_loss_was_noticed_counts() -> None:
    """The store accepted it, so the queue row is gone: ignoring it would leave the node waiting for ever."""
    job = one()
    task_id = job.queued["only"].task_id
    job.lose("only")
    job.queued.pop("only")
    job.apply(TaskReported("only", 1, task_id, 1, True, Output({})))
    assert job.state == "completed"


def test_a_late_start_of_a_lost_lease_changes_nothing() -> None:
    job = one()
    job.lose("only", 3)
    assert job.start_task("only", 3) == []
    assert job.start_task("only", 4) != []


def test_running_too_long_revokes_the_task_and_retries() -> None:
    job = one(AT_ONCE, timeout_seconds=60)
    job.start_task("only")
    job.wait(60)
    assert job.due("only", Timer.DEADLINE) == [], "the worker gets a grace to report the time-out itself"
    job.wait(10)
    effects = job.due("only", Timer.DEADLINE)
    assert any(isinstance(effect, TaskRevoked) for effect in effects)
    assert job.queued["only"].attempt == 2


def test_waiting_in_the_queue_is_no_time_out_unless_asked_for() -> None:
    job = one(timeout_seconds=60)
    job.wait(100_000)
    assert job.due("only", Timer.DEADLINE) == []
    job = one(RetryRule(max_attempts=1), start_timeout_seconds=30)
    job.wait(30)
    job.due("only", Timer.DEADLINE)
    assert job.state == "failed"
    assert "30 s" in (job.rows["only"].error_message or "")


def snoozed(job: Job, lease_epoch: int) -> TaskSnoozed:
    return TaskSnoozed("only", 1, job.queued["only"].task_id, lease_epoch, 0.0)


def seconds_left(job: Job) -> float:
    deadline = job.rows["only"].deadline_at
    assert deadline is not None
    return (deadline - job.now).total_seconds()


@pytest.mark.parametrize("is_loaded", [False, True])
def test_a_newer_lease_has_its_whole_time_although_the_end_of_the_one_before_was_not_heard(is_loaded: bool) -> None:
    job = one(ONCE, timeout_seconds=12)
    for lease_epoch in (1, 2, 3):
        job.start_task("only", lease_epoch)
        assert seconds_left(job) == 12 + TIMEOUT_GRACE_SECONDS
        assert job.start_task("only", lease_epoch) == [], "heard twice"
        job.wait(20)
        if is_loaded:
            job.reload()
    assert job.due("only", Timer.DEADLINE) == []
    job.wait(2)
    job.due("only", Timer.DEADLINE)
    assert job.state == "failed"


def test_the_end_of_a_lease_that_is_heard_of_late_does_not_stop_the_clock_of_its_successor() -> None:
    job = one(ONCE, timeout_seconds=12)
    job.start_task("only", 1)
    job.start_task("only", 3)
    assert job.apply(snoozed(job, 1)) == []
    assert job.rows["only"].status == "running"
    job.apply(snoozed(job, 3))
    assert (job.rows["only"].status, job.rows["only"].deadline_at) == ("dispatched", None)
    assert job.start_task("only", 3) == [], "it is over"
    job.start_task("only", 4)
    assert seconds_left(job) == 12 + TIMEOUT_GRACE_SECONDS


def test_the_leases_of_an_attempt_say_nothing_of_the_next_one() -> None:
    job = one(AT_ONCE, timeout_seconds=12)
    job.start_task("only", 7)
    job.fail("only")
    job.start_task("only", 1)
    assert job.rows["only"].status == "running"


def test_a_snoozed_task_keeps_its_attempt() -> None:
    job = one(RetryRule(max_attempts=1))
    task_id = job.queued["only"].task_id
    job.start_task("only")
    job.apply(TaskSnoozed("only", 1, task_id, 1, 30))
    assert (job.rows["only"].status, job.rows["only"].attempt) == ("dispatched", 1)
    job.succeed("only")
    assert job.state == "completed"


def test_the_audit_trail_says_why_a_task_was_given_back() -> None:
    job = one()
    job.start_task("only")
    effects = job.apply(TaskSnoozed("only", 1, job.queued["only"].task_id, 1, 0.0, "worker_stopping"))
    assert [effect.data["reason"] for effect in effects if isinstance(effect, EventAppended)] == ["worker_stopping"]


def test_a_checkpoint_goes_to_the_row_and_the_audit_trail() -> None:
    job = one()
    task_id = job.queued["only"].task_id
    effects = job.apply(TaskCheckpointed("only", 1, task_id, 1, "download", {"bytes": 5}))
    assert "node_checkpoint" in job.event_types("only")
    assert effects
    assert job.apply(TaskCheckpointed("only", 2, task_id, 1, "download", {})) == []


def test_records_are_published_with_the_completion() -> None:
    job = one()
    effects = job.succeed("only", {}, records=({"kind": "blob"},))
    assert [effect.records for effect in effects if isinstance(effect, RecordsPublished)] == [({"kind": "blob"},)]


def test_a_retry_by_hand_skips_the_wait() -> None:
    job = one()
    job.fail("only")
    job.apply(RetryNode("only", "ann"))
    assert job.answers()[-1].applied
    assert job.queued["only"].attempt == 2
    job.apply(RetryNode("only", "ann"))
    assert not job.answers()[-1].applied
    job.apply(RetryNode("nobody", "ann"))
    assert "nobody" in job.answers()[-1].reason


def test_parameters_that_cannot_be_resolved_fail_at_once() -> None:
    job = Job(workflow(first=task("second"), second=task(params={"x": "{{ nodes.first.output.y }}"}, retry=AT_ONCE)))
    job.begin().succeed("first", {"x": 1})
    assert job.state == "failed"
    assert "'y'" in (job.rows["second"].error_message or "")


def test_a_large_output_is_a_reference_with_excerpts() -> None:
    job = Job(
        workflow(
            first=task("second"),
            second=task(params={"whole": "{{ nodes.first.output }}", "part": "{{ nodes.first.output.a.b }}"}),
        )
    ).begin()
    assert sorted(job.plan.read_paths("first")) == [(), ("a", "b")]
    queued = job.queued.pop("first")
    reference = Reference("f" * 64, 100_000)
    output = Output(reference=reference, excerpts={("a", "b"): 42})
    job.apply(TaskReported("first", 1, queued.task_id, 1, True, output))
    assert job.queued["second"].params == {"whole": reference.as_json(), "part": 42}


def test_looking_into_what_is_too_large_is_a_clear_failure() -> None:
    job = Job(workflow(first=task("second"), second=task(params={"part": "{{ nodes.first.output.a }}"}))).begin()
    queued = job.queued.pop("first")
    job.apply(TaskReported("first", 1, queued.task_id, 1, True, Output(reference=Reference("f" * 64, 5_000_000))))
    assert job.state == "failed"
    assert "too large" in (job.rows["second"].error_message or "")


def test_the_window_holds_back_and_refills() -> None:
    job = Job(workflow(**{f"t{number}": task() for number in range(5)}))  # type: ignore[arg-type]
    job.apply(SetWindow("light", 2))
    job.begin()
    assert list(job.queued) == ["t0", "t1"]
    assert job.rows["t4"].status == "ready"
    job.start_task("t0")
    assert list(job.queued) == ["t0", "t1", "t2"], "a claimed task makes room"
    job.succeed("t1")
    assert list(job.queued) == ["t0", "t2", "t3"]
    job.apply(SetWindow("light", 10))
    assert len(job.queued) == 4
    job.finish()
    assert job.state == "completed"


def test_a_handler_without_any_queue_is_refused_by_name() -> None:
    definition = workflow(only=TaskNode(task=TaskSpec(handler="echo")))
    with pytest.raises(PlanError, match=r"'only'.*'echo'"):
        Plan(definition)
    assert Plan(definition, {"echo": "light"}).nodes[0].task is not None


@given(
    st.builds(
        RetryRule,
        backoff=st.sampled_from(["none", "linear", "exponential"]),
        initial_delay_seconds=st.floats(0, 86_400),
        max_delay_seconds=st.floats(0, 86_400),
        jitter=st.floats(0, 1),
    ),
    st.integers(1, 250),
    st.floats(0, 1, exclude_max=True),
)
def test_delays_stay_within_their_bounds(rule: RetryRule, failures: int, jitter: float) -> None:
    delay = retry_delay_seconds(rule, failures, jitter)
    assert 0 <= delay <= rule.max_delay_seconds
    calm = retry_delay_seconds(rule.model_copy(update={"jitter": 0.0}), failures, jitter)
    assert abs(delay - calm) <= calm * rule.jitter + 1e-6
    later = retry_delay_seconds(rule.model_copy(update={"jitter": 0.0}), failures + 1, jitter)
    assert later >= calm


def test_the_default_rule_waits_5_10_20_seconds() -> None:
    rule = RetryRule(jitter=0)
    assert [retry_delay_seconds(rule, failures, 0.9) for failures in (1, 2, 3, 7)] == [5, 10, 20, 300]
