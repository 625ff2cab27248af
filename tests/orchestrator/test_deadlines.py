"""When a deadline fires, and when it must not: results that wait, leases that were given back, outages."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from time import monotonic

import pytest

from rmhdag.engine.tasks import TIMEOUT_GRACE_SECONDS
from rmhdag.models.jobs import CommandKind
from rmhdag.models.leases import ClaimedTask
from rmhdag.orchestrator.duties import claim_submissions, dead_workers, timers
from rmhdag.orchestrator.trust import Trust
from rmhdag.store import inbox, processes, settle, tasks
from rmhdag.store.commands import Command, issue_command
from rmhdag.workflow.definition import ApprovalNode, RetryRule, WorkflowDefinition, WorkflowNode
from tests.engine.definitions import fan, task, workflow
from tests.orchestrator.platform import Platform, Seat

SECONDS = 12
AT_LEISURE = RetryRule(max_attempts=2, initial_delay_seconds=600)


def start(platform: Platform, *claimed: ClaimedTask) -> None:
    tasks.start_tasks(platform.conn, platform.worker_id, [(one.task_id, one.lease_epoch) for one in claimed])


def give_back(platform: Platform, claimed: ClaimedTask) -> None:
    tasks.release_tasks(platform.conn, platform.worker_id, [(claimed.task_id, claimed.lease_epoch, 0.0)])


def let_time_pass(platform: Platform, minutes: int = 120) -> None:
    """Everything that runs or waits began that much earlier."""
    for table, column in (
        ("dag_node_states", "deadline_at"),
        ("dag_queue_messages", "started_at"),
    ):
        change = f"UPDATE {table} SET {column} = {column} - {minutes} * interval '1 minute'"
        platform.conn.execute(change.encode())
    for seat in platform.seats:
        seat.advance.owned.clear()


def running(platform: Platform, definition: WorkflowDefinition) -> tuple[str, Seat, ClaimedTask]:
    """A job with one task, which its owner knows to run."""
    job_id = platform.submit(definition)
    seat = platform.seat()
    seat.work()
    (claimed,) = platform.claim()
    start(platform, claimed)
    seat.work()
    return job_id, seat, claimed


def deadline(platform: Platform, job_id: str) -> datetime:
    query = "SELECT deadline_at FROM dag_node_states WHERE job_id = %s AND deadline_at IS NOT NULL"
    row = platform.conn.execute(query, [job_id]).fetchone()
    assert row is not None
    at: datetime = row[0]
    return at


def test_results_that_were_recorded_in_time_outlive_the_absence_of_all_orchestrators(platform: Platform) -> None:
    """Far more than are read ahead: whether a result is waiting is a question to the rows."""
    jobs = [platform.submit(fan("collect"), {"items": list(range(1_000))}) for _ in range(4)]
    seat = platform.seat()
    seat.work()
    claimed = platform.claim(4_000)
    assert len(claimed) == 4_000
    start(platform, *claimed)
    seat.work()
    assert platform.succeed(*reversed(claimed)) == {one.task_id for one in claimed}
    let_time_pass(platform)
    platform.finish(seat)
    assert [platform.job(job_id)["status"] for job_id in jobs] == ["completed"] * 4
    assert platform.conn.execute("SELECT status::text, count(*) FROM dag_task_results GROUP BY 1").fetchall() == [
        ("completed", 4_004)
    ]


def test_a_task_that_nobody_reports_is_timed_out(platform: Platform) -> None:
    job_id, seat, claimed = running(platform, workflow(only=task()))
    seat.work()
    assert platform.job(job_id)["status"] == "running"
    let_time_pass(platform)
    seat.work()
    assert "ran longer than its 3600 s" in platform.job(job_id)["error_message"]
    assert platform.succeed(claimed) == set()


def test_a_task_that_nobody_starts_in_time_fails(platform: Platform) -> None:
    job_id = platform.submit(workflow(only=task(start_timeout_seconds=30)))
    seat = platform.seat()
    seat.work()
    let_time_pass(platform)
    seat.work()
    assert "no worker started it within 30 s" in platform.job(job_id)["error_message"]


def test_a_start_that_was_not_heard_of_yet_is_no_missing_start(platform: Platform) -> None:
    platform.submit(workflow(only=task(start_timeout_seconds=30)))
    seat = platform.seat()
    seat.work()
    start(platform, *platform.claim())
    let_time_pass(platform)
    assert timers.run_once(seat.context) == 0


def test_a_lost_lease_is_not_timed_out_but_queued_again(platform: Platform) -> None:
    job_id, seat, _ = running(platform, workflow(only=task()))
    processes.remove_workers(platform.conn, [platform.worker_id])
    dead_workers.run_once(seat.context)
    let_time_pass(platform)
    assert timers.run_once(seat.context) == 0
    platform.finish(seat)
    assert platform.job(job_id)["status"] == "completed"


@pytest.mark.parametrize("undisturbed", [True, False])
def test_deadlines_wait_until_workers_had_time_to_report_after_an_outage(platform: Platform, undisturbed: bool) -> None:
    """Retries do not wait. The trust of an orchestrator breaks when its heartbeat is late, as after an outage."""
    _, seat, _ = running(platform, workflow(only=task()))
    platform.submit(workflow(only=task(retry=AT_LEISURE)).model_copy(update={"workflow_id": "patient"}))
    seat.work()
    platform.fail(*platform.claim())
    seat.work()
    let_time_pass(platform)
    platform.conn.execute("UPDATE dag_node_states SET next_attempt_at = '2000-01-01' WHERE next_attempt_at IS NOT NULL")
    patience = TIMEOUT_GRACE_SECONDS + seat.settings.ttl_seconds
    seat.context.trust = Trust(seat.settings.ttl_seconds, seat.settings.margin_seconds)
    seat.context.trust.renew(monotonic() - patience + (0.0 if undisturbed else 5.0))
    assert timers.run_once(seat.context) == (2 if undisturbed else 1)


def test_deadlines_wait_after_a_broken_connection_too(platform: Platform) -> None:
    """It need not have lasted so long that the heartbeat was late."""
    _, seat, _ = running(platform, workflow(only=task()))
    let_time_pass(platform)
    seat.context.connected_at = monotonic()
    assert timers.run_once(seat.context) == 0
    seat.context.connected_at -= TIMEOUT_GRACE_SECONDS + seat.settings.ttl_seconds
    assert timers.run_once(seat.context) == 1


def test_a_decision_that_waits_makes_the_deadline_of_its_approval_void(platform: Platform) -> None:
    job_id = platform.submit(workflow(ask=ApprovalNode(timeout_seconds=30)))
    seat = platform.seat()
    seat.work()
    decision = {"node_id": "ask", "approved": True}
    issue_command(
        platform.conn,
        Command(
            command_id="c1",
            namespace="default",
            job_id=job_id,
            kind=CommandKind.DECIDE,
            issued_by="ann",
            body=decision,
        ),
    )
    let_time_pass(platform)
    assert timers.run_once(seat.context) == 0
    seat.work()
    assert platform.job(job_id)["status"] == "completed"


def test_an_approval_that_nobody_gives_fails(platform: Platform) -> None:
    job_id = platform.submit(workflow(ask=ApprovalNode(timeout_seconds=30)))
    seat = platform.seat()
    seat.work()
    let_time_pass(platform)
    seat.work()
    assert "waited longer than its 30 s" in platform.job(job_id)["error_message"]


@pytest.mark.parametrize("ends", [True, False])
def test_a_child_job_that_has_ended_makes_the_deadline_of_its_parent_void(platform: Platform, ends: bool) -> None:
    child = workflow(only=task()).model_copy(update={"workflow_id": "child"})
    platform.register(child)
    job_id = platform.submit(workflow(run=WorkflowNode(workflow="child", timeout_seconds=30)))
    parents, children = platform.seat(), platform.seat()
    claim_submissions.run_once(parents.context)
    parents.advance.run_once()
    children.work()
    claimed = platform.claim()
    if ends:
        platform.succeed(*claimed)
        children.work()
    let_time_pass(platform)
    assert timers.run_once(parents.context) == (0 if ends else 1)
    parents.work()
    assert platform.job(job_id)["status"] == ("completed" if ends else "failed")


def test_a_task_that_is_given_back_and_claimed_at_once_has_its_whole_time_again(platform: Platform) -> None:
    """Three leases, each heard of only when the next one runs: a rolling deployment of the workers."""
    job_id, seat, claimed = running(platform, workflow(only=task(timeout_seconds=SECONDS)))
    for lease_epoch in (2, 3):
        before = deadline(platform, job_id)
        give_back(platform, claimed)
        (claimed,) = platform.claim()
        assert claimed.lease_epoch == lease_epoch
        start(platform, claimed)
        seat.work()
        assert deadline(platform, job_id) > before
    platform.finish(seat)
    assert platform.succeed(claimed) == {claimed.task_id}
    seat.work()
    assert platform.job(job_id)["status"] == "completed"


@pytest.mark.parametrize("is_started", [True, False])
def test_the_deadline_of_a_lease_that_was_given_back_is_void(platform: Platform, is_started: bool) -> None:
    """Before the owner has heard of its end, and when its successor has not begun yet."""
    job_id, seat, claimed = running(platform, workflow(only=task(timeout_seconds=SECONDS)))
    let_time_pass(platform)
    give_back(platform, claimed)
    (again,) = platform.claim()
    if is_started:
        start(platform, again)
    assert timers.run_once(seat.context) == 0
    seat.work()
    let_time_pass(platform, 0)
    seat.work()
    assert platform.nodes(job_id) == {"only": "running" if is_started else "dispatched"}
    assert platform.succeed(again) == {again.task_id}
    seat.work()
    assert platform.job(job_id)["status"] == "completed"


def test_the_end_of_a_lease_that_is_heard_of_after_its_successor_began_changes_nothing(platform: Platform) -> None:
    """A row that went astray while its job changed hands; the aggregate was loaded since and knows no lease."""
    job_id, seat, claimed = running(platform, workflow(only=task(timeout_seconds=SECONDS)))
    give_back(platform, claimed)
    platform.conn.execute("UPDATE dag_inbox SET owner_id = 'gone'")
    (again,) = platform.claim()
    start(platform, again)
    while seat.advance.run_once(whole_inbox=True):
        pass
    seat.advance.owned.clear()
    before = deadline(platform, job_id)
    seat.work()
    assert platform.count("dag_inbox") == 0
    assert platform.nodes(job_id) == {"only": "running"}
    assert deadline(platform, job_id) == before


GUARDS: list[tuple[str, str, Callable[..., None], dict[str, bool]]] = [
    (
        "WHEN q.task_id IS NULL THEN (",
        "WHEN q.task_id IS NULL THEN true OR (",
        test_results_that_were_recorded_in_time_outlive_the_absence_of_all_orchestrators,
        {},
    ),
    ("WHEN starts_with(q.worker_id, 'lost:') THEN false", "", test_a_lost_lease_is_not_timed_out_but_queued_again, {}),
    (
        "q.started_at + q.timeout_seconds * interval '1 second' <= statement_timestamp()",
        "true",
        test_the_deadline_of_a_lease_that_was_given_back_is_void,
        {"is_started": True},
    ),
    ("ELSE q.started_at IS NULL", "ELSE true", test_a_start_that_was_not_heard_of_yet_is_no_missing_start, {}),
    (
        "SELECT c.completed_at IS NULL",
        "SELECT true",
        test_a_child_job_that_has_ended_makes_the_deadline_of_its_parent_void,
        {"ends": True},
    ),
    (
        "NOT EXISTS (SELECT FROM dag_job_commands",
        "true OR NOT EXISTS (SELECT FROM dag_job_commands",
        test_a_decision_that_waits_makes_the_deadline_of_its_approval_void,
        {},
    ),
    (
        "%(deadlines)s AND",
        "(%(deadlines)s OR true) AND",
        test_deadlines_wait_until_workers_had_time_to_report_after_an_outage,
        {"undisturbed": False},
    ),
]


@pytest.mark.parametrize(("guard", "instead", "story", "given"), GUARDS, ids=[guard for guard, *_ in GUARDS])
def test_without_the_guard_a_deadline_fires(
    platform: Platform,
    monkeypatch: pytest.MonkeyPatch,
    guard: str,
    instead: str,
    story: Callable[..., None],
    given: dict[str, bool],
) -> None:
    query = inbox.SQL["due_timers"]
    assert guard.encode() in query
    monkeypatch.setitem(inbox.SQL, "due_timers", query.replace(guard.encode(), instead.encode()))
    # The transaction looks again; so that this guard stands alone, it finds nothing.
    monkeypatch.setitem(settle.SQL, "reported_tasks", settle.SQL["reported_tasks"] + b" AND false")
    with pytest.raises(AssertionError):
        story(platform, **given)
