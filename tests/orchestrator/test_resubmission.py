"""Orders against existing content: every state of the newest revision, and what the same order, an overwriting order
and an order of a new version then do. Decisions are set as the rows that they leave.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from rmhdag.assets.revisions import AssetConflict
from rmhdag.gateway.ddh import translate
from rmhdag.models.jobs import CommandKind
from rmhdag.services.requests import Ordered, OtherRequestError, WorkOrder, order
from rmhdag.store.asset_states import show_revision
from rmhdag.store.batch_rows import RevisionKey
from rmhdag.workflow.definition import InputDefinition, WorkflowDefinition
from tests.engine.definitions import task
from tests.orchestrator.assets import asset_of, revisions_of, rows
from tests.orchestrator.platform import Platform

FORM: dict[str, Any] = {
    "dataset_id": "0085581",
    "resource_id": "DR0104298",
    "version_id": "1",
    "container_name": "bronze-rasters",
    "file_name": "dem.tif",
}
TEXT = InputDefinition(type="string")


@pytest.fixture
def ready(platform: Platform) -> Platform:
    """The workflow that orders of rasters are translated to, with its inputs."""
    names = ("container_name", "blob_name", "item_id", "collection_id", "profile")
    platform.register(
        WorkflowDefinition(
            workflow_id="raster_processing",
            name="Makes an asset",
            produces="raster",
            inputs={**dict.fromkeys(names, TEXT), "properties": InputDefinition(type="object", default={})},
            nodes={"one": task()},
        )
    )
    return platform


def send(platform: Platform, *, overwrite: bool = False, **fields: Any) -> Ordered:
    """A form of DDH, as the gateway would pass it on."""
    body = translate(FORM | fields | {"processing_options": {"overwrite": overwrite}}).body
    content = body.model_dump(exclude={"dry_run", "submitted_by"})
    known = {name: value for name, value in content.items() if name in WorkOrder.__slots__}
    return order(platform.conn, WorkOrder(**known, submitted_by="ddh", client_id="ddh"))


def cancels(platform: Platform) -> int:
    query = "SELECT job_id FROM dag_inbox WHERE kind = 'command' AND payload->>'kind' = %s"
    return len(rows(platform, query, CommandKind.CANCEL))


def bring_to(platform: Platform, state: str) -> Ordered:
    """Revision 1 of version 1, in this state."""
    first = send(platform)
    if state == "under way":
        return first
    seat = platform.seat()
    seat.work()
    if state == "failed":
        platform.fail(*platform.claim())
    else:
        platform.succeed(*platform.claim())
    seat.work()
    if state not in ("failed", "unreviewed"):
        platform.conn.execute("UPDATE dag_asset_revisions SET review_state = %s::approval_state", [state])
        show_revision(platform.conn, RevisionKey("default", str(first.request.asset_id), 1))
    return first


class Outcome(NamedTuple):
    """`served` is what users see afterwards, before the new revision has ended."""

    revision: int | None
    served: int | None
    cancelled: int = 0


MATRIX: list[tuple[str, str, Outcome]] = [
    ("under way", "same", Outcome(1, None)),
    ("under way", "overwrite", Outcome(1, None)),
    ("under way", "overwrite with another file", Outcome(2, None, cancelled=1)),
    ("under way", "new version", Outcome(None, None)),
    ("under way", "new version, overwriting", Outcome(2, None, cancelled=1)),
    *(
        (state, kind, Outcome(2, served))
        for state, served in (
            ("unreviewed", 1),
            ("pending_review", None),
            ("rejected", None),
            ("failed", None),
            ("approved", 1),
            ("revoked", None),
        )
        for kind in ("overwrite", "overwrite with another file", "new version")
    ),
]
FIELDS: dict[str, dict[str, Any]] = {
    "same": {},
    "overwrite": {"overwrite": True},
    "overwrite with another file": {"overwrite": True, "file_name": "other.tif"},
    "new version": {"version_id": "2"},
    "new version, overwriting": {"version_id": "2", "overwrite": True},
}


@pytest.mark.parametrize(("state", "kind", "outcome"), MATRIX)
def test_the_matrix(ready: Platform, state: str, kind: str, outcome: Outcome) -> None:
    first = bring_to(ready, state)
    if outcome.revision is None:
        with pytest.raises(AssetConflict, match="is processing revision 1") as refused:
            send(ready, **FIELDS[kind])
        assert refused.value.code == "asset_processing"
        assert str(first.request.request_id) in refused.value.message
        return
    second = send(ready, **FIELDS[kind])
    assert (second.request.asset_id, second.request.revision) == (first.request.asset_id, outcome.revision)
    assert asset_of(ready, first)["current_revision"] == outcome.served
    assert asset_of(ready, first)["latest_revision"] == outcome.revision
    assert cancels(ready) == outcome.cancelled
    labels = [line["version_label"] for line in revisions_of(ready, first)]
    assert labels[0] == "1"
    assert labels[-1] == FIELDS[kind].get("version_id", "1")


@pytest.mark.parametrize("state", ["under way", "unreviewed", "pending_review", "approved", "rejected", "revoked"])
def test_the_same_form_again_is_the_same_request(ready: Platform, state: str) -> None:
    """Whatever became of it: its sender asks for its state, or overwrites."""
    first = bring_to(ready, state)
    again = send(ready)
    assert (again.is_repeat, again.request) == (True, first.request)
    with pytest.raises(OtherRequestError):
        send(ready, file_name="other.tif")
    assert len(revisions_of(ready, first)) == 1


def test_approved_content_is_served_until_another_is_approved(ready: Platform) -> None:
    first = bring_to(ready, "approved")
    send(ready, version_id="2")
    # As an order for a platform with review is born.
    ready.conn.execute("UPDATE dag_asset_revisions SET review_state = 'pending_review' WHERE revision = 2")
    ready.finish(ready.seats[0])
    asset = asset_of(ready, first)
    assert (asset["processing_status"], asset["latest_revision"], asset["current_revision"]) == ("completed", 2, 1)
    ready.conn.execute("UPDATE dag_asset_revisions SET review_state = 'approved' WHERE revision = 2")
    show_revision(ready.conn, RevisionKey("default", str(first.request.asset_id), 2))
    assert asset_of(ready, first)["current_revision"] == 2
    ready.conn.execute("UPDATE dag_asset_revisions SET review_state = 'revoked' WHERE revision = 2")
    show_revision(ready.conn, RevisionKey("default", str(first.request.asset_id), 2))
    assert asset_of(ready, first)["current_revision"] == 1
