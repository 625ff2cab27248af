"""What `rmhdag prune --dry-run` says is what is deleted; and what an asset's history needs is never deleted."""

from __future__ import annotations

from typing import Any

import pytest
from psycopg.types.json import Json

from rmhdag.api.pruning import prune
from rmhdag.models.api.assets import MadeBy
from rmhdag.models.references import HIDDEN, SECRET_MEDIA_TYPE, Reference, holder_of_revision
from rmhdag.store import retention, retention_preview, unused_payloads
from rmhdag.store.batch_rows import RevisionKey
from rmhdag.store.retention import RetentionDays
from rmhdag.store.retention_preview import count_of, preview
from rmhdag.views.assets import read_revision
from tests.orchestrator.assets import place_order, raster_workflow, revisions_of
from tests.orchestrator.platform import Platform
from tests.orchestrator.pruning import prune as run_retention
from tests.orchestrator.test_retention import BELONGING, HISTORY_ROWS, OLD, SUMMED_UP, finished

DAYS = RetentionDays()


def rows_by_table(platform: Platform, days: RetentionDays = DAYS) -> dict[str, int]:
    found: dict[str, int] = {}
    for line in preview(platform.conn, days).tables:
        found[line.table] = found.get(line.table, 0) + line.rows
    return found


def old_platform(platform: Platform) -> list[str]:
    jobs = finished(platform, 3)
    for statement in BELONGING.strip().splitlines():
        platform.conn.execute(statement.encode(), {"job": jobs[0], "task": f"{jobs[0]}-x"})
    platform.conn.execute("DELETE FROM dag_queue_messages")
    platform.conn.execute(OLD, [jobs[:2]])
    platform.conn.execute(SUMMED_UP)
    return jobs


def test_the_preview_is_what_is_deleted(platform: Platform) -> None:
    old_platform(platform)
    told = rows_by_table(platform)
    assert told["dag_jobs"] == 2
    assert told["dag_node_states"] == 2
    assert told["dag_checkpoints"] == 1
    by_day = {table: told.pop(table) for table in ("dag_job_events", "dag_task_logs") if table in told}
    assert by_day["dag_job_events"] > 0
    done = prune(platform.conn, "dagapp", DAYS, 60.0)
    assert done.deleted == told
    assert not done.has_more
    assert not {"dag_jobs", "dag_node_states"} & rows_by_table(platform).keys()


def test_the_preview_changes_nothing(platform: Platform) -> None:
    jobs = old_platform(platform)
    before = {table: platform.count(table) for table in ("dag_jobs", "dag_node_states", "dag_job_events")}
    assert rows_by_table(platform) == rows_by_table(platform)
    assert {table: platform.count(table) for table in before} == before
    assert platform.count("dag_pruned_jobs") == 0
    assert len(jobs) == before["dag_jobs"]


def test_it_says_why_and_by_which_setting(platform: Platform) -> None:
    old_platform(platform)
    for table in ("dag_orchestrator_events", "dag_dead_letters"):
        platform.conn.execute(HISTORY_ROWS[table].format(at="'2020-01-01'").encode())
    shown = preview(platform.conn, RetentionDays(jobs=30, history=92, payloads=1))
    lines = {line.table: line for line in shown.tables}
    assert lines["dag_jobs"].reason == "of jobs that ended more than 30 days ago"
    assert lines["dag_jobs"].setting == "RMHDAG_RETENTION_DAYS"
    assert lines["dag_dead_letters"].reason == "dead letters older than 92 days"
    assert lines["dag_dead_letters"].setting == "RMHDAG_RETENTION_HISTORY_DAYS"
    assert lines["dag_orchestrator_events"].rows == 1
    assert rows_by_table(platform, RetentionDays(jobs=1000, history=36_500)) == {}


def test_it_says_which_jobs_stay_and_why(platform: Platform) -> None:
    jobs = finished(platform, 2)
    platform.conn.execute(OLD, [jobs])
    query = "UPDATE dag_jobs SET rerun_of = %s, root_job_id = %s, completed_at = now() WHERE job_id = %s"
    platform.conn.execute(query, [jobs[0], jobs[0], jobs[1]])
    assert preview(platform.conn, DAYS).kept == [], "without a mark there is nothing to wait for"
    platform.conn.execute("INSERT INTO dag_rollup_marks (namespace, rolled_up_to) VALUES ('default', 'epoch')")
    (waiting,) = preview(platform.conn, DAYS).kept
    assert (waiting.jobs, waiting.reason) == (1, "metrics have not counted them yet")
    platform.conn.execute("UPDATE dag_rollup_marks SET rolled_up_to = clock_timestamp()")
    (kept,) = preview(platform.conn, DAYS).kept
    assert (kept.jobs, kept.reason) == (1, "a younger rerun uses its results")
    assert rows_by_table(platform) == {}


def test_a_large_backlog_is_counted_up_to_a_limit(platform: Platform, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention_preview, "MOST_JOBS", 2)
    monkeypatch.setattr(retention_preview, "LONGEST_PAGE", 2)
    jobs = finished(platform, 5)
    platform.conn.execute(OLD, [jobs])
    platform.conn.execute("UPDATE dag_jobs SET completed_at = completed_at + 1 * interval '1 second'")
    platform.conn.execute(SUMMED_UP)
    (line,) = [line for line in preview(platform.conn, DAYS).tables if line.table == "dag_jobs"]
    assert (line.rows, line.is_complete) == (2, False)


def test_pruning_stops_when_its_time_is_over(platform: Platform) -> None:
    old_platform(platform)
    assert prune(platform.conn, "dagapp", DAYS, 0.0).has_more


@pytest.mark.parametrize(
    "query",
    [
        *(retention.SQL[name] for name in (*retention.OF_JOBS, *retention.OF_JOBS_BY_DAY, *retention.HISTORY)),
        unused_payloads.SQL["delete_old_uploads"],
    ],
)
def test_every_deletion_can_be_counted(platform: Platform, query: bytes) -> None:
    given: dict[str, Any] = {"jobs": ["x"], "namespaces": ["default"], "days": 1.0, "limit": 5}
    assert platform.conn.execute(count_of(query), given).fetchone() == (0,)


# -- assets --------------------------------------------------------------------------------------------------------


def test_nothing_of_an_asset_is_deleted_with_its_job(platform: Platform) -> None:
    """Who ordered what, which workflow in which version made it of which parameters, and what came of it."""
    platform.register(raster_workflow())
    ordered = place_order(platform.conn, input_params={"n": 7})
    platform.finish(platform.seat())
    (before,) = revisions_of(platform, ordered)
    job_id = ordered.request.job_id
    platform.conn.execute(OLD, [[job_id]])
    platform.conn.execute(SUMMED_UP)
    assert run_retention(platform)["dag_jobs"] == 1
    (after,) = revisions_of(platform, ordered)
    made = after.pop("made_by")
    before.pop("made_by")
    assert {**before, "updated_at": None} == {**after, "updated_at": None}
    assert (made["workflow_id"], made["workflow_version"]) == ("make_raster", 1)
    assert made["input_params"] == {"n": 7}
    assert made["submitted_by"] == "ann"
    assert made["completed_at"] is not None
    assert platform.count("dag_api_requests") == 1
    assert platform.count("dag_geospatial_assets") == 1
    assert platform.count("dag_workflows") == 1


def test_stored_values_among_the_parameters_of_a_revision_stay_but_secrets_go(platform: Platform) -> None:
    platform.register(raster_workflow())
    ordered = place_order(platform.conn)
    platform.finish(platform.seat())
    digest, secret = "0" * 64, Reference("1" * 64, 10, SECRET_MEDIA_TYPE)
    platform.conn.execute(
        "UPDATE dag_jobs SET input_params = %s, completed_at = '2020-01-01'",
        [Json({"n": 1, "area": Reference(digest, 100_000).as_json(), "token": secret.as_json()})],
    )
    for used in (digest, secret.sha256):
        platform.conn.execute("INSERT INTO dag_payload_uses (sha256, holder) SELECT %s, job_id FROM dag_jobs", [used])
    platform.conn.execute(SUMMED_UP)
    assert run_retention(platform)["dag_jobs"] == 1
    holder = holder_of_revision(str(ordered.request.asset_id), 1)
    assert platform.conn.execute("SELECT sha256, holder FROM dag_payload_uses").fetchall() == [(digest, holder)]
    made = read_revision(platform.conn, RevisionKey("default", str(ordered.request.asset_id), 1))
    assert made is not None
    assert MadeBy.model_validate(made.made_by).input_params["token"] == HIDDEN, "and it is shown to nobody"


def test_a_revision_says_what_made_it_before_and_after_its_job_is_deleted(platform: Platform) -> None:
    platform.register(raster_workflow())
    ordered = place_order(platform.conn, input_params={"n": 7})
    platform.finish(platform.seat())
    key = RevisionKey("default", str(ordered.request.asset_id), 1)
    platform.conn.execute("UPDATE dag_jobs SET completed_at = '2020-01-01'")
    before = read_revision(platform.conn, key)
    platform.conn.execute(SUMMED_UP)
    assert run_retention(platform)["dag_jobs"] == 1
    after = read_revision(platform.conn, key)
    assert before is not None
    assert after is not None
    assert before.made_by is not None
    assert before.made_by == after.made_by
