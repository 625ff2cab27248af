"""Lists and ids as callers write them: filters, pages, and whatever else may stand in a query or a path."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from rmhdag.models.scopes import Scope
from tests.api.registering import register
from tests.api.serving import Served, served
from tests.api.test_foundation import problem
from tests.engine.definitions import task, workflow


@pytest.fixture(scope="module")
def dsn(postgres: Any, migrated_template: str) -> Iterator[str]:
    yield postgres.create_database("listing", template=migrated_template)
    postgres.drop_database("listing")


@pytest.fixture(scope="module")
def api(dsn: str) -> Iterator[Served]:
    register(dsn, workflow(only=task()))
    with served(dsn) as running:
        yield running


@pytest.fixture(scope="module")
def client(api: Served) -> httpx.Client:
    made = api.client(Scope.SUBMIT, Scope.READ, Scope.OPERATE, name="ada")
    jobs = [
        {"workflow_id": workflow(only=task()).workflow_id, "correlation_id": f"c{number % 3}", "priority": number}
        for number in range(10)
    ]
    assert made.post("/api/v1/jobs/batch", json={"jobs": jobs}).json()["created"] == 10
    return made


def listed(client: httpx.Client, **query: Any) -> list[int]:
    """Jobs by their priority, which is unique here."""
    answer = client.get("/api/v1/jobs", params=query)
    assert answer.status_code == 200, answer.text
    return [job["priority"] for job in answer.json()["jobs"]]


def test_pages(client: httpx.Client) -> None:
    seen: list[int] = []
    query: dict[str, Any] = {"limit": 3}
    while True:
        page = client.get("/api/v1/jobs", params=query).json()
        seen += [job["priority"] for job in page["jobs"]]
        if page["next_cursor"] is None:
            break
        query["cursor"] = page["next_cursor"]
    assert seen == list(range(9, -1, -1))
    assert len(page["jobs"]) == 1


def test_filters(client: httpx.Client) -> None:
    assert listed(client, correlation_id="c1") == [7, 4, 1]
    assert len(listed(client, status=["pending", "failed"])) == 10
    assert listed(client, status="failed") == []
    assert listed(client, submitted_by="bob") == []
    assert len(listed(client, submitted_by="ada", q="ada", since="2020-01-01T00:00:00Z")) == 10
    assert listed(client, until="2020-01-01T00:00:00Z") == []
    newest = client.get("/api/v1/jobs", params={"limit": 1}).json()["jobs"][0]
    assert listed(client, q=newest["job_id"]) == [9]
    assert listed(client, q=newest["job_id"].upper()[:30], limit=1) == [9]
    assert listed(client, root_job_id=newest["job_id"]) == [9]
    assert listed(client, since=newest["created_at"]) == [9]


@pytest.mark.parametrize(
    "q", ["%", "_", "\\", "ad%", "a_a", "c.*", "(a+)+$", "'; DROP TABLE dag_jobs; --", "${x}", "ä"]
)
def test_what_means_much_elsewhere_is_plain_text(client: httpx.Client, q: str) -> None:
    assert listed(client, q=q) == []


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("limit", "-1"),
        ("limit", "0"),
        ("limit", "501"),
        ("limit", "1e9"),
        ("limit", "9223372036854775808"),
        ("limit", "ten"),
        ("status", "done"),
        ("status", "pending'"),
        ("since", "999999-01-01"),
        ("since", "infinity"),
        ("since", "yesterday"),
        ("since", "1767225600"),
        ("until", "0.5"),
        ("since", "2026-01-01T00:00:00"),
        ("until", "1969-01-01T00:00:00Z"),
        ("until", "9999-12-31T23:59:59Z"),
        ("q", ""),
        ("q", "x" * 65),
        ("workflow_id", ""),
        ("submitted_by", "x" * 65),
    ],
)
def test_a_value_that_cannot_be_meant_is_named(client: httpx.Client, name: str, value: str) -> None:
    body = problem(client.get("/api/v1/jobs", params={name: value}), 422, "invalid_request")
    pointer = body["errors"][0]["pointer"]  # type: ignore[index]
    assert pointer.startswith(f"/query/{name}")


def forged(*place: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(place).encode()).decode().rstrip("=")


MOMENT = "2026-01-01T00:00:00+00:00"


@pytest.mark.parametrize("path", ["jobs", "nodes", "tasks"])
@pytest.mark.parametrize(
    "cursor",
    [
        "x",
        "%%%",
        "W10",
        "e30",
        forged(),
        forged(1, 2),
        forged(MOMENT),
        forged("infinity", "j"),
        forged("0001-01-01T00:00:00+00:00", "j"),
        forged("2026-01-01T00:00:00", "j", "n"),
        forged(MOMENT, {"job_id": 1}, "n"),
        forged(MOMENT, "x" * 65, "n"),
        forged(MOMENT, "x\0", "n"),
        forged(MOMENT, "x\0"),
        forged("task", -1),
        forged("task", 2**63),
        forged("task", 1.5),
        forged("task", True),
        "é",
    ],
)
def test_a_forged_cursor_is_refused(client: httpx.Client, path: str, cursor: str) -> None:
    assert client.get(f"/api/v1/{path}", params={"cursor": cursor}).status_code == 400


IDS = [
    "unknown",
    "{01983f5e-7c8b-7d3a-9f20-c4de51b6a7e8}",
    "01983F5E7C8B7D3A9F20C4DE51B6A7E8",
    "%2e%2e%2f%2e%2e%2fadmin",
    "..%5cadmin",
    "x" * 500,
    "%F0%9F%92%A9",
    "%ff%fe",
    "1%20OR%201=1",
    "%3Csvg%20onload=alert(1)%3E",
]


@pytest.mark.parametrize("job_id", IDS)
@pytest.mark.parametrize(
    "view", ["", "/nodes", "/nodes/only", "/graph", "/graph/structure", "/logs", "/nodes/only/logs"]
)
def test_an_id_that_is_none_is_not_found(client: httpx.Client, job_id: str, view: str) -> None:
    problem(client.get(f"/api/v1/jobs/{job_id}{view}"), 404, "not_found")


@pytest.mark.parametrize("job_id", IDS)
@pytest.mark.parametrize("command", ["cancel", "retry", "rerun", "nodes/only/retry", "nodes/only/decide"])
def test_commands_to_nobody_are_not_found(client: httpx.Client, job_id: str, command: str) -> None:
    body = {"decision": "approve"} if command.endswith("decide") else {}
    problem(client.post(f"/api/v1/jobs/{job_id}/{command}", json=body), 404, "not_found")


def test_a_nul_is_no_part_of_an_id(client: httpx.Client) -> None:
    for path in ("/api/v1/jobs/%00", "/api/v1/jobs/x%00y/nodes", "/api/v1/jobs?q=%00", "/api/v1/tasks?job_id=a%00"):
        assert client.get(path).status_code in (404, 422), path


@pytest.mark.parametrize(
    "body",
    [{"reason": "x" * 1001}, {"reason": 5}, {"reason": "x\0"}, {"force": True}, [], "now"],
)
def test_a_cancel_that_is_not_understood(client: httpx.Client, body: Any) -> None:
    job_id = client.get("/api/v1/jobs", params={"limit": 1}).json()["jobs"][0]["job_id"]
    answer = client.post(f"/api/v1/jobs/{job_id}/cancel", json=body)
    assert answer.status_code in (400, 422)


def test_methods_that_are_not_there(client: httpx.Client) -> None:
    for method in ("PUT", "DELETE", "PATCH", "TRACE"):
        problem(client.request(method, "/api/v1/jobs"), 405, "method_not_allowed")
    overridden = client.get("/api/v1/jobs", headers={"X-HTTP-Method-Override": "DELETE"})
    assert overridden.status_code == 200


def test_a_command_that_nobody_hears_is_accepted(client: httpx.Client) -> None:
    job_id = client.get("/api/v1/jobs", params={"limit": 1}).json()["jobs"][0]["job_id"]
    answer = client.post(f"/api/v1/jobs/{job_id}/cancel")
    assert (answer.status_code, answer.json()["outcome"]) == (202, None)
