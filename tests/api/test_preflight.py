"""Checks of workflows and dry runs over HTTP: nothing is created before the files are known to be there."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from rmhdag.api.blob_looks import MOST_CALLS
from rmhdag.models.error_codes import ERROR_CODES
from rmhdag.models.scopes import Scope
from rmhdag.storage import StorageSettings
from rmhdag.workflow import load
from tests.api.serving import ServedHere, served
from tests.api.test_assets import problem
from tests.orchestrator.assets import REFS, place_order, raster_workflow
from tests.orchestrator.platform import Platform

CHECKED = """
workflow_id: checked
produces: raster
inputs:
  file: {type: string, required: true}
  crs: {type: string}
  files: {type: array}
  secret: {type: string, secret: true}
checks:
  - type: blob_exists
    container: uploads
    path: "{{ inputs.file }}"
    max_size_mb: 0.001
    too_large: cut it with gdal_translate -srcwin
  - {type: extension, path: "{{ inputs.file }}", allowed: [.tif]}
  - {type: crs, value: "{{ inputs.crs }}"}
  - {type: blob_list, container: uploads, paths: "{{ inputs.files }}", max_count: 3, max_size_mb: 0.001}
nodes:
  one: {handler: echo, queue: light}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for namespace in ("", "namespace-south/"):
        (tmp_path / f"bronze/{namespace}uploads").mkdir(parents=True)
    (tmp_path / "bronze/uploads/small.tif").write_bytes(b"x" * 1_000)
    (tmp_path / "bronze/uploads/large.tif").write_bytes(b"x" * 1_001)
    (tmp_path / "bronze/uploads/small.png").write_bytes(b"x")
    return tmp_path


@pytest.fixture
def api(migrated_database: str, folder: Path) -> Iterator[ServedHere]:
    with served(migrated_database, storage=StorageSettings(str(folder))) as running:
        yield running


@pytest.fixture
def http(api: ServedHere, platform: Platform) -> httpx.Client:
    for namespace in ("default", "south"):
        platform.register(load(CHECKED).definition, namespace)
    platform.register(raster_workflow())
    return api.client(Scope.READ, Scope.SUBMIT, name="ada")


def job(**params: Any) -> dict[str, Any]:
    return {"workflow_id": "checked", "input_params": params}


def order(**params: Any) -> dict[str, Any]:
    return job(**params) | {"platform_id": "ddh", "platform_refs": REFS}


def counts(platform: Platform) -> dict[str, int]:
    """Rows of all tables."""
    names = platform.conn.execute(
        "SELECT format('%I.%I', schemaname, tablename) FROM pg_tables WHERE schemaname = 'dagapp'"
    ).fetchall()
    # What a request by itself may touch: when its key was used last is a column, not a row.
    return {name: platform.count(name) for (name,) in names}


WRONG: list[tuple[dict[str, Any], dict[str, tuple[str, str]]]] = [
    ({"file": "missing.tif"}, {"/input_params/file": ("FILE_NOT_FOUND", "there is no file 'missing.tif'")}),
    (
        {"file": "large.tif"},
        {"/input_params/file": ("FILE_TOO_LARGE", "at most 0.001 MB are accepted: cut it with gdal_translate")},
    ),
    ({"file": "small.png"}, {"/input_params/file": ("INVALID_FORMAT", "has .png, and accepted are .tif")}),
    ({"file": "../x.tif"}, {"/input_params/file": ("INVALID_PARAMETER", "`..`")}),
    (
        {"file": "small.tif", "crs": "4326", "files": ["small.tif", "no.tif", "large.tif"]},
        {
            "/input_params/crs": ("INVALID_PARAMETER", "write EPSG:n"),
            "/input_params/files/1": ("FILE_NOT_FOUND", "'no.tif'"),
            "/input_params/files/2": ("FILE_TOO_LARGE", "'large.tif'"),
        },
    ),
    ({"file": "small.tif", "files": ["a"] * 4}, {"/input_params/files": ("INVALID_PARAMETER", "4 files are named")}),
]


@pytest.mark.parametrize(("params", "expected"), WRONG)
def test_all_problems_are_told_before_anything_is_created(
    http: httpx.Client, platform: Platform, params: dict[str, Any], expected: dict[str, tuple[str, str]]
) -> None:
    before = counts(platform)
    for path, body in (("jobs", job(**params)), ("submit", order(**params))):
        refused = problem(http.post(f"/api/v1/{path}", json=body), 422)
        assert refused["code"] == "checks_failed"
        places = {place["pointer"]: place for place in refused["errors"]}
        assert places.keys() == expected.keys()
        for pointer, (code, part) in expected.items():
            assert places[pointer]["code"] == code
            assert part in places[pointer]["detail"]
            known = ERROR_CODES[code]
            assert (places[pointer]["category"], places[pointer]["remediation"]) == (known.category, known.remediation)
            assert (places[pointer]["user_fixable"], places[pointer]["retryable"]) == (True, False)
    assert counts(platform) == before


def test_what_passes_is_created(http: httpx.Client) -> None:
    made = http.post("/api/v1/submit", json=order(file="small.tif", crs="EPSG:4326", files=["small.tif"]))
    assert made.status_code == 201, made.text
    assert http.post("/api/v1/jobs", json=job(file="small.tif")).status_code == 201


def test_a_repetition_is_answered_although_the_file_is_gone(http: httpx.Client, folder: Path) -> None:
    body = order(file="small.tif") | {"request_id": "r-1"}
    assert http.post("/api/v1/submit", json=body).status_code == 201
    (folder / "bronze/uploads/small.tif").unlink()
    assert http.post("/api/v1/submit", json=body).status_code == 200


def test_each_job_of_a_batch_is_checked_by_itself(http: httpx.Client) -> None:
    files = ("small.tif", "no.tif", "small.tif", "large.tif")
    answers = http.post("/api/v1/jobs/batch", json={"jobs": [job(file=file) for file in files]}).json()
    assert (answers["created"], answers["refused"]) == (2, 2)
    assert [(line["problem"] or {}).get("code") for line in answers["jobs"]] == [
        None,
        "checks_failed",
        None,
        "checks_failed",
    ]
    assert answers["jobs"][3]["problem"]["errors"][0]["pointer"] == "/jobs/3/input_params/file"


def test_one_call_looks_at_a_bounded_number_of_files(http: httpx.Client, platform: Platform) -> None:
    before = counts(platform)
    jobs = [job(file=f"{number}.tif", files=[f"{number}-{part}.tif" for part in range(3)]) for number in range(300)]
    refused = problem(http.post("/api/v1/jobs/batch", json={"jobs": jobs}), 422)
    assert (refused["code"], "name 1,200 files" in refused["detail"]) == ("check_too_expensive", True)
    assert counts(platform) == before


def test_files_of_another_namespace_are_not_seen(api: ServedHere, http: httpx.Client, folder: Path) -> None:
    south = api.client(Scope.SUBMIT, namespace="south")
    refused = problem(south.post("/api/v1/jobs", json=job(file="small.tif")), 422)
    assert refused["errors"][0]["code"] == "FILE_NOT_FOUND"
    (folder / "bronze/namespace-south/uploads/own.tif").write_bytes(b"x")
    assert south.post("/api/v1/jobs", json=job(file="own.tif")).status_code == 201
    assert problem(http.post("/api/v1/jobs", json=job(file="own.tif")), 422)["code"] == "checks_failed"


def test_without_storage_files_are_not_looked_at(migrated_database: str, platform: Platform) -> None:
    platform.register(load(CHECKED).definition)
    with served(migrated_database) as api:
        http = api.client(Scope.SUBMIT, Scope.READ)
        preview = http.post("/api/v1/jobs", json=job(file="no.tif") | {"dry_run": True}).json()
        assert (preview["valid"], preview["warnings"][0]["code"]) == (True, "CHECKS_SKIPPED")
        assert problem(http.post("/api/v1/jobs", json=job(file="no.png")), 422)["code"] == "checks_failed"
        assert http.post("/api/v1/jobs", json=job(file="no.tif")).status_code == 201


@pytest.fixture
def silent_server() -> Iterator[socket.socket]:
    """It takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(20)
        yield server


def silent_storage(server: socket.socket) -> StorageSettings:
    options = {"aws_endpoint": f"http://127.0.0.1:{server.getsockname()[1]}", "aws_region": "us-east-1"}
    return StorageSettings("s3://bucket", options=options | {"aws_access_key_id": "a", "aws_secret_access_key": "b"})


def test_storage_that_does_not_answer_is_no_missing_file(
    migrated_database: str, platform: Platform, silent_server: socket.socket
) -> None:
    """While it is waited for, no connection of the pool is taken."""
    platform.register(load(CHECKED).definition)
    with served(migrated_database, storage=silent_storage(silent_server), connections=2) as api:
        http = api.client(Scope.SUBMIT, Scope.READ)
        before = counts(platform)
        answers: list[httpx.Response] = []
        call = threading.Thread(target=lambda: answers.append(http.post("/api/v1/submit", json=order(file="a.tif"))))
        call.start()
        peer, _ = silent_server.accept()
        with peer, api.pool.connection(timeout=3), api.pool.connection(timeout=3):
            assert not answers
        call.join()
        refused = problem(answers[0], 503)
    assert (refused["code"], answers[0].headers["Retry-After"]) == ("storage_unavailable", "2")
    assert "it is not known whether the files" in refused["detail"]
    assert counts(platform) == before


def test_few_orders_wait_for_storage_at_once(
    migrated_database: str, platform: Platform, silent_server: socket.socket
) -> None:
    """Those beyond are told at once to come back."""
    platform.register(load(CHECKED).definition)
    with served(migrated_database, storage=silent_storage(silent_server)) as api:
        http = api.client(Scope.SUBMIT, Scope.READ)
        answers: list[httpx.Response] = []

        def call() -> None:
            answers.append(http.post("/api/v1/jobs", json=job(file="a.tif")))

        calls = [threading.Thread(target=call) for _ in range(MOST_CALLS)]
        for thread in calls:
            thread.start()
        peers = [silent_server.accept()[0] for _ in range(MOST_CALLS)]
        refused = problem(http.post("/api/v1/jobs", json=job(file="a.tif")), 503)
        assert (refused["code"], answers) == ("storage_unavailable", [])
        assert http.get("/api/v1/jobs").status_code == 200
        for thread in calls:
            thread.join()
        for peer in peers:
            peer.close()
    assert {answer.status_code for answer in answers} == {503}


# -- dry runs ----------------------------------------------------------------------------------------------------------


def dry(http: httpx.Client, body: dict[str, Any], path: str = "submit") -> dict[str, Any]:
    answer = http.post(f"/api/v1/{path}", json=body | {"dry_run": True})
    assert answer.status_code == 200, answer.text
    preview: dict[str, Any] = answer.json()
    assert preview["dry_run"] is True
    return preview


MAKE: dict[str, Any] = {"workflow_id": "make_raster", "platform_id": "ddh", "platform_refs": REFS}


def test_a_dry_run_writes_nothing(http: httpx.Client, platform: Platform) -> None:
    place_order(platform.conn)
    before = counts(platform)
    bodies = [
        MAKE,
        MAKE | {"supersede": True, "input_params": {"n": 5}},
        MAKE | {"input_params": {"n": 5}},
        MAKE | {"platform_refs": {**REFS, "resource_id": "new"}},
        MAKE | {"platform_id": "nobody"},
        MAKE | {"workflow_id": "nothing"},
        order(file="small.tif", secret="hush-hush"),
        order(file="no.tif"),
    ]
    outcomes = [dry(http, body)["outcome"] for body in bodies]
    assert outcomes == ["join", "create", "conflict", "create", "invalid", "invalid", "conflict", "invalid"]
    assert dry(http, job(file="small.tif", secret="hush-hush"), "jobs")["valid"]
    assert not dry(http, job(file="no.tif"), "jobs")["valid"]
    assert counts(platform) == before


def test_what_a_dry_run_tells_of_an_order(http: httpx.Client, platform: Platform) -> None:
    seat = platform.seat()
    new = dry(http, MAKE | {"platform_refs": {**REFS, "version_id": "1"}, "input_params": {"n": 2}})
    assert (new["valid"], new["outcome"], new["asset_exists"], new["revision"]) == (True, "create", False, 1)
    assert (new["version_label"], new["workflow_version"], new["input_params"]) == ("1", 1, {"n": 2})
    assert (new["waits_for_review"], new["current_version"]) == (False, None)
    made = http.post("/api/v1/submit", json=MAKE | {"platform_refs": {**REFS, "version_id": "1"}}).json()
    assert made["asset_id"] == new["asset_id"]
    platform.finish(seat)
    platform.conn.execute(
        "INSERT INTO dag_platforms (platform_id, identity_refs, version_ref, review, created_by)"
        """ VALUES ('ddh', '["dataset_id", "resource_id"]', 'version_id', 'four_eyes', 'ada')"""
    )
    with served(platform.dsn) as other:
        fresh = other.client(Scope.READ, Scope.SUBMIT, name="ada")
        following = dry(fresh, MAKE | {"platform_refs": {**REFS, "version_id": "2"}})
        assert (following["outcome"], following["revision"], following["waits_for_review"]) == ("create", 2, True)
        assert (following["current_revision"], following["current_version"]) == (1, "1")
        moved = dry(fresh, MAKE | {"platform_refs": {**REFS, "version_id": "2"}, "previous_version": "0"})
        assert (moved["outcome"], moved["problems"][0]["refusal"]) == ("conflict", "previous_version_moved")
        running = fresh.post("/api/v1/submit", json=MAKE | {"platform_refs": {**REFS, "version_id": "2"}}).json()
        again = dry(fresh, MAKE | {"platform_refs": {**REFS, "version_id": "2"}})
        assert (again["outcome"], again["job_id"], again["revision"]) == ("join", running["job_id"], 2)
        other_version = MAKE | {"platform_refs": {**REFS, "version_id": "3"}}
        refused = dry(fresh, other_version)
        assert (refused["valid"], refused["outcome"]) == (False, "conflict")
        assert refused["problems"][0]["refusal"] == "asset_processing"
        assert "supersede" in refused["problems"][0]["remedy"]
        replaced = dry(fresh, other_version | {"supersede": True})
        assert (replaced["outcome"], replaced["revision"]) == ("create", 3)
        assert replaced["supersedes_job_id"] == running["job_id"]


def test_a_dry_run_tells_all_that_is_wrong(http: httpx.Client) -> None:
    body = order(file="no.png", crs="x") | {"platform_refs": {"dataset_id": "d"}, "callback_url": "http://127.0.0.1/"}
    preview = dry(http, body)
    assert (preview["valid"], preview["outcome"], preview["asset_id"]) == (False, "invalid", None)
    assert [(line["refusal"], line["pointer"], line.get("code")) for line in preview["problems"]] == [
        ("callback_url_refused", "/callback_url", None),
        ("checks_failed", "/input_params/file", "INVALID_FORMAT"),
        ("checks_failed", "/input_params/crs", "INVALID_PARAMETER"),
        ("checks_failed", "/input_params/file", "FILE_NOT_FOUND"),
        ("invalid_references", "/platform_refs", None),
    ]


def test_a_dry_run_of_what_was_ordered_before(http: httpx.Client) -> None:
    made = http.post("/api/v1/submit", json=MAKE | {"request_id": "r-1"}).json()
    preview = dry(http, MAKE | {"request_id": "r-1"})
    assert (preview["outcome"], preview["request_id"], preview["job_id"]) == ("repeat", "r-1", made["job_id"])
    other = dry(http, MAKE | {"request_id": "r-1", "priority": 3})
    assert (other["valid"], other["problems"][0]["refusal"]) == (False, "request_reused")
    keyed = {"workflow_id": "make_raster", "idempotency_key": "k"}
    job_id = http.post("/api/v1/jobs", json=keyed).json()["job_id"]
    assert dry(http, keyed, "jobs")["repeats_job_id"] == job_id
    assert dry(http, keyed | {"priority": 1}, "jobs")["problems"][0]["refusal"] == "idempotency_key_reused"
