"""Finished jobs summed up: each exactly once, whenever it was committed and whoever dies meanwhile."""

from __future__ import annotations

from collections import defaultdict
from math import ceil
from typing import Any

import pytest

from rmhdag.models.rollups import FailureRollup, JobRollup, NodeRollup, RollupMark, ThroughputRollup
from rmhdag.orchestrator.duties import late_jobs, rollups
from rmhdag.store import crash_points
from rmhdag.store import rollups as store
from rmhdag.store.connection import Conn
from rmhdag.views import metrics as views
from tests.orchestrator.platform import Platform, open_connection

TABLES = tuple(row.table.name for row in (RollupMark, JobRollup, NodeRollup, FailureRollup, ThroughputRollup))
# Jobs of four workflows over many days, with nodes, children, retries and failures; ended in no order of their ids.
FILL = """
INSERT INTO dag_jobs (job_id, namespace, workflow_id, workflow_version, workflow_hash, fairness_key, submitted_by,
    root_job_id, status, created_at, started_at, completed_at, error_message)
  SELECT %(prefix)s || n, CASE WHEN n %% 7 = 0 THEN 'north' ELSE 'default' END, 'w' || n %% 4, 1, 'h', 'me', 'me',
    %(prefix)s || n,
    (CASE WHEN n %% 5 = 1 THEN 'failed' WHEN n %% 11 = 2 THEN 'cancelled' ELSE 'completed' END)::job_status,
    at - interval '1 hour', at - (n * 37 %% 10007) * interval '100 milliseconds', at,
    CASE WHEN n %% 5 = 1 THEN 'the job failed' END
  FROM generate_series(1, %(jobs)s) n,
    LATERAL (SELECT clock_timestamp() - (n * 7919 %% %(jobs)s) * %(span)s::interval / %(jobs)s AS at) AS x;
INSERT INTO dag_node_states (job_id, node_id, namespace, status, attempt, retry_count, started_at, completed_at,
    parent_node_id, fan_out_index, error_message, reused_task_id)
  SELECT j.job_id, node.node_id, j.namespace,
    (CASE WHEN j.status = 'failed' AND node.fails AND ascii(right(j.job_id, 1)) %% 2 = 0 THEN 'failed'
        ELSE 'completed' END)::node_status,
    node.attempt, node.attempt - 1, j.completed_at - length(node.node_id) * interval '333 milliseconds',
    j.completed_at, node.parent, node.place, CASE WHEN node.fails THEN 'boom in ' || node.node_id END, node.reused
  FROM dag_jobs AS j, (VALUES
    ('first', false, 1, NULL, NULL, NULL), ('split', false, 1, NULL, NULL, NULL),
    ('split__0', true, 3, 'split', 0, NULL), ('split__1', false, 1, 'split', 1, NULL),
    ('taken', false, 1, NULL, NULL, 't')
  ) AS node (node_id, fails, attempt, parent, place, reused)
  WHERE j.job_id LIKE %(prefix)s || '%%'
"""


def fill(conn: Conn, prefix: str, jobs: int, span: str) -> None:
    for statement in FILL.split(";"):
        conn.execute(statement.encode(), {"prefix": prefix, "jobs": jobs, "span": span})


def everything(conn: Conn, namespace: str) -> dict[str, Any]:
    """All metrics of all periods, without the time at which they were asked for."""
    found: dict[str, Any] = {}
    for days in (1, 2, 30, 90):
        found[f"workflows {days}"] = views.workflow_metrics(conn, namespace, days).workflows
        found[f"one workflow {days}"] = views.workflow_metrics(conn, namespace, days, "w1").workflows
        found[f"nodes {days}"] = views.node_metrics(conn, namespace, "w1", days).nodes
        failures = views.failure_metrics(conn, namespace, days, 100)
        found[f"failures {days}"] = (failures.total_failures, failures.unique_errors, failures.failures)
    for hours, minutes in ((168, 60), (24, 7)):
        shown = views.throughput_metrics(conn, namespace, hours, minutes).buckets
        found[f"throughput {hours}"] = {one.timestamp: one for one in shown if one.jobs_completed}
    return found


def roll_up(platform: Platform) -> int:
    size = rollups.BiteSize(30)
    done = 0
    while more := rollups.run_once(platform.conn, size, settling_seconds=0):
        done += more
    return done


def test_rollups_say_the_same_as_the_jobs_themselves(platform: Platform) -> None:
    fill(platform.conn, "a", 400, "80 days")
    namespaces = ("default", "north", "nobody")
    slow = {namespace: everything(platform.conn, namespace) for namespace in namespaces}
    assert slow["default"]["workflows 90"][0].total_jobs > 50
    # With nothing behind the mark it is all read from the jobs; half-way from both; at the end from rollups alone.
    store.namespaces(platform.conn)
    assert store.add_slice_to_rollups(platform.conn, "default", 100, 0) == 100
    assert everything(platform.conn, "default") == slow["default"]
    assert roll_up(platform) == 300
    late_jobs.run_once(platform.conn)
    spans = platform.conn.execute("SELECT DISTINCT span_hours FROM dag_job_rollups ORDER BY 1").fetchall()
    assert spans == [(1,), (24,)]
    platform.conn.execute("DELETE FROM dag_node_states")
    platform.conn.execute("DELETE FROM dag_jobs")
    assert {namespace: everything(platform.conn, namespace) for namespace in namespaces} == slow


def test_percentiles_are_right_within_five_percent(platform: Platform) -> None:
    fill(platform.conn, "a", 300, "20 hours")
    exact: dict[str, list[float]] = defaultdict(list)
    rows = platform.conn.execute(
        "SELECT workflow_id, extract(epoch FROM completed_at - started_at)::float8 FROM dag_jobs"
        " WHERE status = 'completed' AND namespace = 'default'"
    )
    for workflow_id, seconds in rows:
        exact[workflow_id].append(seconds)
    shown = views.workflow_metrics(platform.conn, "default", 2).workflows
    assert {one.workflow_id for one in shown} == exact.keys()
    for one in shown:
        assert one.avg_duration_seconds == pytest.approx(sum(exact[one.workflow_id]) / one.completed, abs=0.01)
        for shown_seconds, share in ((one.p50_duration_seconds, 0.5), (one.p95_duration_seconds, 0.95)):
            nearest = sorted(exact[one.workflow_id])[ceil(one.completed * share) - 1]
            assert shown_seconds == pytest.approx(nearest, rel=0.05)
        assert one.success_rate == pytest.approx(
            100 * one.completed / (one.completed + one.failed + one.cancelled), abs=0.01
        )


def test_a_job_that_is_committed_late_is_summed_up_after_all(platform: Platform) -> None:
    fill(platform.conn, "a", 60, "2 hours")
    assert roll_up(platform) == 60
    fill(platform.conn, "late", 40, "2 hours")
    slow = everything_without_rollups(platform)
    assert everything(platform.conn, "default") != slow
    assert late_jobs.run_once(platform.conn) == 2
    assert everything(platform.conn, "default") == slow
    assert roll_up(platform) > 40
    assert everything(platform.conn, "default") == slow
    assert late_jobs.run_once(platform.conn) == 0


def everything_without_rollups(platform: Platform) -> dict[str, Any]:
    """As if nothing had ever been summed up; afterwards all is as it was."""
    for table in TABLES:
        platform.conn.execute(f"CREATE TEMP TABLE kept_{table} AS TABLE {table}".encode())
        platform.conn.execute(f"DELETE FROM {table}".encode())
    found = everything(platform.conn, "default")
    for table in TABLES:
        platform.conn.execute(f"INSERT INTO {table} SELECT * FROM kept_{table}".encode())
        platform.conn.execute(f"DROP TABLE kept_{table}".encode())
    return found


def both_duties(conn: Conn) -> None:
    late_jobs.run_once(conn)
    rollups.run_once(conn, rollups.BiteSize(), settling_seconds=0)


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("site", ["add_slice_to_rollups", "rewind_rollups_if_late", "fold_rollups"])
def test_whoever_dies_at_it_changes_nothing(platform: Platform, site: str, moment: str) -> None:
    class Died(Exception):
        pass

    def die() -> None:
        raise Died

    fill(platform.conn, "a", 100, "3 days")
    roll_up(platform)
    fill(platform.conn, "late", 20, "50 minutes")
    slow = everything_without_rollups(platform)
    crash_points.arm(f"{site}.{moment}_commit", die)
    with pytest.raises(Died):
        both_duties(platform.conn)
    late_jobs.run_once(platform.conn)
    roll_up(platform)
    assert everything(platform.conn, "default") == slow


def test_the_youngest_jobs_are_left_until_all_like_them_are_committed(platform: Platform) -> None:
    fill(platform.conn, "a", 20, "10 seconds")
    assert rollups.run_once(platform.conn, rollups.BiteSize()) == 0
    assert views.workflow_metrics(platform.conn, "default", 1).workflows[0].total_jobs > 0


def test_two_orchestrators_do_not_count_a_job_twice(platform: Platform) -> None:
    fill(platform.conn, "a", 50, "5 hours")
    slow = everything(platform.conn, "default")
    store.namespaces(platform.conn)
    with open_connection(platform.dsn) as other, other.transaction():
        other.execute("SELECT FROM dag_rollup_marks FOR UPDATE")
        assert rollups.run_once(platform.conn, rollups.BiteSize(), settling_seconds=0) == 0
    assert rollups.run_once(platform.conn, rollups.BiteSize(), settling_seconds=0) == 50
    assert everything(platform.conn, "default") == slow


def test_errors_that_are_each_one_of_a_kind_do_not_fill_the_table(platform: Platform) -> None:
    fill(platform.conn, "a", 500, "30 minutes")
    platform.conn.execute("UPDATE dag_node_states SET error_message = 'boom in ' || job_id WHERE status = 'failed'")
    platform.conn.execute("UPDATE dag_jobs SET error_message = 'failed: ' || job_id WHERE status = 'failed'")
    slow = views.failure_metrics(platform.conn, "default", 1, 100)
    assert slow.unique_errors > 60
    rollups.run_once(platform.conn, rollups.BiteSize(), settling_seconds=0)
    shown = views.failure_metrics(platform.conn, "default", 1, 100)
    assert shown.total_failures == slow.total_failures
    rows = platform.conn.execute(
        "SELECT max(count) FROM (SELECT count(*) FROM dag_failure_rollups WHERE error <> %s"
        " GROUP BY namespace, workflow_id, starts_at) AS counted",
        [store.OTHER_ERRORS],
    ).fetchone()
    assert rows is not None
    assert rows[0] <= store.MOST_ERRORS


def test_a_bite_that_takes_too_long_becomes_smaller(platform: Platform) -> None:
    fill(platform.conn, "a", 300, "30 minutes")
    size = rollups.BiteSize()
    with open_connection(platform.dsn) as other, other.transaction():
        other.execute("LOCK TABLE dag_node_rollups IN EXCLUSIVE MODE")
        platform.conn.execute("SET statement_timeout = '200ms'")
        assert rollups.run_once(platform.conn, size, settling_seconds=0) == 0
    assert size.jobs < 500
    platform.conn.execute("RESET statement_timeout")
    assert roll_up(platform) == 300
