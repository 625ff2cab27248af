"""What a dry run says a job would cost: from its parameters, its files and earlier runs; null is what nobody knows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from rmhdag.models.scopes import Scope
from rmhdag.storage import StorageSettings
from rmhdag.workflow import load
from tests.api.serving import ServedHere, served
from tests.orchestrator.platform import Platform

WORKFLOW = """
workflow_id: measured
inputs:
  files: {type: array, required: true}
checks:
  - {type: blob_list, container: uploads, paths: "{{ inputs.files }}", max_count: 9, max_size_mb: 1}
nodes:
  list: {handler: echo, queue: light, next: each}
  each:
    type: fan_out
    source: "{{ SOURCE }}"
    task: {handler: echo, queue: light}
    next: all
  all: {type: fan_in, aggregation: collect, next: last}
  last: {handler: echo, queue: light, next: END}
"""
BRANCHING = """
workflow_id: measured
inputs:
  files: {type: array, required: true}
nodes:
  one: {handler: echo, queue: light, next: which}
  which: {type: conditional, condition: "inputs.files != []", on_true: two, on_false: END}
  two: {handler: echo, queue: light, next: END}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "bronze/uploads").mkdir(parents=True)
    for name, size in (("a.tif", 1_000), ("b.tif", 234)):
        (tmp_path / "bronze/uploads" / name).write_bytes(b"x" * size)
    return tmp_path


@pytest.fixture
def api(migrated_database: str, folder: Path) -> Iterator[ServedHere]:
    with served(migrated_database, storage=StorageSettings(str(folder))) as running:
        yield running


@pytest.fixture
def http(api: ServedHere) -> httpx.Client:
    return api.client(Scope.READ, Scope.SUBMIT, name="ada")


def preview(http: httpx.Client, *files: str) -> Any:
    body = {"workflow_id": "measured", "input_params": {"files": list(files)}, "dry_run": True}
    answer = http.post("/api/v1/jobs", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def register(platform: Platform, text: str = WORKFLOW, source: str = "inputs.files") -> None:
    platform.register(load(text.replace("SOURCE", source)).definition)


def test_tasks_and_bytes_that_the_parameters_tell(http: httpx.Client, platform: Platform) -> None:
    register(platform)
    # A file that is named twice is read once.
    estimate = preview(http, "a.tif", "b.tif", "a.tif")["estimate"]
    assert (estimate["tasks"], estimate["input_bytes"], estimate["runs"]) == (5, 1_234, 0)
    assert (estimate["p50_seconds"], estimate["p95_seconds"]) == (None, None)


@pytest.mark.parametrize(("text", "source"), [(WORKFLOW, "nodes.list.output.files"), (BRANCHING, "")])
def test_a_number_that_depends_on_what_the_job_finds(
    http: httpx.Client, platform: Platform, text: str, source: str
) -> None:
    register(platform, text, source)
    assert preview(http, "a.tif")["estimate"]["tasks"] is None


def test_a_file_that_is_missing_has_no_size(http: httpx.Client, platform: Platform) -> None:
    register(platform)
    refused = preview(http, "a.tif", "nothing.tif")
    assert not refused["valid"]
    assert (refused["estimate"]["tasks"], refused["estimate"]["input_bytes"]) == (None, None)


def test_durations_are_those_of_enough_earlier_runs(http: httpx.Client, platform: Platform) -> None:
    register(platform, BRANCHING)
    body = {"workflow_id": "measured", "input_params": {"files": []}}
    jobs = [http.post("/api/v1/jobs", json=body).json()["job_id"] for _ in range(5)]
    for number, job_id in enumerate(jobs):
        estimate = preview(http)["estimate"]
        assert (estimate["runs"], estimate["p50_seconds"]) == (number, None)
        platform.conn.execute(
            "UPDATE dag_jobs SET status = 'completed', completed_at = clock_timestamp(),"
            " started_at = clock_timestamp() - %s * interval '1 second' WHERE job_id = %s",
            [100 if number == 4 else 10, job_id],
        )
    estimate = preview(http)["estimate"]
    assert estimate["runs"] == 5
    assert 9 < estimate["p50_seconds"] < 11
    assert 90 < estimate["p95_seconds"] < 110


def test_what_would_not_run_costs_nothing(http: httpx.Client, platform: Platform) -> None:
    register(platform, BRANCHING)
    body = {"workflow_id": "measured", "input_params": {"files": []}, "idempotency_key": "one"}
    assert http.post("/api/v1/jobs", json=body).status_code == 201
    repeat = http.post("/api/v1/jobs", json={**body, "dry_run": True}).json()
    assert repeat["repeats_job_id"] is not None
    assert repeat["estimate"] is None
    unknown = http.post("/api/v1/jobs", json={**body, "workflow_id": "nobodys", "dry_run": True}).json()
    assert (unknown["valid"], unknown["estimate"]) == (False, None)
