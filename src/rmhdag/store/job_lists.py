"""Lists of jobs, newest first, by any filter: each walks an index and reads little more than it shows."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

import psycopg
from psycopg import sql
from psycopg.rows import class_row

from rmhdag.models.states import JOB_TERMINAL, JobStatus
from rmhdag.store.queries import load_queries

SQL = load_queries(__file__)
Conn = psycopg.Connection[Any]

MOST_LINES = 1_000
# Of a text: so many workflows and submitters that begin with it, so many ids and correlations.
MOST_NAMES = 50
MOST_NAMED_JOBS = 500
# Behind every text that begins so, in the order of bytes.
LAST_LETTER = "\U0010ffff"
ID_LETTERS = frozenset("0123456789abcdef")
ORDER = sql.SQL(" ORDER BY created_at DESC, job_id DESC LIMIT %(limit)s")


class Cursor(NamedTuple):
    """Where a page of jobs ended."""

    created_at: datetime
    job_id: str


class JobLine(NamedTuple):
    job_id: str
    workflow_id: str
    workflow_version: int
    status: str
    ending: str | None
    priority: int
    submitted_by: str
    correlation_id: str | None
    rerun_of: str | None
    parent_job_id: str | None
    created_at: datetime
    started_at: datetime | None
    completed_at: datetime | None
    error_message: str | None
    duration_seconds: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFilters:
    """`text` is the beginning of a job's id, workflow, submitter or correlation. `root_job_id` means the job itself and
    whatever reruns it; `before` is the last line of the page before."""

    statuses: Collection[str] = ()
    workflow_id: str | None = None
    submitted_by: str | None = None
    correlation_id: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    root_job_id: str | None = None
    rerun_of: str | None = None
    parent_job_id: str | None = None
    text: str | None = None
    before: Cursor | None = None
    limit: int = 50


def list_jobs(conn: Conn, namespace: str, filters: JobFilters) -> list[JobLine]:
    query, given = compose(conn, namespace, filters)
    with conn.cursor(row_factory=class_row(JobLine)) as cursor:
        # Planned for what is given: whether a name is frequent or rare decides which index to walk.
        return cursor.execute(query, given, prepare=False).fetchall()


def compose(conn: Conn, namespace: str, filters: JobFilters) -> tuple[sql.Composed, dict[str, Any]]:
    given: dict[str, Any] = {"namespace": namespace, "limit": min(filters.limit, MOST_LINES)}
    head = sql.SQL(SQL["list_jobs"].decode()) + _narrowed(filters, given)
    if filters.text is None:
        return head + ORDER, given
    # Each way to match walks its own index in order; what they find is put together.
    ways = [head + way + ORDER for way in _names(conn, namespace, filters.text, given)]
    found = _named_jobs(conn, namespace, filters.text)
    if found:
        given["named_jobs"] = found
        # Fenced, or the planner would rather walk all jobs from the newest on until it has met enough of these.
        ways.append(head + sql.SQL(" AND job_id = ANY(%(named_jobs)s) OFFSET 0"))
    if not ways:
        return head + sql.SQL(" AND false") + ORDER, given
    union = sql.SQL(" UNION ").join(sql.SQL("({})").format(way) for way in ways)
    return sql.SQL("SELECT * FROM ({}) AS found").format(union) + ORDER, given


def _narrowed(filters: JobFilters, given: dict[str, Any]) -> sql.Composed:
    clauses: list[sql.Composable] = []
    if filters.statuses:
        # As constants: only so does the planner see that a partial index holds them all.
        labels = sql.SQL(", ").join(sql.Literal(str(label)) for label in sorted(set(filters.statuses)))
        clauses.append(sql.SQL("status IN ({})").format(labels))
        if not {JobStatus(label) for label in filters.statuses} & JOB_TERMINAL:
            clauses.append(sql.SQL("completed_at IS NULL"))
    for name in ("workflow_id", "submitted_by", "correlation_id", "parent_job_id"):
        if getattr(filters, name) is not None:
            given[name] = getattr(filters, name)
            clauses.append(_equals(name, name))
    if filters.rerun_of is not None:
        given["rerun_of"] = filters.rerun_of
        # The index of reruns goes by the root of the family.
        clauses.append(
            sql.SQL(
                "rerun_of = %(rerun_of)s AND rerun_of IS NOT NULL AND root_job_id = "
                "(SELECT root.root_job_id FROM dag_jobs AS root WHERE root.job_id = %(rerun_of)s)"
            )
        )
    if filters.root_job_id is not None:
        given["root_job_id"] = filters.root_job_id
        clauses.append(
            sql.SQL(
                "job_id = ANY(ARRAY(SELECT %(root_job_id)s::text UNION ALL SELECT r.job_id FROM dag_jobs AS r "
                "WHERE r.root_job_id = %(root_job_id)s AND r.rerun_of IS NOT NULL))"
            )
        )
    if filters.since is not None:
        given["since"] = filters.since
        clauses.append(sql.SQL("created_at >= %(since)s"))
    if filters.until is not None:
        given["until"] = filters.until
        clauses.append(sql.SQL("created_at < %(until)s"))
    if filters.before is not None:
        given |= {"before_at": filters.before.created_at, "before_id": filters.before.job_id}
        clauses.append(sql.SQL("(created_at, job_id) < (%(before_at)s, %(before_id)s::text)"))
    return sql.Composed([part for clause in clauses for part in (sql.SQL(" AND "), clause)])


def _names(conn: Conn, namespace: str, text: str, given: dict[str, Any]) -> list[sql.Composable]:
    """Workflows and submitters that begin so, as conditions."""
    looked = {"namespace": namespace, "q": text, "q_end": text + LAST_LETTER, "most": MOST_NAMES}
    ways: list[sql.Composable] = []
    for column, query in (("workflow_id", "workflows_named"), ("submitted_by", "submitters_named")):
        for (name,) in conn.execute(SQL[query], looked).fetchall():
            parameter = f"way_{len(ways)}"
            given[parameter] = name
            ways.append(sql.SQL(" AND ") + _equals(column, parameter))
    return ways


def _named_jobs(conn: Conn, namespace: str, text: str) -> list[str]:
    """Jobs whose id or correlation begins so."""
    plain = text.lower().replace("-", "")
    is_id = bool(plain) and ID_LETTERS.issuperset(plain)
    looked = {
        "namespace": namespace,
        "q": text,
        "q_end": text + LAST_LETTER,
        "id": plain if is_id else "g",
        "id_end": plain + "g" if is_id else "g",
        "most": MOST_NAMED_JOBS,
    }
    return [row[0] for row in conn.execute(SQL["jobs_named"], looked).fetchall()]


def _equals(column: str, parameter: str) -> sql.Composed:
    return sql.SQL("{} = {}").format(sql.Identifier(column), sql.Placeholder(parameter))
