"""Endpoints of callbacks: their secrets, and whether anything is sent to them."""

from __future__ import annotations

import re
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query

from rmhdag.api.context import Api, ApiContext
from rmhdag.api.identity import Administrator
from rmhdag.api.pages import CursorParameter, read_cursor, write_cursor
from rmhdag.api.problems import not_found
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
from rmhdag.models.refusals import Kind, Refusal
from rmhdag.services.callbacks.destinations import CallbackRefused, check_callback_url
from rmhdag.services.callbacks.signing import Vault, check_secret, new_secret
from rmhdag.store import callback_endpoints
from rmhdag.store.callback_endpoints import StoredEndpoint
from rmhdag.store.connection import Conn

router = APIRouter(prefix="/api/v1", tags=["callbacks"])

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
    """Endpoints, oldest first."""
    with api.connection() as conn:
        after = read_cursor(cursor, checked_id)
        lines = callback_endpoints.list_endpoints(conn, caller.namespace, after=after, limit=limit + 1)
    page = lines[:limit]
    return EndpointPage(
        endpoints=[EndpointView(**facts(endpoint)) for endpoint in page],
        next_cursor=write_cursor(page[-1].endpoint_id) if len(lines) > limit else None,
    )


@router.post("/callback-endpoints", status_code=201)
def create_endpoint(body: EndpointRequest, api: ApiContext, caller: Administrator) -> EndpointMade:
    """Create an endpoint before the first callback is sent there. Its secret is shown only now."""
    url = endpoint_url(api, caller.namespace, body.url)
    secret = chosen_secret(body.secret)
    with api.connection() as conn:
        sealed = vault(api, conn).seal(secret, caller.namespace, url)
        endpoint = callback_endpoints.create_endpoint(conn, caller.namespace, url, sealed, caller.name)
        existing = callback_endpoints.find_by_url(conn, caller.namespace, url)
    assert existing is not None
    if endpoint is None:
        raise Refusal(
            Kind.CONFLICT,
            "endpoint_exists",
            "there is an endpoint with this URL",
            remedy=f"For a new secret: POST /api/v1/callback-endpoints/{existing.endpoint_id}/rotate.",
            pointer="/url",
        )
    return EndpointMade(**facts(existing), secret=secret)


@router.get("/callback-endpoints/{endpoint_id}")
def read_endpoint(endpoint_id: EndpointId, api: ApiContext, caller: Administrator) -> EndpointView:
    """One endpoint, without its secrets."""
    with api.connection() as conn:
        return EndpointView(**facts(find(conn, caller.namespace, endpoint_id)))


@router.post("/callback-endpoints/{endpoint_id}/rotate")
def rotate_secret(
    endpoint_id: EndpointId, body: SecretRotation, api: ApiContext, caller: Administrator
) -> EndpointMade:
    """Create a new secret, shown only now. Until the overlap ends, callbacks are signed with both."""
    secret = chosen_secret(body.secret)
    with api.connection() as conn:
        before = find(conn, caller.namespace, endpoint_id)
        sealed = vault(api, conn).seal(secret, caller.namespace, before.url)
        callback_endpoints.rotate_secret(conn, caller.namespace, endpoint_id, sealed, body.overlap_hours * HOUR)
        endpoint = find(conn, caller.namespace, endpoint_id)
    return EndpointMade(**facts(endpoint), secret=secret)


@router.post("/callback-endpoints/{endpoint_id}/disable")
def disable_endpoint(
    endpoint_id: EndpointId, body: EndpointDisabling, api: ApiContext, caller: Administrator
) -> EndpointView:
    """Send no more callbacks there; waiting ones are put aside."""
    with api.connection() as conn:
        endpoint = find(conn, caller.namespace, endpoint_id)
        callback_endpoints.disable_endpoint(conn, caller.namespace, endpoint.url, body.reason)
        return EndpointView(**facts(find(conn, caller.namespace, endpoint_id)))


@router.post("/callback-endpoints/{endpoint_id}/enable")
def enable_endpoint(
    endpoint_id: EndpointId, body: EndpointEnabling, api: ApiContext, caller: Administrator
) -> EndpointEnabled:
    """Send callbacks there again, and on request those that were put aside."""
    with api.connection() as conn:
        endpoint = find(conn, caller.namespace, endpoint_id)
        count = callback_endpoints.enable_endpoint(
            conn, caller.namespace, endpoint.url, caller.name, redeliver=body.redeliver
        )
        return EndpointEnabled(**facts(find(conn, caller.namespace, endpoint_id)), redelivered=count)


def find(conn: Conn, namespace: str, endpoint_id: str) -> StoredEndpoint:
    is_id = AN_ID.fullmatch(endpoint_id)
    endpoint = callback_endpoints.find_endpoint(conn, namespace, endpoint_id) if is_id else None
    if endpoint is None:
        raise not_found(f"callback endpoint {endpoint_id!r}", remedy="GET /api/v1/callback-endpoints lists them.")
    return endpoint


def facts(endpoint: StoredEndpoint) -> dict[str, Any]:
    return {name: value for name, value in endpoint._asdict().items() if name not in HIDDEN}


def endpoint_url(api: Api, namespace: str, text: str) -> str:
    try:
        url = check_callback_url(text, api.settings.callbacks.rules.for_namespace(namespace))
    except CallbackRefused as error:
        raise CallbackRefused(error.message, "/url") from None
    return url.partition("?")[0]


def chosen_secret(secret: str | None) -> str:
    if secret is None:
        return new_secret()
    try:
        return check_secret(secret)
    except ValueError as error:
        raise Refusal(Kind.INVALID, "invalid_secret", str(error), pointer="/secret") from None


def vault(api: Api, conn: Conn) -> Vault:
    """Ready to seal for this database."""
    keys = api.settings.callbacks.vault()
    keys.prepare(conn)
    return keys


def checked_id(text: str) -> str:
    if not AN_ID.fullmatch(text):
        raise ValueError(text)
    return text
