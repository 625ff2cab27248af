"""Callbacks and their endpoints over HTTP."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import httpx
import pytest

from rmhdag.models.scopes import Scope
from rmhdag.services.callbacks.settings import CallbackSettings
from rmhdag.services.callbacks.signing import check_secret, new_secret
from rmhdag.store.connection import connect, enter_schema
from rmhdag.store.identity import new_id
from tests.api.serving import Served, served

URL = "https://example.org/hook"
CALLBACKS, ENDPOINTS = "/api/v1/callbacks", "/api/v1/callback-endpoints"


def write_callbacks(api: Served, count: int, *, namespace: str = "default", status: str = "dead") -> list[str]:
    """Newest first, as the list has them."""
    made = []
    with connect(api.dsn, "test", autocommit=True) as conn:
        enter_schema(conn, "dagapp")
        for _ in range(count):
            made.append(new_id())
            conn.execute(
                """INSERT INTO dag_callbacks (callback_id, namespace, job_id, url, endpoint_url, host, body, status,
                    settled_at) VALUES (%(id)s, %(namespace)s, %(job)s, %(url)s, %(endpoint)s, 'https://example.org',
                    '{"status": "completed"}', %(status)s, %(settled)s)""",
                {
                    "id": made[-1],
                    "namespace": namespace,
                    "job": f"{made[-1]}-job",
                    "url": f"{URL}?code=hidden",
                    "endpoint": URL,
                    "status": status,
                    "settled": None if status == "pending" else datetime.now(UTC),
                },
            )
    return made[::-1]


def code(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["code"]


def test_callbacks_are_listed_by_pages_and_filters(api: Served) -> None:
    dead = write_callbacks(api, 3)
    waiting = write_callbacks(api, 2, status="pending")
    write_callbacks(api, 1, namespace="north")
    client = api.client(Scope.READ)
    first = client.get(CALLBACKS, params={"limit": 4}).json()
    rest = client.get(CALLBACKS, params={"limit": 4, "cursor": first["next_cursor"]}).json()
    assert [one["callback_id"] for one in first["callbacks"] + rest["callbacks"]] == waiting + dead
    assert rest["next_cursor"] is None

    def found(**filters: Any) -> list[str]:
        return [one["callback_id"] for one in client.get(CALLBACKS, params=filters).json()["callbacks"]]

    assert found(status="pending") == waiting
    assert found(job_id=f"{dead[0]}-job") == [dead[0]]
    assert found(endpoint_url=URL) == waiting + dead
    assert found(endpoint_url="https://example.org/other") == []
    assert "hidden" not in client.get(CALLBACKS).text


@pytest.mark.parametrize(
    "query", ["status=lost", "limit=0", "limit=501", "cursor=x", "cursor=WzFd", "job_id=%00", "endpoint_url="]
)
def test_a_list_that_cannot_be_is_refused(api: Served, query: str) -> None:
    answer = api.client(Scope.READ).get(f"{CALLBACKS}?{query}")
    assert answer.status_code in (400, 422)
    assert answer.json()["errors"][0]["pointer"].startswith("/query/")


def test_what_is_another_s_is_unknown(api: Served) -> None:
    [theirs] = write_callbacks(api, 1, namespace="north")
    client = api.client(Scope.READ, Scope.OPERATE)
    for name in (theirs, "0" * 32, "x", "ä"):
        assert code(client.get(f"{CALLBACKS}/{name}")) == (404, "not_found")
        assert code(client.post(f"{CALLBACKS}/{name}/redeliver")) == (404, "not_found")


def test_a_callback_is_redelivered_by_operators(api: Served) -> None:
    [callback_id] = write_callbacks(api, 1)
    assert code(api.client(Scope.READ).post(f"{CALLBACKS}/{callback_id}/redeliver")) == (403, "scope_missing")
    answer = api.client(Scope.OPERATE, name="ada").post(f"{CALLBACKS}/{callback_id}/redeliver")
    assert answer.status_code == 200
    told = answer.json()
    assert (told["status"], told["attempts"], told["redelivered_by"]) == ("pending", 0, "ada")
    assert api.client(Scope.READ).get(f"{CALLBACKS}/{callback_id}").json() == told


def test_an_endpoint_shows_its_secret_once(api: Served) -> None:
    client = api.client(Scope.ADMIN, name="ada")
    made = client.post(ENDPOINTS, json={"url": "HTTPS://Example.org:443/hook?x=1"})
    assert made.status_code == 201
    body = made.json()
    secret = check_secret(body.pop("secret"))
    assert (body["url"], body["created_by"]) == (URL, "ada")
    assert client.get(f"{ENDPOINTS}/{body['endpoint_id']}").json() == body
    listed = client.get(ENDPOINTS)
    assert listed.json() == {"endpoints": [body], "next_cursor": None}
    assert secret not in listed.text
    assert code(client.post(ENDPOINTS, json={"url": URL})) == (409, "endpoint_exists")
    assert client.get(ENDPOINTS, params={"limit": 1, "cursor": "WyIwIl0"}).status_code == 400

    given = new_secret()
    rotated = client.post(f"{ENDPOINTS}/{body['endpoint_id']}/rotate", json={"secret": given, "overlap_hours": 1})
    assert rotated.json()["secret"] == given
    assert rotated.json()["previous_expires_at"] is not None


def test_secrets_are_sealed_where_there_is_a_key(migrated_database: str) -> None:
    with served(migrated_database, callbacks=CallbackSettings(secret_key="correct horse battery")) as api:
        secret = api.client(Scope.ADMIN).post(ENDPOINTS, json={"url": URL}).json()["secret"]
    with connect(migrated_database, "test") as conn:
        row = conn.execute("SELECT secret FROM dagapp.dag_callback_endpoints").fetchone()
    assert row is not None
    assert row[0].startswith("scrypt:")
    assert secret not in row[0]


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"url": "http://127.1/"}, "/url"),
        ({"url": "ftp://example.org/"}, "/url"),
        ({"url": ""}, "/url"),
        ({"url": URL, "secret": "short"}, "/secret"),
        ({"url": URL, "secrets": "x"}, "/secrets"),
        ({}, "/url"),
    ],
)
def test_an_endpoint_that_cannot_be_is_refused(api: Served, body: dict[str, Any], pointer: str) -> None:
    answer = api.client(Scope.ADMIN).post(ENDPOINTS, json=body)
    assert answer.status_code == 422
    assert [place["pointer"] for place in answer.json()["errors"]] == [pointer]


def test_an_endpoint_is_disabled_and_enabled(api: Served) -> None:
    client = api.client(Scope.ADMIN)
    [dead] = write_callbacks(api, 1)
    [waiting] = write_callbacks(api, 1, status="pending")
    place = f"{ENDPOINTS}/{client.post(ENDPOINTS, json={'url': URL}).json()['endpoint_id']}"
    assert client.post(f"{place}/disable", json={"reason": "they asked"}).json()["disabled_reason"] == "they asked"
    assert client.get(f"{CALLBACKS}/{waiting}").json()["status"] == "disabled"
    refused = client.post(f"{CALLBACKS}/{dead}/redeliver")
    assert code(refused) == (409, "endpoint_disabled")
    assert "/enable" in refused.json()["remedy"]
    enabled = client.post(f"{place}/enable", json={"redeliver": True}).json()
    assert (enabled["disabled_at"], enabled["redelivered"]) == (None, 1)
    assert client.get(f"{CALLBACKS}/{waiting}").json()["status"] == "pending"


def test_endpoints_are_for_administrators_of_their_namespace(api: Served) -> None:
    made = api.client(Scope.ADMIN, namespace="north").post(ENDPOINTS, json={"url": URL}).json()
    place = f"{ENDPOINTS}/{made['endpoint_id']}"
    here = api.client(Scope.ADMIN)
    assert here.get(ENDPOINTS).json()["endpoints"] == []
    for what in ("", "/rotate", "/disable", "/enable"):
        answer = here.post(f"{place}{what}", json={}) if what else here.get(place)
        assert code(answer) == (404, "not_found")
    assert code(api.client(Scope.OPERATE, namespace="north").get(place)) == (403, "scope_missing")
