"""The guards in the SQL are needed, and tests see it: take any one away and somebody writes who must not.

What the simulator's operations reach is also in `tests/lab/simulation/test_agreement.py`; here are the others too.

Each case is a story that ends well; with the named words removed from the query, the same story ends badly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import psycopg
import pytest

from rmhdag.engine.inputs import Timer, TimerDue
from rmhdag.models.jobs import CommandKind
from rmhdag.orchestrator.local_inputs import LocalInput
from rmhdag.store import commands, crash_points, jobs, poison, settle, suspects, tasks
from rmhdag.store.batch_rows import HeldJob, PieceOfFanOut
from rmhdag.store.commands import Command, issue_command
from rmhdag.store.identity import new_id
from tests.engine.definitions import fan, task, workflow
from tests.orchestrator.faulty import with_faults
from tests.orchestrator.platform import QUEUE, Platform, Seat
from tests.orchestrator.test_advance import chain

Story = Callable[[Platform], bool]  # True: somebody wrote who must not


def write(seat: Seat, job_id: str, owner_epoch: int, inbox: list[int]) -> bool:
    """Settle a job as an orchestrator would, with whatever it believes."""
    entries = [(number, job_id) for number in inbox]
    return bool(settle_nothing(seat, [HeldJob(job_id, owner_epoch)], entries).written)


def settle_nothing(seat: Seat, held: list[HeldJob], inbox: list[tuple[int, str]]) -> settle.Settled:
    row = seat.conn.execute("SELECT clock_timestamp()").fetchone()
    assert row is not None
    return settle.settle(seat.conn, seat.me, held, inbox, row[0], lambda locked: settle.Writes())


def somebody_else_writes(platform: Platform) -> bool:
    """The epoch is right, the job is not its own."""
    job_id = platform.submit(chain(2))
    owner, other = platform.seat(), platform.seat()
    owner.work()
    return write(other, job_id, platform.job(job_id)["owner_epoch"], [])


def an_earlier_life_writes(platform: Platform) -> bool:
    """The job went to somebody else and came back; what was decided before that is void."""
    job_id = platform.submit(chain(2))
    owner, other = platform.seat(), platform.seat()
    owner.work()
    jobs.claim_orphaned_jobs(other.conn, other.me, [owner.me], 10)
    jobs.claim_orphaned_jobs(owner.conn, owner.me, [other.me], 10)
    assert platform.job(job_id)["owner_epoch"] == 3
    return write(owner, job_id, 1, [])


def a_job_is_taken_between_fence_and_commit(platform: Platform) -> bool:
    # Not its last node: an UPDATE of the job's row would lock it as well.
    platform.submit(chain(2))
    old, new = platform.seat(), platform.seat()
    old.work()
    platform.succeed(*platform.claim(), output={"x": 1})
    taken: list[jobs.ClaimedJob] = []
    crash_points.arm(
        "settle.before_commit", lambda: taken.extend(jobs.claim_orphaned_jobs(new.conn, new.me, [old.me], 10))
    )
    try:
        old.work()
    except psycopg.Error:
        return True
    return bool(taken)


def a_row_of_a_lost_job_is_consumed(platform: Platform) -> bool:
    """Of two jobs in a batch one was taken and given back meanwhile: its report must wait for who decides anew."""
    lost, kept = platform.submit(chain(1)), platform.submit(chain(1))
    seat = platform.seat()
    seat.work()
    platform.succeed(*platform.claim(2))
    platform.conn.execute("UPDATE dag_jobs SET owner_epoch = 5 WHERE job_id = %s", [lost])
    rows = platform.conn.execute("SELECT inbox_id, job_id FROM dag_inbox").fetchall()
    assert {job_id for _, job_id in rows} == {lost, kept}
    settled = settle_nothing(seat, [HeldJob(lost, 1), HeldJob(kept, 1)], rows)
    assert settled.written == {kept}
    return platform.count("dag_inbox") == 0


def an_ended_job_is_written(platform: Platform) -> bool:
    """Decided while the job ran, written after its end."""
    job_id = platform.submit(chain(1))
    seat = platform.seat()
    platform.finish(seat)
    return write(seat, job_id, platform.job(job_id)["owner_epoch"], [])


def a_report_is_overruled_by_a_deadline(platform: Platform) -> bool:
    """The inbox is read, the worker reports, then its owner writes that the time of the task is over."""
    job_id = platform.submit(workflow(only=task(timeout_seconds=5)))
    seat = platform.seat()
    seat.work()
    (claimed,) = platform.claim()
    tasks.start_tasks(platform.conn, platform.worker_id, [(claimed.task_id, claimed.lease_epoch)])
    seat.work()
    platform.conn.execute("UPDATE dag_node_states SET deadline_at = '2000-01-01' WHERE deadline_at IS NOT NULL")
    seat.advance.owned.clear()
    seat.advance.give([LocalInput(job_id, TimerDue("only", 1, Timer.DEADLINE))])
    with with_faults(platform, seat) as conn:
        conn.before(b"BEGIN", lambda: platform.succeed(claimed, output={"x": 1}))
        seat.advance.run_once()
    seat.work()
    return bool(platform.job(job_id)["status"] == "failed")


def an_inbox_row_counts_twice(platform: Platform) -> bool:
    """The commit went through, its answer was lost, and the caller does the same again with what it had read."""
    job_id = platform.submit(chain(1))
    seat = platform.seat()
    seat.work()
    platform.succeed(*platform.claim())
    row = platform.conn.execute("SELECT inbox_id FROM dag_inbox").fetchone()
    assert row is not None
    assert write(seat, job_id, 1, [row[0]])
    return write(seat, job_id, 1, [row[0]])


def a_lost_lease_reports(platform: Platform) -> bool:
    platform.submit(chain(1))
    seat = platform.seat()
    seat.work()
    (claimed,) = platform.claim()
    platform.conn.execute("UPDATE dag_queue_messages SET lease_epoch = lease_epoch + 1")
    return bool(platform.succeed(claimed))


def another_worker_reports(platform: Platform) -> bool:
    platform.submit(chain(1))
    seat = platform.seat()
    seat.work()
    (claimed,) = platform.claim()
    platform.worker_id = new_id()
    return bool(platform.succeed(claimed))


def a_held_task_is_claimed_again(platform: Platform) -> bool:
    platform.submit(chain(1))
    platform.seat().work()
    platform.claim()
    return bool(platform.claim())


def a_newer_lease_is_requeued(platform: Platform) -> bool:
    """News of an old loss must not take the task away from whoever holds it now."""
    platform.submit(chain(1))
    seat = platform.seat()
    seat.work()
    platform.claim()
    tasks.report_lost_tasks(platform.conn, [platform.worker_id])
    platform.conn.execute(
        "UPDATE dag_queue_messages SET worker_id = 'newer', claimed_at = clock_timestamp(), lease_epoch = 5"
    )
    seat.work()
    return platform.conn.execute("SELECT worker_id FROM dag_queue_messages").fetchone() != ("newer",)


def a_loss_is_told_twice(platform: Platform) -> bool:
    platform.submit(chain(1))
    platform.seat().work()
    platform.claim()
    tasks.report_lost_tasks(platform.conn, [platform.worker_id])
    return tasks.report_lost_tasks(platform.conn, [platform.worker_id]) > 0


def somebody_else_buries(platform: Platform) -> bool:
    job_id = platform.submit(chain(1))
    platform.seat().work()
    return poison.bury_job(platform.conn, platform.seat().me, job_id, 1, "default", "why")


def an_earlier_life_buries(platform: Platform) -> bool:
    job_id = platform.submit(chain(1))
    owner, other = platform.seat(), platform.seat()
    owner.work()
    jobs.claim_orphaned_jobs(other.conn, other.me, [owner.me], 10)
    return poison.bury_job(other.conn, other.me, job_id, 1, "default", "why")


def a_finished_job_is_buried(platform: Platform) -> bool:
    job_id = platform.submit(chain(1))
    seat = platform.seat()
    platform.finish(seat)
    return poison.bury_job(seat.conn, seat.me, job_id, 1, "default", "why")


def a_finished_job_is_told(platform: Platform) -> bool:
    job_id = platform.submit(chain(1))
    platform.finish(platform.seat())
    command = Command(
        command_id=new_id(), namespace="default", job_id=job_id, kind=CommandKind.CANCEL, issued_by="ann", body={}
    )
    issue_command(platform.conn, command)
    return platform.count("dag_inbox") + platform.count("dag_job_commands") > 0


def a_finished_child_is_cancelled(platform: Platform) -> bool:
    job_id = platform.submit(fan("collect"), {"items": [1, 2]})
    seat = platform.seat()
    seat.work()
    platform.succeed(*platform.claim(1))
    seat.work()
    children = (
        "SELECT parent_node_id FROM dag_node_states WHERE job_id = %s AND status = 'completed' AND fan_out_index = 0"
    )
    row = platform.conn.execute(children, [job_id]).fetchone()
    assert row is not None
    now = platform.conn.execute("SELECT clock_timestamp()").fetchone()
    assert now is not None
    cancelled = settle.Writes(cancelled_children=[PieceOfFanOut(job_id, row[0], 0, 2)])
    held = [HeldJob(job_id, 1)]
    assert settle.settle(seat.conn, seat.me, held, [], now[0], lambda locked: cancelled).written
    return platform.conn.execute(children, [job_id]).fetchone() is None


def a_suspect_is_claimed_twice_at_once(platform: Platform) -> bool:
    platform.submit(chain(1))
    other = platform.seat()
    other.work()
    other.conn.execute("UPDATE dag_queue_messages SET lease_losses = 2")
    other.conn.execute("SET lock_timeout = '10ms'")
    with platform.conn.transaction():
        assert suspects.claim_suspect(platform.conn, platform.worker_id, [QUEUE]) is not None
        try:
            return suspects.claim_suspect(other.conn, "other", [QUEUE]) is not None
        except psycopg.errors.LockNotAvailable:
            return True


def suspect(platform: Platform) -> None:
    """A task that two workers did not survive, in a crowd of workers that may each have one."""
    platform.submit(chain(1))
    platform.seat().work()
    platform.conn.execute("UPDATE dag_queue_messages SET lease_losses = 2, lease_epoch = 4")
    for number in range(4):
        platform.conn.execute(
            "INSERT INTO dag_workers (worker_id, host, process_id, version, slots) VALUES (%s, 'here', 1, '0', 1)",
            [f"w{number}"],
        )


def a_held_suspect_is_claimed_again(platform: Platform) -> bool:
    suspect(platform)
    assert suspects.claim_suspect(platform.conn, platform.worker_id, [QUEUE]) is not None
    return suspects.claim_suspect(platform.conn, "w0", [QUEUE]) is not None


def a_suspect_is_reported_under_an_earlier_lease(platform: Platform) -> bool:
    """Given back and claimed again by the same worker, whose first report is still on its way."""
    suspect(platform)
    first = suspects.claim_suspect(platform.conn, platform.worker_id, [QUEUE])
    assert first is not None
    tasks.release_tasks(platform.conn, platform.worker_id, [(first.task_id, first.lease_epoch, None)])
    assert suspects.claim_suspect(platform.conn, platform.worker_id, [QUEUE]) is not None
    return bool(platform.succeed(first))


GUARDS: list[tuple[dict[str, bytes], str, bytes, bytes, Story]] = [
    (settle.SQL, "lock_jobs_and_inbox", b"AND j.owner_epoch = (r->>1)::bigint", b"", an_earlier_life_writes),
    (settle.SQL, "lock_jobs_and_inbox", b"j.owner_id IS NOT DISTINCT FROM %(me)s AND ", b"", somebody_else_writes),
    (settle.SQL, "lock_jobs_and_inbox", b"FOR NO KEY UPDATE OF j", b"", a_job_is_taken_between_fence_and_commit),
    (
        settle.SQL,
        "lock_jobs_and_inbox",
        b"AND (j.completed_at IS NOT NULL) = (r->>2)::boolean",
        b"",
        an_ended_job_is_written,
    ),
    (
        settle.SQL,
        "lock_jobs_and_inbox",
        b"AND jsonb_exists((SELECT jsonb_object_agg(job_id, 0) FROM locked), i.job_id)",
        b"",
        a_row_of_a_lost_job_is_consumed,
    ),
    (
        settle.SQL,
        "reported_tasks",
        b"AND status IN ('completed', 'failed', 'cancelled')",
        b"AND false",
        a_report_is_overruled_by_a_deadline,
    ),
    (
        settle.SQL,
        "lock_jobs_and_inbox",
        b"DELETE FROM dag_inbox AS i\nUSING",
        b"UPDATE dag_inbox AS i SET kind = i.kind FROM",
        an_inbox_row_counts_twice,
    ),
    (tasks.SQL, "report_tasks", b"AND q.lease_epoch = g.lease_epoch", b"", a_lost_lease_reports),
    (tasks.SQL, "report_tasks", b"AND q.worker_id IS NOT DISTINCT FROM %(worker_id)s", b"", another_worker_reports),
    (tasks.SQL, "claim_unwatched_tasks", b"AND worker_id IS NULL", b"", a_held_task_is_claimed_again),
    (suspects.SQL, "claim_suspect", b"FOR UPDATE SKIP LOCKED", b"", a_suspect_is_claimed_twice_at_once),
    (suspects.SQL, "claim_suspect", b"AND worker_id IS NULL", b"", a_held_suspect_is_claimed_again),
    (
        suspects.SQL,
        "claim_suspect",
        b"q.lease_epoch + 1",
        b"q.lease_epoch",
        a_suspect_is_reported_under_an_earlier_lease,
    ),
    (poison.SQL, "fail_poisoned_job", b"AND owner_id = %(me)s", b"", somebody_else_buries),
    (poison.SQL, "fail_poisoned_job", b"AND owner_epoch = %(owner_epoch)s", b"", an_earlier_life_buries),
    (poison.SQL, "fail_poisoned_job", b"AND completed_at IS NULL", b"", a_finished_job_is_buried),
    (commands.SQL, "issue_command", b"WHERE is_open", b"", a_finished_job_is_told),
    (settle.SQL, "cancel_children", b"AND n.status = 'ready'", b"", a_finished_child_is_cancelled),
    (settle.SQL, "requeue_tasks", b"AND q.lease_epoch = (r->>1)::bigint", b"", a_newer_lease_is_requeued),
]
STORIES = [*dict.fromkeys(story for *_, story in GUARDS), a_loss_is_told_twice]


@pytest.fixture(autouse=True)
def nothing_stays_armed() -> Iterator[None]:
    yield
    crash_points.disarm()


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
def test_with_all_guards_it_ends_well(platform: Platform, story: Story) -> None:
    assert not story(platform)


@pytest.mark.parametrize(
    ("queries", "name", "guard", "instead", "story"),
    GUARDS,
    ids=[f"{name}: {guard.decode()}" for _, name, guard, _, _ in GUARDS],
)
def test_without_the_guard_it_ends_badly(
    platform: Platform,
    monkeypatch: pytest.MonkeyPatch,
    queries: dict[str, bytes],
    name: str,
    guard: bytes,
    instead: bytes,
    story: Story,
) -> None:
    assert guard in queries[name]
    mutated = queries[name].replace(guard, instead)
    if instead.startswith(b"SELECT"):
        mutated = mutated.replace(b"RETURNING i.inbox_id, i.task_id", b"")
    if guard.startswith(b"WHERE"):
        mutated = mutated.replace(b"ORDER BY", b"WHERE true ORDER BY")
    monkeypatch.setitem(queries, name, mutated)
    assert story(platform)
