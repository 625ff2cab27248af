"""A key may have a highest priority of its own, below that of its namespace."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from rmhdag.client import Client
from rmhdag.models.quotas import Quotas
from rmhdag.models.scopes import Scope
from rmhdag.store import api_keys
from tests.api.serving import ServedHere, served
from tests.cli.conftest import RunCli
from tests.engine.definitions import task, workflow
from tests.orchestrator.platform import Platform

SCOPES = [Scope.SUBMIT, Scope.OPERATE, Scope.READ]


@pytest.fixture
def api(platform: Platform) -> Iterator[ServedHere]:
    platform.register(workflow(a=task()))
    with served(platform.dsn, quotas=Quotas(priority=8)) as made:
        yield made


def key_of(platform: Platform, most: int | None, *scopes: Scope) -> str:
    given: dict[str, Any] = {"created_by": "test", "max_priority": most}
    return api_keys.create_key(platform.conn, "nightly", scopes or SCOPES, **given).key


def job(priority: int) -> dict[str, Any]:
    return {"workflow_id": "under_test", "priority": priority}


def test_jobs_above_it_are_refused_wherever_they_are_submitted(platform: Platform, api: ServedHere) -> None:
    client = api.anonymous(headers={"Authorization": f"Bearer {key_of(platform, 3)}"})
    assert client.post("/api/v1/jobs", json=job(3)).status_code == 201
    bodies = {
        "/api/v1/jobs": job(4),
        "/api/dag/submit": job(4),
        "/api/v1/submit": job(4),
        "/api/v1/jobs/batch": {"jobs": [job(0), job(4)]},
    }
    for path, body in bodies.items():
        answer = client.post(path, json=body)
        assert (answer.status_code, answer.json()["code"]) == (403, "quota_exceeded"), path
        assert answer.json()["quota"] == {"name": "priority", "limit": 3, "used": 4}
        assert "of this key" in answer.json()["detail"]
        assert "--max-priority" in answer.json()["remedy"]
    assert platform.count("dag_jobs") == 1
    assert client.get("/api/v1/me").json()["max_priority"] == 3


def test_the_namespace_may_allow_less_than_the_key(platform: Platform, api: ServedHere) -> None:
    client = api.anonymous(headers={"Authorization": f"Bearer {key_of(platform, 10)}"})
    assert client.post("/api/v1/jobs", json=job(9)).json()["quota"]["limit"] == 8


def test_a_rerun_is_no_more_urgent_than_the_key(platform: Platform, api: ServedHere) -> None:
    seat = platform.seat()
    first = api.client(*SCOPES).post("/api/v1/jobs", json=job(8)).json()["job_id"]
    platform.finish(seat)
    client = api.anonymous(headers={"Authorization": f"Bearer {key_of(platform, 2)}"})
    again = client.post(f"/api/v1/jobs/{first}/rerun", json={"everything": True})
    assert again.status_code == 201, again.text
    priority = platform.conn.execute(
        "SELECT priority FROM dag_jobs WHERE job_id = %s", [again.json()["job_id"]]
    ).fetchone()
    assert priority == (2,)


def test_no_key_is_worth_more_than_its_maker(platform: Platform, api: ServedHere) -> None:
    free = key_of(platform, None, Scope.SUBMIT)
    capped = key_of(platform, 4, Scope.ADMIN)
    client = api.anonymous(headers={"Authorization": f"Bearer {capped}"})

    def make(**more: Any) -> Any:
        return client.post("/api/v1/keys", json={"name": "n", "scopes": ["submit"], **more})

    assert make(max_priority=5).json()["code"] == "priority_not_yours"
    assert make(max_priority=2).json()["max_priority"] == 2
    assert make().json()["max_priority"] == 4
    assert make(max_priority=11).status_code == 422
    rotated = client.post(f"/api/v1/keys/{free.split('_')[1]}/rotate", json={})
    assert rotated.json()["code"] == "priority_not_yours"
    own = client.post(f"/api/v1/keys/{capped.split('_')[1]}/rotate", json={})
    assert own.json()["max_priority"] == 4
    listed = {line["key_id"]: line["max_priority"] for line in client.get("/api/v1/keys").json()["keys"]}
    assert listed[capped.split("_")[1]] == 4
    assert listed[free.split("_")[1]] is None


def test_command_and_client_make_and_show_it(platform: Platform, api: ServedHere, call_cli: RunCli) -> None:
    done = call_cli(
        "keys", "create", "nightly", "--scope", "submit", "--max-priority", "2", RMHDAG_DATABASE_URL=platform.dsn
    )
    assert api_keys.verify_key(platform.conn, done.stdout.strip()).max_priority == 2
    listed = call_cli("keys", "list", RMHDAG_DATABASE_URL=platform.dsn).stdout.splitlines()
    column = listed[0].index("PRIORITY")
    assert listed[1][column:].split()[0] == "2"
    with Client(api.url, api.key(Scope.ADMIN)) as client:
        made = client.create_key("ci", ["submit"], max_priority=1)
        assert made.max_priority == 1
        assert 1 in {line.max_priority for line in client.keys()}  # noqa: SIM118
    trail = platform.conn.execute("SELECT after FROM dag_audit WHERE action = 'key.create' ORDER BY seq").fetchall()
    assert [row[0]["max_priority"] for row in trail if row[0]["name"] in ("nightly", "ci")] == [2, 1]
