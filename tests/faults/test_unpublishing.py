"""Orchestrators die between the commit of an unpublishing and its files, and between a pipeline and its record."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from rmhdag.models.blobs import BlobAddress
from rmhdag.models.records import Zone
from rmhdag.models.service_calls import ServiceKind
from rmhdag.services.callbacks.destinations import Rules
from rmhdag.services.callbacks.signing import Vault
from rmhdag.services.outside import ServiceWish, announce_approval, put_service
from rmhdag.services.unpublishing import unpublish
from rmhdag.storage import Storage, StorageSettings, open_storage
from rmhdag.store.batch_rows import RevisionKey
from rmhdag.store.unpublishing import Unpublish
from tests.faults.processes import Cluster
from tests.orchestrator.outside.factory_server import FactoryServer

ASSET = "a" * 32
DIED = 137


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "blobs"


@pytest.fixture
def storage(root: Path) -> Storage:
    return open_storage(StorageSettings(str(root)), "default")


@pytest.fixture
def factory() -> Iterator[FactoryServer]:
    with FactoryServer() as made:
        yield made


def make_revision(cluster: Cluster, storage: Storage) -> None:
    """As a finished job leaves it, with a file."""
    made = storage.write(BlobAddress(Zone.SILVER, "cogs", "a.tif"), b"pixels")
    cluster.conn.execute(
        "INSERT INTO dag_geospatial_assets (asset_id, platform_id, kind, processing_status, latest_revision, "
        "current_revision, created_by, platform_refs) VALUES (%s, 'ddh', 'raster', 'completed', 1, 1, 'ann', '{}')",
        [ASSET],
    )
    cluster.conn.execute(
        "INSERT INTO dag_asset_revisions (asset_id, revision, status, created_by, completed_at, review_state, "
        "clearance) VALUES (%s, 1, 'completed', 'ann', clock_timestamp(), 'approved', 'public')",
        [ASSET],
    )
    cluster.conn.execute(
        "INSERT INTO dag_blob_assets (blob_id, zone, container, path, size_bytes, sha256, role, asset_id, revision) "
        "VALUES ('b', 'silver', 'cogs', 'a.tif', 6, %s, 'data', %s, 1)",
        [made.sha256, ASSET],
    )


@pytest.mark.parametrize(
    "point",
    [
        "claim_deletions.before_commit",
        "claim_deletions.after_commit",
        "settle_deletions.before_commit",
        "settle_deletions.after_commit",
    ],
)
def test_files_go_although_the_orchestrator_dies(cluster: Cluster, storage: Storage, root: Path, point: str) -> None:
    make_revision(cluster, storage)
    unpublish(cluster.conn, Unpublish("default", ASSET, None, "ann", True))
    assert storage.exists(BlobAddress(Zone.SILVER, "cogs", "a.tif"))
    doomed = cluster.orchestrator(RMHDAG_STORAGE=str(root), RMHDAG_CRASH_AT=point)
    assert doomed.wait(45) == DIED
    cluster.conn.execute("UPDATE dag_file_deletions SET next_attempt_at = '2000-01-01' WHERE settled_at IS NULL")
    cluster.orchestrator(RMHDAG_STORAGE=str(root))
    cluster.wait_for(
        lambda: cluster.one("SELECT status::text FROM dag_unpublishings") == "completed", "the files are deleted"
    )
    assert not storage.exists(BlobAddress(Zone.SILVER, "cogs", "a.tif"))
    assert cluster.one("SELECT current_revision FROM dag_geospatial_assets") is None


@pytest.mark.parametrize(
    "point",
    [
        "claim_calls.after_commit",
        # Between createRun and the commit that records the run.
        "settle_calls.before_commit",
        "settle_calls.after_commit",
    ],
)
def test_a_pipeline_runs_once_although_the_orchestrator_dies(
    cluster: Cluster, storage: Storage, factory: FactoryServer, point: str
) -> None:
    make_revision(cluster, storage)
    settings = {"subscription_id": "sub-1", "resource_group": "maps", "factory": "fact", "poll_seconds": 0.1}
    wish = ServiceWish("adf", ServiceKind.ADF, factory.url, settings, factory.token, True)
    rules = Rules(frozenset({factory.host}))
    put_service(cluster.conn, "default", wish, rules, Vault(allow_plain=True), by="ann")
    announce_approval(cluster.conn, RevisionKey("default", ASSET, 1), "public")
    doomed = cluster.orchestrator(RMHDAG_CALLBACK_HOSTS=factory.host, RMHDAG_CRASH_AT=point)
    assert doomed.wait(45) == DIED
    cluster.conn.execute("UPDATE dag_service_calls SET next_attempt_at = '2000-01-01'")
    cluster.orchestrator(RMHDAG_CALLBACK_HOSTS=factory.host)
    cluster.wait_for(
        lambda: cluster.one("SELECT status::text FROM dag_service_calls") == "delivered", "the call is delivered"
    )
    assert len(factory.paths("/createRun")) == 1
    assert cluster.one("SELECT target FROM dag_promoted") == "adf"
