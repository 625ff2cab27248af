"""Old things go: all of them, in small transactions, whoever dies meanwhile; what is still needed stays."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date, timedelta
from time import monotonic
from typing import Any

import psycopg
import pytest

from rmhdag.models.history import JobEvent
from rmhdag.models.tasks import TaskLog
from rmhdag.orchestrator.context import OrchestratorSettings
from rmhdag.orchestrator.retention import MOST_ROWS
from rmhdag.store import crash_points, old_days, reruns, retention
from rmhdag.store.connection import Conn
from rmhdag.store.partitions import DayPartition
from rmhdag.store.retention import Place
from rmhdag.workflow.definition import ApprovalNode
from tests.engine.definitions import AT_ONCE, task, workflow
from tests.orchestrator.platform import Platform, open_connection
from tests.orchestrator.pruning import finish_passes, prune, retention_of

OLD = "UPDATE dag_jobs SET completed_at = completed_at - 100 * interval '1 day' WHERE job_id = ANY(%s)"
# Finished jobs, with nodes and results each.
FILL = """
INSERT INTO dag_jobs (job_id, workflow_id, workflow_version, workflow_hash, fairness_key, submitted_by, root_job_id,
    status, started_at, completed_at)
  SELECT 'j' || n, 'w', 1, 'h', 'me', 'me', 'j' || n, 'completed', '2020-01-01', '2020-01-01'::timestamptz
    + n * interval '1 second'
  FROM generate_series(1, %(jobs)s) n;
INSERT INTO dag_node_states (job_id, node_id, status, task_id, completed_at)
  SELECT 'j' || n, 'n' || c, 'completed', 'j' || n || '-' || c, '2020-01-01'
  FROM generate_series(1, %(jobs)s) n, generate_series(1, %(nodes)s) c;
INSERT INTO dag_task_results (task_id, lease_epoch, job_id, node_id, attempt, status)
  SELECT 'j' || n || '-' || c, 1, 'j' || n, 'n' || c, 1, 'completed'
  FROM generate_series(1, %(jobs)s) n, generate_series(1, %(nodes)s) c;
"""
# Of a job, one row each; `only` has its node and its result already.
BELONGING = """
INSERT INTO dag_task_results (task_id, lease_epoch, job_id, node_id, attempt, status) VALUES (%(task)s, 2, %(job)s, 'only', 1, 'running')
INSERT INTO dag_checkpoints (task_id, lease_epoch, job_id, node_id, phase) VALUES (%(task)s, 1, %(job)s, 'only', 'half')
INSERT INTO dag_job_commands (command_id, job_id, kind, issued_by) VALUES (%(task)s, %(job)s, 'cancel', 'x')
INSERT INTO dag_callbacks (callback_id, job_id, url, endpoint_url, host, body, status, settled_at) VALUES (%(task)s, %(job)s, 'u', 'u', 'h', '{}', 'dead', now())
INSERT INTO dag_queue_messages (task_id, job_id, node_id, queue, handler, order_key, fairness_key) VALUES (%(task)s, %(job)s, 'only', 'q', 'echo', 1, 'me')
INSERT INTO dag_api_requests (request_id, client_id, workflow_id, job_id, submitted_by, digest) VALUES (%(task)s, 'c', 'w', %(job)s, 'me', repeat('0', 64))
INSERT INTO dag_dataset_refs (ref_id, job_id, source_url) VALUES (%(task)s, %(job)s, 'u')
INSERT INTO dag_job_labels (job_id, key, value) VALUES (%(job)s, 'aoi', 'oslo')
INSERT INTO dag_payload_uses (sha256, holder) VALUES (repeat('0', 64), %(job)s)
INSERT INTO dag_revision_items (asset_id, revision, collection_id, item_id, job_id, size_bytes, body) VALUES (repeat('a', 32), 1, 'c', %(task)s, %(job)s, 2, '{}')
"""  # noqa: E501
SUMMED_UP = "INSERT INTO dag_rollup_marks (namespace, rolled_up_to) VALUES ('default', clock_timestamp())"


def fill(conn: Conn, jobs: int, nodes: int) -> None:
    for statement in FILL.split(";")[:3]:
        conn.execute(statement.encode(), {"jobs": jobs, "nodes": nodes})
    conn.execute(SUMMED_UP)


def finished(platform: Platform, count: int, **more: Any) -> list[str]:
    jobs = [platform.submit(workflow(only=task()), **more) for _ in range(count)]
    platform.finish(platform.seat())
    return jobs


# -- jobs ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("days", [1, 300])
def test_old_jobs_go_and_young_ones_stay(platform: Platform, days: int) -> None:
    jobs = finished(platform, 3)
    platform.conn.execute(OLD, [jobs[:2]])
    expected = {"dag_jobs": 2, "dag_node_states": 2, "dag_task_results": 2} if days == 1 else {}
    assert prune(platform, retention_days=days) == expected
    for table in ("dag_jobs", "dag_node_states", "dag_task_results"):
        assert platform.count(table) == 3 - expected.get(table, 0), table
    assert platform.count("dag_pruned_jobs") == 0


def test_all_that_belongs_to_a_job_goes_with_it(platform: Platform) -> None:
    job_id, other = finished(platform, 2)
    for each in (job_id, other):
        given = {"job": each, "task": f"{each}-7"}
        for statement in BELONGING.strip().split("\n"):
            platform.conn.execute(statement.encode(), given)
    tables = [*retention.OF_JOBS.values(), "dag_jobs"]
    before = {table: platform.count(table) for table in tables}
    assert all(count % 2 == 0 and count for count in before.values()), before
    platform.conn.execute(OLD, [[job_id]])
    prune(platform)
    assert {table: platform.count(table) for table in tables} == {table: n // 2 for table, n in before.items()}


def test_results_of_all_attempts_go(platform: Platform) -> None:
    job_id = platform.submit(workflow(only=task(retry=AT_ONCE)))
    seat = platform.seat()
    seat.work()
    platform.fail(*platform.claim())
    platform.finish(seat)
    assert platform.count("dag_task_results") == 2
    platform.conn.execute(OLD, [[job_id]])
    prune(platform)
    assert platform.count("dag_task_results") == 0


def make_rerun(conn: Conn, old: str, new: str) -> None:
    conn.execute("UPDATE dag_jobs SET rerun_of = %(old)s, root_job_id = %(old)s WHERE job_id = %(new)s", vars())


def test_a_job_stays_as_long_as_a_younger_rerun_of_it(platform: Platform) -> None:
    jobs = finished(platform, 2)
    platform.conn.execute(OLD, [jobs])
    make_rerun(platform.conn, jobs[0], platform.submit(workflow(only=task())))
    assert prune(platform)["dag_jobs"] == 1
    assert platform.job(jobs[0])["status"] == "completed"


def test_a_rerun_that_comes_between_reading_and_locking_keeps_its_job(platform: Platform) -> None:
    (job_id,) = finished(platform, 1)
    platform.conn.execute(OLD, [[job_id]])
    platform.conn.execute(SUMMED_UP)
    with open_connection(platform.dsn) as pruner, pruner.transaction():
        given = {"days": 30, "limit": 100, **Place()._asdict()}
        page = pruner.execute(retention.SQL["expired_jobs"], given).fetchall()
        assert [(row[2], row[3]) for row in page] == [(job_id, None)]
        make_rerun(platform.conn, job_id, platform.submit(workflow(only=task())))
        assert pruner.execute(retention.SQL["lock_expired_jobs"], {"jobs": [job_id]}).fetchall() == [(job_id,)]
        assert pruner.execute(retention.SQL["take_out_jobs"], {"jobs": [job_id], "days": 30}).rowcount == 0


def test_whoever_is_about_to_rerun_a_job_keeps_it(platform: Platform) -> None:
    (job_id,) = finished(platform, 1)
    platform.conn.execute(OLD, [[job_id]])
    with open_connection(platform.dsn) as other, other.transaction():
        assert reruns.lock_reruns(other, job_id)
        assert prune(platform) == {}
    assert prune(platform)["dag_jobs"] == 1
    with platform.conn.transaction():
        assert not reruns.lock_reruns(platform.conn, job_id)


def test_a_child_stays_as_long_as_its_parent_is_shown(platform: Platform) -> None:
    child, parent = finished(platform, 2)
    platform.conn.execute(
        "UPDATE dag_jobs SET parent_job_id = %s, parent_node_id = 'n' WHERE job_id = %s", [parent, child]
    )
    platform.conn.execute(OLD, [[child]])
    assert prune(platform) == {}
    platform.conn.execute(OLD, [[parent]])
    assert prune(platform)["dag_jobs"] == 2


def test_a_job_stays_until_metrics_have_counted_it(platform: Platform) -> None:
    (job_id,) = finished(platform, 1)
    platform.conn.execute(OLD, [[job_id]])
    conn = platform.conn
    conn.execute("INSERT INTO dag_rollup_marks (namespace, rolled_up_to) VALUES ('default', '2000-01-01')")
    working, figures = retention_of(OrchestratorSettings(pruning_seconds=0.001, rollup_seconds=3600))
    with open_connection(platform.dsn) as other, other.transaction():
        other.execute("SELECT FROM dag_rollup_marks FOR UPDATE")
        # The figure has one decimal: with many passes in this time, it shows whether any of them counted as in order.
        began = monotonic()
        while monotonic() < began + 0.5:
            working.run_once(conn)
        assert platform.count("dag_jobs") == 1
        assert figures.tell()["retention_behind_seconds"] >= 0.4
    assert prune(platform)["dag_jobs"] == 1


def test_a_large_job_goes_at_once_for_readers_and_in_small_transactions(platform: Platform) -> None:
    nodes = 2 * MOST_ROWS + 1_000
    fill(platform.conn, 1, nodes)
    working, _ = retention_of()
    largest = 0
    before = rows_left(platform)
    while before:
        working.run_once(platform.conn)
        left = rows_left(platform)
        largest = max(largest, before - left)
        assert platform.count("dag_jobs") == 0 or left == 2 * nodes + 1
        before = left
    assert MOST_ROWS // 10 < largest <= MOST_ROWS
    finish_passes(platform.conn, working)
    assert platform.count("dag_pruned_jobs") == 0


def rows_left(platform: Platform) -> int:
    return sum(platform.count(table) for table in ("dag_jobs", "dag_node_states", "dag_task_results"))


class Killed(Exception):
    pass


@contextmanager
def killed_at(point: str) -> Iterator[None]:
    def die() -> None:
        raise Killed

    crash_points.arm(point, die)
    try:
        with pytest.raises(Killed):
            yield
    finally:
        crash_points.disarm()


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize(
    "site",
    [
        "take_out_expired_jobs",
        "delete_pruned_jobs",
        "delete_history",
        "drop_day_if_unneeded",
        "delete_rows_of_gone_jobs",
    ],
)
def test_the_next_one_continues_where_one_was_killed(platform: Platform, site: str, moment: str) -> None:
    fill(platform.conn, 3, 400)
    make_day(platform.conn, 200)
    add_event(platform.conn, "j1", 1, 200)
    platform.submit(workflow(wait=ApprovalNode()))
    platform.conn.execute("UPDATE dag_jobs SET created_at = now() - interval '300 days' WHERE completed_at IS NULL")
    working, _ = retention_of()
    with killed_at(f"{site}.{moment}_commit"):
        finish_passes(platform.conn, working)
    prune(platform)
    assert [platform.count(table) for table in ("dag_jobs", "dag_node_states", "dag_task_results")] == [1, 0, 0]
    assert platform.count("dag_pruned_jobs") == 0
    assert platform.count("dag_job_events WHERE job_id = 'j1'") == 0


def test_it_keeps_up_with_ten_thousand_jobs_a_minute(platform: Platform) -> None:
    """Counted, not timed: a minute has room for a hundred pieces of 0.1 s with their pauses of 0.4 s."""
    fill(platform.conn, 10_000, 1)
    place, has_more, pieces = Place(), True, 0
    while has_more:
        (_, has_more, _), place = retention.take_out_expired_jobs(platform.conn, 30, place, MOST_ROWS)
        pieces += 1
    while retention.delete_pruned_jobs(platform.conn, MOST_ROWS, with_days=False).has_more:
        pieces += 1
    assert rows_left(platform) == platform.count("dag_pruned_jobs") == 0
    assert pieces < 40


def test_two_orchestrators_share_the_work_and_wait_for_nobody(platform: Platform) -> None:
    fill(platform.conn, 30, 2)
    platform.conn.execute("SET lock_timeout = '100ms'")
    with open_connection(platform.dsn) as other, other.transaction():
        other.execute("SELECT FROM dag_jobs ORDER BY completed_at LIMIT 10 FOR UPDATE")
        bite, _ = retention.take_out_expired_jobs(platform.conn, 30, Place(), 20)
        assert bite.rows["dag_jobs"] == 10
        other.execute("SELECT FROM dag_pruned_jobs ORDER BY job_id LIMIT 4 FOR UPDATE")
        assert retention.delete_pruned_jobs(platform.conn, 1000, with_days=False).rows["dag_node_states"] == 12
    prune(platform)
    assert rows_left(platform) == platform.count("dag_pruned_jobs") == 0


def test_jobs_that_have_to_stay_do_not_hide_those_behind_them(platform: Platform) -> None:
    fill(platform.conn, 12, 1)
    platform.conn.execute(
        "UPDATE dag_jobs SET parent_job_id = 'p', parent_node_id = 'n' WHERE completed_at < '2020-01-01 00:00:09'"
    )
    parent = platform.submit(workflow(wait=ApprovalNode()))
    platform.conn.execute("UPDATE dag_jobs SET parent_job_id = %s WHERE parent_job_id = 'p'", [parent])
    place, has_more, gone, pages = Place(), True, 0, 0
    while has_more:
        (rows, has_more, _), place = retention.take_out_expired_jobs(platform.conn, 30, place, 4)
        gone += rows["dag_jobs"]
        pages += 1
    assert gone == 4
    assert pages <= 5


def test_jobs_that_ended_in_the_same_moment_are_all_found(platform: Platform) -> None:
    fill(platform.conn, 12, 1)
    platform.conn.execute("UPDATE dag_jobs SET completed_at = '2020-01-01'")
    parent = platform.submit(workflow(wait=ApprovalNode()))
    platform.conn.execute(
        "UPDATE dag_jobs SET parent_job_id = %s, parent_node_id = 'n' WHERE job_id IN ('j1', 'j2', 'j3')", [parent]
    )
    for limit in (4, 4, 4, 100):
        place, has_more = Place(), True
        while has_more:
            (_, has_more, _), place = retention.take_out_expired_jobs(platform.conn, 30, place, limit)
    assert platform.count("dag_jobs") == 4


def test_a_statement_that_takes_too_long_makes_the_next_ones_smaller(platform: Platform) -> None:
    fill(platform.conn, 1, 2_000)
    retention.take_out_expired_jobs(platform.conn, 30, Place(), 10)
    working, figures = retention_of()
    working.chores = [chore for chore in working.chores if chore.name == "pruned_jobs"]
    with open_connection(platform.dsn) as other, other.transaction():
        other.execute("LOCK TABLE dag_node_states IN EXCLUSIVE MODE")
        platform.conn.execute("SET statement_timeout = '200ms'")
        assert working.run_once(platform.conn) > 0
    platform.conn.execute("RESET statement_timeout")
    working.chores[0].due = 0.0
    working.run_once(platform.conn)
    assert 0 < figures.tell()["pruned_rows"]["dag_node_states"] <= MOST_ROWS // 8


def test_it_rests_longer_than_it_works_and_until_something_is_due(platform: Platform) -> None:
    working, _ = retention_of()
    finish_passes(platform.conn, working)
    soonest = min(chore.due for chore in working.chores) - monotonic()
    assert min(soonest, 5.0) - 1 < working.run_once(platform.conn) <= 5.0
    working.chores[0].due = 0.0
    began = monotonic()
    pause = working.run_once(platform.conn)
    assert 0 < pause <= max(5.0, 4 * (monotonic() - began))


def test_a_chore_that_fails_does_not_keep_the_others_from_their_turn(platform: Platform) -> None:
    fill(platform.conn, 1, 1)
    working, _ = retention_of()
    failures = 0
    platform.conn.execute("ALTER TABLE dag_rollup_marks RENAME TO hidden")
    for _ in range(2 * len(working.chores)):
        try:
            working.run_once(platform.conn)
        except psycopg.errors.UndefinedTable:
            failures += 1
    assert failures >= 3
    failed = {chore.name for chore in working.chores if chore.pass_began is not None}
    assert failed == {"rollups", "late_jobs", "jobs"}
    assert all(chore.due > monotonic() for chore in working.chores if chore.name not in failed)


# -- days ----------------------------------------------------------------------------------------------------------


def day_before(conn: Conn, days: int) -> date:
    row = conn.execute("SELECT (clock_timestamp() AT TIME ZONE 'UTC')::date").fetchone()
    assert row
    today: date = row[0]
    return today - timedelta(days=days)


def make_day(conn: Conn, days_ago: int) -> None:
    for table in (JobEvent.table, TaskLog.table):
        conn.execute(DayPartition("dagapp", table, day_before(conn, days_ago)).ddl().encode())


def add_event(conn: Conn, job_id: str, seq: int, days_ago: int) -> None:
    conn.execute(
        "INSERT INTO dag_job_events (job_id, seq, created_at, event_type, source_app)"
        " VALUES (%s, %s, clock_timestamp() - %s * interval '1 day', 'node_ready', 'test')",
        [job_id, seq, days_ago],
    )


def add_log(conn: Conn, job_id: str, days_ago: int) -> None:
    conn.execute(
        "INSERT INTO dag_task_logs (task_id, lease_epoch, chunk_index, created_at, job_id, node_id, line_count,"
        " content) VALUES (%s, 1, 0, clock_timestamp() - %s * interval '1 day', %s, 'n', 1, 'x')",
        [f"{job_id}-1", days_ago, job_id],
    )


def old_partitions(platform: Platform) -> list[str]:
    return [old.partition for old in old_days.find_old_days(platform.conn, "dagapp", 30) if old.day is not None]


def test_days_that_no_job_needs_are_dropped_whole(platform: Platform) -> None:
    finished(platform, 1)
    make_day(platform.conn, 40)
    add_event(platform.conn, "gone", 1, 40)
    make_day(platform.conn, 20)
    assert len(old_partitions(platform)) == 2
    prune(platform)
    assert old_partitions(platform) == []
    assert platform.count("pg_class WHERE relname LIKE 'dag_job_events_20%' AND relispartition AND relkind = 'r'") == 9


def test_events_of_a_job_that_runs_longer_stay_and_its_numbers_go_on(platform: Platform) -> None:
    waiting = platform.submit(workflow(wait=ApprovalNode()))
    seat = platform.seat()
    seat.work()
    for days_ago in (60, 50, 40):
        make_day(platform.conn, days_ago)
    moved = "UPDATE dag_job_events SET created_at = created_at - 60 * interval '1 day' WHERE job_id = %s"
    platform.conn.execute(moved, [waiting])
    platform.conn.execute("UPDATE dag_jobs SET created_at = created_at - 60 * interval '1 day'")
    before = platform.events(waiting)
    for job_id, days_ago in (("gone", 60), ("gone", 50), ("other", 50), (waiting, 40)):
        add_event(platform.conn, job_id, 90, days_ago)
        add_log(platform.conn, job_id, days_ago)
    prune(platform)
    assert platform.events(waiting) == [*before, "node_ready"]
    assert platform.count("dag_job_events WHERE job_id IN ('gone', 'other')") == 0
    assert platform.count("dag_task_logs") == 1
    kept = [f"dag_job_events_{day_before(platform.conn, days):%Y%m%d}" for days in (60, 40)]
    assert old_partitions(platform) == [*kept, f"dag_task_logs_{day_before(platform.conn, 40):%Y%m%d}"]
    heir = platform.seat()
    platform.conn.execute("UPDATE dag_jobs SET owner_id = %s, owner_epoch = owner_epoch + 1", [heir.me])
    heir.advance.owned.load(heir.conn, [waiting])
    loaded = heir.advance.owned.get(waiting)
    assert loaded is not None
    assert loaded.run.next_seq == 91


def test_events_of_a_job_that_is_still_shown_stay(platform: Platform) -> None:
    (job_id,) = finished(platform, 1)
    make_day(platform.conn, 40)
    platform.conn.execute("UPDATE dag_jobs SET created_at = created_at - 40 * interval '1 day'")
    add_event(platform.conn, job_id, 90, 40)
    prune(platform)
    assert platform.count("dag_job_events WHERE seq = 90") == 1
    platform.conn.execute(OLD, [[job_id]])
    prune(platform)
    assert platform.count("dag_job_events WHERE seq = 90") == 0
    assert old_partitions(platform) == []


def test_many_rows_of_a_day_go_in_small_transactions(platform: Platform) -> None:
    make_day(platform.conn, 40)
    platform.submit(workflow(wait=ApprovalNode()))
    platform.conn.execute("UPDATE dag_jobs SET created_at = created_at - 50 * interval '1 day'")
    platform.conn.execute(
        "INSERT INTO dag_job_events (job_id, seq, created_at, event_type, source_app)"
        " SELECT 'j' || n % 450, n, clock_timestamp() - interval '40 days', 'node_ready', 'test'"
        " FROM generate_series(1, 2000) n"
    )
    old = next(o for o in old_days.find_old_days(platform.conn, "dagapp", 30) if o.day is not None)
    place, has_more, bites = "", True, []
    while has_more:
        (rows, has_more, _), place = old_days.delete_rows_of_gone_jobs(platform.conn, "dagapp", old, place, 300)
        bites.append(rows["dag_job_events"])
    assert max(bites) == 300
    assert sum(bites) == 2000


def test_a_day_that_somebody_reads_is_dropped_later(platform: Platform) -> None:
    make_day(platform.conn, 40)
    working, figures = retention_of(OrchestratorSettings(pruning_seconds=0.001))
    with open_connection(platform.dsn) as reader, reader.transaction():
        reader.execute("SELECT FROM dag_job_events LIMIT 1")
        for _ in range(40):
            working.run_once(platform.conn)
        assert len(old_partitions(platform)) == 1, "nobody reads logs"
        assert figures.tell()["retention_behind_seconds"] > 0
    prune(platform)
    assert old_partitions(platform) == []


def test_with_less_than_a_day_events_and_logs_go_with_their_jobs(platform: Platform) -> None:
    first, second = finished(platform, 2)
    for job_id in (first, second):
        add_log(platform.conn, job_id, 0)
    platform.conn.execute(
        "UPDATE dag_jobs SET completed_at = completed_at - interval '10 minutes' WHERE job_id = %s", [first]
    )
    deleted = prune(platform, retention_days=0.005)
    assert deleted["dag_jobs"] == deleted["dag_task_logs"] == 1
    assert platform.events(first) == []
    assert platform.events(second) != []


# -- what no job owns ----------------------------------------------------------------------------------------------


HISTORY_ROWS = {
    "dag_orchestrator_events": "INSERT INTO dag_orchestrator_events (owner_id, event_type, source_app, created_at)"
    " VALUES ('o', 'orchestrator_started', 'x', {at})",
    "dag_dead_letters": "INSERT INTO dag_dead_letters (dead_letter_id, reason, raw, created_at)"
    " VALUES (md5(random()::text), 'r', 'x', {at})",
    "dag_outbox": "INSERT INTO dag_outbox (message_id, destination, body, status, settled_at)"
    " VALUES (md5(random()::text), 'q', '{{}}', 'delivered', {at})",
    "dag_catalogue_entries": "INSERT INTO dag_catalogue_entries (collection_id, item_id, status, published_version,"
    " removed, body, changed_at) VALUES ('c', md5(random()::text), 'published', 1, true, '{{}}', {at})",
    "dag_api_requests": "INSERT INTO dag_api_requests (request_id, client_id, workflow_id, asset_id, revision, job_id,"
    " joined, submitted_by, digest, created_at) VALUES (md5(random()::text), 'c', 'w', repeat('a', 32), 1, 'gone',"
    " true, 'me', repeat('0', 64), {at})",
    "dag_api_keys": "INSERT INTO dag_api_keys (key_id, name, secret_hash, created_by, revoked_at)"
    " VALUES (md5(random()::text), 'n', md5(random()::text), 'me', {at})",
    "dag_workflows": "INSERT INTO dag_workflows (workflow_id, version, hash, registered_by, definition, superseded_at)"
    " VALUES ('w', 1, md5(random()::text), 'me', '{{}}', {at})",
}


@pytest.mark.parametrize("table", retention.HISTORY.values())
def test_history_goes_when_it_is_old(platform: Platform, table: str) -> None:
    for days in (200, 150, 20):
        platform.conn.execute(HISTORY_ROWS[table].format(at=f"now() - interval '{days} days'").encode())
    assert prune(platform) == {table: 2}
    assert platform.count(table) == 1


STAYING = {
    "an item that the catalogue still shows": (
        "dag_catalogue_entries",
        "UPDATE dag_catalogue_entries SET status = 'dead', published_version = 0",
    ),
    "an item that is not removed": ("dag_catalogue_entries", "UPDATE dag_catalogue_entries SET removed = false"),
    "a message that waits": ("dag_outbox", "UPDATE dag_outbox SET status = 'pending', settled_at = NULL"),
    "a request that made a revision": ("dag_api_requests", "UPDATE dag_api_requests SET joined = false"),
    "a live key": ("dag_api_keys", "UPDATE dag_api_keys SET revoked_at = NULL"),
    "a workflow that can be submitted": ("dag_workflows", "UPDATE dag_workflows SET superseded_at = NULL"),
}


@pytest.mark.parametrize("why", STAYING)
def test_what_is_needed_stays_however_old_it_is(platform: Platform, why: str) -> None:
    table, change = STAYING[why]
    platform.conn.execute(HISTORY_ROWS[table].format(at="now() - interval '900 days'").encode())
    platform.conn.execute(change.encode())
    assert prune(platform) == {}


def test_a_superseded_content_stays_for_the_jobs_that_may_have_it(platform: Platform) -> None:
    platform.conn.execute(HISTORY_ROWS["dag_workflows"].format(at="now() - interval '200 days'").encode())
    fill(platform.conn, 1, 1)
    platform.conn.execute("UPDATE dag_jobs SET created_at = now() - interval '201 days', completed_at = now()")
    assert prune(platform) == {}
    platform.conn.execute("UPDATE dag_jobs SET created_at = now() - interval '190 days'")
    assert prune(platform) == {"dag_workflows": 1}
