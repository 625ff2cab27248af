"""What takes minutes and is measured only by name: much history, many idle jobs, a transaction that never ends."""

from __future__ import annotations

import time
from statistics import median
from typing import Any

from rmhdag.lab.bench import workflows
from rmhdag.lab.bench.measures import compare
from rmhdag.lab.bench.rig import Rig, Server, open_bench_connection
from rmhdag.lab.bench.scenarios import Numbers, Sizes, warm_up

NODES_PER_JOB = 10
# Jobs that ended yesterday; ids sort before those of today, as they would.
HISTORY = """
INSERT INTO dag_jobs (job_id, workflow_id, workflow_version, workflow_hash, status, fairness_key, submitted_by,
    root_job_id, owner_epoch, created_at, started_at, completed_at)
SELECT 'old-' || lpad(j::text, 28, '0'), 'old', 1, repeat('0', 64), 'completed', 'old', 'old',
    'old-' || lpad(j::text, 28, '0'), 1, now() - interval '1 day', now() - interval '1 day', now() - interval '23 hours'
FROM generate_series(1, {jobs}) AS j;
INSERT INTO dag_node_states (job_id, node_id, status, task_id, created_at, ready_at, dispatched_at, started_at,
    completed_at, input_params)
SELECT 'old-' || lpad(j::text, 28, '0'), 'n' || n, 'completed', 'old-' || lpad(j::text, 28, '0') || '-' || n,
    now() - interval '1 day', now() - interval '1 day', now() - interval '1 day', now() - interval '1 day',
    now() - interval '23 hours', '{{"x": 1}}'
FROM generate_series(1, {jobs}) AS j, generate_series(0, {nodes} - 1) AS n;
INSERT INTO dag_task_results (task_id, lease_epoch, job_id, node_id, attempt, status, worker_id, execution_duration_ms,
    started_at, reported_at, output)
SELECT 'old-' || lpad(j::text, 28, '0') || '-' || n, 1, 'old-' || lpad(j::text, 28, '0'), 'n' || n, 1, 'completed',
    'old', 0, now() - interval '1 day', now() - interval '1 day', '{{"echoed_params": {{"x": 1}}}}'
FROM generate_series(1, {jobs}) AS j, generate_series(0, {nodes} - 1) AS n;
INSERT INTO dag_job_events (job_id, seq, created_at, event_type, event_status, node_id, source_app)
SELECT 'old-' || lpad(j::text, 28, '0'), 3 * n + k, now() - interval '1 minute', 'node_completed', 'success', 'n' || n,
    'history'
FROM generate_series(1, {jobs}) AS j, generate_series(0, {nodes} - 1) AS n, generate_series(1, 3) AS k;
"""


def measure_history(server: Server, sizes: Sizes) -> Numbers:
    """Throughput with a million finished nodes in the tables, against empty tables."""
    with Rig(server) as empty, Rig(server) as full:
        full.conn.execute(HISTORY.format(jobs=sizes.history_nodes // NODES_PER_JOB, nodes=NODES_PER_JOB).encode())
        full.conn.execute("VACUUM ANALYZE")
        full.conn.execute("CHECKPOINT")
        return {"history_nodes": sizes.history_nodes} | _compare_chains(empty, full, sizes)


def measure_idle_jobs(server: Server, sizes: Sizes) -> Numbers:
    """Many active jobs that wait: what they cost while nothing happens, and what they cost the others."""
    with Rig(server) as empty, Rig(server) as full:
        stored = full.register(workflows.idle())
        for _ in range(sizes.idle_jobs // 500):
            full.submit(stored, 500)
        count = sizes.idle_jobs // 500 * 500
        waiting = f"SELECT count(*) = {count} FROM dag_node_states WHERE node_id = 'wait' AND status = 'running'"
        full.wait_until(waiting, 300)
        time.sleep(2)
        cpu, began = full.orchestrator_cpu_seconds(), time.perf_counter()
        time.sleep(sizes.idle_seconds)
        share = (full.orchestrator_cpu_seconds() - cpu) / (time.perf_counter() - began)
        numbers = {"idle_jobs": sizes.idle_jobs, "idle_core_percent": round(share * 100, 2)}
        return numbers | _compare_chains(empty, full, sizes)


def _compare_chains(empty: Rig, full: Rig, sizes: Sizes) -> Numbers:
    tasks = sizes.chain_jobs * sizes.chain_length
    stored = [rig.register(workflows.chain(sizes.chain_length)) for rig in (empty, full)]
    for rig in (empty, full):
        warm_up(rig)
    compared = compare(
        lambda: tasks / empty.seconds_for(stored[0], sizes.chain_jobs),
        lambda: tasks / full.seconds_for(stored[1], sizes.chain_jobs),
        sizes.pairs,
    )
    return {
        "empty_tasks_per_second": round(compared["first"], 1),
        "tasks_per_second": round(compared["second"], 1),
        "ratio_to_empty": round(compared["ratio"], 3),
        "pairs": compared["pairs"],
    }


def measure_pinned(server: Server, sizes: Sizes) -> Numbers:
    """A forgotten transaction keeps every dead row in the tables: is the end as fast as the beginning?"""
    with Rig(server) as rig:
        warm_up(rig)
        stored = rig.register(workflows.chain(sizes.chain_length))
        forgotten = open_bench_connection(rig.dsn)
        forgotten.execute("SET idle_in_transaction_session_timeout = 0")
        forgotten.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        forgotten.execute("SELECT count(*) FROM dag_jobs")
        wave = sizes.pinned_slice // (4 * sizes.chain_length)
        rates = [
            wave * sizes.chain_length / rig.seconds_for(stored, wave)
            for _ in range(max(2, sizes.pinned_tasks // (wave * sizes.chain_length)))
        ]
        forgotten.close()
    first, last = median(rates[:4]), median(rates[-4:])
    numbers: dict[str, Any] = {
        "tasks": len(rates) * wave * sizes.chain_length,
        "first_tasks_per_second": round(first, 1),
        "last_tasks_per_second": round(last, 1),
        "ratio": round(last / first, 3),
    }
    return numbers


def _number(rig: Rig, query: str) -> int:
    row = rig.conn.execute(query.encode()).fetchone()
    assert row is not None
    return int(row[0])


def measure_retention(server: Server, sizes: Sizes) -> Numbers:
    """Expired jobs with their nodes and results are deleted while chains run, and what that costs the chains."""
    jobs = sizes.expired_jobs
    rig = Rig(server, retention_days=0.5, pruning_seconds=1.0, rollup_seconds=1.0)
    rig.conn.execute(HISTORY.format(jobs=jobs, nodes=NODES_PER_JOB).encode())
    rig.conn.execute("VACUUM ANALYZE")
    rig.conn.execute("CHECKPOINT")
    query = "SELECT (SELECT count(*) FROM dag_jobs WHERE workflow_id = 'old') + (SELECT count(*) FROM dag_pruned_jobs)"
    with rig:
        warm_up(rig)
        stored = rig.register(workflows.chain(sizes.chain_length))
        tasks = sizes.chain_jobs * sizes.chain_length
        rates: list[float] = []
        began, before = time.perf_counter(), _number(rig, query)
        while _number(rig, query):
            rates.append(tasks / rig.seconds_for(stored, sizes.chain_jobs))
        seconds = time.perf_counter() - began
        alone = [tasks / rig.seconds_for(stored, sizes.chain_jobs) for _ in rates[:5]]
    return {
        "expired_jobs": jobs,
        "nodes_per_job": NODES_PER_JOB,
        "jobs_deleted_per_minute": round(before / seconds * 60),
        "tasks_per_second_meanwhile": round(median(rates), 1),
        "tasks_per_second_afterwards": round(median(alone), 1),
        "ratio": round(median(rates) / median(alone), 3),
    }
