"""What must not be possible: other files, other schemas, writing, the network, more than a fair share."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import psycopg
import pytest
from psycopg import errors

from rmhdag.cli.service_databases import find_reason
from rmhdag.serving.roles import RoleRefused
from rmhdag.serving.service_kinds import Service
from tests.serving.conftest import Running

RASTER = "/tiles/collections/rasters/items/dem/assets/data"


@pytest.mark.parametrize(
    "query", ["url=/etc/passwd", "URL=http://x", "%75rl=a", "a=1&url=", "a=1;url=b", "%20url=a", "env=a", "src_path=a"]
)
def test_no_parameter_names_a_file_or_a_url(running: Running, query: str) -> None:
    for path in (f"{RASTER}/info", "/stac/search", "/features/collections", "/files/rasters/dem/data"):
        answer = running.get(f"{path}?{query}")
        assert answer.status_code == 400, path
        assert answer.json()["code"] == "parameter_refused"


@pytest.mark.parametrize("item", ["vrt", "remote", "pointing", "text", "outside", "network", "gone", "nobody"])
def test_only_geotiffs_of_the_storage_are_opened(running: Running, item: str) -> None:
    for what in ("info", "preview.png", "WebMercatorQuad/tilejson.json", "tiles/WebMercatorQuad/0/0/0.png"):
        answer = running.get(f"/tiles/collections/rasters/items/{item}/assets/data/{what}")
        assert answer.status_code in (404, 422), (item, what, answer.text)
        for secret in ("the secret", str(running.folder), "/etc/passwd"):
            assert secret not in answer.text
    if item in ("outside", "network", "gone", "nobody"):
        assert running.get(f"/files/rasters/{item}/data").status_code == 404
    running.trap.setblocking(False)
    with pytest.raises(BlockingIOError):
        running.trap.accept()


def raw(running: Running, head: str) -> bytes:
    """As a client that does not tidy up addresses sends it."""
    parts = urlsplit(running.url)
    with socket.create_connection((str(parts.hostname), int(parts.port or 0)), timeout=20) as connection:
        connection.sendall(head.encode("latin-1") + b"\r\nConnection: close\r\n\r\n")
        answer = b""
        while piece := connection.recv(65536):
            answer += piece
    return answer


@pytest.mark.parametrize(
    "path",
    [
        "/files/rasters/../../etc/passwd",
        "/files/rasters/%2e%2e/data",
        "/tiles/../stac/search",
        "/tiles/collections/rasters/items/..%2f..%2fetc/assets/data/info",
        "/files/rasters/dem/data%5c..%5csecret",
        "//127.0.0.1/stac",
    ],
)
def test_paths_lead_nowhere_else(running: Running, path: str) -> None:
    answer = raw(running, f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1")
    assert answer.split()[1] in (b"400", b"404"), answer[:200]
    assert b"root:" not in answer


@pytest.mark.parametrize("head", ["GET /stac//[x HTTP/1.1", "GET /tiles//a:b/c HTTP/1.1"])
def test_a_path_is_never_read_as_a_host(running: Running, head: str) -> None:
    assert raw(running, f"{head}\r\nHost: x").split()[1] == b"400"


def test_a_range_has_a_number_that_fits(running: Running) -> None:
    headers = {"Range": f"bytes=0-{'9' * 5000}"}
    assert running.get("/files/rasters/dem/data", headers=headers).status_code == 416


def test_links_cannot_be_turned_to_another_server(running: Running) -> None:
    assert raw(running, "GET /stac/ HTTP/1.1\r\nHost: a b<script>").split()[1] == b"400"
    answer = raw(
        running,
        "GET /stac/ HTTP/1.1\r\nHost: 127.0.0.1:7\r\nX-Forwarded-Host: evil.example\r\nForwarded: host=evil.example",
    )
    assert b"evil.example" not in answer


@pytest.mark.parametrize(
    ("method", "path"),
    [
        *(
            (method, path)
            for method in ("PUT", "DELETE", "PATCH")
            for path in ("/stac/collections/rasters", "/files/a")
        ),
        ("POST", "/stac/collections"),
        ("POST", "/stac/collections/rasters/items"),
        ("POST", "/features/collections/geo.places/items"),
        ("POST", f"{RASTER}/statistics"),
        ("OPTIONS", "/stac/search"),
        ("TRACE", "/"),
    ],
)
def test_only_reading_passes(running: Running, method: str, path: str) -> None:
    answer = raw(running, f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 0")
    assert answer.split()[1] == b"405", answer[:200]


@pytest.mark.parametrize(
    "name",
    ["public.outside", "other.hidden", "dagapp.dag_jobs", "geo.places_r1", "geo.secret_places", "pg_catalog.pg_roles"],
)
def test_nothing_but_listed_tables_of_one_schema_is_a_collection(running: Running, name: str) -> None:
    for below in ("", "/items", "/queryables", "/tiles/WebMercatorQuad/0/0/0"):
        assert running.get(f"/features/collections/{name}{below}").status_code == 404, below


@pytest.mark.parametrize(
    "query",
    [
        "filter=name='x';DROP TABLE geo.places&filter-lang=cql2-text",
        "sortby=name;DROP TABLE geo.places",
        "name=x' OR '1'='1",
        "geom-column=geom);DROP TABLE geo.places;--",
        "bbox=1,2,3,4);DROP TABLE geo.places;--",
    ],
)
def test_statements_cannot_be_smuggled_in(running: Running, query: str) -> None:
    answer = running.get(f"/features/collections/geo.places/items?{query}")
    assert answer.status_code in (200, 400, 404), answer.text
    if answer.status_code == 200:
        assert answer.json()["numberMatched"] in (0, len(running.places))
    whole = running.get("/features/collections/geo.places/items?limit=1").json()
    assert whole["numberMatched"] == len(running.places)


WRITES = {
    Service.FEATURES: (
        "INSERT INTO geo.places (name) VALUES ('x')",
        "UPDATE geo.table_catalog SET title = 'x'",
        "DELETE FROM geo.places",
        "DROP TABLE geo.places",
        "CREATE TABLE geo.mine (a int)",
        "CREATE TABLE public.mine (a int)",
        "SELECT * FROM dagapp.dag_jobs",
        "SELECT * FROM other.hidden",
        "SELECT * FROM pgstac.items",
        "COPY (SELECT 1) TO PROGRAM 'cat'",
        "SELECT pg_read_file('postgresql.conf')",
        "CREATE ROLE mine",
    ),
    Service.STAC: (
        "INSERT INTO pgstac.collections (content) VALUES ('{}')",
        "DELETE FROM pgstac.items",
        "SELECT pgstac.delete_item('dem', 'rasters')",
        "SELECT pgstac.create_item('{}')",
        "INSERT INTO pgstac.searches (search) VALUES ('{}')",
        "SELECT * FROM geo.places",
        "SELECT * FROM dagapp.dag_jobs",
        "CREATE TABLE pgstac.mine (a int)",
        "SELECT pg_read_file('postgresql.conf')",
    ),
}


@pytest.mark.parametrize("service", list(WRITES))
def test_the_roles_can_only_read_their_schema(running: Running, service: Service) -> None:
    with psycopg.connect(running.dsns[service], autocommit=True) as conn:
        conn.execute("SET default_transaction_read_only = off")
        for statement in WRITES[service]:
            with pytest.raises((errors.InsufficientPrivilege, errors.ReadOnlySqlTransaction)):
                conn.execute(statement.encode())


def test_a_role_that_can_do_more_is_refused(running: Running) -> None:
    for service in (Service.STAC, Service.FEATURES):
        for dsn in (running.server.owner_dsn(), running.server.app_dsn()):
            with pytest.raises(RoleRefused, match=r"is not fit for /\w+: .*db roles --services"):
                find_reason(service, dsn)
        assert find_reason(service, running.dsns[service]) is None
    with pytest.raises(RoleRefused, match="it can use schema pgstac"):
        find_reason(Service.FEATURES, running.dsns[Service.STAC])


@pytest.mark.parametrize(
    "path",
    [
        f"{RASTER}/preview.png?max_size=100000",
        f"{RASTER}/preview/90000x90000.png",
        f"{RASTER}/preview.png?width=4097&height=1",
        f"{RASTER}/bbox/7.7,46.8,7.9,46.9/90000x1.png",
        f"{RASTER}/info.geojson?crs=%2Bproj%3Dlonglat%20%2Bnadgrids%3D/etc/passwd",
        f"{RASTER}/point/7.8,46.9?coord_crs=/etc/passwd",
        f"{RASTER}/preview.png?dst_crs=http://127.0.0.1:1/crs",
        "/stac/search?" + "a" * 9_000,
    ],
)
def test_requests_that_cost_too_much_or_name_files_are_refused(running: Running, path: str) -> None:
    assert running.get(path).status_code in (400, 414)


def test_a_search_has_a_bounded_body(running: Running) -> None:
    body = b'{"ids": ["' + b"x" * 300_000 + b'"]}'
    headers = {"Content-Type": "application/json"}
    answer = httpx.post(f"{running.url}/stac/search", content=body, headers=headers, trust_env=False)
    assert answer.status_code == 413


@pytest.mark.parametrize("service", list(Service))
def test_each_service_has_its_own_small_world(running: Running, service: Service) -> None:
    place = Path(f"/proc/{running.child_of(service)}")
    facts = dict(line.split(":\t", 1) for line in (place / "status").read_text().splitlines() if ":\t" in line)
    assert facts["NoNewPrivs"] == "1"
    if os.geteuid() == 0:
        assert "0" not in facts["Uid"].split(), "not as root"
    environment = (place / "environ").read_bytes()
    owner = urlsplit(running.server.owner_dsn()).password
    others = [urlsplit(dsn).password for name, dsn in running.dsns.items() if name is not service]
    for secret in (owner, urlsplit(running.server.app_dsn()).password, str(running.folder / "files"), *others):
        assert str(secret).encode() not in environment
    limits = (place / "limits").read_text()
    assert f"Max data size             {1024 * 2**20}" in limits
    if service is Service.TILES:
        assert b"postgresql" not in environment
        allowed = subprocess.run(["unshare", "--net", "true"], capture_output=True).returncode == 0
        assert (os.readlink(place / "ns/net") != os.readlink("/proc/self/ns/net")) is allowed, "no network"


def test_a_service_that_is_killed_is_started_again(running: Running) -> None:
    before = running.child_of(Service.TILES)
    os.kill(before, signal.SIGKILL)
    for _ in range(200):
        # Requests wait at the socket, which stays open; one that was on its way gets 503.
        if running.get(f"{RASTER}/info").status_code == 200:
            break
    assert running.get(f"{RASTER}/info").status_code == 200
    assert running.child_of(Service.TILES) != before
    assert running.get("/features/collections").status_code == 200
