"""Errors and warnings on real PostgreSQL: from a report to its job, its revision and a rerun."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from rmhdag.handlers import HandlerError
from rmhdag.models.events import ErrorKind
from rmhdag.models.leases import ClaimedTask, TaskReport
from rmhdag.models.states import TaskStatus
from rmhdag.services.asset_commands import roll_back
from rmhdag.services.reruns import plan_rerun_of, rerun_job
from rmhdag.store import jobs, settle, tasks
from rmhdag.store.settle import Writes
from rmhdag.workflow.definition import InputDefinition, WorkflowDefinition, WorkflowNode
from tests.engine.definitions import AT_ONCE, fan, task, workflow
from tests.orchestrator.assets import place_order, raster_workflow, revisions_of, rows
from tests.orchestrator.platform import Platform, Seat


def warning(code: str = "RASTER_EMPTY", count: int = 1, message: str = "no pixel has data") -> dict[str, Any]:
    return {"code": code, "message": message, "count": count}


def cause(code: str = "CRS_MISSING") -> dict[str, Any]:
    return HandlerError(code=code, message="a.tif names no CRS").model_dump(mode="json")


def succeed(platform: Platform, claimed: ClaimedTask, *warnings: dict[str, Any]) -> None:
    done = TaskReport(
        claimed.task_id, claimed.lease_epoch, TaskStatus.COMPLETED, output=b"{}", warnings=orjson.dumps(warnings)
    )
    assert tasks.report_tasks(platform.conn, platform.worker_id, [done])


def fail(platform: Platform, claimed: ClaimedTask, error: dict[str, Any]) -> None:
    kind = ErrorKind.HANDLER_ERROR if error["retryable"] else ErrorKind.NON_RETRYABLE
    done = TaskReport(
        claimed.task_id, claimed.lease_epoch, TaskStatus.FAILED, kind, error["message"], error=orjson.dumps(error)
    )
    assert tasks.report_tasks(platform.conn, platform.worker_id, [done])


def job_of(platform: Platform, job_id: str) -> dict[str, Any]:
    return rows(platform, "SELECT * FROM dag_jobs WHERE job_id = %s", job_id)[0]


def node_of(platform: Platform, job_id: str, node_id: str) -> dict[str, Any]:
    return rows(platform, "SELECT * FROM dag_node_states WHERE job_id = %s AND node_id = %s", job_id, node_id)[0]


def test_warnings_stand_with_the_result_and_are_summed_for_the_job(platform: Platform) -> None:
    seat = platform.seat()
    job_id = platform.submit(fan(), {"items": [1, 2, 3]})
    seat.work()
    for claimed in platform.claim():
        succeed(platform, claimed, warning(), warning("CRS_OVERRIDE", 2, claimed.node_id))
        seat.work()
    platform.finish(seat)
    found = job_of(platform, job_id)
    assert found["status"] == "completed"
    assert found["warnings"] == [warning(count=3), warning("CRS_OVERRIDE", 6, "split__0")]
    results = rows(platform, "SELECT warnings FROM dag_task_results ORDER BY node_id DESC")
    assert [len(one["warnings"] or ()) for one in results] == [2, 2, 2, 0]


def test_a_change_of_owner_loses_and_repeats_none(platform: Platform) -> None:
    first, second = platform.seat(), platform.seat()
    job_id = platform.submit(workflow(one=task("two"), two=task("three"), three=task()))
    for seat in (first, second, first):
        seat.work()
        [claimed] = platform.claim()
        succeed(platform, claimed, warning())
        seat.work()
        jobs.release_jobs(seat.conn, seat.me)
        seat.advance.owned.clear()
    assert job_of(platform, job_id)["warnings"] == [warning(count=3)]


def test_more_warnings_than_an_inbox_row_holds_are_read_from_the_result(platform: Platform) -> None:
    seat = platform.seat()
    job_id = platform.submit(workflow(one=task()))
    seat.work()
    [claimed] = platform.claim()
    many = [warning(f"W{number}", 1, "m" * 400) for number in range(90)]
    succeed(platform, claimed, *many)
    (told,) = rows(platform, "SELECT payload FROM dag_inbox WHERE kind = 'task_reported'")
    assert told["payload"]["warnings"] is True
    seat.work()
    assert job_of(platform, job_id)["warnings"] == many


def test_the_ordinary_case_has_no_statement_and_no_error_for_them(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[Writes] = []

    class Noted(settle._Encoded):
        def __init__(self, writes: Writes) -> None:
            sent.append(writes)
            super().__init__(writes)

    monkeypatch.setattr(settle, "_Encoded", Noted)
    seat = platform.seat()
    job_id = platform.submit(workflow(one=task("two"), two=task()))
    platform.finish(seat)
    assert job_of(platform, job_id)["warnings"] is None
    assert sent
    assert not any(writes.job_warnings for writes in sent)
    assert {row.error for writes in sent for row in writes.nodes} <= {None}
    assert {row.error for writes in sent for row in writes.new_nodes} == {None}
    stored = platform.conn.execute("SELECT DISTINCT jsonb_typeof(error) FROM dag_node_states").fetchall()
    assert stored == [(None,)], "not the null of JSON"


def test_an_error_is_kept_by_result_node_and_job(platform: Platform) -> None:
    seat = platform.seat()
    job_id = platform.submit(workflow(one=task(retry=AT_ONCE)))
    seat.work()
    [claimed] = platform.claim()
    fail(platform, claimed, cause())
    seat.work()
    found = job_of(platform, job_id)
    assert (found["status"], found["error"]) == ("failed", cause())
    assert found["error_message"] == "node 'one' failed: a.tif names no CRS"
    assert node_of(platform, job_id, "one")["error"] == cause()
    assert rows(platform, "SELECT error FROM dag_task_results")[0]["error"] == cause()


def test_a_node_that_is_tried_again_keeps_its_error_until_it_completes(platform: Platform) -> None:
    seat = platform.seat()
    job_id = platform.submit(workflow(one=task(retry=AT_ONCE)))
    seat.work()
    [claimed] = platform.claim()
    fail(platform, claimed, cause("STORAGE_UNAVAILABLE"))
    seat.work()
    node = node_of(platform, job_id, "one")
    assert (node["status"], node["attempt"], node["error"]) == ("dispatched", 2, cause("STORAGE_UNAVAILABLE"))
    # The next failure names no code: the error of the one before is not its error.
    [claimed] = platform.claim()
    platform.fail(claimed)
    seat.work()
    node = node_of(platform, job_id, "one")
    assert (node["attempt"], node["error_message"], node["error"]) == (3, "boom", None)
    [claimed] = platform.claim()
    platform.succeed(claimed)
    seat.work()
    node = node_of(platform, job_id, "one")
    assert (node["status"], node["error_message"], node["error"]) == ("completed", None, None)
    assert job_of(platform, job_id)["error"] is None


def test_the_cause_of_a_fan_outs_failure_survives_a_change_of_owner(platform: Platform) -> None:
    first, second = platform.seat(), platform.seat()
    job_id = platform.submit(fan(), {"items": [1, 2, 3]})
    first.work()
    claimed = {one.node_id: one for one in platform.claim()}
    fail(platform, claimed["split__1"], cause())
    first.work()
    jobs.release_jobs(first.conn, first.me)
    first.advance.owned.clear()
    second.work()
    platform.succeed(claimed["split__0"], claimed["split__2"])
    second.work()
    assert job_of(platform, job_id)["error"] == cause()


def sub_workflow() -> WorkflowDefinition:
    return WorkflowDefinition(
        workflow_id="other", name="Other", inputs={"n": InputDefinition(type="integer", default=1)}, nodes={"x": task()}
    )


def parent(platform: Platform, seat: Seat) -> tuple[str, ClaimedTask]:
    """A job whose child job is waiting for its only task."""
    platform.register(sub_workflow())
    job_id = platform.submit(workflow(sub=WorkflowNode(workflow="other", retry=AT_ONCE, next=("last",)), last=task()))
    seat.work()
    [claimed] = platform.claim()
    return job_id, claimed


def test_a_child_job_hands_its_warnings_and_its_error_up(platform: Platform) -> None:
    seat = platform.seat()
    job_id, claimed = parent(platform, seat)
    succeed(platform, claimed, warning(count=2))
    platform.finish(seat)
    assert job_of(platform, job_id)["status"] == "completed"
    assert job_of(platform, job_id)["warnings"] == [warning(count=2)]
    failed_id, claimed = parent(platform, seat)
    fail(platform, claimed, cause())
    seat.work()
    assert (job_of(platform, failed_id)["status"], job_of(platform, failed_id)["error"]) == ("failed", cause())
    assert node_of(platform, failed_id, "sub")["attempt"] == 1


def rerun(platform: Platform, seat: Seat, job_id: str, **how: Any) -> str:
    planned = plan_rerun_of(platform.conn, job_id, **how)
    new_id = rerun_job(platform.conn, planned, issued_by="bob").job_id
    platform.finish(seat)
    return new_id


def test_a_rerun_keeps_the_warnings_of_what_it_reuses(platform: Platform) -> None:
    seat = platform.seat()
    platform.register(sub_workflow())
    definition = fan().model_copy(
        update={
            "nodes": {
                "alone": task(),
                "sub": WorkflowNode(workflow="other"),
                **fan().nodes,
                "after": task(all_of=("join", "alone", "sub")),
            }
        }
    )
    job_id = platform.submit(definition, {"items": [1, 2]})
    seat.work()
    for claimed in platform.claim():
        succeed(platform, claimed, warning("OF_" + claimed.node_id.upper().replace("__", "_")))
    seat.work()
    [last] = platform.claim()
    platform.fail(last)
    seat.work()
    codes = {"OF_ALONE", "OF_X", "OF_SPLIT_0", "OF_SPLIT_1"}
    assert {one["code"] for one in job_of(platform, job_id)["warnings"]} == codes
    # What failed runs again, all else is taken over; then the same from the second job.
    second = rerun(platform, seat, job_id)
    third = rerun(platform, seat, second, from_nodes=["after"])
    for new_id in (second, third):
        assert job_of(platform, new_id)["status"] == "completed"
        assert {one["code"] for one in job_of(platform, new_id)["warnings"]} == codes, "each once"
        assert {one["count"] for one in job_of(platform, new_id)["warnings"]} == {1}
    # What runs again without a warning has none any more.
    fourth = rerun(platform, seat, third, from_nodes=["alone", "split"])
    assert {one["code"] for one in job_of(platform, fourth)["warnings"]} == {"OF_X"}


def test_children_that_are_kept_bring_their_warnings(platform: Platform) -> None:
    seat = platform.seat()
    job_id = platform.submit(fan(), {"items": [1, 2]})
    seat.work()
    claimed = {one.node_id: one for one in platform.claim()}
    succeed(platform, claimed["split__0"], warning())
    platform.fail(claimed["split__1"])
    seat.work()
    assert job_of(platform, rerun(platform, seat, job_id))["warnings"] == [warning()]


def test_revisions_outlive_their_job_with_warnings_and_error(platform: Platform) -> None:
    seat = platform.seat()
    platform.register(raster_workflow())
    ordered = place_order(platform.conn)
    seat.work()
    [claimed] = platform.claim()
    succeed(platform, claimed, warning())
    seat.work()
    failing = place_order(platform.conn, input_params={"n": 2})
    seat.work()
    [claimed] = platform.claim()
    fail(platform, claimed, cause())
    seat.work()
    place_order(platform.conn, input_params={"n": 3})
    platform.finish(seat)
    assert failing.request.asset_id == ordered.request.asset_id
    roll_back(platform.conn, "default", str(ordered.request.asset_id), 1, issued_by="ann")
    found = [(one["warnings"], one["error"]) for one in revisions_of(platform, ordered)]
    assert found == [([warning()], None), (None, cause()), (None, None), ([warning()], None)]
