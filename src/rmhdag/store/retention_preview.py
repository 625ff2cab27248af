"""What retention would delete now, by table, and why: counted by the very conditions by which it deletes.

Every statement that deletes names the rows in a subquery called `bite`; that is what is counted here. Counts end at a
limit, so that looking at a large backlog costs no more than a part of deleting it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

from rmhdag.models.api.retention import KeptJobs, PruneLine, PrunePreview
from rmhdag.store import unused_payloads
from rmhdag.store.connection import Conn
from rmhdag.store.retention import (
    HISTORY,
    LONGEST_PAGE,
    OF_JOBS,
    OF_JOBS_BY_DAY,
    SQL,
    Place,
    RetentionDays,
    place_after,
)
from rmhdag.store.unused_payloads import PayloadPlace

MOST_JOBS = 5_000
MOST_PAYLOADS = 10_000
MOST_ROWS = 100_000
_BITE = re.compile(r"USING \((.*?)\n\) AS bite", re.DOTALL)

# The settings that say how long each is kept.
JOB_DAYS = "RMHDAG_RETENTION_DAYS"
HISTORY_DAYS = "RMHDAG_RETENTION_HISTORY_DAYS"
PAYLOAD_DAYS = "RMHDAG_RETENTION_PAYLOAD_DAYS"
WITH_THE_JOB = "of jobs that ended more than {:g} days ago"
HISTORY_REASONS = {
    "delete_old_orchestrator_events": "events of orchestrators older than {:g} days",
    "delete_old_dead_letters": "dead letters older than {:g} days",
    "delete_old_outbox_rows": "messages delivered or given up more than {:g} days ago",
    "delete_old_catalogue_entries": "items removed from the catalogue more than {:g} days ago",
    "delete_old_joined_requests": "requests older than {:g} days that joined a revision, and whose job is gone",
    "delete_old_api_keys": "keys that ended more than {:g} days ago; sessions and login links after a day",
    "delete_old_workflows": "contents replaced in development mode more than {:g} days ago, of which there are no jobs",
}


def count_of(query: bytes) -> bytes:
    """The rows that a statement would delete, as a count."""
    match = _BITE.search(query.decode())
    assert match is not None, "a statement of retention names its rows in `bite`"
    return f"SELECT count(*) FROM ({match[1]}) AS bite".encode()


def preview(conn: Conn, days: RetentionDays) -> PrunePreview:
    jobs, staying = _jobs(conn, days.jobs)
    lines = [*jobs, *_history(conn, days), *_payloads(conn, days.payloads)]
    return PrunePreview(tables=[line for line in lines if line.rows], kept=staying)


def _jobs(conn: Conn, days: float) -> tuple[list[PruneLine], list[KeptJobs]]:
    reason, setting = WITH_THE_JOB.format(days), "RMHDAG_RETENTION_DAYS"
    rows: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    job_ids: set[str] = set()
    after, is_complete = Place(), False
    while not is_complete and len(job_ids) < MOST_JOBS:
        parameters = {"days": days, "limit": LONGEST_PAGE, **after._asdict()}
        page = conn.execute(SQL["expired_jobs"], parameters).fetchall()
        # Pages may overlap, see `place_after`.
        new = [line for line in page if line[2] not in job_ids]
        job_ids.update(line[2] for line in page)
        reasons.update(line[3] for line in new if line[3] is not None)
        going = [line for line in new if line[3] is None]
        rows["dag_jobs"] += len(going)
        ids = {"jobs": [line[2] for line in going], "namespaces": [line[0] for line in going], "limit": MOST_ROWS}
        for name, table in (OF_JOBS | OF_JOBS_BY_DAY).items():
            rows[table] += _count(conn, SQL[name], ids) if going else 0
        is_complete = len(page) < LONGEST_PAGE
        after = place_after(page) if page else after
    lines = [_line(table, count, reason, setting, is_complete) for table, count in rows.items()]
    left_over = _number(conn, SQL["count_pruned_jobs"], {"limit": MOST_ROWS})
    lines.append(_line("dag_pruned_jobs", left_over, "jobs deleted already, whose rows are being deleted", setting))
    waiting = _number(conn, SQL["count_jobs_not_summed_up"], {"days": days, "limit": MOST_ROWS})
    stay = [KeptJobs(jobs=count, reason=why, is_complete=is_complete) for why, count in sorted(reasons.items())]
    if waiting:
        is_complete = waiting < MOST_ROWS
        stay.append(KeptJobs(jobs=waiting, reason="metrics have not counted them yet", is_complete=is_complete))
    return lines, stay


def _history(conn: Conn, days: RetentionDays) -> list[PruneLine]:
    lines = []
    for name, table in HISTORY.items():
        kept_days = days.of_history(name)
        rows = _count(conn, SQL[name], {"days": kept_days, "limit": MOST_ROWS})
        setting = JOB_DAYS if name == "delete_old_outbox_rows" else HISTORY_DAYS
        lines.append(_line(table, rows, HISTORY_REASONS[name].format(kept_days), setting, rows < MOST_ROWS))
    return lines


def _payloads(conn: Conn, days: float) -> list[PruneLine]:
    unused = count = 0
    place, is_complete = PayloadPlace(), False
    while not is_complete and count < MOST_PAYLOADS:
        parameters = {"days": days, "limit": LONGEST_PAGE, **place._asdict()}
        page = conn.execute(unused_payloads.SQL["next_payloads"], parameters).fetchall()
        unused += sum(bool(line[3]) for line in page)
        count += len(page)
        is_complete = len(page) < LONGEST_PAGE
        place = PayloadPlace(*page[-1][:2]) if page else place
    uploads = _count(conn, unused_payloads.SQL["delete_old_uploads"], {"days": days, "limit": MOST_ROWS})
    return [
        _line(
            "dag_payloads",
            unused,
            f"stored values that nothing has referred to for {days:g} days",
            PAYLOAD_DAYS,
            is_complete,
        ),
        _line("dag_payloads", uploads, f"uploads not finished within {days:g} days", PAYLOAD_DAYS, uploads < MOST_ROWS),
    ]


def _line(table: str, rows: int, reason: str, setting: str, is_complete: bool = True) -> PruneLine:
    return PruneLine(table=table, rows=rows, reason=reason, setting=setting, is_complete=is_complete)


def _count(conn: Conn, query: bytes, parameters: Mapping[str, Any]) -> int:
    return _number(conn, count_of(query), parameters)


def _number(conn: Conn, query: bytes, parameters: Mapping[str, Any]) -> int:
    row = conn.execute(query, parameters).fetchone()
    assert row is not None
    return int(row[0])
