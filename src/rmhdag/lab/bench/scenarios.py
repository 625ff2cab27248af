"""What is measured by default: throughput against the floor, latencies, and who suffers from whom."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import Any

from rmhdag.lab.bench import workflows
from rmhdag.lab.bench.bare_hop import BareHop
from rmhdag.lab.bench.floor import Floor
from rmhdag.lab.bench.measures import compare, percentile
from rmhdag.lab.bench.rig import Rig, Server
from rmhdag.store.identity import new_id

Numbers = dict[str, Any]


@dataclass(frozen=True)
class Sizes:
    """How much work; tests take less of everything."""

    chain_jobs: int = 500
    chain_length: int = 10
    fan_out: int = 10_000
    large: bool = False
    hop_jobs: int = 40
    cold_starts: int = 5
    small_jobs: int = 9
    poison_jobs: int = 200
    history_nodes: int = 1_000_000
    idle_jobs: int = 10_000
    idle_seconds: float = 10.0
    pinned_tasks: int = 200_000
    pinned_slice: int = 20_000
    expired_jobs: int = 50_000
    pairs: int = 5
    floor_tasks: int = 6_000
    stored_jobs: int = 1_000_000
    api_calls: int = 300
    list_calls: int = 30
    submit_batch: int = 100
    submit_seconds: float = 10.0
    callbacks: int = 5_000
    listeners: int = 500
    partners: int = 200
    polls_per_second: int = 200
    poll_seconds: float = 20.0


def warm_up(rig: Rig) -> None:
    """Caches, prepared statements and children: the first jobs pay for them."""
    rig.seconds_for(rig.register(workflows.chain(3)), 50)


def measure_chain(server: Server, sizes: Sizes) -> Numbers:
    """Many chains at once, against the floor; rounds of both alternate."""
    floor = Floor(server, sizes.chain_length)
    with Rig(server) as rig:
        warm_up(rig)
        stored = rig.register(workflows.chain(sizes.chain_length))
        tasks = sizes.chain_jobs * sizes.chain_length
        cpu = rig.orchestrator_cpu_seconds()
        compared = compare(
            lambda: floor.tasks_per_second(sizes.floor_tasks),
            lambda: tasks / rig.seconds_for(stored, sizes.chain_jobs),
            sizes.pairs,
        )
        cpu = rig.orchestrator_cpu_seconds() - cpu
        floor.close()
        return {
            "jobs": sizes.chain_jobs,
            "tasks": tasks,
            "rounds": sizes.pairs,
            "tasks_per_second": round(compared["second"], 1),
            "floor_tasks_per_second": round(compared["first"], 1),
            "ratio_to_floor": round(compared["ratio"], 3),
            "orchestrator_cpu_us_per_task": round(cpu / (tasks * sizes.pairs) * 1e6, 1),
            "rows_per_task": _rows_per_task(rig),
        }


def measure_fan_out(server: Server, sizes: Sizes) -> Numbers:
    """One wide job with its fan-in, against chains; rounds of both alternate."""
    count = 100_000 if sizes.large else sizes.fan_out
    pairs = min(3, sizes.pairs) if sizes.large else sizes.pairs
    with Rig(server) as rig:
        warm_up(rig)
        chain = rig.register(workflows.chain(sizes.chain_length))
        wide = rig.register(workflows.fan_out())
        tasks = sizes.chain_jobs * sizes.chain_length
        rig.seconds_for(chain, sizes.chain_jobs)
        before = rig.orchestrator_memory_mb()
        compared = compare(
            lambda: tasks / rig.seconds_for(chain, sizes.chain_jobs),
            lambda: count / rig.seconds_for(wide, 1, {"items": list(range(count))}),
            pairs,
        )
        most = rig.orchestrator_memory_mb("VmHWM")
    return {
        "tasks": count,
        "rounds": pairs,
        "tasks_per_second": round(compared["second"], 1),
        "ratio_to_chain": round(compared["ratio"], 3),
        "orchestrator_growth_mb": round(most - before, 1),
    }


def measure_hop(server: Server, sizes: Sizes) -> Numbers:
    """A node's handler ends → the next one's begins, in a system that does nothing else; bare hops in between."""
    bare = BareHop(server)
    bare_samples: list[float] = []
    ids: list[str] = []
    try:
        with Rig(server) as rig:
            warm_up(rig)
            stored = rig.register(workflows.chain(10))
            for _ in range(sizes.hop_jobs):
                job = rig.submit(stored, 1)
                rig.wait_for(job, 30)
                ids += job
                bare_samples += bare.sample(9)
            samples = _hops(rig, ids)
            whole = rig.durations(ids)
    finally:
        bare.close()
    p50, bare_p50 = percentile(samples, 0.5), percentile(bare_samples, 0.5)
    return {
        "hops": len(samples),
        "p50_ms": round(p50, 2),
        "p99_ms": round(percentile(samples, 0.99), 2),
        "bare_p50_ms": round(bare_p50, 2),
        "bare_p99_ms": round(percentile(bare_samples, 0.99), 2),
        "ratio_to_bare": round(p50 / bare_p50, 2),
        "job_of_10_p50_ms": round(percentile(whole, 0.5) * 1000, 1),
    }


def _hops(rig: Rig, ids: list[str]) -> list[float]:
    query = """
        SELECT extract(epoch FROM started_at - lag(ended_at) OVER (PARTITION BY job_id ORDER BY started_at)) * 1000
        FROM (
            SELECT job_id, started_at, started_at + execution_duration_ms * interval '1 millisecond' AS ended_at
            FROM dag_task_results WHERE job_id = ANY(%s)
        ) AS runs
    """
    return [float(row[0]) for row in rig.conn.execute(query, [ids]).fetchall() if row[0] is not None]


def measure_cold(server: Server, sizes: Sizes) -> Numbers:
    """The first job of processes that have just started: nothing is cached, prepared or imported."""
    cold, warm = [], []
    for _ in range(sizes.cold_starts):
        with Rig(server) as rig:
            stored = rig.register(workflows.chain(3))
            cold.append(rig.seconds_for(stored, 1) * 1000)
            rig.seconds_for(stored, 1)
            warm.append(rig.seconds_for(stored, 1) * 1000)
    return {"cold_ms": round(median(cold), 1), "warm_ms": round(median(warm), 1), "starts": sizes.cold_starts}


def measure_crowded(server: Server, sizes: Sizes) -> Numbers:
    """A small job of somebody else, alone and while one large fan-out fills the queue."""
    count = 100_000 if sizes.large else 2 * sizes.fan_out
    with Rig(server) as rig:
        warm_up(rig)
        small = rig.register(workflows.chain(3))
        wide = rig.register(workflows.fan_out())
        idle = _small_jobs(rig, small, sizes.small_jobs)
        large = rig.submit(wide, 1, {"items": list(range(count))}, who="crowd")
        _wait_for_children(rig, large[0])
        crowded = _small_jobs(rig, small, sizes.small_jobs, while_open=large[0])
        rig.wait_for(large, 600)
    return {
        "fan_out": count,
        "idle_ms": round(median(idle), 1),
        "crowded_p50_ms": round(median(crowded), 1),
        "crowded_max_ms": round(max(crowded), 1),
        "small_jobs_meanwhile": len(crowded),
        "ratio": round(median(crowded) / median(idle), 2),
    }


def _small_jobs(rig: Rig, stored: Any, count: int, while_open: str | None = None) -> list[float]:
    samples: list[float] = []
    for _ in range(count):
        ids = rig.submit(stored, 1, who="somebody")
        rig.wait_for(ids, 120)
        if while_open is not None and _is_ended(rig, while_open) and samples:
            break  # the crowd was gone before this one ended: it says nothing
        samples.append(rig.durations(ids)[0] * 1000)
    return samples


def _wait_for_children(rig: Rig, job_id: str) -> None:
    rig.wait_until(f"SELECT EXISTS (SELECT FROM dag_task_results WHERE job_id = '{job_id}')", 60)


def _is_ended(rig: Rig, job_id: str) -> bool:
    row = rig.conn.execute("SELECT completed_at IS NOT NULL FROM dag_jobs WHERE job_id = %s", [job_id]).fetchone()
    return row is not None and bool(row[0])


def measure_poisoned(server: Server, sizes: Sizes) -> Numbers:
    """One job whose rows the database refuses, among many: how long the others take, with it and without."""
    with Rig(server) as rig:
        warm_up(rig)
        stored = rig.register(workflows.chain(10))
        poisoned = new_id()
        rig.conn.execute(_refuse_rows_of(poisoned))
        normal = [median(_durations(rig, stored, sizes.poison_jobs - 1, None)) for _ in range(2)]
        spoiled = _durations(rig, stored, sizes.poison_jobs - 1, poisoned)
        row = rig.conn.execute("SELECT status, error_message FROM dag_jobs WHERE job_id = %s", [poisoned]).fetchone()
    return {
        "jobs": sizes.poison_jobs,
        "normal_p50_ms": round(min(normal) * 1000, 1),
        "with_poison_p50_ms": round(median(spoiled) * 1000, 1),
        "ratio": round(median(spoiled) / min(normal), 2),
        "poisoned_job": list(row) if row else None,
    }


def _refuse_rows_of(job_id: str) -> bytes:
    return f"""
        CREATE FUNCTION refuse_row() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN RAISE EXCEPTION 'this row is poison' USING ERRCODE = 'data_exception'; END $$;
        CREATE TRIGGER poison BEFORE INSERT OR UPDATE ON dag_node_states
        FOR EACH ROW WHEN (NEW.job_id = '{job_id}') EXECUTE FUNCTION refuse_row();
    """.encode()


def _durations(rig: Rig, stored: Any, count: int, poisoned: str | None) -> list[float]:
    ids = rig.submit(stored, count, also=[poisoned] if poisoned else [])
    good = [job_id for job_id in ids if job_id != poisoned]
    rig.wait_for(good, 300)
    if poisoned is not None:
        rig.wait_until(f"SELECT completed_at IS NOT NULL FROM dag_jobs WHERE job_id = '{poisoned}'", 60)
    return rig.durations(good)


def _rows_per_task(rig: Rig) -> dict[str, float]:
    """That everything is written belongs to the measurement."""
    counts = {}
    for table in ("dag_node_states", "dag_task_results", "dag_job_events"):
        row = rig.conn.execute(f"SELECT count(*) FROM {table}".encode()).fetchone()
        counts[table] = row[0] if row else 0
    return {table: round(count / counts["dag_task_results"], 2) for table, count in counts.items()}
