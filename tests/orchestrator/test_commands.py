"""What people ask of jobs, on real PostgreSQL: cancel, retry, decide, and reruns that reuse what is finished."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from rmhdag.models.events import ErrorKind
from rmhdag.models.jobs import CommandOutcome
from rmhdag.services import commands
from rmhdag.services.reruns import (
    JobNotFinishedError,
    NothingToRerunError,
    UnknownJobError,
    UnknownNodeError,
    plan_rerun_of,
    rerun_job,
)
from rmhdag.services.submissions import OtherSubmissionError, Submitted
from rmhdag.store.commands import read_answer
from rmhdag.views.timeline import read_events
from rmhdag.workflow import InvalidInputs
from rmhdag.workflow.definition import (
    ApprovalNode,
    InputDefinition,
    RetryRule,
    TaskNode,
    TaskSpec,
    WorkflowDefinition,
)
from tests.engine.definitions import fan, task, workflow
from tests.orchestrator.platform import Platform, Seat


def answer_of(platform: Platform, seat: Seat, given: commands.CommandAnswer) -> tuple[str, str]:
    """Let the owner take its turn, then read what it answered."""
    assert given.outcome is None
    seat.work()
    answer = read_answer(platform.conn, given.command_id)
    assert answer is not None
    return str(answer.outcome), str(answer.reason)


def rerun(platform: Platform, job_id: str, **how: Any) -> str:
    return rerun_job(platform.conn, plan_rerun_of(platform.conn, job_id, **how), issued_by="bob").job_id


def chain() -> WorkflowDefinition:
    """`second` reads what `first` made, `aside` reads a parameter."""
    made = workflow(
        first=task("second"),
        second=task("third", params={"x": "{{ nodes.first.output.x }}"}),
        third=task(),
        aside=task(params={"size": "{{ inputs.size }}"}),
    )
    return made.model_copy(update={"inputs": {"size": InputDefinition(type="integer", default=1)}})


def fail_second(platform: Platform, seat: Seat) -> str:
    """A job whose `second` fails after `first` and `aside` have completed."""
    job_id = platform.submit(chain())
    seat.work()
    platform.succeed(*platform.claim(), output={"x": 7})
    seat.work()
    platform.fail(*platform.claim(), kind=ErrorKind.NON_RETRYABLE)
    seat.work()
    assert platform.job(job_id)["status"] == "failed"
    return job_id


# -- commands ----------------------------------------------------------------------------------------------------------


def test_cancel_ends_a_job_once(platform: Platform) -> None:
    seat = platform.seat()
    job_id = platform.submit(chain())
    seat.work()
    asked = commands.cancel_job(platform.conn, job_id, issued_by="bob", reason="enough", answer_seconds=0)
    assert answer_of(platform, seat, asked) == ("applied", "the job is being cancelled")
    job = platform.job(job_id)
    assert (job["status"], job["error_message"]) == ("cancelled", "cancelled by bob: enough")
    assert platform.count("dag_queue_messages") == 0
    again = commands.cancel_job(platform.conn, job_id, issued_by="bob")
    assert (again.outcome, again.reason) == (CommandOutcome.APPLIED, "the job is already cancelled")
    assert platform.count("dag_inbox") == 0
    assert platform.count("dag_job_commands") == 1


def test_a_cancel_is_applied_whoever_cancelled_the_job_first(platform: Platform) -> None:
    """All are asked before the owner reads its inbox: the job ends with the first, and the others have their wish."""
    seat = platform.seat()
    job_id = platform.submit(chain())
    asked = [
        commands.cancel_job(platform.conn, job_id, issued_by=name, answer_seconds=0) for name in ("bob", "eve", "joe")
    ]
    seat.work()
    assert platform.job(job_id)["status"] == "cancelled"
    for one in asked:
        answer = commands.read_as_answer(read_answer(platform.conn, one.command_id), one.command_id)
        assert answer.outcome is CommandOutcome.APPLIED, answer


def test_only_a_cancel_is_satisfied_by_a_cancelled_job(platform: Platform) -> None:
    seat = platform.seat()
    job_id = platform.submit(chain())
    seat.work()
    commands.cancel_job(platform.conn, job_id, issued_by="bob", answer_seconds=0)
    asked = commands.retry_node(platform.conn, job_id, "first", issued_by="bob", answer_seconds=0)
    assert answer_of(platform, seat, asked)[0] == "refused"
    late = commands.retry_node(platform.conn, job_id, "first", issued_by="bob")
    assert (late.outcome, late.reason) == (CommandOutcome.REFUSED, "the job is already cancelled")


def test_a_job_that_nobody_owns_yet_never_starts_when_cancelled(platform: Platform) -> None:
    job_id = platform.submit(chain())
    asked = commands.cancel_job(platform.conn, job_id, issued_by="bob", answer_seconds=0)
    assert answer_of(platform, platform.seat(), asked)[0] == "applied"
    assert platform.job(job_id)["status"] == "cancelled"
    assert platform.nodes(job_id) == {}


def test_a_command_follows_the_job_to_its_next_owner(platform: Platform) -> None:
    """Asked while the first owner held the job; it hands over before it reads its inbox."""
    from rmhdag.store import jobs

    first, second = platform.seat(), platform.seat()
    job_id = platform.submit(chain())
    first.work()
    asked = commands.cancel_job(platform.conn, job_id, issued_by="bob", answer_seconds=0)
    jobs.release_jobs(first.conn, first.me)
    assert answer_of(platform, second, asked)[0] == "applied"
    assert platform.job(job_id)["status"] == "cancelled"


def test_a_command_that_came_too_late_is_refused(platform: Platform) -> None:
    seat = platform.seat()
    job_id = platform.submit(workflow(only=task()))
    seat.work()
    platform.succeed(*platform.claim())
    asked = commands.cancel_job(platform.conn, job_id, issued_by="bob", answer_seconds=0)
    seat.work()
    assert platform.job(job_id)["status"] == "completed"
    answer = read_answer(platform.conn, asked.command_id)
    assert answer is not None
    assert answer.job_has_ended
    assert answer.outcome is not CommandOutcome.APPLIED


def test_a_waiting_retry_is_tried_at_once(platform: Platform) -> None:
    seat = platform.seat()
    patient = RetryRule(max_attempts=3, initial_delay_seconds=3600)
    job_id = platform.submit(workflow(only=task(retry=patient)))
    seat.work()
    platform.fail(*platform.claim())
    seat.work()
    assert platform.claim() == []
    asked = commands.retry_node(platform.conn, job_id, "only", issued_by="bob", answer_seconds=0)
    assert answer_of(platform, seat, asked) == ("applied", "only is tried again, attempt 2")
    platform.finish(seat)
    assert platform.job(job_id)["status"] == "completed"


def test_a_node_that_does_not_wait_is_not_retried(platform: Platform) -> None:
    seat = platform.seat()
    job_id = platform.submit(workflow(only=task()))
    seat.work()
    for node_id, why in (("only", "not waiting for a retry"), ("nix", "has no node")):
        asked = commands.retry_node(platform.conn, job_id, node_id, issued_by="bob", answer_seconds=0)
        outcome, reason = answer_of(platform, seat, asked)
        assert outcome == "refused"
        assert why in reason


def test_only_one_decision_counts(platform: Platform) -> None:
    seat = platform.seat()
    job_id = platform.submit(workflow(release=ApprovalNode(next=("last",)), last=task()))
    seat.work()
    for approved, expected in ((True, "applied"), (False, "refused")):
        asked = commands.decide(platform.conn, job_id, "release", approved=approved, issued_by="bob", answer_seconds=0)
        assert answer_of(platform, seat, asked)[0] == expected
    platform.finish(seat)
    assert platform.job(job_id)["status"] == "completed"


def test_unknown_jobs_and_unfit_commands_are_refused_at_the_edge(platform: Platform) -> None:
    with pytest.raises(UnknownJobError, match="there is no job 'nix'"):
        commands.cancel_job(platform.conn, "nix", issued_by="bob")
    job_id = platform.submit(chain())
    with pytest.raises(UnknownJobError):
        commands.cancel_job(platform.conn, job_id, issued_by="bob", namespace="another")
    for reason in ("a\x00b", "x" * 9_000):
        with pytest.raises(ValidationError):
            commands.cancel_job(platform.conn, job_id, issued_by="bob", reason=reason)
    assert platform.count("dag_job_commands") == 0


def test_whoever_asks_waits_a_moment_for_the_answer(platform: Platform) -> None:
    job_id = platform.submit(chain())
    platform.seat().work()
    asked = commands.cancel_job(platform.conn, job_id, issued_by="bob", answer_seconds=0.05)
    assert asked.outcome is None
    assert "accepted" in asked.reason


# -- reruns ------------------------------------------------------------------------------------------------------------


def test_a_rerun_reuses_what_is_finished(platform: Platform) -> None:
    seat = platform.seat()
    old = fail_second(platform, seat)
    planned = plan_rerun_of(platform.conn, old)
    assert set(planned.scope.again) == {"second", "third"}
    new = rerun_job(platform.conn, planned, issued_by="bob").job_id
    seat.work()
    (task_of_second,) = platform.claim()
    assert task_of_second.node_id == "second"
    assert task_of_second.params == {"x": 7}
    platform.succeed(task_of_second, output={"y": 1})
    platform.finish(seat, {"y": 2})
    assert platform.job(new)["status"] == "completed"
    reused = platform.conn.execute(
        "SELECT node_id FROM dag_node_states WHERE job_id = %s AND reused_task_id IS NOT NULL ORDER BY 1", [new]
    ).fetchall()
    assert reused == [("aside",), ("first",)]
    # The old job is as it was, but for the note that it was rerun.
    assert platform.job(old)["status"] == "failed"
    assert platform.events(old)[-2:] == ["job_failed", "job_rerun"]
    row = platform.conn.execute("SELECT rerun_of, root_job_id FROM dag_jobs WHERE job_id = %s", [new]).fetchone()
    assert row == (old, old)


def test_changed_parameters_run_what_reads_them(platform: Platform) -> None:
    seat = platform.seat()
    old = fail_second(platform, seat)
    assert set(plan_rerun_of(platform.conn, old, changed_params={"size": 2}).scope.reused) == {"first"}
    with pytest.raises(InvalidInputs):
        plan_rerun_of(platform.conn, old, changed_params={"size": "large"})
    with pytest.raises(UnknownNodeError):
        plan_rerun_of(platform.conn, old, from_nodes=["nix"])
    new = rerun(platform, old, changed_params={"size": 2})
    seat.work()
    params = {claimed.node_id: claimed.params for claimed in platform.claim()}
    assert params == {"second": {"x": 7}, "aside": {"size": 2}}
    assert platform.job(new)["status"] == "running"


def test_a_completed_job_is_rerun_only_on_request(platform: Platform) -> None:
    seat = platform.seat()
    old = platform.submit(chain())
    with pytest.raises(JobNotFinishedError):
        rerun(platform, old)
    platform.finish(seat, {"x": 1})
    with pytest.raises(NothingToRerunError):
        rerun(platform, old)
    new = rerun(platform, old, from_nodes=["third"])
    seat.work()
    assert [claimed.node_id for claimed in platform.claim()] == ["third"]
    assert platform.job(new)["status"] == "running"
    whole = rerun(platform, old, everything=True)
    seat.work()
    assert {claimed.node_id for claimed in platform.claim()} == {"first", "aside"}
    assert platform.job(whole)["status"] == "running"


def test_the_same_key_reruns_once(platform: Platform) -> None:
    old = fail_second(platform, platform.seat())
    planned = plan_rerun_of(platform.conn, old)
    made = [rerun_job(platform.conn, planned, issued_by="bob", idempotency_key="k") for _ in range(2)]
    assert (made[0].is_repeat, made[1]) == (False, Submitted(made[0].job_id, True))
    assert platform.events(old).count("job_rerun") == 1
    other = plan_rerun_of(platform.conn, old, changed_params={"size": 9})
    with pytest.raises(OtherSubmissionError):
        rerun_job(platform.conn, other, issued_by="bob", idempotency_key="k")


def fail_three_children(platform: Platform, seat: Seat, items: int) -> str:
    definition = fan("sum", field="n")
    old = platform.submit(definition, {"items": list(range(items))})
    seat.work()
    while claimed := platform.claim(1_000):
        bad = [one for one in claimed if one.node_id in ("split__0", "split__5", "split__7")]
        platform.fail(*bad, kind=ErrorKind.NON_RETRYABLE)
        platform.succeed(*(one for one in claimed if one not in bad), output={"n": 1})
        seat.work()
    assert platform.job(old)["status"] == "failed"
    return old


def test_children_that_finished_stay_finished_through_reruns(platform: Platform) -> None:
    seat = platform.seat()
    old = fail_three_children(platform, seat, 10)
    second = rerun(platform, old)
    seat.work()
    claimed = platform.claim()
    assert {one.node_id for one in claimed} == {"split__0", "split__5", "split__7"}
    platform.succeed(*claimed, output={"n": 100})
    platform.finish(seat)
    assert platform.job(second)["status"] == "completed"
    # The fan-in alone, again: the children of both jobs before are still there.
    third = rerun(platform, second, from_nodes=["join"])
    platform.finish(seat)
    assert platform.job(third)["status"] == "completed"
    query = "SELECT output FROM dag_node_states WHERE job_id = %s AND node_id = 'join'"
    assert platform.conn.execute(query, [third]).fetchone() == ({"total": 307, "count": 10},)
    dispatched = read_events(platform.conn, third, event_types=["node_dispatched"])
    assert [event["node_id"] for event in dispatched] == ["after"]


def test_an_expansion_goes_on_with_reused_children_under_another_owner(platform: Platform) -> None:
    from rmhdag.store import jobs

    first, second = platform.seat(), platform.seat()
    old = fail_three_children(platform, first, 1_500)
    new = rerun(platform, old)
    # The first owner starts the job and expands one chunk of two, then leaves.
    first.advance.take_over([job.job_id for job in jobs.claim_unowned_jobs(first.conn, first.me, 10)])
    while len(platform.nodes(new)) < 1_000:
        assert first.advance.run_once(whole_inbox=True)
    assert len(platform.nodes(new)) < 1_500
    jobs.release_jobs(first.conn, first.me)
    second.work()
    claimed = platform.claim(1_000)
    assert {one.node_id for one in claimed} == {"split__0", "split__5", "split__7"}
    platform.succeed(*claimed, output={"n": 1})
    platform.finish(second)
    assert platform.job(new)["status"] == "completed"


def test_a_job_that_makes_no_aggregate_fails_alone(platform: Platform) -> None:
    """Its handler names no queue, which the orchestrator finds out when it compiles the definition."""
    seat = platform.seat()
    unplannable = workflow(only=TaskNode(task=TaskSpec(handler="nobody.has.it")))
    bad = platform.submit(unplannable.model_copy(update={"workflow_id": "unplannable"}))
    good = platform.submit(workflow(only=task()))
    platform.finish(seat)
    assert platform.job(good)["status"] == "completed"
    job = platform.job(bad)
    assert job["status"] == "failed"
    assert "no queue for node 'only'" in job["error_message"]
