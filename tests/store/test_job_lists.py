"""Lists of jobs: pages that meet each job once, filters, texts, and few pages read however many jobs there are."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from psycopg import sql

from rmhdag.models.api.jobs import JobSummary
from rmhdag.store.connection import Conn, connect, enter_schema
from rmhdag.views.job_lists import LAST_LETTER, MOST_NAMED_JOBS, SQL, Cursor, JobFilters, compose, list_jobs

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
MANY = 200_000
# One job in 500 failed, one in 500 runs; the names `rare…` stand for a handful of jobs, all of them old.
FILL = """
INSERT INTO dag_jobs (job_id, workflow_id, workflow_version, workflow_hash, fairness_key, submitted_by, root_job_id,
    correlation_id, rerun_of, parent_job_id, parent_node_id, status, started_at, completed_at, created_at)
  SELECT lpad(to_hex(n), 32, '0'), CASE WHEN n < 40 THEN 'rare_flow' ELSE 'w' || n % 20 END, 1, 'h', 'me',
    CASE WHEN n < 30 THEN 'rare_one' ELSE 'somebody_' || n % 3 END,
    CASE WHEN n BETWEEN 2 AND 9 THEN lpad('1', 32, '0') ELSE lpad(to_hex(n), 32, '0') END,
    CASE WHEN n % 2 = 0 THEN 'c_' || n WHEN n < 20 THEN 'rare%_c' END,
    CASE WHEN n BETWEEN 2 AND 9 THEN lpad(to_hex(n - 1), 32, '0') END,
    CASE WHEN n BETWEEN 20 AND 25 THEN lpad('1', 32, '0') END, CASE WHEN n BETWEEN 20 AND 25 THEN 'node' END,
    CASE WHEN n % 500 = 0 THEN 'failed' WHEN n % 500 = 1 THEN 'running' ELSE 'completed' END::job_status,
    now(), CASE WHEN n % 500 <> 1 THEN now() END, timestamptz '2026-01-01 00:00Z' + n / 2 * interval '1 second'
  FROM generate_series(1, {count}) n;
ANALYZE dag_jobs
"""


def fill(conn: Conn, count: int) -> None:
    conn.execute(FILL.format(count=count).encode())


@pytest.fixture
def filled(conn: Conn) -> Conn:
    conn.execute("SET search_path TO dagapp")
    fill(conn, 20_000)
    return conn


def ids(lines: list[JobSummary]) -> list[int]:
    return [int(line.job_id, 16) for line in lines]


def found(conn: Conn, namespace: str = "default", **filters: Any) -> list[int]:
    return ids(list_jobs(conn, namespace, JobFilters(**filters)))


@pytest.mark.parametrize("filters", [{"workflow_id": "w3"}, {"text": "w3"}])
def test_pages_meet_every_job_once_although_times_repeat(filled: Conn, filters: dict[str, Any]) -> None:
    seen: list[str] = []
    before = None
    while page := list_jobs(filled, "default", JobFilters(before=before, limit=301, **filters)):
        seen += [line.job_id for line in page]
        before = Cursor(page[-1].created_at, page[-1].job_id)
    assert len(seen) == len(set(seen)) == 998
    assert seen == sorted(seen, reverse=True)


def test_filters(filled: Conn) -> None:
    lines = list_jobs(filled, "default", JobFilters(statuses=["failed", "running"]))
    assert {line.status for line in lines} == {"failed", "running"}
    newest = BEGIN + timedelta(seconds=9_999)
    assert found(filled, since=newest) == [20_000, 19_999, 19_998]
    assert found(filled, until=BEGIN + timedelta(seconds=2)) == [3, 2, 1]
    assert found(filled, "another") == []
    assert found(filled, submitted_by="nobody") == []
    assert found(filled, correlation_id="c_44") == [44]
    assert found(filled, parent_job_id=f"{1:032x}") == [25, 24, 23, 22, 21, 20]
    assert found(filled, parent_job_id=f"{1:032x}", statuses=["failed"]) == []


def test_a_family_of_reruns(filled: Conn) -> None:
    assert found(filled, rerun_of=f"{1:032x}") == [2]
    assert found(filled, rerun_of=f"{4:032x}") == [5]
    assert found(filled, root_job_id=f"{1:032x}") == [9, 8, 7, 6, 5, 4, 3, 2, 1]
    assert found(filled, root_job_id=f"{1:032x}", limit=2) == [9, 8]


def test_a_text_is_the_beginning_of_a_name(filled: Conn) -> None:
    assert found(filled, text=f"{7:032x}") == [7]
    assert found(filled, text=f"{7:032X}") == [7]
    assert found(filled, text="0" * 28 + "4e2", limit=3) == [0x4E20]
    assert len(found(filled, text="rare_", limit=100)) == 39
    assert found(filled, text="rare_one", limit=2) == [29, 28]
    assert found(filled, text="c_1999") == [19_998, 19_996, 19_994, 19_992, 19_990]
    assert found(filled, text="somebody_2", statuses=["running"], limit=2) == [19_001, 17_501]
    assert found(filled, "another", text="rare_") == []


def test_what_means_much_elsewhere_is_plain_text_here(filled: Conn) -> None:
    for text in ("%", "_", "\\", "rare\\_", "r%", "*", "'", "c_1%", "\U0010ffff", "ä"):
        assert found(filled, text=text) == [], text
    assert found(filled, text="rare%") == [19, 17, 15, 13, 11, 9, 7, 5, 3, 1]


SHAPES: list[dict[str, Any]] = [
    {},
    {"before": Cursor(BEGIN + timedelta(hours=1), "f")},
    *({"statuses": [status]} for status in ("pending", "running", "completed", "failed", "cancelled")),
    {"statuses": ["failed", "cancelled"]},
    {"statuses": ["pending", "running"]},
    {"workflow_id": "w3"},
    {"workflow_id": "rare_flow"},
    {"workflow_id": "unknown"},
    {"submitted_by": "somebody_1"},
    {"submitted_by": "rare_one"},
    {"submitted_by": "rare_one", "workflow_id": "w3"},
    {"correlation_id": "c_44"},
    {"correlation_id": "rare%_c"},
    {"since": BEGIN + timedelta(hours=20)},
    {"until": BEGIN + timedelta(seconds=9)},
    {"root_job_id": f"{1:032x}"},
    {"rerun_of": f"{1:032x}"},
    {"rerun_of": "unknown"},
    {"parent_job_id": f"{1:032x}"},
    {"parent_job_id": "unknown"},
    *({"text": text} for text in ("0", "0000", f"{7:032x}", "w", "w1", "rare", "some", "c_", "c_1", "unknown")),
    {"text": "some", "before": Cursor(BEGIN + timedelta(hours=1), "f")},
]


@pytest.fixture
def crowded(migrated_database: str) -> Iterator[Conn]:
    with connect(migrated_database, "test", autocommit=True, statement_timeout_seconds=60) as conn:
        enter_schema(conn, "dagapp")
        fill(conn, MANY)
        yield conn


@pytest.mark.timeout(180)
def test_a_list_reads_little_more_than_it_shows(crowded: Conn) -> None:
    """A page of 50 that touched every job would read some 10,000 pages here."""
    troubles = []
    for shape in SHAPES:
        query, given = compose(crowded, "default", JobFilters(**shape))
        touched = pages(crowded, query, given)
        if "text" in shape:
            touched += sum(pages(crowded, SQL[name], names(shape["text"])) for name in TEXT_QUERIES)
        if touched > 3_000:
            troubles.append(f"{shape} touches {touched} pages")
    assert not troubles, "\n".join(troubles)


TEXT_QUERIES = ("workflows_named", "submitters_named", "jobs_named")


def names(text: str) -> dict[str, Any]:
    ids = {"id": text, "id_end": text + "g"}
    return {"namespace": "default", "q": text, "q_end": text + LAST_LETTER, "most": MOST_NAMED_JOBS, **ids}


def pages(conn: Conn, query: bytes | sql.Composed, given: dict[str, Any]) -> int:
    explain = b"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) "
    text = explain + query if isinstance(query, bytes) else sql.SQL(explain.decode()) + query
    row = conn.execute(text, given).fetchone()
    assert row is not None
    plan = row[0][0]["Plan"]
    return int(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])
