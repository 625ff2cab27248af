"""The row is the lease: whoever does not hold it, at that epoch, changes nothing."""

import json
from typing import Any

import orjson
import psycopg
import pytest

from rmhdag.models.events import ErrorKind
from rmhdag.models.leases import BeatAnswer, LogChunk, TaskProgress, TaskReport
from rmhdag.models.states import TaskStatus
from rmhdag.store import channels, processes, tasks, workers
from rmhdag.store.batch_rows import TaskReportRow, encode_rows
from rmhdag.store.connection import Conn

QUEUE = "light"


@pytest.fixture(autouse=True)
def job(conn: Conn) -> None:
    conn.execute("SET LOCAL search_path TO dagapp")
    conn.execute(
        "INSERT INTO dag_jobs (job_id, workflow_id, workflow_version, workflow_hash, fairness_key, submitted_by,"
        " root_job_id, owner_id, status, started_at) VALUES ('j', 'w', 1, 'h', 'me', 'me', 'j', 'o', 'running', now())"
    )


def add(conn: Conn, task_id: str, order_key: int = 0, **columns: Any) -> str:
    row = {
        "task_id": task_id,
        "job_id": "j",
        "node_id": f"n-{task_id}",
        "queue": QUEUE,
        "handler": "echo",
        "order_key": order_key,
        "fairness_key": "me",
        **columns,
    }
    values = ", ".join(f"%({name})s" for name in row)
    conn.execute(f"INSERT INTO dag_queue_messages ({', '.join(row)}) VALUES ({values})".encode(), row)
    return task_id


def done(task_id: str, lease_epoch: int, **more: Any) -> TaskReport:
    return TaskReport(task_id, lease_epoch, TaskStatus.COMPLETED, output=b'{"x":1}', **more)


def results(conn: Conn, task_id: str) -> list[tuple[Any, ...]]:
    query = "SELECT lease_epoch, status, worker_id, output FROM dag_task_results WHERE task_id = %s ORDER BY 1"
    return conn.execute(query, [task_id]).fetchall()


def inbox(conn: Conn, task_id: str) -> list[tuple[str, str, dict[str, Any]]]:
    query = "SELECT owner_id, kind, payload FROM dag_inbox WHERE task_id = %s ORDER BY inbox_id"
    return conn.execute(query, [task_id]).fetchall()


def test_tasks_are_claimed_in_their_order_and_only_once(conn: Conn) -> None:
    for key in (3, 1, 2):
        add(conn, f"t{key}", key)
    add(conn, "later", 0, available_at="2100-01-01")
    add(conn, "elsewhere", 0, queue="heavy")
    first = tasks.claim_tasks(conn, "w1", QUEUE, 2)
    assert [(task.task_id, task.lease_epoch) for task in first] == [("t1", 1), ("t2", 1)]
    assert [task.task_id for task in tasks.claim_tasks(conn, "w2", QUEUE, 10)] == ["t3"]
    assert tasks.claim_tasks(conn, "w2", QUEUE, 10) == []


def test_the_mark_leaves_out_what_is_below_it(conn: Conn) -> None:
    add(conn, "low", 1)
    add(conn, "high", 9)
    assert [task.task_id for task in tasks.claim_tasks(conn, "w", QUEUE, 10, mark=5)] == ["high"]
    assert tasks.dead_queue_rows(conn) >= 0


def test_a_report_is_accepted_once_and_only_from_the_holder(conn: Conn) -> None:
    add(conn, "t")
    tasks.claim_tasks(conn, "w", QUEUE, 1)
    assert tasks.report_tasks(conn, "other", [done("t", 1)]) == set()
    assert tasks.report_tasks(conn, "w", [done("t", 0), done("t", 2), done("nothing", 1)]) == set()
    assert results(conn, "t") == []
    assert tasks.report_tasks(conn, "w", [done("t", 1, started_ms_ago=5.0)]) == {"t"}
    assert tasks.report_tasks(conn, "w", [done("t", 1)]) == set()
    assert results(conn, "t") == [(1, "completed", "w", {"x": 1})]
    told = {"ok": True, "ms": 0, "out": {"x": 1}, "attempt": 1, "worker_id": "w", "queue": "light", "order_key": 0}
    assert inbox(conn, "t") == [("o", "task_reported", told)]


@pytest.mark.parametrize("first", [TaskStatus.COMPLETED, TaskStatus.FAILED, TaskStatus.CANCELLED])
def test_an_accepted_result_is_never_overwritten(conn: Conn, first: TaskStatus) -> None:
    """A dispatch that was decided twice leaves a second row whose first lease has the same epoch as the first one's."""
    add(conn, "t")
    tasks.claim_tasks(conn, "w", QUEUE, 1)
    kind = ErrorKind.HANDLER_ERROR if first is TaskStatus.FAILED else None
    tasks.report_tasks(conn, "w", [TaskReport("t", 1, first, kind, "first" if kind else None, output=b'{"run":1}')])
    accepted = conn.execute("SELECT * FROM dag_task_results WHERE task_id = 't'").fetchall()
    add(conn, "t")
    assert [task.lease_epoch for task in tasks.claim_tasks(conn, "w2", QUEUE, 1)] == [1]
    assert tasks.report_tasks(conn, "w2", [TaskReport("t", 1, TaskStatus.COMPLETED, output=b'{"run":2}')]) == {"t"}
    assert conn.execute("SELECT * FROM dag_task_results WHERE task_id = 't'").fetchall() == accepted
    assert conn.execute("SELECT count(*) FROM dag_queue_messages").fetchone() == (0,)


def test_a_failure_carries_its_kind_and_a_large_output_stays_out_of_the_inbox(conn: Conn) -> None:
    for task_id in ("bad", "big"):
        add(conn, task_id)
    tasks.claim_tasks(conn, "w", QUEUE, 2)
    failed = TaskReport("bad", 1, TaskStatus.FAILED, ErrorKind.TIMEOUT, "too long", 1000)
    big = TaskReport("big", 1, TaskStatus.COMPLETED, output=json.dumps({"x": "y" * 3000}).encode())
    assert tasks.report_tasks(conn, "w", [failed, big]) == {"bad", "big"}
    assert inbox(conn, "bad")[0][2]["kind"] == "timeout"
    assert "out" not in inbox(conn, "big")[0][2]


def test_owners_are_rung_by_the_statement_that_tells_them(conn: Conn, shared_database: str) -> None:
    """The names that SQL makes are the names that processes listen on."""
    with psycopg.connect(shared_database, autocommit=True) as other:
        other.execute("SET search_path TO dagapp")
        for channel in (channels.owner_channel("owner-é"), channels.queue_channel("light-é"), channels.NEW_JOBS):
            other.execute(f'LISTEN "{channel}"'.encode())
        other.execute(
            "INSERT INTO dag_jobs (job_id, workflow_id, workflow_version, workflow_hash, fairness_key, submitted_by,"
            " root_job_id, owner_id, status, started_at) VALUES"
            " ('ring1', 'w', 1, 'h', 'm', 'm', 'ring1', 'owner-é', 'running', now()),"
            " ('ring2', 'w', 1, 'h', 'm', 'm', 'ring2', NULL, 'running', now())"
        )
        try:
            for number, job_id in enumerate(["ring1", "ring2", "ring1"]):
                add(other, f"ring-{number}", number, job_id=job_id, queue="light-é")
            tasks.claim_tasks(other, "w", "light-é", 3)
            tasks.report_tasks(other, "w", [done("ring-0", 1), done("ring-1", 1)])
            tasks.release_tasks(other, "w", [("ring-2", 1, None)])
            heard = [notice.channel for notice in other.notifies(timeout=10, stop_after=3)]
        finally:
            for table in ("dag_jobs", "dag_queue_messages", "dag_task_results", "dag_inbox"):
                other.execute(f"DELETE FROM {table} WHERE job_id LIKE 'ring%'".encode())
    expected = [channels.owner_channel("owner-é"), channels.NEW_JOBS, channels.queue_channel("light-é")]
    assert sorted(heard) == sorted(expected)


def test_a_start_is_marked_once_and_only_by_the_holder(conn: Conn) -> None:
    add(conn, "t")
    tasks.claim_tasks(conn, "w", QUEUE, 1)
    assert tasks.start_tasks(conn, "other", [("t", 1)]) == set()
    assert tasks.start_tasks(conn, "w", [("t", 2)]) == set()
    assert tasks.start_tasks(conn, "w", [("t", 1)]) == {"t"}
    first = conn.execute("SELECT started_at FROM dag_queue_messages").fetchone()
    assert tasks.start_tasks(conn, "w", [("t", 1)]) == {"t"}, "the answer may have been lost"
    assert conn.execute("SELECT started_at FROM dag_queue_messages").fetchone() == first
    assert [kind for _, kind, _ in inbox(conn, "t")] == ["task_started"]


def test_a_task_that_never_ran_goes_back_silently(conn: Conn) -> None:
    add(conn, "t")
    tasks.claim_tasks(conn, "w", QUEUE, 1)
    tasks.release_tasks(conn, "other", [("t", 1, None)])
    assert tasks.claim_tasks(conn, "w2", QUEUE, 1) == []
    tasks.release_tasks(conn, "w", [("t", 1, None)])
    assert inbox(conn, "t") == []
    assert tasks.claim_tasks(conn, "w2", QUEUE, 1)[0].lease_epoch == 2


@pytest.mark.parametrize("delay", [0.0, 60.0])
def test_the_owner_knows_when_a_task_that_ran_goes_back(conn: Conn, delay: float) -> None:
    add(conn, "t")
    tasks.claim_tasks(conn, "w", QUEUE, 1)
    tasks.start_tasks(conn, "w", [("t", 1)])
    tasks.release_tasks(conn, "w", [("t", 1, delay)])
    kind, told = inbox(conn, "t")[-1][1:]
    assert (kind, told["delay_seconds"]) == ("task_snoozed", delay)
    assert bool(tasks.claim_tasks(conn, "w", QUEUE, 1)) == (delay == 0.0)


def test_the_row_knows_that_a_task_ran_even_if_its_worker_has_forgotten(conn: Conn) -> None:
    add(conn, "t")
    tasks.claim_tasks(conn, "w", QUEUE, 1)
    tasks.start_tasks(conn, "w", [("t", 1)])
    assert tasks.release_tasks(conn, "w", [("t", 1, None)]) == {"t"}
    assert [(kind, told.get("delay_seconds"), told.get("reason")) for _, kind, told in inbox(conn, "t")] == [
        ("task_started", None, None),
        ("task_snoozed", 0, "given_back"),
    ]


def test_a_task_that_was_told_to_stop_is_withdrawn_instead_of_given_back(conn: Conn) -> None:
    add(conn, "t", cancel_requested=True)
    tasks.claim_tasks(conn, "w", QUEUE, 1)
    assert workers.held_tasks(conn, "w") == [("t", 1, True)]
    tasks.release_tasks(conn, "w", [("t", 1, None)])
    assert [kind for _, kind, _ in inbox(conn, "t")] == ["task_withdrawn"]
    assert workers.held_tasks(conn, "w") == []


def test_progress_makes_a_row_that_becomes_the_result(conn: Conn) -> None:
    add(conn, "t")
    tasks.claim_tasks(conn, "w", QUEUE, 1)
    for current in (1, 2):
        workers.save_progress_if_held(conn, "w", [TaskProgress("t", 1, current, 4, current * 25.0, "so far")])
    assert results(conn, "t") == [(1, "running", "w", None)]
    tasks.report_tasks(conn, "w", [done("t", 1)])
    workers.save_progress_if_held(conn, "w", [TaskProgress("t", 1, 3, 4, 75.0, "late")])
    row = conn.execute("SELECT status, progress_current, progress_message FROM dag_task_results").fetchone()
    assert row == ("completed", 2, "so far")


@pytest.mark.parametrize(("cancel_requested", "status"), [(False, "stale"), (True, "cancelled")])
def test_a_lease_that_showed_progress_and_was_given_back_is_over(
    conn: Conn, cancel_requested: bool, status: str
) -> None:
    add(conn, "t", cancel_requested=cancel_requested)
    tasks.claim_tasks(conn, "w", QUEUE, 1)
    workers.save_progress_if_held(conn, "w", [TaskProgress("t", 1, 1, 4, 25.0, None)])
    tasks.release_tasks(conn, "w", [("t", 1, 0.0)])
    assert results(conn, "t") == [(1, status, "w", None)]


def test_progress_of_others_is_not_kept(conn: Conn) -> None:
    add(conn, "t")
    tasks.claim_tasks(conn, "w", QUEUE, 1)
    workers.save_progress_if_held(conn, "w", [TaskProgress("t", 2, 1, None, None, None)])
    workers.save_progress_if_held(conn, "other", [TaskProgress("t", 1, 1, None, None, None)])
    assert results(conn, "t") == []


@pytest.mark.parametrize("size", [10, 30_000])
def test_a_checkpoint_is_kept_told_and_stands_on_the_row(conn: Conn, size: int) -> None:
    add(conn, "t")
    tasks.claim_tasks(conn, "w", QUEUE, 1)
    data = {"x": "y" * size}
    text = json.dumps(data).encode()
    assert not workers.save_checkpoint_if_held(conn, "w", "t", 2, "p", text, None)
    assert not workers.save_checkpoint_if_held(conn, "other", "t", 1, "p", text, None)
    assert workers.save_checkpoint_if_held(conn, "w", "t", 1, "p", text, "a" * 64)
    ((owner_id, kind, told),) = inbox(conn, "t")
    assert (owner_id, kind, told["phase"]) == ("o", "task_checkpointed", "p")
    assert (workers.read_checkpoint(conn, told["checkpoint_id"]) if size > 10_000 else told["data"]) == data
    tasks.release_tasks(conn, "w", [("t", 1, None)])
    (again,) = tasks.claim_tasks(conn, "w", QUEUE, 1)
    assert (again.checkpoint_phase, again.checkpoint_data) == ("p", data)


def test_the_dead_lose_what_they_hold_each_lease_once(conn: Conn) -> None:
    workers.register_worker(conn, "w", "host", 1, "1", 2, [QUEUE])
    for task_id in ("t1", "t2"):
        add(conn, task_id)
    tasks.claim_tasks(conn, "w", QUEUE, 2)
    tasks.start_tasks(conn, "w", [("t1", 1)])
    workers.save_progress_if_held(conn, "w", [TaskProgress("t1", 1, 1, 2, 50.0, None)])
    processes.remove_workers(conn, ["w"])
    assert tasks.report_lost_tasks(conn, ["w"]) == 2
    assert tasks.report_lost_tasks(conn, ["w"]) == 0
    assert workers.beat_if_registered(conn, "w", {}, draining=False) is BeatAnswer.GONE
    assert [inbox(conn, task_id)[-1][2]["started"] for task_id in ("t1", "t2")] == [True, False]
    assert results(conn, "t1") == [(1, "lost", "w", None)]
    assert tasks.report_tasks(conn, "w", [done("t1", 1), done("t2", 1)]) == set()


def test_handlers_are_registered_and_written_only_when_they_change(conn: Conn) -> None:
    manifest = {
        "handler": "raster.validate",
        "queue": "light",
        "version": "1",
        "description": "",
        "aliases": ["raster_validate"],
        "params_schema": {},
    }
    workers.register_handlers(conn, [manifest])
    before = conn.execute("SELECT xmin, ctid FROM dag_handlers").fetchone()
    workers.register_handlers(conn, [manifest])
    assert conn.execute("SELECT xmin, ctid FROM dag_handlers").fetchone() == before
    workers.register_handlers(conn, [{**manifest, "version": "2"}])
    assert conn.execute("SELECT version, aliases FROM dag_handlers").fetchone() == ("2", ["raster_validate"])


def test_logs_are_kept_with_their_namespace(conn: Conn) -> None:
    chunks = [LogChunk("t", 1, n, "j", "n", "mine", 1, n == 1, f"line {n}\n") for n in range(2)]
    workers.insert_logs(conn, chunks)
    rows = conn.execute("SELECT content, truncated, namespace FROM dag_task_logs ORDER BY chunk_index").fetchall()
    assert rows == [("line 0\n", False, "mine"), ("line 1\n", True, "mine")]


def test_values_of_a_report_stand_in_the_fields_of_their_names() -> None:
    values: dict[str, Any] = {name: name for name in TaskReport._fields}
    texts = ("output", "records", "error", "warnings")
    row = tasks._report_row(TaskReport(**values | {name: f'"{name}"'.encode() for name in texts}), position=7)
    expected: dict[str, Any] = {name: name for name in TaskReportRow._fields} | {"position": 7}
    assert dict(zip(row._fields, orjson.loads(encode_rows([row]))[0], strict=True)) == expected | {
        "payload": {
            "ok": False,
            "ms": "duration_ms",
            "kind": "error_kind",
            "error": "error_message",
            "cause": "error",
            "out": "output",
            "publishes": True,
            "warnings": "warnings",
        }
    }


def test_reports_find_their_rows_by_key_and_not_among_all_that_the_worker_holds(conn: Conn) -> None:
    """What a worker ever held stands under one key of the index of held rows until it is vacuumed."""
    conn.execute(
        "INSERT INTO dag_queue_messages (task_id, job_id, node_id, queue, handler, order_key, fairness_key, worker_id,"
        " claimed_at, lease_epoch) SELECT 't' || n, 'j', 'n', 'q', 'echo', n, 'me', 'w' || n % 3, now(), 1"
        " FROM generate_series(1, 5000) n"
    )
    conn.execute("ANALYZE dag_queue_messages")
    queries = [
        (tasks.SQL, "report_tasks", "reports"),
        (tasks.SQL, "start_tasks", "tasks"),
        (tasks.SQL, "release_tasks", "tasks"),
        (workers.SQL, "save_progress", "progress"),
    ]
    for statements, name, parameter in queries:
        given = {"worker_id": "w1", parameter: '[["t1", 1, "completed", null, null, 0, null, null, 0, {}, 0]]'}
        plan = "\n".join(line for (line,) in conn.execute(b"EXPLAIN " + statements[name], given))
        assert "dag_queue_messages_pkey" in plan, name
        assert "dag_queue_messages_held_idx" not in plan, name
        assert "Seq Scan on dag_queue_messages" not in plan, name


def test_records_are_kept_with_the_result_and_announced_in_the_inbox(conn: Conn) -> None:
    for task_id in ("plain", "publishing"):
        add(conn, task_id, 1)
    tasks.claim_tasks(conn, "w", QUEUE, 10)
    tasks.report_tasks(conn, "w", [done("plain", 1), done("publishing", 1, records=b'[{"type":"blob"}]')])
    kept = conn.execute("SELECT task_id, records FROM dag_task_results ORDER BY task_id").fetchall()
    assert kept == [("plain", None), ("publishing", [{"type": "blob"}])]
    [(_, _, plain)], [(_, _, publishing)] = inbox(conn, "plain"), inbox(conn, "publishing")
    assert tasks.PUBLISHES not in plain
    assert publishing[tasks.PUBLISHES] is True


def test_a_worker_that_leaves_gives_back_what_it_never_saw(conn: Conn) -> None:
    """A claim that was under way when it decided to go: nobody lost anything."""
    conn.execute("INSERT INTO dag_workers (worker_id, host, process_id, version, slots) VALUES ('w', 'h', 1, '0', 1)")
    add(conn, "t1")
    add(conn, "t2", cancel_requested=True)
    tasks.claim_tasks(conn, "w", QUEUE, 2)
    assert workers.unregister_worker(conn, "w") == 2
    assert conn.execute("SELECT FROM dag_workers").fetchone() is None
    assert inbox(conn, "t1") == []
    assert [kind for _, kind, _ in inbox(conn, "t2")] == ["task_withdrawn"]
    (again,) = tasks.claim_tasks(conn, "other", QUEUE, 2)
    assert (again.task_id, again.lease_losses) == ("t1", 0)
