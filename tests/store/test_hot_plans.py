"""The statements of the hot path on large tables: they walk an index and touch few pages, whenever they were planned.

Processes prepare their statements when they start, perhaps on empty tables, and keep the plan while the tables grow;
and tables may grow faster than anybody analyses them. So each statement is looked at three times.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import orjson
import pytest
from psycopg import sql

from rmhdag.models.leases import ReturnedLease
from rmhdag.models.states import JobStatus, NodeStatus, TaskStatus
from rmhdag.store import inbox, jobs, processes, reruns, retention, settle, tasks, unused_payloads, upkeep
from rmhdag.store.batch_rows import (
    ChildCancellation,
    CommandAnswer,
    HeldJob,
    JobChange,
    JobWarnings,
    LeaseKey,
    NodeChange,
    ParentNotice,
    PieceOfFanOut,
    QueuedTaskRow,
    RequeuedTask,
    TaskReportRow,
    encode_rows,
)
from rmhdag.store.connection import Conn, connect, enter_schema
from rmhdag.store.retention import Place

ROWS = 200_000
BATCH = 200
BIG = {"dag_jobs", "dag_node_states", "dag_queue_messages", "dag_inbox", "dag_task_results", "dag_payloads"}
PARAMETER = re.compile(r"%\((\w+)\)s")
# Finished jobs of a long past and the 2,000 that five orchestrators own now; ten workers hold 200 tasks each.
FILL = f"""
INSERT INTO dag_jobs (job_id, workflow_id, workflow_version, workflow_hash, fairness_key, submitted_by, root_job_id,
    owner_id, owner_epoch, status, started_at, completed_at)
  SELECT 'j' || n, 'w', 1, 'h', 'me', 'me', 'j' || n, CASE WHEN n % 100 <> 50 THEN 'o' || n % 5 END, 1,
    CASE WHEN n % 100 = 0 THEN 'running' WHEN n % 100 = 50 THEN 'pending' ELSE 'completed' END::job_status,
    CASE WHEN n % 100 <> 50 THEN now() END, CASE WHEN n % 50 <> 0 THEN now() - n / 100 * interval '1 second' END
  FROM generate_series(1, {ROWS}) n;
INSERT INTO dag_node_states (job_id, node_id, status, task_id, next_attempt_at, deadline_at, completed_at)
  SELECT 'j' || n, 'n', CASE WHEN n % 100 = 0 THEN 'dispatched' ELSE 'completed' END::node_status, 't' || n,
    CASE WHEN n % 2000 = 0 THEN now() END, CASE WHEN n % 2000 = 100 THEN now() END,
    CASE WHEN n % 100 <> 0 THEN now() END
  FROM generate_series(1, {ROWS}) n;
INSERT INTO dag_node_states (job_id, node_id, parent_node_id, fan_out_index, status)
  SELECT 'j' || 1000 + n % 2, 's__' || n / 2, 's', n / 2, 'ready' FROM generate_series(0, {ROWS} / 5 - 1) n;
INSERT INTO dag_queue_messages (task_id, job_id, node_id, queue, handler, order_key, fairness_key, worker_id,
    claimed_at, lease_epoch)
  SELECT 't' || n, 'j' || n, 'n', 'q' || n % 2, 'echo', n, 'me', CASE WHEN n % 100 = 0 THEN 'w' || n / 100 % 10 END,
    CASE WHEN n % 100 = 0 THEN now() END, CASE WHEN n % 100 = 0 THEN 1 ELSE 0 END
  FROM generate_series(1, {ROWS}) n;
INSERT INTO dag_inbox (owner_id, job_id, kind, task_id, lease_epoch)
  SELECT 'o' || n % 5, 'j' || n, 'task_started', 't' || n, 1 FROM generate_series(1, {ROWS}) n;
INSERT INTO dag_job_commands (command_id, job_id, kind, issued_by)
  SELECT 'c' || n, 'j' || n, 'cancel', 'me' FROM generate_series(100, {ROWS}, 100) n;
INSERT INTO dag_rollup_marks (namespace, rolled_up_to) VALUES ('default', now() + interval '1 day');
INSERT INTO dag_payloads (sha256, chunk_index, chunk_count, size_bytes, data)
  SELECT lpad(n::text, 64, '0'), 0, 1, 1, 'x' FROM generate_series(1, {ROWS}) n;
INSERT INTO dag_task_results (task_id, lease_epoch, job_id, node_id, attempt, status)
  SELECT 'r' || n, 1, 'j' || n, 'n', 1, 'completed' FROM generate_series(1, {ROWS}) n;
"""
HELD = [n * 1_000 for n in range(1, BATCH + 1)]  # by worker w0, in jobs of owner o0
ENDED = [f"j{n * 7 * 100 + 1}" for n in range(1, BATCH + 1)]
NOW = "2026-01-01T00:00:00+00:00"


class Hot(NamedTuple):
    queries: dict[str, bytes]
    name: str
    given: dict[str, Any]
    pages_per_row: int = 60
    rows: int = BATCH


def rows(make: Callable[[int], tuple[Any, ...]]) -> str:
    """One row per held task, made from its number."""
    return encode_rows(map(make, HELD))


def job(n: int) -> str:
    return f"j{n}"


def task(n: int) -> str:
    return f"t{n}"


NODES = rows(lambda n: NodeChange(job(n), "n", NodeStatus.COMPLETED, 1))
QUEUED = rows(
    lambda n: QueuedTaskRow(
        task_id=f"new{n}",
        job_id=job(n),
        node_id="n",
        queue="q1",
        handler="echo",
        order_key=1,
        attempt=2,
        lease_losses=0,
        timeout_seconds=60,
        priority=0,
        fairness_key="me",
        namespace="default",
        params={},
    )
)
REPORTS = rows(
    lambda n: TaskReportRow(
        task_id=task(n),
        lease_epoch=1,
        status=TaskStatus.COMPLETED,
        error_kind=None,
        error_message=None,
        duration_ms=0,
        output=orjson.Fragment(b"{}"),
        metrics=None,
        started_ms_ago=0.0,
        payload={"ok": True},
        position=0,
    )
)
PIECES = encode_rows([PieceOfFanOut("j1000", "s", 2_000, 7_000), PieceOfFanOut("j1001", "s", 15_000, 20_000)])
# As many names and aliases as come with rmhdag.
OURS = tasks.as_keys(frozenset(["echo", *(f"handler.of_ours_{n}" for n in range(120))]))
CLAIM = {"worker_id": "w", "queue": "q1", "limit": BATCH, "mark": 0, "namespace": None, "handlers": OURS}
HOT = [
    Hot(tasks.SQL, "claim_unwatched_tasks", CLAIM),
    Hot(tasks.SQL, "claim_tasks", CLAIM),
    Hot(tasks.SQL, "claim_tasks_by_handler", CLAIM),
    Hot(tasks.SQL, "other_handler_waits", {"queue": "q1", "handlers": OURS}, rows=1),
    Hot(tasks.SQL, "report_tasks", {"worker_id": "w0", "reports": REPORTS}),
    Hot(tasks.SQL, "start_tasks", {"worker_id": "w0", "tasks": rows(lambda n: LeaseKey(task(n), 1))}),
    Hot(tasks.SQL, "release_tasks", {"worker_id": "w0", "tasks": rows(lambda n: ReturnedLease(task(n), 1))}),
    Hot(tasks.SQL, "report_lost_tasks", {"workers": ["w0"]}),
    Hot(tasks.SQL, "current_leases", {"tasks": [task(n) for n in HELD]}),
    Hot(tasks.SQL, "offer_due_tasks", {}, rows=1),
    Hot(tasks.SQL, "first_waiting", {"queue": "q1", "after": 0}, rows=1),
    Hot(inbox.SQL, "read_inbox", {"me": "o0", "mark": 0, "limit": BATCH}),
    Hot(inbox.SQL, "due_timers", {"me": "o0", "limit": BATCH, "deadlines": True}),
    Hot(jobs.SQL, "claim_unowned_jobs", {"me": "o9", "limit": BATCH, "after": ""}),
    Hot(jobs.SQL, "claim_orphaned_jobs", {"me": "o9", "dead": ["o0"], "limit": BATCH}),
    Hot(jobs.SQL, "load_jobs", {"me": "o0", "jobs": [job(n) for n in HELD], "bytes": 10**6}),
    Hot(
        jobs.SQL,
        "load_nodes",
        {
            "turns": HELD,
            "jobs": [job(n) for n in HELD],
            "nodes": ["n"] * BATCH,
            "are_read": [True] * BATCH,
            "bytes": 10**6,
        },
    ),
    Hot(jobs.SQL, "load_children", {"pieces": PIECES, "statuses": jobs.STATUSES}, pages_per_row=4, rows=10_000),
    Hot(jobs.SQL, "last_event_numbers", {"jobs": [job(n) for n in HELD]}),
    Hot(
        reruns.SQL,
        "finished_children",
        {"job_id": "j1000", "fan_out": "s", "after": 10_000, "limit": BATCH},
        rows=10_000,
    ),
    Hot(reruns.SQL, "fan_out_totals", {"jobs": [job(n) for n in HELD], "nodes": ["n"] * BATCH}),
    Hot(
        settle.SQL, "lock_jobs_and_inbox", {"me": "o0", "held": rows(lambda n: HeldJob(job(n), 1)), "inbox": list(HELD)}
    ),
    Hot(settle.SQL, "update_jobs", {"jobs": rows(lambda n: JobChange(job(n), JobStatus.RUNNING)), "now": NOW}),
    Hot(settle.SQL, "update_job_warnings", {"jobs": rows(lambda n: JobWarnings(job(n), []))}),
    Hot(settle.SQL, "notify_parents", {"parents": rows(lambda n: ParentNotice(job(n), "n", {}))}),
    Hot(settle.SQL, "cancel_child_jobs", {"children": rows(lambda n: ChildCancellation(job(n), {}))}),
    Hot(settle.SQL, "answer_commands", {"answers": rows(lambda n: CommandAnswer(f"c{n}", "applied", "")), "now": NOW}),
    Hot(settle.SQL, "update_nodes", {"nodes": NODES, "now": NOW}),
    Hot(settle.SQL, "insert_tasks", {"tasks": QUEUED}),
    Hot(settle.SQL, "insert_tasks_from_nodes", {"tasks": QUEUED}),
    Hot(settle.SQL, "requeue_tasks", {"tasks": rows(lambda n: RequeuedTask(task(n), 1, lease_losses=1, order_key=1))}),
    Hot(settle.SQL, "revoke_tasks", {"tasks": [task(n) for n in HELD]}),
    Hot(settle.SQL, "withdraw_unclaimed_tasks", {"me": "o0", "jobs": [job(n) for n in HELD]}),
    Hot(settle.SQL, "tell_tasks_to_stop", {"me": "o0", "jobs": [job(n) for n in HELD]}),
    # Five owners and ten workers, however many jobs and tasks they have; what was tried above left dead rows of others.
    Hot(processes.SQL, "owners_without_heartbeat", {}, rows=10),
    Hot(processes.SQL, "workers_without_heartbeat", {}, rows=10),
    Hot(
        upkeep.SQL,
        "jobs_without_progress",
        {"me": "o0", "seconds": 3600, "after": "", "limit": 100},
        pages_per_row=10,
        rows=2_000,
    ),
    # All of 196,000 finished jobs are old enough; no more is read than is deleted.
    Hot(retention.SQL, "expired_jobs", {"days": -1, "limit": BATCH, **Place()._asdict()}, pages_per_row=15),
    Hot(retention.SQL, "is_waiting_for_metrics", {"days": 30}, rows=1),
    Hot(retention.SQL, "oldest_job", {}, rows=1),
    Hot(retention.SQL, "lock_expired_jobs", {"jobs": ENDED}),
    Hot(retention.SQL, "take_out_jobs", {"jobs": ENDED, "days": -1}),
    *(
        Hot(retention.SQL, name, {"jobs": ENDED, "namespaces": ["default"] * BATCH, "limit": 5_000})
        for name in (*retention.OF_JOBS, *retention.OF_JOBS_BY_DAY)
    ),
    Hot(unused_payloads.SQL, "next_payloads", {"days": 1, "limit": BATCH, "namespace": "", "sha256": ""}),
]


@pytest.fixture
def planner(migrated_database: str) -> Iterator[Conn]:
    with connect(
        migrated_database, "test", autocommit=True, statement_timeout_seconds=60, reads_whole_tables=False
    ) as conn:
        enter_schema(conn, "dagapp")
        for table in BIG:
            conn.execute(f"ALTER TABLE {table} SET (autovacuum_enabled = false)".encode())
        # As the driver's prepared statements are planned, once and for whatever is given.
        conn.execute("SET plan_cache_mode = force_generic_plan")
        yield conn


def prepare(conn: Conn, hot: Hot) -> None:
    query = hot.queries[hot.name].decode()
    names = list(dict.fromkeys(PARAMETER.findall(query)))
    numbered = PARAMETER.sub(lambda found: f"${names.index(found[1]) + 1}", query).replace("%%", "%")
    conn.execute(f"PREPARE {hot.name} AS {numbered}".encode())


def explain(conn: Conn, hot: Hot) -> dict[str, Any]:
    names = dict.fromkeys(PARAMETER.findall(hot.queries[hot.name].decode()))
    given = sql.SQL(", ").join(sql.Literal(hot.given[name]) for name in names)
    called = sql.SQL("{}({})").format(sql.SQL(hot.name), given) if names else sql.SQL(hot.name)
    with conn.transaction(force_rollback=True):
        row = conn.execute(sql.SQL("EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) EXECUTE {}").format(called)).fetchone()
    assert row is not None
    found: dict[str, Any] = row[0][0]["Plan"]
    return found


def scanned(plan: dict[str, Any]) -> set[str]:
    """The tables that are read from one end to the other."""
    whole = {plan["Relation Name"]} if plan["Node Type"] == "Seq Scan" else set()
    return whole.union(*(scanned(part) for part in plan.get("Plans", [])))


def comparisons(plan: dict[str, Any]) -> int:
    """Rows that were looked at and thrown away again: they cost time even where they lie on few pages."""
    own = plan.get("Rows Removed by Filter", 0) + plan.get("Rows Removed by Join Filter", 0)
    return int(own * plan["Actual Loops"]) + sum(map(comparisons, plan.get("Plans", [])))


def pages(plan: dict[str, Any]) -> int:
    return int(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])


def troubles(conn: Conn, when: str) -> list[str]:
    found = []
    for hot in HOT:
        plan = explain(conn, hot)
        if scanned(plan) & BIG:
            found.append(f"{when}: {hot.name} reads all of {', '.join(sorted(scanned(plan) & BIG))}")
        elif pages(plan) > hot.pages_per_row * hot.rows:
            found.append(f"{when}: {hot.name} touches {pages(plan)} pages for {hot.rows} rows")
        elif comparisons(plan) > 100 * hot.rows:
            found.append(f"{when}: {hot.name} throws {comparisons(plan)} rows away for {hot.rows} rows")
    return found


@pytest.mark.timeout(180)
def test_hot_statements_walk_an_index_whenever_they_were_planned(planner: Conn) -> None:
    for hot in HOT:
        prepare(planner, hot)
        explain(planner, hot)
    planner.execute(FILL.encode())
    found = troubles(planner, "planned while empty")
    planner.execute("DISCARD PLANS")
    found += troubles(planner, "never analysed")
    planner.execute("ANALYZE")
    found += troubles(planner, "analysed")
    assert not found, "\n".join(found)


# Retries and deadlines of two orchestrators, all of them due.
DUE = 20_000
FILL_DUE = f"""
INSERT INTO dag_jobs (job_id, workflow_id, workflow_version, workflow_hash, fairness_key, submitted_by, root_job_id,
    owner_id, owner_epoch, status, started_at)
  SELECT 'd' || n, 'w', 1, 'h', 'me', 'me', 'd' || n, 'o' || n % 2, 1, 'running', now()
  FROM generate_series(1, {DUE}) n;
INSERT INTO dag_node_states (job_id, node_id, status, task_id, next_attempt_at, deadline_at)
  SELECT 'd' || n, 'n', CASE WHEN n % 4 < 2 THEN 'running' ELSE 'ready' END::node_status, 'd' || n,
    CASE WHEN n % 4 >= 2 THEN now() - n * interval '1 s' END, CASE WHEN n % 4 < 2 THEN now() - n * interval '1 s' END
  FROM generate_series(1, {DUE}) n;
INSERT INTO dag_queue_messages (task_id, job_id, node_id, queue, handler, order_key, fairness_key, worker_id,
    claimed_at, started_at, lease_epoch)
  SELECT 'd' || n, 'd' || n, 'n', 'q', 'echo', n, 'me', 'w', now(), now() - interval '1 day', 1
  FROM generate_series(1, {DUE}) n;
"""
TIMERS = Hot(inbox.SQL, "due_timers", {"me": "o0", "limit": BATCH, "deadlines": True})


@pytest.mark.timeout(120)
def test_timers_are_read_up_to_the_limit_whoever_else_has_some_that_are_due(planner: Conn) -> None:
    prepare(planner, TIMERS)
    explain(planner, TIMERS)
    planner.execute(FILL_DUE.encode())
    seen = {"planned while empty": explain(planner, TIMERS)}
    planner.execute("DISCARD PLANS")
    seen["never analysed"] = explain(planner, TIMERS)
    planner.execute("ANALYZE")
    seen["analysed"] = explain(planner, TIMERS)
    assert {when: plan["Actual Rows"] for when, plan in seen.items()} == dict.fromkeys(seen, 2 * BATCH)
    # Each of mine comes with one of the others: a node, a job, a queue row.
    assert {when: pages(plan) for when, plan in seen.items() if pages(plan) > 2 * BATCH * 2 * 15} == {}


# In front of every task of ours stand 100 of handlers that we do not have, and most of them in front of all.
FILL_MIXED = f"""
INSERT INTO dag_jobs (job_id, workflow_id, workflow_version, workflow_hash, fairness_key, submitted_by, root_job_id,
    owner_id, owner_epoch, status, started_at)
  VALUES ('m', 'w', 1, 'h', 'me', 'me', 'm', 'o', 1, 'running', now());
INSERT INTO dag_queue_messages (task_id, job_id, node_id, queue, handler, order_key, fairness_key)
  SELECT 'm' || n, 'm', 'n' || n, 'mixed',
    CASE WHEN n > {ROWS // 2} AND n % 100 = 0 THEN CASE WHEN n % 200 = 0 THEN 'echo' ELSE 'handler.of_ours_7' END
      ELSE 'other.' || n % 3 END, n, 'me'
  FROM generate_series(1, {ROWS}) n;
"""
# A claim looks for each of 121 handlers, and a batch of 200 looks at 450 tasks.
MIXED = [
    (Hot(tasks.SQL, "claim_tasks_by_handler", {**CLAIM, "queue": "mixed"}), BATCH, 12_000),
    (Hot(tasks.SQL, "claim_tasks_by_handler", {**CLAIM, "queue": "mixed", "limit": 1}), 1, 1_000),
    (Hot(tasks.SQL, "other_handler_waits", {"queue": "mixed", "handlers": OURS}), 1, 60),
]


@pytest.mark.timeout(120)
def test_a_claim_does_not_walk_past_the_tasks_of_handlers_that_the_worker_does_not_have(planner: Conn) -> None:
    for hot in {hot.name: hot for hot, _, _ in MIXED}.values():
        prepare(planner, hot)
        explain(planner, hot)
    planner.execute(FILL_MIXED.encode())

    def look(when: str) -> list[str]:
        plans = [(hot, rows, most, explain(planner, hot)) for hot, rows, most in MIXED]
        return [
            f"{when}: {hot.name} finds {plan['Actual Rows']} rows and touches {pages(plan)} pages"
            for hot, rows, most, plan in plans
            if plan["Actual Rows"] != rows or pages(plan) > most
        ]

    found = look("planned while empty")
    planner.execute("DISCARD PLANS")
    found += look("never analysed")
    planner.execute("ANALYZE")
    found += look("analysed")
    assert not found, "\n".join(found)
