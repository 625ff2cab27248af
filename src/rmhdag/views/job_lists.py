"""Lists of jobs, newest first, by any filter: each walks an index and reads little more than it shows."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, NamedTuple

from psycopg import sql
from psycopg.rows import class_row

from rmhdag.models.api.jobs import JobCounts, JobSummary
from rmhdag.models.labels import LabelFilter
from rmhdag.models.states import JOB_TERMINAL, JobStatus
from rmhdag.store.connection import Conn
from rmhdag.store.queries import load_queries

SQL = load_queries(__file__)

MOST_LINES = 1_000
# Of a text: so many workflows and submitters that begin with it, so many ids and correlations.
MOST_NAMES = 50
MOST_NAMED_JOBS = 500
# Behind every text that begins so, in the order of bytes.
LAST_LETTER = "\U0010ffff"
ID_LETTERS = frozenset("0123456789abcdef")
# Filters are added only where they are given: a plan for filters that may be there or not would fit none of them. One
# moment for all lines, or the same line found in two ways would be two lines.
COLUMNS = [name for name in JobSummary.model_fields if name not in ("duration_seconds", "labels")]
SELECT = sql.SQL(
    "SELECT {}, EXTRACT(EPOCH FROM COALESCE(completed_at, statement_timestamp()) - started_at)::float8"
    " AS duration_seconds FROM dag_jobs"
).format(sql.SQL(", ").join(map(sql.Identifier, COLUMNS)))
OF_NAMESPACE = sql.SQL(" WHERE namespace = %(namespace)s")
# Jobs with a label: an index has them in the order of lists. Columns are renamed, so that conditions on jobs need not
# say whose columns they mean.
OF_LABEL = sql.SQL(" FROM dag_job_labels AS {} WHERE namespace = %(namespace)s AND key = {}{}")
LABELLED = sql.SQL(
    " JOIN (SELECT job_id AS labelled_id, created_at AS labelled_at{}) AS labelled ON labelled_id = job_id"
)
# A subquery that the planner cannot make a join of: it takes keys and values for independent, expects few jobs, and
# would read and sort all of them.
HAS_TOO = sql.SQL("(SELECT true{} AND {}.job_id = l.job_id)")
# No job with all labels is newer than the newest one with any of them: so a frequent label is not walked down to a
# campaign of last year.
NOT_NEWER = sql.SQL("created_at <= (SELECT max(created_at){})")
# Entries of a label that are counted to find the rarest one of several.
MOST_LABELLED = 2_000
# Labels are read for the lines that are shown only.
WITH_LABELS = sql.SQL(
    "SELECT page.*, COALESCE((SELECT jsonb_object_agg(l.key, l.value) FROM dag_job_labels AS l"
    " WHERE l.job_id = page.job_id), '{{}}') AS labels FROM ({}) AS page ORDER BY created_at DESC, job_id DESC"
)
# The same error but for numbers and ids in it is the same failure.
FAILURE = sql.SQL(
    "left(md5(regexp_replace(left(COALESCE(error_message, ''), 500), '[0-9a-f]{{8,}}|[0-9]+', '#', 'g')), 12)"
).format()
# Items that a job has published, for an asset or by itself, where they touch an area; both may cross the antimeridian.
WITHIN = sql.SQL(
    "EXISTS (SELECT 1 FROM (SELECT body FROM dag_revision_items WHERE job_id = dag_jobs.job_id UNION ALL"
    " SELECT body FROM dag_catalogue_entries WHERE job_id = dag_jobs.job_id AND asset_id IS NULL AND item_id <> ''"
    " AND NOT removed) AS item CROSS JOIN LATERAL (SELECT"
    " (item.body#>>'{{bbox,0}}')::float8 AS west, (item.body#>>'{{bbox,1}}')::float8 AS south,"
    " (item.body#>>ARRAY['bbox', (jsonb_array_length(item.body->'bbox') / 2)::text])::float8 AS east,"
    " (item.body#>>ARRAY['bbox', (jsonb_array_length(item.body->'bbox') / 2 + 1)::text])::float8 AS north"
    " ) AS box WHERE jsonb_typeof(item.body->'bbox') = 'array'"
    " AND box.south <= %(north)s AND box.north >= %(south)s AND CASE"
    " WHEN box.west > box.east AND %(west)s > %(east)s THEN true"
    " WHEN box.west > box.east OR %(west)s > %(east)s THEN box.west <= %(east)s OR box.east >= %(west)s"
    " ELSE box.west <= %(east)s AND box.east >= %(west)s END)"
).format()
# Beyond that a list is long, and nobody wants to know how long.
MOST_COUNTED = 10_000
ORDER = sql.SQL(" ORDER BY created_at DESC, job_id DESC LIMIT %(limit)s")
LABEL_ORDER = sql.SQL(" ORDER BY labelled_at DESC, labelled_id DESC LIMIT %(limit)s")


class Cursor(NamedTuple):
    """Where a page of jobs ended."""

    created_at: datetime
    job_id: str


class Area(NamedTuple):
    """In degrees; one whose west is greater than its east crosses the antimeridian."""

    west: float
    south: float
    east: float
    north: float


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFilters:
    """`failure` is the digest of an error. `text` is the beginning of a job's id, workflow, submitter or correlation.
    `root_job_id` means the job itself and whatever reruns it; `before` is the last line of the page before.
    """

    statuses: Collection[str] = ()
    workflow_id: str | None = None
    submitted_by: str | None = None
    correlation_id: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    root_job_id: str | None = None
    rerun_of: str | None = None
    parent_job_id: str | None = None
    failure: str | None = None
    finished_since: datetime | None = None
    area: Area | None = None
    labels: Sequence[LabelFilter] = ()
    text: str | None = None
    before: Cursor | None = None
    limit: int = 50


def list_jobs(conn: Conn, namespace: str, filters: JobFilters) -> list[JobSummary]:
    query, parameters = compose(conn, namespace, replace(filters, limit=min(filters.limit, MOST_LINES)))
    query = WITH_LABELS.format(query)
    with conn.cursor(row_factory=class_row(JobSummary)) as cursor:
        # Planned for what is given: whether a name is frequent or rare decides which index to walk.
        return cursor.execute(query, parameters, prepare=False).fetchall()


def count_jobs(conn: Conn, namespace: str, filters: JobFilters) -> JobCounts:
    """By status, each counted up to a limit by walking an index of its own."""
    counts = dict.fromkeys(filters.statuses or JobStatus, 0)
    if filters.text is not None:
        query, parameters = compose(conn, namespace, replace(filters, limit=MOST_COUNTED))
        query = sql.SQL("SELECT status, count(*) FROM ({}) AS matching GROUP BY status").format(query)
    else:
        parameters = {"namespace": namespace, "limit": MOST_COUNTED}
        labelled = _labelled(conn, filters, parameters)
        parts = [
            sql.SQL("SELECT {}, count(*) FROM (SELECT 1 FROM dag_jobs{}{}{} LIMIT %(limit)s) AS counted").format(
                sql.Literal(str(status)),
                labelled,
                OF_NAMESPACE,
                _narrowed(replace(filters, statuses=(status,)), parameters),
            )
            for status in counts
        ]
        query = sql.SQL(" UNION ALL ").join(parts)
    for status, count in conn.execute(query, parameters, prepare=False):
        counts[JobStatus(status)] = count
    return JobCounts(counts={JobStatus(status): count for status, count in counts.items()}, most=MOST_COUNTED)


def compose(conn: Conn, namespace: str, filters: JobFilters) -> tuple[sql.Composed, dict[str, Any]]:
    parameters: dict[str, Any] = {"namespace": namespace, "limit": min(filters.limit, MOST_COUNTED)}
    head = SELECT + _labelled(conn, filters, parameters) + OF_NAMESPACE + _narrowed(filters, parameters)
    if filters.text is None:
        return head + _order(filters), parameters
    # Each way to match walks its own index in order; what they find is put together.
    ways = [head + way + _order(filters) for way in _names(conn, namespace, filters.text, parameters)]
    job_ids = _named_jobs(conn, namespace, filters.text)
    if job_ids:
        parameters["named_jobs"] = job_ids
        # Fenced, or the planner would rather walk all jobs from the newest on until it has met enough of these.
        ways.append(head + sql.SQL(" AND job_id = ANY(%(named_jobs)s) OFFSET 0"))
    if not ways:
        return head + sql.SQL(" AND false") + ORDER, parameters
    union = sql.SQL(" UNION ").join(sql.SQL("({})").format(way) for way in ways)
    return sql.SQL("SELECT * FROM ({}) AS found").format(union) + ORDER, parameters


def _labelled(conn: Conn, filters: JobFilters, parameters: dict[str, Any]) -> sql.Composed:
    """A join with the rarest of the labels that jobs must have, which also have the others. What is known of a job's
    place in the list is said of its label, too: so far its index is walked.
    """
    if not filters.labels:
        return sql.Composed([])
    for number, label in enumerate(filters.labels):
        parameters |= {f"label_key_{number}": label.key, f"label_value_{number}": label.value}
    rarest, *others = _rarest_first(conn, filters.labels, parameters)
    narrower = _places(filters, parameters)
    for number in others:
        narrower.append(NOT_NEWER.format(_of_label("o", number, filters.labels)))
        narrower.append(HAS_TOO.format(_of_label("o", number, filters.labels), sql.Identifier("o")))
    return LABELLED.format(_of_label("l", rarest, filters.labels) + _and(narrower))


def _rarest_first(conn: Conn, labels: Sequence[LabelFilter], parameters: dict[str, Any]) -> list[int]:
    numbers = list(range(len(labels)))
    if len(labels) == 1:
        return numbers
    counts = [
        sql.SQL("(SELECT count(*) FROM (SELECT 1{} LIMIT {}) AS counted)").format(
            _of_label("l", number, labels), sql.Literal(MOST_LABELLED)
        )
        for number in numbers
    ]
    row = conn.execute(sql.SQL("SELECT ") + sql.SQL(", ").join(counts), parameters, prepare=False).fetchone()
    assert row is not None
    return sorted(numbers, key=lambda number: int(row[number]))


def _of_label(name: str, number: int, labels: Sequence[LabelFilter]) -> sql.Composed:
    value = sql.SQL(" AND value = {}").format(sql.Placeholder(f"label_value_{number}"))
    return OF_LABEL.format(
        sql.Identifier(name),
        sql.Placeholder(f"label_key_{number}"),
        sql.SQL("") if labels[number].value is None else value,
    )


def _order(filters: JobFilters) -> sql.Composable:
    """The same moments and ids, by the table whose index has them so. Were both tables joined by the moment as well,
    the planner would take the product of their probabilities, and expect one job where there are thousands."""
    return LABEL_ORDER if filters.labels else ORDER


def _narrowed(filters: JobFilters, parameters: dict[str, Any]) -> sql.Composed:
    clauses: list[sql.Composable] = []
    if filters.statuses:
        # As constants: only so does the planner see that a partial index holds them all.
        labels = sql.SQL(", ").join(sql.Literal(str(label)) for label in sorted(set(filters.statuses)))
        clauses.append(sql.SQL("status IN ({})").format(labels))
        if not {JobStatus(label) for label in filters.statuses} & JOB_TERMINAL:
            clauses.append(sql.SQL("completed_at IS NULL"))
    for name in ("workflow_id", "submitted_by", "correlation_id", "parent_job_id"):
        if getattr(filters, name) is not None:
            parameters[name] = getattr(filters, name)
            clauses.append(_equals(name, name))
    if filters.rerun_of is not None:
        parameters["rerun_of"] = filters.rerun_of
        # The index of reruns goes by the root of the family.
        clauses.append(
            sql.SQL(
                "rerun_of = %(rerun_of)s AND rerun_of IS NOT NULL AND root_job_id = "
                "(SELECT root.root_job_id FROM dag_jobs AS root WHERE root.job_id = %(rerun_of)s)"
            )
        )
    if filters.root_job_id is not None:
        parameters["root_job_id"] = filters.root_job_id
        clauses.append(
            sql.SQL(
                "job_id = ANY(ARRAY(SELECT %(root_job_id)s::text UNION ALL SELECT r.job_id FROM dag_jobs AS r "
                "WHERE r.root_job_id = %(root_job_id)s AND r.rerun_of IS NOT NULL))"
            )
        )
    if filters.finished_since is not None:
        parameters["finished_since"] = filters.finished_since
        clauses.append(sql.SQL("completed_at >= %(finished_since)s"))
    if filters.failure is not None:
        parameters["failure"] = filters.failure
        clauses.append(sql.SQL("status = 'failed' AND ") + FAILURE + sql.SQL(" = %(failure)s"))
    if filters.area is not None:
        parameters |= filters.area._asdict()
        clauses.append(WITHIN)
    return _and([*clauses, *_places(filters, parameters)])


def _places(filters: JobFilters, parameters: dict[str, Any]) -> list[sql.Composable]:
    """Where in the list."""
    clauses: list[sql.Composable] = []
    if filters.since is not None:
        parameters["since"] = filters.since
        clauses.append(sql.SQL("created_at >= %(since)s"))
    if filters.until is not None:
        parameters["until"] = filters.until
        clauses.append(sql.SQL("created_at < %(until)s"))
    if filters.before is not None:
        parameters |= {"before_at": filters.before.created_at, "before_id": filters.before.job_id}
        clauses.append(sql.SQL("(created_at, job_id) < (%(before_at)s, %(before_id)s::text)"))
    return clauses


def _and(clauses: Sequence[sql.Composable]) -> sql.Composed:
    return sql.Composed([part for clause in clauses for part in (sql.SQL(" AND "), clause)])


def _names(conn: Conn, namespace: str, text: str, parameters: dict[str, Any]) -> list[sql.Composable]:
    """Workflows and submitters that begin so, as conditions."""
    looked = {"namespace": namespace, "q": text, "q_end": text + LAST_LETTER, "most": MOST_NAMES}
    ways: list[sql.Composable] = []
    for column, query in (("workflow_id", "workflows_named"), ("submitted_by", "submitters_named")):
        for (name,) in conn.execute(SQL[query], looked).fetchall():
            parameter = f"way_{len(ways)}"
            parameters[parameter] = name
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
