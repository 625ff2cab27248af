"""The registry of platforms on real PostgreSQL: seeds, namespaces, changes, and which asset an order is for."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from rmhdag.assets.identity import InvalidReferences, Platforms, asset_id_of, read_platforms
from rmhdag.assets.identity import Platform as Client
from rmhdag.assets.revisions import AssetConflict
from rmhdag.models.assets import PlatformReview
from rmhdag.services import platforms as registry
from rmhdag.services.asset_commands import roll_back
from rmhdag.services.platforms import PlatformCache, PlatformInUseError
from rmhdag.services.requests import Ordered, WorkOrder, order
from rmhdag.services.reruns import plan_rerun_of, rerun_job
from rmhdag.store.asset_states import show_revision
from rmhdag.store.batch_rows import RevisionKey
from rmhdag.store.identity import new_id
from rmhdag.views.assets import read_asset
from tests.orchestrator.assets import REFS, asset_of, place_order, raster_workflow, revisions_of, rows
from tests.orchestrator.platform import Platform, open_connection

DDH = Client("ddh", ("dataset_id", "resource_id"), version_ref="version_id")
# As it was before versions were labels.
FORMER = Platforms([Client("ddh", ("dataset_id", "resource_id"), ("version_id",))])
GEONODE = Client("geonode", ("dataset",), ("layer",))


@pytest.fixture
def ready(platform: Platform) -> Platform:
    platform.register(raster_workflow())
    return platform


def version(label: str) -> dict[str, str]:
    return {**REFS, "version_id": label}


def order_as_before(platform: Platform, label: str) -> Ordered:
    work = WorkOrder(
        workflow_id="make_raster",
        input_params={},
        submitted_by="ann",
        client_id="ann",
        request_id=new_id(),
        platform_id="ddh",
        platform_refs=version(label),
    )
    return order(platform.conn, work, platforms=FORMER)


def table(platform: Platform) -> dict[tuple[str, str], dict[str, Any]]:
    return {(row["namespace"], row["platform_id"]): row for row in rows(platform, "SELECT * FROM dag_platforms")}


def audit_of_platforms(platform: Platform) -> list[dict[str, Any]]:
    return rows(platform, "SELECT * FROM dag_audit WHERE action LIKE 'platform.%%' ORDER BY seq")


# -- which asset an order is for ---------------------------------------------------------------------------------------


def test_versions_are_revisions_of_one_asset(ready: Platform) -> None:
    seat = ready.seat()
    first = place_order(ready.conn, platform_refs=version("1"))
    ready.finish(seat)
    second = place_order(ready.conn, platform_refs=version("2"))
    assert first.request.asset_id == second.request.asset_id == asset_id_of("ddh", REFS)
    assert asset_of(ready, first)["platform_refs"] == REFS
    assert [(line["revision"], line["version_label"]) for line in revisions_of(ready, first)] == [(1, "1"), (2, "2")]


def test_an_asset_with_the_version_in_its_identity_is_found_by_the_same_references(ready: Platform) -> None:
    seat = ready.seat()
    former = order_as_before(ready, "1")
    assert former.request.asset_id == asset_id_of("ddh", version("1"))
    ready.finish(seat)
    again = place_order(ready.conn, platform_refs=version("1"))
    assert (again.request.asset_id, again.request.revision) == (former.request.asset_id, 2)
    other = place_order(ready.conn, platform_refs=version("2"))
    assert other.request.asset_id == asset_id_of("ddh", REFS)
    assert [line["version_label"] for line in revisions_of(ready, again)] == [None, "1"]


def test_another_version_never_joins(ready: Platform) -> None:
    first = place_order(ready.conn, platform_refs=version("1"))
    assert place_order(ready.conn, platform_refs=version("1")).request.joined
    for refs in (version("2"), REFS):
        with pytest.raises(AssetConflict, match="with other parameters"):
            place_order(ready.conn, platform_refs=refs)
    newer = place_order(ready.conn, platform_refs=version("2"), supersede=True)
    assert (newer.request.asset_id, newer.request.revision) == (first.request.asset_id, 2)


def test_reruns_and_rollbacks_keep_the_version(ready: Platform) -> None:
    seat = ready.seat()
    first = place_order(ready.conn, platform_refs=version("1"))
    ready.finish(seat)
    plan = plan_rerun_of(ready.conn, str(first.request.job_id), everything=True)
    rerun_job(ready.conn, plan, issued_by="ann")
    # The rerun is what was ordered: the same order joins it.
    assert place_order(ready.conn, platform_refs=version("1")).request.joined
    ready.finish(seat)
    place_order(ready.conn, platform_refs=version("2"))
    ready.finish(seat)
    roll_back(ready.conn, "default", str(first.request.asset_id), 1, issued_by="ann")
    assert [line["version_label"] for line in revisions_of(ready, first)] == ["1", "1", "2", "1"]


def test_the_latest_approved_version_is_computed(ready: Platform) -> None:
    """Review states are set as decisions would set them."""
    seat = ready.seat()
    for label in "123":
        ordered = place_order(ready.conn, platform_refs=version(label))
        ready.finish(seat)
    asset_id = str(ordered.request.asset_id)

    def states(*reviews: str) -> tuple[str | None, list[tuple[str, str, bool]]]:
        for number, state in enumerate(reviews, 1):
            ready.conn.execute(
                "UPDATE dag_asset_revisions SET review_state = %s::approval_state WHERE revision = %s", [state, number]
            )
        show_revision(ready.conn, RevisionKey("default", asset_id, 3))
        view = read_asset(ready.conn, "default", asset_id)
        assert view is not None
        return view.latest_version, [(line.version_label, line.review_state, line.served) for line in view.versions]

    assert states("approved", "approved", "pending_review") == (
        "2",
        [("3", "pending_review", False), ("2", "approved", True), ("1", "approved", False)],
    )
    assert states("approved", "revoked", "rejected")[0] == "1"
    assert states("revoked", "revoked", "rejected")[0] is None
    assert states("approved", "approved", "approved")[0] == "3"


# -- seeds -------------------------------------------------------------------------------------------------------------


def test_seeds_are_written_once_and_follow_the_settings(ready: Platform) -> None:
    seeds = Platforms(read_platforms("geonode=dataset"))
    assert registry.seed_platforms(ready.conn, seeds) == ["arcgis", "ddh", "geonode"]
    before = table(ready)
    assert before["default", "ddh"]["identity_refs"] == ["dataset_id", "resource_id"]
    assert before["default", "ddh"]["version_ref"] == "version_id"
    assert before["default", "arcgis"]["optional_refs"] == ["layer_idx"]
    assert registry.seed_platforms(ready.conn, seeds) == []
    assert table(ready) == before
    assert registry.seed_platforms(ready.conn, Platforms(read_platforms("geonode=dataset,layer?"))) == ["geonode"]
    assert table(ready)["default", "geonode"]["optional_refs"] == ["layer"]


def test_what_a_person_has_changed_is_not_overwritten(ready: Platform) -> None:
    registry.seed_platforms(ready.conn, Platforms())
    four_eyes = Client("ddh", ("dataset_id", "resource_id"), (), "version_id", PlatformReview.FOUR_EYES)
    registry.set_platform(ready.conn, "default", four_eyes, issued_by="ada")
    assert registry.seed_platforms(ready.conn, Platforms()) == []
    assert table(ready)["default", "ddh"]["review"] == "four_eyes"


def test_a_setting_that_would_lose_assets_is_ignored(ready: Platform) -> None:
    registry.seed_platforms(ready.conn, Platforms(read_platforms("geonode=dataset")))
    place_order(ready.conn, platform_id="geonode", platform_refs={"dataset": "d"})
    assert registry.seed_platforms(ready.conn, Platforms(read_platforms("geonode=package"))) == []
    assert table(ready)["default", "geonode"]["identity_refs"] == ["dataset"]


def test_twenty_starts_at_once_write_the_seeds_once(ready: Platform) -> None:
    at_once, conns = threading.Barrier(20, timeout=60), [open_connection(ready.dsn) for _ in range(20)]

    def start(number: int) -> list[str]:
        conn = conns[number]
        try:
            at_once.wait()
            return registry.seed_platforms(conn, Platforms())
        finally:
            conn.close()

    with ThreadPoolExecutor(20) as pool:
        written = list(pool.map(start, range(20)))
    assert sorted(name for names in written for name in names) == ["arcgis", "ddh"]


# -- namespaces and changes --------------------------------------------------------------------------------------------


def test_a_namespace_without_a_row_of_its_own_uses_that_of_default(ready: Platform) -> None:
    ready.register(raster_workflow(), "north")
    registry.set_platform(ready.conn, "default", GEONODE, issued_by="ada")
    by_dataset: dict[str, Any] = {"platform_id": "geonode", "platform_refs": {"dataset": "d"}}
    assert place_order(ready.conn, namespace="north", **by_dataset).request.revision == 1
    registry.set_platform(ready.conn, "north", Client("geonode", ("dataset",), ("layer", "style")), issued_by="bob")
    refs = {"dataset": "d", "style": "s"}
    place_order(ready.conn, namespace="north", platform_id="geonode", platform_refs=refs)
    with pytest.raises(InvalidReferences, match="has no reference 'style'"):
        place_order(ready.conn, platform_id="geonode", platform_refs=refs)
    registry.deactivate_platform(ready.conn, "default", "geonode", issued_by="ada")
    with pytest.raises(InvalidReferences, match="is inactive and takes no orders"):
        place_order(ready.conn, **by_dataset)
    assert registry.read_platforms(ready.conn, "north").check("geonode", refs).refs == refs
    audited = audit_of_platforms(ready)
    assert [(line["namespace"], line["actor"], line["action"]) for line in audited] == [
        ("default", "ada", "platform.set"),
        ("north", "bob", "platform.set"),
        ("default", "ada", "platform.deactivate"),
    ]
    assert audited[2]["subject"] == "platform geonode"
    assert (audited[2]["before"]["active"], audited[2]["after"]["active"]) == (True, False)


def test_references_of_existing_assets_stay(ready: Platform) -> None:
    registry.set_platform(ready.conn, "default", GEONODE, issued_by="ada")
    registry.set_platform(ready.conn, "default", Client("geonode", ("package",)), issued_by="ada")
    registry.set_platform(ready.conn, "default", GEONODE, issued_by="ada")
    # An asset of another namespace that has no row of its own counts too.
    ready.register(raster_workflow(), "north")
    place_order(ready.conn, namespace="north", platform_id="geonode", platform_refs={"dataset": "d", "layer": "1"})
    with pytest.raises(PlatformInUseError, match="would not be found any more: its identity references are dataset"):
        registry.set_platform(ready.conn, "default", Client("geonode", ("package",)), issued_by="ada")
    registry.set_platform(ready.conn, "default", Client("geonode", ("dataset",), (), "layer"), issued_by="ada")
    refs = {"dataset": "d", "layer": "1"}
    joined = place_order(ready.conn, namespace="north", platform_id="geonode", platform_refs=refs, supersede=True)
    assert (joined.request.asset_id, joined.request.revision) == (asset_id_of("geonode", refs), 2)


def test_the_same_definition_again_changes_nothing(ready: Platform) -> None:
    registry.set_platform(ready.conn, "default", GEONODE, issued_by="ada")
    before = table(ready)
    registry.set_platform(ready.conn, "default", GEONODE, issued_by="bob")
    assert table(ready) == before
    assert [line["actor"] for line in audit_of_platforms(ready)] == ["ada"]


def test_a_cache_sees_the_changes_of_its_own_process_at_once(ready: Platform) -> None:
    cache = PlatformCache(Platforms([GEONODE]))
    assert cache.read(ready.conn, "default").names == ["arcgis", "ddh", "geonode"]
    registry.set_platform(ready.conn, "default", Client("ckan", ("package",)), issued_by="ada")
    cache.forget()
    assert cache.read(ready.conn, "default").names == ["arcgis", "ckan", "ddh", "geonode"]
