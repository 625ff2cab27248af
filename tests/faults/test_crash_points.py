"""F6: a process dies before or after each of its commits, and nothing is lost, doubled or stuck."""

from __future__ import annotations

import importlib
import pkgutil
from typing import Any

import pytest

import rmhdag.orchestrator
import rmhdag.store
from rmhdag.store.crash_points import SITES
from rmhdag.workflow.definition import FanInNode, FanOutNode, RetryRule, TaskNode, TaskSpec, WorkflowDefinition
from tests.faults.processes import Cluster

ORCHESTRATOR = ("settle", "claim_unowned_jobs")
WORKER = ("claim_tasks", "report_tasks", "start_tasks", "save_checkpoint_if_held", "write_json")
# Sites that a running job does not pass; each has a test of its own below or beside its function.
ELSEWHERE = {
    "claim_orphaned_jobs": "test_the_heir_dies_too",
    "release_jobs": "test_a_leaving_orchestrator_dies",
    "report_lost_tasks": "test_whoever_finds_a_dead_worker_dies",
    "release_tasks": "test_a_leaving_worker_dies",
    "unregister_worker": "test_a_leaving_worker_dies",
    "claim_suspect": "test_a_worker_dies_when_it_takes_a_suspect",
    "finish_upload": "tests/api/test_worker_protocol.py",
    "bury_job": "tests/orchestrator/test_advance.py",
    "reclaim_from_myself": "tests/orchestrator/test_containment.py",
    "release_some_jobs": "tests/orchestrator/test_duties.py",
    "take_out_expired_jobs": "tests/orchestrator/test_retention.py",
    "delete_pruned_jobs": "tests/orchestrator/test_retention.py",
    "delete_history": "tests/orchestrator/test_retention.py",
    "drop_day_if_unneeded": "tests/orchestrator/test_retention.py",
    "delete_rows_of_gone_jobs": "tests/orchestrator/test_retention.py",
    "delete_unused_payloads": "tests/orchestrator/test_unused_payloads.py",
    "delete_old_uploads": "tests/orchestrator/test_unused_payloads.py",
    "add_slice_to_rollups": "tests/orchestrator/test_rollups.py",
    "rewind_rollups_if_late": "tests/orchestrator/test_rollups.py",
    "fold_rollups": "tests/orchestrator/test_rollups.py",
    "register_workflow": "tests/orchestrator/test_advance.py",
    "claim_callbacks": "tests/faults/test_callbacks.py",
    "settle_tries": "tests/faults/test_callbacks.py",
    "claim_entries": "tests/orchestrator/test_catalogue.py",
    "keep_entries": "tests/orchestrator/test_catalogue.py",
    "settle_entries": "tests/orchestrator/test_catalogue.py",
    "settle_entries_in_pgstac": "tests/orchestrator/test_pgstac.py",
    "unpublish": "tests/orchestrator/test_unpublishing.py",
    "claim_deletions": "tests/orchestrator/test_unpublishing.py",
    "settle_deletions": "tests/orchestrator/test_unpublishing.py",
    **dict.fromkeys(
        ("claim_places", "settle_places", "claim_drops", "settle_drop"),
        "tests/orchestrator/test_data_tables.py",
    ),
    "claim_calls": "tests/orchestrator/outside/test_messages.py",
    "settle_calls": "tests/orchestrator/outside/test_pipelines.py",
    "remove_from_catalogue": "tests/orchestrator/test_catalogue_removals.py",
    "decide_review": "tests/lifecycle/test_crashes.py",
}


def mixed() -> WorkflowDefinition:
    retry = RetryRule(max_attempts=4, backoff="none", initial_delay_seconds=0)

    def task(handler: str, params: dict[str, Any], *following: str) -> TaskNode:
        return TaskNode(task=TaskSpec(handler=handler, queue="light", params=params, retry=retry), next=following)

    return WorkflowDefinition(
        workflow_id="mixed",
        name="Mixed",
        nodes={
            "first": task("echo", {"text": "x" * 70_000}, "split", "phases"),
            "phases": task("multi_phase", {"phases": 2, "seconds_per_phase": 0.4}, "last"),
            "split": FanOutNode(
                source=tuple(range(20)),
                task=TaskSpec(handler="echo", queue="light", params={"n": "{{ item }}"}, retry=retry),
                next=("join",),
            ),
            "join": FanInNode(source_node="split", next=("last",)),
            "last": task("echo", {"count": "{{ nodes.join.output.count }}"}),
        },
    )


def load_all_sites() -> None:
    for package in (rmhdag.store, rmhdag.orchestrator):
        for found in pkgutil.iter_modules(package.__path__):
            importlib.import_module(f"{package.__name__}.{found.name}")


def test_every_commit_site_is_tested() -> None:
    load_all_sites()
    assert {*ORCHESTRATOR, *WORKER, *ELSEWHERE} == SITES


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("site", ORCHESTRATOR)
def test_an_orchestrator_dies(cluster: Cluster, site: str, moment: str) -> None:
    doomed = cluster.orchestrator(RMHDAG_CRASH_AT=f"{site}.{moment}_commit")
    cluster.worker()
    job_id = cluster.submit(mixed())
    assert doomed.wait(30) == 137
    cluster.orchestrator()
    assert cluster.wait_for_end(job_id) == ["completed"], cluster.logs()
    cluster.check_rows()


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("site", WORKER)
def test_a_worker_dies(cluster: Cluster, site: str, moment: str) -> None:
    cluster.orchestrator()
    doomed = cluster.worker(RMHDAG_CRASH_AT=f"{site}.{moment}_commit")
    job_id = cluster.submit(mixed())
    assert doomed.wait(30) == 137
    cluster.worker()
    assert cluster.wait_for_end(job_id) == ["completed"], cluster.logs()
    cluster.check_rows()
