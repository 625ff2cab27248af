"""What a STAC document may link to: refused where it is registered, and again where it is published."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rmhdag.handlers import NonRetryableError
from rmhdag.models.blobs import BlobAddress
from rmhdag.models.error_codes import ERROR_CODES
from rmhdag.models.hrefs import CODE, find_href_fault
from rmhdag.models.records import BlobRecord, StacItemRecord, Zone
from rmhdag.orchestrator.context import OrchestratorSettings
from rmhdag.storage import StorageSettings, open_storage
from rmhdag.testing import HandlerBench
from tests.orchestrator.platform import Platform
from tests.orchestrator.test_publishing import collection, one_task, report

HOSTILE = [
    "javascript:alert(document.cookie)",
    "JaVaScRiPt:alert(1)",
    "java\nscript:alert(1)",
    " javascript:alert(1)",
    "data:text/html,<script>alert(1)</script>",
    "vbscript:x",
    "file:/etc/passwd",
    "file:" + "//" + "/etc/passwd",
    "/etc/shadow",
    "%2fetc/shadow",
    "//host.example/x",
    "\\\\host\\share",
    "../../../../silver/namespace-beta/cogs/a.tif",
    "a/%2e%2e/%2e%2e/b",
    "a/%252e%252e/b",
    "s3://bucket/x.tif",
    "az://account/container/x.tif",
    "/vsicurl/https://host.example/x.tif",
    "ftp://host.example/x",
    "https://user:pass@host.example/x",
    "https://user@host.example/x",
    "https:///x",
    "https://[::1/x",
    "https://host.example/x?sv=1&sig=SECRET",
    "https://host.example/x?a=1;SIG=SECRET",
    "https://host.example/x?%73ig=SECRET",
    "https://host.example/x?token=SECRET",
    "https://host.example/x?X-Amz-Signature=SECRET",
    "https://host.example/x?X-Amz-Credential=SECRET",
    "https://host.example/x?x-goog-signature=SECRET",
    "https://host.example/x?access_token=SECRET",
    "https://host.example/x?subscription-key=SECRET",
    "https://host.example/x#access_token=SECRET",
]
HARMLESS = [
    "https://host.example/x.tif",
    "http://host.example:8080/a/b.tif?band=1&size=512#top",
    "https://host.example/?collections=dem",
    "./thumbnail.png",
    "files/a%20b.tif",
]


def with_link(href: Any, where: str = "assets") -> dict[str, Any]:
    return {
        "id": "i",
        "type": "Feature",
        "stac_version": "1.1.0",
        "geometry": {"type": "Point", "coordinates": [1, 2]},
        "bbox": [1, 2, 1, 2],
        "properties": {"datetime": "2024-01-01T00:00:00Z"},
        "links": [{"rel": "via", "href": href}] if where == "links" else [],
        "assets": {"data": {"href": href}} if where == "assets" else {},
    }


def is_ours(url: str) -> bool:
    return url == "s3://ours/a.tif"


@pytest.mark.parametrize("href", HOSTILE)
def test_hostile_links_are_found(href: str) -> None:
    for document in (
        with_link(href),
        with_link(href, "links"),
        {"assets": {"a": {"href": "https://host.example/a", "alternate": {"s3": {"href": href}}}}},
        {"providers": [{"name": "p", "url": href}]},
        {"links": [{"rel": "item", "href": "https://host.example/a", "x": [{"href": href}]}]},
    ):
        fault = find_href_fault(document, is_ours)
        assert fault is not None
        assert "cannot be published" in fault
        assert "SECRET" not in fault
        assert "pass@" not in fault


@pytest.mark.parametrize("href", [*HARMLESS, "s3://ours/a.tif"])
def test_harmless_links_pass(href: str) -> None:
    assert find_href_fault(with_link(href), is_ours) is None
    assert find_href_fault(with_link(href, "links"), is_ours) is None


@pytest.mark.parametrize("href", [None, 1, ["https://host.example"], {"href": "javascript:1"}])
def test_what_is_no_text_is_refused(href: Any) -> None:
    assert find_href_fault(with_link(href), is_ours) is not None


def test_structure_may_lead_upwards_but_not_elsewhere() -> None:
    assert find_href_fault({"links": [{"rel": "root", "href": "../../catalog.json"}]}, is_ours) is None
    assert find_href_fault({"links": [{"rel": "root", "href": "javascript:1"}]}, is_ours) is not None
    assert find_href_fault({"assets": {"a": {"rel": "root", "href": "../../x"}}}, is_ours) is not None


def code_of(error: NonRetryableError) -> str:
    assert error.error is not None
    return error.error.code


@pytest.mark.parametrize("handler", ["raster.stac_register_item", "raster.stac_register_items"])
@pytest.mark.parametrize("where", ["assets", "links"])
def test_registering_refuses_it_with_a_code(tmp_path: Path, handler: str, where: str) -> None:
    bench = HandlerBench(tmp_path)
    foreign = bench.storage_of("beta").write(BlobAddress(Zone.SILVER, "cogs", "a.tif"), b"theirs")
    for href in ("javascript:alert(1)", bench.storage_of("beta").url(foreign.address)):
        item = with_link(href, where)
        params = {"item": item} if handler.endswith("item") else {"items": [item]}
        with pytest.raises(NonRetryableError) as refused:
            bench.run(handler, {**params, "collection_id": "c"}, namespace="alpha")
        assert code_of(refused.value) == CODE in ERROR_CODES
    with pytest.raises(NonRetryableError) as refused:
        bench.run(
            "raster.stac_ensure_collection",
            {"collection_id": "c", "providers": [{"name": "p", "url": "https://u:p@host.example"}]},
        )
    assert code_of(refused.value) == CODE


@pytest.fixture
def platform(migrated_database: str) -> Iterator[Platform]:
    made = Platform(migrated_database)
    yield made
    made.close()


def test_publishing_refuses_what_a_handler_let_through(platform: Platform, tmp_path: Path) -> None:
    storage = StorageSettings(str(tmp_path))
    ours, theirs = (open_storage(storage, name).url(BlobAddress(Zone.SILVER, "c", "a")) for name in ("alpha", "beta"))
    seat = platform.seat(OrchestratorSettings(storage=storage))

    def publish(*records: Any) -> Any:
        job_id = platform.submit(one_task(), namespace="alpha")
        seat.work()
        report(platform, platform.claim()[0], records)
        seat.work()
        return platform.job(job_id)

    def item(href: str) -> StacItemRecord:
        return StacItemRecord(collection_id="c", item=with_link(href))

    for refused in (item("javascript:alert(1)"), item(theirs), collection(links=[{"rel": "x", "href": "/etc/x"}])):
        job = publish(refused)
        assert job["status"] == "failed"
        assert CODE in job["error_message"]
        assert "cannot be published" in job["error_message"]
    assert platform.count("dag_catalogue_entries") == 0
    assert publish(item(ours))["status"] == "completed"


@pytest.mark.parametrize(
    ("container", "path"),
    [("cogs", "../a"), ("a/b", "c"), ("namespace-beta", "cogs/a.tif"), ("cogs", "a%2e%2e/%2e%2e")],
)
def test_publishing_refuses_files_that_storage_would_refuse(platform: Platform, container: str, path: str) -> None:
    seat = platform.seat()
    job_id = platform.submit(one_task())
    seat.work()
    record = BlobRecord(zone=Zone.SILVER, container=container, path=path, size_bytes=1, sha256="0" * 64, role="data")
    report(platform, platform.claim()[0], (record,))
    seat.work()
    assert platform.job(job_id)["status"] == "failed"
    assert platform.count("dag_blob_assets") == 0
