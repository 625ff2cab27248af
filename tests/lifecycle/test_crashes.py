"""Whoever dies, and whenever: revisions, asset, catalogue, reviews and files never disagree, and nothing is stuck."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest

from rmhdag.assets.reviews import ReviewConflict
from rmhdag.catalogue.static import StaticCatalogue
from rmhdag.models.assets import Classification
from rmhdag.models.blobs import BlobAddress
from rmhdag.models.records import Zone
from rmhdag.services import reviews
from rmhdag.services.commands import decide
from rmhdag.services.requests import Ordered, WorkOrder, order
from rmhdag.storage import StorageSettings, open_storage
from rmhdag.store import crash_points, workflows
from rmhdag.store.batch_rows import RevisionKey
from rmhdag.store.identity import new_id
from rmhdag.workflow import definition_hash, definition_json
from rmhdag.workflow.definition import ApprovalNode, RetryRule, TaskNode, TaskSpec, WorkflowDefinition
from tests.faults.processes import Cluster
from tests.lifecycle.reviewing import (
    STEPS,
    approve,
    audited,
    check_agreement,
    key_of,
    make_revision,
    reviewed_workflow,
    revision_row,
    served,
    shown,
)
from tests.orchestrator.assets import REFS, raster_workflow
from tests.orchestrator.platform import Platform

LIFE_SECONDS = 120.0


class Died(Exception):
    pass


@pytest.fixture(autouse=True)
def _disarmed() -> Iterator[None]:
    yield
    crash_points.disarm()


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("step", STEPS)
def test_whoever_decides_dies(platform: Platform, step: str, moment: str) -> None:
    """Before the commit nothing has happened; after it everything has, and who tries again is told so."""

    def die() -> None:
        raise Died

    platform.register(reviewed_workflow())
    seat = platform.seat()
    approve(platform, key_of(make_revision(platform, seat, 1)))
    key = key_of(make_revision(platform, seat, 2))
    if step in ("revoke", "clear"):
        approve(platform, key, clearance=Classification.RESTRICTED)
    before = (revision_row(platform, key), shown(platform.conn), audited(platform))
    crash_points.arm(f"decide_review.{moment}_commit", die)
    with pytest.raises(Died):
        STEPS[step](platform, key)
    check_agreement(platform.conn)
    if moment == "before":
        assert (revision_row(platform, key), shown(platform.conn), audited(platform)) == before
        STEPS[step](platform, key)
    else:
        with pytest.raises(ReviewConflict):
            STEPS[step](platform, key)
    assert len(audited(platform)) == len(before[2]) + 1
    check_agreement(platform.conn)


# -- kill −9 of orchestrators ------------------------------------------------------------------------------------------


def publishing_workflow(workflow_id: str, *, gated: bool) -> WorkflowDefinition:
    retry = RetryRule(max_attempts=4, backoff="none", initial_delay_seconds=0)
    spec = TaskSpec(handler="test.publish", queue="light", params={"n": "{{ inputs.n }}"}, retry=retry)
    nodes: dict[str, Any] = {"make": TaskNode(task=spec, next=("ask",) if gated else ())}
    if gated:
        nodes["ask"] = ApprovalNode(message="Fit to print?")
    changes: dict[str, Any] = {"nodes": nodes, "review": None if gated else "required"}
    return raster_workflow(workflow_id).model_copy(update=changes)


class Lives:
    """Orchestrators, one after the other, each killed before or after its first commit."""

    def __init__(self, cluster: Cluster, root: str) -> None:
        self.cluster = cluster
        self.root = root
        self.deaths = 0
        self._moments = cycle(("before", "after", "after"))
        self._living: Any = None

    def until(self, condition: Callable[[], object], what: str) -> None:
        """Let them live and die until it holds. Whatever they leave behind agrees, at each moment."""

        def look() -> bool:
            check_agreement(self.cluster.conn)
            if condition():
                return True
            if self._living is not None and self._living.poll() is not None:
                assert self._living.returncode == 137, self.cluster.logs()
                self.deaths += 1
                self._living = None
            if self._living is None:
                point = f"settle.{next(self._moments)}_commit"
                self._living = self.cluster.orchestrator(RMHDAG_STORAGE=self.root, RMHDAG_CRASH_AT=point)
            return False

        self.cluster.wait_for(look, what, seconds=LIFE_SECONDS)

    def kill(self) -> None:
        if self._living is not None:
            self.cluster.kill(self._living)
            self._living = None
            self.deaths += 1


def place(cluster: Cluster, workflow_id: str, number: int) -> Ordered:
    work = WorkOrder(
        workflow_id=workflow_id,
        input_params={"n": number},
        submitted_by="ann",
        client_id="ann",
        request_id=new_id(),
        platform_id="ddh",
        platform_refs=REFS,
    )
    return order(cluster.conn, work)


@pytest.mark.timeout(400)
def test_orchestrators_are_killed_between_any_two_steps(cluster: Cluster, tmp_path: Path) -> None:
    """Approve at a gate, overwrite and reject, overwrite and approve, revoke: each orchestrator makes one commit."""
    root = f"file://{tmp_path / 'blobs'}"
    storage = open_storage(StorageSettings(root=root), "default")
    catalogue = StaticCatalogue(storage)
    for definition in (publishing_workflow("gated", gated=True), publishing_workflow("reviewed", gated=False)):
        stored = workflows.StoredWorkflow(
            definition.workflow_id, definition.version, definition_hash(definition), definition_json(definition)
        )
        workflows.register_workflow(cluster.conn, "default", stored, "test", {})
    lives = Lives(cluster, root)
    cluster.start("worker", "--concurrency", "1", "--handlers", "tests.lifecycle.publishing", RMHDAG_STORAGE=root)

    def status(ordered: Ordered) -> str:
        return cluster.status(str(ordered.request.job_id))

    def waits(ordered: Ordered) -> bool:
        query = "SELECT count(*) FROM dag_waiting_approvals WHERE job_id = %s"
        return bool(cluster.one(query, ordered.request.job_id))

    def key(ordered: Ordered) -> RevisionKey:
        return key_of(ordered)

    def content_of(ordered: Ordered) -> str:
        query = "SELECT content_hash FROM dag_asset_revisions WHERE asset_id = %s AND revision = %s"
        return str(cluster.one(query, ordered.request.asset_id, ordered.request.revision))

    first = place(cluster, "gated", 1)
    lives.until(lambda: waits(first), "the first job waits for a person")
    assert served(cluster.conn) is None
    decide(
        cluster.conn,
        str(first.request.job_id),
        "ask",
        approved=True,
        issued_by="rita",
        clearance=Classification.PUBLIC,
        answer_seconds=0,
    )
    lives.until(lambda: status(first) == "completed", "the approved job completes")
    assert (served(cluster.conn), shown(cluster.conn)) == (1, [("scene", 1, 1)])

    second = place(cluster, "gated", 2)
    lives.until(lambda: waits(second), "the second job waits for a person")
    decide(
        cluster.conn, str(second.request.job_id), "ask", approved=False, issued_by="rita", reason="no", answer_seconds=0
    )
    lives.until(lambda: status(second) == "failed", "the rejected job fails")
    assert (served(cluster.conn), shown(cluster.conn)) == (1, [("scene", 1, 1)])

    third = place(cluster, "reviewed", 3)
    lives.until(lambda: status(third) == "completed", "the third job completes")
    assert (served(cluster.conn), shown(cluster.conn)) == (1, [("scene", 1, 1)])
    lives.kill()
    reviews.approve(
        cluster.conn,
        key(third),
        content_hash=content_of(third),
        issued_by="rita",
        clearance=Classification.RESTRICTED,
    )
    check_agreement(cluster.conn)
    assert shown(cluster.conn) == [("scene", 3, 3)]
    reviews.revoke(cluster.conn, key(third), content_hash=content_of(third), issued_by="rita", reason="licence")
    check_agreement(cluster.conn)
    assert lives.deaths >= 6, "each commit was the last one of an orchestrator"

    cluster.orchestrator(RMHDAG_STORAGE=root)
    is_written = "SELECT count(*) = 0 FROM dag_catalogue_entries WHERE status = 'pending'"
    cluster.wait_for(lambda: bool(cluster.one(is_written)), "the catalogue's files are written")
    item = catalogue.find_item("c", "scene")
    assert item is not None
    assert item["n"] == 1, "the file shows the revision that is served"
    for number in (1, 2, 3):
        assert storage.read(BlobAddress(Zone.SILVER, "cogs", f"{number}.tif")) == b"raster %d" % number
    check_agreement(cluster.conn)
    cluster.check_rows()
