"""The health of the platform: five components, each as bad as the worst of its checks."""

from __future__ import annotations

import os
import shutil
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import rmhdag
from rmhdag.models.api.event_messages import in_words
from rmhdag.models.api.health import Health, HealthCheck, HealthComponent, HealthStatus
from rmhdag.models.api.processes import OrchestratorSummary, WorkerSummary
from rmhdag.models.rows import SCHEMA_VERSION
from rmhdag.store import server_health
from rmhdag.store.connection import Conn
from rmhdag.views.health_meanings import MEANINGS
from rmhdag.views.installation import Installation
from rmhdag.views.processes import list_orchestrators, list_queues, list_workers, unserved_tasks
from rmhdag.views.quotas import read_quotas_of
from rmhdag.views.reviews import count_waiting

HEALTHY, DEGRADED, UNHEALTHY = HealthStatus
ORDER = list(HealthStatus)
GIB = 2**30
# They wait for storage and for receivers of callbacks, and hold up nobody.
PATIENT_LOOPS = frozenset({"callbacks", "catalogue", "services"})
NEAR_A_QUOTA = 0.9
RETENTION_BEHIND_SECONDS = 3600.0
LONGEST_REVIEW_DAYS = 14


def look(conn: Conn, settings: Installation, namespace: str) -> Health:
    components = {
        "orchestrators": component(check_orchestrators(conn, settings)),
        "database": component(check_database(conn)),
        "messaging": component(check_messaging(conn, settings, namespace)),
        "workers": component(check_workers(conn, settings, namespace)),
        "system": component(
            [*check_system(conn), check_quotas(conn, settings, namespace), check_reviews(conn, namespace)]
        ),
    }
    for name, part in components.items():
        for check in part.checks:
            check.meaning = MEANINGS[name].get(check.name, "")
    return Health(
        status=worst(part.status for part in components.values()),
        version=rmhdag.__version__,
        components=components,
    )


def component(checks: Iterable[HealthCheck]) -> HealthComponent:
    results = list(checks)
    return HealthComponent(status=worst(check.status for check in results), checks=results)


def worst(statuses: Iterable[HealthStatus]) -> HealthStatus:
    return max(statuses, key=ORDER.index, default=HEALTHY)


def judge(
    name: str,
    value: str,
    threshold: str,
    remedy: str,
    *,
    degraded: object = False,
    unhealthy: object = False,
) -> HealthCheck:
    status = UNHEALTHY if unhealthy else DEGRADED if degraded else HEALTHY
    return HealthCheck(
        name=name, status=status, value=value, threshold=threshold, remedy=None if status is HEALTHY else remedy
    )


def check_orchestrators(conn: Conn, settings: Installation) -> Iterator[HealthCheck]:
    lines = list_orchestrators(conn, settings.orphan_seconds)
    alive = [line for line in lines if line.alive]
    yield judge(
        "alive",
        f"{len(alive)}",
        "1 or more",
        "Start one with `rmhdag orchestrator`; jobs wait until then.",
        unhealthy=not alive,
    )
    silent = [line.owner_id for line in lines if line not in alive]
    yield judge(
        "silent",
        ", ".join(silent) or "none",
        f"no process without a heartbeat for {settings.orphan_seconds:g} s",
        "Their jobs are being taken over; check their logs.",
        degraded=silent,
    )
    yield check_loops(alive, settings.orphan_seconds)
    yield check_threads(alive)
    yield check_versions("versions", {line.version for line in alive})
    yield check_retention([line.stats for line in alive])


def check_retention(stats: Iterable[dict[str, Any]]) -> HealthCheck:
    """They share the work, so one that keeps up is enough. Those that have not begun say nothing yet."""
    delays = [
        figures["retention_behind_seconds"] for figures in stats if figures.get("retention_behind_seconds") is not None
    ]
    behind = min(delays, default=0.0)
    return judge(
        "retention",
        f"{behind:.0f} s behind" if behind else "keeps up",
        f"{RETENTION_BEHIND_SECONDS / 3600:g} h behind",
        "Old jobs and events are not deleted in time: look for `retention_failed` in the logs of the orchestrators.",
        degraded=behind > RETENTION_BEHIND_SECONDS,
    )


def check_quotas(conn: Conn, settings: Installation, namespace: str) -> HealthCheck:
    """Of the caller's namespace: what others use is not told."""
    lines = read_quotas_of(conn, namespace, settings.quotas).quotas
    near = [line for line in lines if line.used is not None and line.used >= NEAR_A_QUOTA * line.limit and line.limit]
    return judge(
        "quotas",
        ", ".join(f"{line.name} {line.used:,} of {line.limit:,}" for line in near) or "none is nearly used up",
        f"{NEAR_A_QUOTA:.0%} of a quota of this namespace",
        "`rmhdag quotas show` lists them. Use less, or have the operator raise them: `rmhdag quotas set`.",
        degraded=near,
    )


def check_reviews(conn: Conn, namespace: str) -> HealthCheck:
    """Of the caller's namespace. Nothing breaks while content waits, but somebody waits for it."""
    waiting = next(iter(count_waiting(conn, namespace)), None)
    seconds = 0.0 if waiting is None else waiting.oldest_seconds
    return judge(
        "reviews",
        "none waits" if waiting is None else f"{waiting.revisions:,} waiting, the first for {in_words(seconds)}",
        f"{LONGEST_REVIEW_DAYS} days",
        "Content waits for a reviewer: `rmhdag approvals` lists it.",
        degraded=seconds > 86_400 * LONGEST_REVIEW_DAYS,
    )


def check_loops(alive: Sequence[OrchestratorSummary | WorkerSummary], ttl_seconds: float) -> HealthCheck:
    """A heartbeat says that a process is there; the age of finished turns says that it works."""
    turns = [
        (age, name, line.process_id)
        for line in alive
        for name, age in line.stats.get("loops", {}).items()
        if name not in PATIENT_LOOPS
    ]
    age, name, process_id = max(turns, default=(0.0, "", 0))
    return judge(
        "loops",
        f"{name} of process {process_id} finished its last turn {age:.0f} s ago" if turns else "none",
        f"each within {2 * ttl_seconds:g} s",
        "A hanging process exits by itself and others take over its work; check its logs and the database.",
        degraded=age > ttl_seconds,
        unhealthy=age > 2 * ttl_seconds,
    )


def check_threads(alive: Sequence[OrchestratorSummary | WorkerSummary]) -> HealthCheck:
    restarts = Counter[str]()
    for line in alive:
        restarts.update(line.stats.get("threads", {}))
    failed = [f"{name} {count} times" for name, count in restarts.items() if count]
    recent = [
        seconds for line in alive if (seconds := line.stats.get("restarted_seconds_ago")) is not None and seconds < 600
    ]
    return judge(
        "threads",
        f"restarted: {', '.join(failed)}" if failed else "none was restarted",
        "none within 10 minutes",
        "An unexpected error ended them; it is in the logs as thread_failed, with a traceback. Please report it.",
        degraded=recent,
    )


def check_versions(name: str, versions: set[str]) -> HealthCheck:
    return judge(
        name,
        ", ".join(sorted(versions)) or "none",
        "one version",
        "An upgrade is in progress or incomplete: bring all processes to one version.",
        degraded=len(versions) > 1,
    )


def check_database(conn: Conn) -> Iterator[HealthCheck]:
    began = time.monotonic()
    server = server_health.server(conn)
    answer_ms = (time.monotonic() - began) * 1000
    yield judge("answer", f"{answer_ms:.0f} ms", "250 ms", "Look at the load of the server.", degraded=answer_ms > 250)
    yield from judge_server(server)
    yield judge_dead_rows(server_health.dead_rows(conn))


def judge_server(server: server_health.Server) -> Iterator[HealthCheck]:
    used = server.connections / max(1, server.max_connections)
    yield judge(
        "connections",
        f"{server.connections} of {server.max_connections}",
        "80 %",
        "Raise max_connections, start fewer processes, or put a pooler in between.",
        degraded=used > 0.8,
        unhealthy=used > 0.95,
    )
    yield judge(
        "oldest transaction",
        f"{server.oldest_transaction_seconds:.0f} s",
        "60 s",
        "It prevents vacuum from removing dead rows: find it in pg_stat_activity by xact_start and end it.",
        degraded=server.oldest_transaction_seconds > 60,
        unhealthy=server.oldest_transaction_seconds > 3600,
    )
    yield judge(
        "idle in transaction",
        f"{server.idle_in_transaction_seconds:.0f} s",
        "5 s",
        "A client did not commit: set idle_in_transaction_session_timeout for that role.",
        degraded=server.idle_in_transaction_seconds > 5,
    )
    yield judge(
        "blocked",
        f"{server.blocked}",
        "no session has waited for a lock for 2 s",
        "pg_blocking_pids() shows the sessions that hold it.",
        degraded=server.blocked,
    )
    yield judge(
        "transaction ids",
        f"{server.transaction_age:,} since the last freeze",
        "1,000,000,000",
        "Let autovacuum finish its freeze, or run VACUUM FREEZE.",
        degraded=server.transaction_age > 1_000_000_000,
        unhealthy=server.transaction_age > 1_900_000_000,
    )
    yield judge(
        "durability",
        "fsync on" if server.is_durable else "fsync off",
        "fsync on",
        "A crash of the server may lose jobs: ALTER SYSTEM SET fsync = on, and reload.",
        degraded=not server.is_durable,
    )


def judge_dead_rows(dead: server_health.DeadRows) -> HealthCheck:
    return judge(
        "dead rows",
        f"{dead.dead} beside {dead.live} live in {dead.table}",
        "100,000 more than live",
        "Autovacuum does not keep up: look for a long transaction, or run VACUUM on the table.",
        degraded=dead.dead > dead.live + 100_000,
    )


def check_messaging(conn: Conn, settings: Installation, namespace: str) -> Iterator[HealthCheck]:
    missing = [
        name
        for name, value in (
            ("JOB_QUEUE_NAME", settings.job_queue_name),
            ("DAG_WORKER_QUEUE or WORKER_QUEUE", settings.queues),
        )
        if not value
    ]
    yield judge(
        "queue names",
        f"missing: {', '.join(missing)}" if missing else ", ".join(sorted(settings.queues)),
        "all given",
        "Queues have no default names: set them and start again.",
        unhealthy=missing,
    )
    waiting = server_health.backlogs(conn, namespace)
    yield _check_age("inbox", waiting.inbox_rows, waiting.inbox_seconds, 30, "Orchestrators do not keep up.")
    yield _check_age("outbox", waiting.outbox_rows, waiting.outbox_seconds, 60, "The broker cannot be reached.")
    yield judge(
        "callbacks",
        f"{waiting.callback_rows} to be sent, overdue by {waiting.callback_seconds or 0:.0f} s at most",
        "60 s overdue",
        "No orchestrator delivers callbacks, or receivers are slow: look at `GET /api/v1/callbacks`.",
        degraded=(waiting.callback_seconds or 0) > 60,
    )
    yield _judge_tables(waiting)
    yield judge(
        "unclaimed jobs",
        "none" if waiting.unclaimed_seconds is None else f"the oldest since {waiting.unclaimed_seconds:.0f} s",
        "60 s",
        "No orchestrator takes new jobs: start one, or look at its logs.",
        degraded=(waiting.unclaimed_seconds or 0) > 60,
    )
    yield judge(
        "dead letters",
        f"{waiting.dead_letters}",
        "none",
        "`rmhdag dead-letters` shows why; requeue or discard them.",
        degraded=waiting.dead_letters,
    )


def _judge_tables(waiting: server_health.Backlogs) -> HealthCheck:
    """Names and tables in PostGIS, which the orchestrators give and drop."""
    overdue = max(waiting.place_seconds or 0, waiting.drop_seconds or 0)
    value = f"{waiting.place_rows} to be shown, {waiting.drop_rows} to be dropped, overdue by {overdue:.0f} s at most"
    if waiting.dead_places:
        value += f"; {waiting.dead_places} given up, the newest is {(waiting.dead_place or '')[:300]}"
    return judge(
        "tables in PostGIS",
        value,
        "60 s overdue, none given up",
        "Check RMHDAG_POSTGIS_URL of the orchestrators and their log lines data_tables_not_shown and "
        "data_table_not_dropped. Load a table that was given up again.",
        degraded=overdue > 60 or waiting.dead_places,
    )


def _check_age(name: str, rows: int, seconds: float | None, limit: float, remedy: str) -> HealthCheck:
    value = "empty" if not rows or seconds is None else f"{rows} rows, the oldest since {seconds:.0f} s"
    return judge(name, value, f"{limit:g} s", remedy, degraded=(seconds or 0) > limit)


def check_workers(conn: Conn, settings: Installation, namespace: str) -> Iterator[HealthCheck]:
    lines = list_workers(conn, settings.orphan_seconds, namespace)
    alive = [line for line in lines if line.alive]
    queues = list_queues(conn, namespace, settings.orphan_seconds)
    waiting = sum(line.waiting for line in queues)
    yield judge(
        "alive",
        f"{len(alive)} with {sum(line.slots for line in alive)} slots",
        "1 or more",
        "Start one with `rmhdag worker`.",
        degraded=not alive,
        unhealthy=not alive and waiting,
    )
    silent = [line.worker_id for line in lines if line not in alive]
    yield judge(
        "silent",
        ", ".join(silent) or "none",
        f"no process without a heartbeat for {settings.orphan_seconds:g} s",
        "Their tasks are being returned to the queues; check their logs.",
        degraded=silent,
    )
    unserved = [line.queue for line in queues if line.waiting and not line.workers]
    yield judge(
        "unserved queues",
        ", ".join(unserved) or "none",
        "none with waiting tasks",
        "Start a worker for them: `rmhdag worker --queue NAME`.",
        degraded=unserved,
    )
    missing = [line for line in unserved_tasks(conn, namespace, settings.orphan_seconds) if line.queue not in unserved]
    yield judge(
        "missing handlers",
        ", ".join(f"{line.handler} ({line.waiting:,} tasks in {line.queue})" for line in missing[:10]) or "none",
        "none with waiting tasks",
        "No live worker of the queue has them: start one that loads their module, "
        "`rmhdag worker --queue NAME --handlers MODULE`.",
        degraded=missing,
    )
    yield check_loops(alive, settings.orphan_seconds)
    yield check_threads(alive)
    yield check_versions("versions", {line.version for line in alive})


def check_system(conn: Conn) -> Iterator[HealthCheck]:
    """Of the machine that answers."""
    free = shutil.disk_usage(os.curdir).free
    yield judge(
        "disk",
        f"{free / GIB:.1f} GiB free",
        "2 GiB",
        "Make room.",
        degraded=free < 2 * GIB,
        unhealthy=free < GIB // 8,
    )
    memory = available_memory()
    if memory is not None:
        yield judge(
            "memory",
            f"{memory / GIB:.1f} GiB available",
            "0.25 GiB",
            "Give the machine more memory, or its workers fewer slots.",
            degraded=memory < GIB // 4,
        )
    version, oldest = server_health.schema_version(conn)
    yield judge(
        "schema",
        f"version {version}",
        f"version {SCHEMA_VERSION}",
        "`rmhdag db migrate` brings the database there, or upgrade this process.",
        degraded=version != SCHEMA_VERSION,
        unhealthy=oldest > SCHEMA_VERSION,
    )


def available_memory() -> int | None:
    try:
        with open("/proc/meminfo", encoding="ascii") as lines:
            entry = next((line for line in lines if line.startswith("MemAvailable:")), None)
    except OSError:
        return None
    return None if entry is None else int(entry.split()[1]) * 1024
