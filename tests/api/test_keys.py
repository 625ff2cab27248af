"""Keys over HTTP: made, shown once, rotated with an overlap, revoked at once, and never worth more than their maker."""

import threading
from typing import Any

import httpx
import pytest

from rmhdag.models.scopes import Scope
from rmhdag.store import api_keys
from rmhdag.store.connection import connect, enter_schema
from tests.api.serving import Served
from tests.api.test_foundation import problem


def make(client: httpx.Client, **given: Any) -> dict[str, Any]:
    answer = client.post("/api/v1/keys", json={"name": "ada", "scopes": ["read"], **given})
    assert answer.status_code == 201, answer.text
    made: dict[str, Any] = answer.json()
    return made


def status_with(api: Served, key: str) -> int:
    return api.anonymous(headers={"Authorization": f"Bearer {key}"}).get("/api/v1/me").status_code


def test_a_key_is_made_and_shown_once(api: Served) -> None:
    admin = api.client(Scope.ADMIN, name="root")
    made = make(admin, scopes=["read", "submit"], expires_days=2)
    assert (made["name"], made["created_by"], made["scopes"], made["state"]) == (
        "ada",
        "root",
        ["read", "submit"],
        "live",
    )
    assert status_with(api, made["key"]) == 200
    answer = admin.get("/api/v1/keys")
    secret = made["key"].split("_", 2)[2]
    assert secret not in answer.text
    assert api_keys.hash_secret(secret) not in answer.text
    assert "secret" not in answer.text
    listed = {line["key_id"]: line for line in answer.json()["keys"]}
    assert listed[made["key_id"]]["name"] == "ada"
    assert listed[made["key_id"]]["last_used_at"] is not None


def test_only_the_hash_of_a_secret_is_stored(api: Served) -> None:
    made = make(api.client(Scope.ADMIN))
    with connect(api.dsn, "test") as conn:
        rows = conn.execute("SELECT k::text FROM dagapp.dag_api_keys AS k").fetchall()
    secret = made["key"].split("_", 2)[2]
    assert not any(secret in row[0] for row in rows)
    assert any(api_keys.hash_secret(secret) in row[0] for row in rows)


def test_a_key_cannot_give_what_its_maker_lacks(api: Served) -> None:
    admin = api.client(Scope.ADMIN)
    answer = admin.post("/api/v1/keys", json={"name": "w", "scopes": ["worker"]})
    problem(answer, 403, "scope_not_yours")
    # Nor by way of rotation, which would show the new key of a worker.
    worker = make(api.client(Scope.ADMIN, Scope.WORKER), scopes=["worker"])
    problem(admin.post(f"/api/v1/keys/{worker['key_id']}/rotate", json={}), 403, "scope_not_yours")
    assert make(admin, scopes=["admin"])["scopes"] == ["admin"]


@pytest.mark.parametrize(
    "given",
    [
        {"scopes": []},
        {"scopes": ["root"]},
        {"name": ""},
        {"name": "x" * 65},
        {"name": "a\nb"},
        {"expires_days": 0},
        {"expires_days": 1e9},
        {"namespace": "south"},
        {"is_admin": True},
        {"key_id": "0" * 16},
    ],
)
def test_a_wrong_wish_is_refused(api: Served, given: dict[str, Any]) -> None:
    answer = api.client(Scope.ADMIN).post("/api/v1/keys", json={"name": "ada", "scopes": ["read"], **given})
    body = problem(answer, 422, "invalid_request")
    assert body["errors"]


def test_two_keys_of_one_holder_live_at_most(api: Served) -> None:
    admin = api.client(Scope.ADMIN)
    first = make(admin)
    second = admin.post(f"/api/v1/keys/{first['key_id']}/rotate", json={"overlap_hours": 1})
    assert second.status_code == 201
    made = second.json()
    assert (made["name"], made["scopes"], made["rotated_from"]) == ("ada", ["read"], first["key_id"])
    assert status_with(api, first["key"]) == status_with(api, made["key"]) == 200
    for key_id in (first["key_id"], made["key_id"]):
        problem(admin.post(f"/api/v1/keys/{key_id}/rotate", json={}), 409, "not_rotated")
    assert admin.post(f"/api/v1/keys/{first['key_id']}/revoke").json()["state"] == "revoked"
    assert admin.post(f"/api/v1/keys/{made['key_id']}/rotate", json={}).status_code == 201


def test_of_many_rotations_at_once_one_succeeds(api: Served) -> None:
    admin = api.client(Scope.ADMIN)
    key_id = make(admin)["key_id"]
    answers: list[int] = []

    def rotate() -> None:
        answers.append(admin.post(f"/api/v1/keys/{key_id}/rotate", json={}).status_code)

    threads = [threading.Thread(target=rotate) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answers) == [201, 409, 409, 409, 409, 409]


def test_without_an_overlap_the_old_key_ends_at_once(api: Served) -> None:
    admin = api.client(Scope.ADMIN)
    first = make(admin, expires_days=5)
    made = admin.post(f"/api/v1/keys/{first['key_id']}/rotate", json={"overlap_hours": 0}).json()
    assert status_with(api, first["key"]) == 401
    assert status_with(api, made["key"]) == 200
    assert made["expires_at"] is not None


def test_a_revoked_key_opens_nothing_from_that_moment(api: Served) -> None:
    admin = api.client(Scope.ADMIN)
    made = make(admin)
    client = api.anonymous(headers={"Authorization": f"Bearer {made['key']}"})
    assert client.get("/api/v1/me").status_code == 200
    assert admin.post(f"/api/v1/keys/{made['key_id']}/revoke").status_code == 200
    problem(client.get("/api/v1/me"), 401, "key_refused")
    again = admin.post(f"/api/v1/keys/{made['key_id']}/revoke")
    assert again.status_code == 200
    problem(admin.post(f"/api/v1/keys/{made['key_id']}/rotate", json={}), 409, "not_rotated")
    shown = {line["key_id"] for line in admin.get("/api/v1/keys").json()["keys"]}
    assert made["key_id"] not in shown


def test_keys_come_in_pages(api: Served) -> None:
    admin = api.client(Scope.ADMIN)
    made = {make(admin)["key_id"] for _ in range(5)}
    seen: list[str] = []
    cursor: str | None = None
    while True:
        page = admin.get("/api/v1/keys", params={"limit": 2} | ({"cursor": cursor} if cursor else {})).json()
        seen += [line["key_id"] for line in page["keys"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert len(seen) == len(set(seen)) == 6
    assert made < set(seen)


def test_verifying_reads_one_row_of_an_index(api: Served) -> None:
    with connect(api.dsn, "test") as conn:
        enter_schema(conn, "dagapp")
        conn.execute(
            """INSERT INTO dag_api_keys (key_id, name, secret_hash, created_by)
            SELECT lpad(to_hex(n), 16, '0'), 'n', lpad(to_hex(n), 64, '0'), 'test' FROM generate_series(1, 5000) AS n"""
        )
        conn.execute("ANALYZE dag_api_keys")
        given = {"key_id": "00000000000000ff", "kind": "key"}
        plan = "\n".join(row[0] for row in conn.execute(b"EXPLAIN " + api_keys.SQL["find_key"], given))
    assert "Index Scan using dag_api_keys_pk" in plan
    assert "Seq Scan" not in plan
