"""Endpoints of callbacks: their secrets, and whether anything is sent to them."""

from __future__ import annotations

import re
from typing import Annotated, Any

import psycopg
from fastapi import APIRouter, Path, Query

from rmhdag.api.context import Api, ApiContext
from rmhdag.api.identity import Administrator
from rmhdag.api.pages import CursorParameter, read_cursor, write_cursor
from rmhdag.api.problems import Problem, callback_refused, not_found
from rmhdag.models.api.callbacks import (
    EndpointDisabling,
    EndpointEnabled,
    EndpointEnabling,
    EndpointMade,
    EndpointPage,
    EndpointRequest,
    EndpointView,
    SecretRotation,
)
from rmhdag.orchestrator.callbacks.destinations import CallbackRefused, check_callback_url
from rmhdag.orchestrator.callbacks.signing import Vault, check_secret, new_secret
from rmhdag.store import callback_endpoints
from rmhdag.store.callback_endpoints import StoredEndpoint

router = APIRouter(prefix="/api/v1", tags=["callbacks"])
Conn = psycopg.Connection[Any]

AN_ID = re.compile(r"[0-9a-f]{32}")
EndpointId = Annotated[str, Path(description="The id of an endpoint", examples=["01983f5e7c8b7d3a9f20c4de51b6a7e8"])]
HOUR = 3600
# What a view never shows.
HIDDEN = {"namespace", "secret", "previous_secret"}


@router.get("/callback-endpoints")
def list_endpoints(
    api: ApiContext,
    caller: Administrator,
    limit: Annotated[int, Query(ge=1, le=500)] = 50,
    cursor: CursorParameter = None,
) -> EndpointPage:
    """Endpoints in the order in which they came to be."""
    with api.connection() as conn:
        after = read_cursor(cursor, checked_id)
        found = callback_endpoints.list_endpoints(conn, caller.namespace, after=after, limit=limit + 1)
    page = found[:limit]
    return EndpointPage(
        endpoints=[EndpointView(**facts(one)) for one in page],
        next_cursor=write_cursor(page[-1].endpoint_id) if len(found) > limit else None,
    )


@router.post("/callback-endpoints", status_code=201)
def create_endpoint(body: EndpointRequest, api: ApiContext, caller: Administrator) -> EndpointMade:
    """Set an endpoint up before the first callback goes there. Its secret is shown this once."""
    url = endpoint_url(api, caller.namespace, body.url)
    secret = chosen_secret(body.secret)
    with api.connection() as conn:
        sealed = vault(api).seal(secret, caller.namespace, url)
        made = callback_endpoints.create_endpoint(conn, caller.namespace, url, sealed, caller.name)
        found = callback_endpoints.find_by_url(conn, caller.namespace, url)
    assert found is not None
    if made is None:
        raise Problem(
            409,
            "endpoint_exists",
            "there is an endpoint with this URL",
            remedy=f"For a new secret: POST /api/v1/callback-endpoints/{found.endpoint_id}/rotate.",
            pointer="/url",
        )
    return EndpointMade(**facts(found), secret=secret)


@router.get("/callback-endpoints/{endpoint_id}")
def read_endpoint(endpoint_id: EndpointId, api: ApiContext, caller: Administrator) -> EndpointView:
    """One endpoint, without its secrets."""
    with api.connection() as conn:
        return EndpointView(**facts(find(conn, caller.namespace, endpoint_id)))


@router.post("/callback-endpoints/{endpoint_id}/rotate")
def rotate_secret(
    endpoint_id: EndpointId, body: SecretRotation, api: ApiContext, caller: Administrator
) -> EndpointMade:
    """A new secret, shown this once. Until the overlap ends both sign: the receiver changes when it suits."""
    secret = chosen_secret(body.secret)
    with api.connection() as conn:
        before = find(conn, caller.namespace, endpoint_id)
        sealed = vault(api).seal(secret, caller.namespace, before.url)
        callback_endpoints.rotate_secret(conn, caller.namespace, endpoint_id, sealed, body.overlap_hours * HOUR)
        found = find(conn, caller.namespace, endpoint_id)
    return EndpointMade(**facts(found), secret=secret)


@router.post("/callback-endpoints/{endpoint_id}/disable")
def disable_endpoint(
    endpoint_id: EndpointId, body: EndpointDisabling, api: ApiContext, caller: Administrator
) -> EndpointView:
    """Send nothing more there; what waits is laid aside."""
    with api.connection() as conn:
        found = find(conn, caller.namespace, endpoint_id)
        callback_endpoints.disable_endpoint(conn, caller.namespace, found.url, body.reason)
        return EndpointView(**facts(find(conn, caller.namespace, endpoint_id)))


@router.post("/callback-endpoints/{endpoint_id}/enable")
def enable_endpoint(
    endpoint_id: EndpointId, body: EndpointEnabling, api: ApiContext, caller: Administrator
) -> EndpointEnabled:
    """Send there again, and on request what was laid aside meanwhile."""
    with api.connection() as conn:
        found = find(conn, caller.namespace, endpoint_id)
        sent = callback_endpoints.enable_endpoint(
            conn, caller.namespace, found.url, caller.name, redeliver=body.redeliver
        )
        return EndpointEnabled(**facts(find(conn, caller.namespace, endpoint_id)), redelivered=sent)


def find(conn: Conn, namespace: str, endpoint_id: str) -> StoredEndpoint:
    known = AN_ID.fullmatch(endpoint_id)
    found = callback_endpoints.find_endpoint(conn, namespace, endpoint_id) if known else None
    if found is None:
        raise not_found(f"callback endpoint {endpoint_id!r}", remedy="GET /api/v1/callback-endpoints lists them.")
    return found


def facts(endpoint: StoredEndpoint) -> dict[str, Any]:
    return {name: value for name, value in endpoint._asdict().items() if name not in HIDDEN}


def endpoint_url(api: Api, namespace: str, given: str) -> str:
    try:
        url = check_callback_url(given, api.settings.callbacks.rules.for_namespace(namespace))
    except CallbackRefused as error:
        raise callback_refused(error, "/url") from None
    return url.partition("?")[0]


def chosen_secret(given: str | None) -> str:
    if given is None:
        return new_secret()
    try:
        return check_secret(given)
    except ValueError as error:
        raise Problem(422, "invalid_secret", str(error), pointer="/secret") from None


def vault(api: Api) -> Vault:
    return api.settings.callbacks.vault()


def checked_id(text: str) -> str:
    if not AN_ID.fullmatch(text):
        raise ValueError(text)
    return text
