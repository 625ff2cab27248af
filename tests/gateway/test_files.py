"""Files of results: partners fetch them through the gateway, and learn nothing of where they are stored."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx
import pytest

from rmhdag.gateway import files
from rmhdag.models.assets import BlobAsset
from rmhdag.models.blobs import BlobAddress
from rmhdag.models.records import Zone
from rmhdag.storage import StorageSettings
from rmhdag.storage.zones import Storage, open_storage
from tests.api.serving import ServedHere
from tests.api.serving import served as served_api
from tests.gateway.orders import REFS, order
from tests.gateway.serving import Served
from tests.gateway.test_boundary import LEAKS, secrets_of
from tests.orchestrator.assets import raster_workflow, rows
from tests.orchestrator.platform import Platform
from tests.store.rows import insert_rows

CONTENT = bytes(range(256)) * 40_000  # several pieces


@pytest.fixture
def settings(tmp_path: Path) -> StorageSettings:
    return StorageSettings(str(tmp_path))


@pytest.fixture
def api(migrated_database: str, settings: StorageSettings) -> Iterator[ServedHere]:
    with served_api(migrated_database, storage=settings) as running:
        yield running


@pytest.fixture
def storage(settings: StorageSettings) -> Storage:
    return open_storage(settings, "default")


def publish(platform: Platform, storage: Storage, request_id: str, path: str, content: bytes, **more: Any) -> str:
    """A file of the revision that the order has made; without one, of its job."""
    (row,) = rows(
        platform,
        "SELECT asset_id, revision, job_id FROM dag_api_requests WHERE client_request_id = %s",
        request_id,
    )
    ref = storage.write(BlobAddress(Zone.SILVER, "vectors", path), content)
    blob = BlobAsset(
        blob_id=sha256(path.encode()).hexdigest(),
        **{"role": "data", **row, **ref.model_dump(), **more},
        created_at=datetime(2026, 3, 1, tzinfo=UTC),
    )
    insert_rows(platform.conn, "dagapp", [blob])
    return ref.sha256


def place(gateway: Served, platform: Platform, **changes: Any) -> tuple[httpx.Client, str]:
    client = gateway.client()
    request_id = order(client, **changes).json()["request_id"]
    return client, request_id


def files_of(client: httpx.Client, request_id: str) -> list[dict[str, Any]]:
    answer = client.get(f"/platform/results/{request_id}")
    assert answer.status_code == 200, answer.text
    listed: list[dict[str, Any]] = answer.json()["files"]
    return listed


def test_a_result_names_its_files_and_they_can_be_fetched(
    gateway: Served, platform: Platform, storage: Storage
) -> None:
    client, request_id = place(gateway, platform)
    publish(platform, storage, request_id, "wells/point-00000.parquet", CONTENT)
    publish(platform, storage, request_id, "wells/point-00001.parquet", b"second")
    publish(platform, storage, request_id, "wells/manifest.json", b"{}", role="manifest")
    # Nothing is shown of what is not complete.
    assert files_of(client, request_id) == []
    platform.finish(platform.seat())
    first, second = files_of(client, request_id)
    assert (first["name"], first["size_bytes"]) == ("point-00000.parquet", len(CONTENT))
    assert first["sha256"] == sha256(CONTENT).hexdigest()
    assert first["media_type"] == "application/vnd.apache.parquet"
    whole = client.get(first["href"])
    assert (whole.status_code, whole.content) == (200, CONTENT)
    assert whole.headers["etag"] == f'"{first["sha256"]}"'
    assert "point-00000.parquet" in whole.headers["content-disposition"]
    assert client.get(second["href"]).content == b"second"
    part = client.get(first["href"], headers={"Range": "bytes=4-7"})
    assert (part.status_code, part.content) == (206, CONTENT[4:8])
    assert part.headers["content-range"] == f"bytes 4-7/{len(CONTENT)}"
    head = client.head(first["href"])
    assert (head.status_code, head.headers["content-length"], head.content) == (200, str(len(CONTENT)), b"")
    assert client.get(first["href"], headers={"If-None-Match": whole.headers["etag"]}).status_code == 304
    assert client.get(first["href"], headers={"Range": "bytes=99999999-"}).status_code == 416
    for answer in (whole, part, head, client.get(f"/platform/results/{request_id}")):
        for text in (*(f"{name}: {value}" for name, value in answer.headers.items()), *shown_text(answer)):
            assert not LEAKS.search(text), text
            assert not [secret for secret in secrets_of(platform) if secret in text], text


def shown_text(answer: httpx.Response) -> list[str]:
    return [answer.text] if answer.headers["content-type"] == "application/json" else []


def test_files_of_an_order_without_an_asset(gateway: Served, platform: Platform, storage: Storage) -> None:
    platform.register(raster_workflow("no_asset", produces=None))
    client, request_id = place(gateway, platform, workflow_id="no_asset", platform_id=None, platform_refs=None)
    publish(platform, storage, request_id, "plain/a.parquet", b"plain")
    platform.finish(platform.seat())
    (file,) = files_of(client, request_id)
    assert client.get(file["href"]).content == b"plain"


def test_only_files_of_the_own_complete_order_are_given(gateway: Served, platform: Platform, storage: Storage) -> None:
    client, request_id = place(gateway, platform)
    name = publish(platform, storage, request_id, "wells/a.parquet", b"mine")
    assert client.get(f"/platform/results/{request_id}/files/{name}").status_code == 404
    platform.finish(platform.seat())
    (file,) = files_of(client, request_id)
    _, other_id = place(gateway, platform, platform_refs={**REFS, "resource_id": "r2"})
    others = publish(platform, storage, other_id, "roads/b.parquet", b"of another order")
    assert client.get(f"/platform/results/{request_id}/files/{others}").status_code == 404
    assert gateway.client(name="bolt").get(file["href"]).json()["code"] == "not_found"
    assert client.get(f"/platform/results/{request_id}/files/nobodys").status_code == 404
    platform.conn.execute("UPDATE dag_blob_assets SET state = 'deleted', deleted_at = now() WHERE sha256 = %s", (name,))
    assert files_of(client, request_id) == []
    assert client.get(file["href"]).status_code == 404


def test_a_missing_file_is_told_without_its_place(gateway: Served, platform: Platform, storage: Storage) -> None:
    client, request_id = place(gateway, platform)
    publish(platform, storage, request_id, "wells/a.parquet", b"mine")
    platform.finish(platform.seat())
    (file,) = files_of(client, request_id)
    storage.delete(BlobAddress(Zone.SILVER, "vectors", "wells/a.parquet"))
    answer = client.get(file["href"])
    assert (answer.status_code, answer.json()["code"]) == (404, "file_gone")
    assert "wells" not in answer.text


def test_a_client_that_reads_slowly_takes_nothing_from_others(
    gateway: Served, platform: Platform, storage: Storage
) -> None:
    client, request_id = place(gateway, platform)
    # More than the buffers of a connection hold.
    publish(platform, storage, request_id, "wells/a.parquet", 5 * CONTENT)
    platform.finish(platform.seat())
    (file,) = files_of(client, request_id)
    with ExitStack() as open_answers:
        for _ in range(files.MOST_OF_CLIENT):
            slow = open_answers.enter_context(client.stream("GET", file["href"]))
            assert slow.status_code == 200
        refused = client.get(file["href"])
        assert (refused.status_code, refused.json()["code"]) == (429, "too_many_downloads")
        assert refused.headers["retry-after"]
        assert client.get(f"/platform/status/{request_id}").status_code == 200
    assert client.get(f"/platform/status/{request_id}").json()["status"] == "completed"
