"""The audit trail: each action leaves one row in its own transaction, and everybody reads what is theirs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from rmhdag.client import Client
from rmhdag.models.scopes import Scope
from rmhdag.services.asset_commands import delete_asset, roll_back
from rmhdag.services.commands import decide
from rmhdag.store import api_keys, workflows
from rmhdag.store.audit import add_audit, list_audit
from rmhdag.store.connection import Conn
from rmhdag.workflow.definition import ApprovalNode
from tests.api.serving import Served, served
from tests.cli.conftest import RunCli, call_cli, home  # noqa: F401 (fixtures)
from tests.engine.definitions import task, workflow
from tests.orchestrator.assets import place_order, raster_workflow
from tests.orchestrator.platform import Platform


@pytest.fixture
def api(migrated_database: str) -> Iterator[Served]:
    with served(migrated_database) as running:
        yield running


@pytest.fixture
def platform(migrated_database: str) -> Iterator[Platform]:
    made = Platform(migrated_database)
    yield made
    made.close()


def actions(conn: Conn, namespace: str = "default") -> list[tuple[str, str]]:
    """Oldest first, without those of the schema."""
    lines = list_audit(conn, namespace, limit=100)
    return [(line.actor, line.action) for line in reversed(lines) if not line.action.startswith("schema.")]


def test_keys_made_rotated_and_revoked(platform: Platform) -> None:
    conn = platform.conn
    made = api_keys.create_key(conn, "ci", [Scope.READ], created_by="ada", days=5)
    api_keys.rotate_key(conn, "default", made.key_id, created_by="bob", overlap_hours=1)
    line = api_keys.revoke_key(conn, "default", made.key_id, revoked_by="cleo")
    assert line.revoked_by == "cleo"
    assert api_keys.revoke_key(conn, "default", made.key_id, revoked_by="dan").revoked_by == "cleo"
    assert actions(conn) == [("ada", "key.create"), ("bob", "key.rotate"), ("cleo", "key.revoke")]
    [rotated] = list_audit(conn, "default", action="key.rotate", limit=9)
    assert (rotated.before, rotated.after["scopes"]) == ({"key_id": made.key_id}, ["read"])
    secret = made.key.rpartition("_")[2]
    assert all(secret not in str(line) for line in list_audit(conn, "default", limit=9))


def test_what_is_not_committed_leaves_no_row(platform: Platform) -> None:
    with platform.conn.transaction(force_rollback=True):
        api_keys.create_key(platform.conn, "ci", [Scope.READ], created_by="ada")
    assert actions(platform.conn) == []


def test_sessions_are_no_keys(platform: Platform) -> None:
    login = api_keys.create_login(platform.conn, "ada", [Scope.READ], created_by="up", namespace="default")
    api_keys.open_session(platform.conn, login)
    assert actions(platform.conn) == []


def test_an_approval_that_is_decided(platform: Platform) -> None:
    definition = workflow(gate=ApprovalNode(next=("after",)), after=task())
    job_id = platform.submit(definition)
    seat = platform.seat()
    seat.work()
    answer = {"issued_by": "ada", "reason": "looks right", "answer_seconds": 0.0}
    decide(platform.conn, job_id, "gate", approved=True, **answer)  # type: ignore[arg-type]
    decide(platform.conn, job_id, "gate", approved=False, **answer)  # type: ignore[arg-type]
    seat.work()
    [line] = list_audit(platform.conn, "default", action="approval", limit=9)
    assert (line.actor, line.subject, line.after) == ("ada", f"job {job_id}, node gate", {"approved": True})
    assert line.reason == "looks right"


def test_assets_and_workflows(platform: Platform) -> None:
    conn = platform.conn
    platform.register(raster_workflow())
    seat = platform.seat()
    for number in (1, 2):
        ordered = place_order(conn, input_params={"n": number})
        platform.finish(seat)
    asset_id = str(ordered.request.asset_id)
    roll_back(conn, "default", asset_id, 1, issued_by="ada")
    for _ in range(2):
        delete_asset(conn, "default", asset_id, issued_by="bob")
    workflows.retire_workflow(conn, "default", "make_raster", "cleo")
    workflows.restore_workflow(conn, "default", "make_raster", "dan")
    assert not workflows.retire_workflow(conn, "default", "nobodys", "cleo")
    found = [
        ("ada", "asset.rollback"),
        ("bob", "asset.delete"),
        ("cleo", "workflow.retire"),
        ("dan", "workflow.restore"),
    ]
    assert actions(conn) == found
    [line] = list_audit(conn, "default", action="asset.rollback", limit=9)
    assert (line.subject, line.before, line.after) == (
        f"asset {asset_id}",
        {"revision": 2},
        {"revision": 3, "content_of": 1},
    )


def fill(conn: Conn) -> None:
    for number in range(7):
        add_audit(conn, "north" if number % 2 else "south", "ada", "key.create", f"key {number}")


def subjects(client: httpx.Client, **query: Any) -> list[str]:
    """Of all pages."""
    found, cursor = [], None
    while True:
        page = client.get("/api/v1/audit", params={"limit": 2, **query, **({"cursor": cursor} if cursor else {})})
        assert page.status_code == 200, page.text
        found += [one["subject"] for one in page.json()["entries"] if one["subject"].startswith("key ")]
        cursor = page.json()["next_cursor"]
        if cursor is None:
            return [one for one in found if len(one) < 7]


def test_an_administrator_sees_the_namespace_and_an_operator_all(api: Served, platform: Platform) -> None:
    fill(platform.conn)
    north, operator = api.client(Scope.ADMIN, namespace="north"), api.client(Scope.PLATFORM)
    assert subjects(north) == ["key 5", "key 3", "key 1"]
    assert subjects(operator) == [f"key {number}" for number in reversed(range(7))]
    assert subjects(north, subject="key 3") == ["key 3"]
    assert subjects(north, action="key") == ["key 5", "key 3", "key 1"]
    assert subjects(north, action="asset") == []
    for scopes in ((Scope.READ,), (Scope.READ, Scope.SUBMIT, Scope.OPERATE), (Scope.WORKER,)):
        assert api.client(*scopes, namespace="north").get("/api/v1/audit").status_code == 403
    for cursor in ("x", "WyJ4Il0", "W3RydWVd", "Wy0xXQ"):
        assert north.get("/api/v1/audit", params={"cursor": cursor}).status_code == 400


def test_the_client_and_the_command_show_it(
    api: Served,
    platform: Platform,
    call_cli: RunCli,  # noqa: F811
) -> None:
    fill(platform.conn)
    key = api.key(Scope.ADMIN, namespace="north")
    with Client(api.url, key) as client:
        assert [one.subject for one in client.audit(action="key") if len(one.subject) < 7] == [
            "key 5",
            "key 3",
            "key 1",
        ]
    near = call_cli("audit", "--namespace", "north", RMHDAG_DATABASE_URL=api.dsn)
    far = call_cli("audit", RMHDAG_URL=api.url, RMHDAG_KEY=key)
    for shown in (near, far):
        assert shown.returncode == 0, shown.stderr
        assert "key.create" in shown.stdout
        assert re.search(r"\bkey 5\s", shown.stdout)
        assert not re.search(r"\bkey 4\s", shown.stdout)
    assert '"entries"' in call_cli("audit", "--json", RMHDAG_URL=api.url, RMHDAG_KEY=key).stdout
