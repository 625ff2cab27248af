"""Each duty by its `run_once`: what it finds, what it does, what it leaves alone."""

from __future__ import annotations

from time import monotonic

import pytest

from rmhdag.orchestrator.context import OrchestratorSettings
from rmhdag.orchestrator.duties import (
    backpressure,
    balance,
    claim_submissions,
    delayed_tasks,
    processed_results,
    silent_jobs,
    strays,
    stuck_dispatch,
)
from rmhdag.store import tasks
from rmhdag.workflow.definition import ApprovalNode, RetryRule
from tests.engine.definitions import AT_ONCE, fan, task, workflow
from tests.orchestrator.platform import Platform


def age(platform: Platform, seconds: int) -> None:
    """Let everything in the database have happened that much earlier."""
    for table in ("dag_jobs", "dag_node_states"):
        platform.conn.execute(f"UPDATE {table} SET updated_at = updated_at - {seconds} * interval '1 second'".encode())


def test_a_dispatch_without_its_row_is_retried(platform: Platform) -> None:
    job_id = platform.submit(workflow(only=task(retry=AT_ONCE)))
    seat = platform.seat()
    seat.work()
    platform.conn.execute("DELETE FROM dag_queue_messages")
    assert stuck_dispatch.run_once(seat.context) == 0, "too early to tell"
    age(platform, 60)
    assert stuck_dispatch.run_once(seat.context) == 1
    seat.work()
    (claimed,) = platform.claim()
    assert claimed.attempt == 2
    platform.finish(seat)
    assert platform.job(job_id)["status"] == "running", "the claimed task is still out"
    platform.succeed(claimed)
    seat.work()
    assert platform.job(job_id)["status"] == "completed"


def test_an_old_row_is_not_a_stuck_dispatch(platform: Platform) -> None:
    platform.submit(workflow(only=task()))
    seat = platform.seat()
    seat.work()
    age(platform, 100_000)
    assert stuck_dispatch.run_once(seat.context) == 0


def stalls(platform: Platform) -> list[str]:
    """What the warnings say that jobs wait for."""
    query = "SELECT event_data->>'waits_for' FROM dag_orchestrator_events WHERE event_type = 'orchestrator_stall'"
    return [row[0] for row in platform.conn.execute(query)]


def test_a_job_in_which_nothing_can_move_is_reported_once_and_ends_after_days(platform: Platform) -> None:
    job_id = platform.submit(workflow(only=task()))
    seat = platform.seat(OrchestratorSettings(stuck_seconds=86_400))
    seat.work()
    platform.claim()
    assert silent_jobs.run_once(seat.context) == 0
    age(platform, 400)
    assert silent_jobs.run_once(seat.context) == 1
    assert silent_jobs.run_once(seat.context) == 1
    assert stalls(platform) == ["nothing"]
    age(platform, 90_000)
    silent_jobs.run_once(seat.context)
    job = platform.job(job_id)
    assert job["status"] == "failed"
    assert "25 hours" in job["error_message"]
    assert "RMHDAG_STUCK_JOB_DAYS" in job["error_message"]
    assert platform.count("dag_queue_messages") == 0


@pytest.mark.parametrize(
    ("waiting", "reason"),
    [
        ("for a worker", "a worker for node only in queue light"),
        ("for its time", "node only to be called again at"),
        ("for its retry", "the retry of node only at"),
        ("for its end", "which runs node only"),
    ],
)
def test_a_job_that_waits_is_reported_and_never_ended(platform: Platform, waiting: str, reason: str) -> None:
    """A queue without workers over a weekend, a handler that asks for two days, a long task."""
    patient = RetryRule(max_attempts=2, initial_delay_seconds=80_000, max_delay_seconds=80_000)
    job_id = platform.submit(workflow(only=task(retry=patient, timeout_seconds=86_400)))
    seat = platform.seat()
    seat.work()
    if waiting != "for a worker":
        (claimed,) = platform.claim()
        lease = (claimed.task_id, claimed.lease_epoch)
        if waiting == "for its time":
            tasks.release_tasks(platform.conn, platform.worker_id, [(*lease, 172_800.0)])
        elif waiting == "for its retry":
            platform.fail(claimed)
        else:
            tasks.start_tasks(platform.conn, platform.worker_id, [lease])
        seat.work()
    # A year, which is more than any default.
    age(platform, 31_536_000)
    assert silent_jobs.run_once(seat.context) == 1
    assert silent_jobs.run_once(seat.context) == 1
    (told,) = stalls(platform)
    assert reason in told
    assert platform.job(job_id)["status"] == "running"


def test_a_job_may_wait_for_a_worker_for_as_long_as_the_settings_say(platform: Platform) -> None:
    job_id = platform.submit(workflow(only=task()))
    seat = platform.seat(OrchestratorSettings(worker_wait_seconds=3 * 86_400))
    seat.work()
    age(platform, 2 * 86_400)
    silent_jobs.run_once(seat.context)
    assert platform.job(job_id)["status"] == "running"
    age(platform, 2 * 86_400)
    silent_jobs.run_once(seat.context)
    job = platform.job(job_id)
    assert job["status"] == "failed"
    assert "a worker for node only in queue light for 96 hours (RMHDAG_WORKER_WAIT_DAYS)" in job["error_message"]


def test_a_task_that_was_put_off_does_not_meet_that_clock(platform: Platform) -> None:
    """A handler may put its task off for a week, while another node waits for a worker."""
    job_id = platform.submit(workflow(soon=task(), later=task()))
    seat = platform.seat(OrchestratorSettings(worker_wait_seconds=86_400))
    seat.work()
    later = next(claimed for claimed in platform.claim() if claimed.node_id == "later")
    tasks.release_tasks(platform.conn, platform.worker_id, [(later.task_id, later.lease_epoch, 6 * 86_400.0)])
    age(platform, 4 * 86_400)
    silent_jobs.run_once(seat.context)
    assert platform.job(job_id)["status"] == "running"


def test_jobs_that_may_wait_do_not_hide_those_that_are_stuck(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(silent_jobs, "BITE", 2)
    for _ in range(5):
        platform.submit(workflow(ask=ApprovalNode()))
    seat = platform.seat()
    platform.submit(workflow(only=task()).model_copy(update={"workflow_id": "stuck"}))
    seat.work()
    platform.claim()
    age(platform, 400)
    for _ in range(2):
        assert sum(silent_jobs.run_once(seat.context) for _ in range(4)) == 1
    assert stalls(platform) == ["nothing"], "also on the second walk"
    age(platform, 1)
    assert sum(silent_jobs.run_once(seat.context) for _ in range(4)) == 1
    assert len(stalls(platform)) == 2, "it moved in between"


def test_who_waits_for_people_may_wait(platform: Platform) -> None:
    platform.submit(workflow(ask=ApprovalNode()))
    seat = platform.seat()
    seat.work()
    age(platform, 100_000)
    assert silent_jobs.run_once(seat.context) == 0


def test_a_long_queue_makes_windows_smaller_and_gives_them_back(platform: Platform) -> None:
    job_id = platform.submit(fan(), {"items": list(range(600))})
    seat = platform.seat(OrchestratorSettings(backpressure_depth=100))
    seat.work()
    assert backpressure.run_once(seat.context) == 1
    assert seat.advance.windows["light"] < 200
    assert backpressure.run_once(seat.context) == 0, "nothing new"
    while claimed := platform.claim(200):
        platform.succeed(*claimed, output={"n": 1})
        seat.work()
    assert backpressure.run_once(seat.context) == 1
    assert seat.advance.windows["light"] == 1_000
    platform.finish(seat)
    assert platform.job(job_id)["status"] == "completed"
    assert platform.count("dag_orchestrator_events") == 2


def test_jobs_are_shared_with_a_newcomer(platform: Platform) -> None:
    definition = workflow(only=task())
    jobs = [platform.submit(definition) for _ in range(60)]
    old = platform.seat()
    old.work()
    assert balance.run_once(old.context) == 0
    new = platform.seat()
    assert balance.run_once(old.context) == 0, "they have just moved, and are not torn from their work"
    old.context.monotonic = lambda: monotonic() + 10  # type: ignore[method-assign]
    assert balance.run_once(old.context) == 30
    assert claim_submissions.run_once(new.context) == 30
    assert balance.run_once(new.context) == 0
    claimed = platform.claim()
    platform.succeed(*claimed)
    for seat in (old, new):
        seat.work()
    assert {platform.job(job_id)["status"] for job_id in jobs} == {"completed"}


def test_a_delayed_task_comes_back_when_it_is_due(platform: Platform) -> None:
    platform.submit(workflow(only=task()))
    seat = platform.seat()
    seat.work()
    (claimed,) = platform.claim()
    tasks.release_tasks(platform.conn, platform.worker_id, [(claimed.task_id, claimed.lease_epoch, 3_600.0)])
    seat.work()
    assert delayed_tasks.run_once(seat.context) == 0
    assert platform.claim() == []
    platform.conn.execute("UPDATE dag_queue_messages SET available_at = clock_timestamp()")
    assert delayed_tasks.run_once(seat.context) == 1
    (again,) = platform.claim()
    assert (again.task_id, again.attempt) == (claimed.task_id, 1)


@pytest.mark.parametrize("addressee", ["nobody", "gone"])
def test_what_came_for_an_ended_job_is_not_kept(platform: Platform, addressee: str) -> None:
    seat = platform.seat()
    ended, waiting = platform.submit(workflow(one=task())), platform.submit(workflow(one=task()))
    seat.work()
    (mine,) = [one for one in platform.claim(2) if one.job_id == ended]
    platform.succeed(mine)
    seat.work()
    for job_id in (ended, waiting, "pruned-long-ago"):
        platform.conn.execute(
            "INSERT INTO dag_inbox (owner_id, job_id, kind) VALUES (%s, %s, 'command')",
            ["" if addressee == "nobody" else addressee, job_id],
        )
    strays.run_once(seat.context)
    there = "SELECT owner_id, job_id FROM dag_inbox ORDER BY job_id"
    assert platform.conn.execute(there).fetchall() == [(seat.me, ended), (seat.me, waiting)], "the loop answers these"
    platform.conn.execute("UPDATE dag_inbox SET created_at = created_at - interval '1 minute'")
    strays.run_once(seat.context)
    assert platform.conn.execute(there).fetchall() == [(seat.me, waiting)]


def processed(platform: Platform) -> list[tuple[str, bool]]:
    rows = platform.conn.execute("SELECT node_id, processed FROM dag_task_results ORDER BY node_id").fetchall()
    return [(node_id, is_processed) for node_id, is_processed in rows]


def test_results_that_were_handled_are_shown_as_processed(platform: Platform) -> None:
    platform.submit(workflow(one=task("two"), other=task(), two=task()))
    seat = platform.seat()
    seat.work()
    first, second = platform.claim()
    platform.succeed(first)
    seat.work()
    platform.succeed(second)
    assert processed_results.run_once(seat.context) == 0, "there is something to do"
    seat.work()
    platform.succeed(*platform.claim())
    platform.conn.execute("UPDATE dag_inbox SET owner_id = 'the next owner'")
    assert processed_results.run_once(seat.context) == 2
    assert processed(platform) == [("one", True), ("other", True), ("two", False)]
    assert processed_results.run_once(seat.context) == 0, "each is written once"
