"""Whatever one job, one statement or one duty does, the others go on and nothing is lost."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from contextlib import closing, suppress
from itertools import count

import psycopg
import pytest

from rmhdag.engine.inputs import Timer, TimerDue
from rmhdag.models.leases import ClaimedTask
from rmhdag.models.states import NodeStatus
from rmhdag.observability import supervision
from rmhdag.observability.supervision import Loop, Supervisor
from rmhdag.orchestrator import duties
from rmhdag.orchestrator.context import OrchestratorSettings
from rmhdag.orchestrator.duties import balance, claim_submissions, owed
from rmhdag.orchestrator.duty_rounds import DutyRounds
from rmhdag.orchestrator.local_inputs import LocalInput
from rmhdag.store import crash_points, tasks
from rmhdag.store.batch_rows import HeldJob, NewNode
from rmhdag.store.settle import Writes, settle
from rmhdag.workflow.definition import ApprovalNode, InputDefinition, WorkflowDefinition, WorkflowNode
from tests.engine.definitions import AT_ONCE, fan, task, workflow
from tests.orchestrator.faulty import open_faulty, with_faults
from tests.orchestrator.platform import Platform, Seat, open_connection
from tests.orchestrator.test_advance import chain
from tests.orchestrator.test_process import running
from tests.store.waiting import wait_until


def statuses(platform: Platform, job_ids: list[str]) -> list[str]:
    return [platform.job(job_id)["status"] for job_id in job_ids]


def named(name: str, definition: WorkflowDefinition) -> WorkflowDefinition:
    return definition.model_copy(update={"workflow_id": name})


# -- batches that are overtaken ------------------------------------------------------------------------------------


def test_a_torn_job_leaves_the_batch_and_the_others_begin(platform: Platform) -> None:
    """Rows for ended jobs are read ahead and swept away; a new job's start, which has no row, is in the same batch."""
    seat = platform.seat()
    ended = [platform.submit(chain(1)) for _ in range(70)]
    platform.finish(seat)
    for job_id in ended:
        platform.conn.execute(
            "INSERT INTO dag_inbox (owner_id, job_id, kind, payload)"
            """ VALUES (%s, %s, 'command', '{"kind": "cancel", "issued_by": "ann"}')""",
            [seat.me, job_id],
        )
    assert seat.advance.run_once(whole_inbox=True), "64 of them are handled, all are read"
    assert platform.conn.execute("DELETE FROM dag_inbox").rowcount > 0
    fresh = platform.submit(chain(1))
    assert claim_submissions.run_once(seat.context) == 1
    while seat.advance.run_once():
        pass
    assert platform.nodes(fresh) == {"n0": "dispatched"}


def test_a_job_that_was_never_begun_is_found_by_its_row(platform: Platform) -> None:
    seat = platform.seat(OrchestratorSettings(owed_seconds=0.0))
    job_id = platform.submit(chain(1))
    platform.conn.execute("UPDATE dag_jobs SET owner_id = %s, owner_epoch = 1", [seat.me])
    assert owed.run_once(seat.context) == 0, "at the first look it may be on its way"
    assert owed.run_once(seat.context) == 1
    seat.work()
    assert platform.nodes(job_id) == {"n0": "dispatched"}
    assert owed.run_once(seat.context) == 0
    event = "SELECT event_data->>'job_id' FROM dag_orchestrator_events WHERE event_type = 'orchestrator_stall'"
    assert platform.conn.execute(event).fetchall() == [(job_id,)]


def test_a_fan_in_that_nobody_reduces_is_found_by_its_row(platform: Platform) -> None:
    seat = platform.seat(OrchestratorSettings(owed_seconds=0.0))
    job_id = platform.submit(fan("collect"), {"items": [1, 2]})
    seat.work()
    platform.succeed(*platform.claim())
    while seat.advance.run_once(whole_inbox=True):
        pass
    assert seat.advance.fan_ins.take() is not None
    seat.advance.fan_ins.finish()
    seat.context.monotonic = lambda: float("inf")  # type: ignore[method-assign]
    assert [owed.run_once(seat.context) for _ in range(2)] == [0, 1]
    platform.finish(seat)
    assert platform.job(job_id)["status"] == "completed"


def start(platform: Platform, claimed: ClaimedTask) -> None:
    tasks.start_tasks(platform.conn, platform.worker_id, [(claimed.task_id, claimed.lease_epoch)])


def test_a_result_that_comes_while_its_task_is_given_up_counts(platform: Platform) -> None:
    """The inbox is read, then the worker reports, then the owner writes that the time is over."""
    job_id = platform.submit(workflow(only=task(timeout_seconds=5)))
    seat = platform.seat()
    seat.work()
    (claimed,) = platform.claim()
    start(platform, claimed)
    seat.work()
    platform.conn.execute("UPDATE dag_node_states SET deadline_at = '2000-01-01' WHERE deadline_at IS NOT NULL")
    seat.advance.owned.clear()
    seat.advance.give([LocalInput(job_id, TimerDue("only", 1, Timer.DEADLINE))])
    with with_faults(platform, seat) as conn:
        conn.before(b"BEGIN", lambda: platform.succeed(claimed, output={"x": 1}))
        assert seat.advance.run_once()
    seat.work()
    assert platform.job(job_id)["status"] == "completed"


# -- the connection breaks -----------------------------------------------------------------------------------------


def run_in_vain(seat: Seat) -> None:
    with pytest.raises(psycopg.Error):
        seat.advance.run_once(whole_inbox=True)


def settled(seat: Seat, observe: Callable[[], bool]) -> bool:
    seat.work()
    return observe()


def test_a_commit_under_way_on_a_broken_connection_is_not_decided_again(platform: Platform) -> None:
    """The server has all statements and waits for a lock; the client's line is cut, and it comes back first."""
    job_id, other = platform.submit(named("retried", workflow(only=task(retry=AT_ONCE)))), platform.submit(chain(1))
    seat = platform.seat()
    seat.work()
    for claimed in platform.claim():
        if claimed.job_id == job_id:
            platform.fail(claimed)
        else:
            later = claimed
    with closing(open_connection(platform.dsn)) as doomed, closing(open_connection(platform.dsn)) as blocker:
        seat.advance.use(doomed)
        blocker.execute("BEGIN")
        blocker.execute("SELECT 1 FROM dag_node_states WHERE job_id = %s FOR UPDATE", [job_id])
        turn = threading.Thread(target=run_in_vain, args=[seat])
        turn.start()
        waits = "SELECT 1 FROM pg_stat_activity WHERE pid = %s AND wait_event_type = 'Lock'"
        wait_until(lambda: platform.conn.execute(waits, [doomed.info.backend_pid]).fetchone())
        with socket.socket(fileno=doomed.fileno()) as line:
            line.shutdown(socket.SHUT_RDWR)
            turn.join()
            line.detach()
        seat.advance.use(seat.conn)
        while seat.advance.run_once(whole_inbox=True) and not seat.advance.sizes()["in_doubt"]:
            pass
        assert seat.advance.sizes()["in_doubt"] == 1, "what the old transaction holds is not touched"
        platform.succeed(later)
        seat.advance.run_once(whole_inbox=True)
        assert platform.job(other)["status"] == "completed", "the others go on"
        blocker.execute("ROLLBACK")
        wait_until(lambda: not platform.conn.execute(waits, [doomed.info.backend_pid]).fetchone() or None)
    wait_until(lambda: settled(seat, lambda: not seat.advance.sizes()["in_doubt"]) or None)
    seat.work()
    (again,) = platform.claim()
    assert again.attempt == 2
    platform.succeed(again)
    seat.work()
    assert platform.job(job_id)["status"] == "completed"
    events = platform.events(job_id)
    assert (events.count("node_failed"), events.count("node_completed"), events.count("job_completed")) == (1, 1, 1)
    assert platform.count("dag_queue_messages") == 0


def test_only_the_batch_under_way_is_loaded_again_after_a_break(platform: Platform) -> None:
    seat = platform.seat()
    waiting = [platform.submit(named("waiting", workflow(wait=ApprovalNode()))) for _ in range(3)]
    busy = platform.submit(chain(2))
    seat.work()
    before = {job_id: seat.advance.owned.get(job_id) for job_id in waiting}
    platform.succeed(*platform.claim(), output={"x": 1})
    crash_points.arm("settle.after_commit", lose_the_connection)
    with pytest.raises(psycopg.OperationalError):
        seat.advance.run_once(whole_inbox=True)
    seat.work()
    assert all(seat.advance.owned.get(job_id) is before[job_id] for job_id in waiting)
    assert platform.nodes(busy) == {"n0": "completed", "n1": "dispatched"}
    assert platform.job(busy)["owner_epoch"] == 2, "what was in doubt is reclaimed from oneself"


def lose_the_connection() -> None:
    raise psycopg.OperationalError("gone")


# -- data that spoils a transaction --------------------------------------------------------------------------------


def spoil(platform: Platform, job_id: str, how: str) -> None:
    """The database refuses, or takes very long for, everything that this job writes about its nodes."""
    platform.conn.execute(
        f"""
        CREATE FUNCTION spoil() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN IF NEW.job_id = '{job_id}' THEN {how}; END IF; RETURN NEW; END $$;
        CREATE TRIGGER spoil BEFORE INSERT OR UPDATE ON dag_node_states FOR EACH ROW EXECUTE FUNCTION spoil();
        """.encode()
    )


LIMIT_EXCEEDED = "RAISE EXCEPTION 'total size of jsonb array elements exceeds the maximum' USING ERRCODE = '54000'"


@pytest.mark.parametrize("how", [LIMIT_EXCEEDED, "PERFORM pg_sleep(60)"], ids=["limit", "time-out"])
def test_a_job_that_the_database_cannot_digest_fails_alone(platform: Platform, how: str) -> None:
    seat = platform.seat()
    seat.conn.execute("SET statement_timeout = '200ms'")
    bad, *good = [platform.submit(chain(2)) for _ in range(6)]
    spoil(platform, bad, how)

    def serve() -> bool:
        # Time counts only while others are served: the database may be slow for everybody.
        good.append(platform.submit(chain(2)))
        claim_submissions.run_once(seat.context)
        while seat.advance.run_once(whole_inbox=True):
            platform.succeed(*platform.claim())
        return bool(platform.job(bad)["status"] == "failed")

    wait_until(serve, 60)
    platform.finish(seat)
    job = platform.job(bad)
    assert (job["status"], job["error_message"].partition(":")[0]) == ("failed", "engine_error")
    assert set(statuses(platform, good)) == {"completed"}


def test_no_job_fails_because_the_database_is_slow_for_all(platform: Platform) -> None:
    seat = platform.seat()
    job_ids = [platform.submit(chain(1)) for _ in range(3)]
    claim_submissions.run_once(seat.context)
    slow = (
        "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(60); RETURN NEW; END $$"
    )
    platform.conn.execute(slow.encode())
    trigger = "CREATE TRIGGER slow BEFORE INSERT ON dag_node_states FOR EACH ROW EXECUTE FUNCTION slow()"
    platform.conn.execute(trigger.encode())
    seat.conn.execute("SET statement_timeout = '50ms'")
    for _ in range(200):
        seat.advance.run_once(whole_inbox=True)
    assert set(statuses(platform, job_ids)) == {"pending"}
    platform.conn.execute("DROP TRIGGER slow ON dag_node_states")
    seat.conn.execute("SET statement_timeout = '10s'")
    begun = "SELECT count(*) FROM dag_node_states"
    wait_until(lambda: settled(seat, lambda: platform.conn.execute(begun).fetchone() == (3,)) or None)
    platform.finish(seat)
    assert set(statuses(platform, job_ids)) == {"completed"}


def large_inputs() -> WorkflowDefinition:
    definition = workflow(first=task("second", params={"area": "{{ inputs.area }}"}), second=task())
    return definition.model_copy(update={"inputs": {"area": InputDefinition(type="object")}})


def test_many_jobs_with_large_inputs_do_not_hang_the_batch(platform: Platform) -> None:
    """45 MB in one pipeline was waited for without end."""
    seat = platform.seat()
    area = {"coordinates": ["x" * 1_000] * 1_500}
    job_ids = [platform.submit(large_inputs(), {"area": area}) for _ in range(30)]
    platform.finish(seat)
    assert set(statuses(platform, job_ids)) == {"completed"}


def test_a_transaction_that_fits_into_no_socket_is_written(platform: Platform) -> None:
    """One job alone may need as much. In a pipeline the driver would wait for the answer to what it never sent."""
    seat = platform.seat()
    job_id = platform.submit(chain(1))
    seat.work()
    text = {"text": "x" * 1_000_000}
    nodes = [NewNode(job_id, f"more{n}", "default", NodeStatus.COMPLETED, 0, input_params=text) for n in range(64)]
    (now,) = seat.conn.execute("SELECT clock_timestamp()").fetchall()[0]
    held = [HeldJob(job_id, platform.job(job_id)["owner_epoch"])]
    with seat.conn.answering_within(60):  # type: ignore[attr-defined]
        settled = settle(seat.conn, seat.me, held, [], now, lambda locked: Writes(new_nodes=nodes))
    assert settled.written == {job_id}
    assert len(platform.nodes(job_id)) == 65


def test_a_child_workflow_that_cannot_be_read_is_its_parents_failure(platform: Platform) -> None:
    """As a newer version may register it during a rolling deployment."""
    inner = named("inner", workflow(only=task()))
    platform.register(inner)
    update = (
        "UPDATE dag_workflows SET definition = definition || '{\"from_the_future\": 1}' WHERE workflow_id = 'inner'"
    )
    platform.conn.execute(update.encode())
    bad = platform.submit(named("outer", workflow(sub=WorkflowNode(workflow="inner"))))
    good = [platform.submit(chain(1)) for _ in range(3)]
    platform.finish(platform.seat())
    assert platform.job(bad)["status"] == "failed"
    assert set(statuses(platform, good)) == {"completed"}


# -- the unexpected, at every step ---------------------------------------------------------------------------------


def submit_all_kinds(platform: Platform) -> list[str]:
    inner = named("inner", workflow(only=task()))
    platform.register(inner)
    return [
        platform.submit(chain(2)),
        platform.submit(named("fan", fan("collect")), {"items": [1, 2]}),
        platform.submit(named("outer", workflow(sub=WorkflowNode(workflow="inner")))),
        platform.submit(named("retried", workflow(one=task(retry=AT_ONCE, timeout_seconds=60)))),
    ]


def push_on(platform: Platform, seat: Seat, job_ids: list[str]) -> bool:
    """One round of everybody; whatever the loop raises, it is called again, as the process does."""
    with suppress(RuntimeError, psycopg.OperationalError):
        seat.work()
    for claimed in platform.claim():
        start(platform, claimed)
        if (claimed.node_id, claimed.attempt) == ("one", 1):
            platform.fail(claimed)
        else:
            platform.succeed(claimed, output={"x": 1})
    return all(status == "completed" for status in statuses(platform, job_ids))


@pytest.mark.parametrize("fault", [RuntimeError("once"), psycopg.OperationalError("once")], ids=["ours", "line"])
def test_an_exception_at_any_statement_of_the_loop_costs_no_job(platform: Platform, fault: Exception) -> None:
    seat = platform.seat()
    with with_faults(platform, seat) as conn:
        for statement in count(1):
            job_ids = submit_all_kinds(platform)
            conn.fail_at(statement, fault)
            wait_until(lambda: push_on(platform, seat, job_ids))  # noqa: B023
            if conn.action is not None:
                break
            assert statement < 500
    assert statement > 20
    assert platform.count("dag_queue_messages") == 0
    assert {name: size for name, size in seat.advance.sizes().items() if size} == {
        "handled_jobs": len(seat.advance.handled_jobs)
    }, "nothing of an ended job stays in memory"


@pytest.mark.parametrize("thread", ["PROMPT", "LIVENESS", "UPKEEP"])
def test_a_duty_that_fails_stops_no_other(platform: Platform, thread: str) -> None:
    table = getattr(duties, thread)
    seat = platform.seat()
    platform.submit(chain(1))
    seat.work()
    for statement in count(1):
        with closing(open_faulty(platform.dsn)) as conn:
            seat.context.conn = conn
            rounds = DutyRounds(seat.context, table, lambda: open_connection(platform.dsn))
            conn.fail_at(statement, RuntimeError("once"))
            done = rounds.run(Loop("test", 1.0))
            assert len(done) >= len(table) - 1, "the others had their turn"
            if conn.action is not None:
                return


# -- threads -------------------------------------------------------------------------------------------------------


def test_a_thread_that_fails_is_started_again() -> None:
    over = threading.Event()
    runs: list[int] = []
    given_up: list[str] = []
    supervisor = Supervisor(over, given_up.append)

    def fails_twice(loop: Loop) -> None:
        runs.append(1)
        if len(runs) < 3:
            raise RuntimeError("unexpected")
        over.set()

    supervisor.start("work", fails_twice, 1.0)
    assert over.wait(10)
    assert (len(runs), supervisor.restarts(), given_up) == (3, {"work": 2}, [])
    assert supervisor.join(10) == []


def test_a_thread_that_is_not_helped_by_starting_it_again_ends_the_life(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervision, "FIRST_PAUSE_SECONDS", 0.0)
    given_up = threading.Event()
    supervisor = Supervisor(threading.Event(), lambda reason: given_up.set())

    def fails(loop: Loop) -> None:
        raise RuntimeError("unexpected")

    supervisor.start("work", fails, 1.0)
    assert given_up.wait(10)
    assert supervisor.join(10) == []


def test_a_loop_that_hangs_gives_its_jobs_away_and_begins_a_new_life(platform: Platform) -> None:
    settings = OrchestratorSettings(heartbeat_seconds=0.1, ttl_seconds=1.0, margin_seconds=0.2, answer_seconds=0.5)
    hung, go_on = threading.Event(), threading.Event()

    def hang() -> None:
        hung.set()
        go_on.wait(60)

    with running(platform, settings) as orchestrator:
        wait_until(lambda: platform.count("dag_orchestrators") or None)
        first = orchestrator.owner_id
        crash_points.arm("settle.before_commit", hang)
        job_id = platform.submit(workflow(only=task()))
        assert hung.wait(30)
        wait_until(lambda: platform.count("dag_orchestrators") == 0 or None)
        go_on.set()
        wait_until(lambda: orchestrator.owner_id not in (None, first) or None)
        wait_until(lambda: platform.job(job_id)["owner_id"] == orchestrator.owner_id or None)
        wait_until(lambda: platform.nodes(job_id).get("only") == "dispatched" or None)
    events = "SELECT error_message FROM dag_orchestrator_events WHERE event_type = 'orchestrator_error'"
    (message,) = platform.conn.execute(events).fetchall()[0]
    assert "advance" in message


# -- memory of what moved ------------------------------------------------------------------------------------------


def test_nothing_remains_of_jobs_that_were_given_away(platform: Platform) -> None:
    old, new = platform.seat(), platform.seat()
    job_ids = [platform.submit(chain(1)) for _ in range(40)]
    old.work()
    old.context.monotonic = lambda: float("inf")  # type: ignore[method-assign]
    released = balance.run_once(old.context)
    assert released == 20
    old.advance.run_once()
    sizes = old.advance.sizes()
    assert (sizes["turns"], sizes["known_jobs"], sizes["aggregates"]) == (20, 20, 20)
    platform.finish(new)
    platform.finish(old)
    assert set(statuses(platform, job_ids)) == {"completed"}
