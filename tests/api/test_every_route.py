"""Every route there is, against every caller who must not get through: a new route cannot be forgotten here."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from hashlib import sha256

import orjson
import pytest

from rmhdag.api.identity import OPEN, is_open
from rmhdag.models.assets import BlobAsset
from rmhdag.models.callbacks import Callback
from rmhdag.models.catalogue import CatalogueEntry
from rmhdag.models.clients import ClientIdentity, IdentityKind
from rmhdag.models.promoted import PromotedEntry
from rmhdag.models.queues import DeadLetter
from rmhdag.models.records import Zone
from rmhdag.models.scopes import Scope
from rmhdag.models.service_calls import ExternalService, ServiceAction, ServiceCall, ServiceKind
from rmhdag.store import api_keys, callback_endpoints, payloads
from rmhdag.store.identity import new_id
from tests.api.routes import WEBSOCKET, Answer, FoundRoute, call, find_routes, unconnected_application
from tests.api.serving import Served
from tests.engine.definitions import task, workflow
from tests.orchestrator.assets import place_order, raster_workflow
from tests.orchestrator.platform import Platform
from tests.store.rows import insert_rows

APPLICATION = unconnected_application()
ROUTES = find_routes(APPLICATION)
GUARDED = [route for route in ROUTES if not is_open(route.path)]

# What belongs to nobody, or to `default` for all: the same for all namespaces.
# And names of clients: one without quotas of its own has the defaults, whether it exists or not.
SHARED = frozenset({"handler", "platform_id", "client_id"})
# They make what they name, in the caller's own namespace: there is nothing that could be unknown.
UPLOADS = frozenset(
    {
        "PUT /api/v1/payloads/{sha256}/chunks/{chunk_index}",
        "POST /api/v1/payloads/{sha256}",
        "PUT /api/v1/services/{name}",
        "PUT /api/v1/promoted/{promoted_id}",
    }
)
# Of the shape that a route wants, and of nothing that exists.
UNKNOWN = {
    "job_id": "0190a0b0c0d07e0f8a0b0c0d0e0f0a0b",
    "node_id": "one",
    "workflow_id": "nobodys",
    "version": "1",
    "dead_letter_id": "0190a0b0c0d07e0f8a0b0c0d0e0f0a0c",
    "key_id": "0123456789abcdef",
    "worker_id": "0190a0b0c0d07e0f8a0b0c0d0e0f0a0d",
    "owner_id": "0190a0b0c0d07e0f8a0b0c0d0e0f0a12",
    "task_id": "0190a0b0c0d07e0f8a0b0c0d0e0f0a0b-0123456789abcdef01234567",
    "sha256": sha256(b"nobody's").hexdigest(),
    "chunk_index": "0",
    "callback_id": "0190a0b0c0d07e0f8a0b0c0d0e0f0a0e",
    "endpoint_id": "0190a0b0c0d07e0f8a0b0c0d0e0f0a0f",
    "handler": "nobodys",
    "request_id": "0190a0b0-c0d0-7e0f-8a0b-0c0d0e0f0a10",
    "asset_id": "0190a0b0c0d07e0f8a0b0c0d0e0f0a11",
    "revision": "1",
    "collection_id": "unheard-of",
    "item_id": "missing-item",
    "namespace": "nobodys",
    "platform_id": "nobodys",
    "client_id": "nobodys",
    "identity_id": "0123456789abcdef",
    "name": "no-service",
    "call_id": "0190a0b0c0d07e0f8a0b0c0d0e0f0a13",
    "promoted_id": "not-promoted",
    "blob_id": sha256(b"nobody's file").hexdigest(),
    "zone": "bronze",
    "container": "nobodys",
}


def all_but(scope: Scope) -> list[Scope]:
    """The most that does not include it; `admin` includes all but `worker` and `platform`."""
    not_admins = (Scope.WORKER, Scope.PLATFORM)
    return [one for one in Scope if one is not scope and (one is not Scope.ADMIN or scope in not_admins)]


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


def check_all(check: Callable[[FoundRoute], str | None]) -> None:
    """All that is wrong at once, each with its route."""
    wrong = [f"{route}: {found}" for route in GUARDED if (found := check(route)) is not None]
    assert not wrong, "\n".join(wrong)


def refused_with(answer: Answer, status: int) -> str | None:
    return None if answer.status == status else f"answers {answer.status}, not {status}: {answer.text[:200]}"


@pytest.fixture
def things(api: Served) -> Iterator[dict[str, str]]:
    """One of everything that a path can name, in the namespace `default`."""
    platform = Platform(api.dsn)
    try:
        definition = workflow(one=task())
        job_id = platform.submit(definition)
        seat = platform.seat()
        seat.work()
        now = datetime.now(UTC)
        letter = DeadLetter(dead_letter_id=new_id(), reason="test", job_id=job_id, body={}, created_at=now)
        stored = payloads.write_json(platform.conn, "default", job_id, b"{}")
        url = "https://example.org/hook"
        callback = Callback(
            callback_id=new_id(),
            job_id=job_id,
            url=url,
            endpoint_url=url,
            host="https://example.org",
            body={},
            created_at=now,
            next_attempt_at=now,
        )
        platform.register(raster_workflow())
        request = place_order(platform.conn).request
        endpoint_id = callback_endpoints.create_endpoint(platform.conn, "default", url, "plain:whsec_x", "test")
        item = CatalogueEntry(
            collection_id="survey", item_id="terrain", created_at=now, changed_at=now, next_attempt_at=now, body={}
        )
        service = ExternalService(
            service_id=new_id(),
            name="portal",
            kind=ServiceKind.WEBHOOK,
            url=url,
            created_by="test",
            created_at=now,
            updated_at=now,
        )
        service_call = ServiceCall(
            call_id=new_id(),
            service_id=service.service_id,
            asset_id=str(request.asset_id),
            revision=1,
            action=ServiceAction.APPROVAL,
            requested_by="test",
            created_at=now,
            next_attempt_at=now,
            body={},
        )
        promoted = PromotedEntry(
            promoted_id="in-front", collection_id="survey", promoted_by="test", promoted_at=now, updated_at=now
        )
        file = BlobAsset(
            blob_id=sha256(b"a file").hexdigest(),
            zone=Zone.SILVER,
            container="survey",
            path="terrain.tif",
            size_bytes=1,
            sha256=sha256(b"x").hexdigest(),
            role="data",
            job_id=job_id,
            created_at=now,
        )
        identity = ClientIdentity(
            identity_id="fedcba9876543210",
            client_id=UNKNOWN["client_id"],
            issuer="https://login.example.org",
            kind=IdentityKind.SUBJECT,
            value="somebody",
            created_by="test",
            created_at=now,
        )
        for row in (letter, callback, item, service, service_call, promoted, file, identity):
            insert_rows(platform.conn, "dagapp", [row])
        made = orjson.dumps({"one": stored.as_json()})
        platform.conn.execute("UPDATE dag_jobs SET result_data = %s WHERE job_id = %s", [made.decode(), job_id])
        row_ids = platform.conn.execute("SELECT task_id FROM dag_node_states WHERE job_id = %s", [job_id]).fetchone()
        assert row_ids is not None
        yield UNKNOWN | {
            "job_id": job_id,
            "workflow_id": definition.workflow_id,
            "dead_letter_id": letter.dead_letter_id,
            "key_id": api_keys.create_key(platform.conn, "ann", [Scope.READ], created_by="test").key_id,
            "worker_id": platform.worker_id,
            "owner_id": seat.me,
            "task_id": str(row_ids[0]),
            "sha256": stored.sha256,
            "callback_id": callback.callback_id,
            "endpoint_id": str(endpoint_id),
            "request_id": request.request_id,
            "asset_id": str(request.asset_id),
            "collection_id": item.collection_id,
            "item_id": item.item_id,
            "platform_id": "ddh",
            "name": service.name,
            "call_id": service_call.call_id,
            "promoted_id": promoted.promoted_id,
            "blob_id": file.blob_id,
            "identity_id": identity.identity_id,
        }
    finally:
        platform.close()


def test_all_routes_are_found() -> None:
    told = {
        (method.upper(), path) for path, operations in APPLICATION.openapi()["paths"].items() for method in operations
    }
    walked = {(route.method, route.path) for route in ROUTES}
    assert told <= walked
    assert {("GET", "/"), ("GET", "/login"), ("POST", "/api/v1/keys/{key_id}/rotate")} <= walked


def test_every_route_says_what_it_needs() -> None:
    check_all(lambda route: None if route.scope is not None else "names no scope: take one of identity's callers")
    assert {route.path for route in ROUTES if route.scope is None} == OPEN | {"/ui/{path:path}", "/ui/static/{name}"}


def test_every_path_has_its_examples() -> None:
    check_all(
        lambda route: None if route.parameters <= set(UNKNOWN) else "add its parameters to `UNKNOWN` and `things`"
    )


def test_without_a_key(api: Served) -> None:
    def check(route: FoundRoute) -> str | None:
        answer = call(api.url, route, UNKNOWN, {})
        if route.method != WEBSOCKET and not answer.headers.get("www-authenticate", "").startswith("Bearer"):
            return "does not say how to authenticate"
        return refused_with(answer, 401)

    check_all(check)


@pytest.mark.parametrize("kind", ["garbage", "unknown", "expired", "revoked", "session"])
def test_with_a_key_that_opens_nothing(api: Served, kind: str) -> None:
    keys = {"garbage": "x", "unknown": f"rmhdag_{'0' * 16}_{'a' * 43}"}
    if kind == "expired":
        keys[kind] = api.key(*Scope, days=-1)
    elif kind in ("revoked", "session"):
        platform = Platform(api.dsn)
        login = api_keys.create_login(platform.conn, "ann", list(Scope), created_by="test", namespace="default")
        keys["session"] = api_keys.open_session(platform.conn, login)
        keys["revoked"] = api.key(*Scope)
        api_keys.revoke_key(platform.conn, "default", keys["revoked"].split("_")[1], revoked_by="test")
        platform.close()
    check_all(lambda route: refused_with(call(api.url, route, UNKNOWN, bearer(keys[kind])), 401))


def test_with_every_scope_but_the_one_that_is_needed(api: Served, things: dict[str, str]) -> None:
    """Whether the thing exists or not: 403 says nothing about it."""
    keys = {
        (route.scope, route.other_scopes): bearer(
            api.key(*(one for one in all_but(route.scope) if one not in route.other_scopes))
        )
        for route in GUARDED
        if route.scope is not None
    }

    def check(route: FoundRoute) -> str | None:
        key = keys[route.scope, route.other_scopes]  # type: ignore[index]
        answers = [call(api.url, route, values, key) for values in (UNKNOWN, things)]
        if answers[0].text != answers[1].text:
            return "tells what exists from what does not"
        return refused_with(answers[0], 403)

    check_all(check)


def test_what_belongs_to_another_namespace_is_unknown(api: Served, things: dict[str, str]) -> None:
    # With the scope `platform` one looks after all namespaces.
    headers = bearer(api.key(*set(Scope) - {Scope.PLATFORM}, namespace="south"))

    def check(route: FoundRoute) -> str | None:
        if not route.parameters - SHARED or route.scope is Scope.PLATFORM:
            return None
        told, wanted = (plain(call(api.url, route, values, headers), values) for values in (things, UNKNOWN))
        if told != wanted:
            return f"tells what exists elsewhere: {told} instead of {wanted}"
        if str(route) in UPLOADS:
            return None
        return None if wanted[0] in (404, 101) else f"answers {wanted[0]}, not 404: {wanted[1][:300]}"

    check_all(check)


def plain(answer: Answer, values: dict[str, str]) -> tuple[int, str]:
    """An answer may repeat what was asked for."""
    text = answer.text
    for name, value in values.items():
        if len(value) > 4:
            text = text.replace(value, f"<{name}>")
    return answer.status, text


def test_in_their_own_namespace_the_same_things_are_found(api: Served, things: dict[str, str]) -> None:
    """Else the test above would show nothing."""
    headers = bearer(api.key(Scope.READ))
    reading = [route for route in GUARDED if route.method == "GET" and route.scope is Scope.READ and route.parameters]
    wrong = [str(route) for route in reading if call(api.url, route, things, headers).status == 404]
    # Files are found where the API has storage: test_maps.py.
    elsewhere = ("{handler}", "/files/{blob_id}", "/thumbnail", "/storage/")
    assert not [line for line in wrong if not any(part in line for part in elsewhere)]
