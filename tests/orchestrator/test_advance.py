"""Jobs advance on real PostgreSQL: inbox, engine, one guarded transaction."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from rmhdag.models.events import ErrorKind
from rmhdag.models.jobs import CommandKind
from rmhdag.models.leases import ClaimedTask, TaskProgress
from rmhdag.orchestrator.duties import dead_workers, orphans
from rmhdag.services import reruns
from rmhdag.services.submissions import OtherSubmissionError, UnknownWorkflowError, submit
from rmhdag.store import crash_points, jobs, poison, tasks, workflows
from rmhdag.store.commands import Command, issue_command
from rmhdag.store.workers import save_progress_if_held
from rmhdag.workflow import InvalidInputs
from rmhdag.workflow.definition import Branch, ConditionalNode, InputDefinition, WorkflowDefinition, WorkflowNode
from tests.engine.definitions import AT_ONCE, fan, task, workflow
from tests.orchestrator.platform import Platform


def chain(length: int = 3) -> WorkflowDefinition:
    nodes: dict[str, Any] = {
        f"n{n}": task(f"n{n + 1}", params={"x": f"{{{{ nodes.n{n - 1}.output.x }}}}"} if n else {"x": 1})
        for n in range(length - 1)
    }
    nodes[f"n{length - 1}"] = task()
    return workflow(**nodes)


def lose_the_connection() -> None:
    raise psycopg.OperationalError("gone")


def test_a_chain_completes_with_all_its_rows(platform: Platform) -> None:
    job_id = platform.submit(chain())
    platform.finish(platform.seat(), {"x": 7})
    job = platform.job(job_id)
    assert (job["status"], job["result"]) == ("completed", {"n2": {"x": 7}})
    assert set(platform.nodes(job_id).values()) == {"completed"}
    assert platform.events(job_id) == [
        "job_created",
        "job_started",
        *["node_ready", "node_dispatched", "node_completed"] * 3,
        "job_completed",
    ]
    assert (platform.count("dag_inbox"), platform.count("dag_queue_messages")) == (0, 0)
    assert platform.count("dag_task_results") == 3


def test_a_fan_out_is_aggregated(platform: Platform) -> None:
    job_id = platform.submit(fan("sum", field="n"), {"items": list(range(2_300))})
    platform.finish(platform.seat(), {"n": 2})
    assert platform.job(job_id)["status"] == "completed"
    query = "SELECT output FROM dag_node_states WHERE job_id = %s AND node_id = 'join'"
    assert platform.conn.execute(query, [job_id]).fetchone() == ({"total": 4_600, "count": 2_300},)
    assert len(platform.nodes(job_id)) == 2_303


def test_an_aggregate_too_large_for_a_row_is_a_reference(platform: Platform) -> None:
    job_id = platform.submit(fan("collect"), {"items": list(range(100))})
    platform.finish(platform.seat(), {"text": "x" * 1_000})
    assert platform.job(job_id)["status"] == "completed"
    query = "SELECT output FROM dag_node_states WHERE job_id = %s AND node_id = 'join'"
    row = platform.conn.execute(query, [job_id]).fetchone()
    assert row is not None
    assert row[0]["rmhdag:payload"]["size_bytes"] > 100_000
    assert platform.count("dag_payloads") == 1


def test_branches_skip_and_retries_come_back(platform: Platform) -> None:
    definition = workflow(
        route=ConditionalNode(
            subject="{{ inputs.size }}",
            branches=(Branch(condition="< 5", next=("small",)), Branch(default=True, next=("large",))),
        ),
        small=task(retry=AT_ONCE),
        large=task(),
    )
    job_id = platform.submit(definition, {"size": 1})
    seat = platform.seat()
    seat.work()
    platform.fail(*platform.claim())
    seat.work()
    (again,) = platform.claim()
    assert again.attempt == 2
    platform.succeed(again)
    seat.work()
    assert platform.job(job_id)["status"] == "completed"
    assert platform.nodes(job_id)["large"] == "skipped"


def test_a_failure_ends_the_job_and_withdraws_the_rest(platform: Platform) -> None:
    job_id = platform.submit(workflow(one=task("two"), other=task(), two=task()))
    seat = platform.seat()
    seat.work()
    (first,) = platform.claim(1)
    platform.fail(first, kind=ErrorKind.NON_RETRYABLE)
    seat.work()
    assert platform.job(job_id)["status"] == "failed"
    assert platform.count("dag_queue_messages") == 0


def test_a_child_job_reports_to_its_parent(platform: Platform) -> None:
    child = workflow(only=task()).model_copy(update={"workflow_id": "inner"})
    platform.register(child)
    job_id = platform.submit(workflow(sub=WorkflowNode(workflow="inner", next=("after",)), after=task()))
    platform.finish(platform.seat(), {"x": 1})
    assert platform.job(job_id)["status"] == "completed"
    assert platform.count("dag_jobs") == 2


def test_a_job_under_way_starts_child_jobs_and_retries_of_retired_workflows(platform: Platform) -> None:
    inner = workflow(only=task()).model_copy(update={"workflow_id": "inner"})
    platform.register(inner)
    outer = workflow(first=task("sub"), sub=WorkflowNode(workflow="inner"))
    job_id = platform.submit(outer)
    for name in ("inner", outer.workflow_id):
        assert workflows.retire_workflow(platform.conn, "default", name, "ops")
    platform.finish(platform.seat())
    assert platform.job(job_id)["status"] == "completed"
    planned = reruns.plan_rerun_of(platform.conn, job_id, everything=True)
    assert reruns.rerun_job(platform.conn, planned, issued_by="ops").job_id != job_id


def test_a_child_job_of_an_unknown_workflow_fails_the_node(platform: Platform) -> None:
    job_id = platform.submit(workflow(sub=WorkflowNode(workflow="nowhere")))
    platform.seat().work()
    job = platform.job(job_id)
    assert job["status"] == "failed"
    assert "nowhere" in job["error_message"]


def test_the_fence_keeps_a_former_owner_from_writing(platform: Platform) -> None:
    job_id = platform.submit(chain())
    old, new = platform.seat(), platform.seat()
    old.work()
    (claimed,) = platform.claim()
    jobs.claim_orphaned_jobs(new.conn, new.me, [old.me], 10)
    platform.succeed(claimed, output={"x": 1})
    before = platform.events(job_id)
    old.advance.take_over([job_id])
    old.work()
    assert platform.events(job_id) == before, "the old owner wrote"
    new.work()
    assert platform.nodes(job_id)["n1"] == "dispatched"
    assert platform.job(job_id)["owner_epoch"] == 2


def test_a_commit_that_seemed_to_fail_is_not_done_twice(platform: Platform) -> None:
    job_id = platform.submit(chain())
    seat = platform.seat()
    seat.work()
    platform.succeed(*platform.claim(), output={"x": 1})

    crash_points.arm("settle.after_commit", lose_the_connection)
    with pytest.raises(psycopg.OperationalError):
        seat.advance.run_once(whole_inbox=True)
    seat.work()
    assert platform.events(job_id).count("node_completed") == 1
    platform.finish(seat, {"x": 1})
    assert platform.job(job_id)["status"] == "completed"


def test_a_crash_before_the_commit_leaves_nothing(platform: Platform) -> None:
    job_id = platform.submit(chain())
    seat = platform.seat()
    seat.work()
    platform.succeed(*platform.claim(), output={"x": 1})

    crash_points.arm("settle.before_commit", lose_the_connection)
    with pytest.raises(psycopg.OperationalError):
        seat.advance.run_once(whole_inbox=True)
    assert platform.nodes(job_id)["n0"] == "dispatched"
    platform.finish(seat, {"x": 1})
    assert platform.job(job_id)["status"] == "completed"
    assert platform.events(job_id).count("node_completed") == 3


def test_two_workers_never_hold_the_same_task(platform: Platform) -> None:
    platform.submit(fan(), {"items": list(range(50))})
    platform.seat().work()
    first = platform.claim(30)
    second = tasks.claim_tasks(platform.conn, "another", "light", 30)
    assert {t.task_id for t in first}.isdisjoint({t.task_id for t in second})
    assert len(first) + len(second) == 50


def test_a_late_report_of_a_lost_lease_changes_nothing(platform: Platform) -> None:
    job_id = platform.submit(chain(1))
    seat = platform.seat()
    seat.work()
    (claimed,) = platform.claim()
    assert tasks.report_lost_tasks(platform.conn, [platform.worker_id]) == 1
    assert tasks.report_lost_tasks(platform.conn, [platform.worker_id]) == 0, "told once"
    assert platform.succeed(claimed) == set()
    seat.work()
    assert platform.succeed(claimed) == set(), "after it was offered again"
    (again,) = platform.claim()
    assert (again.task_id, again.attempt) == (claimed.task_id, 1)
    assert again.lease_epoch > claimed.lease_epoch
    assert platform.succeed(again) == {again.task_id}
    assert platform.succeed(again) == set(), "reported already"
    seat.work()
    assert platform.job(job_id)["status"] == "completed"


def show_progress(platform: Platform, claimed: ClaimedTask) -> None:
    tasks.start_tasks(platform.conn, platform.worker_id, [(claimed.task_id, claimed.lease_epoch)])
    progress = TaskProgress(claimed.task_id, claimed.lease_epoch, 1, 2, 50.0, "half")
    save_progress_if_held(platform.conn, platform.worker_id, [progress])


def results(platform: Platform) -> list[tuple[str, int]]:
    return platform.conn.execute("SELECT status::text, attempt FROM dag_task_results ORDER BY attempt").fetchall()


def test_a_task_that_showed_progress_and_is_revoked_runs_no_more(platform: Platform) -> None:
    """Its time is over by the owner's account: the worker may be frozen, and is not waited for."""
    platform.submit(workflow(only=task(retry=AT_ONCE)))
    seat = platform.seat()
    seat.work()
    (claimed,) = platform.claim()
    show_progress(platform, claimed)
    seat.work()
    platform.conn.execute("UPDATE dag_node_states SET deadline_at = '2000-01-01' WHERE deadline_at IS NOT NULL")
    platform.conn.execute("UPDATE dag_queue_messages SET started_at = '2000-01-01'")
    seat.advance.owned.clear()
    seat.work()
    assert results(platform) == [("stale", 1)]
    assert platform.succeed(claimed) == set()
    platform.succeed(*platform.claim())
    assert results(platform) == [("stale", 1), ("completed", 2)]


def test_a_task_of_a_buried_job_runs_no_more(platform: Platform) -> None:
    job_id = platform.submit(chain(1))
    seat = platform.seat()
    seat.work()
    (claimed,) = platform.claim()
    show_progress(platform, claimed)
    assert poison.bury_job(platform.conn, seat.me, job_id, 1, "default", "it cannot go on")
    assert results(platform) == [("stale", 1)]


def test_a_buried_job_leaves_no_child_job_and_no_question_behind(platform: Platform) -> None:
    child = chain(1).model_copy(update={"workflow_id": "child"})
    platform.register(child)
    job_id = platform.submit(workflow(run=WorkflowNode(workflow="child")))
    seat = platform.seat()
    seat.work()
    (claimed,) = platform.claim()
    command = Command(
        command_id="asked", namespace="default", job_id=job_id, kind=CommandKind.CANCEL, issued_by="ann", body={}
    )
    issue_command(platform.conn, command)
    epoch = platform.job(job_id)["owner_epoch"]
    assert poison.bury_job(platform.conn, seat.me, job_id, epoch, "default", "it cannot go on " + "x" * 3_000)
    answers = platform.conn.execute("SELECT outcome::text, left(reason, 34) FROM dag_job_commands").fetchall()
    assert answers == [("refused", "the job has failed: it cannot go o")]
    seat.work()
    query = "SELECT status::text, ending::text, error_message FROM dag_jobs WHERE parent_job_id = %s"
    assert platform.conn.execute(query, [job_id]).fetchall() == [
        ("running", "cancelled", "cancelled by parent job: the parent job has failed")
    ]
    tasks.release_tasks(platform.conn, platform.worker_id, [(claimed.task_id, claimed.lease_epoch, None)])
    seat.work()
    query = "SELECT status::text FROM dag_jobs WHERE parent_job_id = %s"
    assert platform.conn.execute(query, [job_id]).fetchall() == [("cancelled",)]
    assert platform.job(job_id)["status"] == "failed"


@pytest.mark.parametrize("kind", ["task_reported", "task_started", "child_job_ended", "command"])
def test_a_job_with_an_inbox_row_that_makes_no_sense_fails_alone(platform: Platform, kind: str) -> None:
    """As a worker or an orchestrator of another version might write it."""
    bad = platform.submit(chain(2), by="bad")
    good = [platform.submit(chain(2)) for _ in range(5)]
    seat = platform.seat()
    seat.work()
    query = "SELECT task_id, lease_epoch FROM dag_queue_messages WHERE job_id = %s"
    lease = platform.conn.execute(query, [bad]).fetchone()
    platform.conn.execute(
        "INSERT INTO dag_inbox (owner_id, job_id, kind, node_id, task_id, lease_epoch)"
        " VALUES (%s, %s, %s, 'n0', %s, %s)",
        [seat.me, bad, kind, *(lease or ())],
    )
    platform.finish(seat)
    job = platform.job(bad)
    assert job["status"] == "failed"
    assert job["error_message"].startswith("engine_error: KeyError")
    assert [platform.job(job_id)["status"] for job_id in good] == ["completed"] * 5
    letters = platform.conn.execute("SELECT job_id, reason, body->>'kind' FROM dag_dead_letters").fetchall()
    assert letters == [(bad, "engine_error", kind)]
    assert (platform.count("dag_inbox"), platform.count("dag_queue_messages")) == (0, 0)


def test_data_that_the_database_refuses_is_halved_down_to_its_job(platform: Platform) -> None:
    jobs_there = [platform.submit(chain(2)) for _ in range(8)]
    seat = platform.seat()
    seat.work()
    claimed = platform.claim()
    platform.succeed(*claimed)
    # The database refuses one job's next step, and only that.
    platform.conn.execute(
        "ALTER TABLE dag_node_states ADD CHECK (job_id <> %s OR node_id <> 'n1' OR status <> 'dispatched')".replace(
            "%s", f"'{jobs_there[3]}'"
        ).encode()
    )
    platform.finish(seat)
    statuses = [platform.job(job_id)["status"] for job_id in jobs_there]
    assert statuses == ["completed"] * 3 + ["failed"] + ["completed"] * 4


def cancel(platform: Platform, job_id: str) -> None:
    command = Command(
        command_id=f"stop-{job_id}"[:64],
        namespace="default",
        job_id=job_id,
        kind=CommandKind.CANCEL,
        issued_by="ann",
        body={"reason": "enough"},
    )
    assert issue_command(platform.conn, command) is not None


def task_before_fan_out() -> WorkflowDefinition:
    return workflow(first=task("split"), **fan("collect", max_parallel=1).nodes)  # type: ignore[arg-type]


@pytest.mark.parametrize("definition", [chain(2), task_before_fan_out()], ids=["task", "children"])
def test_what_one_batch_queues_and_cancels_is_cancelled(platform: Platform, definition: WorkflowDefinition) -> None:
    """The result that queues more tasks and the cancellation are read together."""
    job_id = platform.submit(definition, {"items": [1, 2, 3]})
    seat = platform.seat()
    seat.work()
    platform.succeed(*platform.claim(), output={"x": 1})
    cancel(platform, job_id)
    seat.work()
    assert platform.job(job_id)["status"] == "cancelled"
    assert set(platform.nodes(job_id).values()) <= {"completed", "cancelled"}
    assert (platform.count("dag_inbox"), platform.count("dag_queue_messages")) == (0, 0)


def test_a_job_that_cannot_even_start_fails_although_others_go_on(platform: Platform) -> None:
    bad = platform.submit(chain(2))
    good = [platform.submit(chain(2)) for _ in range(3)]
    platform.conn.execute(f"ALTER TABLE dag_node_states ADD CHECK (job_id <> '{bad}')".encode())
    seat = platform.seat()
    platform.finish(seat)
    assert platform.job(bad)["status"] == "failed"
    assert [platform.job(job_id)["status"] for job_id in good] == ["completed"] * 3


def test_the_jobs_of_a_silent_owner_are_taken_over(platform: Platform) -> None:
    job_ids = [platform.submit(chain()) for _ in range(4)]
    old, new = platform.seat(), platform.seat()
    old.work()
    clock = [0.0]
    new.context.monotonic = lambda: clock[0]  # type: ignore[method-assign]
    assert orphans.run_once(new.context) == 0
    clock[0] = 9.9
    assert orphans.run_once(new.context) == 0, "not yet a whole TTL"
    clock[0] = 10.1
    assert orphans.run_once(new.context) == 4
    platform.finish(new, {"x": 1})
    assert [platform.job(job_id)["status"] for job_id in job_ids] == ["completed"] * 4
    assert platform.events(job_ids[0]).count("job_reclaimed") == 1


def test_a_gap_of_the_watch_condemns_nobody(platform: Platform) -> None:
    platform.submit(chain())
    old, new = platform.seat(), platform.seat()
    old.work()
    clock = [0.0]
    new.context.monotonic = lambda: clock[0]  # type: ignore[method-assign]
    orphans.run_once(new.context)
    clock[0] = 2.0
    orphans.run_once(new.context)
    clock[0] = 60.0
    new.context.skip_gap()
    assert orphans.run_once(new.context) == 0, "an outage condemns nobody"
    clock[0] = 67.9
    assert orphans.run_once(new.context) == 0, "2 s before the gap and 7.9 s after it"
    platform.conn.execute("UPDATE dag_orchestrators SET heartbeat_at = clock_timestamp() WHERE owner_id = %s", [old.me])
    clock[0] = 69.0
    assert orphans.run_once(new.context) == 0, "it was heard again"


def test_the_dead_are_found_by_a_watch_that_is_often_interrupted(platform: Platform) -> None:
    """A connection that broke every few seconds kept four orchestrators from taking over a dead one's jobs."""
    platform.submit(chain())
    old, new = platform.seat(), platform.seat()
    old.work()
    clock = [0.0]
    new.context.monotonic = lambda: clock[0]  # type: ignore[method-assign]
    for look in range(4):
        assert orphans.run_once(new.context) == 0, look
        clock[0] += 3.0
        assert orphans.run_once(new.context) == (1 if look == 3 else 0), look
        new.context.skip_gap()
        clock[0] += 3.0


def test_the_tasks_of_a_silent_worker_are_offered_again(platform: Platform) -> None:
    platform.submit(chain(1))
    seat = platform.seat()
    seat.work()
    (claimed,) = platform.claim()
    clock = [0.0]
    seat.context.monotonic = lambda: clock[0]  # type: ignore[method-assign]
    dead_workers.run_once(seat.context)
    clock[0] = 11.0
    assert dead_workers.run_once(seat.context) == 1
    seat.work()
    assert [t.task_id for t in tasks.claim_tasks(platform.conn, "another", "light", 5)] == [claimed.task_id]


def test_submitting(platform: Platform) -> None:
    definition = chain().model_copy(update={"inputs": {"size": InputDefinition(type="integer", required=True)}})
    first = platform.submit(definition, {"size": 1}, idempotency_key="k")
    assert platform.submit(definition, {"size": 1}, idempotency_key="k") == first
    assert platform.submit(definition, {"size": 1}, idempotency_key="k", by="bob") != first
    with pytest.raises(OtherSubmissionError, match="'k'"):
        platform.submit(definition, {"size": 2}, idempotency_key="k")
    with pytest.raises(InvalidInputs, match="size"):
        platform.submit(definition, {"size": "1"})
    with pytest.raises(UnknownWorkflowError, match="nowhere"):
        submit(platform.conn, "nowhere", {}, submitted_by="ann")
    assert platform.count("dag_jobs") == 2


def test_submitters_take_turns(platform: Platform) -> None:
    platform.submit(fan(), {"items": list(range(900))}, by="giant")
    seat = platform.seat()
    seat.work()
    platform.succeed(*platform.claim(100))
    seat.work()
    small = platform.submit(chain(1).model_copy(update={"workflow_id": "small"}), by="small")
    seat.work()
    assert small in {claimed.job_id for claimed in platform.claim(20)}


def test_a_job_without_tasks_starts_and_ends_in_one_batch(platform: Platform) -> None:
    """Both changes of its row are one statement's, and the time of its start must not get lost between them."""
    only = ConditionalNode(branches=(Branch(condition="inputs.size > 1", next=()), Branch(default=True, next=())))
    job_id = platform.submit(workflow(only=only), {"size": 2})
    platform.seat().work()
    assert platform.job(job_id)["status"] == "completed"
    query = "SELECT started_at IS NOT NULL FROM dag_jobs WHERE job_id = %s"
    assert platform.conn.execute(query, [job_id]).fetchone() == (True,)
